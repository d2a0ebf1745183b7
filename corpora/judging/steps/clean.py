r"""Cleaning: text as its author meant it, in one form of Unicode, white space and case.

Promise: `clean` equals `clean_text` row by row; the definition is `clean_text`, which is ftfy 6 and a few
lines of our own. What comes out is NFC, without control characters, with `\n` as the only line break and
the space as the only other white space; no line begins or ends with a space, at most one blank line is
between two lines, and nothing but text is at either end. Only the profile "none" leaves texts as they come. Case, NFC
and classes of characters are those
of Python's Unicode tables.

ftfy repairs mojibake and HTML entities, takes terminal escapes and control characters out and Latin
ligatures apart (`build_fixer_config`). Two of its fixes are off unless they are asked for: curly quotes stay, for they
are the author's; full-width marks stay, for they are the ordinary punctuation of Chinese and Japanese. With both asked
for, what comes out is that of `ftfy.fix_text`, but for three things: every break of a line, vertical tabs and form
feeds included, is a line feed before ftfy sees it; characters that show nothing are taken out afterwards
(`INVISIBLE`), and white space is tidied. A line that needs to be read over 50 times is left as the repairs before have
made it, and counted (`corpora.text.repair`).

Cost: ftfy reads 3 to 7 MB a second. `find_suspect_lines`, a kernel, finds the few lines it could change, and
only they become Python strings; ftfy reads one of them only if its pattern of bad sequences or NFC says so: 80 to 125
times ftfy's speed on English novels, 40 on Cyrillic letters, 5 to 50 on text in ten other scripts and languages, 7 to
40 if each line has entities. Time is linear in the text whatever is in it.
"""
# ruff: noqa: RUF001, RUF002 - typographic marks are the subject here

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from ftfy import TextFixerConfig
from ftfy.badness import is_bad
from ftfy.fixes import unescape_html

from corpora.store.settings import check_choice, later_field
from corpora.text.buffers import TextBuffers, to_text_buffers
from corpora.text.mojibake import ESCAPED, JOINED, PAIRED, SIGNED, Signs, find_suspect_lines, read_line_signs
from corpora.text.normal_form import to_nfc
from corpora.text.repair import RepairedText, repair, replace_curly_quotes
from corpora.text.whitespace import INVISIBLE, LINE_BREAK, tidy, tidy_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanSettings:
    """Settings for normalizing text after repair.

    profile: how repaired texts are normalized. "cased" changes nothing more. "uncased" converts to lower case
        (`str.lower`; accents are kept, because stripping them is the tokenizer's task, as in BERT). "roberta-brief"
        converts to lower case, converts quotes, dashes, ellipses and full-width forms to ASCII, and removes all
        characters other than letters, numbers, marks, white space and . , ; : ! ? ' " ( ) -. "none" leaves texts as
        they are in their files, without any repair
    quotes: "kept", or "straight" to convert curly quotes to ' and ", as ftfy does
    widths: "kept", or "narrow" to convert full-width and half-width forms to ordinary characters, as ftfy does
    """

    profile: str = "cased"
    quotes: str = later_field(neutral="kept")
    widths: str = later_field(neutral="kept")

    def __post_init__(self) -> None:
        check_choice("clean.quotes", self.quotes, ("kept", "straight"))
        check_choice("clean.widths", self.widths, ("kept", "narrow"))
        check_choice("clean.profile", self.profile, (*PROFILES, NONE))


@cache
def build_fixer_config(settings: CleanSettings, unescape_html: bool | str = "auto") -> TextFixerConfig:
    """Build ftfy's options from the settings. `unescape_html` is ftfy's option of that name. The result is cached."""
    return TextFixerConfig(
        unescape_html=unescape_html,
        uncurl_quotes=settings.quotes == "straight",
        fix_character_width=settings.widths == "narrow",
        normalization="NFC",
        explain=False,
    )


def clean_text(text: str, settings: CleanSettings) -> str:
    r"""Repair and normalize one document: mojibake, HTML entities, control characters, Unicode form, case and white
    space.

    This is the reference implementation of `clean`, for tests.

    >>> clean_text("The Mona Lisa doesnâ€™t have\teyebrows. \r\n\r\n\r\nTrue.", CleanSettings())
    'The Mona Lisa doesn’t have eyebrows.\n\nTrue.'
    """
    if settings.profile == NONE:
        return text
    repaired = _repair_text(LINE_BREAK.sub("\n", text), build_fixer_config(settings))
    return tidy_text(PROFILES[settings.profile](repaired.text))


