"""Files cut into pieces, and the rows of a piece, in chunks.

Promises: a row is a line that is not blank, a row of a table or of Parquet, or a file; rows are numbered from 1 in
their file, and a piece gives the same rows whenever it is read. Columns are as the file has them. A row that cannot be
read, or has no text, is a row: it has neither text nor, where it is unreadable, fields. Half a character and bytes
that are not UTF-8 are compared as replacement marks, and written as they came.
Cost: of JSON lines 2 ns a byte, or 5 with all columns; of Parquet 1. Memory: a chunk, or one row if that is larger.
"""

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.errors import InputError
from corpora.kernels.arrays import Bools
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.bytes.objects import raw_path
from corpora.sources.bytes.raw_files import AUTO, Lines
from corpora.sources.bytes.unchanged import states_of
from corpora.sources.contract import RawFile, Slice, Tally, slice_whole_file, split_glob
from corpora.sources.files import parquet
from corpora.sources.files.endings import JSON_ENDINGS, SHEET_ENDINGS
from corpora.sources.files.fields import look_up, names_of, settled
from corpora.sources.files.formats import JsonLines, ParquetRows, wide_lines
from corpora.sources.files.guessing import guess_text
from corpora.sources.files.json_lines import QUOTE, find_values, first_bytes, pick_first, read_strings, read_value
from corpora.sources.files.json_spans import ABSENT
from corpora.sources.files.source import FilesSource
from corpora.sources.files.tables import TextTable
from corpora.sources.passed_over import FileGroup, count_files, to_absolute
from corpora.store.manifest import ManifestAddress
from corpora.store.places.address import is_object_address
from corpora.store.places.place import Place
from flows.dedup.columns import ADDED
from flows.recipes.store_folders import refuse_store

if TYPE_CHECKING:
    from corpora.views import PartView

