r"""Line rules: which lines are removed from a document before it is judged as a whole.

Promise: `edit_lines` equals `edit_text`, the definition, row by row. A line is removed by the first rule that it fails,
in the order of `LINE_RULES`. The remaining lines keep their order, and there is a blank line between two of them if
there was one before. A document without such a line is unchanged. If no rule is on, the column is returned without
copying. A document without remaining lines is an empty text. Lines that many documents of a source share (signatures,
notices) are recognized by their hashes: `hash_lines` computes the hashes of every document's lines, and `edit_lines`
takes the hashes of the lines to remove.

Cost: 4.8 ns a byte of novels with all rules of C4 on, 2.8 for the hashes, and a copy of the text. Two lines share a
hash by chance with probability 2**-64: among 10**8 different lines some two do in one case of 3,700.

Choices that the papers and the code leave open: words and lines are those of `corpora.text.counts.definition`. A line
ends in terminal punctuation if its last character is one of `LINE_ENDS`, three dots left out, as in C4's code. Its
phrases are sought without ASCII case. A citation is `[12]`, `[]`, `[edit]` or `[citation needed]`; the spaces before it
go, too, unless a letter or digit follows.

Source: Raffel et al. 2020 (C4), section 2.2, and the code that made C4.
"""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bytes, Int64s, UInt64s, copy_values
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import absorb, absorb_plain
from corpora.kernels.utf8 import decode, find_start_before
from corpora.store.settings import check_range
from corpora.text.buffers import to_text_buffers
from corpora.text.counts.words import compute_table_size

LINE_ENDS = ".?!\"'”’»。？！"
JAVASCRIPT = "javascript"
POLICIES = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")
LINE_RULES = (
    "lines.repeated",
    "lines.citations",  # lines that had one; they are kept without it
    "lines.terminal_punctuation",
    "lines.min_words",
    "lines.max_word_characters",
    "lines.javascript",
    "lines.policy",
)
_SPACES = "".join(map(chr, range(0x21)))
_MARKS = "".join(chr(code) for code in range(128) if not chr(code).isalnum())
_MARK = r"\[(?:\d*|edit|citation needed)\]"
_CITATION = re.compile(f" *{_MARK}(?=[{re.escape(_MARKS)}]|$)|{_MARK}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSettings:
    """The line rules of C4. All are off by default.

    terminal_punctuation: true removes lines that do not end in sentence punctuation or a closing quote
    min_words:            lines with fewer words are removed; C4 uses 5; 0: off
    max_word_characters:  lines that contain a longer word are removed; C4 uses 1,000; 0: off
    drop_javascript:      true removes lines that contain the word "javascript"
    drop_policy:          true removes lines that contain a phrase such as "terms of use" or "privacy policy"
    strip_citations:      true removes citation marks, as in Wikipedia, from lines
    """

    terminal_punctuation: bool = False
    min_words: int = 0
    max_word_characters: int = 0
    drop_javascript: bool = False
    drop_policy: bool = False
    strip_citations: bool = False

    def __post_init__(self) -> None:
        for name in ("min_words", "max_word_characters"):
            check_range(f"lines.{name}", getattr(self, name), 0, remedy=": use 0 (rule off) or more.")


# The definition, in plain Python.


def edit_text(text: str, settings: LineSettings, repeated: Collection[int] = ()) -> tuple[str, list[tuple[str, str]]]:
    r"""Remove the lines of one document that fail a rule.

    This is the reference implementation of `edit_lines`, for tests.

    Args:
        text: The document.
        settings: The line rules.
        repeated: Hashes of additional lines to remove, from `compute_line_hash`.

    Returns:
        The remaining text, and (rule, line) for each removed line. A line that only lost a citation is listed too.

    >>> edit_text("It rained.[1]\nWe use cookies.\n\nIt snowed.", LineSettings(drop_policy=True, strip_citations=True))
    ('It rained.\n\nIt snowed.', [('lines.citations', 'It rained.[1]'), ('lines.policy', 'We use cookies.')])
    """
    edited, gap = "", False
    removed: list[tuple[str, str]] = []
    for line in (line.strip(_SPACES) for line in text.split("\n")):
        gap = gap or not line
        if not line:
            continue
        if compute_line_hash(line) in repeated:
            removed.append(("lines.repeated", line))
            continue
        left = _CITATION.sub("", line).strip(_SPACES) if settings.strip_citations else line
        if left != line:
            removed.append(("lines.citations", line))
        rule = _find_line_rule(left, settings) if left else None
        if rule:
            removed.append((rule, line))
        elif left:
            edited += ("\n\n" if gap else "\n") * bool(edited) + left
            gap = False
    return (edited, removed) if removed else (text, removed)


def _find_line_rule(line: str, settings: LineSettings) -> str | None:
    """Return the name of the first rule that a trimmed line fails, such as "lines.min_words"; None if it passes all."""
    words, lower = [word for word in re.split("[\0- ]+", line) if word], line.encode().lower()
    most = max(map(len, words), default=0)
    if settings.terminal_punctuation and (not line.endswith(tuple(LINE_ENDS)) or line.endswith("...")):
        return "lines.terminal_punctuation"
    if len(words) < settings.min_words:
        return "lines.min_words"
    if 0 < settings.max_word_characters < most:
        return "lines.max_word_characters"
    if settings.drop_javascript and JAVASCRIPT.encode() in lower:
        return "lines.javascript"
    if settings.drop_policy and any(phrase.encode() in lower for phrase in POLICIES):
        return "lines.policy"
    return None


def compute_line_hash(line: str) -> int:
    """Compute the 64-bit hash of a line, ignoring surrounding white space and ASCII case.

    >>> compute_line_hash(" Sent from my phone") == compute_line_hash("SENT from my phone")
    True
    """
    data = line.strip(_SPACES).encode().lower()
    value = len(data)
    for chunk in (*(int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)), 0):
        value = absorb_plain(value, chunk)
    return value