def _repair_text(text: str, config: TextFixerConfig) -> RepairedText:
    """Repair a text with ftfy line by line, remove invisible characters, and normalize it to NFC again."""
    repaired = repair(text, config)
    return repaired._replace(text=to_nfc(INVISIBLE.sub("", repaired.text)))


def _lower(text: str) -> str:
    """Convert a text to lower case and NFC.

    NFC may change because a lower-case letter can have a precomposed form that its capital lacks.
    """
    return to_nfc(text.lower())


_RETURN, _LINE_FEED = b"\r\n"
_PUNCTUATION = ".,;:!?'\"()-"  # as the inside of a character class, too
_SPECIAL_ASCII = {code: None for code in range(33, 127) if not re.match(f"[a-zA-Z0-9{_PUNCTUATION}]", chr(code))}
_STANDARD = {ord(mark): "'" for mark in "‘’‚‛′‵ʼ＇‹›`´"}
_STANDARD |= {ord(mark): '"' for mark in "“”„‟″‶«»＂「」『』"}
_STANDARD |= {ord(mark): "-" for mark in "‐‑‒–—―−－﹘﹣"}
_STANDARD |= {ord("…"): "...", ord("。"): ".", ord("、"): ","}
_STANDARD |= {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F) if code not in _STANDARD}
_SPECIAL = re.compile(f"[^\\w\\s{_PUNCTUATION}]|_")


def _to_brief(text: str) -> str:
    """Convert a text to the profile "roberta-brief": lower case and ASCII punctuation, without special characters."""
    standard = _lower(text).translate(_STANDARD)
    if standard.isascii():
        return standard.translate(_SPECIAL_ASCII)
    kept = _SPECIAL.sub(lambda match: match[0] if unicodedata.category(match[0])[0] == "M" else "", standard)
    return _lower(kept)


NONE = "none"  # the profile of a text that is left as it is
PROFILES: dict[str, Callable[[str], str]] = {"cased": str, "uncased": _lower, "roberta-brief": _to_brief}


def clean(texts: pa.Array, settings: CleanSettings) -> pa.Array:
    """Repair and normalize each row of a large_string column, as `clean_text` does.

    Raises:
        InputError: If the column has another type or nulls (see `to_text_buffers`).
    """
    return clean_and_count(texts, settings)[0]


def clean_and_count(texts: pa.Array, settings: CleanSettings) -> tuple[pa.Array, int]:
    """Clean a column like `clean`. Return the new column and the number of lines that were only partly repaired.

    Raises:
        InputError: If the column has another type or nulls.
    """
    if settings.profile == NONE:
        return texts, 0
    repaired, given_up = _repair_lines(to_text_buffers(texts), settings)
    if settings.quotes == "straight":  # a line that is not repaired holds nothing else that they could change
        repaired = TextBuffers(*replace_curly_quotes(*repaired))
    if settings.profile != "cased":
        profile = PROFILES[settings.profile]
        so_far = _to_column(repaired).to_pylist()
        column = pa.array([profile(LINE_BREAK.sub("\n", text)) for text in so_far], pa.large_string())
        repaired = to_text_buffers(column)
    return _to_column(TextBuffers(*tidy(*repaired))), given_up


def _to_column(texts: TextBuffers) -> pa.Array:
    """Return text buffers as a large_string array, without copying."""
    rows = len(texts.offsets) - 1
    return pa.LargeStringArray.from_buffers(rows, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data))


def _needs_repair(line: str, sign: int) -> bool:
    """Return True if a line contains mojibake or is not in NFC.

    `sign` says which of the two is checked: bit PAIRED for mojibake, and bit JOINED for NFC.
    """
    return bool((sign & PAIRED and is_bad(line)) or (sign & JOINED and not unicodedata.is_normalized("NFC", line)))


