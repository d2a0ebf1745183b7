"""Shards near by: the files of an object store that are read now, in a folder of bounded size on this machine.

Promise: a file that can be seen is whole and matched its digest. All files together take no more room than they
may; room is made by removing those that no process reads, the least recently used first. The processes of a machine
share a folder: a reader of a file has a lock on it, one at a time makes room and fetches, and what a killed one left
unfinished is removed by the next. Locks are the system's, so nothing goes stale.

Cost: each file is fetched once for as long as it stays, and hashed once by each process that reads it.
"""

import fcntl
import hashlib
import os
import shutil
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
from corpora.store.manifest import Part, StoredFile
from corpora.store.places.files import UNFINISHED, held, is_at, remove_abandoned, try_lock
from corpora.store.places.place import Place
from shards.reading.files.columns import Columns
from shards.reading.files.shard_set import ShardSet
from shards.reading.order import WindowedOrder

PATIENCE_SECONDS = 600.0  # that other processes may need to let go of files
_POLL_SECONDS = 0.2
_CHUNK = 1 << 20


class NearFiles:
    """Files of a store in a folder.

    most: bytes that all files in the folder may take together
    """

    def __init__(self, store: Place, folder: Path, most: int) -> None:
        self._store, self._folder, self._most = store, folder, most
        self._sound = set[tuple[str, int]]()  # path and inode of those that this process has hashed
        self.place = Place(str(folder))

    def hold(self, stage_folder: str, parts: Sequence[Part]) -> ExitStack:
        """Keep shards near by until the result is closed. Raises Damaged, and InputError where there is no room.

        Their records remain: some kilobytes each.
        """
        with ExitStack() as locks:
            for part in parts:
                assert part.record is not None, "the part of a manifest has a record"
                record = f"{stage_folder}/{part.record.path}"
                if self.place.size(record) is None:
                    self.place.write(record, self._store.read(record))
                for file in example_files(part):
                    locks.enter_context(self._one(f"{stage_folder}/{file.path}", file))
            return locks.pop_all()

    def _one(self, path: str, file: StoredFile) -> BufferedReader:
        """A file, open and locked."""
        here = self._found(path, file)
        if here is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            with held(self._folder / "fetching"):
                here = self._found(path, file) or self._fetched(path, file)
        return here

    def _found(self, path: str, file: StoredFile) -> BufferedReader | None:
        """The file if it is here, locked and sound; one that is not is removed."""
        local = self._folder / path
        try:
            here = local.open("rb")
        except FileNotFoundError:
            return None
        fcntl.flock(here, fcntl.LOCK_SH)
        if is_at(here, local) and self._is_sound(here, path, file):
            os.utime(local)
            return here
        local.unlink(missing_ok=True)
        here.close()
        return None

    def _is_sound(self, here: BufferedReader, path: str, file: StoredFile) -> bool:
        identity = path, os.fstat(here.fileno()).st_ino
        if identity not in self._sound:
            if hashlib.file_digest(here, "sha256").hexdigest() != file.sha256:
                return False
            self._sound.add(identity)
        return True

    def _fetched(self, path: str, file: StoredFile) -> BufferedReader:
        """The file, fetched. Raises Damaged where the store does not hold what was written."""
        self._make_room(file.size_bytes)
        try:
            with self.place.create(path) as sink, self._store.open(path) as source:
                shutil.copyfileobj(source, sink, _CHUNK)
                if sink.sha256() != file.sha256:
                    raise Damaged(path, "its bytes are not those that were written")
        except FileNotFoundError as error:
            raise Damaged(path, "it is gone") from error
        here = (self._folder / path).open("rb")
        fcntl.flock(here, fcntl.LOCK_SH)
        self._sound.add((path, os.fstat(here.fileno()).st_ino))
        return here

    def _make_room(self, wanted: int) -> None:
        """Remove what nobody reads until there is room for so many bytes; waits for readers to let go."""
        began = time.monotonic()
        while True:
            paths = [path for path in self._folder.rglob("*") if path.is_file()]
            remove_abandoned(path for path in paths if path.name.endswith(UNFINISHED))
            files = sorted((path.stat().st_mtime_ns, path.stat().st_size, path) for path in paths if path.exists())
            over = sum(size for _, size, _ in files) + wanted - self._most
            for _, size, path in files:
                if over > 0 and path.suffix == ".arrow" and _remove_unread(path):
                    over -= size
            if over <= 0:
                return
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise InputError(
                    f"The cache {self._folder} may hold {self._most} bytes, and with the shards that processes of this "
                    f"machine read now it lacks {over}: raise training.cache_gb, or lower training.window."
                )
            time.sleep(_POLL_SECONDS)


