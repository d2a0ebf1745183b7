"""Processes as the system has them: who started whom, what they do, what they have used. Read from Linux's /proc.

Also the end of this process: together with its parent, by a signal that it does not ignore, and at once.

A process that is gone has no children and has used nothing. Cost: a few file reads for each process and thread, 0.2 ms
for one of ten threads.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # linux/prctl.h
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def list_children(pid: int) -> list[int]:
    """List the ids of the living child processes of a process; empty if the process is gone."""
    try:
        threads = [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []
    # The oldest thread last: it inherits the children of one that ends meanwhile.
    lists = [_read_file(pid, f"task/{thread}/children") for thread in sorted(threads, reverse=True)]
    return [child for line in lists for child in map(int, line.split()) if is_alive(child)]


def list_process_tree(pid: int) -> list[int]:
    """List the id of a process, followed by the ids of its living descendants, parents before children."""
    members = [pid]
    for member in members:  # grows on the way
        members += list_children(member)
    return members


def is_alive(pid: int) -> bool:
    """Return True if a process exists and has not ended. A zombie (ended, but not yet reaped) is not alive."""
    return _read_stat(pid)[:1] not in ([], ["Z"], ["X"])


def read_start_ticks(pid: int) -> int:
    """Read the start time of a process, in clock ticks since boot; 0 if it is gone."""
    fields = _read_stat(pid)
    return int(fields[19]) if fields else 0


def is_any_runnable(pids: Iterable[int]) -> bool:
    """Return True if any of the processes with these ids is running or waiting for a processor."""
    return any(_read_stat(pid)[:1] == ["R"] for pid in pids)


def is_signal_ignored(pid: int, number: signal.Signals) -> bool:
    """Return True if a process ignores a signal; False if it does not or is gone."""
    lines = _read_file(pid, "status").splitlines()
    ignored = next((line.split()[1] for line in lines if line.startswith("SigIgn")), "0")
    return bool(int(ignored, 16) >> (number - 1) & 1)


def send_signal(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process. Nothing happens if the process is gone.

    Raises:
        PermissionError: If this user may not signal the process.
    """
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def read_cpu_seconds(pids: Iterable[int]) -> float:
    """Return the total user and system time, in seconds, of the given processes and of their reaped children."""
    return sum(int(ticks) for pid in pids for ticks in _read_stat(pid)[11:15]) / _TICKS_PER_SECOND


def read_resident_bytes(pid: int) -> int:
    """Read the resident memory of a process in bytes; 0 if it is gone."""
    fields = _read_file(pid, "statm").split()
    return int(fields[1]) * _PAGE_BYTES if fields else 0


def exit_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent ends. If the parent has already ended, exit immediately.

    Args:
        parent: The expected id of the parent process.

    Raises:
        OSError: If the kernel refuses the request.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def name_process(name: str) -> None:
    """Set the name that `ps -e` and `top` show for this process. It is truncated to 15 bytes."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def exit_now(code: int) -> NoReturn:
    """Flush the standard streams and exit immediately with an exit code, without finalizing the interpreter.

    During finalization, a torch thread that still holds a tensor of a finished collective can abort the process,
    although its work is done.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def install_handlers(handler: Callable[[int, FrameType | None], None]) -> Mapping[signal.Signals, Any]:
    """Install a handler for the signals that stop a process (SIGINT, SIGTERM, SIGHUP), except those that are ignored.

    Returns:
        The previous handler of each signal that was changed.
    """
    taken = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in taken}


def _read_stat(pid: int) -> list[str]:
    """Return the fields of `/proc/PID/stat` after the process name: the state, such as "R", then numbers as strings.

    The list is empty if the process is gone.
    """
    return _read_file(pid, "stat").rpartition(")")[2].split()


def _read_file(pid: int, name: str) -> str:
    """Return the text of a file in `/proc/PID`, or "" if the process is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
