"""Reads the requested columns and rows of tables, and verifies them before they are decoded.

Promise: only the record batches that contain the requested rows are read, and only their requested columns are compared
with their digests and decompressed. If a column is not what was written, `Damaged` is raised, which names the file, and
nothing of the batch is returned.

Cost: checking takes a tenth of what unpacking takes (`benchmarks.tables` of commit 6bbde13), for the bytes are read
once more at 10 GB a second or more; the ids of documents of 3 KB are read in a fortieth of the time of all columns.
Opening a part of a local store takes some half a millisecond, its record included. An object store gets a request for
the size of each file and, for one up to FETCH_BYTES bytes, one for all of it, which the process then caches. Of a
larger one, pieces of FETCH_BYTES bytes are requested from its head, a batch's metadata and its columns on, and runs of
columns that are longer.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Int64s
from corpora.store.damage import Damaged
from corpora.store.digests.arrow_layout import MAGIC, Span, TableChecks, compute_digest, locate_columns
from corpora.store.digests.content import Content, compute_content
from corpora.store.manifest import Manifest, Part, StoredFile, read_checks
from corpora.store.places.object_store import FETCH_BYTES
from corpora.store.places.place import Place

_MAX_GAP_BYTES = 1 << 16  # bytes between two wanted pieces of an object that are read rather than asked for around


def read_part_table(
    place: Place,
    stage_folder: str,
    part: Part,
    table: str,
    columns: Sequence[str] | None = None,
    rows: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of one table of one part. Only the required columns and batches are read and verified.

    A part is a set of files of an artifact. Rows are numbered consecutively across its files of the table.

    Args:
        place: The store.
        stage_folder: The folder of the part's stage in the store, `KIND/NAME`.
        part: The part.
        table: Name of the table. If the part does not have it, nothing is yielded.
        columns: Names of the columns to read, in this order (default: all columns).
        rows: Zero-based indices of the rows to read, relative to the part (default: all rows). Indices outside the part
            are ignored. For a `range`, which must have the step 1, the rows are yielded as in the file, one batch for
            each record batch in the range; the first and last batch may be cut. Any other sequence must be in ascending
            order, and each row is yielded as a separate batch.

    Raises:
        Damaged: During iteration, if a file that is read is missing, damaged or modified.
    """
    first = 0
    for table_file in _iter_table_files(place, stage_folder, part, table, columns):
        yield from table_file.iter_batches(None if rows is None else _shift_rows(rows, first))
        first += table_file.file.content.rows


def read_part_rows(
    place: Place, stage_folder: str, part: Part, table: str, columns: Sequence[str], rows: Int64s
) -> Iterator[pa.RecordBatch]:
    """Yield selected rows of one table of one part (a set of files of an artifact).

    For each record batch that contains selected rows, one batch with only these rows is yielded.

    Args:
        place: The store.
        stage_folder: The folder of the part's stage in the store, `KIND/NAME`.
        part: The part.
        table: Name of the table. If the part does not have it, nothing is yielded.
        columns: Names of the columns to read, in this order.
        rows: int64 [rows], zero-based indices relative to the part, in ascending order. Indices outside the part are
            ignored, and a repeated index is yielded once.

    Raises:
        Damaged: During iteration, if a file that is read is missing, damaged or modified.
    """
    first = 0
    for table_file in _iter_table_files(place, stage_folder, part, table, columns):
        yield from table_file.iter_rows(rows - first)
        first += table_file.file.content.rows


class MappedBatch(NamedTuple):
    """A record batch of a memory-mapped file that has not been verified yet.

    Attributes:
        rows: The record batch.
        check: Verifies the columns of the batch, and raises Damaged if one is damaged. Call it before using the rows.
    """

    rows: pa.RecordBatch
    check: Callable[[], None]


