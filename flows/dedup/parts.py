"""Lines and paragraphs that an earlier row has, cut out of the texts that stay.

A part is a line, or what blank lines part; parts are equal where `compute_line_hash` says so: without case and the
space around them. The first row that has a part keeps it, however often, and rows of another corpus come first.
Nothing is judged by
it: texts are cut after the duplicates are gone, and a row of which no part is left is removed.

Promise: what stays of a text are its own bytes, in order. Two parts are taken for equal by chance with probability
2**-64. Cost: the texts that stay are read once more, 3 ns a byte. Memory: 40 bytes a part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.judging.steps.lines import find_next_line, hash_line
from corpora.kernels.arrays import Bools, Bytes, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.sources.bytes.raw_files import Lines
from corpora.sources.files.fields import find_value
from corpora.sources.files.parquet import to_row_json
from corpora.text.buffers import to_text_buffers
from flows.dedup.inputs import Fields, InputPiece, RowChunk, read_chunks
from flows.dedup.sketches import hash_groups

PART_KINDS = ("", "lines", "paragraphs")


class PartCuts(NamedTuple):
    """What is cut out of the rows of a piece.

    touched: the rows that lose some of their parts; gone: which parts of these rows, one after another
    """

    is_edited: Bools
    is_removed: Bools
    kind: str


def find_parts(texts: pa.Array, kind: str) -> tuple[UInt64s, Int64s, Int64s]:
    """The hashes of the parts of all texts, where each begins and ends in its text [n, 2], and how many a row has."""
    data, offsets = to_text_buffers(texts)
    max_parts = len(texts) + int(np.count_nonzero(data[offsets[0] : offsets[-1]] == ord("\n")))
    hashes, spans, counts = (
        np.empty(max_parts, np.uint64),
        np.empty((max_parts, 2), np.int64),
        np.empty(len(texts), np.int64),
    )
    _find_parts(data, offsets, kind == "paragraphs", hashes, spans, counts)
    number = int(counts.sum())
    return hashes[:number], spans[:number], counts


@kernel
def _find_parts(data: Bytes, offsets: Int64s, to_blank: bool, hashes: UInt64s, spans: Int64s, counts: Int64s) -> None:
    size = 0
    for row in range(len(counts)):
        origin, stop, before = offsets[row], offsets[row + 1], size
        at, begin, last = origin, stop, stop  # no part is open where it begins at `stop`
        while at < stop:
            start, end, at = find_next_line(data, at, stop)
            if start < end:
                begin, last = min(begin, start), end
            if begin < stop and (start == end or at >= stop or not to_blank):
                hashes[size] = hash_line(data, begin, last)
                spans[size, 0], spans[size, 1] = begin - origin, last - origin
                size, begin = size + 1, stop
        counts[row] = size - before


def hash_parts(piece: InputPiece, wanted: Bools, kind: str) -> tuple[UInt64s, Int64s]:
    """The hashes of the parts of some rows of a piece, and how many each of these rows has. Raises InputError."""
    hashes, counts = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for chunk in read_chunks(piece, wanted):
        rows = np.flatnonzero(wanted[chunk.first : chunk.first + len(chunk.texts)])
        own, _, number = find_parts(chunk.texts.take(pa.array(rows)).fill_null(""), kind)
        hashes.append(own ^ np.repeat(hash_groups(chunk, piece.group)[rows], number) if piece.group else own)
        counts.append(number)
    return np.concatenate(hashes), np.concatenate(counts)


def find_copied_parts(hashes: UInt64s, counts: Int64s) -> Bools:
    """Which parts an earlier row has. counts: parts of each row"""
    rows = np.repeat(np.arange(len(counts)), counts)
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    is_copy: Bools = rows[first[inverse]] != rows
    return is_copy


def cut_chunk(
    chunk: RowChunk, rows: Int64s, cuts: PartCuts, first_part: int, names: Sequence[str]
) -> tuple[RowChunk, RowChunk, int]:
    """A chunk whose `rows` lack some of their parts, one in which they have only these, and how many parts they had.

    before: parts of earlier chunks in `cuts`; names: of the text, of which the first counts
    """
    texts = chunk.texts.take(pa.array(rows))
    _, spans, counts = find_parts(texts, cuts.kind)
    is_removed, ends = cuts.is_removed[first_part:], np.cumsum(counts).tolist()
    edited = [
        remove_parts(text, spans[end - number : end].tolist(), is_removed[end - number : end].tolist())
        for text, end, number in zip(texts.to_pylist(), ends, counts.tolist(), strict=True)
    ]
    left, cut_out = (
        _replace_texts(chunk, dict(zip(rows.tolist(), new, strict=True)), names) for new in zip(*edited, strict=True)
    )
    return left, cut_out, ends[-1]


def _replace_texts(chunk: RowChunk, new: Mapping[int, str], names: Sequence[str]) -> RowChunk:
    """A chunk of which some rows have other texts."""
    if isinstance(chunk.fields, pa.RecordBatch):
        name = next(name for name in names if name in chunk.fields.schema.names)
        values = [new.get(row, text) for row, text in enumerate(chunk.texts.to_pylist())]
        column = pa.array(values, pa.large_string()).cast(chunk.fields.schema.field(name).type)
        index = chunk.fields.schema.get_field_index(name)
        return replace(chunk, fields=chunk.fields.set_column(index, chunk.fields.schema.field(name), column))
    fields = [with_text(each, names, new[row]) if row in new else each for row, each in enumerate(chunk.fields)]
    if chunk.json_lines is None:
        return replace(chunk, fields=fields)
    lines = [to_row_json(dict(fields[row] or {})) if row in new else line for row, line in enumerate(chunk.json_lines)]
    return replace(chunk, fields=fields, json_lines=Lines.from_lines(lines))


def with_text(fields: Fields, names: Sequence[str], text: str) -> Fields:
    """Some fields with another text, where `find_text` reads it.

    >>> with_text({"data": {"text": "old", "n": 1}}, ["body", "data.text"], "new")
    {'data': {'text': 'new', 'n': 1}}
    """
    own = dict(fields or {})
    name = next(name for name in names if isinstance(find_value(own, name), str))
    first, _, rest = name.partition(".")
    return {**own, name: text} if name in own else {**own, first: with_text(own[first], [rest], text)}


def remove_parts(text: str, spans: Sequence[Sequence[int]], is_removed: Sequence[bool]) -> tuple[str, str]:
    """A text without some of its parts, and these. A part goes with what is between it and the next."""
    data = text.encode()
    ends = [*(begin for begin, _ in spans[1:]), len(data)]
    left, removed = (
        [data[b:e] for (b, _), e, each in zip(spans, ends, is_removed, strict=True) if each == side] for side in (0, 1)
    )
    whole = b"".join(left) if not is_removed[-1] else b"".join(left).rstrip()
    return (data[: spans[0][0]] + whole).decode() if left else "", b"".join(removed).rstrip().decode()
