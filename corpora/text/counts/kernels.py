"""The counts of a column: `corpora.text.counts.definition.measure` for every row, by kernels.

Promise: `measure_texts` equals the definition row by row. Cost: 120 MB a second, 210 without runs of words; the bytes
are read once, what follows goes by word. Besides the counts, some 60 bytes for every word of the longest document.

    count_words     finds words, lines and paragraphs, and counts all that is counted by word
    count_ngrams    what is repeated of runs of words, lines and paragraphs
    count_kernels   what lines look like, and all of it row by row
"""

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bytes, Int64s, copy_values
from corpora.kernels.compiling import kernel
from corpora.kernels.utf8 import decode, find_start_before
from corpora.text.buffers import to_text_buffers
from corpora.text.codepoints import BULLETS
from corpora.text.counts.definition import LINE_END, LONG_LINE_CHARACTERS, SHORT_LINE_CHARACTERS, Counts
from corpora.text.counts.repeats import (
    NUM_SHARES,
    count_ngrams,
    count_repeats,
    hash_groups,
)
from corpora.text.counts.words import Scratch, make_scratch, measure_longest, scan


def measure_texts(texts: pa.Array, runs: bool = True) -> Counts:
    """Compute the counts of each row of a large_string column without nulls, as `measure` does.

    Args:
        texts: The documents.
        runs: If False, the counts of repeated word runs are left at 0. Computing them takes about 60 % of the time.

    Returns:
        The counts as int64 columns, with one entry for each row.

    Raises:
        InputError: If the column has another type or nulls.
    """
    data, offsets = to_text_buffers(texts)
    columns = np.zeros((len(Counts._fields), len(texts)), np.int64)
    size, words, lines = measure_longest(data, offsets)
    scratch, spans = make_scratch(size, words, lines), np.zeros((3, lines), np.int64)
    _count_rows(data, offsets, scratch, spans, runs, columns)
    return Counts(*columns)


_ENDS, _BULLETS = tuple(map(ord, LINE_END)), tuple(map(ord, BULLETS))
_ASCII_END, _ASCII_BULLET = (np.isin(np.arange(128), codes) for codes in (_ENDS, _BULLETS))


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
    _NEWLINES,
    _LINES,
    _BULLET_LINES,
    _ELLIPSIS_LINES,
    _SHORT_LINES,
    _LONG_LINES,
    _ENDED_LINES,
    _LINE_CHARACTERS,
    _ENDED,
    _REPEATED_LINES,
    _REPEATED_LINE_CHARACTERS,
    _PARAGRAPHS,
    _PARAGRAPH_CHARACTERS,
    _REPEATED_PARAGRAPHS,
    _REPEATED_PARAGRAPH_CHARACTERS,
    _RUNS,
) = range(len(Counts._fields) - NUM_SHARES + 1)
_TALLY = (_ALPHABETIC, _HASH_MARKS, _ELLIPSES, _CURLY, _SENTENCES)


@kernel
def _count_rows(
    data: Bytes,
    offsets: Int64s,
    scratch: Scratch,
    spans: Int64s,
    runs: bool,
    columns: Int64s,
) -> None:
    """Compute the counts of all rows, and write those of row i to `columns[:, i]`.

    Args:
        data: UTF-8 bytes of all rows.
        offsets: int64 [n + 1], the first byte of each row in `data`.
        scratch: Scratch memory from `make_scratch` for the longest row, overwritten.
        spans: int64 [3, lines of the longest row], scratch memory, overwritten.
        runs: False to leave the counts of repeated word runs at 0.
        columns: int64 [fields of `Counts`, n]. Filled with the counts.
    """
    counts, use = np.zeros(columns.shape[0], np.int64), 0
    for row in range(offsets.size - 1):
        counts[:] = 0
        size = offsets[row + 1] - offsets[row]
        copy_values(data[offsets[row] : offsets[row + 1]], scratch.text[:size])
        scratch.text[size : size + 16] = 0
        totals = scan(size, scratch)
        counts[_WORDS], counts[_WORD_CHARACTERS] = totals.words, scratch.before[totals.words]
        counts[_STOP_WORDS], counts[_LOREM], counts[_NEWLINES] = totals.stop_words, totals.lorem_ipsum, totals.newlines
        for place in range(len(_TALLY)):
            counts[_TALLY[place]] = scratch.tally[place]
        hash_groups(totals.lines, scratch.first_words, scratch.keys, scratch.hashes)
        _write_line_spans(totals.lines, scratch, spans)
        _count_lines(scratch.text, totals.lines, spans, counts)
        repeated, characters = count_repeats(spans, totals.lines, scratch, use + 1)
        counts[_REPEATED_LINES], counts[_REPEATED_LINE_CHARACTERS] = repeated, characters
        hash_groups(totals.paragraphs, scratch.first_lines, scratch.hashes, scratch.hashes)
        counts[_PARAGRAPHS] = totals.paragraphs
        counts[_PARAGRAPH_CHARACTERS] = _join_paragraphs(totals.paragraphs, scratch, spans)
        repeated, characters = count_repeats(spans, totals.paragraphs, scratch, use + 2)
        counts[_REPEATED_PARAGRAPHS], counts[_REPEATED_PARAGRAPH_CHARACTERS] = repeated, characters
        use += 2
        if runs:
            use = count_ngrams(totals.words, scratch, use, counts[_RUNS:])
        for place in range(len(counts)):
            columns[place, row] = counts[place]


