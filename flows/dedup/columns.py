"""The columns of rows that come from several files: one type for each name, and the values converted to that type.

Promise: a value is written unchanged if all rows have values of one type in its column; whole numbers next to decimals
become decimals. If the types differ, the column becomes text: a text is kept, any other value is written as JSON.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from corpora.sources.files.parquet import list_values, to_row_json

Rows: TypeAlias = pa.RecordBatch | Sequence[Mapping[str, Any] | None]
ColumnTypes = Mapping[str, pa.DataType | None]  # None: values of several types, which become text
INT64_BOUND = 2**63
ADDED_COLUMNS = {
    "file": pa.string(),
    "row": pa.int64(),
    "reason": pa.string(),
    "survivor": pa.string(),
    "similarity": pa.float32(),
    "missing": pa.float32(),
}  # columns of removed rows


def find_column_types(rows: Rows) -> ColumnTypes:
    """Find the type of each column in some rows.

    Args:
        rows: A record batch, or one dictionary of values per row; None for a row that could not be read.

    Returns:
        Maps each column name to its Arrow type. The type is `pa.null()` if the column has no values, and None if no
        Arrow type can hold all of its values.
    """
    if isinstance(rows, pa.RecordBatch):
        return {field.name: field.type for field in rows.schema}
    names = dict.fromkeys(name for each in rows if each is not None for name in each)
    return {name: _infer_type([each.get(name) for each in rows if each is not None]) for name in names}


def _infer_type(values: Sequence[Any]) -> pa.DataType | None:
    """Return an Arrow type that can hold all the values, or None if there is no such type.

    Missing values are ignored.
    """
    types = {type(value) for value in values} - {type(None)}
    if not types:
        return pa.null()
    if types == {str}:
        return pa.large_string()
    if types == {bool}:
        return pa.bool_()
    if types <= {int, float} and all(-INT64_BOUND <= value < INT64_BOUND for value in values if type(value) is int):
        return pa.int64() if types == {int} else pa.float64()
    if types in ({list}, {dict}):
        try:
            inferred = pa.array(values).type
        except (pa.ArrowException, ValueError, OverflowError):
            return None
        return inferred if not _has_empty_struct(inferred) else None
    return None


def _has_empty_struct(type: pa.DataType) -> bool:
    """Return True if a type is or contains a struct without fields, which Parquet cannot store."""
    if pa.types.is_struct(type):
        return type.num_fields == 0 or any(_has_empty_struct(field.type) for field in type)
    return bool(pa.types.is_list(type)) and _has_empty_struct(type.value_type)


def merge_types(column_types: Iterable[ColumnTypes]) -> ColumnTypes:
    """Merge the column types of several files into one type for each column name.

    Args:
        column_types: The types from `find_column_types` for each file.

    Returns:
        Maps each column name to its Arrow type, or to None if the types differ and have no common type.
    """
    merged: dict[str, pa.DataType | None] = {}
    for each in column_types:
        for name, kind in each.items():
            merged[name] = _merge_two(merged[name], kind) if name in merged else kind
    return merged


def _merge_two(one: pa.DataType | None, other: pa.DataType | None) -> pa.DataType | None:
    """Return a type to which both types can be converted, or None if there is no such type or one of them is None."""
    if one is None or other is None or one == other:
        return one if other is not None else None
    schemas = [pa.schema([("a", kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("a").type
    except pa.ArrowException:
        return None


def build_schema(types: ColumnTypes) -> pa.Schema:
    """Build the Arrow schema of the output rows. A column with the type None becomes a large_string column.

    Args:
        types: The column types from `merge_types`.
    """
    return pa.schema([(name, kind if kind is not None else pa.large_string()) for name, kind in types.items()])


def convert_column(rows: Rows, name: str, types: ColumnTypes) -> pa.Array:
    """Return a column of some rows, converted to the type that was chosen for all files.

    Args:
        rows: A record batch, or one dictionary of values per row; None for a row that could not be read.
        name: Name of the column, which must be in `types`.
        types: The column types from `merge_types`.

    Returns:
        An Arrow array with one value per row, which is null if the row has no such column. If the column's type is
        None, values are converted to strings.
    """
    kind = types[name]
    if isinstance(rows, pa.RecordBatch):
        if name not in rows.schema.names:
            return pa.nulls(rows.num_rows, kind if kind is not None else pa.large_string())
        values = rows.column(name)
        if kind is not None:
            return values if values.type == kind else values.cast(kind)
        values = list_values(values)
    else:
        values = [row.get(name) if row is not None else None for row in rows]
    if kind is None:
        return pa.array([_to_text(value) for value in values], pa.large_string())
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # half a character
        return pa.array([_to_text(value) for value in values], pa.large_string()).cast(kind)


def _to_text(value: Any) -> str | None:
    """Convert a value to a string. Strings are not changed, and other values are written as JSON.

    Invalid surrogates are replaced by backslash escapes. None is returned for None.
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(json.loads(to_row_json({"": value}))[""], ensure_ascii=False)
    return text.encode(errors="backslashreplace").decode()
