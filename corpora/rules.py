"""Quality rules: which documents are dropped for what they look like, each rule named and with its threshold.

Promise: a document is dropped by the first rule it fails, in the order of `DETAILS`; `judge` and `reasons` agree
on it exactly. A rule compares integer counts with a threshold, so nothing depends on the order of additions.
`measure` is the definition of the counts, `count` the same for a column, in one pass over words and one over
lines: about 90 MB a second, the twin 3.

Where the papers leave a choice, it is this. A word is a run of characters other than white space, so the rules
on words are for languages that write spaces between them. A letter is an ASCII letter or anything beyond ASCII.
A line is what stands between newlines, white space at its ends left out; blank lines are not counted. Characters
are code points. White space is every byte up to 0x20: cleaned text has no other. Stop words are looked up
without case and without the punctuation around them, each counted once.

Sources: Rae et al. 2021 (Gopher), appendix A.1.1 and Table A1; Raffel et al. 2020 (C4), section 2.2.
"""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpora.errors import InputError
from corpora.kernels import kernel
from corpora.sentences import BULLETS, back, decode, pack
from corpora.text.buffers import text_buffers

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Count = int | Integers
Verdict = bool | npt.NDArray[np.bool_]

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
_SENTENCE_END = ".!?…"
_WIDE_END = "。！？"  # written without a space behind
_CLOSING = "\"')]}”’»"
_LINE_END = _SENTENCE_END + _WIDE_END + _CLOSING + "」』"
_SPACES = "".join(map(chr, range(0x21)))


