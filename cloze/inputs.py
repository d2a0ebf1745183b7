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

SHOWN = 60  # characters of a value
ROWS = 10_000  # of a table that are written together
OF_DOCUMENTS = ("text", "title", "url", "date", "license", "group")
OTHERS = {
    "shards": "Its examples are opened by cloze.open_shards.",
    "vocabularies": "It is opened by cloze.load_vocabulary.",
    "models": "It is a model: name it in the place of a model, as in cloze.predict(model, rows).",
    "tasks": "It is a model: name it in the place of a model, as in cloze.predict(model, rows).",
}


@dataclass(frozen=True)
class Given:
    """Where what a caller gave can be read.

    path:      a file, a folder, a glob or an address
    written:   whether it was written there for the caller
    texts:     whether it is a list of texts, in the column `text`
    documents: whether it has the columns of documents
    num_rows:  of what was written; None of files
    dataset:   the `datasets.Dataset` that it is, else None
    """

    path: str
    _: KW_ONLY
    written: bool = True
    texts: bool = False
    documents: bool = False
    num_rows: int | None = None
    dataset: Any = None


def look_at(value: Any, argument: str, folder: Path, name: str = "") -> Given:
    """Return where a value can be read; rows are written below a folder. Raises InputError.

    argument: what messages call it; name: of the file that rows are written to, if it is another
    """
    path = Path(mkdtemp(dir=folder)) / (name or argument)
    if isinstance(value, str | Path):
        return _path(value, argument, path)
    if _is_ours(value, "Documents"):
        return _documents(value.batches(), path)
    if refusal := _refusal(value):
        raise InputError(f"{argument} is {refusal}")
    if _is_dataset(value):
        tables = chain([value.features.arrow_schema.empty_table()], value.with_format("arrow").iter(ROWS))
        return replace(_write_table(tables, argument, path), dataset=value)
    if (table := _table(value, argument)) is not None:
        return _write_table(table, argument, path)
    return _rows(value, argument, path.with_suffix(".jsonl"))


def _path(value: str | Path, argument: str, path: Path) -> Given:
    """Look at a path: what a store holds is read as documents. Raises InputError."""
    address = str(value)
    if is_object_address(address) or address.startswith("sample:"):
        return Given(address, written=False)
    first, pattern = split_glob(address.removeprefix("file://"))
    try:
        there = first.exists()
    except (OSError, ValueError):  # too long for a file's name, or no name of one
        there = False
    if not there or not address:
        raise InputError(
            f"{argument}: there is no file or folder {to_one_line(address, SHOWN)!r}. A text is given in a list: "
            "[text]."
        )
    if find_store(first) is None:
        return Given(address, written=False)
    artifact = _artifact(address if pattern == "." else str(first), argument)
    stored = (
        Corpus(artifact.place, artifact.manifest).iter_batches()
        if artifact.manifest.kind == "corpora"
        else read_table(artifact.place, artifact.manifest, "documents", DOCUMENTS.names)
    )
    return _documents(stored, path)


def _artifact(address: str, argument: str) -> Artifact:
    """Return the corpus that an address in a store means, or the documents. Raises InputError."""
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
        f"{argument}: {address} is of a store, and of the kind {kind}. {OTHERS.get(kind, 'It is no text.')}"
    )


def _documents(batches: Iterable[pa.RecordBatch], path: Path) -> Given:
    """Write documents, which have their ids as text."""
    schema = pa.schema([*((name, DOCUMENTS.field(name).type) for name in OF_DOCUMENTS), ("id", pa.string())])

    def plain(batch: pa.RecordBatch) -> pa.Table:
        ids = pa.array([id.hex() for id in batch.column("id").to_pylist()])
        return pa.table([*(batch.column(name) for name in OF_DOCUMENTS), ids], schema=schema)

    return replace(_write_table(chain([schema.empty_table()], map(plain, batches)), path.name, path), documents=True)