def map_part_table(
    place: Place, stage_folder: str, part: Part, table: str, columns: Sequence[str] | None = None
) -> Iterator[MappedBatch]:
    """Yield the record batches of one table of one part (a set of files) without verifying their columns.

    The caller must verify each batch before using its rows. Batches from an object store are verified as they are
    fetched.

    Args:
        place: The store.
        stage_folder: The folder of the part's stage in the store, `KIND/NAME`.
        part: The part.
        table: Name of the table. If the part does not have it, nothing is yielded.
        columns: Names of the columns to read, in this order (default: all columns).

    Raises:
        Damaged: During iteration, if a file is missing, or is damaged outside the columns.
    """
    for table_file in _iter_table_files(place, stage_folder, part, table, columns):
        yield from table_file.iter_mapped()


def _iter_table_files(
    place: Place, stage_folder: str, part: Part, table: str, columns: Sequence[str] | None
) -> "Iterator[_TableFile]":
    for file in (file for file in part.files if file.table == table):
        checks = _find_checks(place, stage_folder, part, file)
        yield _TableFile(place=place, path=f"{stage_folder}/{file.path}", file=file, checks=checks, columns=columns)


def _find_checks(place: Place, stage_folder: str, part: Part, file: StoredFile) -> TableChecks:
    """Find the digests of an Arrow file in its part's record.

    Args:
        place: The store.
        stage_folder: The folder of the part's stage in the store, `KIND/NAME`.
        part: The part that the file belongs to.
        file: The Arrow file.

    Raises:
        Damaged: If the record is missing or damaged, or does not describe the file.
    """
    checks = read_checks(place, stage_folder, part)
    if file.path not in checks:
        raise Damaged(f"{stage_folder}/{file.path}", "the record of its part does not describe it")
    return checks[file.path]


def _shift_rows(rows: Sequence[int], first: int) -> Sequence[int]:
    """Subtract `first` from each row index. Returns a `range` for a `range`, and a list for any other sequence."""
    return range(rows.start - first, rows.stop - first) if isinstance(rows, range) else [row - first for row in rows]


