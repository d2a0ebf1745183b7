"""Documents and dropped documents: their columns, their identity, and the view of one row.

The pipeline handles a document as a row of an Arrow record batch with the columns of `DOCUMENTS`. `Document` is a view
of one row, for people, tests and rare code paths.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

ID_BYTES = 16

LOCATOR = pa.struct(
    [
        pa.field("file", pa.string()),  # name relative to the source's root
        pa.field("sha256", pa.string()),  # content of that raw file
        pa.field("stream", pa.int64()),  # byte offset of the compressed stream in the file; -1: not compressed
        pa.field("offset", pa.int64()),  # byte offset of the record, inside the stream where there is one
        pa.field("length", pa.int64()),  # bytes of the record
    ]
)

DOCUMENTS = pa.schema(
    [
        pa.field("id", pa.binary(ID_BYTES), nullable=False),
        pa.field("keyed", pa.bool_(), nullable=False),  # the id comes from a stable key, so rows are revisions
        pa.field("revision", pa.int64()),  # null: the generation it came with
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("locator", LOCATOR, nullable=False),
        pa.field("title", pa.string()),
        pa.field("url", pa.string()),
        pa.field("date", pa.string()),  # ISO 8601, or what a record of your own has in that field
        pa.field("language", pa.string()),
        pa.field("license", pa.string()),
        pa.field("group", pa.string()),  # author, site, patient: splits never divide one
        pa.field("meta", pa.string()),  # JSON object
        pa.field("quality", pa.int32(), nullable=False),
    ]
)

DROPPED = pa.schema(
    [
        pa.field("id", pa.binary(ID_BYTES)),
        pa.field("keyed", pa.bool_(), nullable=False),
        pa.field("revision", pa.int64()),
        pa.field("source", pa.string(), nullable=False),
        pa.field("locator", LOCATOR, nullable=False),
        pa.field("title", pa.string()),
        pa.field("step", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string()),
        pa.field("survivor", pa.binary(ID_BYTES)),
        pa.field("similarity", pa.float32()),
        pa.field("excerpt", pa.string()),
    ]
)

MAX_EXCERPT_CHARACTERS = 240


class Locator(NamedTuple):
    """The position of a record in the raw input. It is not part of a document's identity.

    Attributes:
        file: Name of the raw file, relative to the root of its source.
        sha256: SHA-256 digest of the raw file. Empty if unknown.
        length: Length of the record in bytes.
        stream: Byte offset of the compressed stream or row group in the file, or the number of a sheet; -1 if there is
            none.
        offset: Byte offset of the record, relative to the stream if there is one; or the index of a row.
    """

    file: str
    sha256: str
    length: int
    stream: int = -1
    offset: int = 0

    def __str__(self) -> str:
        if self.file.lower().endswith(".parquet"):  # a row of it has no bytes of its own
            return f"{self.file}: row {self.offset} of the row group at {self.stream}"
        if self.file.lower().endswith((".xlsx", ".xlsm")) and self.stream >= 0:
            return f"{self.file}: row {self.offset} of sheet {self.stream}"
        stream = f"stream {self.stream}, " if self.stream >= 0 else ""
        digest = f" (sha256 {self.sha256[:12]})" if self.sha256 else ""
        return f"{self.file}: {stream}bytes {self.offset}-{self.offset + self.length}{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document, as a row of `DOCUMENTS`. The meaning of the fields is given there."""

    id: bytes
    keyed: bool
    revision: int | None
    text: str
    source: str
    locator: Locator
    title: str | None
    url: str | None
    date: str | None
    language: str | None
    license: str | None
    group: str | None
    meta: str | None
    quality: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedDocument:
    """One dropped record or document, as a row of `DROPPED`: what was dropped, by which step, and why."""

    id: bytes | None
    keyed: bool
    revision: int | None
    source: str
    locator: Locator
    title: str | None
    step: str
    reason: str
    detail: str | None
    survivor: bytes | None
    similarity: float | None
    excerpt: str | None


def compute_keyed_id(source: str, key: str) -> bytes:
    """Compute the id of a document from a stable key of its source, such as a page id, URL or PMID: 16 bytes.

    Args:
        source: Name of the source. Equal keys of different sources give different ids.
        key: The key, which is the same in all revisions of the document.

    >>> compute_keyed_id("wikipedia", "12").hex()
    '080f5a15dee290da2d139cdc0688f3b6'
    """
    return _hash_fields(b"key", source.encode(), key.encode())


def compute_record_id(source: str, record: bytes) -> bytes:
    """Compute the id of a document without a stable key from its source's name and its record's bytes: 16 bytes."""
    return _hash_fields(b"record", source.encode(), record)


def compute_occurrence_id(first: bytes, occurrence: int) -> bytes:
    """Compute the id of a repeated record (16 bytes), so that records with the same bytes get different ids.

    Args:
        first: The id of the record, from `compute_record_id`.
        occurrence: Zero-based index of this occurrence. Occurrence 0 keeps the id `first`.
    """
    return first if occurrence == 0 else _hash_fields(b"occurrence", first, occurrence.to_bytes(8, "little"))


def _hash_fields(*fields: bytes) -> bytes:
    lengths = b"".join(len(field).to_bytes(8, "little") for field in fields)
    return hashlib.sha256(lengths + b"".join(fields)).digest()[:ID_BYTES]


def iter_documents(batches: Iterator[pa.RecordBatch]) -> Iterator[Document]:
    """Yield each row of record batches with the schema `DOCUMENTS` as a `Document`. Other columns are ignored."""
    for batch in batches:
        for row in batch.select(DOCUMENTS.names).to_pylist():
            yield Document(**{**row, "locator": Locator(**row["locator"])})


def iter_dropped(batches: Iterator[pa.RecordBatch]) -> Iterator[DroppedDocument]:
    """Yield each row of record batches with the schema `DROPPED` as a `DroppedDocument`. Other columns are ignored."""
    for batch in batches:
        for row in batch.select(DROPPED.names).to_pylist():
            yield DroppedDocument(**{**row, "locator": Locator(**row["locator"])})


def arrange_columns(columns: Mapping[str, Any], schema: pa.Schema) -> list[pa.Array | pa.ChunkedArray]:
    """Arrange columns in the order of a schema. Lists of values are converted to arrays of the schema's types.

    Arrow arrays are passed through, without a check of their type. Columns that the schema lacks are ignored.

    Raises:
        KeyError: If a column of the schema is missing.

    >>> arrange_columns({"b": [1, 2], "a": ["x", "y"]}, pa.schema([("a", pa.string()), ("b", pa.int8())]))[1].type
    DataType(int8)
    """
    given = [(columns[column.name], column.type) for column in schema]
    return [c if isinstance(c, (pa.Array, pa.ChunkedArray)) else pa.array(c, kind) for c, kind in given]


def count_text_bytes(texts: pa.Array) -> int:
    """Count the UTF-8 bytes of all texts in a column. Nulls count as 0.

    >>> count_text_bytes(pa.array(["Züge", "", "oars"]))
    9
    """
    return int(pc.sum(pc.binary_length(texts)).as_py() or 0)


def cut_excerpt(text: str) -> str:
    """Return the beginning of a text on one line, with at most MAX_EXCERPT_CHARACTERS characters."""
    return " ".join(text[: 2 * MAX_EXCERPT_CHARACTERS].split())[:MAX_EXCERPT_CHARACTERS]