# The same for a column.


class _LineRules(NamedTuple):
    """The line rules in the form that the kernels use."""

    terminal_punctuation: bool
    min_words: int
    max_word_characters: int
    drop_javascript: bool
    drop_policy: bool
    strip_citations: bool


def edit_lines(
    texts: pa.Array, settings: LineSettings, repeated: UInt64s | None = None
) -> tuple[pa.Array, dict[str, int]]:
    """Remove the lines that fail a rule from each row of a large_string column, as `edit_text` does.

    Args:
        texts: The documents, without nulls.
        settings: The line rules.
        repeated: Hashes of additional lines to remove, in ascending order.

    Returns:
        The new column (or `texts` itself if nothing was removed), and the number of lines found by each rule that found
        any.

    Raises:
        InputError: If the column has another type or nulls.
    """
    hashes = np.zeros(0, np.uint64) if repeated is None else repeated
    assert bool((hashes[1:] >= hashes[:-1]).all()), "the hashes of repeated lines must ascend"
    if settings == LineSettings() and not hashes.size:
        return texts, {}
    data, offsets = to_text_buffers(texts)
    rules = _LineRules(*(getattr(settings, name) for name in _LineRules._fields))
    counts = np.zeros(len(LINE_RULES), np.int64)
    out = np.empty(int(offsets[-1] - offsets[0]) + 8, np.uint8)
    ends = _edit_rows(data, offsets, rules, hashes, out, counts)
    removed = {rule: int(number) for rule, number in zip(LINE_RULES, counts, strict=True) if number}
    if not removed:
        return texts, removed
    kept = out[: ends[-1]].copy()
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(kept)), removed


def hash_lines(texts: pa.Array) -> tuple[UInt64s, Int64s]:
    """Hash the distinct lines of each row of a large_string column, in order of their first occurrence.

    Returns:
        The hashes of all rows (uint64), and n + 1 offsets for n rows (int64). Row i has the hashes
        hashes[offsets[i]:offsets[i + 1]].

    Raises:
        InputError: If the column has another type or nulls.
    """
    data, offsets = to_text_buffers(texts)
    most, total = _count_lines(data, offsets)
    hashes, starts = np.empty(total, np.uint64), np.zeros(len(texts) + 1, np.int64)
    _hash_rows(data, offsets, np.zeros(compute_table_size(most), np.int64), hashes, starts)
    return hashes[: starts[-1]].copy(), starts


_REPEATED, _CITATIONS, _TERMINAL, _MIN_WORDS, _MAX_CHARACTERS, _JAVASCRIPT, _POLICY = range(len(LINE_RULES))
_KEPT = -1
_ENDS = tuple(map(ord, LINE_ENDS))
_32, _NOTHING = np.uint64(32), np.uint64(0)


def _build_phrase_table(phrases: tuple[str, ...]) -> Bytes:
    """Build a uint8 matrix with one row for each ASCII phrase: its length, then its bytes, then zeros."""
    table = np.zeros((len(phrases), 1 + max(map(len, phrases))), np.uint8)
    for row, phrase in zip(table, phrases, strict=True):
        row[0] = len(phrase)
        row[1 : 1 + len(phrase)] = [*phrase.encode()]
    return table


_BRACKETED, _SCRIPTS, _PHRASES = (
    _build_phrase_table(("edit]", "citation needed]")),
    _build_phrase_table((JAVASCRIPT,)),
    _build_phrase_table(POLICIES),
)


