"""The kernels of `tokenizers_train.encoding.byte_bpe`: GPT-2's words are found, looked up in a cache, and merged if
unknown.

Promise: the ids of `merge_pieces_plain` for the bytes of each word, whatever the cache has kept or forgotten. No byte
outside a range decides anything, and none after the end of the buffer is read.

A word of at most 32 bytes is merged by looking for the lowest rank among its pairs after each merge, a longer one with
a heap of its pairs, so that n letters take a time of n log n.

Cost: see `tokenizers_train.encoding.byte_bpe`. Only a word of more than 32 bytes, and the first word of a range that is
given a space before it, allocate anything: some 60 and 1 bytes for each of their bytes, freed at once.
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
    """A byte-level BPE vocabulary in arrays, with scratch space for merging one short word.

    The value of a pair is rank * 2^32 + id of the merged token, or `NO_VALUE` if no merge joins the pair.

    Attributes:
        byte_ids: int64 [256], the id of each byte, or -1 if the byte has no token.
        byte_pairs: uint64 [65536], the value of each pair of bytes, at index 256 * first byte + second byte.
        pairs: uint64, a hash table with open addressing and a power of two of entries. An entry is left id * 2^32 +
            right id, followed by the pair's value. Both are `NO_VALUE` in an empty entry.
        pieces: uint32 [MAX_SCAN_BYTES], scratch space for the ids of the current word.
        values: uint64 [MAX_SCAN_BYTES], scratch space for the values of its pairs.
    """

    byte_ids: Int64s
    byte_pairs: UInt64s
    pairs: UInt64s
    pieces: UInt32s
    values: UInt64s


class Progress(NamedTuple):
    """The point at which encoding resumes after the output arrays were enlarged.

    Attributes:
        position: int64 [2], the index of the current range and the byte offset in the data, or `NOT_STARTED` if no word
            of this range has been encoded.
        used: int64 [1], the number of ids written so far.
    """

    position: Int64s
    used: Int64s


@kernel
def fill_pair_table(pairs: UInt64s, keys: UInt64s, values: UInt64s) -> None:
    """Insert distinct pairs into an empty hash table (see `ByteBpeModel.pairs`).

    Args:
        pairs: uint64, the table, initialized to `NO_VALUE`. It must have more entries than there are pairs.
        keys: uint64 [pairs], left id * 2^32 + right id of each pair.
        values: uint64 [pairs], the value of each pair: rank * 2^32 + id of the merged token.
    """
    for k in range(len(keys)):
        entry = _locate_entry(pairs, keys[k])
        while pairs[entry] != NO_VALUE:
            entry = (entry + 2) & (len(pairs) - 1)
        pairs[entry], pairs[entry + 1] = keys[k], values[k]


@kernel
def _locate_entry(pairs: UInt64s, key: np.uint64) -> int:
    """Return the even index in `pairs`, the hash table of pairs, at which the search for a key begins.

    The key is left id * 2^32 + right id.
    """
    return int(np.int64(key * GOLDEN_RATIO >> _HALF)) & (len(pairs) // 2 - 1) << 1


@kernel
def _find_pair_value(pairs: UInt64s, left: np.uint32, right: np.uint32) -> np.uint64:
    """Return the value of a pair of adjacent ids (rank * 2^32 + id of the merged token), or `NO_VALUE` without a merge.

    Args:
        pairs: The hash table that maps left id * 2^32 + right id to the pair's value (see `ByteBpeModel`).
        left: The left id.
        right: The right id.
    """
    key = np.uint64(left) << _HALF | np.uint64(right)
    entry = _locate_entry(pairs, key)
    while pairs[entry] != key and pairs[entry] != NO_VALUE:
        entry = (entry + 2) & (len(pairs) - 1)
    value: np.uint64 = pairs[entry + 1]
    return value


@kernel
def _write_byte_ids(byte_ids: Int64s, data: Bytes, start: int, end: int, pieces: UInt32s) -> int:
    """Write the ids of the bytes data[start:end] into `pieces` and return how many were written.

    Bytes without a token, which have the id -1 in `byte_ids`, are skipped.
    """
    count = 0
    for i in range(start, end):
        number = byte_ids[data[i]]
        if number >= 0:
            pieces[count] = number
            count += 1
    return count


@kernel
def fill_byte_pairs(byte_pairs: UInt64s, byte_ids: Int64s, pairs: UInt64s) -> None:
    """Fill `byte_pairs` with the value of every pair of bytes: rank * 2^32 + id of the merged token.

    Args:
        byte_pairs: uint64 [65536], filled with the value of each pair at index 256 * first byte + second byte. It must
            be initialized to `NO_VALUE`, because entries of bytes that have no token are left unchanged.
        byte_ids: int64 [256], the id of each byte, or -1 if the byte has no token.
        pairs: The hash table that maps left id * 2^32 + right id to the pair's value (see `ByteBpeModel`).
    """
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
    """Merge the first `count` ids of `pieces` in place and return how many are left.

    The pair with the lowest rank is merged first. If several pairs have that rank, the leftmost one is merged.

    Args:
        byte_pairs: uint64 [65536], the value of each pair of bytes, at index 256 * first byte + second byte.
        pairs: The hash table that maps left id * 2^32 + right id to the pair's value (see `ByteBpeModel`).
        pieces: uint32, the ids of the word's bytes. Overwritten with the ids of its tokens.
        values: uint64, scratch space as long as `pieces`. Overwritten with the values of the pairs.
        data: The bytes of the text.
        start: Offset of the word in `data`.
        length: Length of the word in bytes. If it equals `count`, every byte has a token, and the first values are read
            from `byte_pairs`.
        count: Number of ids in `pieces`.
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
    """Return the lowest of the first `count` values and its first index.

    Returns `NO_VALUE` and 0 if `count` is 0 or all values are `NO_VALUE`.
    """
    best, place = NO_VALUE, 0
    for i in range(count):
        if values[i] < best:
            best, place = values[i], i
    return best, place


