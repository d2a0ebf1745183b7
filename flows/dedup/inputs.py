"""Cuts input files into pieces (ranges of a file that are read separately), and reads the rows of a piece in chunks.

Promises: a row is a line that is not blank, a row of a table or of Parquet, or a file. Rows are numbered from 1 in
their file, and a piece gives the same rows whenever it is read. Columns are as the file has them. A row that cannot be
read, or has no text, is still a row: it has no text, and no fields if it is unreadable. Invalid surrogates and bytes
that are not UTF-8 are compared as replacement characters, and written unchanged.
Cost: 2 ns per byte of JSON lines, or 5 with all columns; 1 ns per byte of Parquet. Memory: a chunk, or one row if that
is larger.
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
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import AUTO, Lines
from corpora.sources.bytes.unchanged import read_states
from corpora.sources.contract import RawFile, Slice, Tally, slice_whole_file, split_glob
from corpora.sources.files import parquet
from corpora.sources.files.endings import JSON_ENDINGS, SHEET_ENDINGS
from corpora.sources.files.fields import choose_names, find_value, list_names
from corpora.sources.files.formats import JsonLines, ParquetRows, find_line_encoding
from corpora.sources.files.guessing import guess_text_columns
from corpora.sources.files.json_lines import QUOTE, find_values, pick_first, read_first_bytes, read_strings, read_value
from corpora.sources.files.json_spans import ABSENT
from corpora.sources.files.source import FilesSource
from corpora.sources.files.tables import TextTable
from corpora.sources.passed_over import FileGroup, count_files, to_absolute
from corpora.store.manifest import ManifestAddress
from corpora.store.places.address import is_object_address
from corpora.store.places.place import Place
from flows.dedup.columns import ADDED_COLUMNS
from flows.recipes.store_folders import refuse_store

if TYPE_CHECKING:
    from corpora.views import PartView

CHUNK_ROWS, CHUNK_BYTES = 2_048, 4_000_000
MAX_RECORD_BYTES = 1 << 30
Fields = Mapping[str, Any] | None
RECORD_FIELDS = ("title", "url", "date", "license", "group", "meta")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusPart:
    """One part (a set of files with some of the documents) of a corpus in a store, to be read as input.

    Attributes:
        place: The store.
        corpus: Address of the corpus's manifest (the stored file that describes it).
        view: The part, and which of its documents belong to the corpus.
    """

    place: Place
    corpus: ManifestAddress
    view: "PartView"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPiece:
    """A piece of the input that one worker process reads: a range of a file, or one part of a corpus.

    Attributes:
        name: Path of the file, as shown in messages.
        size: Approximate number of bytes, used to divide the work among workers.
        source: Settings for reading the file: format, encoding and text columns.
        location: The range of the file, or the part of the corpus.
        group: Name of the column that contains the group of a row; "" if all rows are compared with each other.
        id_name: Name of the column that contains the id of a row; "" if rows are identified by file and row number.
    """

    name: str
    size: int
    source: FilesSource
    location: Slice | CorpusPart
    group: str = ""
    id_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChunk:
    """Some consecutive rows of a piece (a range of a file).

    Attributes:
        first: Zero-based index of the first row in the piece.
        texts: Arrow large_string array with the text of each row, which is null if the row has no text.
        fields: The columns, as a record batch or as one dictionary per row. A dictionary may lack columns that were not
            requested. None stands for a row that could not be read.
        json_lines: The lines from which the rows were parsed; None if the file does not contain JSON lines.
    """

    first: int
    texts: pa.Array
    fields: pa.RecordBatch | Sequence[Fields]
    json_lines: Lines | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The pieces (ranges) of all input files, and the state of the files before they are read.

    Attributes:
        pieces: All pieces, in the order of the inputs.
        file_states: Maps the path of each input file to its size and modification time before reading.
        unread_files: Groups of files in the input folders that are skipped.
    """

    pieces: Sequence[InputPiece]
    file_states: Mapping[str, str] = field(default_factory=dict)
    unread_files: Sequence[FileGroup] = ()


