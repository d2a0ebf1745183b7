"""Ends the processes of a training: with their parent, by a signal that they heed, and at once. No torch."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn

TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent is gone. Where it is gone already, end at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def leave(code: int) -> NoReturn:
    """End this process now, without the interpreter's finalisation.

    A thread of torch may still hold the tensor of a collective that is over. Where it lets go of it while the
    interpreter is finalised, the process aborts, although its work is done.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def take_signals(handler: Callable[[int, FrameType | None], None]) -> Mapping[signal.Signals, Any]:
    """Have the signals that stop a process handled, but for those that it ignores; who handled them before."""
    taken = [number for number in TO_STOP if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in taken}
