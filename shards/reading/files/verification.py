"""Verification: the files of shard sets compared with their manifests, on a thread, while others learn from them.

Promise: a file whose bytes are not those that its manifest names is found and named by its path. A file that was found
sound before is not read again as long as its inode, its size and its time of change are the same: a line of a file of
stamps says so. A stamp that is damaged only has a file read again.

Cost: each file is read once, front to back in pieces of a mebibyte, at the lowest priority. sha256 reads 1.3 GB a
second on one x86-64 core and holds no lock of the interpreter. What is read is in the system's memory for training.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest, StoredFile
from corpora.store.places.place import Place

_CHUNK = 1 << 20
_LOWEST = 19  # of the priorities that `nice` gives


class Stamp(NamedTuple):
    """The state of a sound file when it was read."""

    inode: int
    size_bytes: int
    mtime_ns: int
    sha256: str


class Verification:
    """The files of shard sets in a local store, verified on a thread for the time of a `with` block.

    stamps: the file of stamps, of no other process meanwhile
    but:    a split whose files are not here
    """

    def __init__(self, place: Place, manifests: Iterable[Manifest], stamps: Path, but: str = "") -> None:
        assert place.is_local, "shards are mapped into memory"
        self._place = place
        self._files = files_of(manifests, but)
        self._stamps = stamps
        self._left = threading.Event()
        self._thread = ThreadPoolExecutor(1, "verification")
        self._verdict: Future[Damaged | None] | None = None

    def __enter__(self) -> "Verification":
        self._verdict = self._thread.submit(self._verify)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left.set()
        self._thread.shutdown()

    def _verify(self) -> Damaged | None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)  # on Linux, of this thread alone
        return first_damage(self._place, self._files, self._stamps, self._left.is_set)

    def damage(self, seconds: float) -> Damaged | None:
        """The first damaged file, or None where all are sound. Raises TimeoutError where that takes longer."""
        assert self._verdict is not None, "a verification begins with its block"
        return self._verdict.result(seconds)


def files_of(manifests: Iterable[Manifest], but: str = "") -> dict[str, StoredFile]:
    """The files of all parts of artifacts by their paths in the store, without those of a split."""
    return {
        f"{manifest.stage_folder}/{file.path}": file
        for manifest in manifests
        for part in manifest.parts
        if not but or part.labels.get("split") != but
        for file in part.files
    }


def first_damage(
    place: Place, files: Mapping[str, StoredFile], stamps: Path, left: Callable[[], bool] = lambda: False
) -> Damaged | None:
    """The first of some files that is not what was written; None where all are sound.

    left: asked between two pieces; once it is true nothing more is read, and the damage found so far is the answer
    """
    stamped = read_stamps(stamps)
    for path, file in files.items():
        try:
            stamp = _verified(place, path, file, stamped.get(path), left)
        except Damaged as damage:
            return damage
        if stamp is None:
            return None
        if stamp != stamped.get(path):
            _write_stamp(stamps, path, stamp)
    return None


def _verified(place: Place, path: str, file: StoredFile, prior: Stamp | None, left: Callable[[], bool]) -> Stamp | None:
    """The stamp of a sound file; None where the reader has left. Raises Damaged."""
    try:
        with Path(place.full_path(path)).open("rb", buffering=0) as source:
            status = os.fstat(source.fileno())
            stamp = Stamp(status.st_ino, status.st_size, status.st_mtime_ns, file.sha256)
            if stamp == prior:
                return stamp
            if status.st_size != file.size_bytes:
                raise Damaged(path, f"it has {status.st_size} bytes instead of {file.size_bytes}")
            digest = hashlib.sha256()
            while data := source.read(_CHUNK):
                if left():
                    return None
                digest.update(data)
    except FileNotFoundError as error:
        raise Damaged(path, "it is gone") from error
    if digest.hexdigest() != file.sha256:
        raise Damaged(path, "its bytes are not those that were written")
    return stamp


def read_stamps(path: Path) -> dict[str, Stamp]:
    """The newest stamp of each file. A line that cannot be read is skipped."""
    newest: dict[str, Stamp] = {}
    for line in _lines(path):
        try:
            name, *fields = json.loads(line)
            newest[name] = Stamp(*fields)
        except (ValueError, TypeError):
            continue
    return newest


def _lines(path: Path) -> Iterator[bytes]:
    if path.exists():
        yield from path.read_bytes().splitlines()


def _write_stamp(path: Path, name: str, stamp: Stamp) -> None:
    with path.open("ab") as file:
        file.write(json.dumps([name, *stamp]).encode() + b"\n")