def find_inputs(paths: Sequence[str], text_column: str, group: str, id_name: str) -> Inputs:
    """Divide files, folders and globs into pieces (ranges of a file), in the given order.

    A file that is named twice is read only once.

    Args:
        paths: Files, folders or glob patterns, on this machine or in an object store.
        text_column: Name of the text column; "" to guess it from the first rows of each input.
        group: Name of the column that contains the group of a row; "" for no groups.
        id_name: Name of the column that contains the id of a row; "" for no ids.

    Raises:
        InputError: If an input does not exist, has no readable file, or is inside a store.
    """
    pieces: list[InputPiece] = []
    states: dict[str, str] = {}
    unread_files: list[FileGroup] = []
    for path in paths:
        fields = {"text": text_column} if text_column else {}
        source = FilesSource(name=path, path=path, fields=fields, encoding=AUTO, max_record_bytes=MAX_RECORD_BYTES)
        files = [(name, file) for name, file in _list_files(source) if str(file) not in states]
        states |= read_states(str(file) for _, file in files)
        raw = [RawFile(name=n, sha256="", size_bytes=file.stat().st_size, path=str(file)) for n, file in files]
        if not text_column and (names := guess_text_columns(source, raw).names):
            source = replace(source, fields={"text": names})
        for file in raw:
            is_table = isinstance(source.choose_format(file.name), TextTable)
            slices = [slice_whole_file(file)] if is_table else source.slices(file)
            pieces += [
                InputPiece(
                    name=file.path, size=s.stop - s.start, source=source, location=s, group=group, id_name=id_name
                )
                for s in slices
            ]
        unread_files += count_files(source, raw, {to_absolute(file) for file in states}).passed_over
    return Inputs(pieces=pieces, file_states=states, unread_files=unread_files)


def _list_files(source: FilesSource) -> list[tuple[str, Path]]:
    """List the files of a source as (name, path) pairs.

    Args:
        source: The source. The name of a file is relative to its path.

    Raises:
        InputError: If there are no files, or the path is inside a store.
    """
    if not is_object_address(source.path):
        refuse_store(split_glob(source.path)[0])
    try:
        return source.files()
    except InputError as error:  # which speaks of a recipe
        message = str(error).replace(f"Source {source.name!r}: ", "").replace("Set its `path` to", "Give")
        raise InputError(f"{message[:1].upper()}{message[1:]}".replace("Its `path` ", "")) from error


def find_corpus_inputs(address: str, text_column: str) -> Inputs:
    """Divide a corpus in a store into pieces, one for each part (file set).

    If the address is not in a store, it is passed to `find_inputs`.

    Args:
        address: A store that contains one corpus, a corpus, or files.
        text_column: Name of the text column if the address points to files; "" to guess it.

    Raises:
        InputError: If there is no corpus at the address, or more than one.
    """
    path = Path(address)
    if "://" not in address and not (path / "corpora").is_dir() and not (path / "manifest.json").is_file():
        return find_inputs([address], text_column, "", "")
    from corpora.views import list_views
    from flows.export.export import choose_artifact  # not above: it knows recipes and tasks, .6 s of a process

    chosen = choose_artifact(address, "corpora", None)
    source = FilesSource(name=address, path=address)
    pieces = [
        InputPiece(
            name=f"{address}: {view.part.name}",
            size=view.num_rows * 1_000,
            source=source,
            location=CorpusPart(place=chosen.place, corpus=chosen.manifest.address, view=view),
        )
        for view in list_views(chosen.manifest)
    ]
    return Inputs(pieces=pieces)


