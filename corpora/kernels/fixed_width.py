"""Columns of binary values of one width, such as ids and digests, as numpy arrays, and back.

Cost: no bytes are copied, except by `number_pairs` and `column_of`.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bytes, UInt64s


def to_byte_matrix(column: pa.Array) -> Bytes:
    """The bytes of a column of fixed width: uint8 [n, width]."""
    width = column.type.byte_width
    stored = np.frombuffer(column.buffers()[1] or b"", np.uint8, width * len(column), width * column.offset)
    return stored.reshape(-1, width)


def to_fixed_width_column(data: Any, width: int) -> pa.Array:
    """Bytes one after another as a column whose rows have so many each."""
    buffer = pa.py_buffer(data)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), buffer.size // width, [None, buffer])


def to_number_pairs(column: pa.Array) -> UInt64s:
    """A column of 16 bytes as pairs of numbers, which have the order of the bytes: uint64 [n, 2]."""
    return to_byte_matrix(column).view(">u8").astype(np.uint64)


def from_number_pairs(pairs: UInt64s) -> pa.Array:
    """The column of 16 bytes that pairs of numbers stand for."""
    return to_fixed_width_column(pairs.astype(">u8").data.cast("B") if len(pairs) else b"", 16)
