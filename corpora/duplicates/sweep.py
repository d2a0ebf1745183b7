"""The sweep: the rule of `survivors`, applied to many documents at once over sorted bands.

Documents that share no bucket with another need no work. The others are numbered again, in their order, and taken in
blocks: `gather_pairs` collects all pairs that the rule might compare (with the kept documents before the block, and
with those of the block, which have no verdict yet); their similarities are computed in one call; `judge_block` applies
the rule in order. Some pairs turn out to be unnecessary, at most MAX_BLOCK_DOCUMENTS for each bucket of a document.
They are not counted.

Promise: the verdicts and counts of `survivors.judge_duplicates_plain`. Cost: 8 bytes for each place of a document in a
bucket that it shares, 16 for a bucket, 64 for the document itself; about 40 ns a key, apart from the comparisons. A
document asks for at most `limit` + MAX_BLOCK_DOCUMENTS pairs a bucket, so the work grows with the number of documents
and not with its square.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from corpora.duplicates.verify import Overlaps
from corpora.kernels.arrays import Int32s, Int64s, UInt64s
from corpora.kernels.compiling import kernel

MAX_BLOCK_DOCUMENTS = 1024  # documents settled together, at most
PAIRS_PER_CALL = 1 << 12  # pairs asked for in one call, unless a single document needs more
KEPT = -1
MAX_INSERTION_SORT = 16  # values that are sorted by insertion
NO_PLACE = -1  # the place of a row that meets no other
COMPARED, CUT, TICKET = 0, 1, 2  # places in Sweep.counts
_1, _2, _5, _31 = (np.uint64(number) for number in (1, 2, 5, 31))


class Similarity(Protocol):
    """Protocol for comparing the shingle sets of documents, identified by their positions in the total order."""

    def load(self, documents: Int64s) -> None:
        """Prepare to compare the given documents. This is called once, before `compute_overlaps`.

        An implementation can read all of their shingle sets at once here.

        Args:
            documents: int64, positions in the total order.
        """

    def compute_overlaps(self, left: Int64s, right: Int64s) -> Overlaps:
        """Compute the overlap of the shingle sets of the documents left[k] and right[k] for all k.

        Args:
            left: int64 [n], positions in the total order.
            right: int64 [n], positions in the total order.
        """


class Buckets(NamedTuple):
    """All buckets with at least two documents. A bucket contains the documents that have the same key in the same band.

    Only the m documents in these buckets are included. They are numbered from 0 to m - 1, in the total order.

    Attributes:
        documents: int64 [m], the position of each document in the total order.
        members: int32, the document numbers in each bucket, bucket by bucket, in ascending order. During the sweep, the
            kept documents of a bucket are moved to its beginning and overwrite documents that have been judged.
        offsets: int64 [buckets + 1]. Bucket b is members[offsets[b]:offsets[b + 1]].
        buckets_of: int32, the bucket numbers of each document, document by document.
        heads: int64 [m + 1]. The buckets of document d are buckets_of[heads[d]:heads[d + 1]].
    """

    documents: Int64s
    members: Int32s
    offsets: Int64s
    buckets_of: Int32s
    heads: Int64s


class Sweep(NamedTuple):
    """The state of judging the m documents of `Buckets` in order. Documents have the same numbers as there.

    Attributes:
        first: int64 [m], the first document with the same set of shingles. Only that document can be kept.
        survivor: int64 [m], the kept document that the document duplicates; KEPT if there is none.
        common: int64 [m], size of the intersection with the survivor's shingles.
        union: int64 [m], size of the union with the survivor's shingles.
        num_shingles: int64 [m], number of shingles; 1 if the document was not compared with others.
        num_kept: int32 [buckets], number of documents kept so far.
        num_gathered: int32 [buckets], number of documents for which pairs have been gathered.
        seen: int64 [m], the last ticket (a running number) with which a document was visited, so that each document is
            visited only once per ticket.
        counts: int64 [3], indexed by COMPARED, CUT and TICKET.
    """

    first: Int64s
    survivor: Int64s
    common: Int64s
    union: Int64s
    num_shingles: Int64s
    num_kept: Int32s
    num_gathered: Int32s
    seen: Int64s
    counts: Int64s


def start_sweep(buckets: Buckets, first: Int64s) -> Sweep:
    """Return the initial state of a sweep.

    Args:
        buckets: The buckets.
        first: int64 [m], the result of `find_equal_sets`.
    """
    size = len(buckets.documents)
    return Sweep(
        first=first,
        survivor=np.full(size, KEPT, np.int64),
        common=np.zeros(size, np.int64),
        union=np.ones(size, np.int64),
        num_shingles=np.ones(size, np.int64),
        num_kept=np.zeros(len(buckets.offsets) - 1, np.int32),
        num_gathered=np.zeros(len(buckets.offsets) - 1, np.int32),
        seen=np.zeros(size, np.int64),
        counts=np.zeros(3, np.int64),
    )


def build_buckets(places: Int32s, bands: Iterable[UInt64s]) -> Buckets:
    """Group documents into buckets by their band keys.

    Args:
        places: int32 [n], the position of each row in the total order; NO_PLACE to ignore the row.
        bands: The keys of all rows in each band, as one uint64 [n] array per band.
    """
    assert len(places) < 2**31, "numbers of documents have 32 bits"
    total = int(places.max(initial=NO_PLACE)) + 1
    shares = np.zeros(total, np.bool_)
    of_bands = [(np.empty(0, np.int32), np.empty(0, np.int32))]
    for band in bands:
        found, sizes = find_shared_rows(band, places)
        documents = places[found]
        sort_runs(documents, sizes)
        shares[documents] = True
        of_bands.append((documents, sizes))
    members: Int32s = np.concatenate([members for members, _ in of_bands])
    offsets = _to_offsets(np.concatenate([sizes for _, sizes in of_bands]))
    del of_bands
    assert len(offsets) < 2**31, "numbers of buckets have 32 bits"
    sharing = np.flatnonzero(shares)
    buckets_of, heads = np.empty(len(members), np.int32), np.zeros(len(sharing) + 2, np.int64)
    list_buckets(members, offsets, np.cumsum(shares, dtype=np.int32) - np.int32(1), buckets_of, heads)
    return Buckets(documents=sharing, members=members, offsets=offsets, buckets_of=buckets_of, heads=heads[:-1].copy())


def find_shared_rows(keys: UInt64s, places: Int32s) -> tuple[Int32s, Int32s]:
    """Find the rows that share their key with another row. Rows without a place are ignored.

    A table of bits first excludes about seven in eight of the keys that occur only once, so that fewer have to be
    sorted.

    Args:
        keys: uint64 [n], the key of each row.
        places: int32 [n], the position of each row in the total order; NO_PLACE to ignore the row.

    Returns:
        The row indices, grouped by key, and the size of each group, both int32.
    """
    slots = max(64, 8 << len(keys).bit_length())
    table, rows = np.zeros(slots // 32, np.uint64), np.empty(len(keys), np.int32)
    rows = rows[: find_repeated_keys(keys, places, np.uint64(65 - slots.bit_length()), table, rows)]
    del table
    found = keys[rows]
    # The upper bits of each key with its place below are sorted twice as fast as places are; then the few keys that
    # agree in the upper bits are put right.
    below = np.uint64((1 << len(rows).bit_length()) - 1)
    numbers = found & ~below | np.arange(len(rows), dtype=np.uint64)
    numbers.sort()
    order = (numbers & below).astype(np.int64)
    del numbers
    order = order[np.argsort(found[order], kind="stable")]
    sizes = _count_runs(found[order]).astype(np.int32)
    return rows[order][np.repeat(sizes > 1, sizes)], sizes[sizes > 1]


@kernel
def sort_runs(values: Int32s, sizes: Int32s) -> None:
    """Sort consecutive runs of values in place. Most of the runs should be short.

    Args:
        values: int32, the values of all runs.
        sizes: int32, the length of each run.
    """
    start = 0
    for size in sizes:
        if size > MAX_INSERTION_SORT:
            values[start : start + size].sort()
        else:
            for at in range(start + 1, start + size):
                value, place = values[at], at
                while place > start and values[place - 1] > value:
                    values[place] = values[place - 1]
                    place -= 1
                values[place] = value
        start += size


@kernel
def find_repeated_keys(keys: UInt64s, places: Int32s, shift: np.uint64, table: UInt64s, rows: Int32s) -> int:
    """Find the rows that may share their key with another row. Some of the keys found occur only once.

    Args:
        keys: uint64 [n], the key of each row.
        places: int32 [n], NO_PLACE for rows to ignore.
        shift: Number of low bits to remove from a key to get its slot in `table`.
        table: uint64, two bits per slot, which mean "seen once" and "seen again". Must be zero-initialized.
        rows: int32 [n], filled with the indices of the rows found.

    Returns:
        The number of rows found.
    """
    for row in range(len(keys)):
        if places[row] != NO_PLACE:
            slot = keys[row] >> shift
            word, met = slot >> _5, _1 << ((slot & _31) << _1)
            table[word] |= (table[word] & met) << _1 | met
    number = 0
    for row in range(len(keys)):
        slot = keys[row] >> shift
        if places[row] != NO_PLACE and table[slot >> _5] >> ((slot & _31) << _1) & _2:
            rows[number] = row
            number += 1
    return number


@kernel
def list_buckets(members: Int32s, offsets: Int64s, numbers: Int32s, buckets_of: Int32s, heads: Int64s) -> None:
    """Renumber the members of the buckets in place, and list the buckets of each document.

    Args:
        members: int32, positions in the total order, which are replaced by document numbers.
        offsets: int64 [buckets + 1]. Bucket b is members[offsets[b]:offsets[b + 1]].
        numbers: int32, the document number of each position in the total order.
        buckets_of: int32, as long as `members`, filled with the bucket numbers of each document, document by document.
        heads: int64 [m + 2], zero-initialized. Afterwards, document d has buckets_of[heads[d]:heads[d + 1]].
    """
    for place in range(len(members)):
        members[place] = numbers[members[place]]
        heads[members[place] + 2] += 1
    for document in range(2, len(heads)):
        heads[document] += heads[document - 1]
    for bucket in range(len(offsets) - 1):
        for document in members[offsets[bucket] : offsets[bucket + 1]]:
            buckets_of[heads[document + 1]] = bucket
            heads[document + 1] += 1


def _count_runs(values: UInt64s) -> Int64s:
    """Return the number of occurrences of each distinct value in a sorted array, in the order of the values: int64."""
    ends = np.flatnonzero(np.r_[values[1:] != values[:-1], len(values) > 0]) + 1
    return np.diff(ends, prepend=0)


def _to_offsets(sizes: Int64s) -> Int64s:
    return np.concatenate([[0], np.cumsum(sizes)])


def find_equal_sets(hashes: UInt64s, documents: Int64s, similarity: Similarity) -> Int64s:
    """For each document, find the first document that has the same set of shingles.

    Documents with equal hashes are compared exactly, so hash collisions cannot cause errors.

    Args:
        hashes: uint64 [m], hashes of the shingle sets.
        documents: int64 [m], positions in the total order.
        similarity: Compares pairs of documents.

    Returns:
        int64 [m], index of the first document with the same set, which may be the document itself.
    """
    first = np.arange(len(documents))
    pending = np.argsort(hashes, kind="stable")
    while len(pending):
        sizes = _count_runs(hashes[pending])
        leaders = np.repeat(pending[_to_offsets(sizes)[:-1]], sizes)
        leaders, pending = leaders[leaders != pending], pending[leaders != pending]
        differ, ascending = np.empty(len(pending), np.bool_), np.argsort(pending)  # sets are read in their order
        for at in range(0, len(pending), PAIRS_PER_CALL):
            chunk = ascending[at : at + PAIRS_PER_CALL]
            overlaps = similarity.compute_overlaps(documents[leaders[chunk]], documents[pending[chunk]])
            differ[chunk] = overlaps.intersection != overlaps.union
        first[pending[~differ]] = leaders[~differ]
        pending = pending[differ]  # their hash is that of another set: they look among themselves
    return first


@kernel
def gather_pairs(
    buckets: Buckets, sweep: Sweep, start: int, num_given: int, limit: int, others: Int64s, ends: Int64s
) -> int:
    """Gather the pairs of documents to compare, for a block of documents that begins at `start`.

    Args:
        buckets: The buckets.
        sweep: The state of the sweep.
        start: Number of the first document in the block.
        num_given: Number of documents at the beginning that are not judged.
        limit: Maximum number of kept documents per bucket to compare with.
        others: int64, filled with the second document of each pair. When it is full, the block ends.
        ends: int64 [maximum length of a block + 1], filled. ends[0] must be 0. Document start + i is paired with
            others[ends[i]:ends[i + 1]].

    Returns:
        The number of the first document after the block.
    """
    document, num_pairs = start, 0
    while document < len(buckets.documents) and document - start < len(ends) - 1:
        first = sweep.first[document]
        if document >= num_given and (first == document or first >= start or sweep.survivor[first] != KEPT):
            if num_pairs + bound_candidates(buckets, sweep, document, start, limit) > len(others):
                break
            num_pairs = add_candidates(buckets, sweep, document, start, limit, others, num_pairs)
        for bucket in buckets.buckets_of[buckets.heads[document] : buckets.heads[document + 1]]:
            sweep.num_gathered[bucket] += 1
        document += 1
        ends[document - start] = num_pairs
    return document


@kernel
def bound_candidates(buckets: Buckets, sweep: Sweep, document: int, start: int, limit: int) -> int:
    """Return an upper bound on the number of pairs that `add_candidates` adds for a document.

    Args:
        buckets: The buckets.
        sweep: The state of the sweep.
        document: Number of the document.
        start: Number of the first document in the block.
        limit: Maximum number of kept documents per bucket to compare with.
    """
    most = 0
    for bucket in buckets.buckets_of[buckets.heads[document] : buckets.heads[document + 1]]:
        most += min(sweep.num_kept[bucket], limit) + min(sweep.num_gathered[bucket], document - start)
    return min(most, document)


@kernel
def add_candidates(
    buckets: Buckets, sweep: Sweep, document: int, start: int, limit: int, others: Int64s, num_pairs: int
) -> int:
    """Append to `others` the documents that a document may have to be compared with, each only once.

    These are the first kept documents of each bucket and, because the documents of the block have not been judged, all
    earlier documents of the block that may be kept.

    Args:
        buckets: The buckets.
        sweep: The state of the sweep.
        document: Number of the document.
        start: Number of the first document in the block.
        limit: Maximum number of kept documents per bucket to compare with.
        others: int64, the second document of each pair.
        num_pairs: Number of pairs in `others` so far.

    Returns:
        The new number of pairs in `others`.
    """
    sweep.counts[TICKET] += 1
    ticket: int = sweep.counts[TICKET]
    for bucket in buckets.buckets_of[buckets.heads[document] : buckets.heads[document + 1]]:
        head = buckets.offsets[bucket]
        for other in buckets.members[head : head + min(sweep.num_kept[bucket], limit)]:
            if sweep.seen[other] != ticket:
                sweep.seen[other] = ticket
                others[num_pairs] = other
                num_pairs += 1
        place = head - 1 + (sweep.num_gathered[bucket] if sweep.num_kept[bucket] < limit else 0)
        while place >= head and buckets.members[place] >= start:
            other = buckets.members[place]
            if sweep.seen[other] != ticket and sweep.first[other] == other:
                sweep.seen[other] = ticket
                others[num_pairs] = other
                num_pairs += 1
            place -= 1
    return num_pairs


@kernel
def judge_block(
    buckets: Buckets,
    sweep: Sweep,
    start: int,
    end: int,
    num_given: int,
    limit: int,
    others: Int64s,
    ends: Int64s,
    overlaps: Overlaps,
    numerator: int,
    denominator: int,
    must_contain: bool,
) -> None:
    """Judge the documents of a block in order, given the overlaps of the pairs from `gather_pairs`.

    Args:
        buckets: The buckets, updated in place.
        sweep: The state of the sweep, updated in place.
        start: Number of the first document in the block.
        end: Number of the first document after the block.
        num_given: Number of documents at the beginning that are not judged.
        limit: Maximum number of kept documents per bucket to compare with.
        others: int64, from `gather_pairs`.
        ends: int64, from `gather_pairs`.
        overlaps: The overlap of each pair.
        numerator: Numerator of the threshold.
        denominator: Denominator of the threshold.
        must_contain: If True, a document is removed only if the other document has all of its shingles.
    """
    for document in range(start, end):
        first = sweep.first[document]
        if document < num_given:
            if first == document:
                keep_document(buckets, sweep, document)
            continue
        if first != document and sweep.survivor[first] == KEPT:
            sweep.survivor[document], sweep.common[document] = first, 1
            continue
        ticket = mark_compared(buckets, sweep, document, limit)
        for pair in range(ends[document - start], ends[document - start + 1]):
            other, common, union = others[pair], overlaps.intersection[pair], overlaps.union[pair]
            if sweep.seen[other] != ticket:
                continue
            sweep.counts[COMPARED] += 1
            sweep.num_shingles[document] = overlaps.right_size[pair]
            whole = common == sweep.num_shingles[document] or not must_contain
            if whole and common * denominator >= numerator * union and union > 0:
                update_survivor(sweep, document, other, common, union)
        if sweep.survivor[document] == KEPT:
            keep_document(buckets, sweep, document)


@kernel
def keep_document(buckets: Buckets, sweep: Sweep, document: int) -> None:
    """Add a document to the kept documents of all its buckets, so that later documents are compared with it.

    Args:
        buckets: The buckets, updated in place.
        sweep: The state of the sweep, updated in place.
        document: Number of the document.
    """
    for bucket in buckets.buckets_of[buckets.heads[document] : buckets.heads[document + 1]]:
        buckets.members[buckets.offsets[bucket] + sweep.num_kept[bucket]] = document
        sweep.num_kept[bucket] += 1


@kernel
def mark_compared(buckets: Buckets, sweep: Sweep, document: int, limit: int) -> int:
    """Mark the kept documents to compare a document with, at most `limit` per bucket.

    The number of kept documents that are left out because of the limit is added to `sweep.counts[CUT]`.

    Args:
        buckets: The buckets.
        sweep: The state of the sweep, updated in place.
        document: Number of the document.
        limit: Maximum number of kept documents per bucket to compare with.

    Returns:
        The ticket (a running number) with which the documents were marked in `sweep.seen`.
    """
    sweep.counts[TICKET] += 1
    ticket: int = sweep.counts[TICKET]
    for bucket in buckets.buckets_of[buckets.heads[document] : buckets.heads[document + 1]]:
        head, num_kept = buckets.offsets[bucket], sweep.num_kept[bucket]
        sweep.counts[CUT] += max(num_kept - limit, 0)
        for other in buckets.members[head : head + min(num_kept, limit)]:
            sweep.seen[other] = ticket
    return ticket


@kernel
def update_survivor(sweep: Sweep, document: int, other: int, common: int, union: int) -> None:
    """Set the survivor of a document to `other` if `other` is a better match than the current survivor.

    A better match is more similar, or equally similar and earlier in the order.

    Args:
        sweep: The state of the sweep, updated in place.
        document: Number of the document.
        other: Number of a kept document.
        common: Size of the intersection of their sets of shingles.
        union: Size of the union of their sets of shingles.
    """
    so_far = sweep.survivor[document]
    gain = common * sweep.union[document] - sweep.common[document] * union
    if so_far == KEPT or gain > 0 or (gain == 0 and other < so_far):
        sweep.survivor[document], sweep.common[document], sweep.union[document] = other, common, union
