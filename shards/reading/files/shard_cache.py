"""A local cache for shards in an object store: a folder of bounded size that the processes of a machine share.

Promise: a file that can be seen is whole and matched its digest. All files together take no more bytes than they may;
if there is no room, files that no process reads are removed, the least recently used first. A reader of a file has a
lock on it, one process at a time makes room and fetches, and what a killed one left unfinished is removed by the next.
Locks are the system's, so nothing goes stale.

Cost: each file is fetched once for as long as it stays, and hashed once by each process that reads it.
"""

import fcntl
import hashlib
import os
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.store.damage import Damaged
from corpora.store.file_check import copy_checked_file
from corpora.store.manifest import Part, StoredFile
from corpora.store.places.files import UNFINISHED_SUFFIX, hold_lock, is_same_file, remove_abandoned, try_lock
from corpora.store.places.place import Place
from shards.reading.files.columns import ExampleColumns
from shards.reading.files.shard_set import ShardSet
from shards.reading.order import WindowedOrder

MAX_WAIT_SECONDS = 600.0  # that other processes may need to let go of files
_POLL_SECONDS = 0.2


class ShardCache:
    """A local folder with copies of shard files from an object store, shared by the processes of a machine.

    Args:
        store: The store to fetch from.
        folder: The local folder.
        max_bytes: Maximum size of the folder when a shard file is fetched. The small metadata files of shards (a few KB
            each) are not limited.
    """

    def __init__(self, store: Place, folder: Path, max_bytes: int) -> None:
        self._store, self._folder, self._max_bytes = store, folder, max_bytes
        self._verified = set[tuple[str, int]]()  # path and inode of those that this process has hashed
        self.place = Place(str(folder))

    def hold(self, stage_folder: str, parts: Sequence[Part]) -> ExitStack:
        """Fetch the missing shards and keep all of them in the cache until the returned ExitStack is closed.

        The small metadata files of the shards (a few KB each) are never removed.

        Args:
            stage_folder: Folder of the shard set in the store.
            parts: The shards.

        Raises:
            Damaged: A file in the store is missing, damaged or was changed.
            InputError: Locked files still leave too little space in the cache after `MAX_WAIT_SECONDS`.
        """
        with ExitStack() as locks:
            for part in parts:
                assert part.record is not None, "the part of a manifest has a record"
                record = f"{stage_folder}/{part.record.path}"
                if self.place.find_size(record) is None:
                    self.place.write(record, self._store.read(record))
                for file in list_example_files(part):
                    locks.enter_context(self._open_locked(f"{stage_folder}/{file.path}", file))
            return locks.pop_all()

    def _open_locked(self, path: str, file: StoredFile) -> BufferedReader:
        """Open a file of the cache and lock it for reading. A missing or damaged file is fetched first.

        Args:
            path: Path of the file in the store, and in the cache folder.
            file: Size and digest of the file.

        Raises:
            Damaged: The file in the store is missing or does not match its digest.
            InputError: There is not enough space in the cache.
        """
        opened = self._open_if_sound(path, file)
        if opened is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            with hold_lock(self._folder / "fetching"):
                opened = self._open_if_sound(path, file) or self._fetch(path, file)
        return opened

    def _open_if_sound(self, path: str, file: StoredFile) -> BufferedReader | None:
        """Open and lock a cached file. Return None if it is missing or does not match its digest.

        A file that does not match, or that was replaced in the meantime, is removed.

        Args:
            path: Path of the file in the cache folder.
            file: Size and digest of the file.
        """
        local = self._folder / path
        try:
            opened = local.open("rb")
        except FileNotFoundError:
            return None
        fcntl.flock(opened, fcntl.LOCK_SH)
        if is_same_file(opened, local) and self._is_sound(opened, path, file):
            os.utime(local)
            return opened
        local.unlink(missing_ok=True)
        opened.close()
        return None

    def _is_sound(self, opened: BufferedReader, path: str, file: StoredFile) -> bool:
        """Return True if an open file matches its digest. Each process hashes a file only once.

        Args:
            opened: The file.
            path: Its path in the cache folder.
            file: Its expected digest.
        """
        identity = path, os.fstat(opened.fileno()).st_ino
        if identity not in self._verified:
            if hashlib.file_digest(opened, "sha256").hexdigest() != file.sha256:
                return False
            self._verified.add(identity)
        return True

    def _fetch(self, path: str, file: StoredFile) -> BufferedReader:
        """Fetch a file from the store, and return it open and locked for reading.

        Args:
            path: Path of the file in the store, and in the cache folder.
            file: Size and digest of the file.

        Raises:
            Damaged: The file in the store is missing or does not match its digest.
            InputError: There is not enough space in the cache.
        """
        self._make_room(file.size_bytes)
        try:
            copy_checked_file(self._store, path, file, self.place, path)
        except FileNotFoundError as error:
            raise Damaged(path, "it is gone") from error
        opened = (self._folder / path).open("rb")
        fcntl.flock(opened, fcntl.LOCK_SH)
        self._verified.add((path, os.fstat(opened.fileno()).st_ino))
        return opened

    def _make_room(self, bytes_needed: int) -> None:
        """Remove the least recently used files that nobody has locked until `bytes_needed` more bytes fit.

        If locked files take too much space, wait.

        Raises:
            InputError: There is not enough space after `MAX_WAIT_SECONDS`.
        """
        start = time.monotonic()
        while True:
            paths = [path for path in self._folder.rglob("*") if path.is_file()]
            remove_abandoned(path for path in paths if path.name.endswith(UNFINISHED_SUFFIX))
            files = sorted((path.stat().st_mtime_ns, path.stat().st_size, path) for path in paths if path.exists())
            excess = sum(size for _, size, _ in files) + bytes_needed - self._max_bytes
            for _, size, path in files:
                if excess > 0 and path.suffix == ".arrow" and _remove_if_unread(path):
                    excess -= size
            if excess <= 0:
                return
            if time.monotonic() - start > MAX_WAIT_SECONDS:
                raise InputError(
                    f"The cache {self._folder} may hold {self._max_bytes} bytes, and with the shards that processes of "
                    f"this machine read now it lacks {excess}: raise training.cache_gb, or lower training.window."
                )
            time.sleep(_POLL_SECONDS)