# --- Settings -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GopherRules:
    """The quality rules of Gopher. min_stop_words is for English: set it to 0 for other languages."""

    enabled: bool = True
    min_words: int = 50
    max_words: int = 100_000
    min_mean_word_length: float = 3.0
    max_mean_word_length: float = 10.0
    max_symbol_ratio: float = 0.1  # hash marks to words, and ellipses to words
    max_bullet_lines: float = 0.9
    max_ellipsis_lines: float = 0.3
    min_alphabetic_words: float = 0.8
    min_stop_words: int = 2

    def __post_init__(self) -> None:
        _check_range("rules.gopher", "words", self.min_words, self.max_words)
        _check_range("rules.gopher", "mean_word_length", self.min_mean_word_length, self.max_mean_word_length)
        for name in ("max_symbol_ratio", "max_bullet_lines", "max_ellipsis_lines", "min_alphabetic_words"):
            _check_share(f"rules.gopher.{name}", getattr(self, name))
        if not 0 <= self.min_stop_words <= len(STOP_WORDS):
            raise InputError(
                f"rules.gopher.min_stop_words is {self.min_stop_words}: it counts different words among "
                f"{', '.join(STOP_WORDS)}, so it goes from 0 (rule off) to {len(STOP_WORDS)}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionRules:
    """The largest shares that lines and paragraphs seen before in the document may have in it."""

    enabled: bool = True
    max_repeated_lines: float = 0.30
    max_repeated_paragraphs: float = 0.30
    max_repeated_line_characters: float = 0.20
    max_repeated_paragraph_characters: float = 0.20

    def __post_init__(self) -> None:
        for name in ("lines", "paragraphs", "line_characters", "paragraph_characters"):
            _check_share(f"rules.repetition.max_repeated_{name}", getattr(self, f"max_repeated_{name}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class C4Rules:
    """The rules of C4 that judge a whole document. Curly braces are off: technical prose has them."""

    enabled: bool = True
    drop_lorem_ipsum: bool = True
    drop_curly_braces: bool = False
    min_sentences: int = 3

    def __post_init__(self) -> None:
        if self.min_sentences < 0:
            raise InputError(f"rules.c4.min_sentences is {self.min_sentences}: use 0 (rule off) or more.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesSettings:
    """All rules. A document without a word, or of more than max_document_bytes, is dropped in any case."""

    max_document_bytes: int = 16 * 2**20
    gopher: GopherRules = field(default_factory=GopherRules)
    repetition: RepetitionRules = field(default_factory=RepetitionRules)
    c4: C4Rules = field(default_factory=C4Rules)

    def __post_init__(self) -> None:
        if self.max_document_bytes < 1:
            raise InputError(
                f"rules.max_document_bytes is {self.max_document_bytes}: use a size in bytes, such as 16777216."
            )


def _check_share(key: str, value: float) -> None:
    """Refuse what is not a share."""
    if not 0 <= value <= 1:
        raise InputError(f"{key} is {value}: it is a share, from 0 to 1; a max_ of 1 or a min_ of 0 is off.")


def _check_range(group: str, name: str, low: float, high: float) -> None:
    """Refuse a minimum below 0 or above its maximum."""
    if not 0 <= low <= high:
        raise InputError(
            f"{group}.min_{name} is {low} and {group}.max_{name} is {high}: the first must not be below 0 "
            f"nor above the second."
        )


# --- The rules, once for one document and for a column --------------------------------------------------------


class Counts(NamedTuple):
    """What the rules compare: integers for one document, int64 columns for many."""

    bytes: Count
    words: Count
    word_characters: Count
    alphabetic_words: Count
    stop_words: Count  # different ones
    hash_marks: Count
    ellipses: Count
    curly_braces: Count
    lorem_ipsum: Count
    sentences: Count
    lines: Count
    bullet_lines: Count
    ellipsis_lines: Count
    line_characters: Count
    ended_line_characters: Count  # in lines that end as a sentence does
    repeated_lines: Count
    repeated_line_characters: Count
    paragraphs: Count
    paragraph_characters: Count
    repeated_paragraphs: Count
    repeated_paragraph_characters: Count


DETAILS = {
    "document.max_bytes": "{bytes} bytes",
    "document.empty": "no words",
    "gopher.min_words": "{words} words",
    "gopher.max_words": "{words} words",
    "gopher.min_mean_word_length": "{word_characters} characters in {words} words",
    "gopher.max_mean_word_length": "{word_characters} characters in {words} words",
    "gopher.max_hash_marks": "{hash_marks} hash marks in {words} words",
    "gopher.max_ellipses": "{ellipses} ellipses in {words} words",
    "gopher.max_bullet_lines": "{bullet_lines} of {lines} lines",
    "gopher.max_ellipsis_lines": "{ellipsis_lines} of {lines} lines",
    "gopher.min_alphabetic_words": "{alphabetic_words} of {words} words",
    "gopher.min_stop_words": "{stop_words} stop words",
    "repetition.max_repeated_lines": "{repeated_lines} of {lines} lines",
    "repetition.max_repeated_paragraphs": "{repeated_paragraphs} of {paragraphs} paragraphs",
    "repetition.max_repeated_line_characters": "{repeated_line_characters} of {line_characters} characters",
    "repetition.max_repeated_paragraph_characters": "{repeated_paragraph_characters} of {paragraph_characters} "
    "characters",
    "c4.lorem_ipsum": "{lorem_ipsum} times",
    "c4.curly_braces": "{curly_braces} braces",
    "c4.min_sentences": "{sentences} sentences",
}
REASONS = ("", *DETAILS)


def _verdicts(counts: Counts, settings: RulesSettings) -> Iterator[tuple[str, Verdict]]:
    """Every enabled rule in order, and whether it is failed."""
    yield "document.max_bytes", counts.bytes > settings.max_document_bytes
    yield "document.empty", counts.words == 0
    if settings.gopher.enabled:
        yield from _gopher(counts, settings.gopher)
    if settings.repetition.enabled:
        yield from _repetition(counts, settings.repetition)
    if settings.c4.enabled:
        if settings.c4.drop_lorem_ipsum:
            yield "c4.lorem_ipsum", counts.lorem_ipsum > 0
        if settings.c4.drop_curly_braces:
            yield "c4.curly_braces", counts.curly_braces > 0
        yield "c4.min_sentences", counts.sentences < settings.c4.min_sentences


def _gopher(counts: Counts, rules: GopherRules) -> Iterator[tuple[str, Verdict]]:
    """Rae et al. 2021, appendix A.1.1, quality filtering."""
    words, lines = counts.words, counts.lines
    yield "gopher.min_words", words < rules.min_words
    yield "gopher.max_words", words > rules.max_words
    yield "gopher.min_mean_word_length", counts.word_characters < rules.min_mean_word_length * words
    yield "gopher.max_mean_word_length", counts.word_characters > rules.max_mean_word_length * words
    yield "gopher.max_hash_marks", counts.hash_marks > rules.max_symbol_ratio * words
    yield "gopher.max_ellipses", counts.ellipses > rules.max_symbol_ratio * words
    yield "gopher.max_bullet_lines", counts.bullet_lines > rules.max_bullet_lines * lines
    yield "gopher.max_ellipsis_lines", counts.ellipsis_lines > rules.max_ellipsis_lines * lines
    yield "gopher.min_alphabetic_words", counts.alphabetic_words < rules.min_alphabetic_words * words
    yield "gopher.min_stop_words", counts.stop_words < rules.min_stop_words


def _repetition(counts: Counts, rules: RepetitionRules) -> Iterator[tuple[str, Verdict]]:
    """Rae et al. 2021, Table A1, its first four rows."""
    for name in ("line", "paragraph"):
        repeated, total = getattr(counts, f"repeated_{name}s"), getattr(counts, f"{name}s")
        yield f"repetition.max_repeated_{name}s", repeated > getattr(rules, f"max_repeated_{name}s") * total
    for name in ("line_characters", "paragraph_characters"):
        repeated, total = getattr(counts, f"repeated_{name}"), getattr(counts, name)
        yield f"repetition.max_repeated_{name}", repeated > getattr(rules, f"max_repeated_{name}") * total


def judge(text: str, settings: RulesSettings) -> str | None:
    """The first rule a document fails, or None to keep it.

    >>> judge("Too short.", RulesSettings())
    'gopher.min_words'
    """
    return next((name for name, fails in _verdicts(measure(text), settings) if fails), None)


def judge_details(text: str, settings: RulesSettings) -> str | None:
    """The numbers that decided: what goes beside the reason in the record of a dropped document.

    >>> judge_details("Too short.", RulesSettings())
    '2 words'
    """
    reason = judge(text, settings)
    return None if reason is None else DETAILS[reason].format_map(measure(text)._asdict())


def reasons(texts: pa.Array, settings: RulesSettings) -> npt.NDArray[np.int16]:
    """For every row of a large_string column without nulls the place of its reason in REASONS; 0 keeps it."""
    return reasons_of(count(texts), settings)


def reasons_of(counts: Counts, settings: RulesSettings) -> npt.NDArray[np.int16]:
    """The reasons of rows that were counted before."""
    codes = np.zeros(np.size(counts.words), np.int16)
    for name, fails in _verdicts(counts, settings):
        codes[(codes == 0) & fails] = REASONS.index(name)
    return codes


def quality(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Per mille of the characters of every row that stand in lines which end as a sentence does.

    A tie-break between near-duplicates: the copy with more prose and less navigation around it is kept.
    """
    return quality_of(count(texts))


def quality_of(counts: Counts) -> npt.NDArray[np.int32]:
    """The quality of rows that were counted before (or of one document, as an array of no dimension)."""
    return np.asarray(1000 * counts.ended_line_characters // np.maximum(counts.line_characters, 1), np.int32)


# --- The counts of one document: the definition -----------------------------------------------------------------


def measure(text: str) -> Counts:
    """The counts of one document."""
    words = [word for word in re.split("[\0- ]+", text) if word]
    cores = [re.sub("^[\0-/:-@[-`{-\x7f]+|[\0-/:-@[-`{-\x7f]+$", "", word).encode().lower() for word in words]
    lines = [line for line in (line.strip(_SPACES) for line in text.split("\n")) if line]
    paragraphs = [part for part in (part.strip(_SPACES) for part in re.split("\n[\0- ]*\n", text)) if part]
    repeated_lines, repeated_paragraphs = _repeated(lines), _repeated(paragraphs)
    return Counts(
        bytes=len(text.encode()),
        words=len(words),
        word_characters=sum(map(len, words)),
        alphabetic_words=sum(re.search("[A-Za-z\x80-\U0010ffff]", word) is not None for word in words),
        stop_words=len({word.encode() for word in STOP_WORDS} & {*cores}),
        hash_marks=text.count("#"),
        ellipses=len(re.findall(r"\.{3,}|…", text)),
        curly_braces=text.count("{") + text.count("}"),
        lorem_ipsum=sum(pair == (b"lorem", b"ipsum") for pair in pairwise(cores)),
        sentences=sum(word.rstrip(_CLOSING).endswith(tuple(_SENTENCE_END)) for word in words)
        + len(re.findall(f"[{_WIDE_END}]", text)),
        lines=len(lines),
        bullet_lines=sum(line.startswith(tuple(BULLETS)) for line in lines),
        ellipsis_lines=sum(line.endswith(("...", "…")) for line in lines),
        line_characters=sum(map(len, lines)),
        ended_line_characters=sum(len(line) for line in lines if line.endswith(tuple(_LINE_END))),
        repeated_lines=len(repeated_lines),
        repeated_line_characters=sum(map(len, repeated_lines)),
        paragraphs=len(paragraphs),
        paragraph_characters=sum(map(len, paragraphs)),
        repeated_paragraphs=len(repeated_paragraphs),
        repeated_paragraph_characters=sum(map(len, repeated_paragraphs)),
    )


def _repeated(parts: list[str]) -> list[str]:
    """The parts that equal one before them."""
    seen: set[str] = set()
    repeated = []
    for part in parts:
        if part in seen:
            repeated.append(part)
        seen.add(part)
    return repeated


# --- The counts of a column: the kernels ------------------------------------------------------------------------


def count(texts: pa.Array) -> Counts:
    """The counts of every row of a large_string column without nulls: `measure`, as int64 columns."""
    data, offsets = text_buffers(texts)
    columns = np.zeros((len(Counts._fields), len(texts)), np.int64)
    _count_rows(data, offsets, _tables(), columns)
    return Counts(*columns)


class _Tables(NamedTuple):
    """What the kernels look up: stop words as keys, and sets of code points."""

    stop_words: Integers
    lorem: int
    ipsum: int
    sentence_end: Integers
    closing: Integers
    line_end: Integers
    bullets: Integers


@cache
def _tables() -> _Tables:
    """The sets of the definition, as arrays."""

    def key(word: str) -> int:
        return int.from_bytes(word.encode(), "big")

    def codes(characters: str) -> Integers:
        return np.array(sorted(map(ord, characters)), np.int64)

    return _Tables(
        stop_words=np.array(list(map(key, STOP_WORDS)), np.int64),
        lorem=key("lorem"),
        ipsum=key("ipsum"),
        sentence_end=codes(_SENTENCE_END),
        closing=codes(_CLOSING),
        line_end=codes(_LINE_END),
        bullets=codes(BULLETS),
    )


# The rows of the matrix that `_count_rows` fills, in the order of `Counts`.
(
    _BYTES,
    _WORDS,
    _WORD_CHARACTERS,
    _ALPHABETIC,
    _STOP_WORDS,
    _HASH_MARKS,
    _ELLIPSES,
    _CURLY,
    _LOREM,
    _SENTENCES,
    _LINES,
    _BULLET_LINES,
    _ELLIPSIS_LINES,
    _LINE_CHARACTERS,
    _ENDED,
    _REPEATED_LINES,
    _REPEATED_LINE_CHARACTERS,
    _PARAGRAPHS,
    _PARAGRAPH_CHARACTERS,
    _REPEATED_PARAGRAPHS,
    _REPEATED_PARAGRAPH_CHARACTERS,
) = range(len(Counts._fields))


@kernel
def _count_rows(data: Bytes, offsets: Integers, tables: _Tables, columns: Integers) -> None:
    """Fill a column of the matrix for every row of the texts."""
    for row in range(offsets.size - 1):
        counts = np.zeros(columns.shape[0], np.int64)
        start, stop = offsets[row], offsets[row + 1]
        counts[_BYTES] = stop - start
        _count_words(data, start, stop, tables, counts)
        _count_lines(data, start, stop, tables, counts)
        columns[:, row] = counts


@kernel
def _count_words(data: Bytes, at: int, stop: int, tables: _Tables, counts: Integers) -> None:
    """All that is counted by word."""
    stop_words_seen, before = 0, 0
    while at < stop:
        if data[at] <= 32:
            at += 1
            continue
        start = at
        at = _count_word(data, start, stop, counts)
        counts[_SENTENCES] += _ends_sentence(data, start, at, tables)
        key = _core(data, start, at)
        counts[_LOREM] += before == tables.lorem and key == tables.ipsum
        if 0 < key < 1 << 32:  # no stop word has more than four letters
            for index in range(tables.stop_words.size):
                if key == tables.stop_words[index]:
                    stop_words_seen |= 1 << index
        before = key
    while stop_words_seen:
        counts[_STOP_WORDS] += stop_words_seen & 1
        stop_words_seen >>= 1


@kernel
def _count_word(data: Bytes, at: int, stop: int, counts: Integers) -> int:
    """The marks and characters of the word at `at`; returns where it ends."""
    # In variables of their own: an array might overlap the text, and would be read again for every byte.
    characters, ellipses, hash_marks, curly, sentences, letters, dots = 0, 0, 0, 0, 0, 0, 0
    while at < stop and data[at] > 32:
        byte = data[at]
        at += 1
        characters += byte & 0xC0 != 0x80
        if 97 <= (byte | 32) <= 122:
            letters, dots = 1, 0
            continue
        letters |= byte >= 0x80
        dots = dots + 1 if byte == 46 else 0
        ellipses += dots == 3
        hash_marks += byte == 35
        curly += byte == 123 or byte == 125
        if byte >= 0xE0:
            code, _ = decode(data, at - 1)
            ellipses += code == 0x2026
            sentences += code == 0x3002 or code == 0xFF01 or code == 0xFF1F
    counts[_WORDS] += 1
    counts[_WORD_CHARACTERS] += characters
    counts[_ALPHABETIC] += letters
    counts[_ELLIPSES] += ellipses
    counts[_HASH_MARKS] += hash_marks
    counts[_CURLY] += curly
    counts[_SENTENCES] += sentences
    return at


@kernel
def _holds(codes: Integers, code: int) -> bool:
    """Whether a small set holds a code point."""
    for member in codes:
        if member == code:
            return True
    return False


@kernel
def _ends_sentence(data: Bytes, start: int, stop: int, tables: _Tables) -> bool:
    """Whether a word ends with sentence punctuation, closing marks behind it left out."""
    while stop > start:
        if 97 <= (data[stop - 1] | 32) <= 122:  # most words
            return False
        stop = back(data, stop)
        code, _ = decode(data, stop)
        if not _holds(tables.closing, code):
            return _holds(tables.sentence_end, code)
    return False


@kernel
def _core(data: Bytes, start: int, stop: int) -> int:
    """The key (see `pack`) of a word without the ASCII marks at its ends."""
    while start < stop and not _alphanumeric(data[start]):
        start += 1
    while start < stop and not _alphanumeric(data[stop - 1]):
        stop -= 1
    return pack(data, start, stop)


@kernel
def _alphanumeric(byte: int) -> bool:
    """Whether a byte is an ASCII letter or digit, or belongs to a character beyond ASCII."""
    return byte >= 0x80 or 48 <= byte <= 57 or 97 <= (byte | 32) <= 122


@kernel
def _count_lines(data: Bytes, start: int, stop: int, tables: _Tables, counts: Integers) -> None:
    """All that is counted by line or paragraph."""
    most = 1
    for at in range(start, stop):
        most += data[at] == 10
    starts, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    lines = _line_spans(data, start, stop, starts, ends)
    _count_line_kinds(data, starts[:lines], ends[:lines], tables, counts)
    counts[_LINES] = lines
    repeated, characters = _repeats(data, starts[:lines], ends[:lines])
    counts[_REPEATED_LINES], counts[_REPEATED_LINE_CHARACTERS] = repeated, characters
    paragraphs = _join_paragraphs(data, starts, ends, lines)
    counts[_PARAGRAPHS] = paragraphs
    for index in range(paragraphs):
        counts[_PARAGRAPH_CHARACTERS] += _characters(data, starts[index], ends[index])
    repeated, characters = _repeats(data, starts[:paragraphs], ends[:paragraphs])
    counts[_REPEATED_PARAGRAPHS], counts[_REPEATED_PARAGRAPH_CHARACTERS] = repeated, characters


@kernel
def _line_spans(data: Bytes, at: int, stop: int, starts: Integers, ends: Integers) -> int:
    """Where the lines that are not blank begin and end, trimmed; returns their number."""
    lines = 0
    while at < stop:
        end = at
        while end < stop and data[end] != 10:
            end += 1
        first, last = at, end
        while first < last and data[first] <= 32:
            first += 1
        while first < last and data[last - 1] <= 32:
            last -= 1
        if first < last:
            starts[lines], ends[lines] = first, last
            lines += 1
        at = end + 1
    return lines


@kernel
def _count_line_kinds(data: Bytes, starts: Integers, ends: Integers, tables: _Tables, counts: Integers) -> None:
    """Bullets at the beginning, marks at the end."""
    for index in range(starts.size):
        start, end = starts[index], ends[index]
        characters = _characters(data, start, end)
        counts[_LINE_CHARACTERS] += characters
        counts[_BULLET_LINES] += _holds(tables.bullets, decode(data, start)[0])
        last, _ = decode(data, back(data, end))
        dots = end - start >= 3 and data[end - 1] == 46 and data[end - 2] == 46 and data[end - 3] == 46
        counts[_ELLIPSIS_LINES] += dots or last == 0x2026
        if _holds(tables.line_end, last):
            counts[_ENDED] += characters


@kernel
def _join_paragraphs(data: Bytes, starts: Integers, ends: Integers, lines: int) -> int:
    """Join lines that only one newline parts, in place; returns the number of paragraphs."""
    paragraphs = 0
    for index in range(lines):
        newlines = 2
        if index > 0:
            newlines = 0
            for at in range(ends[paragraphs - 1], starts[index]):
                newlines += data[at] == 10
        if newlines > 1:
            starts[paragraphs] = starts[index]
            paragraphs += 1
        ends[paragraphs - 1] = ends[index]
    return paragraphs


@kernel
def _characters(data: Bytes, start: int, end: int) -> int:
    """The code points between two bytes."""
    characters = 0
    for at in range(start, end):
        characters += data[at] & 0xC0 != 0x80
    return characters


@kernel
def _repeats(data: Bytes, starts: Integers, ends: Integers) -> tuple[int, int]:
    """How many spans equal one before them, and their characters: an open hash table of first occurrences."""
    size = 16
    while size < 2 * starts.size:
        size *= 2
    table, hashes = np.full(size, -1, np.int64), np.empty(starts.size, np.int64)
    repeated, characters = 0, 0
    for index in range(starts.size):
        hashes[index] = _hash(data, starts[index], ends[index])
        slot = hashes[index] & (size - 1)
        while table[slot] >= 0 and not _same(data, starts, ends, hashes, table[slot], index):
            slot = (slot + 1) & (size - 1)
        if table[slot] >= 0:
            repeated += 1
            characters += _characters(data, starts[index], ends[index])
        else:
            table[slot] = index
    return repeated, characters


@kernel
def _hash(data: Bytes, start: int, end: int) -> int:
    """FNV-1a over the bytes, its upper half folded into the lower, as a number of 62 bits."""
    value = np.uint64(0xCBF29CE484222325)
    for at in range(start, end):
        value = (value ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    return int((value ^ (value >> np.uint64(32))) & np.uint64(0x3FFFFFFFFFFFFFFF))


@kernel
def _same(data: Bytes, starts: Integers, ends: Integers, hashes: Integers, one: int, other: int) -> bool:
    """Whether two spans hold the same bytes."""
    length = ends[one] - starts[one]
    if hashes[one] != hashes[other] or length != ends[other] - starts[other]:
        return False
    for at in range(length):
        if data[starts[one] + at] != data[starts[other] + at]:
            return False
    return True
