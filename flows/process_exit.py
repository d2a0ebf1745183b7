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
    """Freeze all objects, so that the exit of the process does not walk through them."""
    gc.freeze()


def exit_without_waiting() -> None:
    """Make the exit of this process wait for no library; what they still have to send is lost."""
    _without_waiting.set()
    sys.excepthook = _print_and_exit


def exit_process(code: int) -> None:
    """Exit with a code."""
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
