"""The kernels of `tokenizers_train.encoding.byte_bpe`: GPT-2's words are found, looked up, and merged where unknown.

Promise: the ids of `merge_plainly` for the bytes of each word, whatever the cache has kept or forgotten. No byte
outside a range decides anything, and none after the end of the buffer is read.

A word of at most 32 bytes is merged by looking for the lowest rank among its pairs after each merge, a longer
one with a heap of its pairs, so that n letters take a time of n log n.

Cost: see `tokenizers_train.encoding.byte_bpe`. Only a word of more than 32 bytes, and the first word of a range
before which a space is thought, allocate anything: some 60 and 1 bytes for each of their bytes, freed at once.
"""

import heapq
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Ids, Int64s, UInt32s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import GOLDEN_RATIO
from corpora.kernels.packed import store8
from tokenizers_train.encoding.piece_cache import LONGEST, PieceCache, find, num_ids, packed_ids, remember
from tokenizers_train.words.gpt2_kernels import BLANK, NOT_BEGUN, eight, halves, odd_word_end, plain_length, spaced

SHORT = 32  # bytes of a word that is merged without a heap
ROOM = 8  # ids that a store of eight bytes may write after the last one
NONE = np.uint64(0xFFFFFFFFFFFFFFFF)

_HALF, _LOW_HALF, _ONE = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(1)


class ByteBpe(NamedTuple):
    """A vocabulary as the kernels read it, and room to merge a short word in.

    byte_ids:   int64, the id of each byte; -1 for one that gives no token
    byte_pairs: uint64, the value of each byte (times 256) followed by each, or `NONE`
    pairs:      uint64, an open-addressed table of a power of two of entries: left id * 2^32 + right id, and the value
                rank * 2^32 + id of the two joined; `NONE` and `NONE` where an entry is empty
    pieces:     uint32, the ids of the word at hand
    values:     uint64, the value of each of its pairs, or `NONE`
    """

    byte_ids: Int64s
    byte_pairs: UInt64s
    pairs: UInt64s
    pieces: UInt32s
    values: UInt64s


class Progress(NamedTuple):
    """The progress of encoding, which continues from here with more room.

    range_at: int64, two entries: the range, and the byte in it, `NOT_BEGUN` where its first word is still to come
    used:     int64, one entry: how many ids are written
    """

    range_at: Int64s
    used: Int64s


@kernel
def enter_pairs(pairs: UInt64s, keys: UInt64s, values: UInt64s) -> None:
    """Put distinct pairs into an empty table that has more entries than them."""
    for k in range(len(keys)):
        entry = _first_entry(pairs, keys[k])
        while pairs[entry] != NONE:
            entry = (entry + 2) & (len(pairs) - 1)
        pairs[entry], pairs[entry + 1] = keys[k], values[k]


