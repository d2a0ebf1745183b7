"""Ends a command's process without walking through everything that was imported, in search of garbage.

Libraries do what they have to at the end, unless they would wait for something that is gone.
"""

import gc
import os
import sys
import threading
import traceback
from types import TracebackType

_at_once = threading.Event()


def leave_garbage() -> None:
    """Skip garbage collection: the process ends, and its memory goes with it."""
    gc.freeze()


def leave_at_once() -> None:
    """Make the end of this process wait for nothing: what libraries still have to send is lost."""
    _at_once.set()
    sys.excepthook = _fail


def leave(code: int) -> None:
    """End the process."""
    if _at_once.is_set():
        _end(code)
    leave_garbage()
    sys.exit(code)


def _fail(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    traceback.print_exception(kind, error, trace)
    _end(1)


def _end(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
