"""Records of `.tsv`, `.csv`, `.jsonl`, `.json`, `.txt`, `.parquet` and `.xlsx` files, row by row.

A `.tsv` is split at every tab and line feed, and quotes have no special meaning, as in the files of GLUE. A `.csv` is
read according to RFC 4180, so quoted text may contain commas and line feeds; the delimiter may be a comma, semicolon,
tab or bar, or be given by a first line such as `sep=;`. A `.jsonl` has one object per line, a `.json` is a list of
objects, and a `.txt` has one text per line.

Promise: every row that is not blank is yielded with the number of its first line, or counted as unusable if it has more
or fewer cells than the header (or the first row, if there is no header), because its values may be in the wrong
columns. A file that lacks a column or is not in its format is refused, with the line of the problem. Memory: one row;
for a `.json`, twice the length of its longest object. Cost: `.tsv` 380,000, `.csv` 340,000, `.jsonl` 250,000 and
`.json` 230,000 rows of 100 characters per second with all checks of `reading.py` (one x86-64 core, 2026-11-23).

Only the needed columns of a `.parquet` are read. A row with text that is not UTF-8 is counted as unusable, without
affecting other rows. A file that is damaged or lacks a column is refused. Memory: 1,024 rows, and the pages of a row
group that contain them. Cost: 370,000 rows of 100 characters per second with all checks of `reading.py` (one x86-64
core, 2026-11-23).

The rows of each sheet of an `.xlsx` that has the columns are read, with the numbers that Excel shows. A workbook that
cannot be read to its end, or has no sheet with the columns, is refused. For other promises, memory and cost, see
`corpora.sources.files.office.xlsx`, which reads it.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TextIO

from corpora.errors import InputError
from corpora.sources.bytes.endings import is_packed
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.bytes.raw_files import Line
from corpora.sources.files.fields import split_objects
from corpora.sources.files.office.package import LargeDocument, LockedDocument, open_package
from corpora.sources.files.office.xlsx import Worksheet, read_sheets
from corpora.sources.files.parquet import iter_all_batches, list_batch_rows, open_parquet
from corpora.store.settings import suggest
from trainer.tasks.formats.records import (
    MAX_LINE_CHARACTERS,
    NOT_UTF_8,
    FileSettings,
    LineRecord,
    Roles,
    Unusable,
    iter_lines,
    number_lines,
    open_text,
    resolve_path,
)

Rows = Iterator[tuple[int, list[str]]]

DELIMITERS, SAMPLE_LINES = ",;\t|", 20  # of a `.csv`, and by how many of its lines they are told apart
SEPARATOR_LINE = re.compile(r"\"?sep=([!-~\t])\"?[,;\t]*", re.IGNORECASE)  # the first line, as Excel writes it
READ_CHARACTERS = 1 << 18  # characters of a `.json`


def read_tsv(settings: FileSettings, wanted: Roles) -> Iterator[LineRecord]:
    """Yield the rows of a `.tsv`, split at every tab. Quotes have no special meaning.

    Each is a pair of its line number and the values of the wanted roles, or `Unusable` if the number of cells is wrong.
    Raises InputError, while iterating, if a column is missing.
    """
    return _to_records(_iter_tsv_rows(settings.path), settings, wanted)


def read_csv(settings: FileSettings, wanted: Roles) -> Iterator[LineRecord]:
    """Yield the rows of a `.csv` (RFC 4180). The delimiter is given by a first line such as `sep=;`, or else guessed.

    Each is a pair of its line number and the values of the wanted roles, or `Unusable` if the number of cells is wrong.

    Args:
        settings: The file and how to read it.
        wanted: The roles to read.

    Raises:
        InputError: While iterating, if a column is missing, or if a quote is not closed or joins several rows.
    """
    with open_text(settings.path) as stream:
        begun = [*islice(iter_lines(stream, settings.path), SAMPLE_LINES)]
        stated = SEPARATOR_LINE.fullmatch(begun[0].strip()) if begun else None
        sign = stated[1] if stated else _guess_delimiter(begun, {settings.get_column(role) for role in wanted.needed})
        rows = _iter_csv_rows(chain(begun, iter_lines(stream, settings.path)), settings.path, sign)
        yield from _to_records(islice(rows, int(stated is not None), None), settings, wanted)


def _guess_delimiter(lines: list[str], names: set[str]) -> str:
    """Guess the delimiter of a `.csv` from its first lines.

    It is the one with which the first line contains all column names in `names`, or else the one with which most rows
    have the same number of cells.
    """

    def rate(sign: str) -> tuple[bool, int, int]:
        head, *others = [[cell.strip('" \r\n') for cell in line.split(sign)] for line in lines] or [[]]
        alike = sum(len(each) == len(head) for each in others) if len(head) > 1 else -1
        return names <= {*head}, alike, len(head)

    return max(DELIMITERS, key=rate)


def read_text_lines(settings: FileSettings, wanted: Roles) -> Iterator[LineRecord]:
    """Yield the number of each nonblank line of a `.txt` file, and the line as the value of the one needed role."""
    [role] = wanted.needed
    for number, line in number_lines(settings.path):
        if line.strip():
            yield number, {role: line.rstrip("\r\n")}


def read_json_lines(settings: FileSettings, wanted: Roles) -> Iterator[LineRecord]:
    """Yield the objects of a `.jsonl`. If a line consists of several objects, each of them is yielded.

    Each is a pair of its line number and the values of the wanted roles, or `Unusable` if the line is not a JSON
    object.

    Args:
        settings: The file and how to read it.
        wanted: The roles to read.

    Raises:
        InputError: If the file begins with a list, so that it should be a `.json`.
    """
    columns = list_columns(settings, wanted)
    first = True
    for number, line in number_lines(settings.path):
        if not line.strip(" \r\n"):
            continue
        if first and line.lstrip().startswith("["):
            raise InputError(
                f"{settings.path}, line {number}, begins a list, and a .jsonl has one object a line: if the file is "
                "one list, name it .json, or set its format to json."
            )
        first = False
        found = _parse_object(line, columns)
        raw = line.encode(errors="surrogatepass") if isinstance(found, Unusable) else b""
        joined = [(each.data or b"").decode(errors="surrogatepass") for each in split_objects(Line(1, 0, raw))]
        yield from [(number, _parse_object(each, columns)) for each in joined] or [(number, found)]


def read_json_list(settings: FileSettings, wanted: Roles) -> Iterator[LineRecord]:
    """Yield the objects of a `.json` that is a list of objects, with the line number of each.

    An item that is not an object is yielded as `Unusable`. Raises InputError if the file is not a list.
    """
    columns = list_columns(settings, wanted)
    with open_text(settings.path) as stream:
        for line, value in iter_json_items(stream, settings.path):
            yield line, pick_values(value, columns) if isinstance(value, dict) else Unusable("not a JSON object")


def read_whole_json(path: str) -> Any:
    """Read a JSON file into memory, and return its value. Raises InputError if it is not JSON."""
    with open_text(path) as stream:
        text = stream.read()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not JSON ({error}): name it .jsonl if it has one object a line, or get the file again if it is "
            "cut off."
        ) from error


def list_columns(settings: FileSettings, wanted: Roles) -> list[tuple[str, str]]:
    """List all roles, needed and optional, as pairs of role and column. A column is a name or a path of keys."""
    return [(role, settings.get_column(role)) for role in (*wanted.needed, *wanted.optional)]


# Rows of cells.


def _iter_tsv_rows(path: str) -> Rows:
    for number, line in number_lines(path):
        if line.strip(" \r\n"):
            yield number, line.rstrip("\r\n").split("\t")


def _iter_csv_rows(lines: Iterable[str], path: str, delimiter: str) -> Rows:
    csv.field_size_limit(MAX_LINE_CHARACTERS)  # of the whole process, and 131,072 before: too few for an article
    read = list[str]()  # the lines of a row

    def note_lines() -> Iterator[str]:
        for line in lines:
            read.append(line)
            yield line

    reader = csv.reader(note_lines(), strict=True, delimiter=delimiter)
    first, width = 1, 0
    try:
        for values in reader:
            if values:
                width = width or len(values)
                alone = sum(line.count(delimiter) == width - 1 for line in read[1:])
                if len(values) != width and 2 * alone > len(read[1:]):
                    raise csv.Error(f"its quotes join {alone + 1} rows to one")
                yield first, values
            first = reader.line_num + 1
            read.clear()
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}, in the row that begins in line {first}, is not CSV ({error}): double the "
            "quotes inside a quoted value and close it, or save the file as .tsv, which has no quotes."
        ) from error


def _to_records(rows: Rows, settings: FileSettings, wanted: Roles) -> Iterator[LineRecord]:
    header: list[str] | None = next(rows, (0, []))[1] if settings.header else None
    places = _find_columns(header, settings, wanted)
    reach = max((place for _, place in places), default=-1) + 1
    width = len(header) if header is not None else 0
    for line, values in rows:
        cells = len(values)
        width = width or max(cells, reach)
        if cells > width and not settings.ragged and any(value.strip() for value in values[width:]):
            yield line, Unusable("too many columns", f"{cells} of {width}")
        elif cells < reach:
            yield line, Unusable("too few columns", f"{cells} of {width}")
        else:
            yield line, {role: values[place] for role, place in places}


def _find_columns(header: list[str] | None, settings: FileSettings, wanted: Roles) -> list[tuple[str, int]]:
    """Find the columns of the roles in a table, as pairs of role and zero-based index.

    Optional roles that have no column are omitted. Raises InputError if another column is missing, or occurs twice.

    Args:
        header: The names of the columns; None if the table has no header.
        settings: The file and how to read it.
        wanted: The roles to read.
    """
    roles = [*wanted.needed, *(role for role in wanted.optional if role in settings.columns or role in (header or ()))]
    return [(role, _find_column(role, header, settings)) for role in roles]


def _find_column(role: str, header: list[str] | None, settings: FileSettings) -> int:
    """Find the zero-based index of a role's column in a table, by its name in the header or its number from 1.

    Raises InputError if the file has no such column, or two.
    """
    name, path = settings.get_column(role), settings.path
    if header is not None and header.count(name) > 1:
        raise InputError(f"{path}, line 1, has {header.count(name)} columns {name!r}: give the number of one.")
    if header is not None and name in header:
        return header.index(name)
    if name.isdecimal() and int(name) and (header is None or int(name) <= len(header)):
        return int(name) - 1
    if header is None:
        raise InputError(f"{path} is read without a header: give the number of the column of {role}, not {name!r}.")
    raise explain_missing_column(path, role, name, header)


def explain_missing_column(path: str, role: str, name: str, header: Sequence[str], where: str = "line 1") -> InputError:
    """Build the error for a file that lacks a column, with a suggestion.

    Args:
        path: The file.
        role: The role to be read.
        name: The missing column.
        header: The columns of the file.
        where: The location of the column names in the file, for the message.
    """
    purpose = "" if name == role else f" for {role}"
    return InputError(
        f"{path}, {where}, has no column {name!r}{purpose}: {suggest(name, header)} Its number does as well; if the "
        "file has no header, say so."
    )


# Objects of JSON.


def _parse_object(line: str, columns: list[tuple[str, str]]) -> dict[str, Any] | Unusable:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return Unusable("not JSON")
    return pick_values(value, columns) if isinstance(value, dict) else Unusable("not a JSON object")


def iter_json_items(stream: TextIO, path: str) -> Iterator[tuple[int, Any]]:
    """Yield the items of a text that is a JSON list, as pairs of the line number at which an item starts and its value.

    Args:
        stream: The text. It is read in pieces, so that only one item must fit into memory.
        path: The file, for error messages.

    Raises:
        InputError: While iterating, if the text is not a list, an item is not JSON, or text follows the list.
    """
    decode, text = json.JSONDecoder().raw_decode, stream.read(READ_CHARACTERS)
    opening = re.match(r"\s*(?:\[(\s*\])?|$)", text)
    if opening is None:
        raise InputError(
            f"{path} is not a list of objects: name it .jsonl if it has one object a line, or set format = "
            '"squad" if it is SQuAD\'s.'
        )
    at, line, ended = opening.end(), 1 + opening[0].count("\n"), not text.strip() or opening[1] is not None
    while not ended:
        begin = _skip_spaces(text, at)
        line, at = line + text.count("\n", at, begin), begin
        try:
            value, end = decode(text, at)
            mark = _skip_spaces(text, end)
            if text[mark : mark + 1] not in (",", "]"):
                raise ValueError("no comma and no end of the list comes after it")
        except (ValueError, RecursionError) as error:
            more = stream.read(max(READ_CHARACTERS, len(text)))
            if not more:
                raise InputError(
                    f"{path}: the value that begins in line {line} is not an item of a list in JSON ({error}): fix it, "
                    "or get the file again if it is cut off."
                ) from error
            text, at = text[at:] + more, 0
            continue
        yield line, value
        ended = text[mark] == "]"
        line, at = line + text.count("\n", at, mark), mark + 1
    if text[at:].strip() or stream.read(READ_CHARACTERS).strip():
        raise InputError(f"{path}, line {line}, continues after its list: is it one list?")


def _skip_spaces(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\n", "\r"):
        at += 1
    return at


def pick_values(value: dict[str, Any], columns: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the value of each role from a JSON object; None if it is missing.

    `columns` has pairs of a role and its column, which is a key or a path of keys.
    """
    return {role: get_at_path(value, column) for role, column in columns}


