"""Columns of binary values of one width, such as ids and digests, as numpy arrays, and back.

Cost: no bytes are copied, except by `to_number_pairs` and `from_number_pairs`.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bytes, UInt64s


def to_byte_matrix(column: pa.Array) -> Bytes:
    """View a fixed-size binary column as uint8 [rows, width], without copying.

    The bytes of null values are arbitrary.
    """
    width = column.type.byte_width
    stored = np.frombuffer(column.buffers()[1] or b"", np.uint8, width * len(column), width * column.offset)
    return stored.reshape(-1, width)


def to_fixed_width_column(data: Any, width: int) -> pa.Array:
    """View a buffer as a fixed-size binary column with `width` bytes per row, without copying.

    Bytes after the last complete row are ignored.
    """
    buffer = pa.py_buffer(data)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), buffer.size // width, [None, buffer])


def to_number_pairs(column: pa.Array) -> UInt64s:
    """Convert a fixed-size binary column of width 16 to uint64 [rows, 2].

    The pairs have the same sort order as the bytes.
    """
    return to_byte_matrix(column).view(">u8").astype(np.uint64)


def from_number_pairs(pairs: UInt64s) -> pa.Array:
    """Convert uint64 [rows, 2] to a fixed-size binary column of width 16. This is the inverse of `to_number_pairs`."""
    return to_fixed_width_column(pairs.astype(">u8").data.cast("B") if len(pairs) else b"", 16)
