"""Writes the rows that stay and the removed rows with the reason, as Parquet or JSON lines with their original columns.

Promises: rows keep their order. A JSON line that stays is written byte for byte; a removed one with more fields at its
end. A removed row names the row that it duplicates, how similar the two are, and which share of its shingles (runs of
words) that row lacks.
Cost: reading, and compressing what is written. Memory: a chunk.
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
from corpora.sources.bytes.unchanged import format_change
from corpora.sources.files.parquet import list_batch_rows, to_row_json
from flows.dedup.columns import ADDED_COLUMNS, ColumnTypes, build_schema, convert_column
from flows.dedup.inputs import InputPiece, RowChunk, is_json_lines, list_text_names, read_chunks
from flows.dedup.judge import UNREAD
from flows.dedup.parts import PartCuts, cut_chunk

REASON_INDEX = [*ADDED_COLUMNS].index("reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceVerdict:
    """The decisions about the n rows of a piece (a range of a file), as input of `write_rows`.

    Attributes:
        is_kept: bool [n], True if the row is kept.
        cuts: Lines or paragraphs to remove from the texts of kept rows.
        added: The columns of `ADDED_COLUMNS`, with one row for each removed or edited row of the piece, in order.
    """

    is_kept: Bools
    cuts: PartCuts
    added: pa.RecordBatch


def name_added_columns(types: ColumnTypes) -> list[str]:
    """Choose names for the columns that are added to removed rows, in the order of ADDED_COLUMNS: "file", "row", ...

    Underscores are appended to names that are already in use.

    Args:
        types: The types of the columns of the input, by name.

    >>> name_added_columns({"reason": pa.string(), "text": pa.string()})[1:3]
    ['row', 'reason_']
    """
    names = []
    for name in ADDED_COLUMNS:
        while name in types:
            name += "_"
        names.append(name)
    return names


def write_rows(
    pieces: Sequence[tuple[InputPiece, PieceVerdict]], types: ColumnTypes, kept: Path, removed: Path
) -> None:
    """Read pieces of input files again, and write their rows to a file of kept rows and a file of removed rows.

    Files with names that end with .jsonl contain JSON lines. All others are Parquet files.

    Args:
        pieces: Pairs of a piece (a range of a file) and the decisions about its rows, in output order.
        types: The column types from `merge_types`.
        kept: Path of the file for kept rows.
        removed: Path of the file for removed rows, and for the text that was removed from edited rows.

    Raises:
        InputError: If an input cannot be read, or if its number of rows has changed since the decisions.
        OSError: If the output cannot be written.
    """
    schema = build_schema(types)
    added = pa.schema(list(zip(name_added_columns(types), ADDED_COLUMNS.values(), strict=True)))
    with ExitStack() as files:
        kept_file = files.enter_context(RowWriter(kept, schema))
        removed_file = files.enter_context(RowWriter(removed, pa.schema([*schema, *added])))
        for piece, verdicts in pieces:
            first_added = first_part = num_rows = 0
            is_edited = verdicts.cuts.is_edited
            wanted = is_edited if kept.suffix == ".jsonl" and is_json_lines(piece) else None
            for chunk in read_chunks(piece, wanted, with_fields=True):
                here = slice(chunk.first, chunk.first + len(chunk.texts))
                rows, edited = np.flatnonzero(verdicts.is_kept[here]), np.flatnonzero(is_edited[here])
                others = np.flatnonzero(~verdicts.is_kept[here] | is_edited[here])
                left = cut_out = chunk
                if len(edited):
                    left, cut_out, num_parts = cut_chunk(
                        chunk, edited, verdicts.cuts, first_part, list_text_names(piece)
                    )
                    first_part += num_parts
                if len(rows):
                    kept_file.write(left, rows, types)
                if len(others):
                    removed_file.write(
                        cut_out,
                        others,
                        types,
                        verdicts.added.slice(first_added, len(others)).rename_columns(added.names),
                    )
                    first_added += len(others)
                num_rows += len(chunk.texts)
            if num_rows != len(verdicts.is_kept):
                raise InputError(format_change(Path(piece.name)))


class RowWriter:
    """Context manager that writes rows to a JSON lines or Parquet file.

    The file is created immediately, and contains no rows if none is written.

    Args:
        path: Path of the file. If it ends with .jsonl, JSON lines are written, otherwise Parquet.
        schema: The schema of the rows.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._lines = path.suffix == ".jsonl"
        path.parent.mkdir(exist_ok=True)
        self._file: Any = path.open("wb") if self._lines else pq.ParquetWriter(path, schema, compression="zstd")

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, chunk: RowChunk, rows: Int64s, types: ColumnTypes, added: pa.RecordBatch | None = None) -> None:
        """Write some rows of a chunk to the file.

        Args:
            chunk: The chunk.
            rows: int64, zero-based indices of the rows in the chunk.
            types: The column types of the output.
            added: Additional columns, with one row for each of `rows`.

        Raises:
            OSError: If the file cannot be written.
        """
        if self._lines:
            self._file.write(b"".join(_iter_lines(chunk, rows, added)))  # at once: a removed line is no system call
            return
        fields: Any = chunk.fields
        if isinstance(fields, pa.RecordBatch):
            fields = fields if len(rows) == fields.num_rows else fields.take(pa.array(rows))
        else:
            fields = [fields[row] for row in rows.tolist()]
        columns = [convert_column(fields, name, types) for name in types]
        self._file.write_batch(
            pa.RecordBatch.from_arrays([*columns, *(added.columns if added is not None else ())], schema=self._schema)
        )


