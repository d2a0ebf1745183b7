"""The kernels of learning merges: words are spelled as numbers of letters or bytes, and pairs of these are counted and
joined.

Pairs are counted once, and after each merge only in the words that it changed.

Promise: the merges of `tokenizers_train.learning.byte_bpe.learn_merges_plain`, in the same order. Letters are what
Python's `ord` gives for each character; no byte outside the words is looked at.
Cost: see `tokenizers_train.learning.byte_bpe`; spelling allocates nothing: the caller brings all arrays.

All words are in one row of cells, a cell for each letter, with an edge between two words. A piece is known by its id in
the first and in the last of its cells, and the id tells how many cells it has: so both neighbors of a piece are found
by one lookup each. Cells between them are inner ones. A pair keeps the list of the cells at which it has begun; ids
only grow when they are written over, so a cell of the list that no longer shows the pair's left id has been joined to
something else, and one that does is still the first cell of that piece. When there is no room for more lists, the cells
that no longer begin their pair leave them, and never come back.

Words of one count are next to each other, so that a count is kept for `BLOCK` cells and not for each.

What a merge changes is gathered by the neighbor's id before any pair is looked up: how often the new piece has it at
its left and at its right. A pair that is less frequent than the least count when it is made is not noted at all: it
gains only in the merge that makes it, for one of its pieces is new then.
"""

import heapq
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bools, Bytes, Int32s, Int64s, Integer, copy_values
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import GOLDEN_RATIO
from corpora.kernels.utf8 import decode

EDGE = -1  # between two words
NUM_CODES = 0x110000  # code points that Unicode has
_NUM_BYTES = 256


@kernel
def count_letters(
    data: Bytes,
    offsets: Int64s,
    counts: Int64s,
    totals: Int64s,
    is_inner: Bools,
) -> int:
    """Count how often each code point occurs, weighted by word counts.

    Args:
        data: UTF-8 bytes of all words.
        offsets: int64 [words + 1], offsets of the words in `data`.
        counts: int64 [words], how often each word occurs.
        totals: int64 [NUM_CODES], incremented in place.
        is_inner: bool [NUM_CODES], set to True for code points that occur after the first letter of a word.

    Returns:
        The total number of letters in the distinct words.
    """
    num_letters = 0
    for word in range(len(counts)):
        position = offsets[word]
        while position < offsets[word + 1]:
            code, width = decode(data, position)
            totals[code] += counts[word]
            if position > offsets[word]:
                is_inner[code] = True
            position += width
            num_letters += 1
    return num_letters


@kernel
def spell_words(
    data: Bytes,
    offsets: Int64s,
    order: Int64s,
    run_starts: Int64s,
    first_ids: Int32s,
    inner_ids: Int32s,
    pieces: Int32s,
    runs: Int64s,
    mergeable: Int64s,
) -> int:
    """Write the ids of the letters of all words to `pieces`, with an `EDGE` before the first word and after each word.

    Args:
        data: UTF-8 bytes of all words.
        offsets: int64 [words + 1], offsets of the words in `data`.
        order: The indices of the words in the order to write them. Words with the same count form a group.
        run_starts: The index in `order` of the first word of each group, and the end of the last group.
        first_ids: The id of each letter as the first letter of a word, by code point, or by byte if the array has 256
            entries. A letter with the id -1 is skipped.
        inner_ids: The id of each letter after the first letter of a word, in the same format.
        pieces: Filled with the ids. It needs one entry per letter, one per word, and one more.
        runs: Filled with the index in `pieces` of the first letter of each group, and the end of the last group.
        mergeable: Must be initialized to zero. Filled with the number of words in each group that have at least two
            letters and no skipped letter.

    Returns:
        The number of entries written to `pieces`.
    """
    pieces[0], total = EDGE, 1
    for run in range(len(run_starts) - 1):
        runs[run] = total
        for i in range(run_starts[run], run_starts[run + 1]):
            position, end = offsets[order[i]], offsets[order[i] + 1]
            ids, first_cell, num_letters = first_ids, total, 0
            while position < end:
                code, width = decode(data, position) if len(ids) > _NUM_BYTES else (int(data[position]), 1)
                if ids[code] >= 0:
                    pieces[total] = ids[code]
                    total += 1
                position += width
                ids = inner_ids
                num_letters += 1
            if total - first_cell == num_letters > 1:
                mergeable[run] += 1
            pieces[total] = EDGE
            total += 1
    runs[-1] = total
    return total


