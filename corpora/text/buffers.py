"""Text columns as plain buffers: the form in which kernels read them.

Promise: no column is copied. Cost: none beyond two numpy views.
"""

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Int64s

Number = TypeVar("Number", bound=np.generic)


class TextBuffers(NamedTuple):
    """UTF-8 bytes of a text column and where each row begins; read-only, for they are Arrow's own.

    data:    uint8, the bytes of all rows one after another
    offsets: int64, n + 1 entries; row i is data[offsets[i]:offsets[i + 1]]
    """

    data: Bytes
    offsets: Int64s


def text_buffers(column: pa.Array) -> TextBuffers:
    """The buffers of a large_string or large_binary array without nulls (slices welcome).

    Raises InputError for another type or for a column with nulls.
    """
    if column.type not in (pa.large_string(), pa.large_binary()):
        raise InputError(f"A text column must be large_string or large_binary, not {column.type}: cast it first.")
    if column.null_count:
        raise InputError(f"A text column must have no nulls, not {column.null_count}: fill or drop them first.")
    _, offsets, data = column.buffers()
    # Arrow allows a column without rows to have no offsets at all; a kernel still reads the first one.
    starts = np.frombuffer(offsets or bytes(8), np.int64)[column.offset : column.offset + len(column) + 1]
    buffers = TextBuffers(np.frombuffer(data or b"", np.uint8), starts)
    # Columns read from files are read-only already: with all of them so, each kernel is compiled once.
    for array in buffers:
        array.flags.writeable = False
    return buffers


def read_only(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The same numbers, in one piece and read-only as Arrow's are, so that each kernel is compiled once."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