@kernel
def _merge_long(pairs: UInt64s, pieces: UInt32s, count: int) -> int:
    """Merge the first `count` ids of `pieces` in place with a heap, and return how many are left.

    The result is the same as with `_merge_short`. A heap entry is rank * 2^32 + index of the left id. An entry is
    outdated if the pair at this index now has another rank.

    Args:
        pairs: The hash table that maps left id * 2^32 + right id to the pair's value (see `ByteBpeModel`).
        pieces: uint32 [count], the ids of the word's bytes. Overwritten with the ids of its tokens.
        count: Number of ids, below 2^32.
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
    """Push a pair of adjacent ids onto the heap and return its value, rank * 2^32 + id of the merged token.

    Args:
        heap: Heap entries, each of them rank * 2^32 + index of the left id.
        pairs: The hash table that maps left id * 2^32 + right id to the pair's value (see `ByteBpeModel`).
        pieces: The ids of the word.
        left: Index of the left id in `pieces`.
        right: Index of the right id in `pieces`.

    Returns:
        The value, or `NO_VALUE` without pushing anything if `right` is past the end or no merge joins the pair.
    """
    if right >= len(pieces):
        return NO_VALUE
    value = _find_pair_value(pairs, pieces[left], pieces[right])
    if value != NO_VALUE:
        heapq.heappush(heap, value & ~_LOW_HALF | np.uint64(left))
    return value


@kernel
def _write_pieces(pieces: UInt32s, count: int, ids: Ids, word_starts: Bytes, used: int) -> np.uint64:
    """Write the ids of one word to the output, and mark the word start.

    Args:
        pieces: The ids of the word.
        count: Number of ids.
        ids: Output array, written from index `used` on.
        word_starts: Output array, set to 1 at index `used`, which must exist even if `count` is 0, and to 0 at the
            word's other ids.
        used: Number of ids that are already in `ids`.

    Returns:
        The first eight bytes of the word's ids as one integer, with the first id in the lowest bits.
    """
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
    """Encode the word data[start:end] of any length and return how many ids were written.

    Args:
        bpe: The vocabulary.
        data: The bytes of the text.
        start: First byte of the word.
        end: End of the word.
        ids: Output array, written from index `used` on. It must have room for one id per byte.
        word_starts: Output array, set to 1 at the word's first id and to 0 at the others.
        used: Number of ids that are already in `ids`.
    """
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
    """Encode words of data[at:end] until one is longer than `MAX_SCAN_BYTES` or the output is almost full.

    Functions called here for each word have a single return and only inlined calls. Otherwise numba would count
    references for each array argument, which costs more than encoding the word.

    Args:
        data: The bytes of the text.
        classes: uint8 [0x40000], the class of each code point: LETTER, NUMBER, SPACE or OTHER.
        bpe: The vocabulary. Its scratch space is overwritten.
        cache: Cached ids of short words. New words are added.
        ids: Output array, written from index `used` on.
        word_starts: Output array, set to 1 at the first id of each word and to 0 at the others.
        at: Byte offset of the first word.
        end: End of the text.
        used: Number of ids that are already in `ids`.

    Returns:
        The byte offset at which it stopped, the end of the word there, and the number of ids written so far.
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
    """Encode the texts data[starts[r]:ends[r]] with byte-level BPE, starting at `progress`.

    Args:
        data: The bytes of all texts, from `to_kernel_buffer`.
        starts: int64 [texts], the first byte of each text.
        ends: int64 [texts], the end of each text.
        classes: uint8 [0x40000], the class of each code point: LETTER, NUMBER, SPACE or OTHER.
        add_prefix_space: Whether to put a space before a text that does not begin with one.
        bpe: The vocabulary. Its scratch space is overwritten.
        cache: Cached ids of short words. New words are added.
        ids: Filled with the ids of all texts.
        word_starts: Filled with 1 at the first id of each word and 0 at the others. It must be as long as `ids`.
        offsets: int64 [texts + 1]. offsets[r + 1] is set to the end of text r in `ids`, and offsets[0] is left
            unchanged.
        progress: The point at which to start, which is updated in place.

    Returns:
        0 if all texts are encoded. Otherwise the minimum number of free entries that `ids` and `word_starts` need after
        `progress.used`: pass larger arrays that start with the same values and call again.
    """
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