def read_table(
    place: Place, manifest: Manifest, table: str, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of one table of an artifact, part by part, in order.

    Args:
        place: The store.
        manifest: The manifest of the artifact.
        table: Name of the table. Parts that do not have it are skipped.
        columns: Names of the columns to read, in this order (default: all columns).

    Raises:
        Damaged: During iteration, if a file that is read is missing, damaged or modified.
    """
    for part in manifest.parts:
        yield from read_part_table(place, manifest.stage_folder, part, table, columns)


def find_key_rows(place: Place, stage_folder: str, part: Part, table: str, first: int, last: int) -> range:
    """Find a range of rows that includes all rows of a part with keys from `first` to `last`, both inclusive.

    The range consists of whole record batches, so it may also include rows with other keys. It is determined from the
    part's record, without reading any rows.

    Args:
        place: The store.
        stage_folder: The folder of the part's stage in the store, `KIND/NAME`.
        part: The part (a set of files of an artifact).
        table: Name of the table, which must have been written with `sorted_by`.
        first: The lowest key.
        last: The highest key.

    Returns:
        Zero-based row indices relative to the part. Empty if no batch can contain such a key.

    Raises:
        Damaged: If the part's record is missing or damaged, or does not describe a file of the table.
    """
    batches = [
        batch
        for file in part.files
        if file.table == table
        for batch in _find_checks(place, stage_folder, part, file).batches
    ]
    start = stop = row = 0
    for batch in batches:
        assert batch.key_range is not None or not batch.rows, f"{table} of {stage_folder} is not sorted"
        if batch.key_range is not None and batch.key_range[1] >= first and batch.key_range[0] <= last:
            start, stop = (row if stop == 0 else start), row + batch.rows
        row += batch.rows
    return range(start, stop)


def compute_slice_contents(place: Place, manifest: Manifest, table: str, bounds: Sequence[int]) -> list[Content]:
    """Compute the content of each slice of a table: the number of rows and a digest of them.

    The contents of whole record batches are taken from the part records. Only batches that are cut by a bound are read.

    Args:
        place: The store.
        manifest: The manifest of the artifact.
        table: Name of the table.
        bounds: Zero-based row indices over all parts, in ascending order. Must not be empty.

    Returns:
        One content for each pair of neighboring bounds: rows `bounds[i]` up to, but not including, `bounds[i + 1]`.

    Raises:
        Damaged: If a file that is read is missing, damaged or modified.
    """
    contents = [Content()] * (len(bounds) - 1)
    before = 0
    for part in manifest.parts:
        row = before
        for rows, content in _read_batch_contents(place, manifest.stage_folder, part, table):
            first, row = row, row + rows
            slice_number = bisect_right(bounds, first) - 1
            if 0 <= slice_number < len(contents) and row <= bounds[slice_number + 1]:
                contents[slice_number] += content
            elif row > bounds[0] and first < bounds[-1]:
                batch_rows = range(first - before, row - before)
                [batch] = read_part_table(place, manifest.stage_folder, part, table, columns=None, rows=batch_rows)
                slice_number = max(slice_number, 0)
                while slice_number < len(contents) and bounds[slice_number] < row:
                    start, stop = max(bounds[slice_number], first), min(bounds[slice_number + 1], row)
                    contents[slice_number] += compute_content(batch.slice(start - first, stop - start))
                    slice_number += 1
        before = row
    return contents


def _read_batch_contents(place: Place, stage_folder: str, part: Part, table: str) -> list[tuple[int, Content]]:
    """Return (number of rows, content) for each record batch of a table of a part, without empty batches.

    They are taken from the part's record, so no rows are read.

    Args:
        place: The store.
        stage_folder: The folder of the part's stage in the store, `KIND/NAME`.
        part: The part (a set of files).
        table: Name of the table.

    Raises:
        Damaged: If the part's record is missing or damaged, or does not describe a file of the table.
    """
    files = (file for file in part.files if file.table == table)
    batches = (batch for file in files for batch in _find_checks(place, stage_folder, part, file).batches)
    return [(batch.rows, batch.content) for batch in batches if batch.rows]


def read_file(place: Place, stage_folder: str, file: StoredFile) -> bytes:
    """Read a file that is not a table, verify it, and return its bytes.

    Args:
        place: The store.
        stage_folder: The folder of the file's stage in the store, `KIND/NAME`.
        file: The file's description from a manifest.

    Raises:
        Damaged: If the file is missing, damaged or modified.
        InputError: If it cannot be read.
    """
    return _read_whole_file(place, f"{stage_folder}/{file.path}", file)


def _read_whole_file(place: Place, path: str, file: StoredFile) -> bytes:
    def check(data: bytes) -> bytes:
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise Damaged(path, "its bytes are not those that were written")
        return data

    try:
        return place.read_checked(path, check)
    except FileNotFoundError as error:
        raise Damaged(path, "it is gone") from error


def read_files(place: Place, manifest: Manifest) -> dict[str, bytes]:
    """Read all files of an artifact that are not tables, and verify them.

    Args:
        place: The store.
        manifest: The artifact.

    Returns:
        Maps the name of each file, without folder, to its bytes.

    Raises:
        Damaged: If a file is missing, damaged or modified.
        InputError: If a file cannot be read.
    """
    files = [file for part in manifest.parts for file in part.files if file.table == "files"]
    return {file.path.rsplit("/", 1)[-1]: read_file(place, manifest.stage_folder, file) for file in files}


class _BatchSlice(NamedTuple):
    """Rows of record batch `number` from `start` up to, but not including, `stop`, relative to the batch."""

    number: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableFile:
    """One Arrow file of a table, with the digests from the part's record. `path` is its path in the store."""

    place: Place
    path: str
    file: StoredFile
    checks: TableChecks
    columns: Sequence[str] | None

    def iter_batches(self, rows: Sequence[int] | None) -> Iterator[pa.RecordBatch]:
        """Yield the batches that contain the given rows, cut to these rows.

        Args:
            rows: Zero-based indices relative to the file: a `range`, or a sequence in ascending order, which gives one
                batch per row; None for all rows.

        Raises:
            Damaged: If the file is missing, damaged or modified.
        """
        self._check_record()
        slices = self._locate_rows(rows)
        if not slices:
            return
        with self._open_image() as image:
            last: tuple[int, pa.RecordBatch] | None = None
            for number, start, stop in slices:
                if last is None or last[0] != number:
                    image.check(number)
                    last = number, self._read_batch(image, number)
                batch = self._select_columns(last[1])
                yield batch if stop - start == batch.num_rows else batch.slice(start, stop - start)

    def iter_rows(self, rows: Int64s) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows, as one batch for each record batch that contains any of them.

        Args:
            rows: int64 [rows], zero-based indices relative to the file, ascending. Indices outside the file are
                ignored.

        Raises:
            Damaged: If the file is missing, damaged or modified.
        """
        self._check_record()
        bounds = self._compute_bounds()
        ends = np.searchsorted(rows, bounds)
        if ends[0] == ends[-1]:
            return
        with self._open_image() as image:
            for number in np.flatnonzero(np.diff(ends)).tolist():
                image.check(number)
                batch = self._select_columns(self._read_batch(image, number))
                is_chosen = np.zeros(batch.num_rows, np.bool_)
                is_chosen[rows[ends[number] : ends[number + 1]] - bounds[number]] = True
                yield batch if is_chosen.all() else batch.filter(pa.array(is_chosen))

    def iter_mapped(self) -> Iterator[MappedBatch]:
        """Yield all batches, each with a function that verifies it. See `MappedBatch`.

        Raises:
            Damaged: If the file is missing, or is damaged outside the columns.
        """
        self._check_record()
        with self._open_image() as image:
            for number in range(len(self.checks.batches)):
                yield MappedBatch(self._read_batch(image, number), partial(image.check, number))

    @contextmanager
    def _open_image(self) -> "Iterator[_MappedFile | _FetchedFile]":
        with self._open() as source:
            yield _MappedFile(self, source) if self.place.is_local else _FetchedFile(self, source)

    def _read_batch(self, image: "_MappedFile | _FetchedFile", number: int) -> pa.RecordBatch:
        try:
            batch = image.read_batch(number)
        except (pa.ArrowInvalid, OSError) as error:
            if getattr(error, "errno", None) is not None:  # the disk or the network, not the bytes
                raise
            raise self.build_damage(f"record batch {number} cannot be decoded ({error})") from error
        if batch.num_rows != self.checks.batches[number].rows:
            raise self.build_damage(f"record batch {number} holds {batch.num_rows} rows, and its record says other")
        return batch

    def _select_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch if self.columns is None else batch.select(list(self.columns))

    def _compute_bounds(self) -> list[int]:
        """Return the index of the first row of each batch, followed by the total number of rows."""
        return [*accumulate((batch.rows for batch in self.checks.batches), initial=0)]

    def _locate_rows(self, rows: Sequence[int] | None) -> list[_BatchSlice]:
        bounds = self._compute_bounds()
        if rows is not None and not isinstance(rows, range):
            inside = [(row, bisect_right(bounds, row) - 1) for row in rows if 0 <= row < bounds[-1]]
            return [_BatchSlice(number, row - bounds[number], row - bounds[number] + 1) for row, number in inside]
        spans = pairwise(bounds)
        if rows is None:
            return [_BatchSlice(number, 0, stop - start) for number, (start, stop) in enumerate(spans)]
        cut = ((max(start, rows.start) - start, min(stop, rows.stop) - start) for start, stop in spans)
        return [_BatchSlice(number, start, stop) for number, (start, stop) in enumerate(cut) if start < stop]

    def _open(self) -> pa.NativeFile:
        if not self.place.is_local and self.file.size_bytes <= FETCH_BYTES:
            with suppress(Damaged):  # which of its columns are is looked into below
                return pa.BufferReader(_read_whole_file(self.place, self.path, self.file))
        try:
            source = self.place.open(self.path)
        except FileNotFoundError as error:
            raise self.build_damage("it is gone") from error
        if source.size() != self.file.size_bytes:
            num_bytes = source.size()
            source.close()
            raise self.build_damage(f"it has {num_bytes} bytes instead of {self.file.size_bytes}")
        return source

    def _check_record(self) -> None:
        """Check that the part's record matches the size and the number of rows of the file.

        Raises:
            Damaged: If it does not.
        """
        ends = [self.checks.head_bytes, *(batch.end for batch in self.checks.batches)]
        is_wrong = (
            sum(batch.rows for batch in self.checks.batches) != self.file.content.rows
            or any(batch.offset != end for batch, end in zip(self.checks.batches, ends, strict=False))
            or any(min(batch.rows, batch.metadata_bytes, batch.body_bytes) < 0 for batch in self.checks.batches)
            or not 0 < ends[-1] < self.file.size_bytes
        )
        if is_wrong:
            raise self.build_damage("the record of its part describes other batches than such a file can have")

    def list_column_numbers(self, schema: pa.Schema) -> list[int]:
        """Return the indices of the columns to read, in ascending order. `schema` is the schema stored in the file."""
        return (
            list(range(len(schema)))
            if self.columns is None
            else sorted({schema.get_field_index(name) for name in self.columns})
        )

    def build_options(self, schema: pa.Schema) -> pa.ipc.IpcReadOptions:
        """Return the pyarrow options for decoding only the columns to read, on the calling thread."""
        return pa.ipc.IpcReadOptions(included_fields=self.list_column_numbers(schema), use_threads=False)

    def check_piece(self, data: Any, digest: str, what: str) -> None:
        """Check that some bytes of the file have the recorded digest.

        `what` describes the bytes in the error message.

        Raises:
            Damaged: If it is not.
        """
        if compute_digest(data) != digest:
            raise self.build_damage(f"the bytes of {what} are not those that were written")

    def check_metadata(self, number: int, data: memoryview) -> None:
        """Verify the metadata of record batch `number`. `data` must begin with the metadata.

        Raises:
            Damaged: If they differ from the recorded bytes.
        """
        batch = self.checks.batches[number]
        self.check_piece(data[: batch.metadata_bytes], batch.digests[0], f"the metadata of record batch {number}")

    def check_columns(self, number: int, schema: pa.Schema, spans: Sequence[Span], body: memoryview) -> None:
        """Verify the required columns of record batch `number`.

        Args:
            number: Index of the batch.
            schema: The schema of all columns of the file.
            spans: The offset in `body` of each column's first byte, and of the byte after its last one.
            body: The body of the batch. Bytes of other columns are not read.

        Raises:
            Damaged: If the bytes of a column differ from the recorded ones, or the record describes other columns.
        """
        digests = self.checks.batches[number].digests
        if len(digests) != 1 + len(schema):
            raise self.build_damage("the record of its part describes other columns than it has")
        for column in self.list_column_numbers(schema):
            first, last = spans[column]
            what = f"column {schema.field(column).name} of record batch {number}"
            self.check_piece(body[first:last], digests[1 + column], what)

    def build_damage(self, what: str) -> Damaged:
        """Return a Damaged error for this file, to be raised by the caller."""
        return Damaged(self.path, what)


class _MappedFile:
    """A memory-mapped local file. Uncompressed columns are not copied."""

    def __init__(self, table: _TableFile, source: pa.NativeFile) -> None:
        self._table = table
        buffer = source.read_buffer()
        self._data = memoryview(buffer)
        tail = table.checks.tail_offset
        table.check_piece(self._data[tail:], table.checks.tail, "its footer")
        self._schema = pa.ipc.open_file(buffer).schema
        self._reader = pa.ipc.open_file(buffer, options=table.build_options(self._schema))
        if self._reader.num_record_batches != len(table.checks.batches):
            raise table.build_damage("the record of its part describes other batches than it has")

    def check(self, number: int) -> None:
        """Verify the metadata and the required columns of record batch `number`.

        Raises:
            Damaged: If they differ from the recorded bytes.
        """
        checks = self._table.checks.batches[number]
        message = self._data[checks.offset : checks.end]
        self._table.check_metadata(number, message)
        metadata, body = message[: checks.metadata_bytes], message[checks.metadata_bytes :]
        self._table.check_columns(number, self._schema, locate_columns(metadata, self._schema, len(body)), body)

    def read_batch(self, number: int) -> pa.RecordBatch:
        """Return record batch `number` with the required columns, without verifying it.

        Raises:
            pyarrow.ArrowInvalid: If it cannot be decoded.
        """
        return self._reader.get_batch(number)


class _FetchedFile:
    """A file in an object store, from which only the required byte ranges are fetched."""

    def __init__(self, table: _TableFile, source: pa.NativeFile) -> None:
        self._table = table
        self._source = source
        head = source.read_at(table.checks.head_bytes, 0)
        table.check_piece(head, table.checks.head, "its head")
        self._head = head[len(MAGIC) :]  # a stream's: the schema
        self._schema = pa.ipc.open_stream(self._head).schema

    def check(self, number: int) -> None:
        """Verify nothing, because `read_batch` has already verified record batch `number`."""

    def read_batch(self, number: int) -> pa.RecordBatch:
        """Fetch, verify and decode the required columns of record batch `number`.

        Raises:
            Damaged: If the file is missing, or the fetched bytes differ from the recorded ones.
            InputError: If the object store does not answer.
        """
        checks = self._table.checks.batches[number]
        message = bytearray(len(self._head) + checks.end - checks.offset)
        view = memoryview(message)[len(self._head) :]
        message[: len(self._head)] = self._head
        self._fetch(checks.offset, view, [(0, checks.metadata_bytes)])
        self._table.check_metadata(number, view)
        body = view[checks.metadata_bytes :]
        spans = locate_columns(view[: checks.metadata_bytes], self._schema, len(body))
        wanted = [spans[column] for column in self._table.list_column_numbers(self._schema)]
        self._fetch(checks.offset + checks.metadata_bytes, body, join_spans(wanted))
        self._table.check_columns(number, self._schema, spans, body)
        with pa.ipc.open_stream(pa.py_buffer(message), options=self._table.build_options(self._schema)) as stream:
            return stream.read_next_batch()

    def _fetch(self, offset: int, buffer: memoryview, spans: Sequence[Span]) -> None:
        for first, last in spans:
            try:
                data = self._source.read_at(last - first, offset + first)
            except FileNotFoundError as error:
                raise self._table.build_damage("it is gone") from error
            if len(data) != last - first:
                raise self._table.build_damage("it is shorter than its record says")
            buffer[first:last] = data


def join_spans(spans: Sequence[Span]) -> list[Span]:
    """Merge neighboring byte ranges that are at most 64 KB apart, so that each can be fetched with one request.

    Args:
        spans: Pairs of (first byte, byte after the last), in ascending order and without overlaps.

    >>> join_spans([(0, 8), (8, 24), (1_000_000, 1_000_008)])
    [(0, 24), (1000000, 1000008)]
    """
    joined_spans: list[Span] = []
    for first, last in spans:
        if joined_spans and first - joined_spans[-1][1] <= _MAX_GAP_BYTES:
            joined_spans[-1] = (joined_spans[-1][0], last)
        else:
            joined_spans.append((first, last))
    return joined_spans