class _Suspect(NamedTuple):
    """A line that may need repair: its row, its byte range in the buffer, its text, and the reason (`sign`, bit flags).

    `has_tag_before` is True if an earlier line of the row contains "<", in which case HTML entities are not replaced.
    """

    row: int
    start: int
    end: int
    text: str
    has_tag_before: bool
    sign: int

    @property
    def unescaped(self) -> str:
        """The line with its HTML entities replaced, or unchanged if it or an earlier line of the row contains "<"."""
        return self.text if self.has_tag_before or "<" in self.text else unescape_html(self.text)


def _iter_suspects(texts: TextBuffers, signs: Signs) -> Iterator[_Suspect]:
    """Yield the lines of a column that repair might change, in order. `signs` is from `read_line_signs`."""
    raw = texts.data.data
    for row, start, end, tag, sign in np.stack(find_suspect_lines(*texts, *signs), 1).tolist():
        # The line break is part of what ftfy looks at, and every kind of it is "\n" by then.
        line_break = "\n" if end < texts.offsets[row + 1] else ""
        yield _Suspect(row, start, end, str(raw[start:end], "utf-8") + line_break, bool(tag), sign)


def _unescape_suspects(suspects: Sequence[_Suspect], signs: Signs) -> dict[int, str]:
    """Repair the lines that only need their HTML entities replaced.

    Each repaired line is checked again, and omitted if it still looks damaged.

    Args:
        suspects: The lines that repair might change.
        signs: Lookup tables from `read_line_signs`.

    Returns:
        The repaired lines by their index in `suspects`.
    """
    numbers = [number for number, each in enumerate(suspects) if each.sign & ESCAPED and not each.sign & SIGNED]
    lines = [suspects[number].unescaped for number in numbers]
    damaged = {
        each.row
        for each in _iter_suspects(to_text_buffers(pa.array(lines, pa.large_string())), signs)
        if each.sign & SIGNED
        or (each.sign & ESCAPED and unescape_html(each.text) != each.text)
        or _needs_repair(each.text, each.sign)
    }
    return {
        number: line
        for at, (number, line) in enumerate(zip(numbers, lines, strict=True))
        if at not in damaged and not LINE_BREAK.search(line.removesuffix("\n"))
    }


def _repair_lines(texts: TextBuffers, settings: CleanSettings) -> tuple[TextBuffers, int]:
    """Apply `_repair_text` to each line of a column that it might change in other ways than straightening quotes.

    Line breaks and white space stay unchanged.

    Args:
        texts: The column.
        settings: The settings of the clean step.

    Returns:
        The new buffers, and the number of lines that were only partly repaired.
    """
    signs = read_line_signs(settings.widths == "narrow")
    suspects = list(_iter_suspects(texts, signs))
    if not suspects:
        return texts, 0
    pieces: list[bytes | memoryview] = []
    grown, given_up = np.zeros(texts.offsets.size, np.int64), 0
    raw, copied = texts.data.data, int(texts.offsets[0])
    config, plain = build_fixer_config(settings), build_fixer_config(settings, unescape_html=False)
    unescaped = _unescape_suspects(suspects, signs)
    for number, (row, start, end, line, tag, sign) in enumerate(suspects):
        short = len(line) <= config.max_decode_length
        if short and not sign & (SIGNED | ESCAPED) and not _needs_repair(line, sign):
            continue
        repaired = (
            RepairedText(unescaped[number])
            if short and number in unescaped
            else _repair_text(line, plain if tag else config)
        )
        has_break = line.endswith("\n")
        line_bytes = repaired.text.removesuffix("\n").encode()
        if (
            not line_bytes
            and start > texts.offsets[row]
            and raw[start - 1] == _RETURN
            and has_break
            and raw[end] == _LINE_FEED
        ):
            line_bytes = b"\n"  # the line is empty, and the breaks around it are still two
        given_up += repaired.given_up
        pieces += (raw[copied:start], line_bytes)
        grown[row + 1] += len(line_bytes) - (end - start)
        copied = end
    pieces.append(raw[copied : int(texts.offsets[-1])])
    data = np.frombuffer(b"".join(pieces), np.uint8)
    offsets = texts.offsets - texts.offsets[0] + np.cumsum(grown)
    offsets.flags.writeable = False  # as Arrow's own: kernels are compiled once
    return TextBuffers(data, offsets), given_up
