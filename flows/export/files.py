"""Files of bounded size from a stream of rows: row groups and files end where the rows say, not where batches do.

Promise: the same rows give the same files, however they were cut into record batches (with one version of pyarrow). A
file has no more than `file_bytes`, a row group no more than `group_bytes` of rows as they are in memory; a single row
that is larger has one of its own.
Cost: that of Parquet's encoding and zstd; each file is read once more for its sha256. Memory: a row group twice.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from corpora.kernels.arrays import Int64s

GROUP_BYTES = 32 << 20
GROUPS = 8  # row groups that a file holds at least, where there are so many: it ends before one that may not fit
FOOTER_BYTES = 1 << 16  # left for what a file has besides rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file of an export. path: in its folder; split, rows and row_bytes: of a file of rows"""

    path: str
    size_bytes: int
    sha256: str
    split: str = ""
    rows: int = 0
    row_bytes: int = 0


class SplitFiles:
    """The files of one split, written one after another below a folder."""

    def __init__(
        self, folder: Path, called: str, schema: pa.Schema, file_bytes: int, group_bytes: int = GROUP_BYTES
    ) -> None:
        self._folder, self._called, self._schema = folder, called, schema
        self._file_bytes, self._group_bytes = file_bytes, min(group_bytes, file_bytes // GROUPS)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._files: list[ExportedFile] = []
        self._sink: pa.NativeFile | None = None
        self._writer: Any = None
        self._rows = self._row_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; full row groups are written."""
        sizes = row_sizes(batch)
        first = 0
        while first < batch.num_rows:
            reached = np.cumsum(sizes[first:]) + self._pending_bytes
            fitting = int(np.searchsorted(reached, self._group_bytes, side="right"))
            if fitting == 0 and not self._pending:
                fitting = 1
            self._pending += [batch.slice(first, fitting)] if fitting else []
            self._pending_bytes += int(sizes[first : first + fitting].sum())
            first += fitting
            if first < batch.num_rows:
                self._write_group()

    def finish(self) -> list[ExportedFile]:
        """Write what is left; the files under their final names, in order."""
        if self._pending:
            self._write_group()
        self._close()
        return [replace(file, path=self._named(number, file.path)) for number, file in enumerate(self._files)]

    def _named(self, number: int, path: str) -> str:
        """Give a file the name that says how many there are."""
        name = f"data/{self._called}-{number:05}-of-{len(self._files):05}.parquet"
        (self._folder / path).rename(self._folder / name)
        return name

    def _write_group(self) -> None:
        if self._sink is not None and self._sink.tell() + self._pending_bytes + FOOTER_BYTES > self._file_bytes:
            self._close()
        if self._sink is None:
            self._open()
        table = pa.Table.from_batches(self._pending, self._schema).combine_chunks()
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._rows += table.num_rows
        self._row_bytes += self._pending_bytes
        self._pending, self._pending_bytes = [], 0

    @property
    def _path(self) -> str:
        return f"data/{self._called}-{len(self._files):05}.parquet"

    def _open(self) -> None:
        (self._folder / "data").mkdir(exist_ok=True)
        self._sink = pa.OSFile(str(self._folder / self._path), "wb")
        self._writer = pq.ParquetWriter(
            self._sink, self._schema, compression="zstd", version="2.6", write_page_checksum=True
        )

    def _close(self) -> None:
        if self._sink is None:
            return
        self._writer.close()
        self._sink.close()
        written = file_at(self._folder, self._path)
        self._files.append(replace(written, split=self._called, rows=self._rows, row_bytes=self._row_bytes))
        self._sink, self._rows, self._row_bytes = None, 0, 0


def file_at(folder: Path, path: str) -> ExportedFile:
    """Return a file of a folder, with its size and sha256."""
    with (folder / path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return ExportedFile(path=path, size_bytes=file.tell(), sha256=digest)


def row_sizes(batch: pa.RecordBatch) -> Int64s:
    """Return the bytes of each row, as it is in memory: it depends on the row alone.

    >>> row_sizes(pa.record_batch({"a": ["xyz", None], "b": pa.array([1, 2], pa.int8())})).tolist()
    [8, 5]
    """
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        for part in _sizes(column):
            sizes += part
    return sizes


def _sizes(column: pa.Array) -> Iterator[Int64s]:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64) + 4
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        each = 36 if pa.types.is_string(kind.value_type) else max(1, kind.value_type.bit_width // 8)
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        yield lengths.astype(np.int64) * each + 4
    else:
        yield np.full(len(column), max(1, kind.bit_width // 8), np.int64)
