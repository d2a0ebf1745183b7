"""The types of numpy arrays and numbers that functions take and give, each named once; how a kernel copies one.

>>> def total(lengths: Int64s) -> int:
...     return int(lengths.sum())
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from corpora.kernels.compiling import kernel

Bytes: TypeAlias = npt.NDArray[np.uint8]
UInt16s: TypeAlias = npt.NDArray[np.uint16]
UInt32s: TypeAlias = npt.NDArray[np.uint32]
UInt64s: TypeAlias = npt.NDArray[np.uint64]
Int16s: TypeAlias = npt.NDArray[np.int16]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Float32s: TypeAlias = npt.NDArray[np.float32]
Float64s: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Ids: TypeAlias = UInt16s | UInt32s  # of tokens: two bytes each where the vocabulary has room in them
Integer: TypeAlias = int | np.int64  # a number in a kernel


@kernel
def copy_values(source: npt.NDArray[np.generic], target: npt.NDArray[np.generic]) -> None:
    """Copy all values of `source` to the beginning of `target`, which must be at least as long.

    The length is not checked. In a kernel, this is faster than `target[:] = source`, and it takes half a second less to
    compile, because numba otherwise adds code for overlapping arrays and for an error message.
    """
    for index in range(len(source)):
        target[index] = source[index]
