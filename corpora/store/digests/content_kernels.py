"""Kernels of `compute_content`: the bytes of a row brought together from all columns, hashed, and added up.

Columns are given by address, for there are any number of them. `Column` says what a row of their table is.

Cost: some 60 nanoseconds for a row of a word and a number. The bytes of a row are copied once, into a buffer that stays
in the processor's own cache.
"""

from enum import IntEnum

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s, Integer, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hash128 import Number127, multiply_add, reduce_modulo, xxh3_128
from corpora.kernels.packed import load8_at, store8

SEED_BYTES = 16
SPARE_BYTES = 8  # bytes after the row that may be overwritten


class Column(IntEnum):
    """The fields of the table that describes data columns to `digest_rows`, one row per data column.

    In a column of fixed width, the bytes of row i are i * WIDTH to (i + 1) * WIDTH. If WIDTH is -1, they are bounds[i]
    to bounds[i + 1]. The bytes of a column must be padded to at least eight.
    """

    DATA = 0  # the address of the bytes
    SIZE = 1  # how many they are
    WIDTH = 2
    BOUNDS = 3  # the address of the bounds, int64


_DATA, _SIZE, _WIDTH, _BOUNDS = (int(field) for field in Column)


@kernel
def digest_rows(
    columns: Int64s, first: int, last: int, seed: UInt64s, base: Number127, buffer: Bytes
) -> tuple[int, Number127]:
    """Hash rows from `first` up to, but not including, `last`, and combine their hashes into one digest.

    Args:
        columns: int64 [columns, len(Column)], described by `Column`.
        first: Index of the first row.
        last: Index of the row after the last one.
        seed: uint64 [2], hashed at the beginning of each row.
        base: The base of the polynomial that combines the hashes: two words, upper word first, below 2^127 - 1.
        buffer: uint8 scratch memory for one row, which is overwritten.

    Returns:
        The index of the row at which hashing stopped, and the digest of the rows before it (two words, upper word
        first). The index is less than `last` if that row is too long for `buffer`.
    """
    lanes, digest = np.empty(8, np.uint64), (np.uint64(0), np.uint64(0))
    for word in range(2):
        store8(buffer, 8 * word, seed[word])
    for row in range(first, last):
        size = np.int64(SEED_BYTES)
        for column in range(len(columns)):
            start, end = _locate_row(columns, column, row)
            if size + end - start + SPARE_BYTES > len(buffer):
                return row, digest
            _copy_bytes(columns[column, _DATA], columns[column, _SIZE], start, end, buffer, size)
            size += end - start
        upper, lower = xxh3_128(buffer, 0, size, lanes)
        digest = multiply_add(digest, base, reduce_modulo(upper, lower))
    return last, digest


@kernel
def _locate_row(columns: Int64s, column: Integer, row: Integer) -> tuple[Integer, Integer]:
    """Return the offsets of a row's first byte in a column, and of the byte after its last one.

    Args:
        columns: int64 [columns, len(Column)], described by `Column`.
        column: Index of the column.
        row: Index of the row.
    """
    width = columns[column, _WIDTH]
    if width >= 0:
        return row * width, (row + 1) * width
    bounds = columns[column, _BOUNDS]
    return np.int64(load8_at(bounds, 8 * row)), np.int64(load8_at(bounds, 8 * row + 8))


@kernel
def _copy_bytes(data: Integer, size: Integer, start: Integer, end: Integer, buffer: Bytes, at: Integer) -> None:
    """Copy bytes of a column into a buffer.

    Args:
        data: Memory address of the column.
        size: Number of bytes at `data`.
        start: First byte to copy.
        end: The byte after the last one to copy.
        buffer: The buffer.
        at: Position in `buffer`. Whole words are written, so up to seven bytes after the copy are overwritten.
    """
    words = (end - start) >> 3
    for word in range(words):
        store8(buffer, at + 8 * word, load8_at(data, start + 8 * word))
    rest = start + 8 * words
    if rest < end:
        num_unreachable = max(0, rest + 8 - size)  # bytes that no load may reach
        store8(buffer, at + 8 * words, load8_at(data, rest - num_unreachable) >> np.uint64(8 * num_unreachable))
