"""Turns: what the processes of a machine do one after another, by the system's locks on files.

A lock is the system's, not the file's: it ends with the process that holds it, however that goes, so nothing is
left to be cleaned up and nothing goes stale. A file that was held for a turn is removed again.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from corpora.errors import InputError

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def turn(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a file for the time of the block, alone; `waiting` is called where another process holds it first.

    Raises OSError where the file cannot be written or the file system knows no locks.
    """
    held = _hold(path, waiting)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held: who waits for it looks whether it is still there
        held.close()


def _hold(path: Path, waiting: Callable[[], None]) -> TextIO:
    while True:
        with ExitStack() as opened:
            held = opened.enter_context(path.open("a", encoding="utf-8"))
            if not _take(held):
                waiting()
                fcntl.flock(held, fcntl.LOCK_EX)
            if _is_at(held, path):
                opened.pop_all()
                return held


def _take(held: TextIO) -> bool:
    """Lock an open file for this process alone, if no other has a part in it; a part of our own is given up for it."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Seat:
    """A part in something that several processes of this machine may do: shared, or at times one process's alone."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def is_alone(self) -> bool:
        """Whether no other process has a part. If so none gets one until `share`; if not, this one's is given up."""
        return _take(self._file)

    def share(self) -> None:
        """Have a part together with others; waits while another process is alone."""
        fcntl.flock(self._file, fcntl.LOCK_SH)


def _is_at(held: TextIO, path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(held.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def recipe_turn(lock_path: Path | None, tell: Callable[[str], None]) -> Iterator[None]:
    """Keep other runs of a recipe from its lock for the time of the block, so that no two find one file to be new.

    Raises InputError where the lock's folder cannot be written.
    """
    with ExitStack() as held:
        if lock_path is not None:
            beside = lock_path.with_name(f".{lock_path.name}.held")
            try:
                beside.parent.mkdir(parents=True, exist_ok=True)
                held.enter_context(turn(beside, lambda: tell("Another run of this recipe finds its raw files first.")))
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise InputError(
                        f"Cannot write {lock_path}: {error.strerror}. The lock stands beside its recipe: copy the "
                        "recipe to a folder that you may write."
                    ) from error
                beside.unlink()
                tell(f"The file system of {lock_path.parent} knows no locks: run this recipe once at a time.")
        yield
