"""Content: what came out, as one number that does not know how it was cut.

`content_of` digests the logical rows of a table in order. The digest of two tables one after the other is the
sum of their digests (`Content.__add__`), so it is the same whatever parts, files or record batches the rows
were written in, on any machine. Golden tests, kill tests, worker-count tests and `cloze verify` compare it.

Each row is hashed with xxh3 (128 bits) over its values in a canonical form; the row hashes r0, r1, ... are
the coefficients of a polynomial, evaluated at a fixed base modulo the Mersenne prime 2^127 - 1 (Karp and Rabin
1987). It finds accidents, not forgers: whole files carry a sha256 beside it.

Cost: about 1 microsecond a row and variable-length column, plus reading the bytes once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

PRIME = (1 << 127) - 1
BASE = 0x3C6EF372FE94F82BA54FF53A5F1D36F1


@dataclass(frozen=True, slots=True)
class Content:
    """How many rows there are, and the digest of them in order.

    >>> str(Content(2, 255))
    '2.000000000000000000000000000000ff'
    """

    rows: int = 0
    digest: int = 0

    def __add__(self, later: "Content") -> "Content":
        shift = pow(BASE, later.rows, PRIME)
        return Content(self.rows + later.rows, (self.digest * shift + later.digest) % PRIME)

    def __str__(self) -> str:
        return f"{self.rows}.{self.digest:032x}"

    @staticmethod
    def parse(text: str) -> "Content":
        """The content that `str` wrote."""
        rows, digest = text.split(".")
        return Content(int(rows), int(digest, 16))


def content_of(table: pa.Table | pa.RecordBatch) -> Content:
    """The content of a table's rows in their order; column names and order count, chunks do not."""
    schema = xxhash.xxh3_128(str(table.schema.remove_metadata()).encode()).intdigest()
    digest = rows = 0
    for batch in _batches(table):
        for row in _row_hashes(batch, schema):
            digest = (digest * BASE + row) % PRIME
        rows += batch.num_rows
    return Content(rows, digest)


def _batches(table: pa.Table | pa.RecordBatch) -> list[pa.RecordBatch]:
    return [table] if isinstance(table, pa.RecordBatch) else table.to_batches()


def _row_hashes(batch: pa.RecordBatch, seed: int) -> Iterator[int]:
    """One 128-bit hash a row: of its fixed-width values and lengths first, then of its variable-length ones."""
    fixed: list[npt.NDArray[np.uint8]] = []
    variable: list[tuple[memoryview, list[int]]] = []
    for column in batch.columns:
        _split_column(column, fixed, variable)
    seed_bytes = seed.to_bytes(16, "little")
    matrix = np.concatenate(fixed, axis=1) if fixed else np.zeros((batch.num_rows, 0), np.uint8)
    rows = memoryview(np.ascontiguousarray(matrix).reshape(-1)) if matrix.size else memoryview(b"")
    width = matrix.shape[1]
    for row in range(batch.num_rows):
        state = xxhash.xxh3_128(seed_bytes)
        state.update(rows[row * width : (row + 1) * width])
        for data, bounds in variable:
            state.update(data[bounds[row] : bounds[row + 1]])
        yield state.intdigest() % PRIME


def _split_column(
    column: pa.Array, fixed: list[npt.NDArray[np.uint8]], variable: list[tuple[memoryview, list[int]]]
) -> None:
    """Append a column's validity and fixed-width bytes to `fixed`, its variable-length bytes to `variable`."""
    rows, kind = len(column), column.type
    fixed.append(column.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False).reshape(rows, 1))
    if pa.types.is_struct(kind):
        for child in column.flatten():
            _split_column(child, fixed, variable)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind) or _is_list(kind) or _is_large(kind):
        data, bounds = _variable_bytes(column)
        fixed.append(np.diff(bounds).astype("<i8").view(np.uint8).reshape(rows, 8))
        variable.append((data, bounds.tolist()))
    elif pa.types.is_fixed_size_binary(kind):
        filled = column.fill_null(b"\0" * kind.byte_width) if column.null_count else column
        _, data = filled.buffers()
        view = np.frombuffer(data, np.uint8)[filled.offset * kind.byte_width :][: rows * kind.byte_width]
        fixed.append(view.reshape(rows, kind.byte_width))
    else:
        zero = pa.scalar(0, kind) if not pa.types.is_boolean(kind) else pa.scalar(False)
        values = column.fill_null(zero) if column.null_count else column
        if pa.types.is_boolean(kind):
            values = values.cast(pa.uint8())
        plain = np.ascontiguousarray(values.to_numpy(zero_copy_only=False))
        fixed.append(plain.view(np.uint8).reshape(rows, plain.dtype.itemsize))


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _variable_bytes(column: pa.Array) -> tuple[memoryview, npt.NDArray[np.int64]]:
    """The bytes of a text, binary or list column and the byte bounds of its rows (nulls are empty)."""
    if column.null_count:
        column = column.fill_null("" if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
                                  else pa.scalar([] if _is_list(column.type) else b"", column.type))
    if _is_list(column.type):
        values = column.values
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.uint8())
        plain = np.ascontiguousarray(values.to_numpy(zero_copy_only=False))
        bounds = column.offsets.to_numpy().astype(np.int64) * plain.dtype.itemsize
        return memoryview(plain.view(np.uint8)), bounds
    _, offsets, data = column.buffers()
    dtype = np.int64 if _is_large(column.type) else np.int32
    starts = np.frombuffer(offsets, dtype)[column.offset : column.offset + len(column) + 1]
    return memoryview(data if data is not None else b""), starts.astype(np.int64)
