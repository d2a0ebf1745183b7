r"""Cleaning: text as its author meant it, in one form of Unicode, white space and case.

Promise: `clean` equals `clean_text` row by row; the definition is `clean_text`, which is ftfy 6 and a few
lines of our own. What comes out is NFC, without control characters, with `\n` as the only line break and
the space as the only other white space; no line begins or ends with a space, at most one blank line stands
between two lines, and nothing but text stands at either end. Case, NFC and classes of characters are those
of Python's Unicode tables.

ftfy repairs mojibake and HTML entities, takes terminal escapes and control characters out and Latin
ligatures apart (`FIXES`). Two of its fixes are off: curly quotes stay, for they are the author's;
full-width marks stay, for they are the ordinary punctuation of Chinese and Japanese.

Cost: ftfy reads 3 to 7 MB a second. `_lines_to_mend`, a kernel, finds the few lines it could change, and
only they become Python strings. In Cyrillic and Greek nearly every line can be mojibake of another, so such
text runs at ftfy's own speed.
"""
# ruff: noqa: RUF001, RUF002 - typographic marks are the subject here

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from ftfy import TextFixerConfig, fix_text
from ftfy.badness import BADNESS_RE
from ftfy.chardata import CONTROL_CHARS, LIGATURES

from corpora.errors import InputError
from corpora.kernels import kernel
from corpora.sentences import decode
from corpora.text.buffers import TextBuffers, text_buffers

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

FIXES = TextFixerConfig(uncurl_quotes=False, fix_character_width=False, normalization="NFC", explain=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanSettings:
    """How text is normalised after repair.

    profile: "cased" leaves it at that. "uncased" makes it lower-case (`str.lower`; accents stay: whether they
    are stripped is the tokenizer's affair, as in BERT). "roberta-brief" makes it lower-case, turns quotes,
    dashes, ellipses and full-width forms into ASCII and removes every character that is not a letter, a
    number, a mark, white space or one of . , ; : ! ? ' " ( ) -
    """

    profile: str = "cased"

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            choice = ", ".join(f'"{name}"' for name in PROFILES)
            raise InputError(f'clean.profile is "{self.profile}", which is no profile: use one of {choice}.')


# --- The definition ----------------------------------------------------------------------


def clean_text(text: str, settings: CleanSettings) -> str:
    r"""One document repaired and normalised.

    >>> clean_text("The Mona Lisa doesnâ€™t have\teyebrows. \r\n\r\n\r\nTrue.", CleanSettings())
    'The Mona Lisa doesn’t have eyebrows.\n\nTrue.'
    """
    mended = _mend(LINE_BREAK.sub("\n", text), FIXES)
    return tidy_text(PROFILES[settings.profile](mended))


LINE_BREAK = re.compile("\r\n|[\n\r\v\f\u2028\u2029]")
_SPACES = re.compile("[\t \xa0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
# Control characters, and four that are invisible and cut words in two: soft hyphen, zero width space, word
# joiner, byte order mark. The joiners of Persian and of emoji (U+200C, U+200D) and direction marks stay.
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u200b\u2060\ufeff]")


def _mend(text: str, fixes: TextFixerConfig) -> str:
    """ftfy line by line, the invisible characters out, and NFC again, for their neighbours may now join."""
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", fix_text(text, fixes)))


def tidy_text(text: str) -> str:
    """White space alone: one kind of line break and of space, none doubled, none at the ends."""
    text = _SPACES.sub(" ", LINE_BREAK.sub("\n", text))
    return re.sub("\n{3,}", "\n\n", re.sub(" ?\n ?", "\n", text)).strip(" \n")


def _lower(text: str) -> str:
    """Lower-case, in NFC: a small letter may have a precomposed form where its capital has none."""
    lower = text.lower()
    return lower if lower.isascii() else unicodedata.normalize("NFC", lower)


_PUNCTUATION = ".,;:!?'\"()-"  # as the inside of a character class, too
_SPECIAL_ASCII = {code: None for code in range(33, 127) if not re.match(f"[a-zA-Z0-9{_PUNCTUATION}]", chr(code))}
_STANDARD = {ord(mark): "'" for mark in "‘’‚‛′‵ʼ＇‹›`´"}
_STANDARD |= {ord(mark): '"' for mark in "“”„‟″‶«»＂「」『』"}
_STANDARD |= {ord(mark): "-" for mark in "‐‑‒–—―−－﹘﹣"}
_STANDARD |= {ord("…"): "...", ord("。"): ".", ord("、"): ","}
_STANDARD |= {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F) if code not in _STANDARD}
_SPECIAL = re.compile(f"[^\\w\\s{_PUNCTUATION}]|_")


def _brief(text: str) -> str:
    """Lower-case, standard punctuation, no special characters."""
    standard = _lower(text).translate(_STANDARD)
    if standard.isascii():
        return standard.translate(_SPECIAL_ASCII)
    kept = _SPECIAL.sub(lambda found: found[0] if unicodedata.category(found[0])[0] == "M" else "", standard)
    return _lower(kept)


PROFILES: dict[str, Callable[[str], str]] = {"cased": str, "uncased": _lower, "roberta-brief": _brief}


