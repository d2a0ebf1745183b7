"""A shard set on disk: every example by number, straight from memory-mapped files.

Promise: opening a shard set reads its manifest and, if documents were deleted, the document columns of its shards;
nothing else is read until an example is asked for. Deleted examples keep their number, so that a deletion moves nothing
else; `is_live` says which may be read.

What is read is compared with the digests of its record batch first. `columns.py` reads many examples at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.kernels.arrays import Bools, Int64s
from corpora.kernels.fixed_width import to_byte_matrix, to_fixed_width_column
from corpora.schema import ID_BYTES
from corpora.store.leases import ArtifactHold
from corpora.store.manifest import Manifest, Part
from corpora.store.places.place import Place
from corpora.store.tables import read_part_table, read_table
from shards.schema import Example, build_example_schema, choose_id_type

DOCUMENT_COLUMNS = ("documents", "revisions")
RowKey = tuple[bytes, int, int]  # id, revision, generation whose parts hold the row


@dataclass(frozen=True)
class ShardSet:
    """The examples of one split of a shard set, ordered by corpus update and shard.

    While this object exists, the store does not delete the files.

    Attributes:
        place: The store.
        manifest: Description of the shard set.
        split: "train" or "held-out".
    """

    place: Place
    manifest: Manifest
    split: str = "train"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "_hold", ArtifactHold(self.place, self.manifest.folder)
        )  # as long as the files may be read

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The shards of this split that contain examples. Shards without examples are left out."""
        parts = (part for part in self.manifest.parts if part.labels.get("split") == self.split)
        return tuple(part for part in parts if part.count_rows("examples"))

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the examples of this shard set, from `build_example_schema`."""
        facts = self.manifest.facts
        return build_example_schema(
            choose_id_type(facts["vocab_size"]),
            labels=facts["pair_labels"],
            pairs=facts["segments"] == 2,
            static_masks=facts["masking"] == "static",
        )

    def _read(self, part: Part, columns: Sequence[str], rows: range | None = None) -> pa.Table:
        """Read columns of a shard as an Arrow table.

        Args:
            part: The shard.
            columns: Names of the columns.
            rows: A range of the shard's rows. None reads all rows.

        Raises:
            Damaged: The file is damaged or was changed.
        """
        folder = self.manifest.stage_folder
        return pa.Table.from_batches(read_part_table(self.place, folder, part, "examples", columns, rows))

    @cached_property
    def _starts(self) -> Int64s:
        """Index of the first example of each shard, and the number of all examples: int64 [shards + 1]."""
        return np.cumsum([0, *(part.count_rows("examples") for part in self.parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, index: int) -> Example:
        """Return the example with this index, even if it is deleted.

        Raises:
            IndexError: `index` is out of range or negative.
            Damaged: The file is damaged or was changed.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"example {index} of {len(self)}")
        part, row = self.locate_row(index)
        return to_example(self._read(part, self.schema.names, range(row, row + 1)))

    @cached_property
    def deleted_rows(self) -> frozenset[RowKey]:
        """The deleted rows of the corpus, as (document id, revision, number of the corpus update that added the row).

        Examples that contain these documents must not be used.
        """
        batches = read_table(self.place, self.manifest, "deleted", ("id", "revision", "generation"))
        rows = (row for batch in batches for row in batch.to_pylist())
        return frozenset((row["id"], row["revision"], row["generation"]) for row in rows)

    @cached_property
    def is_live(self) -> Bools:
        """Boolean mask of the examples that contain no deleted document: bool [examples]."""
        if not self.deleted_rows:
            return np.ones(len(self), bool)
        live = [
            _find_live_rows(self._read(part, DOCUMENT_COLUMNS), int(part.labels["generation"]), self.deleted_rows)
            for part in self.parts
        ]
        return np.concatenate([np.zeros(0, bool), *live])

    def iter_live_examples(self) -> Iterator[Example]:
        """Yield the examples that contain no deleted document, in index order.

        Raises:
            Damaged: A file is damaged or was changed.
        """
        return (self[int(index)] for index in np.flatnonzero(self.is_live))

    def locate_row(self, index: int) -> tuple[Part, int]:
        """Return the shard that contains an example, and the row of the example in that shard, counted from 0.

        `index` is the index of the example in the split. It is not bounds-checked.
        """
        part = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self.parts[part], index - int(self._starts[part])

    def find_first_example(self, shard: int) -> int:
        """Return the index of the first example of a shard. `shard` is an index into `parts`."""
        return int(self._starts[shard])

    def find_path(self, index: int) -> str:
        """Return the path in the store of the file that contains an example. `index` is not bounds-checked."""
        part, row = self.locate_row(index)
        files = [file for file in part.files if file.table == "examples"]
        ends = np.cumsum([file.content.rows for file in files])
        return f"{self.manifest.stage_folder}/{files[int(np.searchsorted(ends, row, side='right'))].path}"

    def find_examples_with_document(self, document: bytes) -> list[int]:
        """Return the indices of all examples that contain a document, including deleted examples.

        All shards of the split are read.

        Args:
            document: The document's id, 16 bytes.
        """
        wanted = pa.scalar(document, pa.binary(len(document)))
        numbers: list[int] = []
        for start, part in zip(self._starts[:-1].tolist(), self.parts, strict=True):
            column = self._read(part, ("documents",)).column("documents").combine_chunks()
            rows = pc.list_parent_indices(column).to_numpy()[pc.equal(column.flatten(), wanted).to_numpy(False)]
            numbers += (np.unique(rows) + start).tolist()
        return numbers


