"""Parquet: a row is a record, a row group is a slice.

Promises: checksums of pages are compared if there are any; a file or row group that cannot be read is refused, and
one that tells different numbers of its rows. A row with texts that are not UTF-8 is a bad record and costs no other.
Costs: measured in `files.py`. Memory: 64 rows and the pages of a row group that hold them.

A row is known as JSON, one field for each column in the file's order: that is its raw record, and what
its id is made of if it has no key. Bytes are written as hexadecimal digits, times as ISO 8601.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from corpora.errors import InputError
from corpora.sources.bytes.objects import choose_column_bytes, open_for_library
from corpora.sources.files.fields import describe_remedy

BATCH_ROWS = 64
FAULTS = (pa.ArrowException, OSError, ValueError, OverflowError)  # what Arrow raises for a file that is damaged


class ParquetRow(NamedTuple):
    """A row of a Parquet file.

    group:  byte offset at which the row group is considered to begin (see `compute_group_starts`)
    number: index of the row in its row group
    values: values by column name
    fault:  why the row cannot be used, or "" if it can
    """

    group: int
    number: int
    values: dict[str, Any]
    fault: str = ""


def cut_groups(path: Path, size_bytes: int) -> list[int]:
    """Return the first byte of each slice of a Parquet file, with one slice per row group. The first one is 0.

    `size_bytes` is the size of the file.

    Raises:
        InputError: If the file cannot be read.
    """
    with open_parquet(path) as table:
        return [0, *compute_group_starts(table, size_bytes)[1:]]


def count_rows(path: Path, start: int, stop: int) -> int:
    """Count the rows of the row groups that begin in bytes `start` to `stop`, according to the file's footer.

    A row group is considered to begin at the byte that `compute_group_starts` computes.

    Raises:
        InputError: If the file cannot be read.
    """
    with open_parquet(path) as table:
        starts = enumerate(compute_group_starts(table, path.stat().st_size))
        return sum(table.metadata.row_group(group).num_rows for group, at in starts if start <= at < stop)


def read_rows(path: Path, start: int, stop: int, fields: Mapping[str, str]) -> Iterator[ParquetRow]:
    """Yield the rows of the Parquet row groups that begin in bytes `start` to `stop`.

    Args:
        path: Path of the file.
        start, stop: Byte range in the file. `compute_group_starts` computes at which byte a row group begins.
        fields: Maps attributes of `Record` to column names. All these columns must exist.

    Raises:
        InputError: During iteration, if a column is missing, or the file cannot be read.
    """
    with open_parquet(path) as table:
        _check_columns(table, path, fields)
        for group, at in enumerate(compute_group_starts(table, path.stat().st_size)):
            if start <= at < stop:
                yield from _iter_group_rows(table, group, at, path)


def iter_all_batches(
    table: pq.ParquetFile, path: Path, rows: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all row groups in batches of at most `rows` rows.

    Args:
        table: The open file.
        path: Path of the file, for error messages.
        rows: Maximum number of rows in a batch.
        columns: Columns to read. If None, all columns are read.

    Raises:
        InputError: During iteration, if a row group cannot be read, or its number of rows differs from the footer's.
    """
    for group in range(table.num_row_groups):
        yield from iter_group_batches(table, group, path, rows, columns)


def read_raw_row(path: Path, group: int, number: int) -> bytes:
    """Return a row of a Parquet file as JSON, or b"" if it does not exist.

    Args:
        path: Path of the file.
        group: Byte offset at which the row group is considered to begin (see `compute_group_starts`).
        number: Index of the row in its row group.

    Raises:
        InputError: If the file cannot be read.
    """
    for row in read_rows(path, group, group + 1, {}):
        if row.number == number:
            return to_row_json(row.values)
    return b""


