"""Reading shards: every example by number, straight from memory-mapped files.

Promise: opening a shard set reads its manifest and, where there is a delete list, the document columns of its
shards; nothing else is read until an example is asked for. Deleted examples keep their number, so that a
forget moves nothing else; `live` says which may be read.

`Verification` compares files with their manifests on a thread, while others learn from them. A file whose bytes are
not those that its manifest names is found and named by its path. A file that was found sound before is not read again
as long as its inode, its size and its time of change are the same: a line of a file of stamps says so. A stamp that is
damaged only has a file read again.

Cost: each file is read once, front to back in pieces of a mebibyte, at the lowest priority. sha256 reads 1.3 GB a
second on one x86-64 core and holds no lock of the interpreter. What is read is in the system's memory for training.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.kernels.arrays import Bools, Int64s
from corpora.schema import ID_BYTES
from corpora.store.damage import Damaged
from corpora.store.leases.reader_lease import Hold
from corpora.store.manifest import Manifest, Part, StoredFile
from corpora.store.places.place import Place
from corpora.store.tables import open_table, read_table
from shards.schema import Example, example_schema, id_type

HELD = ("documents", "revisions")
RowKey = tuple[bytes, int, int]  # id, revision, generation whose parts hold the row
_CHUNK = 1 << 20
_LOWEST = 19  # of the priorities that `nice` gives


@dataclass(frozen=True)
class ShardSet:
    """The examples of one split, in order of generation and shard."""

    place: Place
    manifest: Manifest
    split: str = "train"

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hold", Hold(self.place, self.manifest.folder))  # as long as the files may be read

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The shards of this split that hold examples (one document alone finds no partner, and makes none)."""
        parts = (part for part in self.manifest.parts if part.labels.get("split") == self.split)
        return tuple(part for part in parts if part.rows("examples"))

    @property
    def schema(self) -> pa.Schema:
        """The schema of a row."""
        facts = self.manifest.facts
        return example_schema(
            id_type(facts["vocab_size"]),
            labels=facts["pair_labels"],
            pairs=facts["segments"] == 2,
            static_masks=facts["masking"] == "static",
        )

    def _read(self, part: Part, columns: Sequence[str], rows: range | None = None) -> pa.Table:
        """Columns of a shard."""
        folder = self.manifest.stage_folder
        return pa.Table.from_batches(open_table(self.place, folder, part, "examples", columns, rows))

    @cached_property
    def _starts(self) -> Int64s:
        return np.cumsum([0, *(part.rows("examples") for part in self.parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, index: int) -> Example:
        """The example with this number. Raises IndexError; a deleted one can still be looked at by number."""
        if not 0 <= index < len(self):
            raise IndexError(f"example {index} of {len(self)}")
        part, row = self.part_of(index)
        return example_of(self._read(part, self.schema.names, range(row, row + 1)))

    @cached_property
    def deleted_rows(self) -> frozenset[RowKey]:
        """The corpus rows whose examples must not be read."""
        batches = read_table(self.place, self.manifest, "deleted", ("id", "revision", "generation"))
        rows = (row for batch in batches for row in batch.to_pylist())
        return frozenset((row["id"], row["revision"], row["generation"]) for row in rows)

    @cached_property
    def live(self) -> Bools:
        """For every example, whether it may be read: bool [len]."""
        if not self.deleted_rows:
            return np.ones(len(self), bool)
        live = [
            _live_rows(self._read(part, HELD), int(part.labels["generation"]), self.deleted_rows) for part in self.parts
        ]
        return np.concatenate([np.zeros(0, bool), *live])

    def examples(self) -> Iterator[Example]:
        """Live examples in order."""
        return (self[int(index)] for index in np.flatnonzero(self.live))

    def part_of(self, index: int) -> tuple[Part, int]:
        """The shard that holds an example, and its row in that."""
        part = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self.parts[part], index - int(self._starts[part])

    def first_example(self, shard: int) -> int:
        """The number of a shard's first example."""
        return int(self._starts[shard])

    def path_of(self, index: int) -> str:
        """The file that holds an example, in the store."""
        part, row = self.part_of(index)
        files = [file for file in part.files if file.table == "examples"]
        ends = np.cumsum([file.content.rows for file in files])
        return f"{self.manifest.stage_folder}/{files[int(np.searchsorted(ends, row, side='right'))].path}"

    def examples_of(self, document: bytes) -> list[int]:
        """The numbers of all examples that hold a document, as the first or as another."""
        wanted = pa.scalar(document, pa.binary(len(document)))
        numbers: list[int] = []
        for start, part in zip(self._starts[:-1].tolist(), self.parts, strict=True):
            column = self._read(part, ("documents",)).column("documents").combine_chunks()
            rows = pc.list_parent_indices(column).to_numpy()[pc.equal(column.flatten(), wanted).to_numpy(False)]
            numbers += (np.unique(rows) + start).tolist()
        return numbers


def _live_rows(table: pa.Table, generation: int, deleted: frozenset[RowKey]) -> Bools:
    """Tell for every row whether none of its documents is deleted."""
    gone = [id + revision.to_bytes(8, "little", signed=True) for id, revision, held in deleted if held == generation]
    live = np.ones(table.num_rows, bool)
    if gone:
        ids, revisions = (table.column(name).combine_chunks() for name in ("documents", "revisions"))
        keys = row_keys(ids.flatten(), revisions.flatten())
        hits = pc.is_in(keys, value_set=pa.array(gone, keys.type)).to_numpy(zero_copy_only=False)
        live[pc.list_parent_indices(ids).to_numpy()[hits]] = False
    return live


def row_keys(ids: pa.Array, revisions: pa.Array) -> pa.Array:
    """Ids and revisions end to end, 24 bytes each."""
    halves = np.frombuffer(ids.buffers()[1], np.uint8).reshape(-1, ID_BYTES)[ids.offset : ids.offset + len(ids)]
    numbers = revisions.to_numpy().astype("<i8").view(np.uint8).reshape(-1, 8)
    keys = np.ascontiguousarray(np.concatenate([halves, numbers], axis=1))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(ID_BYTES + 8), len(ids), [None, pa.py_buffer(keys)])


def example_of(row: pa.Table) -> Example:
    """The view of a table of one row."""
    lists = {f.name: _values(row, f.name) for f in row.schema if pa.types.is_list(f.type) and f.name not in HELD}
    plain: dict[str, Any] = row.select([name for name in row.column_names if name not in lists]).to_pylist()[0]
    held: dict[str, Any] = {name: tuple(plain.pop(name)) for name in HELD}
    lists.setdefault("mask_positions", np.zeros(0, np.uint16))
    lists.setdefault("mask_ids", np.zeros(0, lists["ids"].dtype))
    return Example(**{"label": None, "second_document": None, **plain}, **held, **lists)


def _values(row: pa.Table, name: str) -> Any:
    """The list of a table's one row, as a numpy array."""
    return row.column(name).chunk(0).flatten().to_numpy(zero_copy_only=False)


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