def _find_live_rows(table: pa.Table, generation: int, deleted: frozenset[RowKey]) -> Bools:
    """Return a boolean mask of the rows of a shard that contain no deleted document.

    Args:
        table: The columns of the shard with the ids and revisions of the documents.
        generation: The corpus update (counted from 1) to which the shard belongs.
        deleted: The deleted rows of the corpus, as in `ShardSet.deleted_rows`.
    """
    gone = [id + revision.to_bytes(8, "little", signed=True) for id, revision, held in deleted if held == generation]
    live = np.ones(table.num_rows, bool)
    if gone:
        ids, revisions = (table.column(name).combine_chunks() for name in ("documents", "revisions"))
        keys = build_row_keys(ids.flatten(), revisions.flatten())
        is_deleted = pc.is_in(keys, value_set=pa.array(gone, keys.type)).to_numpy(zero_copy_only=False)
        live[pc.list_parent_indices(ids).to_numpy()[is_deleted]] = False
    return live


def build_row_keys(ids: pa.Array, revisions: pa.Array) -> pa.Array:
    """Concatenate each document id (16 bytes) with its revision (8 bytes) into a 24-byte key, in the order of `ids`.

    Args:
        ids: Arrow array of ids, 16 bytes each.
        revisions: Arrow array of int64, as long as `ids`.
    """
    revision_bytes = revisions.to_numpy().astype("<i8").view(np.uint8).reshape(-1, 8)
    return to_fixed_width_column(np.concatenate([to_byte_matrix(ids), revision_bytes], axis=1), ID_BYTES + 8)


def to_example(row: pa.Table) -> Example:
    """Convert a table with one row to an example. The arrays of the example are views of the table.

    Args:
        row: A row with the columns of `build_example_schema`.
    """
    lists = {
        f.name: _read_list(row, f.name)
        for f in row.schema
        if pa.types.is_list(f.type) and f.name not in DOCUMENT_COLUMNS
    }
    plain: dict[str, Any] = row.select([name for name in row.column_names if name not in lists]).to_pylist()[0]
    held: dict[str, Any] = {name: tuple(plain.pop(name)) for name in DOCUMENT_COLUMNS}
    lists.setdefault("mask_positions", np.zeros(0, np.uint16))
    lists.setdefault("mask_ids", np.zeros(0, lists["ids"].dtype))
    return Example(**{"label": None, "second_document": None, **plain}, **held, **lists)


def _read_list(row: pa.Table, name: str) -> Any:
    """Return the list in one column of a one-row table as a NumPy array."""
    return row.column(name).chunk(0).flatten().to_numpy(zero_copy_only=False)
