"""Shingles: a text as the set of its runs of five consecutive words, each run a 64-bit hash.

A word is a longest run of ASCII letters and digits (lower-cased) and of bytes >= 0x80, so a word holds any
letter of any script, but also any other character beyond ASCII: typographic quotes and dashes belong to the
word they touch until they are normalised, and a script written without spaces is one word from one ASCII mark
to the next. A text of fewer than five words has one shingle, of all its words; a text without words has none.

Promise: two words of up to eight bytes never share a hash; any other two words, or shingles, do by chance
with probability 2**-64. Not promised: safety from someone who builds collisions on purpose.

Cost: about 2.4 ns a byte of English prose, and buffers of at most 20 bytes per byte of the longest document. The
kernels read eight bytes at a time and look at all eight at once (Lamport 1975, "Multiple byte processing with
full-word instructions"); no Python object is made for a word.
"""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from corpora.kernels import kernel

WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]+")

# Odd 64-bit constants with well spread bits: the golden ratio, pi and sqrt(2) as binary fractions, made odd.
EMPTY_WORD = np.uint64(0x243F6A8885A308D3)
WORD_FACTOR = np.uint64(0x9E3779B97F4A7C15)
SHINGLE_FACTOR = np.uint64(0x6A09E667F3BCC909)
# The two factors of MurmurHash3's 64-bit finaliser.
FINISH_1 = np.uint64(0xFF51AFD7ED558CCD)
FINISH_2 = np.uint64(0xC4CEB9FE1A85EC53)

ONES = np.uint64(0x0101010101010101)
HIGH = np.uint64(0x8080808080808080)
LOW7 = np.uint64(0x7F7F7F7F7F7F7F7F)
# Small numbers as uint64: beside a plain integer, numba would turn a uint64 into a float.
_0, _1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(number) for number in range(9))
_16, _24, _32, _33, _40, _48, _56 = (np.uint64(number) for number in (16, 24, 32, 33, 40, 48, 56))
# Added to a byte of seven bits, 0x80 - c sets the byte's high bit if and only if the byte is >= c.
FROM_DIGIT, PAST_DIGIT = ONES * np.uint64(0x80 - 0x30), ONES * np.uint64(0x80 - 0x3A)
FROM_CAPITAL, PAST_CAPITAL = ONES * np.uint64(0x80 - 0x41), ONES * np.uint64(0x80 - 0x5B)
FROM_SMALL, PAST_SMALL = ONES * np.uint64(0x80 - 0x61), ONES * np.uint64(0x80 - 0x7B)
CASE_BITS = ONES * np.uint64(0x20)

_MASK64 = (1 << 64) - 1


# The definition, in plain Python.


def word_hash(word: bytes) -> int:
    """64-bit hash of one lower-cased word: eight bytes (little-endian) at a time are mixed into the state."""
    state = int(EMPTY_WORD)
    for at in range(0, len(word), 8):
        state = (state ^ int.from_bytes(word[at : at + 8], "little")) * int(WORD_FACTOR) & _MASK64
        state ^= state >> 32
    return state


def shingle_hash(words: Sequence[int]) -> int:
    """64-bit hash of a run of word hashes: a polynomial in them, then MurmurHash3's finaliser."""
    value = 0
    for word in words:
        value = (value * int(SHINGLE_FACTOR) + word) & _MASK64
    for factor in (FINISH_1, FINISH_2):
        value = (value ^ value >> 33) * int(factor) & _MASK64
    return value ^ value >> 33


def shingle_hashes(text: bytes, words: int = 5) -> set[int]:
    """The shingle set of a text: the 64-bit hash of each run of `words` consecutive words.

    >>> [len(shingle_hashes(text)) for text in (b"one two three four five six", b"One!", b"...")]
    [2, 1, 0]
    >>> shingle_hashes(b"The cat; the dog") == shingle_hashes(b"the CAT -- the dog")
    True
    """
    hashes = [word_hash(word) for word in WORD.findall(text.lower())]
    if not hashes:
        return set()
    hashes += [0] * (words - len(hashes))
    return {shingle_hash(hashes[at : at + words]) for at in range(len(hashes) - words + 1)}


# The same, compiled, over the bytes of a text column.


@kernel
def load_bytes(data: npt.NDArray[np.uint8], at: np.int64, end: int) -> np.uint64:
    """The eight bytes from `at` as a little-endian integer; bytes from `end` on are read as zero."""
    chunk = _0
    first = np.uint64(at)  # an unsigned index needs no test for negative ones: LLVM makes this a single load
    if at + 8 <= end:
        chunk = np.uint64(data[first])
        chunk |= np.uint64(data[first + _1]) << _8
        chunk |= np.uint64(data[first + _2]) << _16
        chunk |= np.uint64(data[first + _3]) << _24
        chunk |= np.uint64(data[first + _4]) << _32
        chunk |= np.uint64(data[first + _5]) << _40
        chunk |= np.uint64(data[first + _6]) << _48
        chunk |= np.uint64(data[first + _7]) << _56
    else:
        for position in range(end - at):
            chunk |= np.uint64(data[at + position]) << np.uint64(8 * position)
    return chunk


