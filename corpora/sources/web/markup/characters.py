"""Characters of a page as kernels read them: white space, and references ("&amp;", "&#233;").

Promises: where `read_reference` is sure, it reads what `html.unescape` makes of the reference; of others, which are
rare (names without ";", of long names, of controls and of what is none), it says that it is not.
Costs: 20 ns each.
"""

from html.entities import html5, name2codepoint

import numpy as np

from corpora.kernels.arrays import Bytes
from corpora.kernels.compiling import kernel

LONGEST = 8  # bytes of a name that is looked up as one number
_NAMED = sorted(
    (int.from_bytes(name.encode(), "little"), ord(html5[f"{name};"])) for name in name2codepoint if len(name) <= LONGEST
)
_NAMES, _CODES = np.array([name for name, _ in _NAMED], np.uint64), np.array([code for _, code in _NAMED], np.int64)
_AMPERSAND, _NUMBER, _SEMICOLON, _LESS, _X, _A = (ord(each) for each in "&#;<xa")
_ENDS = np.array([chr(each) in "\t\n\f <&" for each in range(256)])  # after a "&" that is itself
MOST_DIGITS = 7


@kernel
def space_width(data: Bytes, at: int) -> int:
    """The bytes of the character at `at` if `str.isspace` holds for it, else 0."""
    byte = data[at]
    if byte < 0x80:
        return int(byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31)
    if byte == 0xC2:
        return 2 if data[at + 1] == 0x85 or data[at + 1] == 0xA0 else 0
    if byte < 0xE1 or byte > 0xE3:
        return 0
    rest = int(data[at + 1]) << 8 | int(data[at + 2])
    if byte == 0xE2:
        return 3 if 0x8080 <= rest <= 0x808A or rest in (0x80A8, 0x80A9, 0x80AF, 0x819F) else 0
    return 3 if (rest == 0x9A80 and byte == 0xE1) or (rest == 0x8080 and byte == 0xE3) else 0


@kernel
def pass_spaces(data: Bytes, at: int, stop: int) -> int:
    """The end of white space."""
    width = 1
    while at < stop and width > 0:
        width = space_width(data, at)
        at += width
    return at


@kernel
def read_reference(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """(the character that the "&" at `at` begins a reference to, the bytes of that); (-1, 1) where it is not sure."""
    if at + 1 == stop or _ENDS[data[at + 1]]:
        return _AMPERSAND, 1
    if data[at + 1] == _NUMBER:
        return _read_number(data, at, stop)
    name, end = np.uint64(0), at + 1
    while end < min(stop, at + 1 + LONGEST) and data[end] != _SEMICOLON:
        name |= np.uint64(data[end]) << np.uint64(8 * (end - at - 1))
        end += 1
    if end == stop or data[end] != _SEMICOLON:
        return -1, 1
    low, high = 0, len(_NAMES) - 1
    while low < high:
        middle = (low + high) >> 1
        if _NAMES[middle] < name:
            low = middle + 1
        else:
            high = middle
    return (int(_CODES[low]), end + 1 - at) if _NAMES[low] == name else (-1, 1)


@kernel
def _read_number(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """`read_reference` of a number."""
    end, base, code = at + 2, 10, 0
    if end < stop and data[end] | 32 == _X:
        end, base = end + 1, 16
    first = end
    while end < min(stop, first + MOST_DIGITS + 1):
        byte = data[end]
        digit = byte - 48 if byte < 58 else (byte | 32) - _A + 10 if byte >= 65 else 16
        if digit < 0 or digit >= base:
            break
        end, code = end + 1, code * base + digit
    is_sure = 0x20 <= code < 0x7F or 0xA0 <= code < 0xD800 or 0xE000 <= code < 0xFDD0
    if not is_sure or end == first or end > first + MOST_DIGITS:
        return -1, 1
    return code, end - at + int(end < stop and data[end] == _SEMICOLON)


@kernel
def write_character(text: Bytes, at: int, code: int) -> int:
    """Write a character of the BMP from U+0080 on in UTF-8; returns its bytes."""
    if code < 0x800:
        text[at], text[at + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
        return 2
    text[at], text[at + 1], text[at + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
    return 3
