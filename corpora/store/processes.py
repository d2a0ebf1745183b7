"""The processes that this one started, as the system has them. Linux alone tells; a look costs a few milliseconds."""

import os
import signal
from pathlib import Path


def children() -> list[int]:
    """Ids of the living processes whose parent is this one, whichever of its threads started them."""
    mine = str(os.getpid())
    numbers = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [pid for pid in numbers if _state(pid)[1] == mine and lives(pid)]


def lives(pid: int) -> bool:
    """Whether a process runs, sleeps or is stopped: it is neither gone nor only not yet waited for."""
    return _state(pid)[0] not in ("", "Z", "X")


def ignores(pid: int, number: signal.Signals) -> bool:
    """Whether a process ignores a signal."""
    ignored = next((line.split()[1] for line in _read(pid, "status") if line.startswith("SigIgn")), "0")
    return bool(int(ignored, 16) >> (number - 1) & 1)


def send(pid: int, number: signal.Signals) -> None:
    """Send a process a signal, if it is there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _state(pid: int) -> tuple[str, str]:
    """A letter for what a process does, and its parent; empty where it is gone."""
    stat = _read(pid, "stat")
    if not stat:
        return "", ""
    state, parent = "".join(stat).rpartition(")")[2].split()[:2]
    return state, parent


def _read(pid: int, name: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []
