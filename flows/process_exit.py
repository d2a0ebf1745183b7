"""Ends a command's process without walking through everything that was imported, in search of garbage.

Libraries do what they have to at the end, unless they would wait for something that is gone.
"""

import gc
import os
import sys
import threading
import traceback
from types import TracebackType

_without_waiting = threading.Event()


def skip_garbage_collection() -> None:
    """Skip garbage collection: the process ends, and its memory goes with it."""
    gc.freeze()


def exit_without_waiting() -> None:
    """Make the end of this process wait for nothing: what libraries still have to send is lost."""
    _without_waiting.set()
    sys.excepthook = _print_and_exit


def exit_process(code: int) -> None:
    """End the process."""
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
