"""Files and folders that appear whole: made next to their place under another name, flushed to the disk and renamed.

Promise: who looks at a path sees the old contents or the new ones, never half. What a killed
process leaves is hidden and ends with `UNFINISHED`.

Cost: the disk's time for one flush, some milliseconds.
"""

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

UNFINISHED: Final = ".tmp"

_SPACE, _PERMISSIONS, _MOVE = "free some space, or ", "change its permissions, or ", "move it away, or "
_FORBIDDEN = ("this folder may not be written by you", _PERMISSIONS)
_IN_THE_WAY = ("a file is where a folder is needed, or a folder where a file is", _MOVE)
_REFUSALS = {
    errno.ENOSPC: ("the disk is full", _SPACE),
    errno.EDQUOT: ("the disk quota is used up", _SPACE),
    errno.EFBIG: ("the file is larger than is allowed here", _SPACE),
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: ("this file system is read-only", ""),
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EISDIR: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
}


def unfinished(path: Path, alone: bool = False) -> Path:
    """Where to make what is to be at a path, in the same folder.

    alone: no other process makes it meanwhile. Then there is one name, and what a killed process left is found there

    >>> unfinished(Path("store/table.arrow"), alone=True).as_posix()
    'store/.table.arrow.tmp'
    """
    own = "" if alone else f".{uuid.uuid4().hex}"
    return path.with_name(f".{path.name}{own}{UNFINISHED}")


@contextmanager
def replaced_file(path: Path, alone: bool = False) -> Iterator[Path]:
    """A path to write to: the file there takes the place of the one at `path` when the block ends well.

    alone: as for `unfinished`
    """
    new = unfinished(path, alone)
    try:
        yield new
        put_file(new, path)
    finally:
        new.unlink(missing_ok=True)


def put_file(new: Path, path: Path) -> None:
    """Give a finished file its name. Its writer has no bytes of it left in memory."""
    _flush(new, os.O_RDONLY)
    new.replace(path)


def disk_refusal(error: OSError, elsewhere: str) -> str | None:
    """What the disk refuses and what the user can do; None where it is nothing that they can mend.

    elsewhere: how to write to another place

    >>> disk_refusal(OSError(errno.EROFS, "Read-only file system"), "choose another store")
    'this file system is read-only: choose another store'
    """
    if error.errno not in _REFUSALS:
        return None
    cause, remedy = _REFUSALS[error.errno]
    return f"{cause}: {remedy}{elsewhere}"


def flush_folder(folder: Path) -> None:
    """Have the system write down which names a folder holds."""
    _flush(folder, os.O_RDONLY | os.O_DIRECTORY)


def _flush(path: Path, flags: int) -> None:
    number = os.open(path, flags)
    try:
        os.fsync(number)
    finally:
        os.close(number)