CHUNK_ROWS, CHUNK_BYTES = 2_048, 4_000_000
MOST_RECORD_BYTES = 1 << 30
Fields = Mapping[str, Any] | None
RECORD_FIELDS = ("title", "url", "date", "license", "group", "meta")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusPart:
    """A part of a corpus in a store."""

    place: Place
    corpus: ManifestAddress
    view: "PartView"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPiece:
    """A part of an input that is read at once: rows of one file, or a part of a corpus.

    name:   of the file, for people
    within: the column that names a row's group, and the one that names the row; "" for none
    """

    name: str
    size: int
    source: FilesSource
    where: Slice | CorpusPart
    within: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChunk:
    """Some rows of a piece. `fields`: of each its columns, None if they were not asked for or cannot be read.

    first: the number of its first row in the piece
    texts: large_string, null where there is none
    raw:   the lines of JSON that the rows are
    """

    first: int
    texts: pa.Array
    fields: pa.RecordBatch | Sequence[Fields]
    raw: Lines | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What is read. states: of the files, before any was read; not_read: other files in their folders."""

    pieces: Sequence[InputPiece]
    states: Mapping[str, str] = field(default_factory=dict)
    not_read: Sequence[FileGroup] = ()


def inputs_of(inputs: Sequence[str], text: str, within: str, id: str) -> Inputs:
    """Return the pieces of some files, folders and globs, in their order. Raises InputError."""
    pieces: list[InputPiece] = []
    states: dict[str, str] = {}
    not_read: list[FileGroup] = []
    for given in inputs:
        fields = {"text": text} if text else {}
        source = FilesSource(name=given, path=given, fields=fields, encoding=AUTO, max_record_bytes=MOST_RECORD_BYTES)
        files = [(name, path) for name, path in _files_of(source) if str(path) not in states]
        states |= states_of(str(path) for _, path in files)
        raw = [RawFile(name=n, sha256="", size_bytes=path.stat().st_size, path=str(path)) for n, path in files]
        if not text and (names := guess_text(source, raw).names):
            source = replace(source, fields={"text": names})
        for file in raw:
            cut = [slice_whole_file(file)] if _is_table(source, file) else source.slices(file)
            pieces += [
                InputPiece(name=file.path, size=each.stop - each.start, source=source, where=each, within=within, id=id)
                for each in cut
            ]
        not_read += count_files(source, raw, {to_absolute(path) for path in states}).passed_over
    return Inputs(pieces=pieces, states=states, not_read=not_read)


def _files_of(source: FilesSource) -> list[tuple[str, Path]]:
    if not is_object_address(source.path):
        refuse_store(split_glob(source.path)[0])
    try:
        return source.files()
    except InputError as error:  # which speaks of a recipe
        told = str(error).replace(f"Source {source.name!r}: ", "").replace("Set its `path` to", "Give")
        raise InputError(f"{told[:1].upper()}{told[1:]}".replace("Its `path` ", "")) from error


def inputs_of_corpus(address: str, text: str) -> Inputs:
    """Return the pieces of a corpus in a store, or of files. Raises InputError."""
    path = Path(address)
    if "://" not in address and not (path / "corpora").is_dir() and not (path / "manifest.json").is_file():
        return inputs_of([address], text, "", "")
    from corpora.views import list_views
    from flows.export.export import choose  # not above: it knows recipes, the model and the tasks, .6 s of a process

    chosen = choose(address, "corpora", None)
    source = FilesSource(name=address, path=address)
    pieces = [
        InputPiece(
            name=f"{address}: {view.part.name}",
            size=view.num_rows * 1_000,
            source=source,
            where=CorpusPart(place=chosen.place, corpus=chosen.manifest.address, view=view),
        )
        for view in list_views(chosen.manifest)
    ]
    return Inputs(pieces=pieces)


def _is_table(source: FilesSource, file: RawFile) -> bool:
    return isinstance(source.format_of(file.name), TextTable)


def chunks(piece: InputPiece, wanted: Bools | None = None, with_fields: bool = False) -> Iterator[RowChunk]:
    """The rows of a piece in chunks. Raises InputError for a file that cannot be read to its end.

    wanted:      whose texts and fields are needed; of other rows they may be absent
    with_fields: all columns, not the text, those that group and name rows, and those of `ADDED`
    """
    if isinstance(piece.where, CorpusPart):
        yield from _corpus_chunks(piece.where)
        return
    form = piece.source.format_of(piece.where.file.name)
    if isinstance(form, ParquetRows):
        yield from _parquet_chunks(piece, piece.where, form, with_fields)
        return
    if type(form) is JsonLines:  # and not its kind that reads other files of JSON
        yield from _line_chunks(piece, piece.where, form, wanted, with_fields)
    elif isinstance(form, TextTable):
        yield from _gathered(_table_rows(piece.where, form), names_of(form.fields.get("text", "text")))
    else:
        yield from _gathered(_records(piece, piece.where), ("text",))


def parquet_schema(piece: InputPiece) -> pa.Schema | None:
    """All columns of the file of a piece, where that is one of Parquet. Raises InputError."""
    if isinstance(piece.where, CorpusPart):
        return None
    if not isinstance(piece.source.format_of(piece.where.file.name), ParquetRows):
        return None
    with parquet.open_parquet(raw_path(piece.where.file.path)) as table:
        return table.schema_arrow


def names_of_text(piece: InputPiece) -> tuple[str, ...]:
    """The names under which a row of a piece has its text; the first that it has counts."""
    assert not isinstance(piece.where, CorpusPart)
    form = piece.source.format_of(piece.where.file.name)
    if type(form) is JsonLines or isinstance(form, ParquetRows | TextTable):
        return names_of(form.fields.get("text", "text"))
    return ("text",)


def is_lines(piece: InputPiece) -> bool:
    """Return True if the rows of a piece are lines of JSON, which need not be parsed to be written."""
    if isinstance(piece.where, CorpusPart):
        return False
    return type(piece.source.format_of(piece.where.file.name)) is JsonLines


def _line_chunks(
    piece: InputPiece, where: Slice, form: JsonLines, wanted: Bools | None, with_fields: bool
) -> Iterator[RowChunk]:
    names = names_of(form.fields.get("text", "text"))
    others = [*dict.fromkeys(name for name in (piece.within, piece.id, *ADDED) if name)]
    first = 0
    for lines in form.blocks(where, "" if where.start else wide_lines(raw_path(where.file.path), form.encoding)):
        rows = np.ones(len(lines), np.bool_) if wanted is None else wanted[first : first + len(lines)]
        if with_fields:
            fields = [parsed(form, line) if is_wanted else None for line, is_wanted in zip(lines, rows, strict=True)]
            texts = pa.array([text_of(each, names) for each in fields], pa.large_string())
        else:
            texts, fields = read_texts(lines, rows, form, names, others)
        yield RowChunk(first=first, texts=texts, fields=fields, raw=lines)
        first += len(lines)


def read_texts(
    lines: Lines, wanted: Bools, form: JsonLines, texts: Sequence[str], others: Sequence[str]
) -> tuple[pa.Array, list[Fields]]:
    """The texts of the wanted lines, null where there is none, and their fields `others`; None for what is no object.

    texts: names of the text, of which the first counts that a line has
    """
    spans, plain = np.full((len(lines), len(texts) + len(others), 2), ABSENT), np.ones(len(lines), np.bool_)
    spans[wanted], plain[wanted] = find_values(lines.take(np.flatnonzero(wanted)), [*texts, *others])
    spans[~plain] = ABSENT
    of_texts, of_others = spans[:, : len(texts)], spans[:, len(texts) :]
    column = read_strings(lines, pick_first(of_texts, first_bytes(lines, of_texts) == QUOTE), plain)
    fields: list[Fields] = [{}] * len(lines)
    for row in np.flatnonzero(plain & (of_others[..., 0] >= 0).any(axis=1)).tolist():
        found = zip(others, of_others[row], strict=True)
        fields[row] = {name: read_value(lines, span) for name, span in found if span[0] >= 0}
    if not plain.all():
        for row in np.flatnonzero(~plain).tolist():
            fields[row] = parsed(form, lines[row])
        by_python = [text_of(fields[row], texts) for row in np.flatnonzero(~plain).tolist()]
        column = pc.replace_with_mask(column, pa.array(~plain), pa.array(by_python, pa.large_string()))
    return column, fields


def parsed(form: JsonLines, line: bytes) -> Fields:
    """The object that a line is; None for what is none."""
    with suppress(BadRecord):
        return form.parse(line.removeprefix(codecs.BOM_UTF8), 1)  # each line may be a file's first, of several joined
    return None


def text_of(fields: Fields, names: Sequence[str]) -> str | None:
    """The first text that some fields have under a name; half a character is a replacement mark."""
    for name in names if fields is not None else ():
        value = look_up(fields or {}, name)
        if isinstance(value, str):
            return value if value.isascii() else value.encode(errors="replace").decode()
    return None


def _gathered(rows: Iterator[Fields], names: Sequence[str]) -> Iterator[RowChunk]:
    """The fields of rows put together to chunks."""
    texts: list[str | None] = []
    fields: list[Fields] = []
    first = size = number = 0
    for number, row in enumerate(rows, 1):
        fields.append(row)
        texts.append(text_of(row, names))
        size += len(texts[-1] or "")
        if len(texts) == CHUNK_ROWS or size > CHUNK_BYTES:
            yield RowChunk(first=first, texts=pa.array(texts, pa.large_string()), fields=fields)
            texts, fields, first, size = [], [], number, 0
    if texts:
        yield RowChunk(first=first, texts=pa.array(texts, pa.large_string()), fields=fields)


def _table_rows(where: Slice, form: TextTable) -> Iterator[Fields]:
    path = raw_path(where.file.path)
    table, columns = form.of_file(path)
    if columns is None:
        return
    name = str(table.fields["text"])
    if name not in columns:
        raise InputError(f"{path} has no column {name!r}, only {', '.join(columns)[:500]}. Name one with --text.")
    yield from table.rows(path, columns)


def _records(piece: InputPiece, where: Slice) -> Iterator[Fields]:
    """Rows of files that are no rows: their text, and what they say of themselves."""
    has_fields = where.file.name.lower().endswith((*JSON_ENDINGS, *SHEET_ENDINGS))
    for record in piece.source.records(where, Tally()):
        told = {name: value for name in RECORD_FIELDS if (value := getattr(record, name)) is not None}
        if record.drop is not None and record.drop.reason != "empty":
            yield None
            continue
        fields = json.loads(record.raw) if has_fields else {**told, "file": where.file.name}
        yield {**fields, "text": record.text}


def _parquet_chunks(piece: InputPiece, where: Slice, form: ParquetRows, with_fields: bool) -> Iterator[RowChunk]:
    path = raw_path(where.file.path)
    table = parquet.open_parquet(path)
    with table:
        columns = table.schema_arrow.names
        name = settled(form.fields, columns.__contains__)["text"]
        if name not in columns:
            raise InputError(f"{path} has no column {name!r}, only {', '.join(columns)[:500]}. Name one with --text.")
        needed = None if with_fields else [n for n in dict.fromkeys((name, piece.within, piece.id)) if n in columns]
        first = 0
        for group, at in enumerate(parquet.group_starts(table, where.file.size_bytes)):
            if where.start <= at < where.stop:
                for batch in parquet.group_batches(table, group, path, CHUNK_ROWS, needed):
                    yield RowChunk(first=first, texts=_texts(batch.column(name), path, name), fields=batch)
                    first += batch.num_rows


def _texts(column: pa.Array, path: Path, name: str) -> pa.Array:
    """A column of texts as large_string. Raises InputError for one of another type."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.large_string())
    if not parquet.holds_text(kind):
        raise InputError(f"{path}: the column {name!r} is of type {kind} and holds no text. Name another with --text.")
    try:
        texts = column.cast(kind).cast(pa.large_string())
        texts.validate(full=True)
    except pa.ArrowInvalid:
        values = column.cast(kind).cast(pa.large_binary()).to_pylist()
        decoded = [value if value is None else value.decode(errors="replace") for value in values]
        return pa.array(decoded, pa.large_string())
    return texts


def _corpus_chunks(where: CorpusPart) -> Iterator[RowChunk]:
    from corpora.build import read_delete_list_at  # not above: these know all stages of documents
    from corpora.views import read_view

    deleted, first = read_delete_list_at(where.place, where.corpus), 0
    for live in read_view(where.place, where.view, ("id", "text"), deleted=deleted):
        yield RowChunk(first=first, texts=live.column("text"), fields=live.select(["id"]))
        first += live.num_rows