# --- The fast form, over columns ------------------------------------------------------------


def clean(texts: pa.Array, settings: CleanSettings) -> pa.Array:
    """A large_string column of documents repaired and normalised: `clean_text` of every row.

    Raises InputError for another type of column or for nulls (see `text_buffers`).
    """
    mended = _mend_lines(text_buffers(texts))
    if settings.profile != "cased":
        profile = PROFILES[settings.profile]
        column = pa.array([profile(text) for text in _column(mended).to_pylist()], pa.large_string())
        mended = text_buffers(column)
    return _column(TextBuffers(*_tidy(*mended)))


def _column(texts: TextBuffers) -> pa.Array:
    """The buffers as a large_string array; nothing is copied."""
    rows = len(texts.offsets) - 1
    return pa.LargeStringArray.from_buffers(rows, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data))


def _mend_lines(texts: TextBuffers) -> TextBuffers:
    """The column with `_mend` done to the lines it could change; line breaks and white space as they were."""
    rows, starts, ends, after_tag = _lines_to_mend(*texts, _line_flags())
    if not rows.size:
        return texts
    pieces: list[bytes | memoryview] = []
    grown = np.zeros(texts.offsets.size, np.int64)
    raw, copied = texts.data.data, int(texts.offsets[0])
    plain = FIXES._replace(unescape_html=False)
    for row, start, end, tag in np.stack((rows, starts, ends, after_tag), 1).tolist():
        # The line break is part of what ftfy looks at, and every kind of it is "\n" by then.
        broken = "\n" if end < texts.offsets[row + 1] else ""
        line = str(raw[start:end], "utf-8") + broken
        mended = _mend(line, plain if tag else FIXES).removesuffix("\n").encode()
        pieces += (raw[copied:start], mended)
        grown[row + 1] += len(mended) - (end - start)
        copied = end
    pieces.append(raw[copied : int(texts.offsets[-1])])
    data = np.frombuffer(b"".join(pieces), np.uint8)
    offsets = texts.offsets - texts.offsets[0] + np.cumsum(grown)
    offsets.flags.writeable = False  # as Arrow's own: kernels are compiled once
    return TextBuffers(data, offsets)


# What a code point means for the question whether ftfy could change a line.
_ALONE = 1  # its presence is enough: control, invisible, ligature, not NFC, able to join what precedes it
_FIRST = 2  # can be the first of two neighbours that look like mojibake
_SECOND = 4  # can be the second
_BEFORE_SPACE = 8  # Ã and Â before a space
_BEFORE_OTHER = 16  # Œ and œ before anything but an ASCII letter
_FLAGS_SIZE = 0x30000  # above, nothing is flagged: no letter there decomposes, joins or occurs in mojibake


@cache
def _line_flags() -> Bytes:
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
    flags[[code for code in range(_FLAGS_SIZE) if _INVISIBLE.match(chr(code))]] |= _ALONE
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
def _lines_to_mend(
    data: Bytes, offsets: Integers, flags: Bytes
) -> tuple[Integers, Integers, Integers, npt.NDArray[np.bool_]]:
    """The lines `_mend` could change: row, start, end, and whether an earlier line of the row holds a "<".

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
            at = end + _break_width(data, end, stop)
    rows, starts, ends = np.empty((3, len(found)), np.int64)
    after_tag = np.empty(len(found), np.bool_)
    for index, (row, start, end, tag) in enumerate(found):
        rows[index], starts[index], ends[index], after_tag[index] = row, start, end, tag
    return rows, starts, ends, after_tag


@kernel
def _break_width(data: Bytes, at: int, stop: int) -> int:
    """The bytes of the line break at `at`: LF, VT, FF, CR, CR LF, U+2028, U+2029; 0 where there is none."""
    if at >= stop:
        return 0
    byte = data[at]
    if byte == 13 and at + 1 < stop and data[at + 1] == 10:
        return 2
    if 10 <= byte <= 13:
        return 1
    return 3 if byte == 0xE2 and data[at + 1] == 0x80 and data[at + 2] & 0xFE == 0xA8 else 0


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
        if _break_width(data, at, stop):
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


@kernel
def _space_width(data: Bytes, at: int) -> int:
    """The bytes of the space at `at`: tab, space and the spaces of Unicode; 0 where there is none."""
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
def _tidy(data: Bytes, offsets: Integers) -> tuple[Bytes, Integers]:
    """The twin of `tidy_text` over a column: new bytes and new offsets, which begin at 0."""
    out = np.empty(offsets[-1] - offsets[0], np.uint8)
    ends = np.zeros(offsets.size, np.int64)
    size = 0
    for row in range(offsets.size - 1):
        size = _tidy_row(data, offsets[row], offsets[row + 1], out, size)
        ends[row + 1] = size
    return out[:size], ends


@kernel
def _tidy_row(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> int:
    """One row, written behind the first `size` bytes of `out`; returns the new size."""
    begin, newlines, spaces = size, 0, 0
    while at < stop:
        byte = data[at]
        plain = 32 < byte < 0x7F
        if not plain:
            width = _break_width(data, at, stop)
            newlines += width > 0
            if width == 0:
                width = _space_width(data, at)
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
