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

from corpora.kernels.arrays import Bytes, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import absorb, absorbed, finish, finished
from corpora.kernels.packed import TOP_BITS, ascii_marks, bytes_before, first_flagged, load_up_to, lowered

WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]+")

# Odd 64-bit constants with well spread bits: pi and sqrt(2) as binary fractions, made odd.
EMPTY_WORD = np.uint64(0x243F6A8885A308D3)
SHINGLE_FACTOR = np.uint64(0x6A09E667F3BCC909)

_0, _1 = np.uint64(0), np.uint64(1)  # next to a plain integer, numba would turn a uint64 into a float
_MASK64 = (1 << 64) - 1


# The definition, in plain Python.


def word_hash(word: bytes) -> int:
    """64-bit hash of one lower-cased word: eight bytes (little-endian) at a time are mixed into the state."""
    state = int(EMPTY_WORD)
    for at in range(0, len(word), 8):
        state = absorbed(state, int.from_bytes(word[at : at + 8], "little"))
    return state


def shingle_hash(words: Sequence[int]) -> int:
    """64-bit hash of a run of word hashes: a polynomial in them, then MurmurHash3's finaliser."""
    value = 0
    for word in words:
        value = (value * int(SHINGLE_FACTOR) + word) & _MASK64
    return finished(value)


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
def hash_words(data: Bytes, start: int, end: int, out: UInt64s) -> int:
    """Write `word_hash` of each word of data[start:end] to `out`; returns how many there are.

    `out` needs room for (end - start + 1) // 2 words.
    """
    num_words, state, inside, at = 0, EMPTY_WORD, False, np.int64(start)
    while at < end:
        chunk = load_up_to(data, at, end)
        outside = ascii_marks(chunk)
        if outside == _0:
            state, inside = absorb(state, lowered(chunk)), True
            at += 8
            continue
        before = bytes_before(outside)
        if before != _0:
            state, inside = absorb(state, lowered(chunk) & before), True
        if inside:
            out[num_words] = state
            num_words, state, inside = num_words + 1, EMPTY_WORD, False
        at += first_flagged(~outside & TOP_BITS & ~before)
    if inside:
        out[num_words] = state
        num_words += 1
    return num_words


@kernel
def hash_shingles(words: UInt64s, num_words: int, length: int) -> int:
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
        words[at] = finish(value)  # no later run needs the word that was here
    return num_shingles


@kernel
def keep_distinct(values: UInt64s, num_values: int, table: UInt64s) -> int:
    """Move the distinct ones of the first `num_values` values to the front, in order; returns their number.

    values: well mixed hashes, for their low bits are their places in the table
    table:  room for the open addressing: a power of two, at least twice `num_values`; overwritten
    """
    size = 1
    while size < 2 * num_values:
        size *= 2
    table[:size] = _0  # marks a free place, so the value zero is kept account of outside the table
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
    data: Bytes,
    start: int,
    end: int,
    length: int,
    out: UInt64s,
    table: UInt64s,
) -> int:
    """Write the shingle set of data[start:end] to the front of `out`; returns its size."""
    num_words = hash_words(data, start, end, out)
    return keep_distinct(out, hash_shingles(out, num_words, length), table)


@kernel
def buffer_sizes(offsets: Int64s) -> tuple[int, int]:
    """Room that `out` and `table` of `distinct_shingles` need for the longest row of a column."""
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    most_words, size = (longest + 1) // 2, 2
    while size < 2 * most_words:
        size *= 2
    return most_words, size
