"""What a caller gives for texts, rows or files: looked at here, for every function of the package.

    a path (str, Path)                                                  ─► where its files are
    texts or dictionaries (list, generator, array, Series, ...)         ─► a file of JSON lines
    a table (DataFrame, Arrow, datasets.Dataset, a dictionary of columns,
    Documents, a corpus or documents in a store)                        ─► a file of Parquet

Promise: what is not one of these is refused with what to write instead; nothing is taken for something else. A row
without text is a row, which readers count. A table is read as a file of Parquet with the same columns is.
Cost: rows and tables are written once, into the folder of a workspace.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from itertools import accumulate, chain
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.schema import DOCUMENTS
from corpora.sources.contract import split_glob
from corpora.sources.files.parquet import compute_group_starts, open_parquet
from corpora.store.places.address import is_object_address
from corpora.store.tables import read_table
from flows.recipes.privacy import to_one_line
from flows.recipes.store_folders import find_store
from flows.run.addresses import Artifact, find_artifacts, pick_newest

MAX_SHOWN_CHARACTERS = 60  # characters of a value
ROWS_PER_WRITE = 10_000  # of a table that are written together
DOCUMENT_COLUMNS = ("text", "title", "url", "date", "license", "group")
HINT_BY_KIND = {
    "shards": "Its examples are opened by cloze.open_shards.",
    "vocabularies": "It is opened by cloze.load_vocabulary.",
    "models": "It is a model: name it in the place of a model, as in cloze.predict(model, rows).",
    "tasks": "It is a model: name it in the place of a model, as in cloze.predict(model, rows).",
}


@dataclass(frozen=True)
class InputLocation:
    """Location of the caller's input: a path that the caller named, or a file to which the input was written.

    Attributes:
        path: A file, a folder, a glob or an address.
        is_written: True if the input was written to this path, False if the caller named the path.
        has_only_texts: True if the input is a list of texts, which are in the column `text`.
        is_documents: True if the file has the columns of documents.
        num_rows: Number of rows that were written, or None if the caller named the path.
        dataset: The `datasets.Dataset` that was given, or None.
        stored: The corpus or the documents in a store that were given, of which the file has the texts; or None.
    """

    path: str
    _: KW_ONLY
    is_written: bool = True
    has_only_texts: bool = False
    is_documents: bool = False
    num_rows: int | None = None
    dataset: Any = None
    stored: Artifact | None = None


def locate_input(value: Any, argument: str, folder: Path, name: str = "") -> InputLocation:
    """Return the location of the caller's input. Rows and tables are first written to a file in `folder`.

    Args:
        value: The input: the path of files, texts or dictionaries, a table, or documents.
        argument: Name of the argument in error messages.
        folder: The folder in which a file may be written.
        name: Name of that file without extension (default: `argument`).

    Raises:
        InputError: If the input is not of a supported type, or the path does not exist.
    """
    path = Path(mkdtemp(dir=folder)) / (name or argument)
    if isinstance(value, str | Path):
        return _locate_path(value, argument, path)
    if _is_ours(value, "Documents"):
        return _write_documents(value.batches(), path)
    if refusal := _find_refusal(value):
        raise InputError(f"{argument} is {refusal}")
    if _is_dataset(value):
        tables = chain([value.features.arrow_schema.empty_table()], value.with_format("arrow").iter(ROWS_PER_WRITE))
        return replace(_write_table(tables, argument, path), dataset=value)
    if (table := _to_tables(value, argument)) is not None:
        return _write_table(table, argument, path)
    return _write_rows(value, argument, path.with_suffix(".jsonl"))


def _locate_path(value: str | Path, argument: str, path: Path) -> InputLocation:
    """Check that a path named by the caller exists, and return its location.

    If the path points into a store, the documents found there are written to a file, and that file is returned.

    Args:
        value: The path, glob or address.
        argument: Name of the argument in error messages.
        path: The file to write, without extension.

    Raises:
        InputError: If the path does not exist, or the store has several corpora or no documents.
    """
    address = str(value)
    if is_object_address(address) or address.startswith("sample:"):
        return InputLocation(address, is_written=False)
    first, pattern = split_glob(address.removeprefix("file://"))
    try:
        there = first.exists()
    except (OSError, ValueError):  # too long for a file's name, or no name of one
        there = False
    if not there or not address:
        raise InputError(
            f"{argument}: there is no file or folder {to_one_line(address, MAX_SHOWN_CHARACTERS)!r}. A text is given "
            "in a list: [text]."
        )
    if find_store(first) is None:
        return InputLocation(address, is_written=False)
    artifact = _find_artifact(address if pattern == "." else str(first), argument)
    stored = (
        Corpus(artifact.place, artifact.manifest).iter_batches()
        if artifact.manifest.kind == "corpora"
        else read_table(artifact.place, artifact.manifest, "documents", DOCUMENTS.names)
    )
    return replace(_write_documents(stored, path), stored=artifact)


def _find_artifact(address: str, argument: str) -> Artifact:
    """Find the only corpus at an address in a store, or the only documents if there is no corpus.

    Args:
        address: The address.
        argument: Name of the argument in error messages.

    Raises:
        InputError: If there are several corpora, or neither a corpus nor documents.
    """
    found = find_artifacts(address)
    for kind in ("corpora", "documents"):
        of_kind = [each for each in found if each.manifest.kind == kind]
        names = sorted({each.place.to_address(each.manifest.stage_folder) for each in of_kind})
        if len(names) > 1:
            raise InputError(f"{argument}: {address} has several {kind}: give the folder of one, {' or '.join(names)}.")
        if of_kind:
            return pick_newest(of_kind)
    kind = found[-1].manifest.kind
    raise InputError(
        f"{argument}: {address} is of a store, and of the kind {kind}. {HINT_BY_KIND.get(kind, 'It is no text.')}"
    )


def _write_documents(batches: Iterable[pa.RecordBatch], path: Path) -> InputLocation:
    """Write documents to a Parquet file with the columns DOCUMENT_COLUMNS and `id`, the hexadecimal id.

    Args:
        batches: Record batches of documents.
        path: The file, without extension.
    """
    schema = pa.schema([*((name, DOCUMENTS.field(name).type) for name in DOCUMENT_COLUMNS), ("id", pa.string())])

    def plain(batch: pa.RecordBatch) -> pa.Table:
        ids = pa.array([id.hex() for id in batch.column("id").to_pylist()])
        return pa.table([*(batch.column(name) for name in DOCUMENT_COLUMNS), ids], schema=schema)

    return replace(_write_table(chain([schema.empty_table()], map(plain, batches)), path.name, path), is_documents=True)


def _is_ours(value: Any, name: str = "") -> bool:
    """Return True if the class of a value is in this package and, unless `name` is empty, has this name."""
    kind = type(value)
    return kind.__module__.partition(".")[0] == "cloze" and name in ("", kind.__name__)


def _is_dataset(value: Any) -> bool:
    """Return True if a value is a `datasets.Dataset`. The library is not imported."""
    return type(value).__module__.partition(".")[0] == "datasets" and hasattr(value, "select")


def _find_refusal(value: Any) -> str:
    """Explain why an input is not supported, as the end of an error message. Return "" if it may be supported.

    For an open file the result is "an open file: give its path."
    """
    kind = type(value).__name__
    if _is_ours(value) and kind != "Documents":
        return f"a {kind}, which has no texts: give documents, texts, rows or a file."
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{kind}: give a text in a list, [value.decode()], or the path of a file."
    if isinstance(value, set | frozenset):
        return f"a {kind}, which has no order: give sorted(...) of it."
    if hasattr(value, "read") and hasattr(value, "close"):
        return "an open file: give its path."
    if isinstance(value, Mapping) and value and all(hasattr(each, "column_names") for each in value.values()):
        return f"a {kind}: give one of its splits, as in dataset[{next(iter(value))!r}]."
    if isinstance(value, Mapping) and not all(_is_column(each) for each in value.values()):
        return "a dictionary whose values are no columns: of one record make a list, [record]."
    if isinstance(value, type) or getattr(value, "shape", None) == () or not _has_rows(value):
        return f"{'a class' if isinstance(value, type) else f'of the type {kind}'}: give texts, rows or a file."
    return ""


def _has_rows(value: Any) -> bool:
    """Return True if a value can be iterated."""
    return hasattr(value, "__iter__") or hasattr(value, "__getitem__")


def _is_column(value: Any) -> bool:
    """Return True if a value is a sequence, such as a list or an array, but neither a text nor a dictionary."""
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | bytes | Mapping)


def _to_tables(value: Any, argument: str) -> Iterable[pa.Table] | None:
    """Convert a table from any library to Arrow tables. Return None if the value is not a table.

    Args:
        value: A dictionary of columns, a pandas DataFrame, or an object that exports the Arrow C interface.
        argument: Name of the argument in error messages.

    Raises:
        InputError: If Arrow cannot represent the table.
    """
    try:
        if isinstance(value, Mapping):
            return [pa.table({str(name): [*column] for name, column in value.items()})]
        if type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns"):
            return [pa.Table.from_pandas(value, preserve_index=False)]
        if isinstance(value, pa.RecordBatchReader):
            return (pa.table(batch) for batch in value)
        named = hasattr(value, "columns") or hasattr(value, "column_names")
        exports = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
        return [pa.table(value)] if named and exports else None
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"{argument}: Arrow cannot hold this table: {str(error).rstrip('.')}. Give columns of one type each."
        ) from error


def _write_table(tables: Iterable[pa.Table], argument: str, path: Path) -> InputLocation:
    """Write Arrow tables with the same schema to one Parquet file.

    Args:
        tables: The tables. If they have no rows, an empty file of JSON lines is written.
        argument: Name of the argument in error messages.
        path: The file, without extension.

    Raises:
        InputError: If Parquet cannot represent the table.
    """
    whole, writer, num_rows = path.with_suffix(".parquet"), None, 0
    try:
        for table in tables:
            writer = writer or pq.ParquetWriter(whole, table.schema, store_schema=False)
            writer.write_table(table, ROWS_PER_WRITE)
            num_rows += len(table)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"{argument}: this table cannot be written as Parquet: {str(error).rstrip('.')}.") from error
    finally:
        if writer is not None:
            writer.close()
    if not num_rows:
        return _write_rows((), argument, path.with_suffix(".jsonl"))
    return InputLocation(str(whole), num_rows=num_rows)


def compute_group_begins(path: Path) -> dict[int, int]:
    """Map each row group of a Parquet file to the index of its first row.

    The keys are byte offsets in the file, estimated from the sizes of the row groups. `Locator.stream` of a row has the
    same offset for its group.

    Raises:
        InputError: If the file is not a Parquet file or is damaged.
    """
    with open_parquet(path) as table:
        groups = range(table.metadata.num_row_groups)
        firsts = accumulate((table.metadata.row_group(group).num_rows for group in groups), initial=0)
        return dict(zip(compute_group_starts(table, path.stat().st_size), firsts, strict=False))


def _write_rows(value: Any, argument: str, path: Path) -> InputLocation:
    """Write texts and dictionaries as JSON lines. A text becomes a dictionary with the key `text`.

    Args:
        value: The rows.
        argument: Name of the argument in error messages.
        path: The file, with its extension.

    Raises:
        InputError: If a row is neither a text nor a dictionary, or has a value that JSON cannot represent.
    """
    only_texts, number = True, -1
    with path.open("w", encoding="utf-8") as file:
        for number, row in enumerate(value):
            record = _to_record(row, f"{argument}[{number}]")
            only_texts = only_texts and record.keys() == {"text"}
            file.write(_to_json(record, f"{argument}[{number}]") + "\n")
    return InputLocation(str(path), has_only_texts=only_texts, num_rows=number + 1)


def _to_record(row: Any, place: str) -> Mapping[str, Any]:
    """Convert a row to a dictionary, in which missing values (such as NaN) are None.

    A text becomes the value of the key `text`.

    Args:
        row: A text, a dictionary or a missing value.
        place: The row in error messages, such as "docs[3]".

    Raises:
        InputError: If the row is something else.
    """
    row = row.as_py() if isinstance(row, pa.Scalar) else row
    if isinstance(row, Mapping):
        return {key: None if _is_missing(value) else value for key, value in row.items()}
    if isinstance(row, str) or _is_missing(row):
        return {"text": row if isinstance(row, str) else None}
    raise InputError(f"{place} is of the type {type(row).__name__}: rows are texts, or dictionaries with names.")


def _is_missing(value: Any) -> bool:
    """Return True if a value is None, NaN, or the missing value of pandas."""
    kind = type(value).__name__
    return value is None or kind in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def _to_json(record: Mapping[str, Any], place: str) -> str:
    """Convert a dictionary to one line of JSON. Dates become ISO strings, and arrays and tensors become lists.

    Args:
        record: The dictionary.
        place: The row in error messages, such as "docs[3]".

    Raises:
        InputError: If JSON cannot represent a value.
    """

    def plain(value: Any) -> Any:
        for name in ("isoformat", "tolist"):  # of dates; of arrays, tensors and their numbers
            if hasattr(value, name):
                return getattr(value, name)()
        raise TypeError(f"a value of the type {type(value).__name__}")

    try:
        return json.dumps(record, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{place} holds {str(error)[:200]}, which JSON does not have: make a text of it.") from error


def to_texts(value: Any, argument: str, words: bool = False) -> Any:
    """Check that a value is a string, or an iterable of strings or of string pairs. Return it as a string or list.

    Args:
        value: The value. Any iterable except a dictionary or table can be used as a list, such as a column.
        argument: Name of the argument in error messages.
        words: If True, the value must be a list of words, or a list of such lists.

    Raises:
        InputError: If the value has any other type.
    """
    if isinstance(value, str) and not words:
        return str(value)
    named = isinstance(value, Mapping) or hasattr(value, "columns") or hasattr(value, "column_names")
    if isinstance(value, str | Path) or named or _find_refusal(value) or _is_ours(value):
        what = "words" if words else "a text or several"
        raise InputError(
            f"{argument} is of the type {type(value).__name__}: give {what} in a list, or a column of them."
        )
    texts = [row.as_py() if isinstance(row, pa.Scalar) else row for row in value]
    texts = [[*row] if words and isinstance(row, list | tuple) else row for row in texts]
    for number, row in enumerate(texts):
        nested = isinstance(row, list) if words else isinstance(row, tuple) and len(row) == 2
        parts = row if nested else [row]
        if not all(isinstance(each, str) for each in parts):
            raise InputError(f"{argument}[{number}] is of the type {type(row).__name__}, and no text: give texts.")
    return texts
