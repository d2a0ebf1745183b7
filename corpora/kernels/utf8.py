"""UTF-8 in kernels: code points read forwards, backwards and from a word of eight bytes, and written.

Promise: each reads valid UTF-8 and looks at no byte outside the character it is asked for. Cost: a few nanoseconds a
character.
"""

import numpy as np

from corpora.kernels.arrays import Bytes
from corpora.kernels.compiling import kernel

_6, _8, _12, _16, _18, _24 = (np.uint64(number) for number in (6, 8, 12, 16, 18, 24))
_SIX_BITS, _FOUR_BYTES = np.uint64(0x3F), np.uint64(0xFFFFFFFF)
_HIGH_1, _HIGH_2, _HIGH_3, _HIGH_4 = (np.uint64(number) for number in (0x80, 0xC0, 0xE0, 0xF0))


@kernel
def decode(data: Bytes, at: int) -> tuple[int, int]:
    """Decode the code point that begins at `data[at]`. Return the code point and its length in bytes.

    The data must be valid UTF-8.
    """
    first = int(data[at])
    if first < 0x80:
        return first, 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | int(data[at + 1]) & 0x3F, 2
    middle = (int(data[at + 1]) & 0x3F) << 6 | int(data[at + 2]) & 0x3F
    if first < 0xF0:
        return (first & 0x0F) << 12 | middle, 3
    return (first & 0x07) << 18 | middle << 6 | int(data[at + 3]) & 0x3F, 4


@kernel
def decode_word(word: np.uint64) -> tuple[int, int]:
    """Decode the code point at the beginning of a word. Return the code point and its length in bytes.

    The first byte is the lowest byte of the word. The word must be valid UTF-8.
    """
    four = int(word & _FOUR_BYTES)
    first, second, third, fourth = four & 0xFF, four >> 8 & 0x3F, four >> 16 & 0x3F, four >> 24 & 0x3F
    code, width = first, 1
    if first >= 0xF0:
        code, width = (first & 0x07) << 18 | second << 12 | third << 6 | fourth, 4
    elif first >= 0xE0:
        code, width = (first & 0x0F) << 12 | second << 6 | third, 3
    elif first >= 0x80:
        code, width = (first & 0x1F) << 6 | second, 2
    return code, width


@kernel
def find_start_before(data: Bytes, at: int) -> int:
    """Return the start index of the code point that ends before `data[at]`.

    The data must be valid UTF-8, and `at` must be greater than 0.
    """
    at -= 1
    while data[at] & 0xC0 == 0x80:
        at -= 1
    return at


@kernel
def encode(code: int) -> tuple[np.uint64, int]:
    """Encode a code point as UTF-8.

    Return a word that contains the bytes (the first is the lowest), and the number of bytes (1 to 4).
    """
    value = np.uint64(code)
    low = _HIGH_1 | (value & _SIX_BITS)
    if code < 0x80:
        return value, 1
    if code < 0x800:
        return _HIGH_2 | value >> _6 | low << _8, 2
    middle = _HIGH_1 | (value >> _6 & _SIX_BITS)
    if code < 0x10000:
        return _HIGH_3 | value >> _12 | middle << _8 | low << _16, 3
    upper = _HIGH_1 | (value >> _12 & _SIX_BITS)
    return _HIGH_4 | value >> _18 | upper << _8 | middle << _16 | low << _24, 4
