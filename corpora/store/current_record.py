"""Which record this process is reading: the one thing that a worker tells of itself while it works.

A worker that hangs, explodes or crashes cannot say over which record. So what reads a record says so before it
begins, in a page of memory shared with the process that watches. In a process that nobody watches it says so to
nobody. Cost: 0.2 microseconds a record.
"""

from typing import Any, Final

SIZE_BYTES: Final = 512

_sheet: Any = None


def watch_over(sheet: Any) -> None:
    """From now on write on this sheet, an array of SIZE_BYTES characters in shared memory."""
    global _sheet
    _sheet = sheet


def reading(what: str) -> None:
    """Say which record is read from now on; "" for none."""
    if _sheet is not None:
        _sheet.value = what.encode()[: SIZE_BYTES - 1]


def read_sheet(sheet: Any) -> str:
    """What the other process reads."""
    return bytes(sheet.value).decode(errors="replace")