_INNER = -2  # a cell between the first and the last one of a piece
BLOCK = 64  # cells
_HALF = np.uint64(32)
_LEFT, _LEFT_CELLS, _RIGHT, _RIGHT_CELLS = 0, 1, 2, 3  # what is gathered for an id


class Cells(NamedTuple):
    """Distinct words in one array with an entry (cell) for each letter. Words with the same count form a group.

    Attributes:
        pieces: int32, an `EDGE`, then the piece ids of each word followed by an `EDGE`. A piece of several letters has
            its id in its first and last cell.
        runs: int64, the first cell of each group, and the end of the last group.
        counts: int64, how often each word of a group occurs.
        blocks: int64, one entry for each `BLOCK` cells: the count of their words, or -1 - g if the cells belong to
            several groups, the first of which is g.
    """

    pieces: Int32s
    runs: Int64s
    counts: Int64s
    blocks: Int64s


class Pairs(NamedTuple):
    """A hash table of pairs of pieces. Each pair has a list of the cells at which it may begin.

    Attributes:
        keys: int64, left id * 2^32 + right id of each pair.
        counts: int64, how often each pair occurs, weighted by word counts. The count is 0 once the pair is merged.
        begins: int64, the start of each pair's list in `places`.
        ends: int64, the end of each pair's list in `places`.
        slots: int32, the hash table. A slot has the index of a pair, or -1 if it is empty. The number of slots is a
            power of two, and at most half of them are used.
        places: int32, the lists of cells, each in ascending order.
        used: int64 [2], the number of pairs, and the number of entries in `places`.
    """

    keys: Int64s
    counts: Int64s
    begins: Int64s
    ends: Int64s
    slots: Int32s
    places: Int32s
    used: Int64s


class MergeChanges(NamedTuple):
    """Scratch space for the pairs that one merge changes.

    Attributes:
        neighbour_sums: int64, four values per id: how often it is to the left of the new piece, weighted by word counts
            and unweighted, then the same for the right.
        lefts: int32, the ids that occur to the left of the new piece.
        rights: int32, the ids that occur to the right of the new piece.
        neighbours: int32, the left and right neighbor of each new piece, or EDGE if there is none.
        repeats: int64 [2], how often the new piece follows itself, weighted by word counts and unweighted.
    """

    neighbour_sums: Int64s
    lefts: Int32s
    rights: Int32s
    neighbours: Int32s
    repeats: Int64s


@kernel
def _find_slot(slots: Int32s, keys: Int64s, key: Integer) -> np.int64:
    """Return the slot that has the pair with this key, or the empty slot at which it must be inserted.

    Args:
        slots: `Pairs.slots`.
        keys: `Pairs.keys`.
        key: Left id * 2^32 + right id of the pair.
    """
    value = np.uint64(key) * GOLDEN_RATIO
    mask = len(slots) - 1
    slot = np.int64((value ^ (value >> _HALF)) & np.uint64(mask))
    while slots[slot] >= 0 and keys[slots[slot]] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _pack_key(left: Integer, right: Integer) -> np.int64:
    """Pack two ids into one integer that sorts like the pair (left, right). Ids must be from 0 to 2^31 - 1."""
    return np.int64(left) << 32 | np.int64(right)


@kernel
def _with_pair_room(pairs: Pairs, more: int) -> Pairs:
    """Return the table of pairs, or a larger copy of it, with capacity for `more` additional pairs."""
    num_pairs = pairs.used[0]
    if num_pairs + more <= len(pairs.keys):
        return pairs
    size = 1 << 10
    while size < 2 * (num_pairs + more):
        size *= 2
    keys, counts = np.empty(size, np.int64), np.empty(size, np.int64)
    begins, ends = np.empty(size, np.int64), np.empty(size, np.int64)
    for number in range(num_pairs):
        keys[number], counts[number] = pairs.keys[number], pairs.counts[number]
        begins[number], ends[number] = pairs.begins[number], pairs.ends[number]
    larger = Pairs(keys, counts, begins, ends, np.full(2 * size, -1, np.int32), pairs.places, pairs.used)
    for number in range(num_pairs):
        larger.slots[_find_slot(larger.slots, keys, keys[number])] = number
    return larger


