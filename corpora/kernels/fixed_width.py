"""Columns of binary values of one width, such as ids and digests, as numpy arrays, and back.

Cost: no bytes are copied, except by `to_number_pairs` and `from_number_pairs`.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bytes, UInt64s


def to_byte_matrix(column: pa.Array) -> Bytes:
    """Return the bytes of a column of fixed width, without a copy: uint8 [n, width].

    Bytes under a null are arbitrary.
    """
    width = column.type.byte_width
    stored = np.frombuffer(column.buffers()[1] or b"", np.uint8, width * len(column), width * column.offset)
    return stored.reshape(-1, width)


def to_fixed_width_column(data: Any, width: int) -> pa.Array:
    """Return bytes one after another as a column of `width` bytes per row.

    Bytes after the last whole row are ignored.
    """
    buffer = pa.py_buffer(data)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), buffer.size // width, [None, buffer])


def to_number_pairs(column: pa.Array) -> UInt64s:
    """Return a column of 16 bytes as pairs of numbers, which sort as the bytes do: uint64 [n, 2]."""
    return to_byte_matrix(column).view(">u8").astype(np.uint64)


def from_number_pairs(pairs: UInt64s) -> pa.Array:
    """Return the column of 16 bytes that `to_number_pairs` made pairs of: uint64 [n, 2]."""
    return to_fixed_width_column(pairs.astype(">u8").data.cast("B") if len(pairs) else b"", 16)
