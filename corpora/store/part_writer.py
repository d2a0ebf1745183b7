"""Writes the tables and files of one part, and collects the data for the part's record.

Promise: rows, pieces of the file and the whole file are digested in memory while they are written.

Cost: sha256 of the bytes (some 1.5 GB a second), a digest of each column (10 GB a second) and the content of the rows
(`content.py`); memory for a record batch twice as it is written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from corpora.store.digests.arrow_layout import BatchChecks, TableChecks, compute_digest, digest_batch, measure_head
from corpora.store.digests.content import Content, compute_content
from corpora.store.manifest import StoredFile
from corpora.store.places.place import HashingSink, Place


class PartWriter:
    """Writes the tables and files of one part (a set of files of an artifact), and records their digests.

    It is the first argument of every build function.

    Args:
        place: The store to read from.
        out: The store to write to. It differs from `place` only if a part is rebuilt for comparison.
        folder: The folder of the stage in the store, `KIND/NAME`.
        artifact: Fingerprint of the artifact that the part is built for.
        name: Name of the part.

    Attributes:
        files: The files written so far.
        checks: The digests of each Arrow file written so far, by the file's path as in `StoredFile.path`.
    """

    def __init__(self, place: Place, out: Place, folder: str, artifact: str, name: str) -> None:
        self.place = place
        self._out = out
        self._folder = folder
        self._artifact = artifact
        self._name = name
        self.files: list[StoredFile] = []
        self.checks: dict[str, TableChecks] = {}

    @contextmanager
    def create_table(
        self,
        table: str,
        schema: pa.Schema,
        compression: str | None = "zstd",
        sorted_by: str | None = None,
        folder: str = "",
    ) -> "Iterator[TableSink]":
        """Open an Arrow IPC file for the rows of a table. The file becomes visible only if the block succeeds.

        Args:
            table: Name of the table. Each name can be used once per part.
            schema: The schema of the rows. Its metadata are written as well, and do not affect the content.
            compression: "zstd", "lz4", or None for no compression.
            sorted_by: Name of the integer column by which all rows are sorted in ascending order, or None. If given,
                the part record stores the first and last value of each batch, as required by `find_key_rows`. The order
                is not checked.
            folder: Folder of the file inside the artifact's folder, such as "examples/train"; "" for the artifact's own
                folder.

        Yields:
            The `TableSink` to write rows to.

        Raises:
            InputError: If the file cannot be written, e.g. because the disk is full.
        """
        path = self._build_path(f"{folder}/{self._name}.{table}.arrow".removeprefix("/"))
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with self._out.create(f"{self._folder}/{path}", is_final=True) as sink:
            tap = _Tap(sink)
            with pa.ipc.new_file(pa.PythonFile(tap, "w"), schema, options=options) as writer:
                rows = TableSink(writer, tap, sorted_by)
                yield rows
            self.checks[path] = rows.build_checks()
            size, digest = sink.size_bytes, sink.sha256()
        self._add_file(path, table, rows.content, size, digest)

    def write_file(self, name: str, data: bytes, table: str = "files") -> None:
        """Write a file that is not a table into the artifact's folder.

        Args:
            name: Name of the file. Each name can be used once per part.
            data: All bytes of the file.
            table: Name under which the file is recorded. Its content is recorded as for a table with one row, which
                consists of the name and the bytes.

        Raises:
            InputError: If the file cannot be written.
        """
        path = self._build_path(name)
        with self._out.create(f"{self._folder}/{path}", is_final=True) as sink:
            sink.write(data)
        row = pa.table({"name": pa.array([name]), "data": pa.array([data], pa.large_binary())})
        self._add_file(path, table, compute_content(row), sink.size_bytes, sink.sha256())

    def _build_path(self, name: str) -> str:
        path = f"{self._artifact}/{name}"
        assert path not in {file.path for file in self.files}, f"part {self._name} writes {name} twice"
        return path

    def _add_file(self, path: str, table: str, content: Content, size_bytes: int, sha256: str) -> None:
        file = StoredFile(path=path, table=table, content=content, size_bytes=size_bytes, sha256=sha256)
        self.files.append(file)


class _Tap:
    """A file wrapper that also stores the bytes written since the last call of `take_written`."""

    closed = False

    def __init__(self, sink: HashingSink) -> None:
        self._sink = sink
        self._last: list[bytes] = []

    def write(self, data: Any) -> int:
        """Write bytes or an Arrow buffer to the wrapped file, and keep a copy for `take_written`.

        Return the number of bytes written.
        """
        self._last.append(bytes(data))
        return self._sink.write(self._last[-1])

    def flush(self) -> None:
        """Flush the wrapped file, so that buffered data reach the operating system."""
        self._sink.flush()

    def tell(self) -> int:
        """Return the number of bytes written to the wrapped file so far."""
        return self._sink.tell()

    def take_written(self) -> memoryview:
        """Return the bytes written since the last call, and discard the stored copy."""
        last, self._last = b"".join(self._last), []
        return memoryview(last)


class TableSink:
    """Writes rows to one table of a part, and computes the digests for its verification. See `create_table`."""

    def __init__(self, writer: Any, tap: _Tap, sorted_by: str | None) -> None:
        self._writer = writer
        self._tap = tap
        self._sorted_by = sorted_by
        self._head: memoryview = memoryview(b"")
        self._batches: list[BatchChecks] = []
        self.content = Content()

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Append rows, which must have the schema of the table.

        Each record batch of `rows` becomes a record batch of the file.

        Raises:
            InputError: If the rows cannot be written, e.g. because the disk is full.
            pyarrow.ArrowInvalid: If the rows have another schema.
        """
        for batch in [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches():
            content = compute_content(batch)
            self._writer.write_batch(batch)
            message = self._without_head(self._tap.take_written())
            offset = self._batches[-1].end if self._batches else len(self._head)
            self._batches.append(digest_batch(message, offset, batch, content, self._sorted_by))
            self.content += content

    def build_checks(self) -> TableChecks:
        """Return the digests of the file for the part's record. Call this once, after the Arrow writer is closed."""
        tail = self._without_head(self._tap.take_written())
        return TableChecks(
            head_bytes=len(self._head),
            head=compute_digest(self._head),
            tail=compute_digest(tail),
            batches=tuple(self._batches),
        )

    def _without_head(self, written: memoryview) -> memoryview:
        """Remove the head of the file, which precedes the first batch, from newly written bytes.

        The head is stored when the first bytes are given. Later bytes are returned unchanged.
        """
        if self._head:
            return written
        length = measure_head(written)
        self._head = written[:length]
        return written[length:]
