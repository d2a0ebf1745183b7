"""Who stays, of all rows, by the kernels of `corpora.duplicates`.

The rows of another corpus lead the order and stay unjudged; then come the rows in the order of their files, or the
longest first. Rows whose texts are equal, byte for byte, leave by hash; the first of each goes on to the rule of
`survivors`, which compares whole shingle sets. A row that is equal to a removed one has that one's survivor.

Memory: the sketches, of which the keys go as the bands are sorted; 8 bytes for each row that shares a band, and each
band; the shingle sets of such rows are in a file of a scratch folder.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from mmap import MADV_DONTNEED, mmap
from pathlib import Path

import numpy as np

from corpora.duplicates.signatures import EMPTY_SET
from corpora.duplicates.survivors import DuplicateSettings, judge_buckets
from corpora.duplicates.sweep import KEPT, OUT, shared_buckets
from corpora.duplicates.verify import Overlaps, ShingleSets, jaccard_pairs
from corpora.kernels.arrays import Float32s, Int64s, UInt64s
from flows.dedup.sketches import HAS_TEXT, UNREADABLE, Sketch

ReadSets = Callable[[Int64s], Iterator[UInt64s]]
EXACT, NEAR, UNREAD, HAS_COPIES = "exact duplicate", "near duplicate", "unreadable", "has duplicates"
EMPTIED, CUT = "nothing new", "parts cut out"
REASONS = ("", EXACT, NEAR, UNREAD, HAS_COPIES, EMPTIED, CUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVerdicts:
    """The outcome for each row, those of another corpus first.

    reason: places in REASONS; survivor: the row that stays for it, KEPT where there is none
    """

    reason: Int64s
    survivor: Int64s
    similarity: Float32s
    missing: Float32s
    num_compared: int
    num_cut: int


class SetsOnDisk:
    """The shingle sets of rows that will be compared, in a file. read: those of some rows, which ascend, in blocks."""

    def __init__(self, sizes: Int64s, order: Int64s, read: ReadSets, scratch: Path) -> None:
        self._sizes, self._order, self._read, self._path = sizes, order, read, scratch / "shingles"

    def expect(self, documents: Int64s) -> None:
        """Read the sets of these places in the order, once."""
        self._rows = np.sort(self._order[documents])
        offsets = np.concatenate([[0], np.cumsum(self._sizes[self._rows])])
        with self._path.open("w+b") as file:
            os.posix_fallocate(file.fileno(), 0, max(8 * int(offsets[-1]), 1))  # a full disk is an error here
            for values in self._read(self._rows):
                file.write(values.data)
            file.flush()
            self._map = mmap(file.fileno(), 0)
        self._path.unlink()
        self._sets = ShingleSets(np.frombuffer(self._map, np.uint64, int(offsets[-1])), offsets)

    def overlaps(self, left: Int64s, right: Int64s) -> Overlaps:
        """The similarities of pairs of places in the order."""
        one, other = (np.searchsorted(self._rows, self._order[each]) for each in (left, right))
        overlaps = jaccard_pairs(self._sets.values, self._sets.offsets, one, other)
        self._map.madvise(MADV_DONTNEED)  # the pages stay in the system's cache, and no longer count as this process's
        return overlaps


def judge(
    sketch: Sketch,
    bands: Iterable[UInt64s],
    num_given: int,
    settings: DuplicateSettings,
    keep: str,
    read: ReadSets,
    scratch: Path,
) -> RowVerdicts:
    """Judge all rows. bands: the rows' keys of each; keep: "first", "longest" or "none"; read: see `SetsOnDisk`."""
    total = len(sketch.state)
    order = np.arange(total)
    if keep == "longest":
        order = np.r_[order[:num_given], num_given + np.argsort(-sketch.num_shingles[num_given:], kind="stable")]
    reason, survivor = np.zeros(total, np.int64), np.full(total, KEPT, np.int64)
    similarity, missing = np.zeros(total, np.float32), np.zeros(total, np.float32)
    judged = order[sketch.state[order] == HAS_TEXT]
    leaders = _first_of_equal(sketch.text_hash[judged])
    copies = judged[leaders != np.arange(len(judged))]
    survivor[copies] = judged[leaders[leaders != np.arange(len(judged))]]
    copies = copies[copies >= num_given]
    single = judged[leaders == np.arange(len(judged))]
    set_hash = sketch.set_hash[single]
    places = np.full(total, OUT, np.int32)
    filled = np.flatnonzero(set_hash != EMPTY_SET)
    places[single[filled]] = filled
    buckets = shared_buckets(places, bands)
    sets = SetsOnDisk(sketch.num_shingles.astype(np.int64), single, read, scratch)
    given = int(np.count_nonzero(single < num_given))
    verdicts = judge_buckets(buckets, set_hash[buckets.documents], sets, settings, len(single), given)
    gone = np.flatnonzero(verdicts.survivor != KEPT)
    survivor[single[gone]] = single[verdicts.survivor[gone]]
    similarity[single[gone]], missing[single[gone]] = verdicts.similarity[gone], verdicts.missing[gone]
    reason[single[gone]] = REASONS.index(NEAR)
    reason[copies], similarity[copies] = REASONS.index(EXACT), 1
    removed_leader = reason[survivor[copies]] == REASONS.index(NEAR)
    moved, leader = copies[removed_leader], survivor[copies[removed_leader]]
    for values in (reason, survivor, similarity, missing):
        values[moved] = values[leader]
    survivor[:num_given] = KEPT
    if keep == "none":
        with_copies = np.unique(survivor[survivor >= num_given])
        first = np.flatnonzero(survivor != KEPT)[::-1]
        survivor[survivor[first]] = first  # the first of its copies, where it has several
        survivor[:num_given] = KEPT
        reason[with_copies] = REASONS.index(HAS_COPIES)
        similarity[with_copies] = similarity[survivor[with_copies]]
    reason[sketch.state == UNREADABLE] = REASONS.index(UNREAD)
    return RowVerdicts(
        reason=reason,
        survivor=survivor,
        similarity=similarity,
        missing=missing,
        num_compared=verdicts.num_compared,
        num_cut=verdicts.num_cut,
    )


def _first_of_equal(hashes: UInt64s) -> Int64s:
    """For each of some rows the first that has an equal hash of two numbers."""
    by_hash = np.lexsort((hashes[:, 1], hashes[:, 0]))  # equal ones stay in their order
    ordered = hashes[by_hash]
    begins = np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)][: len(ordered)]
    leaders = np.empty(len(hashes), np.int64)
    leaders[by_hash] = by_hash[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    return leaders