@kernel
def _edit_rows(
    data: Bytes, offsets: Int64s, rules: _LineRules, repeated: UInt64s, out: Bytes, counts: Int64s
) -> Int64s:
    """Write the edited text of each row to `out`, one row after another.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [n + 1], the first byte of each row in `data`.
        rules: The line rules.
        repeated: uint64, hashes of additional lines to remove, in ascending order.
        out: Filled with the texts. It must be at least eight bytes longer than all rows together.
        counts: int64, one entry for each of LINE_RULES. The number of lines that the rule finds is added to it.

    Returns:
        int64 [n + 1], the first byte of each row in `out`.
    """
    ends = np.zeros(offsets.size, np.int64)
    size = 0
    for row in range(offsets.size - 1):
        at, stop, begin, gap, touched = offsets[row], offsets[row + 1], size, False, False
        while at < stop:
            start, end, at = find_next_line(data, at, stop)
            if start == end:
                gap = True
                continue
            place = size if size == begin else size + 1 + gap
            length, cited, rule = _edit_line(data, start, end, rules, repeated, out, place)
            counts[_CITATIONS] += cited
            touched |= cited or rule != _KEPT
            if rule != _KEPT:
                counts[rule] += 1
            elif length:
                out[size:place] = 10
                size, gap = place + length, False
        if not touched:
            copy_values(data[offsets[row] : stop], out[begin : begin + stop - offsets[row]])
            size = begin + stop - offsets[row]
        ends[row + 1] = size
    return ends


