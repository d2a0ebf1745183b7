"""The types of numpy arrays and numbers that functions take and give, each named once.

>>> def total(lengths: Int64s) -> int:
...     return int(lengths.sum())
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

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