def read_chunks(piece: InputPiece, wanted: Bools | None = None, with_fields: bool = False) -> Iterator[RowChunk]:
    """Yield all rows of a piece (a range of a file) in chunks, in order.

    Args:
        piece: The piece to read.
        wanted: bool [rows of the piece], True for the rows to read in full. Other rows are yielded too, but may lack
            their texts and fields. If None, all rows are read in full.
        with_fields: If True, `fields` contains all columns. If False, it contains at least the columns of the row's id
            and group, and any columns named in `ADDED_COLUMNS`.

    Raises:
        InputError: During iteration, if the file cannot be read to its end or has no text column.
    """
    if isinstance(piece.location, CorpusPart):
        yield from _read_corpus_chunks(piece.location)
        return
    form = piece.source.choose_format(piece.location.file.name)
    if isinstance(form, ParquetRows):
        yield from _read_parquet_chunks(piece, piece.location, form, with_fields)
        return
    if type(form) is JsonLines:  # and not its kind that reads other files of JSON
        yield from _read_line_chunks(piece, piece.location, form, wanted, with_fields)
    elif isinstance(form, TextTable):
        yield from _group_rows(_read_table_rows(piece.location, form), list_names(form.fields.get("text", "text")))
    else:
        yield from _group_rows(_read_records(piece, piece.location), ("text",))


def read_parquet_schema(piece: InputPiece) -> pa.Schema | None:
    """Read the schema of a piece (a range of a file) if it is in a Parquet file; otherwise return None.

    Raises:
        InputError: If the file cannot be read.
    """
    if isinstance(piece.location, CorpusPart):
        return None
    if not isinstance(piece.source.choose_format(piece.location.file.name), ParquetRows):
        return None
    with parquet.open_parquet(parse_raw_path(piece.location.file.path)) as table:
        return table.schema_arrow


def list_text_names(piece: InputPiece) -> tuple[str, ...]:
    """Return the names of the columns that may contain the text of a row, preferred name first.

    Args:
        piece: A range of a file. It must not be part of a corpus in a store.
    """
    assert not isinstance(piece.location, CorpusPart)
    form = piece.source.choose_format(piece.location.file.name)
    if type(form) is JsonLines or isinstance(form, ParquetRows | TextTable):
        return list_names(form.fields.get("text", "text"))
    return ("text",)


def is_json_lines(piece: InputPiece) -> bool:
    """Return True if a piece (a range of a file) has JSON lines, which can be copied without parsing."""
    if isinstance(piece.location, CorpusPart):
        return False
    return type(piece.source.choose_format(piece.location.file.name)) is JsonLines


def _read_line_chunks(
    piece: InputPiece, span: Slice, form: JsonLines, wanted: Bools | None, with_fields: bool
) -> Iterator[RowChunk]:
    """Yield all rows of a piece of JSON lines in chunks.

    Args:
        piece: The piece (a range of a file).
        span: The range to read.
        form: Parser for the lines.
        wanted: bool [rows of the piece], True for the rows to read in full; None reads all in full.
        with_fields: True to parse the wanted lines in full, False to read only the text, group and id.

    Raises:
        InputError: During iteration, if the file cannot be read.
    """
    names = list_names(form.fields.get("text", "text"))
    others = [*dict.fromkeys(name for name in (piece.group, piece.id_name, *ADDED_COLUMNS) if name)]
    first = 0
    encoding = "" if span.start else find_line_encoding(parse_raw_path(span.file.path), form.encoding)
    for lines in form.iter_blocks(span, encoding):
        rows = np.ones(len(lines), np.bool_) if wanted is None else wanted[first : first + len(lines)]
        if with_fields:
            fields = [parse_line(form, line) if row else None for line, row in zip(lines, rows, strict=True)]
            texts = pa.array([find_text(each, names) for each in fields], pa.large_string())
        else:
            texts, fields = read_texts(lines, rows, form, names, others)
        yield RowChunk(first=first, texts=texts, fields=fields, json_lines=lines)
        first += len(lines)


