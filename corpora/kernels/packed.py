"""Eight bytes at a time: unaligned loads and stores, and questions put to all bytes of a 64-bit word at once.

Promise: each function does to eight bytes what its plain meaning, given with it, does to each. The first byte in memory
is the lowest of the word (little end first, on every machine). `load8` and `store8` do not check that the buffer is
long enough: that is for the kernel that calls them; `load_tail` and `load_up_to` read no byte from `end` on.
`add_stripe` is the same for eight words at once, in the processor's vectors.

Cost: one machine instruction for a load, a store, a product or a count of zeros, and seven to twelve for a question;
compiled into the kernels that use them. They can be called from kernels only.

The arithmetic keeps every byte within its own eight bits: only seven bits of each are added to, so no sum carries over
into its neighbour (Warren, Hacker's Delight, chapter 6).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Bytes, Integer, UInt64s
from corpora.kernels.compiling import Instruction, kernel

if TYPE_CHECKING:
    from corpora.kernels import instructions  # noqa: F401  # what decides the kernels' code, too

ONES = np.uint64(0x0101010101010101)
LOW_SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
TOP_BITS = np.uint64(0x8080808080808080)
CASE_BITS = np.uint64(0x2020202020202020)


def from_byte(first: int) -> np.uint64:
    """Return a word to add to eight ASCII bytes (below 0x80), in order to compare all of them with the byte `first`.

    In the sum, the top bit of a byte is 1 if the byte was at least `first`.

    >>> int(from_byte(ord("0"))) == 0x5050505050505050
    True
    """
    return ONES * np.uint64(0x80 - first)


FROM_DIGIT, PAST_DIGIT = from_byte(ord("0")), from_byte(ord("9") + 1)
FROM_CAPITAL, PAST_CAPITAL = from_byte(ord("A")), from_byte(ord("Z") + 1)
FROM_SMALL, PAST_SMALL = from_byte(ord("a")), from_byte(ord("z") + 1)
_FROM_TAB, _PAST_RETURN = from_byte(9), from_byte(14)
_1, _TWO, _SEVEN, _ALL = np.uint64(1), np.uint64(2), np.uint64(7), np.uint64(0xFFFFFFFFFFFFFFFF)


# The eight bytes of a contiguous array from element `index` on: of an array of bytes its bytes index to index + 8,
# of one of uint16 its elements index to index + 4. No bound is checked.
load8: Callable[[npt.NDArray[Any], Integer], np.uint64] = Instruction("load8")
# The same of bytes that begin at an address: for kernels that read any number of arrays, which the caller keeps.
load8_at: Callable[[Integer, Integer], np.uint64] = Instruction("load8_at")
# The same eight bytes written: of an array of uint16 four elements, the first in the lowest 16 bits.
store8: Callable[[npt.NDArray[Any], Integer, np.uint64], None] = Instruction("store8")
# Counts the zero bits below the lowest one; 64 for 0. By 8 it is the number of the lowest byte flagged.
trailing_zeros: Callable[[np.uint64], int] = Instruction("trailing_zeros")
# A bit for each of 64 bytes from element `index` on, the first one lowest: is it one of 0-9, A-Z, a-z; is it equal to a
# byte; is it below one. No bound is checked.
word_bits: Callable[[npt.NDArray[Any], Integer], np.uint64] = Instruction("word_bits")
equal_bits: Callable[[npt.NDArray[Any], Integer, int], np.uint64] = Instruction("equal_bits")
below_bits: Callable[[npt.NDArray[Any], Integer, int], np.uint64] = Instruction("below_bits")
# The upper 64 bits of the product of two words, whose lower ones `*` has.
high_product: Callable[[np.uint64, np.uint64], np.uint64] = Instruction("high_product")
# Adds to each of eight words, lane i, what two stretches of 64 bytes have there: the upper half of the word of their
# exclusive or times its lower half, and the first stretch's word i ^ 1. No bound is checked.
add_stripe: Callable[[UInt64s, Bytes, Integer, Bytes, Integer], None] = Instruction("add_stripe")


@kernel
def load_tail(data: Bytes, index: Integer, end: Integer) -> np.uint64:
    """Load the bytes from `index` to `end` (exclusive), but at most eight, into a word. The first byte is the lowest.

    Missing bytes are zero.
    """
    word = np.uint64(0)
    for i in range(min(8, end - index)):
        word |= np.uint64(data[index + i]) << np.uint64(8 * i)
    return word


@kernel
def keep_bytes(word: np.uint64, num_bytes: int) -> np.uint64:
    """Keep the lowest `num_bytes` bytes of a word, and set the others to zero. `num_bytes` must not be negative."""
    if num_bytes >= 8:
        return word
    return word & ~(_ALL << np.uint64(num_bytes << 3))


@kernel
def load_up_to(data: Bytes, index: Integer, end: Integer) -> np.uint64:
    """Load eight bytes into a word, starting at `index`. The first byte is the lowest.

    Bytes from `end` on are not read and become zero.
    """
    if index + 8 <= end:
        return load8(data, index)
    return load_tail(data, index, end)


@kernel
def find_first_flag(flags: np.uint64) -> int:
    """Return the index of the first byte that is 0x80; 8 if there is none. All other bytes must be zero."""
    return trailing_zeros(flags) >> 3


@kernel
def mask_before(flags: np.uint64) -> np.uint64:
    """Return a word with 0xFF in all bytes before the first byte that is 0x80, and 0 in the others.

    At least one byte must be 0x80, and all other bytes must be zero.
    """
    return ((flags & (~flags + _1)) >> _SEVEN) - _1


@kernel
def flag_letters(word: np.uint64) -> np.uint64:
    """Return a word with 0x80 in each byte that is an ASCII letter, and 0 in the others."""
    small = word & LOW_SEVEN | CASE_BITS
    return (small + FROM_SMALL) & ~(small + PAST_SMALL) & ~word & TOP_BITS


@kernel
def flag_digits(word: np.uint64) -> np.uint64:
    """Return a word with 0x80 in each byte that is an ASCII digit, and 0 in the others."""
    seven = word & LOW_SEVEN
    return (seven + FROM_DIGIT) & ~(seven + PAST_DIGIT) & ~word & TOP_BITS


@kernel
def flag_spaces(word: np.uint64) -> np.uint64:
    """Return a word with 0x80 in each byte that is ASCII white space, and 0 in the others.

    White space is the space character and the characters from tab to carriage return.
    """
    seven = word & LOW_SEVEN
    space = ~((seven ^ CASE_BITS) + LOW_SEVEN)  # the bit of case is the space itself
    return (space | (seven + _FROM_TAB) & ~(seven + _PAST_RETURN)) & ~word & TOP_BITS


@kernel
def _flag_seven_bit_alphanumeric(word: np.uint64) -> np.uint64:
    """Set the top bit of each byte whose lower seven bits are an ASCII letter or digit.

    The other bits are arbitrary.
    """
    seven = word & LOW_SEVEN
    small = seven | CASE_BITS
    letter = (small + FROM_SMALL) & ~(small + PAST_SMALL)
    digit = (seven + FROM_DIGIT) & ~(seven + PAST_DIGIT)
    return letter | digit


@kernel
def flag_non_alphanumeric(word: np.uint64) -> np.uint64:
    """Return a word with 0x80 in each byte that is not an ASCII letter or digit, and 0 in the others.

    Bytes above 0x7F are never letters or digits, so they are flagged.
    """
    return (~_flag_seven_bit_alphanumeric(word) | word) & TOP_BITS


@kernel
def flag_ascii_marks(word: np.uint64) -> np.uint64:
    """Return a word with 0x80 in each byte that is ASCII but neither a letter nor a digit, and 0 in the others."""
    return ~(_flag_seven_bit_alphanumeric(word) | word) & TOP_BITS


@kernel
def flag_capitals(word: np.uint64) -> np.uint64:
    """Return a word with 0x20 in each byte that is one of A-Z, and 0 in the others.

    Setting this bit lowercases a letter.
    """
    seven = word & LOW_SEVEN
    capital = (seven + FROM_CAPITAL) & ~(seven + PAST_CAPITAL) & ~word & TOP_BITS
    return capital >> _TWO


@kernel
def lower_word(word: np.uint64) -> np.uint64:
    """Convert the ASCII letters in a word of eight bytes to lower case."""
    return word | flag_capitals(word)