@kernel
def find_next_line(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Find the line at byte `at` of a row that ends at byte `stop`.

    Return the first byte of the line and the byte after it, without surrounding white space, and the first byte of the
    next line.
    """
    end = at
    while end < stop and data[end] != 10:
        end += 1
    behind = end + 1
    while at < end and data[at] <= 32:
        at += 1
    while at < end and data[end - 1] <= 32:
        end -= 1
    return at, end, behind


@kernel
def _edit_line(
    data: Bytes, start: int, end: int, rules: _LineRules, repeated: UInt64s, out: Bytes, place: int
) -> tuple[int, bool, int]:
    """Write the line data[start:end] to `out`, starting at index `place`. Citations are removed if the rules say so.

    Args:
        data: UTF-8 bytes of all rows.
        start: First byte of the line.
        end: Byte after the line.
        rules: The line rules.
        repeated: uint64, hashes of additional lines to remove, in ascending order.
        out: The output.
        place: Index in `out`.

    Returns:
        The new length of the line, True if it had citations, and the index in LINE_RULES of the rule that it fails
        (_KEPT if there is none).
    """
    if repeated.size and _contains(repeated, hash_line(data, start, end)):
        return 0, False, _REPEATED
    at, first, last, cited = start, place, place, False
    while at < end:
        width = _measure_citation(data, at, end) if rules.strip_citations and data[at] == 91 else 0
        at += width
        if width:
            cited = True
            while last > first and out[last - 1] == 32 and (at == end or _is_mark(data[at])):
                last -= 1
            continue
        out[last] = data[at]
        last, at = last + 1, at + 1
    while first < last and out[first] <= 32:
        first += 1
    while first < last and out[last - 1] <= 32:
        last -= 1
    for index in range(last - first if first > place else 0):
        out[place + index] = out[first + index]
    last -= first - place
    rule = _find_failed_rule(out, place, last, rules) if last > place else _KEPT
    return last - place, cited, rule


@kernel
def _measure_citation(data: Bytes, at: int, end: int) -> int:
    """Return the length in bytes of the citation that starts at the "[" at byte `at`, or 0 if there is none before
    `end`.
    """
    behind = at + 1
    while behind < end and 48 <= data[behind] <= 57:
        behind += 1
    if behind < end and data[behind] == 93:
        return behind + 1 - at
    for row in range(_BRACKETED.shape[0]):
        length = _BRACKETED[row, 0]
        if at + 1 + length <= end:
            same = 0
            while same < length and data[at + 1 + same] == _BRACKETED[row, 1 + same]:
                same += 1
            if same == length:
                return 1 + same
    return 0


@kernel
def _is_mark(byte: int) -> bool:
    """Return True if a byte is ASCII but neither a letter nor a digit."""
    return byte < 0x80 and not (48 <= byte <= 57 or 97 <= (byte | 32) <= 122)


@kernel
def _find_failed_rule(text: Bytes, start: int, end: int, rules: _LineRules) -> int:
    """Return the index in LINE_RULES of the first rule that the line text[start:end] fails, or _KEPT.

    Repeated lines and citations are not checked.
    """
    if rules.terminal_punctuation and not _is_ended(text, start, end):
        return _TERMINAL
    if rules.min_words or rules.max_word_characters:
        words, most = _count_words(text, start, end)
        if words < rules.min_words:
            return _MIN_WORDS
        if 0 < rules.max_word_characters < most:
            return _MAX_CHARACTERS
    if rules.drop_javascript and _has_phrase(text, start, end, _SCRIPTS):
        return _JAVASCRIPT
    if rules.drop_policy and _has_phrase(text, start, end, _PHRASES):
        return _POLICY
    return _KEPT


@kernel
def _is_ended(text: Bytes, start: int, end: int) -> bool:
    """Return True if the line text[start:end] ends with one of LINE_ENDS, but not with three dots."""
    if end - start >= 3 and text[end - 1] == 46 and text[end - 2] == 46 and text[end - 3] == 46:
        return False
    code, _ = decode(text, find_start_before(text, end))
    for member in _ENDS:
        if member == code:
            return True
    return False


@kernel
def _count_words(text: Bytes, start: int, end: int) -> tuple[int, int]:
    """Return the number of words in the line text[start:end], and the number of characters in its longest word."""
    words, most, characters = 0, 0, 0
    for at in range(start, end):
        if text[at] <= 32:
            characters = 0
            continue
        words += at == start or text[at - 1] <= 32
        characters += text[at] & 0xC0 != 0x80
        most = max(most, characters)
    return words, most


@kernel
def _has_phrase(text: Bytes, start: int, end: int, phrases: Bytes) -> bool:
    """Return True if text[start:end] contains one of the phrases, ignoring ASCII case.

    `phrases` is a table from `_build_phrase_table`.
    """
    for at in range(start, end):
        for row in range(phrases.shape[0]):
            length, same = phrases[row, 0], 0
            if at + length <= end:
                while same < length and _lower(text[at + same]) == phrases[row, 1 + same]:
                    same += 1
                if same == length:
                    return True
    return False


@kernel
def _lower(byte: int) -> int:
    """Return the lower-case form of a byte that is an ASCII capital, and any other byte unchanged."""
    return byte + 32 if 65 <= byte <= 90 else byte


@kernel
def hash_line(data: Bytes, start: int, end: int) -> np.uint64:
    """Compute the hash of the trimmed line data[start:end], as `compute_line_hash` does."""
    value, chunk = np.uint64(end - start), _NOTHING
    for at in range(start, end):
        shift = (at - start) % 8 * 8
        chunk |= np.uint64(_lower(data[at])) << np.uint64(shift)
        if shift == 56 or at + 1 == end:
            value, chunk = absorb(value, chunk), _NOTHING
    return absorb(value, _NOTHING)


@kernel
def _contains(values: UInt64s, value: np.uint64) -> bool:
    """Return True if `value` is in `values`, which must be in ascending order."""
    low, high = 0, values.size
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < values.size and values[low] == value


@kernel
def _count_lines(data: Bytes, offsets: Int64s) -> tuple[int, int]:
    """Return upper bounds for the number of lines in the row with the most lines, and in all rows together."""
    most, total = 1, 0
    for row in range(offsets.size - 1):
        lines = 1
        for byte in data[offsets[row] : offsets[row + 1]]:
            lines += byte == 10
        most, total = max(most, lines), total + lines
    return most, total


@kernel
def _hash_rows(data: Bytes, offsets: Int64s, slots: Int64s, hashes: UInt64s, starts: Int64s) -> None:
    """Write the distinct line hashes of each row to `hashes`, one row after another.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [n + 1], the first byte of each row in `data`.
        slots: int64 zeros, a hash table with a power of two of entries. A slot holds the number of the row that filled
            it and the hash's index in this row, so the table need not be cleared between rows.
        hashes: Filled with the hashes. It needs an entry for each line.
        starts: int64 [n + 1], with a 0 first. Filled with the end of each row's hashes.
    """
    mask, size = np.uint64(slots.size - 1), 0
    for row in range(offsets.size - 1):
        at, stop, begin = offsets[row], offsets[row + 1], size
        while at < stop:
            start, end, at = find_next_line(data, at, stop)
            if start == end:
                continue
            value = hash_line(data, start, end)
            slot = value >> _32 & mask
            while slots[slot] >> 32 == row + 1 and hashes[begin + (slots[slot] & 0xFFFFFFFF)] != value:
                slot = slot + np.uint64(1) & mask
            if slots[slot] >> 32 != row + 1:
                slots[slot] = (row + 1) << 32 | (size - begin)
                hashes[size] = value
                size += 1
        starts[row + 1] = size