def to_row_json(values: dict[str, Any]) -> bytes:
    r"""Return the values of a Parquet row, by column name, as one line of UTF-8 JSON.

    Bytes become hexadecimal digits, times ISO 8601. Unpaired surrogates are escaped.

    >>> to_row_json({"text": "é", "id": 7, "hash": b"\x01\xff"}).decode()
    '{"text": "é", "id": 7, "hash": "01ff"}'
    """
    return _ENCODER.encode(values).encode(errors="backslashreplace")


def _to_json_value(value: Any) -> str:
    """Convert a value that JSON does not support to a string: bytes to hexadecimal digits, times to ISO 8601."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_to_json_value)  # a tenth of the time that making one takes


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a Parquet file. Page checksums are verified when the pages are read.

    Raises:
        InputError: If the file is not a Parquet file, is damaged, or its footer states inconsistent numbers of rows.
    """
    try:
        table = pq.ParquetFile(
            open_for_library(path, 0), buffer_size=choose_column_bytes(path), page_checksum_verification=True
        )
    except FAULTS as error:
        raise InputError(f"{path} is damaged or no Parquet file: {_to_one_line(error)}. Get the file again.") from error
    rows = [table.metadata.row_group(group).num_rows for group in range(table.num_row_groups)]
    if sum(rows) != table.metadata.num_rows:
        told = f"{table.metadata.num_rows:,} rows, and its row groups have {sum(rows):,}"
        raise InputError(f"{path} is damaged: it says that it has {told}. Get the file again.")
    return table


