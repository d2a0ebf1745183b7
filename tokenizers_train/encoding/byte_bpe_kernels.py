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
from tokenizers_train.encoding.piece_cache import (
    MAX_CACHED_BYTES,
    PieceCache,
    count_ids,
    find_entry,
    get_packed_ids,
    remember,
)
from tokenizers_train.words.gpt2_kernels import (
    BLANK,
    NOT_STARTED,
    compute_plain_length,
    load8_padded,
    load16_padded,
    locate_word_end,
    prepend_space,
)

MAX_SCAN_BYTES = 32  # bytes of a word that is merged without a heap
STORE_SLACK = 8  # ids that a store of eight bytes may write after the last one
NO_VALUE = np.uint64(0xFFFFFFFFFFFFFFFF)

_HALF, _LOW_HALF, _ONE = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(1)


class ByteBpeModel(NamedTuple):
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

    position: Int64s
    used: Int64s


@kernel
def fill_pair_table(pairs: UInt64s, keys: UInt64s, values: UInt64s) -> None:
    """Put distinct pairs into an empty table that has more entries than them."""
    for k in range(len(keys)):
        entry = _locate_entry(pairs, keys[k])
        while pairs[entry] != NO_VALUE:
            entry = (entry + 2) & (len(pairs) - 1)
        pairs[entry], pairs[entry + 1] = keys[k], values[k]