@kernel
def _write_line_spans(lines: int, scratch: Scratch, spans: Int64s) -> None:
    """Write the first byte, the end and the number of characters of each line to `spans`, computed from its words.

    Args:
        lines: Number of lines.
        scratch: The document's words and lines, as `scan` finds them.
        spans: int64 [3, at least `lines`]. Filled with first bytes, ends and numbers of characters.
    """
    for line in range(lines):
        first, last = scratch.first_words[line], scratch.first_words[line + 1] - 1
        spans[0, line] = scratch.starts[first]
        spans[1, line] = scratch.starts[last] + scratch.lengths[last]
        spans[2, line] = spans[1, line] - spans[0, line] - (scratch.widths[line + 1] - scratch.widths[line])


@kernel
def _count_lines(text: Bytes, lines: int, spans: Int64s, counts: Int64s) -> None:
    """Add a document's line counts to `counts`: line lengths, bullets at the start, and punctuation at the end.

    Args:
        text: The document in UTF-8.
        lines: Number of lines.
        spans: The first byte, the end and the number of characters of each line, from `_write_line_spans`.
        counts: int64, one entry for each field of `Counts`. Modified in place.
    """
    counts[_LINES] = lines
    for line in range(lines):
        start, end, characters = spans[0, line], spans[1, line], spans[2, line]
        counts[_LINE_CHARACTERS] += characters
        counts[_SHORT_LINES] += characters < SHORT_LINE_CHARACTERS
        counts[_LONG_LINES] += characters >= LONG_LINE_CHARACTERS
        counts[_BULLET_LINES] += _ASCII_BULLET[text[start]] if text[start] < 128 else _is_bullet(text, start)
        dots = end - start >= 3 and text[end - 1] == 46 and text[end - 2] == 46 and text[end - 3] == 46
        ended = _ASCII_END[text[end - 1] & 127]
        if text[end - 1] > 127:
            code, ended = _read_last(text, end)
            dots = code == 0x2026
        counts[_ELLIPSIS_LINES] += dots
        if ended:
            counts[_ENDED_LINES] += 1
            counts[_ENDED] += characters


@kernel
def _is_bullet(text: Bytes, start: int) -> bool:
    """Return True if the character at byte `start` is a bullet (one of BULLETS)."""
    code, _ = decode(text, start)
    for bullet in _BULLETS:
        if bullet == code:
            return True
    return False


@kernel
def _read_last(text: Bytes, end: int) -> tuple[int, bool]:
    """Return the last code point before byte `end`, and True if it is a mark that can end a sentence."""
    code, _ = decode(text, find_start_before(text, end))
    for member in _ENDS:
        if member == code:
            return code, True
    return code, False


@kernel
def _join_paragraphs(paragraphs: int, scratch: Scratch, spans: Int64s) -> int:
    """Replace the spans of lines with the spans of paragraphs, in place. Return the total number of characters.

    Args:
        paragraphs: Number of paragraphs.
        scratch: The document's paragraphs, as `scan` finds them.
        spans: The spans of its lines, from `_write_line_spans`. Modified in place.
    """
    total = 0
    for paragraph in range(paragraphs):
        first, past = scratch.first_lines[paragraph], scratch.first_lines[paragraph + 1]
        start, end = spans[0, first], spans[1, past - 1]
        spans[0, paragraph], spans[1, paragraph] = start, end
        spans[2, paragraph] = end - start - (scratch.widths[past] - scratch.widths[first])
        total += spans[2, paragraph]
    return total
