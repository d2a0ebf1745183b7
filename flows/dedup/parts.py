"""Lines and paragraphs that an earlier row has, and that are cut out of the texts that stay.

A text part is a line, or a paragraph between blank lines. Two parts are equal if `hash_line` returns the same hash:
case and surrounding space do not count. The first row that has a part keeps all its occurrences, and rows of another
corpus come first. Texts are cut after duplicates are removed. A row that loses all its parts is removed.

Promise: what stays of a text are its own bytes, in order. Two different parts are taken as equal with probability
2**-64. Cost: the texts that stay are read once more, 3 ns per byte. Memory: 40 bytes per part.
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
    """The lines or paragraphs to remove from the n rows of a piece (a range of a file).

    Attributes:
        is_edited: bool [n], True if some lines or paragraphs of the row are removed, but not all.
        is_removed: bool, one value for each line or paragraph of the edited rows, in order; True if it is removed.
        kind: "lines" or "paragraphs"; "" if nothing is removed.
    """

    is_edited: Bools
    is_removed: Bools
    kind: str


def find_parts(texts: pa.Array, kind: str) -> tuple[UInt64s, Int64s, Int64s]:
    """Find the lines or paragraphs of each text, called parts.

    Args:
        texts: Arrow array of n texts.
        kind: "lines" or "paragraphs".

    Returns:
        The hash of each part, uint64 [parts]; the start and end of each part as byte offsets in its text, int64 with
        shape [parts, 2]; and the number of parts of each text, int64 [n].
    """
    data, offsets = to_text_buffers(texts)
    size = len(texts) + int(np.count_nonzero(data[offsets[0] : offsets[-1]] == ord("\n")))
    hashes, spans, counts = np.empty(size, np.uint64), np.empty((size, 2), np.int64), np.empty(len(texts), np.int64)
    _find_parts(data, offsets, kind == "paragraphs", hashes, spans, counts)
    number = int(counts.sum())
    return hashes[:number], spans[:number], counts


@kernel
def _find_parts(data: Bytes, offsets: Int64s, to_blank: bool, hashes: UInt64s, spans: Int64s, counts: Int64s) -> None:
    """Find the parts (lines or paragraphs) of each of n texts.

    Args:
        data: uint8, the UTF-8 bytes of all texts.
        offsets: int64 [n + 1], the start of each text in `data`, and the end of the last one.
        to_blank: True if parts are paragraphs, which end at a blank line; False if they are lines.
        hashes: uint64 [at least the number of parts]. Output: the hash of each part.
        spans: int64 [at least the number of parts, 2]. Output: the start and end of each part, as byte offsets in its
            text.
        counts: int64 [n]. Output: the number of parts in each text.
    """
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
    """Read some rows of a piece, and hash their lines or paragraphs, called parts.

    The hash of a part also depends on the group of its row.

    Args:
        piece: The piece (a range of a file) to read.
        wanted: bool [rows of the piece], True for the rows to read.
        kind: "lines" or "paragraphs".

    Returns:
        The hash of each part, uint64 [parts], and the number of parts of each wanted row, int64 [wanted rows].

    Raises:
        InputError: If the file cannot be read.
    """
    hashes, counts = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for chunk in read_chunks(piece, wanted):
        rows = np.flatnonzero(wanted[chunk.first : chunk.first + len(chunk.texts)])
        own, _, number = find_parts(chunk.texts.take(pa.array(rows)).fill_null(""), kind)
        hashes.append(own ^ np.repeat(hash_groups(chunk, piece.group)[rows], number) if piece.group else own)
        counts.append(number)
    return np.concatenate(hashes), np.concatenate(counts)


def find_copied_parts(hashes: UInt64s, counts: Int64s) -> Bools:
    """Find the lines or paragraphs (parts) that also occur in an earlier row. Repetitions in the same row do not count.

    Args:
        hashes: uint64 [parts], the hashes of the parts of all rows, in row order.
        counts: int64 [rows], the number of parts of each row.

    Returns:
        bool [parts], True if an earlier row contains the same part.
    """
    rows = np.repeat(np.arange(len(counts)), counts)
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    is_copy: Bools = rows[first[inverse]] != rows
    return is_copy


def cut_chunk(
    chunk: RowChunk, rows: Int64s, cuts: PartCuts, first_part: int, names: Sequence[str]
) -> tuple[RowChunk, RowChunk, int]:
    """Split the texts of some rows into the lines or paragraphs (parts) that are kept and those that are removed.

    Args:
        chunk: Rows of a piece.
        rows: int64, zero-based indices in the chunk of the rows to edit.
        cuts: The parts to remove from the rows of the piece.
        first_part: Index in `cuts.is_removed` of the first part of these rows.
        names: Names of the text column. In each row, the first one that exists is used.

    Returns:
        The chunk without the removed parts, the chunk in which the edited rows contain only the removed parts, and the
        total number of parts in the edited rows.
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
    """Return a copy of a chunk with the texts of some rows replaced.

    Args:
        chunk: Rows of a piece. Its `texts` are not changed, only its fields and lines.
        new: Maps zero-based row indices to new texts.
        names: Names of the text column. In each row, the first one that exists is used.
    """
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
    """Return a copy of a row's fields with a new text.

    The text replaces the one that `find_text` returns, which must exist.

    Args:
        fields: The fields of the row.
        names: Names of the text column, preferred name first.
        text: The new text.

    >>> with_text({"data": {"text": "old", "n": 1}}, ["body", "data.text"], "new")
    {'data': {'text': 'new', 'n': 1}}
    """
    own = dict(fields or {})
    name = next(name for name in names if isinstance(find_value(own, name), str))
    first, _, rest = name.partition(".")
    return {**own, name: text} if name in own else {**own, first: with_text(own[first], [rest], text)}


def remove_parts(text: str, spans: Sequence[Sequence[int]], is_removed: Sequence[bool]) -> tuple[str, str]:
    """Split a text into the parts (lines or paragraphs) that are kept and those that are removed.

    A part includes all bytes up to the next part.

    Args:
        text: The text.
        spans: Start and end of each part as byte offsets in the UTF-8 text, in ascending order. Must not be empty.
        is_removed: One value per part: True if it is removed.

    Returns:
        The text without the removed parts, which is "" if all are removed, and the text of the removed parts.
    """
    data = text.encode()
    ends = [*(begin for begin, _ in spans[1:]), len(data)]
    kept, removed = (
        [data[b:e] for (b, _), e, each in zip(spans, ends, is_removed, strict=True) if each == side] for side in (0, 1)
    )
    kept_bytes = b"".join(kept) if not is_removed[-1] else b"".join(kept).rstrip()
    return (data[: spans[0][0]] + kept_bytes).decode() if kept else "", b"".join(removed).rstrip().decode()
