"""Verification: the exact similarity of two documents, and its comparison with the threshold, unrounded.

The similarity of two documents is the Jaccard index of their shingle sets, |A and B| / |A or B|, kept as the
two whole numbers (shingles in common, shingles in either). A threshold is meant as it is written: 0.8 is 4/5,
and a pair of 4 in 5 reaches it, although the binary number nearest to 0.8 is a little larger than 4/5. So the
threshold is a ratio of whole numbers too, and the test is a comparison of two products.

Promise: exact as far as the 64-bit shingle hashes are distinct (see `shingles`). Two empty sets have the
similarity 0/0, which reaches no threshold. Cost: 8 bytes a shingle while the sets are held, about 1.4 bytes
per byte of English (2.7 of Chinese); a comparison reads both sets once, about 7 ns a shingle.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.text.buffers import to_text_buffers
from corpora.text.shingles import compute_buffer_sizes, compute_max_shingles, write_shingles
from corpora.text.words import WordTables, read_word_tables

MAX_DECIMALS = 6  # of a threshold: then products with set sizes below 2**31 stay far below 2**63


class Overlaps(NamedTuple):
    """The overlaps of n pairs of shingle sets. The Jaccard similarity of a pair is intersection / union.

    Attributes:
        intersection: int64 [n], number of shingles in both sets.
        union: int64 [n], number of shingles in at least one of the sets.
        right_size: int64 [n], number of shingles in the second set of the pair.
    """

    intersection: Int64s
    union: Int64s
    right_size: Int64s


class ShingleSets(NamedTuple):
    """The shingle sets of a text column with n rows.

    Attributes:
        values: uint64, the shingle hashes of all sets, in row order. Each set is sorted and has no duplicates.
        offsets: int64 [n + 1]. The set of row i is values[offsets[i]:offsets[i + 1]].
    """

    values: UInt64s
    offsets: Int64s

    def load(self, documents: Int64s) -> None:
        """Do nothing, because all sets are already in memory. Other implementations read them here."""

    def compute_overlaps(self, left: Int64s, right: Int64s) -> Overlaps:
        """Compute the overlap of the sets in rows left[k] and right[k], for all k.

        Args:
            left: int64 [n], zero-based rows.
            right: int64 [n], zero-based rows.
        """
        return compute_overlaps(self.values, self.offsets, left, right)


def parse_threshold(threshold: float) -> Fraction:
    """Convert a threshold to the exact fraction that its decimal digits denote.

    Raises:
        InputError: If it is 0 or less, greater than 1, or has more than six decimals.

    >>> parse_threshold(0.8)
    Fraction(4, 5)
    """
    ratio = Fraction(str(threshold)) if 0 < threshold <= 1 else Fraction(0)
    if not ratio or 10**MAX_DECIMALS % ratio.denominator:
        raise InputError(
            f"threshold = {threshold} is no similarity to compare with: it must be above 0 and at most 1, "
            f"with at most {MAX_DECIMALS} decimals."
        )
    return ratio


def is_at_least(intersection: int, union: int, threshold: Fraction) -> bool:
    """Return True if intersection / union >= threshold, without rounding. Return False if `union` is 0."""
    return union > 0 and intersection * threshold.denominator >= threshold.numerator * union


def build_shingle_sets(texts: pa.Array, words: int = 5) -> ShingleSets:
    """Compute the shingle set of each row in a text column. A shingle is a hash of consecutive words.

    Args:
        texts: A large_string or large_binary column without nulls.
        words: Number of words in a shingle.

    Raises:
        InputError: If the column has another type or contains nulls.
    """
    data, offsets = to_text_buffers(texts)
    room = np.empty(compute_max_shingles(offsets), np.uint64)  # what is not written of it is never in memory
    ends = np.zeros(len(texts) + 1, np.int64)
    write_sets(data, offsets, words, read_word_tables(), room, ends)
    return ShingleSets(room[: ends[-1]].copy(), ends)


@kernel
def write_sets(
    data: Bytes,
    offsets: Int64s,
    length: int,
    tables: WordTables,
    values: UInt64s,
    ends: Int64s,
) -> None:
    """Compute the sorted shingle set of each row in a text column, and write the sets to `values`.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [n + 1]. Row i is data[offsets[i]:offsets[i + 1]].
        length: Number of words in a shingle.
        tables: The word tables from `read_word_tables`.
        values: uint64, filled from the beginning. Its length must be at least `compute_max_shingles(offsets)`.
        ends: int64 [n + 1]. ends[0] must be 0. Afterwards, the set of row i is values[ends[i]:ends[i + 1]].
    """
    most_words, table_size = compute_buffer_sizes(offsets)
    shingles, table = np.empty(most_words, np.uint64), np.empty(table_size, np.uint64)
    at = 0
    for row in range(len(offsets) - 1):
        number = write_shingles(data, offsets[row], offsets[row + 1], length, tables, shingles, table)
        sort_hashes(shingles, number, table, values[at : at + number])
        at += number
        ends[row + 1] = at


@kernel
def sort_sets(values: UInt64s, starts: Int64s, ends: Int64s, out: UInt64s) -> None:
    """Sort each set values[starts[i]:ends[i]], and write the sorted sets to `out`, one after another.

    Args:
        values: uint64, the shingles.
        starts: int64 [n], start index of each set.
        ends: int64 [n], end index of each set (exclusive).
        out: uint64, filled with the sorted sets.
    """
    counts, at, longest = np.empty(0, np.uint64), 0, 2
    for row in range(len(starts)):
        number = ends[row] - starts[row]
        while longest < number or len(counts) < longest:
            longest = 2 * longest if longest < number else longest
            counts = np.empty(longest, np.uint64)
        sort_hashes(values[starts[row] : ends[row]], number, counts, out[at : at + number])
        at += number


@kernel
def sort_hashes(hashes: UInt64s, number: int, counts: UInt64s, out: UInt64s) -> None:
    """Sort the first `number` hashes into `out`, by a bucket sort on their high bits followed by an insertion sort.

    Args:
        hashes: uint64, evenly distributed hashes.
        number: Number of hashes to sort.
        counts: uint64, scratch memory. Its length must be at least 2 and at least `number` rounded up to a power of
            two.
        out: uint64 [number], filled with the sorted hashes.
    """
    size, shift = 2, np.uint64(63)
    while size < number:
        size, shift = 2 * size, shift - np.uint64(1)
    counts[:size] = 0
    for at in range(number):
        counts[hashes[at] >> shift] += np.uint64(1)
    before = np.uint64(0)
    for place in range(size):
        counts[place], before = before, before + counts[place]
    for at in range(number):
        place = hashes[at] >> shift
        out[counts[place]] = hashes[at]
        counts[place] += np.uint64(1)
    for at in range(1, number):
        value, place = out[at], at
        while place > 0 and out[place - 1] > value:
            out[place] = out[place - 1]
            place -= 1
        out[place] = value


def count_common_plain(sets: ShingleSets, left: int, right: int) -> tuple[int, int]:
    """Count the shingles in the intersection and in the union of the sets of two rows. Return both numbers.

    This is for tests.
    """
    one, other = (set(sets.values[sets.offsets[row] : sets.offsets[row + 1]].tolist()) for row in (left, right))
    return len(one & other), len(one | other)


def compute_overlaps(
    values: UInt64s,
    offsets: Int64s,
    left: Int64s,
    right: Int64s,
) -> Overlaps:
    """Compute the overlaps of pairs of sets that are stored in one array: set left[k] with set right[k], for all k.

    Args:
        values: uint64, the shingles of all sets, set by set. Each set is sorted and has no duplicates.
        offsets: int64. Set i is values[offsets[i]:offsets[i + 1]].
        left: int64 [n], index of the first set of each pair.
        right: int64 [n], index of the second set of each pair.
    """
    common = np.empty(len(left), np.int64)
    count_common(values, offsets, left, right, common)
    own = offsets[right + 1] - offsets[right]
    return Overlaps(common, offsets[left + 1] - offsets[left] + own - common, own)


@kernel
def count_common(
    values: UInt64s,
    offsets: Int64s,
    left: Int64s,
    right: Int64s,
    common: Int64s,
) -> None:
    """Compute the size of the intersection of each pair of sets.

    Args:
        values: uint64, the shingles of all sets, set by set. Each set is sorted and has no duplicates.
        offsets: int64. Set i is values[offsets[i]:offsets[i + 1]].
        left: int64 [n], index of the first set of each pair.
        right: int64 [n], index of the second set of each pair.
        common: int64 [n], filled with the sizes.
    """
    for pair in range(len(left)):
        at, at_end = offsets[left[pair]], offsets[left[pair] + 1]
        other, other_end = offsets[right[pair]], offsets[right[pair] + 1]
        number = 0
        while at < at_end and other < other_end:
            # No branch on the values, for it could not be foreseen: a side steps unless it is greater.
            one, two = values[at], values[other]
            number += one == two
            at += one <= two
            other += two <= one
        common[pair] = number
