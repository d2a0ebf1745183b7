"""Files that appear whole, locks on files, and errors of disks and object stores that say what to do.

Files: a file is written next to its place under another name, flushed to the disk and renamed. Promise: a reader of a
path sees the old contents or the new ones, never half. What a killed process leaves is hidden and ends with
UNFINISHED_SUFFIX. `remove_abandoned` tells it from what another process writes by the lock that a writer has on its
file. A writer that is the only one needs no lock: the next one finds what was left under the one name, and overwrites
it. Cost: the disk's time for one flush, some milliseconds.

Locks: they are the system's (flock), so they end with the process, however that goes, and never go stale; a killed
process may leave an empty file, which blocks nobody. What takes a lock here raises OSError if the file system has none.

Errors: what a disk or an object store refuses is reported as one paragraph with a remedy, instead of a traceback.
"""

import errno
import fcntl
import hashlib
import os
import platform
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from io import BufferedWriter
from pathlib import Path
from typing import IO, Any, Final

from corpora.errors import InputError
from corpora.store.places.address import is_object_address

NO_LOCK_ERRORS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # what a file system without locks answers


@contextmanager
def hold_lock(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold an exclusive lock on a file inside the block. Wait if another process or thread holds it.

    The file is created if it is missing, and removed at the end of the block. If the process is killed, the lock ends.

    Args:
        path: The lock file.
        on_wait: Called before each wait.

    Raises:
        OSError: If the file cannot be written, or its file system does not support locks.
    """
    file = _acquire_lock(path, on_wait)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held: a waiting process checks that it still exists
        file.close()


def _acquire_lock(path: Path, on_wait: Callable[[], None]) -> IO[str]:
    while True:
        with ExitStack() as opened:
            file = opened.enter_context(path.open("a", encoding="utf-8"))
            if not try_lock(file):
                on_wait()
                lock(file)
            if is_same_file(file, path):
                opened.pop_all()
                return file


def lock(file: IO[Any]) -> None:
    """Lock an open file exclusively. Blocks while another process has a lock on the file.

    Raises:
        OSError: If its file system does not support locks.
    """
    fcntl.flock(file, fcntl.LOCK_EX)


def try_lock(file: IO[Any]) -> bool:
    """Try to lock an open file exclusively, without waiting.

    Returns:
        True if the file is locked now. In either case, a shared lock that this file object held before is lost.

    Raises:
        OSError: If its file system does not support locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(path: Path) -> bool:
    """Return True if a process holds a lock on a file; False if no process does or the file does not exist.

    To find out, the file is locked for a moment, so it must be writable.

    Raises:
        OSError: If the file cannot be opened for writing, or its file system does not support locks.
    """
    try:
        with path.open("r+") as file:
            return not try_lock(file)
    except FileNotFoundError:
        return False


def is_same_file(file: IO[Any], path: Path) -> bool:
    """Return True if the file at a path is still the given open file, i.e. it was neither removed nor replaced."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


UNFINISHED_SUFFIX: Final = ".tmp"
MAX_FOLDER_TRIES: Final = 5
FOREIGN_FILE_SECONDS: Final = 86_400.0  # another machine's file is left so long: not every file system passes locks on

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
_IGNORED_ERRORS = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, *NO_LOCK_ERRORS)
_OTHER_STORE = "choose another store, then run the same command again; finished parts are kept"
_NO_SUCH_PLACE = "nothing can be made there, or its folder was removed meanwhile: choose another store"
_NOT_ALLOWED = "you may not: change its permissions or choose another store"
_UNREADABLE = "fix that, or choose another store"
_NO_ANSWER = (
    "the object store does not answer properly, even to repeated requests: fix its address, or wait "
    "until it does and run the same command again; finished parts are kept"
)
_STORE_REFUSES = "the object store refuses: fix the store's address, its region or the credentials"
_REMEDIES_BY_ERROR = {
    "NO_SUCH_BUCKET": "there is no such bucket: make it, or fix the store's address",
    "ACCESS_DENIED": "these credentials may not do that there: use others, or have them allowed to",
    "INVALID_ACCESS_KEY_ID": "the access key is not known there: fix AWS_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH": "the secret does not fit the access key: fix AWS_SECRET_ACCESS_KEY",
}
# curlCode 60 is a certificate that is not valid: that does not pass.
_TRANSIENT = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|THROTTLING|REQUEST_TIMEOUT)\b"
    r"(?!.*curlCode: 60\b)|HTTP status (5\d\d|429|408)\b",
    re.DOTALL,
)


def to_unfinished_path(path: Path, is_only_writer: bool = False) -> Path:
    """Return the path of the hidden temporary file, in the same folder, that is later renamed to `path`.

    Args:
        path: The final path.
        is_only_writer: True if no other process writes this file at the same time. Then the result is always the same,
            so that a file left over from a killed process is overwritten. Otherwise each call returns a new path.

    >>> to_unfinished_path(Path("store/table.arrow"), is_only_writer=True).as_posix()
    'store/.table.arrow.tmp'
    """
    unique = "" if is_only_writer else f".{read_machine_id()}{uuid.uuid4().hex[8:]}"
    return path.with_name(f".{path.name}{unique}{UNFINISHED_SUFFIX}")


@cache
def read_machine_id() -> str:
    """Return eight hexadecimal digits that identify this machine until it is restarted.

    If two processes read the same id, each can see the other's file locks.
    """
    try:
        identity = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        identity = platform.node()
    return hashlib.sha256(identity.encode()).hexdigest()[:8]


def open_unfinished(new: Path) -> BufferedWriter:
    """Create and lock a temporary file (with a path from `to_unfinished_path`), and open it for writing.

    The lock keeps `remove_abandoned` from removing the file while it is open. On a file system without locks, the file
    is not locked.

    Raises:
        FileNotFoundError: If its folder does not exist.
        OSError: If the file cannot be created.
    """
    while True:
        file = new.open("wb")
        try:
            lock(file)
        except OSError as error:
            if error.errno not in NO_LOCK_ERRORS:
                file.close()
                raise
        if is_same_file(file, new):
            return file
        file.close()  # it was removed as abandoned between the two calls


def open_with_folder(new: Path) -> BufferedWriter:
    """Create the folder of a temporary file, then create, lock and open the file. See `open_unfinished`.

    If another process removes the empty folder at the same time, it is created again, at most MAX_FOLDER_TRIES times.

    Raises:
        OSError: If the folder or the file cannot be created.
    """
    for _ in range(MAX_FOLDER_TRIES):
        new.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            return open_unfinished(new)
    new.parent.mkdir(parents=True, exist_ok=True)
    return open_unfinished(new)


def remove_abandoned(paths: Iterable[Path]) -> int:
    """Remove temporary files that no running process is writing.

    A file that was written on another machine, or before this machine was restarted, is removed only if it is older
    than a day. Files that may not be removed, or are on a file system without locks, are kept.

    Args:
        paths: Paths of any files. Files without a unique name from `to_unfinished_path` are kept.

    Returns:
        The number of files removed.
    """
    return sum(_remove_if_abandoned(path) for path in paths)


def _remove_if_abandoned(path: Path) -> bool:
    match = re.fullmatch(rf"\..*\.([0-9a-f]{{8}})[0-9a-f]{{24}}{re.escape(UNFINISHED_SUFFIX)}", path.name, re.DOTALL)
    if match is None:
        return False
    try:
        with path.open("rb+") as file:
            is_ours = match[1] == read_machine_id() or path.stat().st_mtime < time.time() - FOREIGN_FILE_SECONDS
            if not (is_ours and try_lock(file) and is_same_file(file, path)):
                return False
            path.unlink()  # while it is held: a maker that waits for its lock checks that it still exists
            return True
    except OSError as error:
        if error.errno in _IGNORED_ERRORS:
            return False
        raise


@contextmanager
def replace_file(path: Path, is_only_writer: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to. If the block succeeds, move the written file to `path`.

    If the block raises an exception, the file at `path` is unchanged and the temporary file is removed. The block must
    close the file that it writes.

    Args:
        path: The file to create or replace. Its folder must exist.
        is_only_writer: See `to_unfinished_path`.

    Raises:
        OSError: If the file cannot be written or moved.
    """
    new = to_unfinished_path(path, is_only_writer)
    with ExitStack() as cleanup:
        cleanup.callback(new.unlink, missing_ok=True)
        if is_only_writer:
            new.unlink(missing_ok=True)  # a link would be written through
        else:
            cleanup.enter_context(open_unfinished(new))
        yield new
        put_file(new, path)


def put_file(new: Path, path: Path) -> None:
    """Flush the temporary file `new` to disk and rename it to `path`. Buffered data must have been flushed before.

    Raises:
        OSError: If the file cannot be flushed or renamed.
    """
    flush(new)
    new.replace(path)


def explain_disk_error(error: OSError, elsewhere: str) -> str | None:
    """Return the cause of a disk error and a remedy, or None if the error is of another kind.

    Args:
        error: The error.
        elsewhere: How the user can write to another location. It becomes the end of the returned text.

    >>> explain_disk_error(OSError(errno.EROFS, "Read-only file system"), "choose another store")
    'this file system is read-only: choose another store'
    """
    if error.errno not in _REFUSALS:
        return None
    cause, remedy = _REFUSALS[error.errno]
    return f"{cause}: {remedy}{elsewhere}"


def remove_empty_folders(folder: Path, root: Path) -> None:
    """Remove a folder and its parents up to, but not including, `root`. Stop at the first one that is not empty."""
    while folder != root:
        try:
            folder.rmdir()
        except OSError:  # something is in it, or it is gone
            return
        folder = folder.parent


def flush_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk, so that new and renamed files survive a power failure.

    Raises:
        OSError: If the folder cannot be opened or flushed.
    """
    flush(folder, os.O_RDONLY | os.O_DIRECTORY)


def flush(path: Path, flags: int = os.O_RDONLY) -> None:
    """Flush a file or folder to disk.

    Args:
        path: The file or folder.
        flags: The flags for `os.open`.

    Raises:
        OSError: If it cannot be opened or flushed.
    """
    number = os.open(path, flags)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def is_transient(error: OSError) -> bool:
    """Return True if an object store error is temporary, so that the request should be retried."""
    return _TRANSIENT.search(str(error)) is not None


@contextmanager
def explain_write_errors(path: str) -> Iterator[None]:
    """Convert an OSError inside the block to an InputError with the cause and a remedy.

    `path` is the path or address that the block writes to. It is named in the message.
    """
    try:
        yield
    except OSError as error:
        remedy = _find_store_remedy(error, path) or explain_disk_error(error, _OTHER_STORE) or _NO_SUCH_PLACE
        raise InputError(f"Cannot write {path}: {remedy} ({error.strerror or error}).") from error


@contextmanager
def explain_read_errors(path: str, act: str = "read") -> Iterator[None]:
    """Convert an OSError inside the block, other than FileNotFoundError, to an InputError with the cause and a remedy.

    FileNotFoundError is propagated. It is also raised if a folder is found instead of a file, or vice versa.

    Args:
        path: The path or address that the block reads. It is named in the message.
        act: The verb of the message, e.g. "read" for "Cannot read ...".
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (NotADirectoryError, IsADirectoryError) as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    except OSError as error:
        remedy = _find_store_remedy(error, path) or (
            _NOT_ALLOWED if isinstance(error, PermissionError) else _UNREADABLE
        )
        raise InputError(f"Cannot {act} {path}: {remedy} ({error.strerror or error}).") from error


def _find_store_remedy(error: OSError, path: str) -> str | None:
    """Return the remedy for an error of the object store at the address `path`, or None if `path` is a local path."""
    if not is_object_address(path):
        return None
    if is_transient(error):
        return _NO_ANSWER
    name = re.search(r"AWS Error (\w+)", str(error))
    return _REMEDIES_BY_ERROR.get(name[1], _STORE_REFUSES) if name else _STORE_REFUSES