@kernel
def outside_words(chunk: np.uint64) -> np.uint64:
    """The high bit of each of eight bytes that belongs to no word."""
    seven = chunk & LOW7
    folded = seven | CASE_BITS
    letters = (folded + FROM_SMALL) & ~(folded + PAST_SMALL)
    digits = (seven + FROM_DIGIT) & ~(seven + PAST_DIGIT)
    return ~(letters | digits | chunk) & HIGH


@kernel
def lower_case(chunk: np.uint64) -> np.uint64:
    """Eight bytes with the ASCII capitals among them in lower case."""
    seven = chunk & LOW7
    capitals = (seven + FROM_CAPITAL) & ~(seven + PAST_CAPITAL) & ~chunk & HIGH
    return chunk | capitals >> _2


@kernel
def num_bytes_below(marks: np.uint64) -> np.int64:
    """How many of eight bytes lie below the first whose high bit is marked: 8 when none is."""
    below = ~marks & (marks - _1)  # all bits below the lowest mark
    return np.int64(((below >> _7 & ONES) * ONES) >> _56)


@kernel
def absorb(state: np.uint64, chunk: np.uint64) -> np.uint64:
    """One step of `word_hash`."""
    state = (state ^ chunk) * WORD_FACTOR
    return state ^ state >> _32


@kernel
def hash_words(data: npt.NDArray[np.uint8], start: int, end: int, out: npt.NDArray[np.uint64]) -> int:
    """Write `word_hash` of each word of data[start:end] to `out`; returns how many there are.

    `out` needs room for (end - start + 1) // 2 words.
    """
    num_words, state, inside, at = 0, EMPTY_WORD, False, np.int64(start)
    while at < end:
        chunk = load_bytes(data, at, end)
        outside = outside_words(chunk)
        if outside == _0:
            state, inside = absorb(state, lower_case(chunk)), True
            at += 8
            continue
        first = outside & (~outside + _1)  # the lowest bit alone: the high bit of the first byte outside
        before = (first >> _7) - _1  # all bits of the bytes before it
        if before != _0:
            state, inside = absorb(state, lower_case(chunk) & before), True
        if inside:
            out[num_words] = state
            num_words, state, inside = num_words + 1, EMPTY_WORD, False
        at += num_bytes_below(~outside & HIGH & ~before)
    if inside:
        out[num_words] = state
        num_words += 1
    return num_words


@kernel
def hash_shingles(words: npt.NDArray[np.uint64], num_words: int, length: int) -> int:
    """Replace word hashes by the `shingle_hash` of each run of `length` of them; returns their number."""
    if num_words == 0:
        return 0
    num_shingles = max(num_words - length + 1, 1)
    for at in range(num_shingles):
        value = _0
        for position in range(at, at + length):
            value *= SHINGLE_FACTOR
            if position < num_words:
                value += words[position]
        value = (value ^ value >> _33) * FINISH_1
        value = (value ^ value >> _33) * FINISH_2
        words[at] = value ^ value >> _33  # no later run needs the word that stood here
    return num_shingles


@kernel
def keep_distinct(values: npt.NDArray[np.uint64], num_values: int, table: npt.NDArray[np.uint64]) -> int:
    """Move the distinct ones of the first `num_values` values to the front, in order; returns their number.

    values: well mixed hashes, for their low bits are their places in the table
    table:  room for the open addressing: a power of two, at least twice `num_values`; overwritten
    """
    size = 1
    while size < 2 * num_values:
        size *= 2
    table[:size] = _0  # marks a free place, so the value zero is kept account of beside the table
    mask, num_distinct, zero_seen = np.uint64(size - 1), 0, False
    for at in range(num_values):
        value = values[at]
        place = value & mask
        while table[place] != _0 and table[place] != value:
            place = (place + _1) & mask
        fresh = table[place] != value or (value == _0 and not zero_seen)
        zero_seen |= value == _0
        if fresh:
            table[place] = value
            values[num_distinct] = value
            num_distinct += 1
    return num_distinct


@kernel
def distinct_shingles(
    data: npt.NDArray[np.uint8],
    start: int,
    end: int,
    length: int,
    out: npt.NDArray[np.uint64],
    table: npt.NDArray[np.uint64],
) -> int:
    """Write the shingle set of data[start:end] to the front of `out`; returns its size."""
    num_words = hash_words(data, start, end, out)
    return keep_distinct(out, hash_shingles(out, num_words, length), table)


@kernel
def buffer_sizes(offsets: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Room that `out` and `table` of `distinct_shingles` need for the longest row of a column."""
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    most_words, size = (longest + 1) // 2, 2
    while size < 2 * most_words:
        size *= 2
    return most_words, size
