"""Content: a digest of rows that does not depend on how they are divided.

`compute_content` digests the logical rows of a table in order. The digest of two tables one after the other is the sum
of their digests (`Content.__add__`), so it is the same whatever parts, files or record batches the rows were written
in, on any machine. Golden tests, kill tests, worker-count tests and `cloze verify` compare it.

Each row is hashed with xxh3 (128 bits) over its values in a canonical form; the row hashes r0, r1, ... are the
coefficients of a polynomial, evaluated at a fixed base modulo the Mersenne prime 2^127 - 1 (Karp and Rabin 1987). It
finds accidents, not forgers: whole files carry a sha256 as well.

`compute_content_plain` is the reference implementation, row by row. `compute_content` brings the bytes of a row
together, hashes them and adds the hashes up in a kernel, unless rows are few, or so long that reading them once is most
of the work.

Cost: from 65 nanoseconds for a short row, 320 for a text of 3 KB, 600 for 500 tokens; of long rows, reading the bytes
once. Memory is bounded: a table is read in pieces of about 4 MB, or of one row if it is longer. Text and numbers are
read where they are; booleans are held as 16 times their bytes, those of one piece at a time.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from corpora.kernels.arrays import Bytes, Int64s

PRIME = (1 << 127) - 1
BASE = 0x3C6EF372FE94F82BA54FF53A5F1D36F1
PIECE_BYTES = 1 << 22  # of a batch, whose canonical form is held at once
MIN_KERNEL_ROWS = 40  # fewer are hashed sooner than they are handed to a kernel
MAX_MEAN_ROW_BYTES = 1 << 14  # from here on one copy costs more than a row's turn in the loop
KERNEL_ROW_BYTES = 1 << 18  # for the row that a kernel hashes: longer ones among short ones are hashed on their own

Table: TypeAlias = pa.Table | pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Content:
    """The number of rows of a table and a digest of them. `+` returns the content of two concatenated tables.

    Tables with equal rows in the same order have equal contents, regardless of how they are divided into files.

    >>> str(Content(2, 255))
    '2.000000000000000000000000000000ff'
    """

    rows: int = 0
    digest: int = 0

    def __add__(self, later: "Content") -> "Content":
        return sum_contents((self, later))

    def __str__(self) -> str:
        return f"{self.rows}.{self.digest:032x}"

    @staticmethod
    def parse(text: str) -> "Content":
        """Parse the string returned by `str`.

        Raises:
            ValueError: If the string is malformed.
        """
        rows, digest = text.split(".")
        return Content(int(rows), int(digest, 16))


def sum_contents(contents: Iterable[Content]) -> Content:
    """Compute the content of concatenated tables from the content (number of rows and digest) of each table, in order.

    >>> sum_contents([Content(1, 7), Content(0, 0)]) == Content(1, 7)
    True
    """
    rows = digest = 0
    for content in contents:
        digest = (digest * _compute_base_power(content.rows) + content.digest) % PRIME
        rows += content.rows
    return Content(rows, digest)


def _compute_base_power(rows: int) -> int:
    """Return BASE ** rows modulo PRIME, as a product of cached powers, which is faster than `pow`."""
    power, shift = 1, 0
    while rows:
        power = power * _compute_byte_power(rows & 0xFF, shift) % PRIME
        rows, shift = rows >> 8, shift + 8
    return power


@cache  # 256 for each byte that a number of rows has
def _compute_byte_power(byte: int, shift: int) -> int:
    return pow(BASE, byte << shift, PRIME)


def compute_content(table: Table) -> Content:
    """Compute the content of a table: the number of its rows and a digest of them, in order.

    The digest depends on the values and on the names, types, nullability and order of the columns. It does not depend
    on how the table is chunked or sliced, on the bytes of null values, or on metadata of the schema and fields.

    Raises:
        TypeError: If a column has a type other than numbers, booleans, strings, bytes, lists and structs of these.
    """
    return _digest_by_pieces(table, _digest_rows)


def compute_content_plain(table: Table) -> Content:
    """Compute the content of a table like `compute_content`, row by row.

    This is its reference implementation, for tests.
    """
    return _digest_by_pieces(table, _digest_rows_plain)


class _Stream(NamedTuple):
    """The variable-length values of a column. The bytes of row i are data[bounds[i]:bounds[i + 1]]."""

    data: Bytes
    bounds: Int64s

    def is_in_bounds(self) -> bool:
        """Return True if the bounds are ascending and inside the data, as in every undamaged file."""
        ordered = bool((self.bounds[1:] >= self.bounds[:-1]).all())
        return ordered and 0 <= self.bounds[0] and self.bounds[-1] <= len(self.data)


class _RowBytes(NamedTuple):
    """The bytes of some rows, in the form in which they are hashed.

    The lengths of variable-length values are part of `fixed`, so bytes cannot move between rows, columns or list items
    without changing the hash.

    Attributes:
        fixed: Matrices [rows, bytes] with the fixed-length values.
        streams: The variable-length values.
    """

    fixed: list[Bytes]
    streams: list[_Stream]

    def select_row(self, row: int) -> "_RowBytes":
        """Return the bytes of one row, without copying."""
        streams = [_Stream(data, bounds[row : row + 2]) for data, bounds in self.streams]
        return _RowBytes([matrix[row : row + 1] for matrix in self.fixed], streams)

    def count_bytes(self) -> int:
        """Return the total number of bytes of all rows."""
        sizes = (int(stream.bounds[-1] - stream.bounds[0]) for stream in self.streams)
        return sum(matrix.size for matrix in self.fixed) + sum(sizes)


def _digest_by_pieces(table: Table, digest: Callable[[_RowBytes, bytes], Content]) -> Content:
    """Compute the content of a table piece by piece, to limit memory.

    Args:
        table: The table.
        digest: Computes the content of one piece from the bytes of its rows and a seed of 16 bytes, which is a hash of
            the schema.
    """
    described = table.schema.to_string(show_field_metadata=False, show_schema_metadata=False)
    seed = xxhash.xxh3_128_intdigest(described.encode()).to_bytes(16, "little")
    content = Content()
    for batch in [table] if isinstance(table, pa.RecordBatch) else table.to_batches():
        for piece in _iter_pieces(batch):
            content += digest(_to_row_bytes(piece), seed)  # not kept while the next piece is read
    return content


def _iter_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield slices of a batch of about PIECE_BYTES bytes, each with at least one row.

    An empty batch yields one empty slice.
    """
    rows = max(1, batch.num_rows * PIECE_BYTES // max(batch.nbytes, 1))
    yield from (batch.slice(at, rows) for at in range(0, max(batch.num_rows, 1), rows))


def _to_row_bytes(batch: pa.RecordBatch) -> _RowBytes:
    """Return the bytes of all columns of a batch. The first matrix has no columns and determines the number of rows."""
    row_bytes = _RowBytes([np.zeros((batch.num_rows, 0), np.uint8)], [])
    for column in batch.columns:
        _add_column(column, row_bytes)
    return row_bytes


def _digest_rows_plain(row_bytes: _RowBytes, seed: bytes) -> Content:
    """Compute the content of rows, one row at a time. First a row's fixed-length values are hashed, then its streams.

    Args:
        row_bytes: The bytes of the rows.
        seed: 16 bytes to hash at the beginning of each row.
    """
    matrix = np.concatenate(row_bytes.fixed, axis=1)
    width, rows = matrix.shape[1], matrix.reshape(-1).data
    streams = [(stream.data.data, stream.bounds.tolist()) for stream in row_bytes.streams]
    digest = 0
    for row in range(len(matrix)):
        state = xxhash.xxh3_128(seed)
        state.update(rows[row * width : (row + 1) * width])
        for data, bounds in streams:
            state.update(data[bounds[row] : bounds[row + 1]])
        digest = (digest * BASE + state.intdigest()) % PRIME
    return Content(len(matrix), digest)


def _digest_rows(row_bytes: _RowBytes, seed: bytes) -> Content:
    """Compute the content of rows, using the compiled kernel if it is applicable and faster.

    Args:
        row_bytes: The bytes of the rows.
        seed: 16 bytes to hash at the beginning of each row.
    """
    num_rows, size = len(row_bytes.fixed[0]), row_bytes.count_bytes()
    if num_rows >= MIN_KERNEL_ROWS and 0 < size <= MAX_MEAN_ROW_BYTES * num_rows:
        if all(stream.is_in_bounds() for stream in row_bytes.streams):  # the kernel checks no bounds
            return _digest_rows_compiled(row_bytes, seed)
    return _digest_rows_plain(row_bytes, seed)


def _digest_rows_compiled(row_bytes: _RowBytes, seed: bytes) -> Content:
    """Compute the content of rows with the compiled kernel. Rows too long for its buffer are hashed separately.

    Args:
        row_bytes: The bytes of the rows, with streams that are in bounds.
        seed: 16 bytes to hash at the beginning of each row.
    """
    from corpora.kernels.hash128 import join_words, split_words  # imports numba, which reading a manifest does not need
    from corpora.store.digests.content_kernels import digest_rows

    num_rows, content, first = len(row_bytes.fixed[0]), Content(), 0
    streams = (stream.data for stream in row_bytes.streams)
    data = [_pad_to_eight_bytes(each) for each in (*(matrix.reshape(-1) for matrix in row_bytes.fixed), *streams)]
    columns, buffer = _build_column_table(row_bytes, data), np.empty(KERNEL_ROW_BYTES, np.uint8)
    while first < num_rows:
        last, digest = digest_rows(columns, first, num_rows, np.frombuffer(seed, np.uint64), split_words(BASE), buffer)
        content += Content(last - first, join_words(digest))
        if last < num_rows:
            content += _digest_rows_plain(row_bytes.select_row(last), seed)
        first = last + 1
    return content


def _build_column_table(row_bytes: _RowBytes, data: list[Bytes]) -> Int64s:
    """Build the table of columns for `digest_rows`: int64 [columns, len(Column)], fixed-length columns first.

    Args:
        row_bytes: The rows.
        data: The bytes of each column, in the same order. They must be kept while the table is used, because it
            contains their memory addresses.
    """
    from corpora.store.digests.content_kernels import Column

    table = np.full((len(data), len(Column)), -1, np.int64)
    table[:, Column.DATA] = [each.ctypes.data for each in data]
    table[:, Column.SIZE] = [len(each) for each in data]
    table[: len(row_bytes.fixed), Column.WIDTH] = [matrix.shape[1] for matrix in row_bytes.fixed]
    table[len(row_bytes.fixed) :, Column.BOUNDS] = [stream.bounds.ctypes.data for stream in row_bytes.streams]
    return table


def _pad_to_eight_bytes(data: Bytes) -> Bytes:
    """Return the bytes, padded with zeros to a length of at least eight."""
    if len(data) >= 8:
        return data
    padded = np.zeros(8, np.uint8)
    padded[: len(data)] = data
    return padded


def _add_column(column: pa.Array, row_bytes: _RowBytes) -> None:
    """Append the bytes of a column to `row_bytes`: first its validity, then its values.

    Nulls are replaced by zeros or empty values.

    Raises:
        TypeError: If the column has a type other than numbers, booleans, strings, bytes, lists and structs of these.
    """
    kind, types = column.type, pa.types
    row_bytes.fixed.append(_read_validity(column))
    if types.is_struct(kind):
        for child in column.flatten():
            _add_column(child, row_bytes)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        _add_lists(column, row_bytes)
    elif types.is_string(kind) or types.is_large_string(kind):
        _add_text(column.fill_null("") if column.null_count else column, row_bytes)
    elif types.is_binary(kind) or types.is_large_binary(kind):
        _add_text(column.fill_null(b"") if column.null_count else column, row_bytes)
    elif types.is_fixed_size_binary(kind):
        filled = column.fill_null(b"\0" * kind.byte_width) if column.null_count else column
        data = np.frombuffer(filled.buffers()[1] or b"", np.uint8)[filled.offset * kind.byte_width :]
        row_bytes.fixed.append(data[: len(column) * kind.byte_width].reshape(len(column), kind.byte_width))
    elif types.is_boolean(kind):
        row_bytes.fixed.append(_unpack_bits(column.fill_null(False) if column.null_count else column))
    elif types.is_integer(kind) or types.is_floating(kind):
        values = column.fill_null(pa.scalar(0, kind)) if column.null_count else column
        row_bytes.fixed.append(_to_byte_matrix(values.to_numpy(zero_copy_only=False)))
    else:
        raise TypeError(f"compute_content knows no canonical form of a column of type {kind}")


def _read_validity(column: pa.Array) -> Bytes:
    """Return the validity of each row as uint8 [rows, 1]: 1 for a value, 0 for a null."""
    if column.null_count:
        return _unpack_bits(column.is_valid())
    return np.ones((len(column), 1), np.uint8)


def _unpack_bits(column: pa.Array) -> Bytes:
    """Convert a boolean column without nulls to uint8 [rows, 1]."""
    data = np.frombuffer(column.buffers()[1] or b"", np.uint8)[column.offset // 8 :]
    skipped = column.offset % 8
    return np.unpackbits(data, count=skipped + len(column), bitorder="little")[skipped:].reshape(-1, 1)


def _add_text(column: pa.Array, row_bytes: _RowBytes) -> None:
    """Append the lengths and bytes of a string or binary column without nulls to `row_bytes`."""
    has_long_offsets = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    every = np.frombuffer(offsets or bytes(8), np.int64 if has_long_offsets else np.int32)
    bounds: Int64s = every[column.offset : column.offset + len(column) + 1].astype(np.int64)
    row_bytes.fixed.append(_to_byte_matrix(np.diff(bounds)))
    row_bytes.streams.append(_Stream(np.frombuffer(data or b"", np.uint8), bounds))


def _add_lists(column: pa.Array, row_bytes: _RowBytes) -> None:
    """Append the lengths of a list column, and the bytes of its items as streams, to `row_bytes`.

    Raises:
        TypeError: If the items have a type that `_add_column` does not accept.
    """
    lengths = pc.list_value_length(column).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    bounds = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    items = _RowBytes([], [])
    _add_column(column.flatten(), items)
    row_bytes.fixed.append(_to_byte_matrix(lengths))
    row_bytes.streams.extend(_Stream(matrix.reshape(-1), bounds * matrix.shape[1]) for matrix in items.fixed)
    row_bytes.streams.extend(_Stream(stream.data, stream.bounds[bounds]) for stream in items.streams)


def _to_byte_matrix(values: npt.NDArray[np.generic]) -> Bytes:
    """View numbers as uint8 [rows, bytes per number]."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)
