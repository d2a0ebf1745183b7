"""The kernels of learning merges: pairs are counted once, and after each merge only where it changed a word.

Promise: the merges of `tokenizers_train.merges.learn_merges_plainly`, in the same order.
Cost: see `tokenizers_train.merges`. Each pair keeps a list of the words that have held it, so a merge reads
those words and no other; lists and counts lie in arrays that the caller made large enough.
"""

import heapq
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.kernels import kernel

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio (Knuth, volume 3, 6.4)
_HALF = np.uint64(32)


class Pairs(NamedTuple):
    """Pairs of pieces, numbered as they appear, and for each a list of the words that have held it.

    keys:      int64, left id * 2^32 + right id
    counts:    int64, how often the pair stands side by side, words weighted by their counts
    heads:     int32, the pair's latest entry in the lists below; -1 where it has none
    words:     int32, the word of an entry
    following: int32, the entry after it; -1 at the end
    used:      int64, how many pairs and how many entries there are
    """

    keys: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    heads: npt.NDArray[np.int32]
    words: npt.NDArray[np.int32]
    following: npt.NDArray[np.int32]
    used: npt.NDArray[np.int64]


@kernel
def _slot(slots: npt.NDArray[np.int32], keys: npt.NDArray[np.int64], key: np.int64) -> np.int64:
    """The slot that holds the pair's number, or the empty one where it belongs."""
    value = np.uint64(key) * _MULTIPLIER
    mask = len(slots) - 1
    slot = np.int64((value ^ (value >> _HALF)) & np.uint64(mask))
    while slots[slot] >= 0 and keys[slots[slot]] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _indexed(num_slots: int, keys: npt.NDArray[np.int64], num_pairs: int) -> npt.NDArray[np.int32]:
    """Slots (a power of two of them) that hold the numbers of all pairs."""
    slots = np.full(num_slots, -1, np.int32)
    for number in range(num_pairs):
        slots[_slot(slots, keys, keys[number])] = number
    return slots


@kernel
def _discount(
    slots: npt.NDArray[np.int32],
    pairs: Pairs,
    pieces: npt.NDArray[np.int32],
    start: int,
    end: int,
    count: int,
) -> None:
    """Take the pairs of pieces[start:end] out of the counts."""
    for i in range(start, end - 1):
        key = np.int64(pieces[i]) << 32 | np.int64(pieces[i + 1])
        pairs.counts[slots[_slot(slots, pairs.keys, key)]] -= count


@kernel
def _count(
    slots: npt.NDArray[np.int32],
    pairs: Pairs,
    pieces: npt.NDArray[np.int32],
    start: int,
    end: int,
    count: int,
    word: int | np.int64,
    known: int,
) -> None:
    """Add the pairs of pieces[start:end]; those numbered `known` or later get the word into their list."""
    for i in range(start, end - 1):
        key = np.int64(pieces[i]) << 32 | np.int64(pieces[i + 1])
        slot = _slot(slots, pairs.keys, key)
        number = np.int64(slots[slot])
        if number < 0:
            number = pairs.used[0]
            pairs.used[0] = number + 1
            slots[slot] = number
            pairs.keys[number], pairs.counts[number], pairs.heads[number] = key, 0, -1
        pairs.counts[number] += count
        head = pairs.heads[number]
        if number >= known and (head < 0 or pairs.words[head] != word):
            entry = pairs.used[1]
            pairs.used[1] = entry + 1
            pairs.words[entry], pairs.following[entry], pairs.heads[number] = word, head, entry


@kernel
def _join(pieces: npt.NDArray[np.int32], start: int, end: int, left: int, right: int, new: int) -> int:
    """Make each `left` followed by `right` one piece, from the left; returns where the word ends now."""
    to = start
    i = start
    while i < end:
        if i + 1 < end and pieces[i] == left and pieces[i + 1] == right:
            pieces[to] = new
            i += 2
        else:
            pieces[to] = pieces[i]
            i += 1
        to += 1
    return to


@kernel
def _holds(pieces: npt.NDArray[np.int32], start: int, end: int, left: int, right: int) -> bool:
    """Whether `left` and `right` stand side by side in pieces[start:end]."""
    for i in range(start, end - 1):
        if pieces[i] == left and pieces[i + 1] == right:
            return True
    return False


@kernel
def _join_everywhere(
    pieces: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    pairs: Pairs,
    slots: npt.NDArray[np.int32],
    number: int,
    new: int,
) -> npt.NDArray[np.int32]:
    """Join pair `number` to the piece `new` in all words; returns the slots, which may have moved."""
    left, right, known = pairs.keys[number] >> 32, pairs.keys[number] & 0xFFFFFFFF, pairs.used[0]
    entry = np.int64(pairs.heads[number])
    while entry >= 0:
        word = np.int64(pairs.words[entry])
        entry = np.int64(pairs.following[entry])
        if _holds(pieces, starts[word], ends[word], left, right):
            while 2 * (pairs.used[0] + ends[word] - starts[word]) > len(slots):
                slots = _indexed(4 * len(slots), pairs.keys, pairs.used[0])
            _discount(slots, pairs, pieces, starts[word], ends[word], counts[word])
            ends[word] = _join(pieces, starts[word], ends[word], left, right, new)
            _count(slots, pairs, pieces, starts[word], ends[word], counts[word], word, known)
    return slots


@kernel
def join_pairs(
    pieces: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    pairs: Pairs,
    first_new: int,
    least: int,
    merges: npt.NDArray[np.int64],
) -> int:
    """Fill `merges` and return how many there are; `pieces` and `ends` are rewritten on the way.

    A pair gains only in the merge that makes it, for one of its pieces is new then. So each pair has one
    entry in the heap, never lower than its count: one that is found too high goes back with today's count.
    """
    slots = np.full(1 << 10, -1, np.int32)
    for word in range(len(counts)):
        while 2 * (pairs.used[0] + ends[word] - starts[word]) > len(slots):
            slots = _indexed(4 * len(slots), pairs.keys, pairs.used[0])
        _count(slots, pairs, pieces, starts[word], ends[word], counts[word], word, 0)
    heap = [(-pairs.counts[n], pairs.keys[n], n) for n in range(pairs.used[0]) if pairs.counts[n] >= least]
    heapq.heapify(heap)
    done = 0
    while done < len(merges) and len(heap) > 0:
        negative, key, number = heapq.heappop(heap)
        if pairs.counts[number] != -negative:
            if pairs.counts[number] >= least:
                heapq.heappush(heap, (-pairs.counts[number], key, number))
            continue
        merges[done, 0], merges[done, 1] = key >> 32, key & 0xFFFFFFFF
        known = pairs.used[0]
        slots = _join_everywhere(pieces, starts, ends, counts, pairs, slots, number, first_new + done)
        done += 1
        for n in range(known, pairs.used[0]):
            if pairs.counts[n] >= least:
                heapq.heappush(heap, (-pairs.counts[n], pairs.keys[n], n))
    return done