def _is_ours(value: Any, name: str = "") -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] == "cloze" and name in ("", kind.__name__)


def _is_dataset(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "datasets" and hasattr(value, "select")


def _refusal(value: Any) -> str:
    """Return what a value is that is no texts, rows or files, with what to write instead; "" of others."""
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
    if isinstance(value, type) or getattr(value, "shape", None) == () or not _gives_rows(value):
        return f"{'a class' if isinstance(value, type) else f'of the type {kind}'}: give texts, rows or a file."
    return ""


def _gives_rows(value: Any) -> bool:
    return hasattr(value, "__iter__") or hasattr(value, "__getitem__")


def _is_column(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | bytes | Mapping)


def _table(value: Any, argument: str) -> Iterable[pa.Table] | None:
    """Return a table as tables of Arrow; None of what is none. Raises InputError."""
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


def _write_table(tables: Iterable[pa.Table], argument: str, path: Path) -> Given:
    """Write tables of one schema as Parquet."""
    whole, writer, num_rows = path.with_suffix(".parquet"), None, 0
    try:
        for table in tables:
            writer = writer or pq.ParquetWriter(whole, table.schema, store_schema=False)
            writer.write_table(table, ROWS)
            num_rows += len(table)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"{argument}: this table cannot be written as Parquet: {str(error).rstrip('.')}.") from error
    finally:
        if writer is not None:
            writer.close()
    if not num_rows:
        return _rows((), argument, path.with_suffix(".jsonl"))
    return Given(str(whole), num_rows=num_rows)


def group_begins(path: Path) -> dict[int, int]:
    """Return the first row of each row group of a file that was written here, by where the group counts to begin."""
    with open_parquet(path) as table:
        groups = range(table.metadata.num_row_groups)
        firsts = accumulate((table.metadata.row_group(group).num_rows for group in groups), initial=0)
        return dict(zip(compute_group_starts(table, path.stat().st_size), firsts, strict=False))


def _rows(value: Any, argument: str, path: Path) -> Given:
    """Write texts, and dictionaries, as lines of JSON. Raises InputError for other rows."""
    only_texts, number = True, -1
    with path.open("w", encoding="utf-8") as file:
        for number, row in enumerate(value):
            record = _record(row, f"{argument}[{number}]")
            only_texts = only_texts and record.keys() == {"text"}
            file.write(_json(record, f"{argument}[{number}]") + "\n")
    return Given(str(path), texts=only_texts, num_rows=number + 1)


def _record(row: Any, place: str) -> Mapping[str, Any]:
    """Return a row as a dictionary; what has no value is None. Raises InputError."""
    row = row.as_py() if isinstance(row, pa.Scalar) else row
    if isinstance(row, Mapping):
        return {key: None if _is_missing(value) else value for key, value in row.items()}
    if isinstance(row, str) or _is_missing(row):
        return {"text": row if isinstance(row, str) else None}
    raise InputError(f"{place} is of the type {type(row).__name__}: rows are texts, or dictionaries with names.")


def _is_missing(value: Any) -> bool:
    kind = type(value).__name__
    return value is None or kind in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def _json(record: Mapping[str, Any], place: str) -> str:
    def plain(value: Any) -> Any:
        for name in ("isoformat", "tolist"):  # of dates; of arrays, tensors and their numbers
            if hasattr(value, name):
                return getattr(value, name)()
        raise TypeError(f"a value of the type {type(value).__name__}")

    try:
        return json.dumps(record, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{place} holds {str(error)[:200]}, which JSON does not have: make a text of it.") from error


def texts_of(value: Any, argument: str, words: bool = False) -> Any:
    """Return a text, or a list of texts or pairs; with words a list of words, or of such. Raises InputError."""
    if isinstance(value, str) and not words:
        return str(value)
    named = isinstance(value, Mapping) or hasattr(value, "columns") or hasattr(value, "column_names")
    if isinstance(value, str | Path) or named or _refusal(value) or _is_ours(value):
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