def iter_group_batches(
    table: pq.ParquetFile, group: int, path: Path, rows: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one row group in batches of at most `rows` rows.

    Args:
        table: The open file.
        group: Index of the row group.
        path: Path of the file, for error messages.
        rows: Maximum number of rows in a batch.
        columns: Columns to read. If None, all columns are read.

    Raises:
        InputError: During iteration, if the group cannot be read; after the last batch, if the number of rows differs
            from the footer's. The number is not checked for list columns.
    """
    metadata, read = table.metadata.row_group(group), 0
    try:
        for batch in table.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
            read += batch.num_rows
            yield batch
    except FAULTS as error:
        raise InputError(
            f"{path}: row group {group} cannot be read: {_to_one_line(error)}. Get the file again."
        ) from error
    leaves = [table.schema.column(index) for index in range(len(table.schema))]
    told = {metadata.num_rows} | {
        metadata.column(index).num_values
        for index, leaf in enumerate(leaves)
        if leaf.max_repetition_level == 0 and (columns is None or leaf.path in columns)
    }
    if told != {read}:
        promised = " or ".join(f"{number:,}" for number in sorted(told))
        raise InputError(f"{path}: row group {group} gives {read:,} rows of {promised}. Get the file again.")


def read_columns(path: Path) -> dict[str, bool]:
    """Map the column names of a Parquet file to True if the column is nested (contains other columns), else False.

    Raises:
        InputError: If the file cannot be read.
    """
    with open_parquet(path) as table:
        return {field.name: pa.types.is_struct(field.type) for field in table.schema_arrow}


def _to_one_line(error: Exception) -> str:
    """Return the message of an Arrow error on one line, without a final period."""
    return " ".join(str(error).split()).rstrip(" .")


def is_text_type(kind: pa.DataType) -> bool:
    """Return True for string and binary types, including dictionary-encoded ones, and for the null type."""
    own, types = kind.value_type if pa.types.is_dictionary(kind) else kind, pa.types
    tests = types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary
    return any(test(own) for test in (*tests, types.is_null))


def has_column(columns: Mapping[str, bool], field: str) -> bool:
    """Return True if a field is a column, or may be inside one.

    Args:
        columns: The column names, each mapped to True if the column contains other columns.
        field: A column name, or a dot-separated path that begins with one.
    """
    return field in columns or columns.get(field.partition(".")[0], False)


def _check_columns(table: pq.ParquetFile, path: Path, fields: Mapping[str, str]) -> None:
    """Check that a file has all columns in `fields`, a map from attributes of `Record` to columns.

    Raises:
        InputError: If one is missing. The message names the file at `path`.
    """
    columns = {field.name: pa.types.is_struct(field.type) for field in table.schema_arrow}
    for name, column in fields.items():
        if not has_column(columns, column):
            names = ", ".join(columns)[:500]
            raise InputError(f"{path} has no column {column!r}, only {names}. {describe_remedy(name)}.")


def compute_group_starts(table: pq.ParquetFile, size_bytes: int) -> list[int]:
    """Compute the byte offset at which each row group is considered to begin, from the sizes of the groups.

    The offsets are only approximate, but always distinct and inside the file. The true offsets are stored with the
    groups' columns, but Arrow 26 crashes when these are accessed in a file with a damaged footer.

    Args:
        table: The open file.
        size_bytes: Size of the file.
    """
    metadata, starts = table.metadata, list[int]()
    sizes = [max(metadata.row_group(group).total_byte_size, 1) for group in range(metadata.num_row_groups)]
    for group, before in enumerate(accumulate(sizes[:-1], initial=0) if sizes else ()):
        last = size_bytes - (len(sizes) - group)
        starts.append(max(min(before * size_bytes // sum(sizes), last), starts[-1] + 1 if starts else 0))
    return starts


def _iter_group_rows(table: pq.ParquetFile, group: int, start: int, path: Path) -> Iterator[ParquetRow]:
    """Yield the rows of the row group with index `group`, which is considered to begin at byte `start` of the file.

    Raises:
        InputError: During iteration, if the group cannot be read. The message names the file at `path`.
    """
    rows = (row for batch in iter_group_batches(table, group, path, BATCH_ROWS) for row in list_batch_rows(batch))
    for number, (values, fault) in enumerate(rows):
        yield ParquetRow(start, number, values, fault)


def list_batch_rows(batch: pa.RecordBatch) -> list[tuple[dict[str, Any], str]]:
    """Return the rows of a batch as (values by column, fault). The fault is "", or the reason why the row is unusable.

    If any value cannot be converted, for example because it is not valid UTF-8, the rows are converted one at a time.
    """
    whole = pa.RecordBatch.from_arrays([_to_microseconds(column) for column in batch.columns], batch.schema.names)
    try:
        return [(row, "") for row in whole.to_pylist()]
    except (ValueError, OverflowError):
        return [_read_one_row(whole.slice(row, 1)) for row in range(whole.num_rows)]


def list_values(column: pa.Array) -> list[Any]:
    """Return the values of an Arrow column as Python objects.

    A value that Python cannot represent, such as a string that is not UTF-8, becomes bytes, a string or None.
    """
    return [row[""] for row, _ in list_batch_rows(pa.RecordBatch.from_arrays([column], [""]))]


def _to_microseconds(column: pa.Array) -> pa.Array:
    """Convert a column of times in nanoseconds, which Python does not support, to microseconds.

    Other columns are returned unchanged.
    """
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_time64(column.type) and column.type.unit == "ns":
        return column.cast(pa.time64("us"), safe=False)
    return column


def _read_one_row(row: pa.RecordBatch) -> tuple[dict[str, Any], str]:
    """Convert a batch of one row that may contain values that cannot be converted.

    A time outside Python's range becomes a string, and a string that is not valid UTF-8 becomes bytes.

    Returns:
        The values by column, and a description of the last fault, or "" if there is none.
    """
    values: dict[str, Any] = {}
    fault = ""
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            values[name] = column.to_pylist()[0]
        except UnicodeDecodeError as error:
            fault = f"column {name!r} is not utf-8: {error.reason}"
            nested = pa.types.is_nested(column.type)
            values[name] = None if nested else column.cast(pa.large_binary()).to_pylist()[0]
        except (ValueError, OverflowError) as error:
            fault = f"column {name!r} cannot be read: {error}"
            values[name] = column.cast(pa.string()).to_pylist()[0] if pa.types.is_temporal(column.type) else None
    return values, fault
