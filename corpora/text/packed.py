"""Eight bytes at a time: unaligned loads and stores, and questions put to all bytes of a 64-bit word at once.

Promise: each function does to eight bytes what its plain meaning, told beside it, does to each. The first byte
in memory is the lowest of the word (little end first, on every machine). `load8` and `store8` do not ask where
the buffer ends: that is for the kernel that calls them; `tail8` reads no byte at or behind `end`.

Cost: one machine instruction for a load, a store or a count of zeros, and seven to twelve for a question; compiled
into the kernels that use them. They can be called from kernels only.

The arithmetic keeps every byte within its own eight bits: only seven bits of each are added to, so no sum carries
over into its neighbour (Warren, Hacker's Delight, chapter 6).
"""

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from corpora.kernels import kernel

Bytes: TypeAlias = npt.NDArray[np.uint8]

_WORD = ir.IntType(64)
_LOW_SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
_TOP_BITS = np.uint64(0x8080808080808080)
_CASE_BITS = np.uint64(0x2020202020202020)
# What lifts a byte of seven bits above 127 from the named character on: 0x80 less the character.
_FROM_0 = np.uint64(0x5050505050505050)
_BEHIND_9 = np.uint64(0x4646464646464646)
_FROM_UPPER_A = np.uint64(0x3F3F3F3F3F3F3F3F)
_BEHIND_UPPER_Z = np.uint64(0x2525252525252525)
_FROM_LOWER_A = np.uint64(0x1F1F1F1F1F1F1F1F)
_BEHIND_LOWER_Z = np.uint64(0x0505050505050505)
_TWO, _EIGHT, _ALL = np.uint64(2), np.uint64(8), np.uint64(0xFFFFFFFFFFFFFFFF)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Where element `index` of an array stands in memory, as the place of a 64-bit word."""
    start = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(start, [index]), _WORD.as_pointer())


def _in_order(builder: Any, word: Any) -> Any:
    """The word with its first byte in memory lowest."""
    return builder.bswap(word) if sys.byteorder == "big" else word


def _load8(typing_context: Any, data: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature.args[0], *arguments)
        return _in_order(builder, builder.load(place, align=1))

    return types.uint64(data, types.int64), generate


def _store8(typing_context: Any, data: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store(_in_order(builder, arguments[2]), place, align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


def _trailing_zeros(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


# The eight bytes of a contiguous array from element `index` on: of an array of bytes its bytes index to index + 8,
# of one of uint16 its elements index to index + 4. No bound is checked.
load8: Callable[[npt.NDArray[Any], int], np.uint64] = intrinsic(_load8)
# The same eight bytes written: of an array of uint16 four elements, the first in the lowest 16 bits.
store8: Callable[[npt.NDArray[Any], int, np.uint64], None] = intrinsic(_store8)
# How many zero bits stand below the lowest one; 64 for 0. By 8 it is the number of the lowest byte flagged.
trailing_zeros: Callable[[np.uint64], int] = intrinsic(_trailing_zeros)


@kernel
def tail8(data: Bytes, index: int, end: int) -> np.uint64:
    """The bytes from `index` to before `end`, eight at most, as `load8` has them; zeros stand for those that lack."""
    word = np.uint64(0)
    for i in range(min(8, end - index)):
        word |= np.uint64(data[index + i]) << np.uint64(8 * i)
    return word


@kernel
def keep_bytes(word: np.uint64, num_bytes: int) -> np.uint64:
    """The lowest `num_bytes` (0 or more) bytes of a word, the others zero."""
    if num_bytes >= 8:
        return word
    return word & ~(_ALL << np.uint64(num_bytes << 3))


@kernel
def not_alphanumeric(word: np.uint64) -> np.uint64:
    """0x80 in each byte that is not one of 0-9, A-Z, a-z: bytes of 128 and more are not."""
    seven = word & _LOW_SEVEN
    small = seven | _CASE_BITS
    letter = (small + _FROM_LOWER_A) & ~(small + _BEHIND_LOWER_Z)
    digit = (seven + _FROM_0) & ~(seven + _BEHIND_9)
    return (~(letter | digit) | word) & _TOP_BITS


@kernel
def capitals(word: np.uint64) -> np.uint64:
    """0x20 in each byte that is one of A-Z: the bit that makes it small."""
    seven = word & _LOW_SEVEN
    capital = (seven + _FROM_UPPER_A) & ~(seven + _BEHIND_UPPER_Z) & ~word & _TOP_BITS
    return capital >> _TWO


@kernel
def lowered(word: np.uint64) -> np.uint64:
    """The word with A-Z made small in each byte, and every other byte as it was."""
    return word | capitals(word)
