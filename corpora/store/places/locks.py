"""Locks: what the processes of a machine do one at a time, by the system's locks on files.

A lock is the system's, not the file's: it ends with the process that holds it, however that goes, so nothing goes
stale; a killed process may leave an empty file, which blocks nobody. What takes a lock here raises
OSError where the file system knows none.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # what a file system without locks answers


@contextmanager
def held(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a file for the time of the block, alone; `waiting` is called where another process holds it first.

    The file is made, and removed again at the end. Raises OSError where it cannot be written.
    """
    file = _hold(path, waiting)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held: a waiting process checks that it still exists
        file.close()


def _hold(path: Path, waiting: Callable[[], None]) -> IO[str]:
    while True:
        with ExitStack() as opened:
            file = opened.enter_context(path.open("a", encoding="utf-8"))
            if not try_lock(file):
                waiting()
                lock(file)
            if is_at(file, path):
                opened.pop_all()
                return file


def lock(file: IO[Any]) -> None:
    """Lock an open file for this process alone; waits for another that has a lock on it."""
    fcntl.flock(file, fcntl.LOCK_EX)


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file for this process alone, if no other has a lock on it; a shared lock of our own is released."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(path: Path) -> bool:
    """Tell whether a process holds a lock on a file."""
    try:
        with path.open("r+") as file:
            return not try_lock(file)
    except FileNotFoundError:
        return False


def is_at(file: IO[Any], path: Path) -> bool:
    """True if an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
