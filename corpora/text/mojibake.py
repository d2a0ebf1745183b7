"""Finds the lines that ftfy could change: a filter in front of a repair that reads 3 to 7 MB a second.

Promise: every line that ftfy, or the normalization after it, would change is found, and occasionally one that they
would not. What is asked of each character and of each two neighbors follows from ftfy's own pattern of bad sequences
and from the Unicode tables (`read_line_signs`), so it moves with their versions. Cost: one pass over the bytes, 1 GB a
second on English books; tables of 400 kB, made in 0.15 s and kept on disk.
"""

import re
import unicodedata
from functools import cache
from importlib.metadata import version
from itertools import chain, pairwise, product
from typing import NamedTuple

import numpy as np
from ftfy.badness import BADNESS_RE
from ftfy.chardata import CONTROL_CHARS, LIGATURES, WIDTH_MAP

from corpora.kernels.array_cache import read_or_make_arrays
from corpora.kernels.arrays import Bools, Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.packed import LOW_SEVEN, ONES, TOP_BITS, find_first_flag, from_byte, load8
from corpora.kernels.utf8 import decode
from corpora.text.whitespace import INVISIBLE, measure_break

# What a code point means for the question whether ftfy could change a line.
_ALONE = 1  # its presence is enough: control, invisible, ligature
_JOINER = 2  # not NFC, or able to join what precedes it
_BAD_BEFORE_SPACE = 8  # Ã and Â before a space
_BAD_BEFORE_OTHER = 16  # Œ and œ before anything but an ASCII letter
# Why a line is suspected: for two neighbors, which ftfy's pattern of bad sequences decides; for a mark, which NFC
# decides; for a character, which is enough; for an entity.
PAIRED, JOINED, SIGNED, ESCAPED = 1, 2, 4, 8
_FLAGS_SIZE = 0x30000  # above, nothing is flagged: no letter there decomposes, joins or occurs in mojibake
_ELEMENT = re.compile(r"\[\^?(?:\\.|[^\]\\])*\]|\\.|[^\s|]|\|")  # of a verbose pattern: a class, an escape, a character
_PLAIN = re.compile(r"\[(?!\^)(?:\\.|[^\]\\])*\]|[^\x00-\x7f]")  # an element that lists its characters
_FROM_SPACE, _FROM_DELETE = from_byte(32), from_byte(0x7F)
_AMPERSANDS, _TAGS = ONES * np.uint64(ord("&")), ONES * np.uint64(ord("<"))


class Signs(NamedTuple):
    """Lookup tables for finding the lines that ftfy may change.

    flags:   uint8, bit flags (the constants above) of each code point below 0x30000
    classes: uint8, class of each of these code points, or 0 if it is not part of any pair
    pairs:   uint8 matrix: 1 if a character of the first class followed by one of the second may be mojibake
    """

    flags: Bytes
    classes: Bytes
    pairs: Bytes


@cache
def read_line_signs(narrow: bool = False) -> Signs:
    """Return lookup tables derived from ftfy's own pattern and from Unicode. They are cached in memory and on disk.

    ftfy tries another encoding only if its pattern of bad sequences matches. Each alternative of this pattern needs a
    C1 control character, "Ã" or "Â" before a space, "Œ" or "œ" before anything but an ASCII letter, or a specific pair
    of non-ASCII neighbors (`find_bad_pairs`).

    Args:
        narrow: True if ftfy also changes full-width forms.
    """
    name = f"line signs {narrow}, ftfy {version('ftfy')}, Unicode {unicodedata.unidata_version}"
    return Signs(**read_or_make_arrays(name, __file__, lambda: _build_line_signs(narrow)._asdict()))


def _build_line_signs(narrow: bool) -> Signs:
    flags = np.zeros(_FLAGS_SIZE, np.uint8)
    flags[[ord("Ã"), ord("Â")]] |= _BAD_BEFORE_SPACE
    flags[[ord("Œ"), ord("œ")]] |= _BAD_BEFORE_OTHER
    flags[[code for code in chain(CONTROL_CHARS, LIGATURES) if code < _FLAGS_SIZE]] |= _ALONE
    flags[[code for code in _find_joining() if code < _FLAGS_SIZE]] |= _JOINER
    flags[[code for code in range(_FLAGS_SIZE) if INVISIBLE.match(chr(code))]] |= _ALONE
    flags[[*WIDTH_MAP] if narrow else []] |= _ALONE
    wanted = find_bad_pairs(BADNESS_RE.pattern)
    members = sorted({code for pair in wanted for side in pair for code in side})
    kinds = {code: tuple((code in first, code in second) for first, second in wanted) for code in members}
    numbers = {kind: number for number, kind in enumerate(sorted(set(kinds.values())), 1)}
    classes, pairs = np.zeros(_FLAGS_SIZE, np.uint8), np.zeros((len(numbers) + 1, len(numbers) + 1), np.uint8)
    for code, kind in kinds.items():
        classes[code] = numbers[kind]
    for (left, before), (right, after) in product(numbers.items(), repeat=2):
        pairs[before, after] = any(first and second for (first, _), (_, second) in zip(left, right, strict=True))
    assert len(numbers) < 256
    return Signs(flags, classes, pairs)


