"""Exits from a command's process without a last garbage collection of everything that was imported.

Handlers that libraries registered for the exit are run, unless they would wait for something that is gone.
"""

import gc
import os
import sys
import threading
import traceback
from types import TracebackType

_without_waiting = threading.Event()


def skip_garbage_collection() -> None:
    """Exclude all existing objects from garbage collection, so that the process exits without visiting each of them."""
    gc.freeze()


def exit_without_waiting() -> None:
    """Make `exit_process` end this process immediately, without running the exit handlers of libraries.

    Data that a library has not sent by then is lost. An uncaught exception also ends the process immediately: its
    traceback is printed, and the exit code is 1.
    """
    _without_waiting.set()
    sys.excepthook = _print_and_exit


def exit_process(code: int) -> None:
    """Exit the process with an exit code, without a final garbage collection. Does not return.

    The exit handlers of libraries are run, unless `exit_without_waiting` was called before.
    """
    if _without_waiting.is_set():
        _exit_now(code)
    skip_garbage_collection()
    sys.exit(code)


def _print_and_exit(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    traceback.print_exception(kind, error, trace)
    _exit_now(1)


def _exit_now(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
