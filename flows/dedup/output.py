"""Writes the rows that stay, and the removed ones with the reason: Parquet or JSON lines, with all columns as they
came.

Promises: rows keep their order. JSON lines from JSON lines are the very lines, a removed one with more fields. Of a
removed row is written whose copy it is, how similar the two are and which share of its shingles the survivor lacks.
Cost: reading, and compressing what stays. Memory: a chunk.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpora.errors import InputError
from corpora.kernels.arrays import Bools, Int64s
from corpora.sources.bytes.unchanged import changed_words
from corpora.sources.files.parquet import batch_rows, row_json
from flows.dedup.columns import ADDED, Kinds, column, schema_of
from flows.dedup.inputs import (
    InputPiece,
    RowChunk,
    chunks,
    is_lines,
    names_of_text,
)
from flows.dedup.judge import UNREAD
from flows.dedup.parts import PartCuts, cut_chunk

REASON = [*ADDED].index("reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What was decided about the rows of one piece.

    added: the columns of `ADDED`, of the removed rows and those of which parts are cut out
    """

    kept: Bools
    cuts: PartCuts
    added: pa.RecordBatch


def added_names(kinds: Kinds) -> list[str]:
    """The names of the added columns; one that the rows have already gets an underscore.

    >>> added_names({"reason": pa.string(), "text": pa.string()})[1:3]
    ['row', 'reason_']
    """
    names = []
    for name in ADDED:
        while name in kinds:
            name += "_"
        names.append(name)
    return names


def write_rows(pieces: Sequence[tuple[InputPiece, Fate]], kinds: Kinds, kept: Path, removed: Path) -> None:
    """Write the rows of some pieces to two files, of JSON lines where they end so. Raises InputError, OSError."""
    schema = schema_of(kinds)
    added = pa.schema(list(zip(added_names(kinds), ADDED.values(), strict=True)))
    with ExitStack() as files:
        stay = files.enter_context(_Writer(kept, schema))
        gone = files.enter_context(_Writer(removed, pa.schema([*schema, *added])))
        for piece, fate in pieces:
            before = before_cut = num_rows = 0
            touched = fate.cuts.touched
            wanted = touched if kept.suffix == ".jsonl" and is_lines(piece) else None
            for chunk in chunks(piece, wanted, with_fields=True):
                here = slice(chunk.first, chunk.first + len(chunk.texts))
                rows, edited = np.flatnonzero(fate.kept[here]), np.flatnonzero(touched[here])
                others = np.flatnonzero(~fate.kept[here] | touched[here])
                left = taken = chunk
                if len(edited):
                    left, taken, used = cut_chunk(chunk, edited, fate.cuts, before_cut, names_of_text(piece))
                    before_cut += used
                if len(rows):
                    stay.write(left, rows, kinds)
                if len(others):
                    gone.write(taken, others, kinds, fate.added.slice(before, len(others)).rename_columns(added.names))
                    before += len(others)
                num_rows += len(chunk.texts)
            if num_rows != len(fate.kept):
                raise InputError(changed_words(Path(piece.name)))


class _Writer:
    """One file of rows, which is there from the beginning, with no rows where none are written."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._lines = path.suffix == ".jsonl"
        path.parent.mkdir(exist_ok=True)
        self._file: Any = path.open("wb") if self._lines else pq.ParquetWriter(path, schema, compression="zstd")

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, chunk: RowChunk, rows: Int64s, kinds: Kinds, told: pa.RecordBatch | None = None) -> None:
        """Write some rows of a chunk. told: more columns of these rows."""
        if self._lines:
            self._file.write(b"".join(_lines(chunk, rows, told)))  # at once: a removed line is no system call
            return
        fields: Any = chunk.fields
        if isinstance(fields, pa.RecordBatch):
            fields = fields if len(rows) == fields.num_rows else fields.take(pa.array(rows))
        else:
            fields = [fields[row] for row in rows.tolist()]
        columns = [column(fields, name, kinds) for name in kinds]
        self._file.write_batch(
            pa.RecordBatch.from_arrays([*columns, *(told.columns if told is not None else ())], schema=self._schema)
        )


def _lines(chunk: RowChunk, rows: Int64s, told: pa.RecordBatch | None) -> Iterator[bytes]:
    if told is None and chunk.raw is not None:
        yield chunk.raw.take(rows).joined()
        return
    own = _own_lines(chunk, rows)
    if told is None:
        yield from (line + b"\n" for line in own)
        return
    for line, reason, fields in zip(own, told.column(REASON).to_pylist(), _as_json(told), strict=True):
        if reason == UNREAD and chunk.raw is not None:
            line = row_json({"raw": line.decode(errors="backslashreplace")})
        head = line[:-1].rstrip()
        yield head + (b"" if head.endswith(b"{") else b", ") + fields + b"}\n"


def _own_lines(chunk: RowChunk, rows: Int64s) -> Iterator[bytes]:
    """The lines that some rows are, or else become."""
    if chunk.raw is not None:
        return (chunk.raw[row].strip() for row in rows.tolist())
    batch = chunk.fields.take(pa.array(rows)) if isinstance(chunk.fields, pa.RecordBatch) else None
    fields = [row for row, _ in batch_rows(batch)] if batch is not None else [chunk.fields[at] for at in rows.tolist()]
    return (row_json(dict(each or {})) for each in fields)


def _as_json(told: pa.RecordBatch) -> list[bytes]:
    """The fields of each row, as an object of JSON has them inside.

    >>> _as_json(pa.RecordBatch.from_pydict({"reason": ["a", None], "row": [7, 8]}))
    [b'"reason": "a", "row": 7', b'"reason": null, "row": 8']
    """
    fields = []
    for name, values in zip(told.schema.names, told.columns, strict=True):
        key, write = encode_basestring(name), encode_basestring if pa.types.is_string(values.type) else repr
        fields.append([f"{key}: {'null' if value is None else write(value)}" for value in values.to_pylist()])
    return [", ".join(row).encode() for row in zip(*fields, strict=True)]