def get_at_path(value: Any, path: str) -> Any:
    """Return the value of a key, or at a path of keys and list indices joined by dots; None if there is none.

    A key that equals the whole path takes precedence.

    >>> get_at_path({"a": {"b": [7]}, "a.b": 8}, "a.b.0"), get_at_path({"a": {"b": [7]}, "a.b": 8}, "a.b")
    (7, 8)
    """
    if isinstance(value, dict) and path in value:
        return value[path]
    for part in path.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


BATCH_ROWS = 1_024


def read_parquet(settings: FileSettings, wanted: Roles) -> Iterator[LineRecord]:
    """Yield the rows of a Parquet file, with row numbers from 1 as line numbers.

    Each has the values of the wanted roles, or is `Unusable` if a value cannot be read.

    Args:
        settings: The file and how to read it.
        wanted: The roles to read.

    Raises:
        InputError: If the file is compressed as a whole, damaged, or lacks a column.
    """
    if is_packed(settings.path):
        raise InputError(f"{settings.path} is packed around Parquet, which is packed inside: unpack it.")
    path = resolve_path(settings.path)
    with open_parquet(path) as table:
        columns = _resolve_columns(table.schema_arrow.names, settings, wanted)
        names = list(dict.fromkeys(_get_top_column(column, table.schema_arrow.names) for _, column in columns))
        batches = iter_all_batches(table, path, BATCH_ROWS, names)
        for line, (row, fault) in enumerate((row for batch in batches for row in list_batch_rows(batch)), 1):
            reason = NOT_UTF_8 if "utf-8" in fault else "a value that cannot be read"
            yield line, Unusable(reason) if fault else pick_values(row, columns)