def _remove_if_unread(path: Path) -> bool:
    """Remove a file unless a process has locked it. Return True if it was removed."""
    with path.open("rb") as file:
        if not try_lock(file):
            return False
        path.unlink()  # while it is locked: a reader that opened it meanwhile checks that it still exists
        return True


class WindowCache:
    """Keeps the current windows (groups of shards that are read together) in a local folder.

    The next window is fetched in the background.

    Args:
        shard_set: A split in an object store.
        order: The order in which the windows are read.
        files: The local folder.
    """

    def __init__(self, shard_set: ShardSet, order: WindowedOrder, files: ShardCache) -> None:
        self._order, self._files = order, files
        self._parts = shard_set.parts
        self._cached_set = ShardSet(files.place, shard_set.manifest, shard_set.split)
        self._fetches = dict[int, Future[ExitStack]]()
        self._thread = ThreadPoolExecutor(1, "windows")
        self._open: tuple[Sequence[int], ExampleColumns] | None = None
        weakref.finalize(self, _release_windows, self._fetches)

    def open_columns_for_slots(self, slots: Int64s) -> ExampleColumns:
        """Return the open columns of the windows (groups of shards) that contain these slots.

        Args:
            slots: int64, positions in the training order. If there are none, the columns that are already open are
                returned, or the first window is opened.

        Raises:
            Damaged: A file is missing, damaged or was changed.
            InputError: The windows do not fit into the cache.
        """
        if not len(slots):
            return self._open[1] if self._open is not None else self.open_columns(range(1))
        windows = self._order.find_windows(slots)
        return self.open_columns(range(int(windows.min()), int(windows.max()) + 1))

    def open_columns(self, windows: Sequence[int]) -> ExampleColumns:
        """Return the columns of consecutive windows (groups of shards), and prefetch the next window in the background.

        If other windows are open, all data read from them is verified first. Then the files that the new windows do not
        contain are released, and may be removed from the folder.

        Args:
            windows: Indices of windows, ascending and consecutive.

        Raises:
            Damaged: A file is missing, damaged or was changed.
            InputError: The windows do not fit into the cache.
        """
        if self._open is None or not {*windows} <= {*self._open[0]} or windows[0] > self._open[0][0]:
            self.check_read()
            self._open = None
            for window in [window for window in self._fetches if not windows[0] <= window <= windows[-1] + 1]:
                self._fetches.pop(window).result().close()
            for window in windows:
                self._start_fetch(window)
            for window in windows:
                self._fetches[window].result()
            shards = sorted({shard for window in windows for shard in self._order.list_shards(window)})
            self._open = windows, ExampleColumns(self._cached_set, shards)
            self._start_fetch(windows[-1] + 1)
        return self._open[1]

    def check_read(self) -> None:
        """Wait until all data read from the open windows has been verified.

        Raises:
            Damaged: A file is damaged or was changed.
        """
        if self._open is not None:
            self._open[1].check_read()

    def _start_fetch(self, window: int) -> None:
        """Start fetching the shards of a window in the background, unless this has been done before."""
        if window not in self._fetches:
            parts = [self._parts[shard] for shard in self._order.list_shards(window)]
            self._fetches[window] = self._thread.submit(self._files.hold, self._cached_set.manifest.stage_folder, parts)


