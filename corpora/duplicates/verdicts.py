"""Verdicts: what is decided about each document, in columns.

    sketches ─► revisions, forgets ─► total order ─► buckets ─► survivors ─► one row of `VERDICTS` a document

Rows are marked in three passes: forgotten, superseded, duplicate. A marked row takes no part in the later passes.

Cost: some 5 us a document of a few hundred bytes (`benchmarks.verdicts`). Memory: 60 bytes a document, and 64 for one
that shares a bucket, with 12 for each bucket that it is in.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from corpora.duplicates.candidates import (
    Input,
    SplitSettings,
    hash_ids,
    read_document_sets,
)
from corpora.duplicates.revisions import DroppedRecords, settle_ids
from corpora.duplicates.shingle_file import ShingleFile
from corpora.duplicates.survivors import LONGEST, DuplicateSettings, judge_table
from corpora.duplicates.sweep import KEPT, NO_PLACE
from corpora.kernels.arrays import Bools, Bytes, Float32s, Int32s, Int64s, UInt64s
from corpora.kernels.fixed_width import from_number_pairs
from corpora.schema import ID_BYTES
from corpora.store.places.place import Place
from corpora.store.randomness import compute_keys, draw_uniform
from corpora.store.scratch import BLOCK_ROWS, ScratchTable, make_scratch_folder, open_scratch_file
from corpora.tombstones import Tombstones

REMOVAL_REASONS = ("forgotten", "repeated", "superseded", "exact duplicate", "near duplicate")  # what the marks say
FORGOTTEN, REPEATED, SUPERSEDED, EXACT, NEAR = range(1, 6)  # in `Marks.reason`

VERDICTS = pa.schema(
    [
        pa.field("id", pa.binary(ID_BYTES), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("since", pa.int32(), nullable=False),
        pa.field("held_out", pa.bool_(), nullable=False),
        pa.field("reason", pa.string()),  # null: kept
        pa.field("survivor", pa.binary(ID_BYTES)),
        pa.field("similarity", pa.float32()),
        pa.field("missing", pa.float32()),  # share of its shingles that the survivor lacks
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The decisions made so far about the rows of the scratch table.

    Attributes:
        reason: uint8 [rows], 0 if the row is kept, otherwise the index in REMOVAL_REASONS plus 1.
        since: int32 [rows], the generation in which the id of each row first appeared.
        numbered: int64 [m], ascending: the rows that get a new id because an earlier record is identical.
        new_ids: uint64 [m, 2], the new ids of these rows.
    """

    reason: Bytes
    since: Int32s
    numbered: Int64s
    new_ids: UInt64s

    def read_ids(self, table: ScratchTable) -> UInt64s:
        """Return the final ids of all rows, uint64 [rows, 2], including the new ids of renumbered rows."""
        ids: UInt64s = table.read_column("id")
        ids[self.numbered] = self.new_ids
        return ids

    def count_reasons(self) -> list[int]:
        """Return the number of kept rows, followed by the number of rows removed for each of REMOVAL_REASONS, in that
        order.
        """
        counts: list[int] = np.bincount(self.reason, minlength=1 + len(REMOVAL_REASONS)).tolist()
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicates:
    """The results of the duplicate search. A place is a zero-based position in the total order of the compared rows.

    Attributes:
        order: int32 [places], the row index at each place.
        places: int32 [rows], the place of each row; NO_PLACE if the row was not compared.
        survivor: int64 [places], the place of the kept document that the document duplicates; KEPT if there is none.
        similarity: float32 [places], similarity to the survivor.
        missing: float32 [places], share of the document's shingles that the survivor lacks.
        figures: By name, how many pairs were compared, and how many were skipped because of the limit. Empty if the
            duplicate search is disabled.
    """

    order: Int32s
    places: Int32s
    survivor: Int64s
    similarity: Float32s
    missing: Float32s
    figures: dict[str, int] = field(default_factory=dict)


def mark_revisions(table: ScratchTable, generation: Int32s, dropped: DroppedRecords, tombstones: Tombstones) -> Marks:
    """Mark the rows that are on the tombstone list or replaced by another revision of the same record.

    Args:
        table: The scratch table from `open_candidates`.
        generation: int32 [rows], the generation (corpus update) that added each row.
        dropped: Records that were dropped before they became documents.
        tombstones: The ids and texts of forgotten documents.
    """
    forgotten = np.zeros(table.rows, np.bool_)
    for first in range(0, table.rows if tombstones.key else 0, BLOCK_ROWS):
        stop = min(first + BLOCK_ROWS, table.rows)
        forgotten[first:stop] = _find_forgotten(
            table.read_column("id", first, stop), table.read_column("text_hash", first, stop), tombstones
        )
    settled = settle_ids(table, generation, dropped, forgotten)
    if tombstones.key:
        texts = table.read_values("text_hash", settled.numbered)
        forgotten[settled.numbered] = _find_forgotten(settled.new_ids, texts, tombstones)
    reason = forgotten * np.uint8(FORGOTTEN)
    reason[settled.repeated], reason[settled.superseded] = REPEATED, SUPERSEDED
    return Marks(reason=reason, since=settled.since, numbered=settled.numbered, new_ids=settled.new_ids)


def _find_forgotten(ids: UInt64s, text_hashes: UInt64s, tombstones: Tombstones) -> list[bool]:
    pairs = zip(from_number_pairs(ids).to_pylist(), from_number_pairs(text_hashes).to_pylist(), strict=True)
    return [tombstones.is_forgotten(id, text) for id, text in pairs]


