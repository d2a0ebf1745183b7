"""Revisions: which row represents its id, since when an id is known, and the ids of equal records.

A source with a stable key for each record may contain a record again, changed or unchanged. Such rows have the same id.
Records without a key that are equal byte for byte share an id too, and are then numbered. Rows with a unique id need
none of this, so only the few rows that share an id are processed, as columns.

Promise: `settle_ids` returns the same as applying the rules row by row, which the tests do. Cost: one sort of the first
halves of all ids; memory 24 bytes a row, and some 150 for a row that shares its id.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.duplicates.candidates import REVISIONS, Input
from corpora.kernels.arrays import Bools, Int32s, Int64s, UInt64s
from corpora.kernels.fixed_width import from_number_pairs, to_number_pairs
from corpora.schema import compute_occurrence_id
from corpora.store.places.place import Place
from corpora.store.scratch import ScratchTable
from corpora.store.tables import read_part_table


class DroppedRecords(NamedTuple):
    """The n records with a stable key that were dropped before they became documents.

    Earlier revisions of these records are superseded nonetheless.

    Attributes:
        ids: uint64 [n, 2], the ids of the records.
        revision: int64 [n], their revisions.
        generation: int64 [n], the generations that added them.
    """

    ids: UInt64s
    revision: Int64s
    generation: Int64s


class SettledIds(NamedTuple):
    """The decisions of `settle_ids` about rows with equal ids. All rows are row indices in the scratch table.

    Attributes:
        since: int32 [rows], the generation in which the id of each row first appeared.
        numbered: int64 [m], ascending: the rows that get a new id because an earlier record is identical.
        new_ids: uint64 [m, 2], the new ids of these rows.
        repeated: int64, the rows with the same text as an older row of the same id, which is kept.
        superseded: int64, the rows that a newer revision replaces.
    """

    since: Int32s
    numbered: Int64s
    new_ids: UInt64s
    repeated: Int64s
    superseded: Int64s


def read_dropped(place: Place, inputs: Sequence[Input]) -> DroppedRecords:
    """Read the dropped records with a stable key of all inputs.

    A record without a revision gets its generation number as the revision.

    Args:
        place: The store.
        inputs: The inputs.

    Raises:
        Damaged: If a file is missing, damaged or modified.
    """
    found = [DroppedRecords(np.empty((0, 2), np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))]
    for item in inputs:
        for batch in _read_revisions(place, item):
            revision = batch.column("revision").fill_null(item.generation).to_numpy()
            generation = np.full(batch.num_rows, item.generation, np.int64)
            found.append(DroppedRecords(to_number_pairs(batch.column("id")), revision, generation))
    return DroppedRecords(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _read_revisions(place: Place, item: Input) -> Iterator[pa.RecordBatch]:
    for part in item.signatures.parts:
        yield from read_part_table(place, item.signatures.stage_folder, part, "revisions", REVISIONS.names)


def settle_ids(table: ScratchTable, generation: Int32s, dropped: DroppedRecords, forgotten: Bools) -> SettledIds:
    """Decide which of the rows with equal ids are kept.

    Identical records without a stable key get different ids, numbered in order of appearance. Of the rows with the same
    key, the oldest row that has the newest text is kept. The newest row is the one with the highest (revision,
    generation), or the last one if these are equal. For example, a page that a later dump repeats unchanged keeps its
    row, and a changed page replaces it. If the newest revision was dropped, none of the rows is kept.

    Args:
        table: The scratch table from `open_candidates`.
        generation: int32 [rows], the generation (corpus update) that added each row.
        dropped: The dropped records from `read_dropped`.
        forgotten: bool [rows], True for rows on the tombstone list. They are not reported as repeated or superseded,
            but they can be the newest revision and replace others.

    Raises:
        InputError: If the scratch table cannot be written.
    """
    since = generation.astype(np.int32)
    rows = _find_shared(table.read_column("id")[:, 0], dropped.ids[:, 0])
    ids = np.concatenate([table.read_values("id", rows), dropped.ids])
    # Dropped records come last, under numbers beyond the rows.
    places = np.concatenate([rows, table.rows + np.arange(len(dropped.ids))])
    keyed = np.concatenate([table.read_values("keyed", rows), np.ones(len(dropped.ids), np.bool_)])
    created = np.concatenate([generation[rows], dropped.generation])
    revision = np.concatenate([table.read_values("revision", rows), dropped.revision])
    order = np.lexsort((places, ids[:, 1], ids[:, 0]))
    ids, places, keyed, created, revision = (each[order] for each in (ids, places, keyed, created, revision))
    group = np.cumsum(np.r_[False, (ids[1:] != ids[:-1]).any(axis=1)][: len(ids)])

    occurrence = _count_before(group, ~keyed)
    again = np.flatnonzero(~keyed & (occurrence > 0))
    equal = zip(from_number_pairs(ids[again]).to_pylist(), occurrence[again].tolist(), strict=True)
    new_ids = pa.array([compute_occurrence_id(id, number) for id, number in equal], REVISIONS.field("id").type)
    by_row = np.argsort(places[again])

    is_row, num_groups = places < table.rows, int(group[-1]) + 1 if len(group) else 0
    stays = np.ones(len(group), np.bool_)
    stays[again] = False  # these have ids of their own
    first = np.full(num_groups, np.iinfo(np.int64).max)
    np.minimum.at(first, group[stays], created[stays])
    since[places[stays & is_row]] = first[group[stays & is_row]]

    # The last entry of a group by (revision, generation, place) is its newest; a dropped one of the same stamp as a
    # row is the same revision, so the row counts.
    of_key = np.flatnonzero(keyed)
    newest = of_key[
        np.lexsort((np.where(is_row, places, -1)[of_key], created[of_key], revision[of_key], group[of_key]))
    ]
    newest = newest[np.r_[group[newest][1:] != group[newest][:-1], len(newest) > 0][: len(newest)]]
    newest = newest[is_row[newest]]
    text = np.zeros((len(group), 2), np.uint64)
    ascending = np.argsort(places[is_row])
    text[np.flatnonzero(is_row)[ascending]] = table.read_values("text_hash", places[is_row][ascending])
    newest_of = np.full(num_groups, -1)
    newest_of[group[newest]] = newest
    marked = np.flatnonzero(keyed & is_row)
    marked = marked[~forgotten[places[marked]]]
    leader = newest_of[group[marked]]
    same = (leader >= 0) & (text[marked] == text[leader]).all(axis=1)
    alike = marked[same]  # in order within each group
    is_first = np.r_[True, group[alike][1:] != group[alike][:-1]][: len(alike)]
    return SettledIds(
        since=since,
        numbered=places[again][by_row],
        new_ids=to_number_pairs(new_ids)[by_row],
        repeated=np.sort(places[alike[~is_first]]),
        superseded=np.sort(places[marked[~same]]),
    )


def _find_shared(halves: UInt64s, dropped: UInt64s) -> Int64s:
    """Return the indices of the rows that share the first half of their id with another row or with a dropped record.

    Args:
        halves: uint64 [rows], the first half of each id.
        dropped: uint64, the first halves of the ids of the dropped records.

    Returns:
        int64, the row indices in ascending order.
    """
    ordered = np.sort(halves)
    repeated = np.unique(np.concatenate([ordered[1:][ordered[1:] == ordered[:-1]], dropped]))
    del ordered
    if not len(repeated):
        return np.empty(0, np.int64)
    at = np.minimum(np.searchsorted(repeated, halves), len(repeated) - 1)
    return np.flatnonzero(repeated[at] == halves)


def _count_before(group: Int64s, counted: Bools) -> Int64s:
    """For each entry, count the earlier entries of its group that are marked in `counted`: int64 [n].

    Args:
        group: int64 [n], the group of each entry: zero-based numbers without gaps, in ascending order.
        counted: bool [n], True for the entries to count.
    """
    before: Int64s = np.cumsum(counted) - counted
    begins = np.flatnonzero(np.r_[True, group[1:] != group[:-1]][: len(group)])
    return before - before[begins][group] if len(group) else before
