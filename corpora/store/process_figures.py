"""What a process has used so far, together with the processes that it started: read from /proc.

A process that is gone has used nothing. Cost: a few file reads for each process and thread, 0.2 ms for one of ten.
"""

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> list[int]:
    """A process and all that it started, and those that these started."""
    found = [pid]
    for member in found:  # grows on the way
        try:
            for thread in Path(f"/proc/{member}/task").iterdir():
                found += [int(child) for child in (thread / "children").read_text().split()]
        except OSError:  # it has ended, or the kernel lists no children
            continue
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of some processes, and of their children that have ended."""
    return sum(int(ticks) for pid in pids for ticks in _stat(pid)[11:15]) / _TICKS


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def wants_to_run(pids: Iterable[int]) -> bool:
    """Whether one of some processes runs, or would if it were given a processor."""
    return any(_stat(pid)[:1] == ["R"] for pid in pids)


def _stat(pid: int) -> list[str]:
    """The fields after the name; none where the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []
