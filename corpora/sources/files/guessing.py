"""Finds the column of a table, or field of JSON lines, that holds the text, if a recipe does not name it.

A column called `text` that holds words is taken. Else it is the one with the most letters in words, in the first
records of the files: a text that occurs again counts once, and so do columns of disclaimers; numbers, addresses,
digests and base64 are not words, tags of HTML are not counted, lists and objects hold none. If files have different
columns, several names are found, and the text of a file is under the first of them that it has.

Promises: the same files give the same names, and names that were found before keep their places before new ones. What
could be a key, a date or a group is named and not used: two records with one key would become one. A file that cannot
be read is left to the code that reads it.
Costs: the first `HEAD_ROWS` rows of at most `MAX_SAMPLE_FILES` files, one row of each other one: about a millisecond a
file.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.sources.bytes.endings import find_ending
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.contract import RawFile, RecordFormat
from corpora.sources.files import parquet
from corpora.sources.files.fields import find_value
from corpora.sources.files.formats import JsonLines, ParquetRows
from corpora.sources.files.office.sheet_rows import SheetRows
from corpora.sources.files.source import FilesSource
from corpora.sources.files.tables import OpenQuote, TextTable

MAX_SAMPLE_FILES, HEAD_ROWS, HEAD_BYTES = 64, 200, 400_000
MAX_COLUMNS, MAX_DEPTH = 5_000, 4
MAX_CHARACTERS = 20_000  # of a value, looked at
MIN_LETTERS_PER_TEXT = 20  # on average; a column of fewer is a text if its name says so
MIN_STRING_SHARE = 0.9  # of the values that there are
MAX_KEY_CHARACTERS, MIN_ROWS, MAX_NAMES = 200, 4, 3
TEXT_NAMES = frozenset(
    "text body content contents message note notes comment comments description abstract article document review "
    "transcript utterance question answer prose paragraph sentence".split()
)
KEY_WORDS = frozenset("id key uuid guid number no nr num ref identifier doi isbn issn pmid url uri slug".split())
GROUP_WORDS = frozenset(
    "customer client account user author patient company organization organisation sender from thread conversation "
    "session group household employee speaker".split()
)
NAME_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
TAG = re.compile(r"<[^<>]{1,400}>")
NO_WORD = re.compile(r"://|[@\d]|[A-Za-z+/=_-]{41}")  # in a piece of ASCII: an address, number, digest or path
NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalpha())
ASCII, OTHER_LETTER = re.compile(r"[\x00-\x7f]+"), re.compile(r"[^\W\d_]")
DAY = re.compile(r"\s*(\d{4}-\d\d?-\d\d?|\d{4}/\d\d?/\d\d?|\d\d?[./-]\d\d?[./-]\d{2,4})(?!\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumns:
    """The names of the columns that contain the text, and of other columns that may be useful.

    names:   names of the text columns; a file's text is in the first one of them that the file has
    files:   for each of these names, the number of files with their text in this column, by file extension
    others:  other columns that contain text in all files
    keys, dates, groups: columns that all files have and that may be the record's key, date or group
    without: files that have records but no text, with their columns
    """

    names: tuple[str, ...] = ()
    files: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    without: tuple[tuple[RawFile, tuple[str, ...]], ...] = ()


@dataclass(slots=True)
class _ColumnStatistics:
    """Statistics of a column, from the rows that were read.

    values:    number of values
    strings:   number of values that are strings, or bytes that are valid text
    letters:   number of letters in the words of all values
    different: the same, but each distinct value counts only once
    marked:    number of strings with several HTML tags
    days:      number of dates and of strings that begin with a date
    long:      number of strings that are too long for a key or label
    """

    values: int = 0
    strings: int = 0
    letters: int = 0
    different: int = 0
    marked: int = 0
    days: int = 0
    long: int = 0

    def add(self, other: "_ColumnStatistics") -> None:
        """Add the statistics of the same column in another file to these, in place."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def is_text(self, name: str) -> bool:
        """Return True if the column seems to contain text. `name` is the name of the column.

        Nearly all values must be strings, and they must have enough letters or a name that is typical of text.
        """
        if not self.letters or self.strings < MIN_STRING_SHARE * self.values:
            return False
        return self.letters >= MIN_LETTERS_PER_TEXT * self.strings or _strip_path(name).lower() in TEXT_NAMES

    def score(self) -> float:
        """Return how much text the column has: its number of letters in distinct values.

        The score is halved for HTML, because there may be a column with the plain text, too.
        """
        return self.different / 2 if 2 * self.marked > self.strings else self.different