def _resolve_columns(names: list[str], settings: FileSettings, wanted: Roles) -> list[tuple[str, str]]:
    """Find the columns of the roles in a Parquet file, as pairs of role and column name or path.

    A column may be given by its number, from 1. Optional roles that have no column are omitted. Raises InputError if
    another column is missing.

    Args:
        names: The columns of the file.
        settings: The file and how to read it.
        wanted: The roles to read.
    """
    columns = list[tuple[str, str]]()
    for role, name in list_columns(settings, wanted):
        if _get_top_column(name, names) in names:
            columns.append((role, name))
        elif name.isdecimal() and 0 < int(name) <= len(names):
            columns.append((role, names[int(name) - 1]))
        elif role in wanted.needed or role in settings.columns:
            raise explain_missing_column(settings.path, role, name, names)
    return columns


def _get_top_column(column: str, names: list[str]) -> str:
    return column if column in names else column.partition(".")[0]


MAX_UNPACKED_BYTES = 1 << 33  # bytes, of all sheets of a workbook


def read_workbook(settings: FileSettings, wanted: Roles) -> Iterator[LineRecord]:
    """Yield the rows of all sheets of an `.xlsx` that have the needed columns, with their row numbers.

    A row that is too long is yielded as `Unusable`.

    Args:
        settings: The file and how to read it.
        wanted: The roles to read.

    Raises:
        InputError: If the workbook cannot be read, or, at the end, if no sheet has the columns.
    """
    columns, lacking, read = list_columns(settings, wanted), None, False
    with _open_sheets(settings.path) as sheets:
        for sheet in sheets:
            named = [role for role in settings.columns if role in (*wanted.needed, *wanted.optional)]
            missing = [role for role in (*wanted.needed, *named) if settings.get_column(role) not in sheet.columns]
            if missing:
                lacking = lacking or explain_missing_column(
                    settings.path, missing[0], settings.get_column(missing[0]), sheet.columns, "the head of its sheet"
                )
                continue
            read = True
            for row in sheet.rows:
                values = row.values
                yield row.number, Unusable("too long a row") if values is None else pick_values(values, columns)
    if lacking and not read:
        raise lacking


@contextmanager
def _open_sheets(path: str) -> Iterator[Iterator[Worksheet]]:
    """Open a workbook during the block, and provide an iterator over its sheets.

    Raises InputError if the workbook is password-protected, too large or damaged.
    """
    try:
        with resolve_path(path).open("rb") as stream, open_package(stream, MAX_UNPACKED_BYTES) as package:
            yield read_sheets(package, MAX_LINE_CHARACTERS)
    except (LockedDocument, LargeDocument, BadRecord) as error:
        raise InputError(f"{path} cannot be read: {error}. Save it again, without a password, or as .csv.") from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from error