def read_texts(
    lines: Lines, wanted: Bools, form: JsonLines, names: Sequence[str], others: Sequence[str]
) -> tuple[pa.Array, list[Fields]]:
    """Read the texts of JSON lines without parsing the lines in full.

    Args:
        lines: The n lines.
        wanted: bool [n], True for the lines to read. Other lines have no text and no fields in the result.
        form: Parser for the lines that the fast reader cannot handle.
        names: Possible names of the text column. In each line, the first one that contains a string is used.
        others: Names of other columns to read.

    Returns:
        A large_string array of n texts, which are null where a line has none; and a list with one dictionary per line,
        which contains the other columns. None stands for a line that is not a JSON object. The dictionary of a line
        that the fast reader cannot handle contains all of its columns.
    """
    spans, plain = np.full((len(lines), len(names) + len(others), 2), ABSENT), np.ones(len(lines), np.bool_)
    spans[wanted], plain[wanted] = find_values(lines.select(np.flatnonzero(wanted)), [*names, *others])
    spans[~plain] = ABSENT
    text_spans, other_spans = spans[:, : len(names)], spans[:, len(names) :]
    column = read_strings(lines, pick_first(text_spans, read_first_bytes(lines, text_spans) == QUOTE), plain)
    fields: list[Fields] = [{}] * len(lines)
    for row in np.flatnonzero(plain & (other_spans[..., 0] >= 0).any(axis=1)).tolist():
        found = zip(others, other_spans[row], strict=True)
        fields[row] = {name: read_value(lines, span) for name, span in found if span[0] >= 0}
    if not plain.all():
        for row in np.flatnonzero(~plain).tolist():
            fields[row] = parse_line(form, lines[row])
        by_python = [find_text(fields[row], names) for row in np.flatnonzero(~plain).tolist()]
        column = pc.replace_with_mask(column, pa.array(~plain), pa.array(by_python, pa.large_string()))
    return column, fields


def parse_line(form: JsonLines, line: bytes) -> Fields:
    """Parse a JSON line to a dictionary; return None if it is not a JSON object.

    Args:
        form: The parser.
        line: The bytes of the line, with or without a byte order mark.
    """
    with suppress(BadRecord):
        return form.parse(line.removeprefix(codecs.BOM_UTF8), 1)  # each line may be a file's first, of several joined
    return None


def find_text(fields: Fields, names: Sequence[str]) -> str | None:
    """Return the first string in a row's fields under one of the names, or None if there is none.

    Invalid surrogates are replaced by replacement characters. A name such as "data.text" refers to the key "text" of
    the object "data".

    Args:
        fields: The fields of the row; None for a row that could not be read.
        names: Names of the text column, preferred name first.
    """
    for name in names if fields is not None else ():
        value = find_value(fields or {}, name)
        if isinstance(value, str):
            return value if value.isascii() else value.encode(errors="replace").decode()
    return None


def _group_rows(rows: Iterator[Fields], names: Sequence[str]) -> Iterator[RowChunk]:
    """Group rows into chunks of at most CHUNK_ROWS rows, or fewer if the texts are long.

    Args:
        rows: One dictionary per row; None for a row that could not be read.
        names: Names of the text column, preferred name first.
    """
    texts: list[str | None] = []
    fields: list[Fields] = []
    first = size = number = 0
    for number, row in enumerate(rows, 1):
        fields.append(row)
        texts.append(find_text(row, names))
        size += len(texts[-1] or "")
        if len(texts) == CHUNK_ROWS or size > CHUNK_BYTES:
            yield RowChunk(first=first, texts=pa.array(texts, pa.large_string()), fields=fields)
            texts, fields, first, size = [], [], number, 0
    if texts:
        yield RowChunk(first=first, texts=pa.array(texts, pa.large_string()), fields=fields)


def _read_table_rows(span: Slice, form: TextTable) -> Iterator[Fields]:
    """Yield the rows of a delimited table, such as a CSV file, as dictionaries by column name.

    Args:
        span: The whole file.
        form: The format of the table. Its delimiter and encoding are determined here.

    Raises:
        InputError: If the table has no text column, or cannot be read.
    """
    path = parse_raw_path(span.file.path)
    table, columns = form.fit_to_file(path)
    if columns is None:
        return
    name = str(table.fields["text"])
    if name not in columns:
        raise InputError(f"{path} has no column {name!r}, only {', '.join(columns)[:500]}. Name one with --text.")
    yield from table.iter_rows(path, columns)


