"""White space, and characters that show nothing: what they are, and text made tidy.

Promise: `tidy` gives for every row of a column what `tidy_text` gives for one text: one kind of line break
and of space, none doubled, at most one blank line, none of them at the ends.
Cost: one pass over the bytes, eight at once of most text, and a copy of them: 1 GB a second of English.
"""

import re

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import CASE_BITS, LOW_SEVEN, ONES, TOP_BITS, find_first_flag, from_byte, load8, store8
from corpora.kernels.utf8 import decode

LINE_BREAK = re.compile("\r\n|[\n\r\v\f\u2028\u2029]")
_SPACES = re.compile("[\t \xa0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
# Control characters, and four that are invisible and cut words in two: soft hyphen, zero width space, word
# joiner, byte order mark. The joiners of Persian and of emoji (U+200C, U+200D) and direction marks stay.
INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u200b\u2060\ufeff]")

WORD_BYTES = 8  # bytes of a word
_FROM_SPACE, _FROM_DELETE = from_byte(32), from_byte(0x7F)
_1, _8 = np.uint64(1), np.uint64(8)
# The first bytes of spaces and line breaks beyond ASCII: C2, and E1 to E3, which are E0 in all bits but two.
_LEAD_2, _LEAD_3, _UP_TO_3 = (ONES * np.uint64(byte) for byte in (0xC2, 0xE0, 0xFC))


def tidy_text(text: str) -> str:
    """Normalize white space: unify line breaks and spaces, collapse repeated ones, and trim both ends.

    Line breaks become newlines, of which at most two are kept in a row; other white space becomes single spaces.
    """
    text = _SPACES.sub(" ", LINE_BREAK.sub("\n", text))
    return re.sub("\n{3,}", "\n\n", re.sub(" ?\n ?", "\n", text)).strip(" \n")


@kernel
def measure_break(data: Bytes, at: int, stop: int) -> int:
    """Return the width in bytes of the line break at byte `at`, or 0 if there is none or `at` is not before `stop`.

    Line breaks are LF, VT, FF, CR, CR LF, U+2028 and U+2029.
    """
    if at >= stop:
        return 0
    byte = data[at]
    if byte == 13 and at + 1 < stop and data[at + 1] == 10:
        return 2
    if 10 <= byte <= 13:
        return 1
    return 3 if byte == 0xE2 and data[at + 1] == 0x80 and data[at + 2] & 0xFE == 0xA8 else 0


@kernel
def _measure_space(data: Bytes, at: int) -> int:
    """Return the width in bytes of the space at `at` (tab, space or another Unicode space), or 0 if there is none."""
    byte = data[at]
    if byte == 32 or byte == 9:
        return 1
    if byte == 0xC2:
        return 2 if data[at + 1] == 0xA0 else 0
    if 0xE1 <= byte <= 0xE3:
        code, _ = decode(data, at)
        if code == 0x1680 or 0x2000 <= code <= 0x200A or code == 0x202F or code == 0x205F or code == 0x3000:
            return 3
    return 0


@kernel
def tidy(data: Bytes, offsets: Int64s) -> tuple[Bytes, Int64s]:
    """Normalize the white space of a column, as `tidy_text` does.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [n + 1], the first byte of each row in `data`.

    Returns:
        New bytes and new offsets, which start at 0.
    """
    out = np.empty(offsets[-1] - offsets[0] + WORD_BYTES, np.uint8)
    ends = np.zeros(offsets.size, np.int64)
    size = 0
    for row in range(offsets.size - 1):
        size = _tidy_row(data, offsets[row], offsets[row + 1], out, size)
        ends[row + 1] = size
    return out[:size], ends


@kernel
def _flag_equal(word: np.uint64, bytes_: np.uint64) -> np.uint64:
    """Return a word with 0x80 in each byte that is the same in both words, and 0 in the others."""
    differing = word ^ bytes_
    return ~(((differing & LOW_SEVEN) + LOW_SEVEN) | differing) & TOP_BITS


@kernel
def _count_plain_bytes(word: np.uint64) -> int:
    """Return how many of a word's eight bytes, from the first on, are text that needs no change.

    Text is printable ASCII, single spaces that are followed by more text, and the bytes of non-ASCII characters whose
    first byte cannot start a space or line break.
    """
    seven = word & LOW_SEVEN
    spaces = ~((seven ^ CASE_BITS) + LOW_SEVEN) & ~word & TOP_BITS  # the bit of case is the space itself
    other = (~(seven + _FROM_SPACE) | (seven + _FROM_DELETE)) & ~word & TOP_BITS
    other |= _flag_equal(word, _LEAD_2) | (_flag_equal(word & _UP_TO_3, _LEAD_3) & ~_flag_equal(word, _LEAD_3))
    num_bytes = find_first_flag(other | spaces & (spaces << _8))
    return num_bytes - int((spaces >> np.uint64(8 * num_bytes - 1)) & _1) if num_bytes else 0


@kernel
def _tidy_row(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> int:
    """Append the normalized text of data[at:stop] after the first `size` bytes of `out`. Return the new size.

    `out` needs room for the whole row and eight more bytes.
    """
    begin, newlines, spaces = size, 0, 0
    while at < stop:
        if newlines + spaces == 0 and size > begin and at + WORD_BYTES <= stop:
            word = load8(data, at)
            plain_bytes = _count_plain_bytes(word)
            if plain_bytes > 0:
                store8(out, size, word)
                at += plain_bytes
                size += plain_bytes
                continue
        byte = data[at]
        plain = 32 < byte < 0x7F
        if not plain:
            width = measure_break(data, at, stop)
            newlines += width > 0
            if width == 0:
                width = _measure_space(data, at)
                spaces += width
            if width > 0:
                at += width
                continue
        if newlines + spaces > 0:
            if size > begin:  # at least as many bytes were read as are written here
                out[size] = 10 if newlines else 32
                size += 1
                if newlines > 1:
                    out[size] = 10
                    size += 1
            newlines = spaces = 0
        out[size] = byte
        size += 1
        at += 1
    return size
