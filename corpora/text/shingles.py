"""Shingles: a text as the set of its runs of five consecutive words, each run a 64-bit hash.

Words are those of `corpora.text.words`: only letters, marks and numbers, folded, in every script. So typographic and
straight quotes, dashes, capitals, spacing and the form of Unicode make no difference; a letter of a script without
spaces is a word. A text of fewer than five words has one shingle, of all its words; a text without words has none.

Promise: two shingles share a hash by chance with probability 2**-64. Not promised: safety from someone who builds
collisions on purpose.

Cost: about 2.4 ns a byte of English prose, and buffers of at most 20 bytes per byte of the longest document.
"""

from collections.abc import Sequence

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import finish, finish_plain
from corpora.text.word_kernels import compute_max_words, hash_words
from corpora.text.words import WordTables, hash_word, split_words

# Odd, with well spread bits: sqrt(2) as a binary fraction, made odd.
SHINGLE_FACTOR = np.uint64(0x6A09E667F3BCC909)

_0, _1 = np.uint64(0), np.uint64(1)  # next to a plain integer, numba would turn a uint64 into a float
_MASK64 = (1 << 64) - 1


# The definition, in plain Python.


def hash_shingle(word_hashes: Sequence[int]) -> int:
    """Compute the 64-bit hash of a run of words from the hashes of the words.

    It is a polynomial in the hashes, followed by MurmurHash3's finalizer.
    """
    value = 0
    for word in word_hashes:
        value = (value * int(SHINGLE_FACTOR) + word) & _MASK64
    return finish_plain(value)


def hash_text_shingles(text: str, length: int = 5) -> set[int]:
    """Return the shingle set of a text: the 64-bit hashes of all runs of `length` consecutive words.

    A text with fewer words has one shingle, and a text without words has none.

    >>> [len(hash_text_shingles(text)) for text in ("one two three four five six", "One!", "...")]
    [2, 1, 0]
    >>> hash_text_shingles("“The cat”; the dog") == hash_text_shingles("the CAT -- the dog")
    True
    """
    hashes = [hash_word(word.encode()) for word in split_words(text)]
    if not hashes:
        return set()
    hashes += [0] * (length - len(hashes))
    return {hash_shingle(hashes[at : at + length]) for at in range(len(hashes) - length + 1)}


# The same, compiled, over the bytes of a text column.


@kernel
def hash_shingles(words: UInt64s, num_words: int, length: int) -> int:
    """Replace the word hashes in `words`, in place, with the hashes of all runs of `length` words.

    Return the number of runs.

    If there are fewer words than `length`, they form one run, padded with zero hashes. Without words there is no run.

    Args:
        words: uint64, at least `num_words` entries: the hashes of the words. Its first entries become the hashes of the
            runs.
        num_words: Number of words.
        length: Number of words in a run.
    """
    if num_words == 0:
        return 0
    num_shingles = max(num_words - length + 1, 1)
    value, last = _0, _1  # last: the factor that the first word of a run has in it
    for position in range(length):
        value *= SHINGLE_FACTOR
        if position < num_words:
            value += words[position]
        if position > 0:
            last *= SHINGLE_FACTOR
    for at in range(num_shingles - 1):  # each run is the one before without its first word, and with one more
        gone, words[at] = words[at], finish(value)  # no later run needs the word that was here
        value = (value - gone * last) * SHINGLE_FACTOR + words[at + length]
    words[num_shingles - 1] = finish(value)
    return num_shingles


@kernel
def keep_distinct(values: UInt64s, num_values: int, table: UInt64s) -> int:
    """Move the distinct values among the first `num_values` to the front, in order. Return how many there are.

    Args:
        values: Well-mixed hashes. Their low bits select the slot. Changed in place.
        num_values: Number of values to check.
        table: Scratch memory, overwritten. Its size must be at least the smallest power of two that is not less than 2
            * `num_values`.
    """
    size = 1
    while size < 2 * num_values:
        size *= 2
    table[:size] = _0  # marks a free place, so the value zero is kept account of outside the table
    mask, num_distinct, zero_seen = np.uint64(size - 1), 0, False
    for at in range(num_values):
        value = values[at]
        place = value & mask
        held = table[place]
        while held != _0 and held != value:
            place = (place + _1) & mask
            held = table[place]
        table[place] = values[num_distinct] = value
        num_distinct += held != value or (value == _0 and not zero_seen)
        zero_seen |= value == _0
    return num_distinct


@kernel
def write_shingles(
    data: Bytes,
    start: int,
    end: int,
    length: int,
    tables: WordTables,
    out: UInt64s,
    table: UInt64s,
) -> int:
    """Write the shingle set of data[start:end] to the front of `out`. Return the size of the set.

    Args:
        data: UTF-8 bytes.
        start, end: Start and end of the text in `data`.
        length: Number of words in a shingle.
        tables: Lookup tables, from `read_word_tables`.
        out: Filled with the hashes.
        table: Scratch memory, overwritten. `out` and `table` must have at least the sizes that `compute_buffer_sizes`
            returns.
    """
    num_words = hash_words(data, start, end, tables, out)
    return keep_distinct(out, hash_shingles(out, num_words, length), table)


def compute_max_shingles(offsets: Int64s) -> int:
    """Return an upper bound for the number of shingles in all rows of a column, given its offsets."""
    return int((np.diff(offsets) + 1).sum()) // 2 + len(offsets)


@kernel
def compute_buffer_sizes(offsets: Int64s) -> tuple[int, int]:
    """Compute the sizes of `out` and `table`, in entries, that `write_shingles` needs for the longest row of a column.

    `offsets` contains the first byte of each row and, as its last entry, the end of the last row.
    """
    room, size = compute_max_words(offsets), 2
    while size < 2 * room:
        size *= 2
    return room, size