@kernel
def _first_entry(pairs: UInt64s, key: np.uint64) -> int:
    """The entry at which the search for a pair begins."""
    return int(np.int64(key * GOLDEN_RATIO >> _HALF)) & (len(pairs) // 2 - 1) << 1


@kernel
def _pair_value(pairs: UInt64s, left: np.uint32, right: np.uint32) -> np.uint64:
    """Rank and joined id of two ids that are side by side; `NONE` where they are not to be joined."""
    key = np.uint64(left) << _HALF | np.uint64(right)
    entry = _first_entry(pairs, key)
    while pairs[entry] != key and pairs[entry] != NONE:
        entry = (entry + 2) & (len(pairs) - 1)
    value: np.uint64 = pairs[entry + 1]
    return value


@kernel
def _spell(byte_ids: Int64s, data: Bytes, at: int, end: int, pieces: UInt32s) -> int:
    """Write the ids of bytes; returns their number."""
    count = 0
    for i in range(at, end):
        number = byte_ids[data[i]]
        if number >= 0:
            pieces[count] = number
            count += 1
    return count


@kernel
def enter_byte_pairs(byte_pairs: UInt64s, byte_ids: Int64s, pairs: UInt64s) -> None:
    """Look up the value of each byte followed by each; those that give no token have none."""
    for left in range(256):
        for right in range(256):
            if byte_ids[left] >= 0 and byte_ids[right] >= 0:
                value = _pair_value(pairs, np.uint32(byte_ids[left]), np.uint32(byte_ids[right]))
                byte_pairs[left << 8 | right] = value


@kernel
def _merge_short(
    byte_pairs: UInt64s,
    pairs: UInt64s,
    pieces: UInt32s,
    values: UInt64s,
    data: Bytes,
    at: int,
    length: int,
    count: int,
) -> int:
    """Join the first `count` pieces, lowest rank first, the leftmost of equal ones; returns how many are left.

    data, at, length: the word; where each of its bytes gave a piece, the values of its pairs are those of the bytes
    """
    for i in range(count - 1):
        if count == length:
            values[i] = byte_pairs[np.int64(data[at + i]) << 8 | np.int64(data[at + i + 1])]
        else:
            values[i] = _pair_value(pairs, pieces[i], pieces[i + 1])
    best, place = _lowest(values, count - 1)
    while best != NONE:
        count -= 1
        pieces[place] = best & _LOW_HALF
        for i in range(place + 1, count):
            pieces[i] = pieces[i + 1]
            values[i - 1] = values[i]
        if place + 1 < count:
            values[place] = _pair_value(pairs, pieces[place], pieces[place + 1])
        if place > 0:
            values[place - 1] = _pair_value(pairs, pieces[place - 1], pieces[place])
        best, place = _lowest(values, count - 1)
    return count


@kernel
def _lowest(values: UInt64s, count: int) -> tuple[np.uint64, int]:
    """The lowest of the first `count` values and where it first is; `NONE` where there are none."""
    best, at = NONE, 0
    for i in range(count):
        if values[i] < best:
            best, at = values[i], i
    return best, at


@kernel
def _merge_long(pairs: UInt64s, pieces: UInt32s, count: int) -> int:
    """Join the first `count` pieces (fewer than 2^32) as `_merge_short` does.

    An entry of the heap is rank * 2^32 + place. It is out of date where the pair at its place has another rank.
    """
    values = np.full(count, NONE, np.uint64)
    before, behind = np.arange(-1, count - 1), np.arange(1, count + 1)
    for i in range(count - 1):
        values[i] = _pair_value(pairs, pieces[i], pieces[i + 1])
    heap = [values[i] & ~_LOW_HALF | np.uint64(i) for i in range(count) if values[i] != NONE]
    heapq.heapify(heap)
    while len(heap):
        entry = heapq.heappop(heap)
        at = int(entry & _LOW_HALF)
        if values[at] >> _HALF != entry >> _HALF:
            continue
        pieces[at] = values[at] & _LOW_HALF
        joined = int(behind[at])
        behind[at], values[joined] = behind[joined], NONE
        if behind[at] < count:
            before[behind[at]] = at
        values[at] = _push(heap, pairs, pieces, at, behind[at])
        if before[at] >= 0:
            values[before[at]] = _push(heap, pairs, pieces, before[at], at)
    at, left = 0, 0
    while at < count:
        pieces[left] = pieces[at]
        at = behind[at]
        left += 1
    return left


@kernel
def _push(heap: list[np.uint64], pairs: UInt64s, pieces: UInt32s, left: int, right: int) -> np.uint64:
    """Enter the pair of two neighbours, if there is a right one, into the heap; returns its value."""
    if right >= len(pieces):
        return NONE
    value = _pair_value(pairs, pieces[left], pieces[right])
    if value != NONE:
        heapq.heappush(heap, value & ~_LOW_HALF | np.uint64(left))
    return value


@kernel
def _write_pieces(pieces: UInt32s, count: int, ids: Ids, begins: Bytes, used: int) -> np.uint64:
    """Write the ids of a word after the first `used`, and where it begins; returns the first ones packed."""
    packed = np.uint64(0)
    for i in range(count):
        ids[used + i] = pieces[i]
        begins[used + i] = 0
        if i * ids.itemsize < 8:
            packed |= np.uint64(pieces[i]) << np.uint64(8 * ids.itemsize * i)
    begins[used] = 1  # room is there even after the last id
    return packed


@kernel
def _encode_long(bpe: ByteBpe, data: Bytes, at: int, end: int, ids: Ids, begins: Bytes, used: int) -> int:
    """Write the ids of the word data[at:end], of any length; returns their number."""
    pieces = np.empty(end - at, np.uint32)
    num_letters = _spell(bpe.byte_ids, data, at, end, pieces)
    count = _merge_long(bpe.pairs, pieces[:num_letters], num_letters)
    _write_pieces(pieces, count, ids, begins, used)
    return count


@kernel
def _encode_short(
    data: Bytes, classes: Bytes, bpe: ByteBpe, cache: PieceCache, ids: Ids, begins: Bytes, at: int, end: int, used: int
) -> tuple[int, int, int]:
    """Write the ids of short words up to `end`, or to the first that is longer, or until there is no room.

    Returns the place where it stopped, the end of the word there, and how many ids are written now.

    What it calls for each word has one way out and calls nothing that numba does not compile into it: otherwise
    references are counted for each array it is given, which costs more than the word itself.
    """
    byte_ids, byte_pairs, pairs, pieces, values = bpe
    stop, most = at, len(ids) - SHORT - ROOM
    going = (at < end) & (used <= most)
    while going:
        length = plain_length(eight(data, at), end - at)
        stop = min(at + length, end) if length else odd_word_end(data, at, end, classes, False)
        length = stop - at
        low, high = halves(data, at, length)
        entry = find(cache, low, high, length)
        if entry >= 0:
            store8(ids, used, packed_ids(cache, entry))
            store8(begins, used, _ONE)
            used += num_ids(cache, entry)
            at = stop
        elif length <= SHORT:
            count = _spell(byte_ids, data, at, stop, pieces)
            count = _merge_short(byte_pairs, pairs, pieces, values, data, at, length, count)
            packed = _write_pieces(pieces, count, ids, begins, used)
            if length <= LONGEST and count * ids.itemsize <= 8:
                remember(cache, low, high, length, packed, count)
            used += count
            at = stop
        going = (length <= SHORT) & (at < end) & (used <= most)
    return at, stop, used


@kernel
def encode_ranges(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    classes: Bytes,
    add_prefix_space: bool,
    bpe: ByteBpe,
    cache: PieceCache,
    ids: Ids,
    begins: Bytes,
    offsets: Int64s,
    progress: Progress,
) -> int:
    """Encode the ranges from where `progress` is; returns how many more ids there must be room for, or 0."""
    used, begun = progress.used[0], progress.range_at[1]
    for r in range(progress.range_at[0], len(starts)):
        at, end = starts[r] if begun == NOT_BEGUN else begun, ends[r]
        if add_prefix_space and begun == NOT_BEGUN and at < end and data[at] != BLANK:
            stop = odd_word_end(data, at, end, classes, True)
            more: int = stop - at + 1 + SHORT + ROOM
            if used + more > len(ids):
                progress.range_at[0], progress.range_at[1], progress.used[0] = r, NOT_BEGUN, used
                return more
            word, length = spaced(data, at, stop), stop - at + 1
            done, _, used = _encode_short(word, classes, bpe, cache, ids, begins, 0, length, used)
            if done < length:
                used += _encode_long(bpe, word, 0, length, ids, begins, used)
            at = stop
        while at < end:
            at, stop, used = _encode_short(data, classes, bpe, cache, ids, begins, at, end, used)
            if at == end:
                break
            more = stop - at + SHORT + ROOM
            if used + more > len(ids):
                progress.range_at[0], progress.range_at[1], progress.used[0] = r, at, used
                return more
            used += _encode_long(bpe, data, at, stop, ids, begins, used)
            at = stop
        offsets[r + 1], begun = used, NOT_BEGUN
    progress.used[0] = used
    return 0
