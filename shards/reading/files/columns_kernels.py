"""The kernels that gather rows of a split. Promise and cost: see `columns.py`.

Slices, because the compiler sees that an index cannot be negative: eight times as fast as places in the whole memory.
Rows are located first and then copied: where they lie comes from all over the memory, and many are waited for at
once.
"""

from typing import Any

import numpy as np

from corpora.kernels.arrays import Bytes, Int32s, Int64s, UInt16s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import store8

EXAMPLE_ID, BOUNDARY, LABEL = range(3)  # rows of `plain` below
FLAGS_ROOM = 8  # bytes after the flags of `copy_bits` that it may write to
_SPREAD, _BIT_OF_BYTE = np.uint64(0x0101010101010101), np.uint64(0x8040201008040201)
_LOW_SEVEN, _7, _8 = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(7), np.uint64(8)


@kernel
def find_lists(
    memory: Int32s,
    bounds: Int64s,
    counts: Int64s,
    starts: Int64s,
    examples: Int64s,
    batches: Int64s,
    firsts: Int64s,
    offsets: Int64s,
) -> int:
    """Fill the last three; return the first row whose list is not among its record batch's values, or -1.

    bounds: where the offsets of a record batch begin in the memory; counts: its values; starts: its first example
    """
    for row in range(len(examples)):
        low, size = 0, len(starts) - 1
        while size > 1:  # without branches: what is drawn at random cannot be guessed
            half = size >> 1
            low += half * (starts[low + half] <= examples[row])
            size -= half
        batches[row] = low
        place = bounds[low] + examples[row] - starts[low]
        firsts[row] = memory[place]
        offsets[row + 1] = memory[place + 1]
    offsets[0] = 0
    for row in range(len(examples)):
        first, end = firsts[row], offsets[row + 1]
        if not 0 <= first <= end <= counts[batches[row]]:
            return row
        offsets[row + 1] = offsets[row] + end - first
    return -1


@kernel
def copy_lists(
    memory: Any, values: Int64s, below: int, batches: Int64s, firsts: Int64s, offsets: Int64s, copied: Any
) -> int:
    """Fill `copied`; return the first place of a value that is not below a bound, or -1.

    values: where those of a record batch begin in the memory
    """
    for row in range(len(batches)):
        source, target = memory[values[batches[row]] + firsts[row] :], copied[offsets[row] : offsets[row + 1]]
        for place in range(len(target)):
            target[place] = source[place]
    highest = copied.dtype.type(0)  # first the highest, which vectors find at once
    for place in range(len(copied)):
        highest = max(highest, copied[place])
    if highest >= below:
        for place in range(len(copied)):
            if copied[place] >= below:
                return place
    return -1


@kernel
def copy_plain(
    words: UInt64s,
    halves: UInt16s,
    bytes: Bytes,
    plain: Int64s,
    starts: Int64s,
    examples: Int64s,
    batches: Int64s,
    offsets: Int64s,
    example_ids: UInt64s,
    boundary: Int64s,
    labels: Int64s,
) -> int:
    """Fill the last three; return the first row that ends before its boundary, or -1.

    The first three are the memory; `labels` are filled where there is room for them.
    """
    bad = -1
    for row in range(len(examples)):
        batch = batches[row]
        place = examples[row] - starts[batch]
        example_ids[row] = words[plain[EXAMPLE_ID, batch] + place]
        boundary[row] = halves[plain[BOUNDARY, batch] + place]
        if len(labels):
            labels[row] = bytes[plain[LABEL, batch] + place]
        if boundary[row] > offsets[row + 1] - offsets[row] and bad < 0:
            bad = row
    return bad


@kernel
def copy_bits(memory: Bytes, values: Int64s, batches: Int64s, firsts: Int64s, offsets: Int64s, flags: Bytes) -> None:
    """Fill `flags` with 0 and 1, eight at a time; bytes written past a row are overwritten by the next.

    In Arrow the first bit of a byte is its lowest.
    """
    for row in range(len(batches)):
        source, shift = memory[values[batches[row]] + (firsts[row] >> 3) :], np.uint64(firsts[row] & 7)
        length = offsets[row + 1] - offsets[row]
        for place in range(0, length, 8):
            pair = np.uint64(source[place >> 3])
            if np.int64(shift) + length - place > 8:
                pair |= np.uint64(source[(place >> 3) + 1]) << _8
            bits = pair >> shift & np.uint64(0xFF)
            chosen = (bits * _SPREAD) & _BIT_OF_BYTE
            store8(flags, offsets[row] + place, ((chosen + _LOW_SEVEN) >> _7 | chosen >> _7) & _SPREAD)