def find_bad_pairs(pattern: str) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Find the pairs of neighboring non-ASCII characters without which ftfy's pattern of bad sequences cannot match.

    Args:
        pattern: The source of ftfy's pattern, a verbose regular expression.

    Returns:
        For each alternative of the pattern that lists such neighbors, two sets of code points: the pair of neighbors
            with the fewest combinations.

    >>> [["".join(map(chr, side)) for side in pair] for pair in find_bad_pairs("[a-z] Ã [©±] | вЂ")][1]
    ['в', 'Ђ']
    """
    alternatives: list[list[frozenset[int]]] = [[]]
    for element in _ELEMENT.findall(re.sub("#[^\n]*", "", pattern)):
        if element == "|":
            alternatives.append([])
        else:
            alternatives[-1].append(_list_characters(element) if _PLAIN.fullmatch(element) else frozenset())
    pairs = [[pair for pair in pairwise(alternative) if all(pair)] for alternative in alternatives]
    return [min(reversed(each), key=lambda pair: len(pair[0]) * len(pair[1])) for each in pairs if each]


def _list_characters(element: str) -> frozenset[int]:
    """Return the non-ASCII code points in an element of a pattern: a character class or a single character."""
    spans = re.findall("([^\0-\x7f])-([^\0-\x7f])", element)
    ranges = chain.from_iterable(range(ord(low), ord(high) + 1) for low, high in spans)
    escaped = (int(code, 16) for code in re.findall(r"\\x([0-9a-f]{2})", element))
    return frozenset(code for code in chain(map(ord, element), ranges, escaped) if code > 0x7F)


def _find_joining() -> set[int]:
    """Return the code points that are not in NFC by themselves, or may combine or change places with preceding ones."""
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
def find_suspect_lines(
    data: Bytes, offsets: Int64s, flags: Bytes, classes: Bytes, pairs: Bytes
) -> tuple[Int64s, Int64s, Int64s, Bools, Bytes]:
    """Find the lines of a column that repair might change.

    A "<" disables the replacement of HTML entities in its own line and the rest of the document.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [n + 1], the first byte of each row in `data`.
        flags, classes, pairs: Lookup tables, the fields of `Signs`.

    Returns:
        Five arrays with an entry for each line that is found: its row, its first byte in `data`, the byte after it,
        whether an earlier line of the row holds a "<", and why it is suspect (a sum of PAIRED, JOINED, SIGNED and
        ESCAPED).
    """
    suspects = [(0, 0, 0, False, 0) for _ in range(0)]
    for row in range(offsets.size - 1):
        at, stop, tag = offsets[row], offsets[row + 1], False
        while at < stop:
            end, suspect, tagged = _inspect_line(data, at, stop, flags, classes, pairs)
            if suspect:
                suspects.append((row, at, end, tag, suspect))
            tag = tag or tagged
            at = end + measure_break(data, end, stop)
    rows, starts, ends = np.empty((3, len(suspects)), np.int64)
    after_tag, signs = np.empty(len(suspects), np.bool_), np.empty(len(suspects), np.uint8)
    for index, (row, start, end, tag, suspect) in enumerate(suspects):
        rows[index], starts[index], ends[index] = row, start, end
        after_tag[index], signs[index] = tag, suspect
    return rows, starts, ends, after_tag, signs


@kernel
def _flag_not_plain(word: np.uint64) -> np.uint64:
    """Return a word with 0x80 in each byte that is not printable ASCII, or is "&" or "<", and 0 in the others."""
    seven = word & LOW_SEVEN
    marks = ~((seven ^ _AMPERSANDS) + LOW_SEVEN) | ~((seven ^ _TAGS) + LOW_SEVEN)
    return (word | ~(seven + _FROM_SPACE) | (seven + _FROM_DELETE) | marks) & TOP_BITS


@kernel
def _inspect_line(data: Bytes, at: int, stop: int, flags: Bytes, classes: Bytes, pairs: Bytes) -> tuple[int, int, bool]:
    """Inspect the line at byte `at` for anything that ftfy might change.

    Args:
        data: UTF-8 bytes of all rows.
        at: First byte of the line.
        stop: End of the row in `data`.
        flags, classes, pairs: Lookup tables, the fields of `Signs`.

    Returns:
        The byte after the line, without its line break; why it is suspect (a sum of PAIRED, JOINED, SIGNED and ESCAPED,
        or 0); and True if it contains "<".
    """
    suspect, tagged = 0, False
    before, kind = 0, 0  # the flags and the class of the character before this one
    while at < stop:
        byte = data[at]
        if byte < 0x80 and before == 0:
            plain = find_first_flag(_flag_not_plain(load8(data, at))) if at + 8 <= stop else 0
            if plain > 0 or (32 < byte < 0x7F and byte != 38 and byte != 60):  # most text
                kind = 0
                at += max(1, plain)
                continue
        if 0xC3 <= byte < 0xE0:  # letters of most alphabets
            code, width = (int(byte) & 0x1F) << 6 | int(data[at + 1]) & 0x3F, 2
        elif measure_break(data, at, stop):
            break
        else:
            code, width = decode(data, at)
        now, class_now = (int(flags[code]), int(classes[code])) if code < flags.size else (0, 0)
        letter = code < 0x80 and 97 <= (code | 32) <= 122
        if (
            (kind > 0 and pairs[kind, class_now] != 0)
            or (before & _BAD_BEFORE_SPACE != 0 and code == 32)
            or (before & _BAD_BEFORE_OTHER != 0 and not letter)
        ):
            suspect |= PAIRED
        suspect |= (SIGNED if now & _ALONE != 0 else 0) | (JOINED if now & _JOINER != 0 else 0)
        if code == 38 and at + 1 < stop:
            following = data[at + 1]
            if following == 35 or 48 <= following <= 57 or 97 <= (following | 32) <= 122:
                suspect |= ESCAPED
        tagged = tagged or code == 60
        before, kind = now, class_now
        at += width
    return at, suspect | (PAIRED if before & _BAD_BEFORE_OTHER != 0 else 0), tagged
