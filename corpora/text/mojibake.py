"""Which lines ftfy could change: a gate before a repair that reads 3 to 7 MB a second.

Promise: every line that ftfy, or the normalisation behind it, would change is found, and now and then one that
they would not. What is asked of each character follows from ftfy's own pattern of bad sequences and from the
Unicode tables (`line_flags`), so it moves with their versions. Cost: one pass over the bytes, 300 MB a
second on English books; a table of 192 kB, made in 0.12 s, once a process.
"""
# ruff: noqa: RUF001, RUF002 - typographic marks are part of the subject here

import re
import unicodedata
from functools import cache
from itertools import chain

import numpy as np
import numpy.typing as npt
from ftfy.badness import BADNESS_RE
from ftfy.chardata import CONTROL_CHARS, LIGATURES

from corpora.kernels import kernel
from corpora.text.codepoints import Bytes, Integers, decode
from corpora.text.whitespace import INVISIBLE, break_width

# What a code point means for the question whether ftfy could change a line.
_ALONE = 1  # its presence is enough: control, invisible, ligature, not NFC, able to join what precedes it
_FIRST = 2  # can be the first of two neighbours that look like mojibake
_SECOND = 4  # can be the second
_BEFORE_SPACE = 8  # Ã and Â before a space
_BEFORE_OTHER = 16  # Œ and œ before anything but an ASCII letter
_FLAGS_SIZE = 0x30000  # above, nothing is flagged: no letter there decomposes, joins or occurs in mojibake


@cache
def line_flags() -> Bytes:
    """The flags of every code point below 0x30000, from ftfy's own pattern and the Unicode tables.

    ftfy tries another encoding only where its pattern of bad sequences is found. Each of its alternatives
    needs a C1 control, one of the two special cases above, or two neighbours beyond ASCII that both occur
    in the pattern, the first of them not a mark of the class "common" (no-break space, dashes, ’, …).
    """
    flags = np.zeros(_FLAGS_SIZE, np.uint8)
    pattern = BADNESS_RE.pattern
    spans = re.findall("([^\0-\x7f])-([^\0-\x7f])", pattern)
    ranges = chain.from_iterable(range(ord(low), ord(high) + 1) for low, high in spans)
    suspects = np.unique([code for code in chain(map(ord, pattern), ranges) if code > 0x7F])
    flags[suspects] |= _FIRST | _SECOND
    flags[[ord(mark) for mark in "\xa0\xad·´–—―…’"]] &= 0xFF ^ _FIRST
    flags[[ord("Ã"), ord("Â")]] |= _BEFORE_SPACE
    flags[[ord("Œ"), ord("œ")]] |= _BEFORE_OTHER
    flags[[code for code in chain(CONTROL_CHARS, LIGATURES, _joining()) if code < _FLAGS_SIZE]] |= _ALONE
    flags[[code for code in range(_FLAGS_SIZE) if INVISIBLE.match(chr(code))]] |= _ALONE
    return flags


def _joining() -> set[int]:
    """Code points that are not NFC alone, or that may combine with or move before what precedes them."""
    joining = {code for code in range(0xA0, _FLAGS_SIZE) if unicodedata.combining(chr(code))}
    joining |= {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}  # Hangul vowels and finals, joined by rule
    for code in chain(range(0xA0, 0xAC00), range(0xF900, _FLAGS_SIZE)):
        if decomposition := unicodedata.decomposition(chr(code)):
            if not unicodedata.is_normalized("NFC", chr(code)):
                joining.add(code)
            if not decomposition.startswith("<") and " " in decomposition:
                joining.add(int(decomposition.split()[1], 16))
    return joining


@kernel
def lines_to_mend(
    data: Bytes, offsets: Integers, flags: Bytes
) -> tuple[Integers, Integers, Integers, npt.NDArray[np.bool_]]:
    """The lines that repair could change: row, start, end, and whether an earlier line of the row holds a "<".

    A "<" switches the reading of HTML entities off for the rest of its document, its own line included.
    """
    found = [(0, 0, 0, False) for _ in range(0)]
    for row in range(offsets.size - 1):
        at, stop, tag = offsets[row], offsets[row + 1], False
        while at < stop:
            end, suspect, tagged = _look_at_line(data, at, stop, flags)
            if suspect:
                found.append((row, at, end, tag))
            tag = tag or tagged
            at = end + break_width(data, end, stop)
    rows, starts, ends = np.empty((3, len(found)), np.int64)
    after_tag = np.empty(len(found), np.bool_)
    for index, (row, start, end, tag) in enumerate(found):
        rows[index], starts[index], ends[index], after_tag[index] = row, start, end, tag
    return rows, starts, ends, after_tag


@kernel
def _look_at_line(data: Bytes, at: int, stop: int, flags: Bytes) -> tuple[int, bool, bool]:
    """Where the line from `at` on ends, whether ftfy could change it, and whether it holds a "<"."""
    suspect, tagged = False, False
    before = 0  # the flags of the character before this one
    while at < stop:
        byte = data[at]
        if 32 < byte < 0x7F and byte != 38 and byte != 60 and before == 0:  # most text
            at += 1
            continue
        if break_width(data, at, stop):
            break
        code, width = decode(data, at)
        now = int(flags[code]) if code < flags.size else 0
        letter = code < 0x80 and 97 <= (code | 32) <= 122
        suspect = (
            suspect
            or now & _ALONE != 0
            or (before & _FIRST != 0 and now & _SECOND != 0)
            or (before & _BEFORE_SPACE != 0 and code == 32)
            or (before & _BEFORE_OTHER != 0 and not letter)
        )
        if code == 38 and at + 1 < stop:
            following = data[at + 1]
            suspect = suspect or following == 35 or 48 <= following <= 57 or 97 <= (following | 32) <= 122
        tagged = tagged or code == 60
        before = now
        at += width
    return at, suspect or before & _BEFORE_OTHER != 0, tagged
