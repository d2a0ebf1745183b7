"""Words and n-grams of a column: `corpora.text.ngrams` for every row, by kernels, and a table to look them up.

Promise: `hash_ngrams` equals the definition row by row. Cost: 310 MB a second for n = 13. A hash of n words
is rolled from the one before it, so its cost does not grow with n; memory is at most four bytes for each of the
longest document.
"""

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bytes, Int32s, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import absorb, finish
from corpora.kernels.packed import TOP_BITS, ascii_marks, bytes_before, first_flagged, load_up_to, lowered
from corpora.kernels.utf8 import decode, encode
from corpora.text.buffers import text_buffers
from corpora.text.ngrams import ALONE, INSIDE, MARK, OUTSIDE, WordTables, word_tables
from corpora.text.shingles import EMPTY_WORD, SHINGLE_FACTOR

_0, _1, _64 = np.uint64(0), np.uint64(1), np.uint64(64)
_TABLE_SIZE, _LAST_IDEOGRAPH = 0x20000, 0x3FFFF


def hash_ngrams(texts: pa.Array, n: int) -> tuple[UInt64s, Int64s]:
    """The hashes of the n-grams of every row of a large_string column without nulls: `ngram_hashes`.

    Returns the hashes of all rows one after another, and n + 1 offsets: row i has [offsets[i]:offsets[i + 1]].
    """
    data, offsets = text_buffers(texts)
    # A word and what parts it from the next are two bytes at least, or an ideograph of three.
    out = np.empty((int(offsets[-1] - offsets[0]) + len(texts) + 1) // 2, np.uint64)
    ends = np.zeros(offsets.size, np.int64)
    size = _hash_rows(data, offsets, n, word_tables(), out, ends)
    return out[:size].copy(), ends


@kernel
def _hash_rows(data: Bytes, offsets: Int64s, n: int, tables: WordTables, out: UInt64s, ends: Int64s) -> int:
    """Fill `out` and `ends`; returns the number of hashes."""
    size = 0
    for row in range(offsets.size - 1):
        found = out[size:]
        size += hash_runs(found, hash_words(data, offsets[row], offsets[row + 1], tables, found), n)
        ends[row + 1] = size
    return size


@kernel
def most_words(offsets: Int64s) -> int:
    """Room for the words of the longest row of a column."""
    longest = 0
    for row in range(offsets.size - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    return (longest + 1) // 2  # a word and what parts it from the next are two bytes, or an ideograph of three


@kernel
def hash_runs(hashes: UInt64s, num_words: int, n: int) -> int:
    """Replace the hashes of words by those of the runs of n of them, rolled; returns their number."""
    leave, value, leaving = _1, _0, _0
    for _ in range(n):
        leave *= SHINGLE_FACTOR
    for at in range(num_words):
        value = value * SHINGLE_FACTOR + hashes[at] - leaving * leave
        if at >= n - 1:
            leaving = hashes[at - n + 1]
            hashes[at - n + 1] = finish(value)
    return max(num_words - n + 1, 0)


@kernel
def character_at(data: Bytes, at: int, tables: WordTables) -> tuple[int, int, int]:
    """The kind of the character at a byte, its folded code point and its width."""
    code, width = decode(data, at)
    if code < _TABLE_SIZE:
        return int(tables.kinds[code]), int(tables.folds[code]), width
    return (ALONE if code <= _LAST_IDEOGRAPH else OUTSIDE), code, width


@kernel
def hash_words(data: Bytes, start: int, stop: int, tables: WordTables, out: UInt64s) -> int:
    """Write the hash of each word of data[start:stop] to `out`; returns how many there are.

    Words of ASCII are read eight bytes at a time, as `corpora.text.shingles.hash_words` does.
    """
    num_words, state, inside, at, begin = 0, EMPTY_WORD, False, start, start
    while at < stop:
        chunk = load_up_to(data, np.int64(at), stop)
        outside = ascii_marks(chunk)  # the high bit of each byte of ASCII that belongs to no word
        before = bytes_before(outside) if outside else ~_0  # the bytes before the first of them
        if chunk & before & TOP_BITS:
            begin = begin if inside else at
            state, at = fold_word(data, begin, stop, tables)
            if at < 0:
                at = -at
            else:
                out[num_words] = state
                num_words += 1
            state, inside = EMPTY_WORD, False
            continue
        if before:
            begin = begin if inside else at
            state, inside = absorb(state, lowered(chunk) & before), True
        if inside and outside:
            out[num_words] = state
            num_words, state, inside = num_words + 1, EMPTY_WORD, False
        at += first_flagged(~outside & TOP_BITS & ~before) if outside else 8
    if inside:
        out[num_words] = state
        num_words += 1
    return num_words


@kernel
def fold_word(data: Bytes, begin: int, stop: int, tables: WordTables) -> tuple[np.uint64, int]:
    """The hash of the word that begins at `begin`, character by character, and the place after it.

    Where none begins there, the place after that character, as a negative number.
    """
    at, state, pending, filled, inside = begin, EMPTY_WORD, _0, _0, False
    while at < stop:
        kind, code, width = character_at(data, at, tables)
        alone = kind == ALONE
        if kind == OUTSIDE or (alone and inside):
            break
        at += width
        if kind == INSIDE or alone or (kind == MARK and inside):
            state, pending, filled = _absorb_character(state, pending, filled, code)
            inside = True
        if alone or not inside:
            break
    if not inside:
        return state, -max(at, begin + character_at(data, begin, tables)[2])
    return (absorb(state, pending) if filled else state), at


@kernel
def behind_words(data: Bytes, at: int, stop: int, count: int, tables: WordTables) -> int:
    """The place after the first `count` words from `at` on, or `stop` where there are fewer."""
    while at < stop and count > 0:
        _, at = fold_word(data, at, stop, tables)
        if at < 0:
            at = -at
        else:
            count -= 1
    return at


@kernel
def _absorb_character(
    state: np.uint64, pending: np.uint64, filled: np.uint64, code: int
) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Mix the UTF-8 bytes of a code point into the hash, eight bytes at a time."""
    character, width = encode(code)
    bits = np.uint64(8 * width)
    pending |= character << filled
    if filled + bits < _64:
        return state, pending, filled + bits
    state, over = absorb(state, pending), filled + bits - _64
    return state, (character >> (bits - over) if over else _0), over


def make_slots(keys: UInt64s) -> Int32s:
    """A table in which `find` looks for a key: at most half full, open addressing, -1 where free.

    keys: different, well mixed hashes, for their low bits are their places
    """
    size = 2
    while size < 2 * keys.size:
        size *= 2
    slots = np.full(size, -1, np.int32)
    _fill_slots(keys, slots)
    slots.flags.writeable = False
    return slots


@kernel
def _fill_slots(keys: UInt64s, slots: Int32s) -> None:
    """Put every key into its place, or the next one that is free."""
    mask = np.uint64(slots.size - 1)
    for index in range(keys.size):
        place = keys[index] & mask
        while slots[place] >= 0:
            place = (place + _1) & mask
        slots[place] = index


@kernel
def find(key: np.uint64, keys: UInt64s, slots: Int32s) -> int:
    """The place of a key among the keys; -1 where it is not one of them."""
    mask = np.uint64(slots.size - 1)
    place = key & mask
    while slots[place] >= 0:
        if keys[slots[place]] == key:
            return int(slots[place])
        place = (place + _1) & mask
    return -1
