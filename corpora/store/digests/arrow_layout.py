"""Locate the columns of a record batch in an Arrow IPC file, and digest each of them.

    magic, schema (head) | batch: metadata, column, column, ... | batch | ... | end of stream, footer, magic (tail)

The bytes are those of the Arrow columnar format, section "Serialization and Interprocess Communication"; metadata are
flatbuffers (Message.fbs). pyarrow writes and reads them and does not tell where the columns are, so the few fields that
say so are read here.

Promise: every byte of a file is under one digest: of its head, of its tail, of a batch's metadata, or of one of its
columns, padding included. So a column of a batch can be read and checked without the others.

Cost: a digest reads 10 GB or more a second; the layout of a batch of 17 columns takes some 15 microseconds.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from corpora.store.digests.content import Content

MAGIC = b"ARROW1\0\0"
_PREFIX = struct.Struct("<Ii")  # 0xFFFFFFFF, bytes of the flatbuffer that follows
_HEADER_FIELD, _BODY_FIELD, _BUFFERS_FIELD = 2, 3, 2  # Message.header, Message.bodyLength, RecordBatch.buffers

Span = tuple[int, int]  # first byte and the one after the last


def compute_digest(data: Any) -> str:
    """Compute the 64-bit xxh3 hash of some bytes, as 16 hexadecimal digits.

    >>> compute_digest(b"")
    '2d06800538d394c2'
    """
    return xxhash.xxh3_64_hexdigest(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChecks:
    """The position and the digests of one record batch in an Arrow file, which readers use to verify the batch.

    Attributes:
        rows: Number of rows.
        offset: Offset in the file at which the batch's metadata begin, in bytes.
        metadata_bytes: Length of the metadata.
        body_bytes: Length of the body, which contains the columns and follows the metadata.
        content: Number of rows and a digest of their values.
        digests: Digest of the metadata's bytes, followed by one digest of the bytes of each column.
        key_range: First and last value of the column by which the rows are sorted. None if they are not sorted, or if
            there are no rows.
    """

    rows: int
    offset: int
    metadata_bytes: int
    body_bytes: int
    content: Content
    digests: tuple[str, ...]
    key_range: tuple[int, int] | None = None

    @property
    def end(self) -> int:
        """Offset of the first byte after the batch."""
        return self.offset + self.metadata_bytes + self.body_bytes

    def to_json(self) -> dict[str, Any]:
        """Convert the checks of this batch to the JSON object that is stored in part records.

        The keys are "rows", "bytes" (offset, length of the metadata, length of the body), "content", "digests" and, if
        the rows are sorted, "keys" (first and last).
        """
        fields: dict[str, Any] = {
            "rows": self.rows,
            "bytes": [self.offset, self.metadata_bytes, self.body_bytes],
            "content": str(self.content),
            "digests": list(self.digests),
        }
        return fields if self.key_range is None else {**fields, "keys": list(self.key_range)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "BatchChecks":
        """Create a BatchChecks from the JSON object that `to_json` returns.

        Raises:
            KeyError: If a field is missing.
            ValueError: If `content` is malformed.
        """
        offset, metadata_bytes, body_bytes = data["bytes"]
        first, last = data.get("keys", (0, 0))
        return BatchChecks(
            rows=data["rows"],
            offset=offset,
            metadata_bytes=metadata_bytes,
            body_bytes=body_bytes,
            content=Content.parse(data["content"]),
            digests=tuple(data["digests"]),
            key_range=(first, last) if "keys" in data else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChecks:
    """The positions and digests of all pieces of one Arrow file, which readers use to verify the file.

    Attributes:
        head_bytes: Length of the head, i.e. of everything before the first record batch.
        head: Digest of the head.
        tail: Digest of everything after the last record batch.
        batches: The record batches, in file order.
    """

    head_bytes: int
    head: str
    tail: str
    batches: tuple[BatchChecks, ...]

    @property
    def tail_offset(self) -> int:
        """Offset of the first byte after the last record batch."""
        return self.batches[-1].end if self.batches else self.head_bytes

    def to_json(self) -> dict[str, Any]:
        """Convert the checks of this file to the JSON object that is stored in part records.

        The keys are the attributes. `batches` is a list of the objects from `BatchChecks.to_json`.
        """
        batches = [batch.to_json() for batch in self.batches]
        return {"head_bytes": self.head_bytes, "head": self.head, "tail": self.tail, "batches": batches}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "TableChecks":
        """Create a TableChecks from the JSON object that `to_json` returns.

        Raises:
            KeyError, TypeError: If a field is missing or unknown.
            ValueError: If the content of a batch is malformed.
        """
        return TableChecks(**{**data, "batches": tuple(BatchChecks.from_json(batch) for batch in data["batches"])})


def measure_head(data: Any) -> int:
    """Return the length in bytes of the head of an Arrow file, i.e. of everything before the first record batch.

    Args:
        data: The beginning of the file, at least 16 bytes.
    """
    return len(MAGIC) + _PREFIX.size + int(_PREFIX.unpack_from(data, len(MAGIC))[1])


def digest_batch(
    message: memoryview,
    offset: int,
    batch: pa.RecordBatch,
    content: Content,
    sorted_by: str | None = None,
    schema: pa.Schema | None = None,
) -> BatchChecks:
    """Compute the digests of a record batch: of its metadata, and of each of its columns.

    Args:
        message: The serialized batch, metadata and body.
        offset: Offset of the message in its file, in bytes.
        batch: The decoded batch.
        content: The result of `compute_content` for the batch. It is stored in the result and not verified.
        sorted_by: Name of the integer column by which the rows are sorted in ascending order, or None.
        schema: The schema of all columns, if `batch` contains only some of them (default: the schema of `batch`).
    """
    metadata_bytes = _PREFIX.size + int(_PREFIX.unpack_from(message)[1])
    metadata, body = message[:metadata_bytes], message[metadata_bytes:]
    spans = locate_columns(metadata, schema or batch.schema, len(body))
    keys = None
    if sorted_by is not None and batch.num_rows:
        column = batch.column(sorted_by)
        keys = (int(column[0].as_py()), int(column[-1].as_py()))
    return BatchChecks(
        rows=batch.num_rows,
        offset=offset,
        metadata_bytes=metadata_bytes,
        body_bytes=len(body),
        content=content,
        digests=(compute_digest(metadata), *(compute_digest(body[first:last]) for first, last in spans)),
        key_range=keys,
    )


def locate_columns(metadata: memoryview, schema: pa.Schema, body_bytes: int) -> list[Span]:
    """Locate each column in the body of a record batch.

    A column extends from its first buffer to the first buffer of the next column.

    Args:
        metadata: The serialized metadata of the batch, including the prefix of 8 bytes.
        schema: The schema of all columns of the batch.
        body_bytes: Length of the body.

    Returns:
        (offset of the first byte, offset after the last byte) of each column, relative to the body.
    """
    starts = _read_buffer_offsets(metadata[_PREFIX.size :])
    firsts = np.cumsum([0, *(_count_buffers(field.type) for field in schema)])
    assert firsts[-1] == len(starts), "every buffer is of a column"
    bounds = [*(int(starts[first]) for first in firsts[:-1]), body_bytes]
    return list(pairwise(bounds))


@cache
def _count_buffers(kind: pa.DataType) -> int:
    """Return the number of buffers that a column of this type has, including the buffers of nested columns."""
    assert not (pa.types.is_null(kind) or pa.types.is_dictionary(kind)), f"no table has a column of type {kind}"
    return len(pa.array([], kind).buffers())


def _read_buffer_offsets(flatbuffer: memoryview) -> Any:
    """Return the offset of each buffer in the body of a record batch: int64 [buffers].

    `flatbuffer` contains the metadata of the batch, without the prefix of 8 bytes.
    """
    message = _read_number("<I", flatbuffer, 0)
    batch = _follow_offset(flatbuffer, _locate_field(flatbuffer, message, _HEADER_FIELD))
    vector = _follow_offset(flatbuffer, _locate_field(flatbuffer, batch, _BUFFERS_FIELD))
    pairs = np.frombuffer(flatbuffer, "<i8", 2 * _read_number("<I", flatbuffer, vector), vector + 4)
    return pairs[::2]


def _locate_field(flatbuffer: memoryview, table: int, number: int) -> int:
    """Return the position of a field in a flatbuffer, or the position of its table if the field has its default value.

    Args:
        flatbuffer: All bytes of the flatbuffer. Positions are byte offsets in it.
        table: Position of the table that contains the field.
        number: Number of the field in the table's definition, counted from 0.
    """
    vtable, entry = table - _read_number("<i", flatbuffer, table), 4 + 2 * number
    return table + (
        _read_number("<H", flatbuffer, vtable + entry) if entry < _read_number("<H", flatbuffer, vtable) else 0
    )


def _follow_offset(flatbuffer: memoryview, position: int) -> int:
    """Return the position in a flatbuffer to which the offset stored at `position` refers."""
    return position + _read_number("<I", flatbuffer, position)


def _read_number(kind: str, flatbuffer: memoryview, position: int) -> int:
    return int(struct.unpack_from(kind, flatbuffer, position)[0])


def digest_table(
    data: memoryview, compute_content: Callable[[pa.RecordBatch], Content], sorted_by: str | None
) -> TableChecks:
    """Compute the digests of all pieces of an Arrow file.

    Args:
        data: All bytes of the file.
        compute_content: Returns the number of rows of a record batch and a digest of them.
        sorted_by: Name of the integer column by which the rows are sorted in ascending order, or None.

    Raises:
        pyarrow.ArrowInvalid: If the bytes are not an Arrow file.
    """
    reader = pa.ipc.open_file(pa.py_buffer(data))
    first = measure_head(data)
    batches: list[BatchChecks] = []
    for number in range(reader.num_record_batches):
        batch, offset = reader.get_batch(number), batches[-1].end if batches else first
        message = data[offset : offset + measure_message(data, offset)]
        batches.append(digest_batch(message, offset, batch, compute_content(batch), sorted_by))
    end = batches[-1].end if batches else first
    return TableChecks(
        head_bytes=first, head=compute_digest(data[:first]), tail=compute_digest(data[end:]), batches=tuple(batches)
    )


def find_mismatch(data: memoryview, checks: TableChecks, sorted_by: str | None) -> str | None:
    """Compare an Arrow file with its recorded digests.

    The contents of the batches are not compared. Only one column is decoded.

    Args:
        data: All bytes of the file.
        checks: The recorded digests.
        sorted_by: Name of the integer column by which the rows are sorted in ascending order, or None.

    Returns:
        A description of the first difference, or None if there is none.

    Raises:
        pyarrow.ArrowInvalid: If the bytes are not an Arrow file.
    """
    schema = pa.ipc.open_file(pa.py_buffer(data)).schema
    decoded = [schema.get_field_index(sorted_by) if sorted_by is not None else 0]
    options = pa.ipc.IpcReadOptions(included_fields=decoded, use_threads=False)
    reader = pa.ipc.open_file(pa.py_buffer(data), options=options)
    if (checks.head_bytes, checks.head) != (first := measure_head(data), compute_digest(data[:first])):
        return "its head"
    if reader.num_record_batches != len(checks.batches):
        return f"{len(checks.batches)} record batches and not {reader.num_record_batches}"
    end = first
    for number, recorded in enumerate(checks.batches):
        message = data[end : end + measure_message(data, end)]
        actual = digest_batch(message, end, reader.get_batch(number), recorded.content, sorted_by, schema)
        if actual != recorded:
            return f"record batch {number}"
        end = actual.end
    return None if checks.tail == compute_digest(data[end:]) else "its footer"


def measure_message(data: memoryview, offset: int) -> int:
    """Return the length in bytes of the message at `offset` of an Arrow file, metadata and body together."""
    metadata_bytes = int(_PREFIX.unpack_from(data, offset)[1])
    flatbuffer = data[offset + _PREFIX.size : offset + _PREFIX.size + metadata_bytes]
    position = _locate_field(flatbuffer, message := _read_number("<I", flatbuffer, 0), _BODY_FIELD)
    body = (
        _read_number("<q", flatbuffer, position) if position != message else 0
    )  # of a batch without rows it is not written
    return _PREFIX.size + metadata_bytes + body