@kernel
def _locate_entry(pairs: UInt64s, key: np.uint64) -> int:
    """The entry at which the search for a pair begins."""
    return int(np.int64(key * GOLDEN_RATIO >> _HALF)) & (len(pairs) // 2 - 1) << 1


@kernel
def _find_pair_value(pairs: UInt64s, left: np.uint32, right: np.uint32) -> np.uint64:
    """Rank and joined id of two ids that are side by side; `NONE` where they are not to be joined."""
    key = np.uint64(left) << _HALF | np.uint64(right)
    entry = _locate_entry(pairs, key)
    while pairs[entry] != key and pairs[entry] != NO_VALUE:
        entry = (entry + 2) & (len(pairs) - 1)
    value: np.uint64 = pairs[entry + 1]
    return value


@kernel
def _write_byte_ids(byte_ids: Int64s, data: Bytes, start: int, end: int, pieces: UInt32s) -> int:
    """Write the ids of bytes; returns their number."""
    count = 0
    for i in range(start, end):
        number = byte_ids[data[i]]
        if number >= 0:
            pieces[count] = number
            count += 1
    return count


@kernel
def fill_byte_pairs(byte_pairs: UInt64s, byte_ids: Int64s, pairs: UInt64s) -> None:
    """Look up the value of each byte followed by each; those that give no token have none."""
    for left in range(256):
        for right in range(256):
            if byte_ids[left] >= 0 and byte_ids[right] >= 0:
                value = _find_pair_value(pairs, np.uint32(byte_ids[left]), np.uint32(byte_ids[right]))
                byte_pairs[left << 8 | right] = value


@kernel
def _merge_short(
    byte_pairs: UInt64s,
    pairs: UInt64s,
    pieces: UInt32s,
    values: UInt64s,
    data: Bytes,
    start: int,
    length: int,
    count: int,
) -> int:
    """Join the first `count` pieces, lowest rank first, the leftmost of equal ones; returns how many are left.

    data, at, length: the word; where each of its bytes gave a piece, the values of its pairs are those of the bytes
    """
    for i in range(count - 1):
        if count == length:
            values[i] = byte_pairs[np.int64(data[start + i]) << 8 | np.int64(data[start + i + 1])]
        else:
            values[i] = _find_pair_value(pairs, pieces[i], pieces[i + 1])
    best, lowest = _find_lowest(values, count - 1)
    while best != NO_VALUE:
        count -= 1
        pieces[lowest] = best & _LOW_HALF
        for i in range(lowest + 1, count):
            pieces[i] = pieces[i + 1]
            values[i - 1] = values[i]
        if lowest + 1 < count:
            values[lowest] = _find_pair_value(pairs, pieces[lowest], pieces[lowest + 1])
        if lowest > 0:
            values[lowest - 1] = _find_pair_value(pairs, pieces[lowest - 1], pieces[lowest])
        best, lowest = _find_lowest(values, count - 1)
    return count


@kernel
def _find_lowest(values: UInt64s, count: int) -> tuple[np.uint64, int]:
    """The lowest of the first `count` values and where it first is; `NONE` where there are none."""
    best, place = NO_VALUE, 0
    for i in range(count):
        if values[i] < best:
            best, place = values[i], i
    return best, place


@kernel
def _merge_long(pairs: UInt64s, pieces: UInt32s, count: int) -> int:
    """Join the first `count` pieces (fewer than 2^32) as `_merge_short` does.

    An entry of the heap is rank * 2^32 + place. It is out of date where the pair at its place has another rank.
    """
    values = np.full(count, NO_VALUE, np.uint64)
    previous, following = np.arange(-1, count - 1), np.arange(1, count + 1)
    for i in range(count - 1):
        values[i] = _find_pair_value(pairs, pieces[i], pieces[i + 1])
    heap = [values[i] & ~_LOW_HALF | np.uint64(i) for i in range(count) if values[i] != NO_VALUE]
    heapq.heapify(heap)
    while len(heap):
        entry = heapq.heappop(heap)
        at = int(entry & _LOW_HALF)
        if values[at] >> _HALF != entry >> _HALF:
            continue
        pieces[at] = values[at] & _LOW_HALF
        joined = int(following[at])
        following[at], values[joined] = following[joined], NO_VALUE
        if following[at] < count:
            previous[following[at]] = at
        values[at] = _push_pair(heap, pairs, pieces, at, following[at])
        if previous[at] >= 0:
            values[previous[at]] = _push_pair(heap, pairs, pieces, previous[at], at)
    at, num_left = 0, 0
    while at < count:
        pieces[num_left] = pieces[at]
        at = following[at]
        num_left += 1
    return num_left


@kernel
def _push_pair(heap: list[np.uint64], pairs: UInt64s, pieces: UInt32s, left: int, right: int) -> np.uint64:
    """Enter the pair of two neighbours, if there is a right one, into the heap; returns its value."""
    if right >= len(pieces):
        return NO_VALUE
    value = _find_pair_value(pairs, pieces[left], pieces[right])
    if value != NO_VALUE:
        heapq.heappush(heap, value & ~_LOW_HALF | np.uint64(left))
    return value


@kernel
def _write_pieces(pieces: UInt32s, count: int, ids: Ids, word_starts: Bytes, used: int) -> np.uint64:
    """Write the ids of a word after the first `used`, and where it begins; returns the first ones packed."""
    packed = np.uint64(0)
    for i in range(count):
        ids[used + i] = pieces[i]
        word_starts[used + i] = 0
        if i * ids.itemsize < 8:
            packed |= np.uint64(pieces[i]) << np.uint64(8 * ids.itemsize * i)
    word_starts[used] = 1  # room is there even after the last id
    return packed


@kernel
def _encode_long(bpe: ByteBpeModel, data: Bytes, start: int, end: int, ids: Ids, word_starts: Bytes, used: int) -> int:
    """Write the ids of the word data[at:end], of any length; returns their number."""
    pieces = np.empty(end - start, np.uint32)
    num_letters = _write_byte_ids(bpe.byte_ids, data, start, end, pieces)
    count = _merge_long(bpe.pairs, pieces[:num_letters], num_letters)
    _write_pieces(pieces, count, ids, word_starts, used)
    return count


@kernel
def _encode_short(
    data: Bytes,
    classes: Bytes,
    bpe: ByteBpeModel,
    cache: PieceCache,
    ids: Ids,
    word_starts: Bytes,
    at: int,
    end: int,
    used: int,
) -> tuple[int, int, int]:
    """Write the ids of short words up to `end`, or to the first that is longer, or until there is no room.

    Returns the place where it stopped, the end of the word there, and how many ids are written now.

    What it calls for each word has one way out and calls nothing that numba does not compile into it: otherwise
    references are counted for each array it is given, which costs more than the word itself.
    """
    byte_ids, byte_pairs, pairs, pieces, values = bpe
    stop, max_used = at, len(ids) - MAX_SCAN_BYTES - STORE_SLACK
    goes_on = (at < end) & (used <= max_used)
    while goes_on:
        length = compute_plain_length(load8_padded(data, at), end - at)
        stop = min(at + length, end) if length else locate_word_end(data, at, end, classes, False)
        length = stop - at
        low, high = load16_padded(data, at, length)
        entry = find_entry(cache, low, high, length)
        if entry >= 0:
            store8(ids, used, get_packed_ids(cache, entry))
            store8(word_starts, used, _ONE)
            used += count_ids(cache, entry)
            at = stop
        elif length <= MAX_SCAN_BYTES:
            count = _write_byte_ids(byte_ids, data, at, stop, pieces)
            count = _merge_short(byte_pairs, pairs, pieces, values, data, at, length, count)
            packed = _write_pieces(pieces, count, ids, word_starts, used)
            if length <= MAX_CACHED_BYTES and count * ids.itemsize <= 8:
                remember(cache, low, high, length, packed, count)
            used += count
            at = stop
        goes_on = (length <= MAX_SCAN_BYTES) & (at < end) & (used <= max_used)
    return at, stop, used


@kernel
def encode_ranges(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    classes: Bytes,
    add_prefix_space: bool,
    bpe: ByteBpeModel,
    cache: PieceCache,
    ids: Ids,
    word_starts: Bytes,
    offsets: Int64s,
    progress: Progress,
) -> int:
    """Encode the ranges from where `progress` is; returns how many more ids there must be room for, or 0."""
    used, first_byte = progress.used[0], progress.position[1]
    for r in range(progress.position[0], len(starts)):
        at, end = starts[r] if first_byte == NOT_STARTED else first_byte, ends[r]
        if add_prefix_space and first_byte == NOT_STARTED and at < end and data[at] != BLANK:
            stop = locate_word_end(data, at, end, classes, True)
            missing: int = stop - at + 1 + MAX_SCAN_BYTES + STORE_SLACK
            if used + missing > len(ids):
                progress.position[0], progress.position[1], progress.used[0] = r, NOT_STARTED, used
                return missing
            word, length = prepend_space(data, at, stop), stop - at + 1
            done, _, used = _encode_short(word, classes, bpe, cache, ids, word_starts, 0, length, used)
            if done < length:
                used += _encode_long(bpe, word, 0, length, ids, word_starts, used)
            at = stop
        while at < end:
            at, stop, used = _encode_short(data, classes, bpe, cache, ids, word_starts, at, end, used)
            if at == end:
                break
            missing = stop - at + MAX_SCAN_BYTES + STORE_SLACK
            if used + missing > len(ids):
                progress.position[0], progress.position[1], progress.used[0] = r, at, used
                return missing
            used += _encode_long(bpe, data, at, stop, ids, word_starts, used)
            at = stop
        offsets[r + 1], first_byte = used, NOT_STARTED
    progress.used[0] = used
    return 0