def _iter_lines(chunk: RowChunk, rows: Int64s, added: pa.RecordBatch | None) -> Iterator[bytes]:
    """Yield each row as a JSON line in bytes, with its line ending.

    Args:
        chunk: The chunk.
        rows: int64, zero-based indices of the rows in the chunk.
        added: Columns that become fields at the end of each line; None if there are none.
    """
    if added is None and chunk.json_lines is not None:
        yield chunk.json_lines.select(rows).join()
        return
    original = _iter_original_lines(chunk, rows)
    if added is None:
        yield from (line + b"\n" for line in original)
        return
    for line, reason, fields in zip(
        original, added.column(REASON_INDEX).to_pylist(), _format_fields(added), strict=True
    ):
        if reason == UNREAD and chunk.json_lines is not None:
            line = to_row_json({"raw": line.decode(errors="backslashreplace")})
        head = line[:-1].rstrip()
        yield head + (b"" if head.endswith(b"{") else b", ") + fields + b"}\n"


def _iter_original_lines(chunk: RowChunk, rows: Int64s) -> Iterator[bytes]:
    """Yield the original JSON line of each row. A row that was not read from JSON lines becomes a new line.

    The lines are bytes without line endings. `rows` has the zero-based indices of the rows in the chunk.
    """
    if chunk.json_lines is not None:
        return (chunk.json_lines[row].strip() for row in rows.tolist())
    batch = chunk.fields.take(pa.array(rows)) if isinstance(chunk.fields, pa.RecordBatch) else None
    fields = (
        [row for row, _ in list_batch_rows(batch)] if batch is not None else [chunk.fields[at] for at in rows.tolist()]
    )
    return (to_row_json(dict(each or {})) for each in fields)


def _format_fields(added: pa.RecordBatch) -> list[bytes]:
    """Format each row of a batch as the content of a JSON object, without braces.

    >>> _format_fields(pa.RecordBatch.from_pydict({"reason": ["a", None], "row": [7, 8]}))
    [b'"reason": "a", "row": 7', b'"reason": null, "row": 8']
    """
    fields = []
    for name, values in zip(added.schema.names, added.columns, strict=True):
        key, write = encode_basestring(name), encode_basestring if pa.types.is_string(values.type) else repr
        fields.append([f"{key}: {'null' if value is None else write(value)}" for value in values.to_pylist()])
    return [", ".join(row).encode() for row in zip(*fields, strict=True)]
