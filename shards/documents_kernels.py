"""The kernels that take the documents of a shard from record batches and put them in order.

Promise: rows of lists are copied as they are; a bit becomes a byte. Cost: of numbers that of copying memory, of bits
a nanosecond each.
"""

from typing import Any

from corpora.kernels.arrays import Bytes, Int64s, copy_values
from corpora.kernels.compiling import kernel


@kernel
def copy_lists(values: Any, offsets: Int64s, rows: Int64s, places: Int64s, copied: Any) -> None:
    """Put the lists of some rows at their places. offsets: [rows of the column + 1], into values"""
    for number in range(len(rows)):
        first, last = offsets[rows[number]], offsets[rows[number] + 1]
        place = places[number]
        copy_values(values[first:last], copied[place : place + last - first])


@kernel
def copy_bits(bits: Bytes, skipped: int, offsets: Int64s, rows: Int64s, places: Int64s, copied: Bytes) -> None:
    """Put the lists of bits of some rows at their places, a byte each. skipped: bits before the first value"""
    for number in range(len(rows)):
        first, last = skipped + offsets[rows[number]], skipped + offsets[rows[number] + 1]
        shift = places[number] - first
        for bit in range(first, last):
            copied[bit + shift] = (bits[bit >> 3] >> (bit & 7)) & 1
