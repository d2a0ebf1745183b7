"""The kernels of learning merges: words are spelt as numbers of letters or bytes, and pairs of these are counted and
joined.

Pairs are counted once, and after each merge only in the words that it changed.

Promise: the merges of `tokenizers_train.learning.byte_bpe.learn_merges_plain`, in the same order. Letters are what
Python's `ord` gives for each character; no byte outside the words is looked at.
Cost: see `tokenizers_train.learning.byte_bpe`; spelling allocates nothing: the caller brings all arrays.

All words are in one row of cells, a cell for each letter, with an edge between two words. A piece is known by its id in
the first and in the last of its cells, and the id tells how many cells it has: so both neighbours of a piece are found
by one look each. Cells between them are inner ones. A pair keeps the list of the cells at which it has begun; ids only
grow when they are written over, so a cell of the list that no longer shows the pair's left id has been joined to
something else, and one that does is still the first cell of that piece. When there is no room for more lists, the cells
that no longer begin their pair leave them, and never come back.

Words of one count are next to each other, so that a count is kept for `BLOCK` cells and not for each.

What a merge changes is gathered by the neighbour's id before any pair is looked up: how often the new piece has it at
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
    """Add each word's count to the totals of its code points, and mark those that occur after a word's first letter.

    totals:   int64 [NUM_CODES], added to
    is_inner: bool [NUM_CODES], set

    Returns the number of letters of the distinct words.
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
    """Fill `pieces` with an edge, and the ids of each word's letters and an edge; return how many cells they are.

    order:      the words in the order to write them, those of one count next to each other: a run
    run_starts: in `order`, the first word of each run, and the end of the last
    first_ids:  the id of a word's first letter, by code point (or by byte, if there are only 256); -1 skips it
    inner_ids:  the same for later letters
    runs:       filled with the first cell of each run, and the end of the last
    mergeable:  for each run, the words of two letters or more without a skipped one are added to it
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
    """Distinct words as pieces, those of one count next to each other: a run.

    pieces: int32, an edge, then the pieces of each word and an edge
    runs:   int64, the first cell of each run in `pieces`, and the end of the last
    counts: int64, how often the words of each run occur
    blocks: int64, for each `BLOCK` cells the count of their words, or -1 - their first run if they belong to several
    """

    pieces: Int32s
    runs: Int64s
    counts: Int64s
    blocks: Int64s


class Pairs(NamedTuple):
    """Pairs of pieces, numbered as they appear, each with the list of the cells at which it has begun.

    keys:   int64, left id * 2^32 + right id
    counts: int64, how often the pair occurs, words weighted by their counts; 0 once it is joined
    begins: int64, the beginning of the pair's list in `places`
    ends:   int64, its end
    slots:  int32, a power of two of them, at most half filled: the numbers by hash; -1 if empty
    places: int32, cells in ascending order, list after list
    used:   int64, the numbers of pairs and of places
    """

    keys: Int64s
    counts: Int64s
    begins: Int64s
    ends: Int64s
    slots: Int32s
    places: Int32s
    used: Int64s


class MergeChanges(NamedTuple):
    """The changes that one merge has made, by the id of the neighbour.

    neighbour_sums: int64, four for each id: how often it is left of the new piece, weighted by word counts and not, and
                    the same for right of it
    lefts:          int32, the ids that are left of it
    rights:         int32, the ids that are right of it
    neighbours:     int32, two for each place joined: its left and its right neighbour; EDGE for none
    repeats:        int64, two: how often the new piece follows itself, weighted and not
    """

    neighbour_sums: Int64s
    lefts: Int32s
    rights: Int32s
    neighbours: Int32s
    repeats: Int64s


@kernel
def _find_slot(slots: Int32s, keys: Int64s, key: Integer) -> np.int64:
    """Return the slot that holds the pair's number, or the empty one that it belongs to."""
    value = np.uint64(key) * GOLDEN_RATIO
    mask = len(slots) - 1
    slot = np.int64((value ^ (value >> _HALF)) & np.uint64(mask))
    while slots[slot] >= 0 and keys[slots[slot]] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _pack_key(left: Integer, right: Integer) -> np.int64:
    """Return left id and right id as one number, which is ordered as the pair is."""
    return np.int64(left) << 32 | np.int64(right)


@kernel
def _with_pair_room(pairs: Pairs, more: int) -> Pairs:
    """Return the pairs with room for some more of them."""
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
    """Return the pairs with room for some more places; if there is none, useless places leave the lists first."""
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
    """Number a new pair and set `num_places` places apart for it, as there is room for; return the first of them."""
    number, begin = pairs.used[0], pairs.used[1]
    pairs.slots[_find_slot(pairs.slots, pairs.keys, key)] = number
    pairs.keys[number], pairs.counts[number] = key, count
    pairs.begins[number] = begin
    pairs.ends[number] = begin + num_places
    pairs.used[0], pairs.used[1] = number + 1, begin + num_places
    return np.int64(begin)


@kernel
def _find_word_count(cells: Cells, cell: Integer) -> np.int64:
    """Return the count of the word to which a cell belongs."""
    count = cells.blocks[cell // BLOCK]
    if count > 0:
        return np.int64(count)
    run = -1 - count
    while cells.runs[run + 1] <= cell:
        run += 1
    return np.int64(cells.counts[run])


@kernel
def _number_pairs(cells: Cells, pairs: Pairs, done: int) -> int:
    """Count the pairs, and in `ends` their places, from cell `done` on; return the cell at which room ran out, or the
    end.
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
    """Count all pairs of letters, and list the places of those that occur `min_count` times or more."""
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
    """Join a pair at its places, from the left, and move the places that are joined to the front of `places`.

    Returns how many places are joined, and how many ids are left and right of the new piece. What is gathered at the
    right of a new piece is what was at that place before anything after it was joined.
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
    """Subtract something from a pair's count, if the pair is noted."""
    number = pairs.slots[_find_slot(pairs.slots, pairs.keys, key)]
    if number >= 0:
        pairs.counts[number] -= count


@kernel
def _note_pair(pairs: Pairs, key: Integer, count: Integer, num_places: Integer, min_count: int) -> Integer:
    """Enter a new pair if it is frequent enough; return the beginning of its list, or -1."""
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
    """Subtract from the old pairs what the new ones have, and enter these; return the beginning of the list of repeats.

    In `changes.neighbour_sums` the number of places is replaced by the place to list the next of them at.
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
    """List the places of the new pairs, in ascending order."""
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
    """Join pair `number` to the piece `new` in all words; return the pairs, which may have moved."""
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
    """Return three quarters of the highest count, at least `min_count`; 0 if no pair is frequent enough."""
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
    """Fill `merges` with the ids of the pairs that are joined, and return how many there are; the cells are
    overwritten.

    The heap has the pairs with a count of `bound` or more; when it is empty the bound is lowered. Each has one entry,
    never lower than its count, which only falls: one that is found too high goes back with its present count.
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
