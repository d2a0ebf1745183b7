"""How the process leaves: with what libraries do at its end, unless they would wait for something that is gone."""

import os
import sys
import threading
import traceback
from types import TracebackType

_at_once = threading.Event()


def leave_at_once() -> None:
    """From now on the end of this process waits for nothing: what libraries still have to send is lost."""
    _at_once.set()
    sys.excepthook = _fail


def leave(code: int) -> None:
    """End the process."""
    if _at_once.is_set():
        _end(code)
    sys.exit(code)


def _fail(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    traceback.print_exception(kind, error, trace)
    _end(1)


def _end(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