@kernel
def _with_place_room(cells: Int32s, sizes: Int32s, pairs: Pairs, more: int, min_count: int) -> Pairs:
    """Return the pairs with capacity for `more` additional entries in `places`.

    Outdated entries are removed first. The array is enlarged if that is not enough.

    Args:
        cells: `Cells.pieces`, to recognize outdated entries.
        sizes: int32, the number of cells of each id.
        pairs: The pairs. `places`, `begins` and `ends` are changed in place.
        more: Number of additional entries.
        min_count: Minimum count of a pair to be merged. The lists of less frequent pairs are emptied.
    """
    if pairs.used[1] + more <= len(pairs.places):
        return pairs
    places, at = pairs.places, 0
    for number in range(pairs.used[0]):
        left, right = pairs.keys[number] >> 32, pairs.keys[number] & 0xFFFFFFFF
        begin, end = pairs.begins[number], pairs.ends[number]
        pairs.begins[number] = at
        if pairs.counts[number] >= min_count:  # else it is never joined again
            for i in range(begin, end):
                place = places[i]
                if cells[place] == left and cells[place + sizes[left]] == right:
                    places[at] = place
                    at += 1
        pairs.ends[number] = at
    pairs.used[1] = at
    if at + more > len(places) - (len(places) >> 3):
        places = np.empty((at + more) + ((at + more) >> 2), np.int32)
        copy_values(pairs.places[:at], places[:at])
    return Pairs(pairs.keys, pairs.counts, pairs.begins, pairs.ends, pairs.slots, places, pairs.used)


@kernel
def _enter_pair(pairs: Pairs, key: Integer, count: Integer, num_places: Integer) -> np.int64:
    """Insert a new pair into the table and reserve a list of cells for it. There must be enough capacity.

    Args:
        pairs: The table, which is changed in place.
        key: Left id * 2^32 + right id of the pair, which must not be in the table.
        count: How often the pair occurs, weighted by word counts.
        num_places: Number of cells in the list, which are not filled.

    Returns:
        The start of the list in `pairs.places`.
    """
    number, begin = pairs.used[0], pairs.used[1]
    pairs.slots[_find_slot(pairs.slots, pairs.keys, key)] = number
    pairs.keys[number], pairs.counts[number] = key, count
    pairs.begins[number] = begin
    pairs.ends[number] = begin + num_places
    pairs.used[0], pairs.used[1] = number + 1, begin + num_places
    return np.int64(begin)