@dataclass(slots=True)
class _FileHead:
    """The beginning of a file, or of a sheet of a workbook.

    file:     the file
    rows:     number of rows read for statistics
    readable: False if any of it could not be read
    columns:  statistics by column name or path
    """

    file: RawFile
    rows: int
    readable: bool
    columns: dict[str, _ColumnStatistics]


def has_fields(form: RecordFormat) -> bool:
    """Return True if the records of a format have named fields (JSON, tables, Parquet and Excel)."""
    return isinstance(form, JsonLines | TextTable | ParquetRows | SheetRows)


def guess_text_columns(source: FilesSource, files: Sequence[RawFile], earlier: Sequence[str] = ()) -> TextColumns:
    """Guess which columns of raw files contain the text, from their first rows.

    Args:
        source: The source that the files belong to.
        files: The raw files. Files without named fields are ignored.
        earlier: Column names found before. They come first in the result.

    Returns:
        The names of the text columns, and what is known about other columns. Files that cannot be read are ignored.
    """
    tables = [file for file in files if has_fields(source.choose_format(file.name))]
    if not tables:
        return TextColumns(names=tuple(earlier))
    step = -(-len(tables) // MAX_SAMPLE_FILES)
    seen: dict[str, set[int]] = {}
    heads = [head for file in tables[::step] for head in _read_heads(source, file, seen)]
    names, without = _choose_text_columns(heads, earlier)
    for number, file in enumerate(tables):
        if number % step:
            head = _read_head(source, file, 1)
            if not _find_text_name(head, names):
                more = _read_heads(source, file, seen)
                names, lacking = _choose_text_columns(more, names)
                without, heads = [*without, *lacking], [*heads, *more]
            else:
                heads.append(head)
    read = {head.file.path for head in heads if _find_text_name(head, names)}  # in a sheet of it at least
    return _describe_columns(heads, names, [head for head in without if head.file.path not in read], seen)


def _choose_text_columns(heads: Sequence[_FileHead], earlier: Sequence[str]) -> tuple[tuple[str, ...], list[_FileHead]]:
    """Choose the names of the text columns: those in `earlier`, and more for files that have only other text columns.

    Returns:
        The names, and those of `heads` (beginnings of files) that are readable but have no text column.
    """
    names = list(earlier)
    left = [head for head in heads if head.columns and not _find_text_name(head, names)]
    while left:
        whole = _merge_columns(left)
        texts = {name: column for name, column in whole.items() if column.is_text(name)}
        if not texts:
            break
        names.append(max(texts, key=lambda name: (name == "text", texts[name].score(), name)))
        left = [head for head in left if not _find_text_name(head, names)]
    return tuple(names), [head for head in left if head.readable]


def _find_text_name(head: _FileHead, names: Sequence[str]) -> str:
    """Return the first of the given names that is a column of the file, or "" if there is none."""
    return next((name for name in names if name in head.columns), "")


def _merge_columns(heads: Sequence[_FileHead]) -> dict[str, _ColumnStatistics]:
    """Add up the statistics of columns with the same name in several files. Return the sums by column name."""
    whole: dict[str, _ColumnStatistics] = {}
    for head in heads:
        for name, column in head.columns.items():
            whole.setdefault(name, _ColumnStatistics()).add(column)
    return whole


def _describe_columns(
    heads: Sequence[_FileHead], names: tuple[str, ...], without: Sequence[_FileHead], seen: Mapping[str, set[int]]
) -> TextColumns:
    """Build the result of `guess_text_columns`.

    Args:
        heads: The beginnings of all files that were read.
        names: Names of the text columns.
        without: Those of `heads` from files that have records but no text.
        seen: Hashes of the distinct values of each column.
    """
    endings: dict[str, Counter[str]] = {name: Counter() for name in names}
    using = [head for head in heads if _find_text_name(head, names)]
    for head in using:
        endings[_find_text_name(head, names)][find_ending(head.file.name)] += 1
    everywhere = set[str].intersection(*(set(head.columns) for head in using)) if using else set()
    whole, rows = _merge_columns(using), sum(head.rows for head in using)
    labels = {n: c for n, c in whole.items() if n in everywhere and n not in names and c.values >= MIN_ROWS}
    others = {name: column for name, column in labels.items() if column.is_text(name)}
    short = {name: column for name, column in labels.items() if not column.long}
    unique = {name for name, c in short.items() if c.values == rows == len(seen.get(name, ()))}
    return TextColumns(
        names=names,
        files={name: dict(endings[name]) for name in names if endings[name]},
        others=tuple(sorted(others, key=lambda name: -others[name].score())[:MAX_NAMES]),
        keys=tuple(name for name in sorted(unique) if set(_split_name(name)[-1:]) & KEY_WORDS)[:MAX_NAMES],
        dates=tuple(name for name, c in short.items() if c.days >= MIN_STRING_SHARE * c.values)[:MAX_NAMES],
        groups=tuple(n for n in short if n not in unique and set(_split_name(n)) & GROUP_WORDS)[:MAX_NAMES],
        without=tuple((head.file, tuple(head.columns)) for head in without),
    )


def _split_name(name: str) -> list[str]:
    """Split the last part of a column's path into lower-case words: ["customer", "id"] for "meta.customerId"."""
    return [word.lower() for word in NAME_WORDS.findall(_strip_path(name))]


def _strip_path(name: str) -> str:
    """Return the last part of a column's path: "url" for "meta.url"."""
    return name.rpartition(".")[2].strip()


def _read_head(source: FilesSource, file: RawFile, max_rows: int, seen: dict[str, set[int]] | None = None) -> _FileHead:
    """Read the first rows of a file, and record its columns. A file that cannot be read has `readable` set to False.

    Args:
        source: The source that the file belongs to.
        file: The file.
        max_rows: Maximum number of rows to read.
        seen: Hashes of the values seen before, by column. New hashes are added. If None, only the column names are
            recorded, and all statistics are empty.
    """
    head = _FileHead(file, 0, True, {})
    try:
        for row in islice(_iter_rows(source.choose_format(file.name), parse_raw_path(file.path), head), max_rows):
            head.rows += seen is not None
            for name, value in islice(iter_fields(row), MAX_COLUMNS):
                if "." in name and find_value(row, name) is not value:
                    continue  # a name in its path holds a dot itself
                column = head.columns.setdefault(name, _ColumnStatistics())
                if seen is not None:
                    _add_value(column, value, seen.setdefault(name, set()))
    except (InputError, OpenQuote):
        head.readable = False
    return head


def _read_heads(source: FilesSource, file: RawFile, seen: dict[str, set[int]]) -> list[_FileHead]:
    """Read the beginning of a file, or of each sheet of a workbook, because each sheet has its own columns.

    Args:
        source: The source that the file belongs to.
        file: The file.
        seen: Hashes of the values seen before, by column. New hashes are added.
    """
    form = source.choose_format(file.name)
    if not isinstance(form, SheetRows):
        return [_read_head(source, file, HEAD_ROWS, seen)]
    heads = []
    with suppress(InputError), form.open_sheets(parse_raw_path(file.path)) as sheets:
        for sheet in sheets:
            head = _FileHead(file, 0, True, {name: _ColumnStatistics() for name in sheet.columns if name})
            for row in islice((row for row in sheet.rows if not row.is_hidden), HEAD_ROWS):
                head.rows += 1
                for name, value in (row.values or {}).items():
                    _add_value(head.columns.setdefault(name, _ColumnStatistics()), value, seen.setdefault(name, set()))
            heads.append(head)
    return heads


def _iter_rows(form: RecordFormat, path: Path, head: _FileHead) -> Iterator[Mapping[str, Any]]:
    """Yield the first records of a file as dictionaries, and add the names of its columns to `head`.

    Set `head.readable` to False if a row or line cannot be parsed.

    Args:
        form: The format of the file.
        path: Path of the file.
        head: Collects what is known about the file. Changed in place.

    Raises:
        InputError: During iteration, if the file cannot be read.
        OpenQuote: During iteration, if a quote in a table is never closed.
    """
    if isinstance(form, ParquetRows):
        head.columns.update({name: _ColumnStatistics() for name in parquet.read_columns(path) if name})
        yield from (row.values for row in parquet.read_rows(path, 0, path.stat().st_size, {}))
    elif isinstance(form, TextTable):
        table, columns = form.fit_to_file(path)
        times = Counter(columns)
        head.columns.update({name: _ColumnStatistics() for name in times if name and times[name] == 1})
        for row in table.iter_rows(path, columns or []):
            head.readable = head.readable and row is not None
            yield {name: value or None for name, value in (row or {}).items() if name in head.columns}
    elif isinstance(form, SheetRows):
        with form.open_sheets(path) as sheets:
            for sheet in sheets:
                head.columns.update({name: _ColumnStatistics() for name in sheet.columns if name})
                yield from (row.values or {} for row in sheet.rows if not row.is_hidden)
    elif isinstance(form, JsonLines):
        yield from _iter_objects(form, path, head)


def _iter_objects(form: JsonLines, path: Path, head: _FileHead) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in the first 400 kB of a JSON file. Set `head.readable` to False if one cannot be parsed.

    Args:
        form: The format of the file, with its encoding.
        path: Path of the file.
        head: Collects what is known about the file. Changed in place.

    Raises:
        InputError: During iteration, if the file cannot be read.
    """
    for line in form.read_head(path, HEAD_BYTES):
        if line.data is None or not line.data.strip():
            continue
        try:
            yield form.parse(line.data, line.offset)
        except BadRecord:
            head.readable = False


def iter_fields(row: Mapping[str, Any], path: str = "", depth: int = MAX_DEPTH) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) for each value in an object and in the objects inside it. Lists and nulls are omitted.

    The path can be used in a source's `fields` setting.

    Args:
        row: The object.
        path: Path of the object itself; "" for the outermost one.
        depth: Number of levels of inner objects to enter.

    >>> list(iter_fields({"id": 7, "meta": {"note": "a", "tags": ["b"]}, "none": None}))
    [('id', 7), ('meta.note', 'a')]
    """
    for name, value in row.items():
        whole = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            if depth:
                yield from iter_fields(value, whole, depth - 1)
        elif value is not None and not isinstance(value, list) and name:
            yield whole, value


def _add_value(column: _ColumnStatistics, value: Any, seen: set[int]) -> None:
    """Add a value to the statistics of its column, and its hash to `seen`, the hashes of earlier values."""
    column.values += 1
    text = _to_text(value)
    new = hash(text if text is not None else str(value)) not in seen
    seen.add(hash(text if text is not None else str(value)))
    column.days += isinstance(value, date) or bool(text and DAY.match(text))
    if text is None:
        return
    plain, marks = TAG.subn(" ", text[:MAX_CHARACTERS])
    letters = count_letters(plain)
    column.strings += 1
    column.letters += letters
    column.different += letters * new
    column.marked += marks > 1
    column.long += len(text) > MAX_KEY_CHARACTERS


def _to_text(value: Any) -> str | None:
    """Convert a value to a string if it is a string or bytes that are valid text. Return None for other values."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return value if isinstance(value, str) else None


def count_letters(text: str) -> int:
    """Count the letters in the words of a text. URLs, numbers, digests, base64 and JSON are not counted.

    >>> count_letters("The ferry was late."), count_letters("https://example.org/a"), count_letters("9f86d081884c7d65")
    (15, 0, 0)
    >>> count_letters('{"a": "some words"}'), count_letters("渡し舟は遅れた。")
    (0, 7)
    """
    if text[:2] in ('{"', '["', "[{", "{}", "[]"):
        return 0
    text, end = " ".join(text.split()), 0
    letters = _count_letters(text)
    for match in NO_WORD.finditer(text):
        if match.start() >= end:
            end = (text + " ").find(" ", match.end())
            piece = text[text.rfind(" ", 0, match.start()) + 1 : end]
            letters -= _count_letters(piece) if piece.isascii() else 0
    return letters


def _count_letters(text: str) -> int:
    """Count all letters of a text, of any script."""
    ascii_letters = len(text.encode("ascii", "ignore").translate(None, NO_LETTERS))
    return ascii_letters + (0 if text.isascii() else len(OTHER_LETTER.findall(ASCII.sub("", text))))
