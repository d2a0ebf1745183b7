"""Lines of JSON in blocks, and their texts as a column.

Promise: the rows of a block, and their texts, are those that Python's json gives, line by line.
Cost: 2 ns a byte. Memory: BLOCK_BYTES, or one line if that is longer.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.kernels.arrays import Bools, Int64s
from corpora.sources.bytes.faults import BadRecord, refusing_damage
from corpora.sources.bytes.objects import raw_path
from corpora.sources.bytes.raw_files import line_after, skip_line
from corpora.sources.bytes.recoded import open_lines
from corpora.sources.contract import Slice
from corpora.sources.files.fields import look_up
from corpora.sources.files.formats import JsonLines, stop_of, wide_lines
from flows.dedup.json_spans import ABSENT, copy_strings, find_breaks, find_spans

BLOCK_BYTES, BLOCK_ROWS = 4_000_000, 16_384
Fields = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that are not blank: data[starts[i]:ends[i]], without their ends. One that is too long is a zero."""

    data: bytes
    starts: Int64s
    ends: Int64s

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.ends[row]]

    def take(self, rows: Int64s) -> "Lines":
        """Some of the lines."""
        return Lines(self.data, self.starts[rows], self.ends[rows])

    def joined(self) -> bytes:
        """The bytes of all lines, each with a newline."""
        view = memoryview(self.data)
        breaks = np.flatnonzero(self.starts[1:] != self.ends[:-1] + 1) + 1  # what is adjacent is one piece
        firsts, lasts = self.starts[np.r_[0, breaks]].tolist(), self.ends[np.r_[breaks, len(self)] - 1].tolist()
        return b"\n".join([*(view[first:last] for first, last in zip(firsts, lasts, strict=True)), b""])


def blocks(where: Slice, form: JsonLines) -> Iterator[Lines]:
    """The lines that begin in a slice. Raises InputError for a file that cannot be read to its end."""
    path = raw_path(where.file.path)
    wide = "" if where.start else wide_lines(path, form.encoding)
    stop = None if wide else stop_of(where)
    with open_lines(path, wide) as stream, refusing_damage(path):
        at = line_after(stream, where.start, stop) if where.start else 0
        while stop is None or at < stop:
            data = stream.read(BLOCK_BYTES if stop is None else min(BLOCK_BYTES, stop - at))
            if not data:
                return
            at += len(data)
            if not data.endswith(b"\n"):
                rest = stream.readline(form.max_record_bytes)
                at += len(rest)
                if len(rest) == form.max_record_bytes and not rest.endswith(b"\n"):
                    at += skip_line(stream)
                    data, rest = data[: data.rfind(b"\n") + 1], b"\0"
                data += rest
            yield from split_lines(data)


def split_lines(data: bytes) -> Iterator[Lines]:
    """Some bytes as lines, in blocks of BLOCK_ROWS."""
    view = np.frombuffer(data, np.uint8)
    ends = np.empty(data.count(b"\n"), np.int64)
    find_breaks(view, ends)
    if not data.endswith(b"\n"):
        ends = np.r_[ends, len(data)]
    starts = np.r_[0, ends[:-1] + 1]
    ends = ends - ((ends > starts) & (view[ends - 1] == ord("\r")))
    full = ends > starts
    for row in np.flatnonzero(full & (view[np.minimum(starts, len(data) - 1)] <= ord(" "))).tolist():
        full[row] = not data[starts[row] : ends[row]].isspace()
    rows = np.flatnonzero(full)
    for first in range(0, len(rows), BLOCK_ROWS):
        some = rows[first : first + BLOCK_ROWS]
        yield Lines(data, starts[some], ends[some])


def read_lines(
    lines: Lines, rows: Int64s, form: JsonLines, texts: Sequence[str], others: Sequence[str]
) -> tuple[pa.Array, list[Fields]]:
    """The texts of some of the lines, null where there is none, and their fields `others`; None for what is no object.

    texts: names of the text, of which the first counts that a line has
    """
    names = [*texts, *others]
    spans, plain = np.full((len(lines), len(names), 2), ABSENT), np.ones(len(lines), np.bool_)
    spans[rows], plain[rows] = find_values(lines.take(rows), names)
    if any("." in name for name in names):
        plain[rows] = False  # a path, or a name that has a dot
    view = np.frombuffer(lines.data, np.uint8)
    starts, ends = np.full(len(lines), ABSENT), np.full(len(lines), ABSENT)
    for at in reversed(range(len(texts))):
        found = plain & (spans[:, at, 0] >= 0) & (view[spans[:, at, 0]] == ord('"'))
        starts[found], ends[found] = spans[found, at, 0], spans[found, at, 1]
    offsets, out = np.zeros(len(lines) + 1, np.int64), np.empty(int((ends - starts).sum()), np.uint8)
    copy_strings(view, starts, ends, out, offsets, plain)
    there = np.packbits(starts >= 0, bitorder="little")
    column = pa.Array.from_buffers(
        pa.large_string(), len(lines), [pa.py_buffer(there), pa.py_buffer(offsets), pa.py_buffer(out)]
    )
    fields: list[Fields] = [{}] * len(lines)
    for row in np.flatnonzero(plain & (spans[:, len(texts) :, 0] >= 0).any(axis=1)).tolist():
        values = zip(others, spans[row, len(texts) :].tolist(), strict=True)
        fields[row] = {name: json.loads(lines.data[start:end]) for name, (start, end) in values if start >= 0}
    if not plain.all():
        for row in np.flatnonzero(~plain).tolist():
            fields[row] = parsed(form, lines[row])
        by_python = [text_of(fields[row], texts) for row in np.flatnonzero(~plain).tolist()]
        column = pc.replace_with_mask(column, pa.array(~plain), pa.array(by_python, pa.large_string()))
    return column, fields


def find_values(lines: Lines, names: Sequence[str]) -> tuple[Int64s, Bools]:
    """Where the named values are, and which lines are plain: none where the block is not UTF-8."""
    encoded = [name.encode() for name in names]
    spans, plain = np.full((len(lines), len(names), 2), ABSENT), np.zeros(len(lines), np.bool_)
    view = np.frombuffer(lines.data, np.uint8)
    name_ends = np.cumsum([len(name) for name in encoded])
    find_spans(view, lines.starts, lines.ends, np.frombuffer(b"".join(encoded), np.uint8), name_ends, spans, plain)
    offsets = pa.py_buffer(np.array([0, len(view)], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(lines.data)).validate(full=True)
    except pa.ArrowInvalid:
        plain[:] = False
    return spans, plain


def parsed(form: JsonLines, data: bytes) -> Fields:
    """The object that a line is; None for what is none."""
    with suppress(ValueError, RecursionError):  # other encodings, and what is no JSON, go the long way
        value = json.loads(data.decode())
        if isinstance(value, dict):
            return value
    with suppress(BadRecord):
        return form.parse(data, 0)
    return None


def text_of(fields: Fields, names: Sequence[str]) -> str | None:
    """The first text that some fields have under a name; half a character is a replacement mark."""
    for name in names if fields is not None else ():
        value = look_up(fields or {}, name)
        if isinstance(value, str):
            return value if value.isascii() else value.encode(errors="replace").decode()
    return None