@kernel
def _find_word_count(cells: Cells, cell: Integer) -> np.int64:
    """Return how often the word occurs that contains the cell with this index."""
    count = cells.blocks[cell // BLOCK]
    if count > 0:
        return np.int64(count)
    run = -1 - count
    while cells.runs[run + 1] <= cell:
        run += 1
    return np.int64(cells.counts[run])


@kernel
def _number_pairs(cells: Cells, pairs: Pairs, done: int) -> int:
    """Count the pairs that begin at cell `done` or later, and give each new pair an index.

    Args:
        cells: The words.
        pairs: Changed in place: `counts` is increased by the counts of the words, `ends` by the number of cells.
        done: Index of the first cell to count.

    Returns:
        The cell at which the table of pairs was full, or the number of cells if all pairs were counted.
    """
    pieces, keys, totals, ends, used = cells.pieces, pairs.keys, pairs.counts, pairs.ends, pairs.used
    for at in range(done, len(pieces) - 1):
        left, right = pieces[at], pieces[at + 1]
        if left < 0 or right < 0:
            continue
        key = _pack_key(left, right)
        slot = _find_slot(pairs.slots, keys, key)
        number = np.int64(pairs.slots[slot])
        if number < 0:
            number = used[0]
            if number == len(keys):
                return at
            pairs.slots[slot], keys[number], totals[number], ends[number] = number, key, 0, 0
            used[0] = number + 1
        totals[number] += _find_word_count(cells, at)
        ends[number] += 1
    return len(pieces)


@kernel
def count_pairs(cells: Cells, pairs: Pairs, min_count: int) -> Pairs:
    """Count all pairs of letters, and list the cells of pairs that occur at least `min_count` times.

    Args:
        cells: The letters of all words.
        pairs: An empty table, which may have no capacity.
        min_count: Cells are listed only for pairs with at least this count, weighted by word counts.

    Returns:
        The filled table, which is a larger copy if `pairs` had too little capacity.
    """
    pieces, done = cells.pieces, 0
    while done < len(pieces):
        pairs = _with_pair_room(pairs, 1)
        done = _number_pairs(cells, pairs, done)
    total = 0
    for number in range(pairs.used[0]):
        listed = pairs.ends[number] if pairs.counts[number] >= min_count else 0
        pairs.begins[number] = pairs.ends[number] = total
        total += listed
    pairs.used[1] = total
    places = np.empty(total + (total >> 2), np.int32)
    for at in range(len(pieces) - 1):
        left, right = pieces[at], pieces[at + 1]
        if left >= 0 and right >= 0:
            pair = pairs.slots[_find_slot(pairs.slots, pairs.keys, _pack_key(left, right))]
            if pairs.counts[pair] >= min_count:
                places[pairs.ends[pair]] = at
                pairs.ends[pair] += 1
    return Pairs(pairs.keys, pairs.counts, pairs.begins, pairs.ends, pairs.slots, places, pairs.used)


@kernel
def _join_places(
    cells: Cells,
    sizes: Int32s,
    places: Int32s,
    left: Integer,
    right: Integer,
    new: int,
    changes: MergeChanges,
) -> tuple[int, int, int]:
    """Merge a pair at its cells, from left to right, and move the cells that were merged to the front of `places`.

    The right neighbor recorded in `changes` is the one before any later occurrence was merged.

    Args:
        cells: The words, which are changed in place.
        sizes: int32, the number of cells of each id.
        places: The cells at which the pair may begin, in ascending order. Overwritten.
        left: The left id of the pair.
        right: The right id of the pair.
        new: The id of the merged piece.
        changes: Filled with the neighbors of the merged piece. Its `neighbour_sums` and `repeats` must be zero.

    Returns:
        The number of occurrences merged, the number of ids in `changes.lefts` and the number in `changes.rights`.
    """
    sums, lefts, rights, neighbours, repeats = changes
    pieces = cells.pieces
    joined = num_lefts = num_rights = 0
    size, right_size = sizes[left], sizes[right]
    for place in places:
        at = np.int64(place)
        middle = at + size
        if pieces[at] != left or pieces[middle] != right:
            continue
        end = middle + right_size
        count, left_id, right_id = _find_word_count(cells, at), pieces[at - 1], pieces[end]
        pieces[middle - 1] = pieces[middle] = _INNER
        pieces[at] = pieces[end - 1] = new
        if left_id == new:
            repeats[0] += count
            repeats[1] += 1
            neighbours[2 * joined - 1] = new
            left_id = EDGE
        elif left_id >= 0:
            if sums[4 * left_id + _LEFT_CELLS] == 0:
                lefts[num_lefts] = left_id
                num_lefts += 1
            sums[4 * left_id + _LEFT] += count
            sums[4 * left_id + _LEFT_CELLS] += 1
        if right_id >= 0:
            if sums[4 * right_id + _RIGHT_CELLS] == 0:
                rights[num_rights] = right_id
                num_rights += 1
            sums[4 * right_id + _RIGHT] += count
            sums[4 * right_id + _RIGHT_CELLS] += 1
        neighbours[2 * joined], neighbours[2 * joined + 1] = left_id, right_id
        places[joined] = at
        joined += 1
    return joined, num_lefts, num_rights


@kernel
def _lower_count(pairs: Pairs, key: Integer, count: Integer) -> None:
    """Subtract `count` from the count of the pair with a key, in place. A pair that is not in the table is ignored.

    Args:
        pairs: The table.
        key: Left id * 2^32 + right id of the pair.
        count: The number to subtract, weighted by word counts.
    """
    number = pairs.slots[_find_slot(pairs.slots, pairs.keys, key)]
    if number >= 0:
        pairs.counts[number] -= count


@kernel
def _note_pair(pairs: Pairs, key: Integer, count: Integer, num_places: Integer, min_count: int) -> Integer:
    """Insert a new pair into the table if it occurs at least `min_count` times.

    Args:
        pairs: The table, which is changed in place.
        key: Left id * 2^32 + right id of the pair.
        count: How often the pair occurs, weighted by word counts.
        num_places: Number of cells in its list. If it is 0, the pair is not inserted.
        min_count: Minimum of `count`.

    Returns:
        The start of the pair's list in `pairs.places`, or -1 if it was not inserted.
    """
    if count < min_count or num_places == 0:
        return -1
    return _enter_pair(pairs, key, count, num_places)


@kernel
def _note_neighbours(
    pairs: Pairs,
    left: Integer,
    right: Integer,
    new: int,
    changes: MergeChanges,
    num_lefts: int,
    num_rights: int,
    min_count: int,
) -> Integer:
    """Lower the counts of the pairs that a merge removed and insert the pairs that it created.

    Args:
        pairs: The table, which must have capacity for the new pairs.
        left: The left id of the merged pair.
        right: The right id of the merged pair.
        new: The id of the merged piece.
        changes: The result of `_join_places`. In `neighbour_sums`, the weighted counts are set to 0, and the unweighted
            counts are replaced by the start of the new pair's list of cells, or -1 if the pair was not inserted.
        num_lefts: Number of ids in `changes.lefts`.
        num_rights: Number of ids in `changes.rights`.
        min_count: Minimum count of a new pair to be inserted.

    Returns:
        The start of the list for the pair of the new piece with itself, or -1 if the pair was not inserted.
    """
    sums, repeats = changes.neighbour_sums, changes.repeats
    for i in range(num_lefts):
        other = np.int64(changes.lefts[i])
        _lower_count(pairs, _pack_key(other, left), sums[4 * other + _LEFT])
        begin = _note_pair(
            pairs, _pack_key(other, new), sums[4 * other + _LEFT], sums[4 * other + _LEFT_CELLS], min_count
        )
        sums[4 * other + _LEFT], sums[4 * other + _LEFT_CELLS] = 0, begin
    for i in range(num_rights):
        other = np.int64(changes.rights[i])
        count, num_places = sums[4 * other + _RIGHT], sums[4 * other + _RIGHT_CELLS]
        _lower_count(pairs, _pack_key(right, other), count)
        if other == left:  # some of those after have become new pieces themselves
            count, num_places = count - repeats[0], num_places - repeats[1]
        begin = _note_pair(pairs, _pack_key(new, other), count, num_places, min_count)
        sums[4 * other + _RIGHT], sums[4 * other + _RIGHT_CELLS] = 0, begin
    return _note_pair(pairs, _pack_key(new, new), repeats[0], repeats[1], min_count)


@kernel
def _list_places(
    pairs: Pairs,
    joined: Int32s,
    sizes: Int32s,
    new: int,
    next_repeat: Integer,
    changes: MergeChanges,
) -> None:
    """Fill the lists of cells of the new pairs in ascending order.

    Args:
        pairs: The table. Its `places` is changed in place.
        joined: The cells at which the merged piece begins, ascending.
        sizes: int32, the number of cells of each id.
        new: The id of the merged piece.
        next_repeat: The start of the list for the pair of the new piece with itself, or -1 if there is none.
        changes: The neighbors and the starts of the lists, from `_note_neighbours`. The starts are advanced in place.
    """
    sums, places, neighbours = changes.neighbour_sums, pairs.places, changes.neighbours
    for i in range(len(joined)):
        left_id, right_id = np.int64(neighbours[2 * i]), np.int64(neighbours[2 * i + 1])
        if left_id >= 0:
            to = sums[4 * left_id + _LEFT_CELLS]
            if to >= 0:
                places[to] = joined[i] - sizes[left_id]
                sums[4 * left_id + _LEFT_CELLS] = to + 1
        if right_id == new:
            if next_repeat >= 0:
                places[next_repeat] = joined[i]
                next_repeat += 1
        elif right_id >= 0:
            to = sums[4 * right_id + _RIGHT_CELLS]
            if to >= 0:
                places[to] = joined[i]
                sums[4 * right_id + _RIGHT_CELLS] = to + 1


@kernel
def _join_pair(
    cells: Cells,
    sizes: Int32s,
    pairs: Pairs,
    number: Integer,
    new: int,
    changes: MergeChanges,
    min_count: int,
) -> Pairs:
    """Merge the pair with the index `number` into the piece `new` in all words.

    Args:
        cells: The words, which are changed in place.
        sizes: int32, the number of cells of each id. sizes[new] is set.
        pairs: The table, which is changed in place.
        number: Index of the pair in the table.
        new: The id of the merged piece.
        changes: Scratch space. `neighbour_sums` must be zero, and is zero again afterwards.
        min_count: Minimum count of a new pair to be inserted.

    Returns:
        The table, which may have been copied to larger arrays.
    """
    left, right = pairs.keys[number] >> 32, pairs.keys[number] & 0xFFFFFFFF
    sizes[new] = sizes[left] + sizes[right]
    changes.repeats[:] = 0
    pairs = _with_place_room(cells.pieces, sizes, pairs, 2 * (pairs.ends[number] - pairs.begins[number]), min_count)
    old = pairs.places[pairs.begins[number] : pairs.ends[number]]
    num_joined, num_lefts, num_rights = _join_places(cells, sizes, old, left, right, new, changes)
    pairs.counts[number] = 0
    pairs = _with_pair_room(pairs, num_lefts + num_rights + 1)
    first_repeat = _note_neighbours(pairs, left, right, new, changes, num_lefts, num_rights, min_count)
    pairs.counts[number] = 0  # of a piece joined to itself something was taken off
    _list_places(pairs, old[:num_joined], sizes, new, first_repeat, changes)
    for i in range(num_lefts):
        changes.neighbour_sums[4 * np.int64(changes.lefts[i]) + _LEFT_CELLS] = 0
    for i in range(num_rights):
        changes.neighbour_sums[4 * np.int64(changes.rights[i]) + _RIGHT_CELLS] = 0
    return pairs


@kernel
def _compute_next_bound(pairs: Pairs, min_count: int) -> np.int64:
    """Return three quarters of the highest count of all pairs, but at least `min_count`.

    Returns 0 if no pair occurs `min_count` times.
    """
    highest = np.int64(0)
    for number in range(pairs.used[0]):
        highest = max(highest, pairs.counts[number])
    return max(highest * 3 // 4, np.int64(min_count)) if highest >= min_count else np.int64(0)


@kernel
def join_pairs(
    cells: Cells,
    sizes: Int32s,
    pairs: Pairs,
    changes: MergeChanges,
    min_count: int,
    merges: Int64s,
) -> int:
    """Merge the most frequent pairs one after another, and return the number of merges.

    A heap holds the pairs with a count of at least `bound`. When the heap is empty, the bound is lowered. Counts of
    existing pairs only fall, so an entry of the heap is never too low. If it is too high, it is pushed again with the
    current count.

    Args:
        cells: The words, which are overwritten.
        sizes: int32, the number of cells of each id, including the ids of all possible merges. It must be initialized
            to 1.
        pairs: The table from `count_pairs`.
        changes: Scratch space from `_build_empty_changes`.
        min_count: Minimum count of a pair for it to be merged.
        merges: int64 [maximum number of merges, 2], filled with the left and right id of each merge. Merge k creates
            the id len(sizes) - len(merges) + k.
    """
    heap = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    first_new, done, bound = len(sizes) - len(merges), 0, np.int64(0)
    while done < len(merges):
        if len(heap) == 0:
            bound = _compute_next_bound(pairs, min_count)
            if bound == 0:
                break
            for n in range(pairs.used[0]):
                if pairs.counts[n] >= bound:
                    heap.append((-pairs.counts[n], pairs.keys[n], np.int64(n)))
            heapq.heapify(heap)
        negative, key, number = heapq.heappop(heap)
        if pairs.counts[number] != -negative:
            if pairs.counts[number] >= bound:
                heapq.heappush(heap, (-pairs.counts[number], key, number))
            continue
        merges[done, 0], merges[done, 1] = key >> 32, key & 0xFFFFFFFF
        first = pairs.used[0]
        if 2 * (pairs.ends[number] - pairs.begins[number]) > len(changes.neighbours):
            neighbours = np.empty(4 * (pairs.ends[number] - pairs.begins[number]), np.int32)
            changes = MergeChanges(changes.neighbour_sums, changes.lefts, changes.rights, neighbours, changes.repeats)
        pairs = _join_pair(cells, sizes, pairs, number, first_new + done, changes, min_count)
        done += 1
        for n in range(first, pairs.used[0]):
            if pairs.counts[n] >= bound:
                heapq.heappush(heap, (-pairs.counts[n], pairs.keys[n], np.int64(n)))
    return done