def _release_windows(windows: Mapping[int, Future[ExitStack]]) -> None:
    """Release the files of all windows. A window that is still being fetched is released when it arrives."""
    for window in windows.values():
        window.add_done_callback(lambda finished: None if finished.exception() else finished.result().close())


def list_example_files(part: Part) -> list[StoredFile]:
    """Return the files of a shard that contain its examples."""
    return [file for file in part.files if file.table == "examples"]


def compute_bytes_needed(shard_set: ShardSet, window: int | None, batch: int) -> int:
    """Compute the cache size in bytes that a training step needs in the worst case.

    This includes the next window, which is prefetched.

    Args:
        shard_set: The split to read.
        window: Number of shards in a window (a group of shards that are read together), or None if all shards are
            needed.
        batch: Number of examples in a step, which may extend over several windows.
    """
    sizes = [sum(file.size_bytes for file in list_example_files(part)) for part in shard_set.parts]
    if window is None:
        return sum(sizes)
    smallest = window * min((part.count_rows("examples") for part in shard_set.parts), default=1)
    return min(sum(sizes), (batch // smallest + 2) * sum(sorted(sizes)[-window:]))  # a step may end in the next one


def check_room(subject: str, bytes_needed: int, window: int | None, max_bytes: int) -> None:
    """Check that the shards fit into the cache.

    Args:
        subject: Description of what is being read. The error message begins with it.
        bytes_needed: Size of the shards that must be cached at the same time.
        window: Number of shards in a window (a group of shards that are read together), or None if all shards are
            needed.
        max_bytes: Maximum size of the cache.

    Raises:
        InputError: `bytes_needed` exceeds `max_bytes`.
    """
    if bytes_needed <= max_bytes:
        return
    if window is None:
        raise InputError(
            f'{subject} have {bytes_needed:,} bytes, and with training.order = "global" any of them may be read next, '
            f"but the cache of this machine may hold {max_bytes:,}: raise training.cache_gb to "
            f"{_format_gigabytes(bytes_needed)}, or set "
            'training.order = "windowed".'
        )
    raise InputError(
        f"{subject} are read in windows of {window} shards, and those of a step with the next one have up to "
        f"{bytes_needed:,} bytes, but the cache of this machine may hold {max_bytes:,}: raise training.cache_gb to "
        f"{_format_gigabytes(bytes_needed)}, or lower training.window."
    )


def _format_gigabytes(size: int) -> str:
    """Format a number of bytes in GB, rounded up to three decimals.

    >>> _format_gigabytes(1_230_400_001)
    '1.231'
    """
    return f"{-(-size // 10**6) / 1000:g}"