def _remove_unread(path: Path) -> bool:
    """Remove a file unless a process has a lock on it."""
    with path.open("rb") as file:
        if not try_lock(file):
            return False
        path.unlink()  # while it is locked: a reader that opened it meanwhile checks that it still exists
        return True


class NearWindows:
    """The windows of a split in use: their files are near, and those of the next one are fetched meanwhile.

    shard_set: in the object store
    """

    def __init__(self, shard_set: ShardSet, order: WindowedOrder, files: NearFiles) -> None:
        self._order, self._files = order, files
        self._parts = shard_set.parts
        self._near = ShardSet(files.place, shard_set.manifest, shard_set.split)
        self._held = dict[int, Future[ExitStack]]()
        self._thread = ThreadPoolExecutor(1, "windows")
        self._open: tuple[Sequence[int], Columns] | None = None
        weakref.finalize(self, _let_go, self._held)

    def columns_at(self, slots: Int64s) -> Columns:
        """The columns of the shards of the windows of slots; of no slots those that are open, or the first."""
        if not len(slots):
            return self._open[1] if self._open is not None else self.columns(range(1))
        windows = self._order.windows(slots)
        return self.columns(range(int(windows.min()), int(windows.max()) + 1))

    def columns(self, windows: Sequence[int]) -> Columns:
        """The columns of the shards of some windows, ascending. Earlier ones are let go."""
        if self._open is None or not {*windows} <= {*self._open[0]} or windows[0] > self._open[0][0]:
            self.check_read()
            self._open = None
            for window in [window for window in self._held if not windows[0] <= window <= windows[-1] + 1]:
                self._held.pop(window).result().close()
            for window in windows:
                self._fetch(window)
            for window in windows:
                self._held[window].result()
            shards = sorted({shard for window in windows for shard in self._order.shards(window)})
            self._open = windows, Columns(self._near, shards)
            self._fetch(windows[-1] + 1)
        return self._open[1]

    def check_read(self) -> None:
        """Wait until what was read of the windows in use is checked. Raises Damaged."""
        if self._open is not None:
            self._open[1].check_read()

    def _fetch(self, window: int) -> None:
        """Have a window's shards fetched, after those that are being fetched."""
        if window not in self._held:
            parts = [self._parts[shard] for shard in self._order.shards(window)]
            self._held[window] = self._thread.submit(self._files.hold, self._near.manifest.stage_folder, parts)


def _let_go(windows: Mapping[int, Future[ExitStack]]) -> None:
    """Have the files of windows closed, also of those that are being fetched."""
    for window in windows.values():
        window.add_done_callback(lambda done: None if done.exception() else done.result().close())


def example_files(part: Part) -> list[StoredFile]:
    """The files of a shard that hold its examples."""
    return [file for file in part.files if file.table == "examples"]


def room_wanted(shard_set: ShardSet, window: int | None, batch: int) -> int:
    """Bytes of a split's shards that are read at once, and next.

    window: shards of a window; None: all are read. batch: slots of a step
    """
    sizes = [sum(file.size_bytes for file in example_files(part)) for part in shard_set.parts]
    if window is None:
        return sum(sizes)
    smallest = window * min((part.rows("examples") for part in shard_set.parts), default=1)
    return min(sum(sizes), (batch // smallest + 2) * sum(sorted(sizes)[-window:]))  # a step may end in the next one


def check_room(what: str, wanted: int, window: int | None, most: int) -> None:
    """Raise InputError where what is read at once does not go into so many bytes. what: it is of"""
    if wanted <= most:
        return
    if window is None:
        raise InputError(
            f'{what} have {wanted:,} bytes, and with training.order = "global" any of them may be read next, but the '
            f"cache of this machine may hold {most:,}: raise training.cache_gb to {_gigabytes(wanted)}, or set "
            'training.order = "windowed".'
        )
    raise InputError(
        f"{what} are read in windows of {window} shards, and those of a step with the next one have up to {wanted:,} "
        f"bytes, but the cache of this machine may hold {most:,}: raise training.cache_gb to {_gigabytes(wanted)}, or "
        "lower training.window."
    )


def _gigabytes(size: int) -> str:
    """So many bytes in GB, rounded up.

    >>> _gigabytes(1_230_400_001)
    '1.231'
    """
    return f"{-(-size // 10**6) / 1000:g}"