def _read_records(piece: InputPiece, span: Slice) -> Iterator[Fields]:
    """Yield the text and other fields of each record, for all formats except JSON lines, tables and Parquet.

    Args:
        piece: The piece of the input.
        span: The range of the file to read.

    Yields:
        A dictionary with the key "text"; None for a record that could not be read.
    """
    has_fields = span.file.name.lower().endswith((*JSON_ENDINGS, *SHEET_ENDINGS))
    for record in piece.source.records(span, Tally()):
        stated = {name: value for name in RECORD_FIELDS if (value := getattr(record, name)) is not None}
        if record.drop is not None and record.drop.reason != "empty":
            yield None
            continue
        fields = json.loads(record.raw) if has_fields else {**stated, "file": span.file.name}
        yield {**fields, "text": record.text}


def _read_parquet_chunks(piece: InputPiece, span: Slice, form: ParquetRows, with_fields: bool) -> Iterator[RowChunk]:
    """Yield all rows of a piece of a Parquet file in chunks.

    Args:
        piece: The piece (a range of a file).
        span: The range to read: the row groups that begin in it.
        form: The format, with the names of the text column.
        with_fields: True to read all columns, False to read only the text, group and id.

    Raises:
        InputError: During iteration, if the file cannot be read or has no text column.
    """
    path = parse_raw_path(span.file.path)
    table = parquet.open_parquet(path)
    with table:
        columns = table.schema_arrow.names
        name = choose_names(form.fields, columns.__contains__)["text"]
        if name not in columns:
            raise InputError(f"{path} has no column {name!r}, only {', '.join(columns)[:500]}. Name one with --text.")
        needed = None if with_fields else [n for n in dict.fromkeys((name, piece.group, piece.id_name)) if n in columns]
        first = 0
        for group, at in enumerate(parquet.compute_group_starts(table, span.file.size_bytes)):
            if span.start <= at < span.stop:
                for batch in parquet.iter_group_batches(table, group, path, CHUNK_ROWS, needed):
                    yield RowChunk(first=first, texts=_convert_texts(batch.column(name), path, name), fields=batch)
                    first += batch.num_rows


def _convert_texts(column: pa.Array, path: Path, name: str) -> pa.Array:
    """Convert a text column to large_string. Bytes that are not valid UTF-8 are replaced by replacement characters.

    Args:
        column: The column. If its type is null, the result contains only nulls.
        path: Path of the file, for the error message.
        name: Name of the column, for the error message.

    Raises:
        InputError: If the column does not contain text.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.large_string())
    if not parquet.is_text_type(kind):
        raise InputError(f"{path}: the column {name!r} is of type {kind} and holds no text. Name another with --text.")
    try:
        texts = column.cast(kind).cast(pa.large_string())
        texts.validate(full=True)
    except pa.ArrowInvalid:
        values = column.cast(kind).cast(pa.large_binary()).to_pylist()
        decoded = [value if value is None else value.decode(errors="replace") for value in values]
        return pa.array(decoded, pa.large_string())
    return texts


def _read_corpus_chunks(part: CorpusPart) -> Iterator[RowChunk]:
    """Yield the documents of a corpus part (file set) in chunks with the column "id". Skips deleted documents.

    Raises:
        Damaged: If a file of the corpus is damaged.
    """
    from corpora.build import read_delete_list_at  # not above: these know all stages of documents
    from corpora.views import read_view

    deleted, first = read_delete_list_at(part.place, part.corpus), 0
    for live in read_view(part.place, part.view, ("id", "text"), deleted=deleted):
        yield RowChunk(first=first, texts=live.column("text"), fields=live.select(["id"]))
        first += live.num_rows
