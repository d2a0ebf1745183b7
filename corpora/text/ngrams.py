"""The 64-bit hashes of runs of words: what texts are searched for.

Words are those of `corpora.text.words`, as in shingles. A word hyphenated at the end of a line is two words.

`hash_ngram` and `hash_text_ngrams` are the definition, `corpora.text.ngrams` gives the same for a column. Two
different runs of words share a hash by chance with probability 2**-64. Cost: 0.4 MB a second.

Words and n-grams of a column: `corpora.text.ngrams` for every row, by kernels, and a table to look them up.

Promise: `hash_ngrams` equals the definition row by row. Cost: 310 MB a second for n = 13. A hash of n words
is rolled from the one before it, so its cost does not grow with n; memory is at most four bytes for each of the
longest document.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bytes, Int32s, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import finish, finish_plain
from corpora.text.buffers import to_text_buffers
from corpora.text.shingles import SHINGLE_FACTOR
from corpora.text.word_kernels import hash_words
from corpora.text.words import WordTables, hash_word, read_word_tables, split_words

_MASK64 = (1 << 64) - 1


def hash_ngram(run: Sequence[str]) -> int:
    """Compute the 64-bit hash of a run of folded words.

    It is a polynomial in the hashes of the words, followed by MurmurHash3's finalizer.
    """
    value = 0
    for word in run:
        value = (value * int(SHINGLE_FACTOR) + hash_word(word.encode())) & _MASK64
    return finish_plain(value)


def hash_text_ngrams(text: str, n: int) -> list[int]:
    """Return the hashes of all runs of `n` words in a text, in order; empty if there are fewer words.

    This is the reference implementation of `hash_ngrams`, for tests.

    >>> hash_text_ngrams("One two THREE", 2) == hash_text_ngrams("one, two;\\nthree!", 2)
    True
    """
    all_words = split_words(text)
    return [hash_ngram(all_words[at : at + n]) for at in range(len(all_words) - n + 1)]


_0, _1 = np.uint64(0), np.uint64(1)


def hash_ngrams(texts: pa.Array, n: int) -> tuple[UInt64s, Int64s]:
    """Hash the n-grams of each row of a large_string column without nulls, as `hash_text_ngrams` does.

    Returns:
        The hashes of all rows (uint64), and n + 1 offsets for n rows (int64). Row i has the hashes
        hashes[offsets[i]:offsets[i + 1]].

    Raises:
        InputError: If the column has another type or nulls.
    """
    data, offsets = to_text_buffers(texts)
    # A word and what parts it from the next are two bytes at least, or one character of three.
    out = np.empty((int(offsets[-1] - offsets[0]) + len(texts) + 1) // 2, np.uint64)
    ends = np.zeros(offsets.size, np.int64)
    size = _hash_rows(data, offsets, n, read_word_tables(), out, ends)
    return out[:size].copy(), ends


@kernel
def _hash_rows(data: Bytes, offsets: Int64s, n: int, tables: WordTables, out: UInt64s, ends: Int64s) -> int:
    """Write the n-gram hashes of all rows to `out`, one row after another. Return the number of hashes.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [rows + 1], the first byte of each row in `data`.
        n: Number of words in an n-gram.
        tables: Lookup tables, from `read_word_tables`.
        out: Filled with the hashes. It needs room for the words of all rows.
        ends: int64 [rows + 1], with a 0 first. Filled with the end of each row's hashes in `out`.
    """
    size = 0
    for row in range(offsets.size - 1):
        rest = out[size:]
        size += hash_runs(rest, hash_words(data, offsets[row], offsets[row + 1], tables, rest), n)
        ends[row + 1] = size
    return size


@kernel
def hash_runs(hashes: UInt64s, num_words: int, n: int) -> int:
    """Replace word hashes, in place, with the hashes of all runs of `n` words. Return the number of runs.

    Args:
        hashes: uint64, the hash of each word. Its first entries become the hashes of the runs, in order.
        num_words: Number of words.
        n: Number of words in a run. If there are fewer words, there is no run.
    """
    leave, value, leaving = _1, _0, _0
    for _ in range(n):
        leave *= SHINGLE_FACTOR
    for at in range(num_words):
        value = value * SHINGLE_FACTOR + hashes[at] - leaving * leave
        if at >= n - 1:
            leaving = hashes[at - n + 1]
            hashes[at - n + 1] = finish(value)
    return max(num_words - n + 1, 0)


def make_slots(keys: UInt64s) -> Int32s:
    """Build the hash table that `find_key` searches: int32, the index of a key in each slot, or -1.

    It uses open addressing and is at most half full.

    Args:
        keys: Distinct, well-mixed 64-bit hashes. Their low bits select the slot.
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
    """Store the index of each key in its slot, or in the next empty one. All `slots` must be -1 at first."""
    mask = np.uint64(slots.size - 1)
    for index in range(keys.size):
        place = keys[index] & mask
        while slots[place] >= 0:
            place = (place + _1) & mask
        slots[place] = index


@kernel
def find_key(key: np.uint64, keys: UInt64s, slots: Int32s) -> int:
    """Return the index of `key` in `keys`, or -1 if it is not present.

    `slots` is the hash table that `make_slots` built from `keys`.
    """
    mask = np.uint64(slots.size - 1)
    place = key & mask
    while slots[place] >= 0:
        if keys[slots[place]] == key:
            return int(slots[place])
        place = (place + _1) & mask
    return -1
