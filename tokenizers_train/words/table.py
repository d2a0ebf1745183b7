"""Distinct byte strings and how often each was met, kept in arrays: the result of counting words.

Promise: bytes are compared in full before two strings are taken for one, whatever their hashes. `to_word_counts` gives
the strings in ascending order of their bytes, so the same additions in any order make the same table.

A word of at most 16 bytes is kept whole in its slot, as two 64-bit words with its length and its count: half a line of
the cache, read at once. A longer one lies in a pool, found by its hash.

A kernel adds words until one finds no room; it then returns how far it came, and Python continues with the table that
`grow_table` makes of the full one. A word that found no room has not been counted.

Cost, on English novels: 17 ns for a short word that is known and packed, 60 ns for one that is given by its bytes, and
0.2 us for each distinct one at the end, without a Python object. Memory: 43 to 85 bytes for a short word, its bytes and
32 to 64 more for a long one.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bytes, Int32s, Int64s, Integer, UInt64s, copy_values
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import GOLDEN_RATIO, absorb
from corpora.kernels.packed import keep_bytes, load8, load_tail

WordCounts: TypeAlias = pa.Table  # with the columns COUNTS

COUNTS_SCHEMA = pa.schema(
    [
        pa.field("word", pa.large_string(), nullable=False),  # distinct, ascending by bytes
        pa.field("count", pa.int64(), nullable=False),  # at least 1
    ]
)

MAX_SHORT_BYTES = 16  # the most bytes of a short word
_FIRST, _SECOND, _LENGTH, _COUNT, _LANES = 0, 1, 2, 3, 4  # what a slot of a short word holds

_SECOND_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)  # odd, its bits mixed: for the second half of a word
_HALF = np.uint64(32)
_BYTE, _TWO_BYTES = np.uint64(8), np.uint64(16)
_ODD_BYTES, _ODD_PAIRS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)


class WordTable(NamedTuple):
    """A hash table that counts words. Words of at most 16 bytes are stored in `short`, longer ones in `pool`.

    Attributes:
        short: uint64, four values per slot: bytes 0-7 of the word, bytes 8-15, its length and its count. The first byte
            is the lowest, and missing bytes are zero. The length is 0 in an empty slot. The number of slots is a power
            of two.
        slots: int32, the hash table of long words. A slot has the index of a long word, or -1 if it is empty. The
            number of slots is a power of two.
        hashes: uint64, the hash of each long word.
        starts: int64, the offset of each long word in `pool`, and the end of the last one.
        counts: int64, the count of each long word.
        pool: uint8, the bytes of the long words.
        used: int64 [3], the number of short words, the number of long words, and the length of the last word that did
            not fit.
    """

    short: UInt64s
    slots: Int32s
    hashes: UInt64s
    starts: Int64s
    counts: Int64s
    pool: Bytes
    used: Int64s


def build_table(short_slots: int = 1 << 12, long_slots: int = 1 << 10, pool: int = 1 << 14) -> WordTable:
    """Build an empty table.

    Args:
        short_slots: Number of slots for words of at most 16 bytes, a power of two of at least 4.
        long_slots: Number of slots for longer words, a power of two of at least 4.
        pool: Number of bytes for longer words.
    """
    for slots in (short_slots, long_slots):
        assert slots >= 4 and slots & (slots - 1) == 0, "the number of slots is a power of two, from 4 on"
    half = long_slots // 2
    return WordTable(
        short=np.zeros(_LANES * short_slots, np.uint64),
        slots=np.full(long_slots, -1, np.int32),
        hashes=np.zeros(half, np.uint64),
        starts=np.zeros(half + 1, np.int64),
        counts=np.zeros(half, np.int64),
        pool=np.zeros(pool, np.uint8),
        used=np.zeros(3, np.int64),
    )


def grow_table(table: WordTable) -> WordTable:
    """Return a larger table with the same words that has room for the word that did not fit.

    Only the array that was full is enlarged: to twice its size, or more if a long word needs it.
    """
    num_short, num_long, length = table.used.tolist()
    if length <= MAX_SHORT_BYTES:
        larger = table._replace(short=np.zeros(2 * len(table.short), np.uint64))
        _move_short(table.short, larger.short)
        return larger
    end = int(table.starts[num_long])
    larger = build_table(4, *_compute_long_sizes(table, num_long, end + length))._replace(short=table.short)
    larger.hashes[:num_long], larger.counts[:num_long] = table.hashes[:num_long], table.counts[:num_long]
    larger.starts[: num_long + 1], larger.pool[:end] = table.starts[: num_long + 1], table.pool[:end]
    larger.used[:] = num_short, num_long, 0
    _index_long(larger)
    return larger


def _compute_long_sizes(table: WordTable, num_long: int, num_bytes: int) -> tuple[int, int]:
    """Compute the sizes of a larger table: the number of slots for long words, and the bytes of the pool.

    Whichever of the two was too small is enlarged.

    Args:
        table: The table that is full.
        num_long: Number of long words in the table.
        num_bytes: Number of bytes that the pool needs for all long words.
    """
    slots, pool = len(table.slots), len(table.pool)
    return (2 * slots if num_long == len(table.hashes) else slots), (pool if num_bytes <= pool else pool + num_bytes)


def to_word_counts(table: WordTable) -> WordCounts:
    """Convert a table to an Arrow table with the schema `COUNTS_SCHEMA`, sorted by the words' bytes.

    All words must be valid UTF-8.
    """
    num_short, num_long, _ = table.used.tolist()
    total = num_short + num_long
    keys, entries = np.empty(total, np.uint64), np.empty(total, np.int64)
    num_bytes = _list_entries(table, keys, entries)
    order = np.argsort(keys)
    keys, entries = keys[order], entries[order]
    _sort_equal_keys(table, keys, entries, np.empty(total, np.int64))
    offsets, counts = np.zeros(total + 1, np.int64), np.empty(total, np.int64)
    data = np.empty(num_bytes, np.uint8)
    _write_entries(table, entries, offsets, data, counts)
    words = pa.LargeStringArray.from_buffers(total, pa.py_buffer(offsets), pa.py_buffer(data))
    return pa.table([words, pa.array(counts)], schema=COUNTS_SCHEMA)


@kernel
def add_packed(
    short: UInt64s,
    used: Int64s,
    first: np.uint64,
    second: np.uint64,
    length: Integer,
    count: Integer,
) -> bool:
    """Add `count` to the count of a word of 1 to 16 bytes in the arrays of a table. Returns True if it was counted.

    Returns False, without counting it, if the word is new and three quarters of the slots are used.

    Args:
        short: The words and counts, `WordTable.short`. Changed in place.
        used: The sizes, `WordTable.used`. Changed in place.
        first: Bytes 0-7 of the word, in the format of `WordTable.short`.
        second: Bytes 8-15 of the word.
        length: Length of the word in bytes.
        count: The number to add.
    """
    size, mask = np.uint64(length), np.uint64(len(short) // _LANES - 1)
    value = (first ^ (second * _SECOND_MULTIPLIER)) * GOLDEN_RATIO + size
    slot = (value ^ (value >> _HALF)) & mask
    while True:
        at = slot * np.uint64(_LANES)
        slot_length = short[at + np.uint64(_LENGTH)]
        if short[at] == first and short[at + np.uint64(_SECOND)] == second and slot_length == size:
            short[at + np.uint64(_COUNT)] += np.uint64(count)
            return True
        if slot_length == np.uint64(0):
            break
        slot = (slot + np.uint64(1)) & mask
    if _LANES * 4 * used[0] >= 3 * len(short):
        used[2] = length
        return False
    short[at], short[at + np.uint64(_SECOND)] = first, second
    short[at + np.uint64(_LENGTH)], short[at + np.uint64(_COUNT)] = size, np.uint64(count)
    used[0] += 1
    return True


@kernel
def add_short(table: WordTable, first: np.uint64, second: np.uint64, length: Integer, count: Integer) -> bool:
    """Add `count` to the count of a word of 1 to 16 bytes in a table.

    Returns True if the word was counted, and False if the table is full.

    Args:
        table: The table, which is changed in place.
        first: Bytes 0-7 of the word, in the format of `WordTable.short`.
        second: Bytes 8-15 of the word.
        length: Length of the word in bytes.
        count: The number to add.
    """
    return add_packed(table.short, table.used, first, second, length, count)


@kernel
def add_long(table: WordTable, data: Bytes, start: Integer, end: Integer, count: Integer) -> bool:
    """Add `count` to the count of the word data[start:end], which has more than 16 bytes, in a table.

    Returns True if the word was counted, and False if the table is full.
    """
    slots, hashes, starts, counts, pool = table.slots, table.hashes, table.starts, table.counts, table.pool
    length, mask = end - start, len(slots) - 1
    value = _hash_word(data, start, end)
    slot = np.int64(value & np.uint64(mask))
    while slots[slot] >= 0:
        number = np.int64(slots[slot])
        if hashes[number] == value and starts[number + 1] - starts[number] == length:
            if _has_same_bytes(pool, starts[number], data, start, length):
                counts[number] += count
                return True
        slot = (slot + 1) & mask
    number = table.used[1]
    place = starts[number]
    if number == len(hashes) or place + length > len(pool):
        table.used[2] = length
        return False
    for i in range(length):
        pool[place + i] = data[start + i]
    slots[slot], hashes[number], starts[number + 1], counts[number] = number, value, place + length, count
    table.used[1] = number + 1
    return True


@kernel
def add_word(table: WordTable, data: Bytes, start: Integer, end: Integer, count: Integer) -> bool:
    """Add `count` to the count of the word data[start:end], which has at least one byte, in a table.

    Returns True if the word was counted, and False if the table is full.
    """
    if end - start > MAX_SHORT_BYTES:
        return add_long(table, data, start, end, count)
    first, second = pack_bytes(data, start, end)
    return add_packed(table.short, table.used, first, second, end - start, count)


@kernel
def pack_bytes(data: Bytes, start: Integer, end: Integer) -> tuple[np.uint64, np.uint64]:
    """Return bytes 0-7 and 8-15 of the word data[start:end] in the format of `WordTable.short`."""
    at, length = int(start), int(end - start)
    if at + MAX_SHORT_BYTES > len(data):
        return load_tail(data, at, at + length), load_tail(data, at + 8, at + length)
    second = keep_bytes(load8(data, at + 8), length - 8) if length > 8 else np.uint64(0)
    return keep_bytes(load8(data, at), length), second


@kernel
def add_words(
    table: WordTable,
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    counts: Int64s,
    done: int,
) -> int:
    """Add the words data[starts[w]:ends[w]] with their counts, beginning with word `done`.

    Args:
        table: The table, which is changed in place.
        data: The bytes of the words.
        starts: int64 [words], the first byte of each word.
        ends: int64 [words], the end of each word. No word may be empty.
        counts: int64 [words], the number to add for each word.
        done: Index of the first word to add.

    Returns:
        The index of the first word that did not fit, or the number of words if all were added.
    """
    short, used = table.short, table.used
    for w in range(done, len(starts)):
        start, end, count = starts[w], ends[w], counts[w]
        if end - start > MAX_SHORT_BYTES:
            if not add_long(table, data, start, end, count):
                return w
        else:
            first, second = pack_bytes(data, start, end)
            if not add_packed(short, used, first, second, end - start, count):
                return w
    return len(starts)


@kernel
def _hash_word(data: Bytes, start: Integer, end: Integer) -> np.uint64:
    """Return a 64-bit hash of data[start:end]."""
    value = np.uint64(end - start)
    at, to = int(start), int(end)
    while at + 8 <= to:
        value = absorb(value, load8(data, at))
        at += 8
    return absorb(value, load_tail(data, at, to))


@kernel
def _has_same_bytes(pool: Bytes, place: Integer, data: Bytes, start: Integer, length: Integer) -> bool:
    """Return whether pool[place:place + length] and data[start:start + length] are equal. Bounds are not checked."""
    i = 0
    while i + 8 <= length:
        if load8(pool, int(place + i)) != load8(data, int(start + i)):
            return False
        i += 8
    while i < length:
        if pool[place + i] != data[start + i]:
            return False
        i += 1
    return True


@kernel
def _move_short(short: UInt64s, larger: UInt64s) -> None:
    """Insert the short words of a table into a larger, empty one.

    Both have the format of `WordTable.short`, and `larger` must be all zeros.
    """
    mask = np.uint64(len(larger) // _LANES - 1)
    for at in range(0, len(short), _LANES):
        length = short[at + _LENGTH]
        if length == np.uint64(0):
            continue
        value = (short[at] ^ (short[at + _SECOND] * _SECOND_MULTIPLIER)) * GOLDEN_RATIO + length
        slot = (value ^ (value >> _HALF)) & mask
        while larger[slot * np.uint64(_LANES) + np.uint64(_LENGTH)] != np.uint64(0):
            slot = (slot + np.uint64(1)) & mask
        to = np.int64(slot) * _LANES
        for lane in range(_LANES):
            larger[to + lane] = short[at + lane]


@kernel
def _index_long(table: WordTable) -> None:
    """Write the index of each long word of a table into its slot in `table.slots`, which must be initialized to -1."""
    mask = len(table.slots) - 1
    for number in range(table.used[1]):
        slot = np.int64(table.hashes[number] & np.uint64(mask))
        while table.slots[slot] >= 0:
            slot = (slot + 1) & mask
        table.slots[slot] = number


@kernel
def _swap_bytes(word: np.uint64) -> np.uint64:
    """Reverse the byte order of a packed word, so that packed words compare in the order of their bytes."""
    word = ((word >> _BYTE) & _ODD_BYTES) | ((word & _ODD_BYTES) << _BYTE)
    word = ((word >> _TWO_BYTES) & _ODD_PAIRS) | ((word & _ODD_PAIRS) << _TWO_BYTES)
    return (word >> _HALF) | (word << _HALF)


@kernel
def _list_entries(table: WordTable, keys: UInt64s, entries: Int64s) -> int:
    """Write a sort key and an entry for each word of a table, and return the total number of bytes of the words.

    Args:
        table: The table.
        keys: uint64 [words], filled with the first eight bytes of each word, the first byte highest.
        entries: int64 [words], filled with the index of the first value in `WordTable.short` for a short word, and with
            -1 - n for long word n. Short words come first.
    """
    num_words, num_bytes = 0, table.starts[table.used[1]]
    for at in range(0, len(table.short), _LANES):
        if table.short[at + _LENGTH] != np.uint64(0):
            keys[num_words], entries[num_words] = _swap_bytes(table.short[at]), at
            num_bytes += np.int64(table.short[at + _LENGTH])
            num_words += 1
    for number in range(table.used[1]):
        keys[num_words], entries[num_words] = _swap_bytes(load8(table.pool, int(table.starts[number]))), -1 - number
        num_words += 1
    return int(num_bytes)


@kernel
def _get_second_key(table: WordTable, entry: Integer) -> np.uint64:
    """Return bytes 8 to 15 of the word with this entry as a sort key, with the first of them in the highest byte.

    `entry` is an index into `WordTable.short`, or -1 - n for long word n.
    """
    if entry >= 0:
        return _swap_bytes(table.short[entry + _SECOND])
    return _swap_bytes(load8(table.pool, int(table.starts[-1 - entry]) + 8))


@kernel
def _is_before(table: WordTable, one: Integer, other: Integer) -> bool:
    """Return whether one word sorts before another word with the same first eight bytes.

    `one` and `other` are entries of two words: indices into `WordTable.short`, or -1 - n for long word n.
    """
    key, other_key = _get_second_key(table, one), _get_second_key(table, other)
    if key != other_key:
        return bool(key < other_key)
    if one >= 0 and other >= 0:
        return bool(table.short[one + _LENGTH] < table.short[other + _LENGTH])
    if one >= 0 or other >= 0:
        return bool(one >= 0)  # the short word is the long one's beginning
    at, to = table.starts[-1 - one] + MAX_SHORT_BYTES, table.starts[-one]
    other_at, other_to = table.starts[-1 - other] + MAX_SHORT_BYTES, table.starts[-other]
    while at < to and other_at < other_to:
        if table.pool[at] != table.pool[other_at]:
            return bool(table.pool[at] < table.pool[other_at])
        at, other_at = at + 1, other_at + 1
    return bool(to - at < other_to - other_at)


@kernel
def _sort_equal_keys(table: WordTable, keys: UInt64s, entries: Int64s, spare: Int64s) -> None:
    """Sort entries with equal keys by the bytes of their words, with a bottom-up merge sort.

    Args:
        table: The table of the words.
        keys: The first eight bytes of each word, already sorted.
        entries: The entries of `_list_entries` in the order of `keys`, sorted in place.
        spare: Scratch space of the same length.
    """
    first = 0
    while first < len(keys):
        end = first + 1
        while end < len(keys) and keys[end] == keys[first]:
            end += 1
        width = 1
        while width < end - first:
            for start in range(first, end, 2 * width):
                _merge_stretches(table, entries, spare, start, min(start + width, end), min(start + 2 * width, end))
            width *= 2
        first = end


@kernel
def _merge_stretches(
    table: WordTable,
    entries: Int64s,
    spare: Int64s,
    start: Integer,
    middle: int,
    end: Integer,
) -> None:
    """Merge the sorted entries[start:middle] and entries[middle:end] in place.

    All words have the same first eight bytes. `entries` is in the format of `_list_entries`, and `spare` is scratch
    space of the same length.
    """
    if middle == end or not _is_before(table, entries[middle], entries[middle - 1]):
        return
    copy_values(entries[start:end], spare[start:end])
    one, other = start, middle
    for to in range(start, end):
        if other == end or (one < middle and not _is_before(table, spare[other], spare[one])):
            entries[to] = spare[one]
            one += 1
        else:
            entries[to] = spare[other]
            other += 1


@kernel
def _write_entries(
    table: WordTable,
    entries: Int64s,
    offsets: Int64s,
    data: Bytes,
    counts: Int64s,
) -> None:
    """Write the words and counts of a table in the order of `entries`.

    Args:
        table: The table.
        entries: int64 [words]: the index of a short word in `WordTable.short`, or -1 - n for long word n.
        offsets: int64 [words + 1], filled with the start of each word in `data`. offsets[0] must be zero.
        data: Filled with the concatenated bytes of all words.
        counts: int64 [words], filled with the count of each word.
    """
    at = np.int64(0)
    for number, entry in enumerate(entries):
        if entry >= 0:
            length = np.int64(table.short[entry + _LENGTH])
            for i in range(length):
                lane = table.short[entry + (i >> 3)]
                data[at + i] = np.uint8(lane >> np.uint64((i & 7) << 3))
            counts[number] = np.int64(table.short[entry + _COUNT])
        else:
            start = table.starts[-1 - entry]
            length = table.starts[-entry] - start
            for i in range(length):
                data[at + i] = table.pool[start + i]
            counts[number] = table.counts[-1 - entry]
        at += length
        offsets[number + 1] = at


@kernel
def _compare(data: Bytes, start: Integer, end: Integer, other: Bytes, other_start: Integer, other_end: Integer) -> int:
    """Compare the words data[start:end] and other[other_start:other_end] by their bytes.

    A word sorts before the longer words that begin with it.

    Returns:
        -1, 0 or 1 if the first sorts before, equals or sorts after the second.
    """
    length, other_length = end - start, other_end - other_start
    for i in range(min(length, other_length)):
        if data[start + i] != other[other_start + i]:
            return -1 if data[start + i] < other[other_start + i] else 1
    return 0 if length == other_length else -1 if length < other_length else 1


@kernel
def merge_sorted(
    one: Bytes,
    one_offsets: Int64s,
    one_counts: Int64s,
    other: Bytes,
    other_offsets: Int64s,
    other_counts: Int64s,
    data: Bytes,
    offsets: Int64s,
    counts: Int64s,
) -> int:
    """Add up the counts of two sorted lists of words, and return the number of distinct words.

    Args:
        one: Bytes of the words in the first list.
        one_offsets: int64 [words + 1], offsets into `one`.
        one_counts: int64 [words].
        other: Bytes of the words in the second list.
        other_offsets: int64 [words + 1], offsets into `other`.
        other_counts: int64 [words].
        data: Filled with the bytes of the result. It must be as long as both inputs together.
        offsets: Filled with the offsets of the result. It needs one entry more than the two lists have words, and
            offsets[0] must be zero.
        counts: Filled with the counts of the result.
    """
    i = j = number = at = 0
    while i < len(one_counts) or j < len(other_counts):
        order = -1 if j == len(other_counts) else 1
        if i < len(one_counts) and j < len(other_counts):
            order = _compare(one, one_offsets[i], one_offsets[i + 1], other, other_offsets[j], other_offsets[j + 1])
        counts[number] = 0
        if order <= 0:
            start, length = one_offsets[i], one_offsets[i + 1] - one_offsets[i]
            copy_values(one[start : start + length], data[at : at + length])
            counts[number] += one_counts[i]
            i += 1
        if order >= 0:
            start, length = other_offsets[j], other_offsets[j + 1] - other_offsets[j]
            copy_values(other[start : start + length], data[at : at + length])
            counts[number] += other_counts[j]
            j += 1
        at += length
        number += 1
        offsets[number] = at
    return number