def find_duplicates(
    place: Place,
    table: ScratchTable,
    marks: Marks,
    priority: Int32s,
    inputs: Sequence[Input],
    settings: DuplicateSettings,
) -> Duplicates:
    """Find the duplicates among the rows that have not been removed so far, and mark them in `marks`.

    Args:
        place: The store.
        table: The scratch table from `open_candidates`.
        marks: The decisions so far, updated in place.
        priority: int32 [rows], the priority of each row's source. Lower numbers are preferred.
        inputs: The inputs of `table`.
        settings: Settings of the duplicate search.

    Raises:
        Damaged: If a file is missing, damaged or modified.
        InputError: If there is not enough disk space for temporary files.
    """
    rows = np.flatnonzero(marks.reason == 0) if settings.enabled else np.empty(0, np.int64)
    order = sort_rows(rows, marks, priority, table, settings)
    del rows
    folder = make_scratch_folder(place)
    with open_scratch_file(folder) as file:
        sets = ShingleFile(file, folder, order, lambda some: read_document_sets(place, inputs, some, settings))
        verdicts = judge_table(table, order, sets, settings)
    places = np.full(table.rows, NO_PLACE, np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    gone = np.flatnonzero(verdicts.survivor != KEPT)
    marks.reason[order[gone]] = np.where(verdicts.exact[gone], EXACT, NEAR)
    figures = {"pairs compared": verdicts.num_compared, "comparisons cut off": verdicts.num_cut}
    return Duplicates(
        order=order,
        places=places,
        survivor=verdicts.survivor,
        similarity=verdicts.similarity,
        missing=verdicts.missing,
        figures=figures if settings.enabled else {},
    )


def sort_rows(rows: Int64s, marks: Marks, priority: Int32s, table: ScratchTable, settings: DuplicateSettings) -> Int32s:
    """Sort rows into the total order in which they are judged.

    The sort keys are the generation of the id, source priority, quality (best first) and id. If the longest document is
    preferred, the number of shingles (highest first) comes before quality.

    Args:
        rows: int64, the row indices to sort.
        marks: The decisions from `mark_revisions`.
        priority: int32 [rows], the priority of each row's source. Lower numbers are preferred.
        table: The scratch table from `open_candidates`.
        settings: Settings of the duplicate search.

    Returns:
        int32, the sorted row indices.
    """
    ids = marks.read_ids(table)[rows]
    order = np.argsort(ids[:, 0])
    if np.any(np.diff(ids[order, 0]) == 0):
        order = np.lexsort((ids[:, 1], ids[:, 0]))
    del ids
    names = ("quality", "num_shingles") if settings.prefer == LONGEST else ("quality",)
    for key in (*(-table.read_column(name)[rows] for name in names), priority[rows], marks.since[rows]):
        key -= key.min(initial=0)
        if key.any():
            short = key.astype(np.uint16) if key.max() < 1 << 16 else key  # of 16 bits they are sorted in linear time
            order = order[np.argsort(short[order], kind="stable")]
    found: Int32s = rows[order].astype(np.int32)
    return found


def iter_verdict_batches(
    table: ScratchTable, marks: Marks, duplicates: Duplicates, split: SplitSettings, parts: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Yield a `VERDICTS` record batch for each part (file set) of documents. Parts without rows are omitted.

    Args:
        table: The scratch table from `open_candidates`.
        marks: All decisions.
        duplicates: The results of `find_duplicates`.
        split: Settings that select the documents to hold out.
        parts: The number of rows of each part, in the order of the table.
    """
    ids = marks.read_ids(table)
    first = 0
    for rows in parts:
        stop = first + rows
        place = duplicates.places[first:stop]
        reason = marks.reason[first:stop]
        stays = reason == 0
        copy = (reason == EXACT) | (reason == NEAR)
        survivors = from_number_pairs(ids[duplicates.order[duplicates.survivor[place[copy]]]])
        numbers = pa.array(np.where(copy, np.cumsum(copy) - 1, 0), mask=~copy)
        columns = [
            from_number_pairs(ids[first:stop]),
            table.read_column("revision", first, stop),
            marks.since[first:stop],
            _find_held_out(table, marks, split, first, stop),
            pa.array(REMOVAL_REASONS).take(pa.array(np.where(stays, 0, reason.astype(np.int64) - 1), mask=stays)),
            survivors.take(numbers),
            *(_spread(values[place[copy]], copy) for values in (duplicates.similarity, duplicates.missing)),
        ]
        if rows:
            yield pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=VERDICTS)
        first = stop


def _spread(values: Float32s, copy: Bools) -> pa.Array:
    """Build a float column that has the given values in rows that are duplicates, and null in all other rows.

    Args:
        values: float32, the values of the duplicates, in row order.
        copy: bool [rows], True for duplicates.
    """
    spread = np.zeros(len(copy), np.float32)
    spread[copy] = values
    return pa.array(spread, mask=~copy)


def _find_held_out(table: ScratchTable, marks: Marks, split: SplitSettings, first: int, stop: int) -> Bools:
    """Find the rows that are held out, by a hash of their group or id: bool [stop - first].

    Args:
        table: The scratch table from `open_candidates`.
        marks: All decisions.
        split: Settings that select the documents to hold out.
        first: Index of the first row.
        stop: End index of the rows (exclusive).
    """
    keys = table.read_column("split_key", first, stop)
    begin, end = np.searchsorted(marks.numbered, (first, stop))
    here = marks.numbered[begin:end] - first
    alone = ~table.read_column("has_group", first, stop)[here]
    keys[here[alone]] = hash_ids(from_number_pairs(marks.new_ids[begin:end][alone]))
    return draw_uniform(compute_keys(split.seed, "held-out", 0, keys), 0) < split.share
