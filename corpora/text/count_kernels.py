"""The counts of a column: `corpora.text.counts.measure` for every row, by kernels.

Promise: `count` equals the definition row by row. Cost: 90 MB a second, in one pass over words and one over
lines; beside them two numbers of eight bytes for every line of the document at hand.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.kernels import kernel
from corpora.text.buffers import text_buffers
from corpora.text.codepoints import BULLETS, Bytes, Integers, back, code_points, decode, holds, pack, packed
from corpora.text.counts import CLOSING, LINE_END, SENTENCE_END, STOP_WORDS, Counts


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
    return _Tables(
        stop_words=np.array([packed(word.encode()) for word in STOP_WORDS], np.int64),
        lorem=packed(b"lorem"),
        ipsum=packed(b"ipsum"),
        sentence_end=code_points(SENTENCE_END),
        closing=code_points(CLOSING),
        line_end=code_points(LINE_END),
        bullets=code_points(BULLETS),
    )


# The rows of the matrix that `_count_rows` fills, in the order of `Counts`.
(
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
def _ends_sentence(data: Bytes, start: int, stop: int, tables: _Tables) -> bool:
    """Whether a word ends with sentence punctuation, closing marks behind it left out."""
    while stop > start:
        if 97 <= (data[stop - 1] | 32) <= 122:  # most words
            return False
        stop = back(data, stop)
        code, _ = decode(data, stop)
        if not holds(tables.closing, code):
            return holds(tables.sentence_end, code)
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
        counts[_BULLET_LINES] += holds(tables.bullets, decode(data, start)[0])
        last, _ = decode(data, back(data, end))
        dots = end - start >= 3 and data[end - 1] == 46 and data[end - 2] == 46 and data[end - 3] == 46
        counts[_ELLIPSIS_LINES] += dots or last == 0x2026
        if holds(tables.line_end, last):
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
