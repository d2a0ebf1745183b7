"""Finds the column of a table, or field of JSON lines, that holds the text, where a recipe does not name it.

A column called `text` that holds words is taken. Else it is the one with the most letters in words, in the first
records of the files: a text that occurs again counts once, and so do columns of disclaimers; numbers, addresses,
digests and base64 are not words, tags of HTML are not counted, lists and objects hold none. Where files have different
columns, several names are found, and the text of a file is under the first of them that it has.

Promises: the same files give the same names, and names that were found before keep their places before new ones. What
could be a key, a date or a group is named and not used: two records with one key would become one. A file that cannot
be read is left to the code that reads it.
Costs: the first `HEAD_ROWS` rows of at most `SAMPLED` files, one row of each other one: about a millisecond a file.
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
from corpora.sources.bytes.endings import ending_of
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.bytes.objects import raw_path
from corpora.sources.contract import RawFile, RecordFormat
from corpora.sources.files import parquet
from corpora.sources.files.fields import look_up
from corpora.sources.files.formats import JsonLines, ParquetRows
from corpora.sources.files.office.sheet_rows import SheetRows
from corpora.sources.files.source import FilesSource
from corpora.sources.files.tables import OpenQuote, TextTable

SAMPLED, HEAD_ROWS, HEAD_BYTES = 64, 200, 400_000
MOST_COLUMNS, DEEPEST = 5_000, 4
MOST_CHARACTERS = 20_000  # of a value, looked at
LETTERS_OF_A_TEXT = 20  # on average; a column of fewer is a text if its name says so
STRINGS_OF_A_TEXT = 0.9  # of the values that there are
MOST_KEY, FEWEST_ROWS, MOST_NAMED = 200, 4, 3
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
class FoundText:
    """The names of the text's columns, and more. files: how many of each ending hold their text under a name.

    others:  other columns that hold text, in all of the files
    keys, dates, groups: what could be the record's key, date or group, in all of the files
    without: files that have records and no text, and what they have instead
    """

    names: tuple[str, ...] = ()
    files: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    without: tuple[tuple[RawFile, tuple[str, ...]], ...] = ()


@dataclass(slots=True)
class _Column:
    """Statistics of a column. letters: of all its values; different: of each value once."""

    values: int = 0
    strings: int = 0
    letters: int = 0
    different: int = 0
    marked: int = 0
    days: int = 0
    long: int = 0

    def add(self, other: "_Column") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def is_text(self, name: str) -> bool:
        if not self.letters or self.strings < STRINGS_OF_A_TEXT * self.values:
            return False
        return self.letters >= LETTERS_OF_A_TEXT * self.strings or _last(name).lower() in TEXT_NAMES

    def score(self) -> float:
        """Letters of different values; those of a column of HTML count half, for there may be a plain one."""
        return self.different / 2 if 2 * self.marked > self.strings else self.different


@dataclass(slots=True)
class _Head:
    """The beginning of a file. readable: whether all that was looked at could be read."""

    file: RawFile
    rows: int
    readable: bool
    columns: dict[str, _Column]


def holds_fields(form: RecordFormat) -> bool:
    """Return True if a file's records have fields."""
    return isinstance(form, JsonLines | TextTable | ParquetRows | SheetRows)


def guess_text(source: FilesSource, files: Sequence[RawFile], earlier: Sequence[str] = ()) -> FoundText:
    """Find the columns that hold the texts of some files. earlier: names that were found before, which come first."""
    tables = [file for file in files if holds_fields(source.format_of(file.name))]
    if not tables:
        return FoundText(names=tuple(earlier))
    step = -(-len(tables) // SAMPLED)
    seen: dict[str, set[int]] = {}
    heads = [head for file in tables[::step] for head in _heads(source, file, seen)]
    names, without = _names(heads, earlier)
    for number, file in enumerate(tables):
        if number % step:
            head = _head(source, file, 1)
            if not _name_of(head, names):
                more = _heads(source, file, seen)
                names, lacking = _names(more, names)
                without, heads = [*without, *lacking], [*heads, *more]
            else:
                heads.append(head)
    read = {head.file.path for head in heads if _name_of(head, names)}  # in a sheet of it at least
    return _guess(heads, names, [head for head in without if head.file.path not in read], seen)


def _names(heads: Sequence[_Head], earlier: Sequence[str]) -> tuple[tuple[str, ...], list[_Head]]:
    """The names of the text in some files, and the files that have none."""
    names = list(earlier)
    left = [head for head in heads if head.columns and not _name_of(head, names)]
    while left:
        whole = _merged(left)
        texts = {name: column for name, column in whole.items() if column.is_text(name)}
        if not texts:
            break
        names.append(max(texts, key=lambda name: (name == "text", texts[name].score(), name)))
        left = [head for head in left if not _name_of(head, names)]
    return tuple(names), [head for head in left if head.readable]


def _name_of(head: _Head, names: Sequence[str]) -> str:
    """The name that the text of a file is under; "" if it is under none."""
    return next((name for name in names if name in head.columns), "")


def _merged(heads: Sequence[_Head]) -> dict[str, _Column]:
    whole: dict[str, _Column] = {}
    for head in heads:
        for name, column in head.columns.items():
            whole.setdefault(name, _Column()).add(column)
    return whole


def _guess(
    heads: Sequence[_Head], names: tuple[str, ...], without: Sequence[_Head], seen: Mapping[str, set[int]]
) -> FoundText:
    endings: dict[str, Counter[str]] = {name: Counter() for name in names}
    using = [head for head in heads if _name_of(head, names)]
    for head in using:
        endings[_name_of(head, names)][ending_of(head.file.name)] += 1
    everywhere = set[str].intersection(*(set(head.columns) for head in using)) if using else set()
    whole, rows = _merged(using), sum(head.rows for head in using)
    labels = {n: c for n, c in whole.items() if n in everywhere and n not in names and c.values >= FEWEST_ROWS}
    others = {name: column for name, column in labels.items() if column.is_text(name)}
    short = {name: column for name, column in labels.items() if not column.long}
    unique = {name for name, c in short.items() if c.values == rows == len(seen.get(name, ()))}
    return FoundText(
        names=names,
        files={name: dict(endings[name]) for name in names if endings[name]},
        others=tuple(sorted(others, key=lambda name: -others[name].score())[:MOST_NAMED]),
        keys=tuple(name for name in sorted(unique) if set(_words(name)[-1:]) & KEY_WORDS)[:MOST_NAMED],
        dates=tuple(name for name, c in short.items() if c.days >= STRINGS_OF_A_TEXT * c.values)[:MOST_NAMED],
        groups=tuple(n for n in short if n not in unique and set(_words(n)) & GROUP_WORDS)[:MOST_NAMED],
        without=tuple((head.file, tuple(head.columns)) for head in without),
    )


def _words(name: str) -> list[str]:
    return [word.lower() for word in NAME_WORDS.findall(_last(name))]


def _last(name: str) -> str:
    return name.rpartition(".")[2].strip()


def _head(source: FilesSource, file: RawFile, most: int, seen: dict[str, set[int]] | None = None) -> _Head:
    """The first rows of a file. seen: by column, the values that were seen before; without it only names are noted"""
    head = _Head(file, 0, True, {})
    try:
        for row in islice(_rows(source.format_of(file.name), raw_path(file.path), head), most):
            head.rows += seen is not None
            for name, value in islice(leaves(row), MOST_COLUMNS):
                if "." in name and look_up(row, name) is not value:
                    continue  # a name in its path holds a dot itself
                column = head.columns.setdefault(name, _Column())
                if seen is not None:
                    _note(column, value, seen.setdefault(name, set()))
    except (InputError, OpenQuote):
        head.readable = False
    return head


def _heads(source: FilesSource, file: RawFile, seen: dict[str, set[int]]) -> list[_Head]:
    """The beginning of a file; of each sheet of a workbook, for each has its own columns."""
    form = source.format_of(file.name)
    if not isinstance(form, SheetRows):
        return [_head(source, file, HEAD_ROWS, seen)]
    heads = []
    with suppress(InputError), form.opened(raw_path(file.path)) as sheets:
        for sheet in sheets:
            head = _Head(file, 0, True, {name: _Column() for name in sheet.columns if name})
            for row in islice((row for row in sheet.rows if not row.is_hidden), HEAD_ROWS):
                head.rows += 1
                for name, value in (row.values or {}).items():
                    _note(head.columns.setdefault(name, _Column()), value, seen.setdefault(name, set()))
            heads.append(head)
    return heads


def _rows(form: RecordFormat, path: Path, head: _Head) -> Iterator[Mapping[str, Any]]:
    """The first records of a file as objects. Raises InputError, and OpenQuote."""
    if isinstance(form, ParquetRows):
        head.columns.update({name: _Column() for name in parquet.columns_of(path) if name})
        yield from (row.values for row in parquet.read_rows(path, 0, path.stat().st_size, {}))
    elif isinstance(form, TextTable):
        table, columns = form.of_file(path)
        times = Counter(columns)
        head.columns.update({name: _Column() for name in times if name and times[name] == 1})
        for row in table.rows(path, columns or []):
            head.readable = head.readable and row is not None
            yield {name: value or None for name, value in (row or {}).items() if name in head.columns}
    elif isinstance(form, SheetRows):
        with form.opened(path) as sheets:
            for sheet in sheets:
                head.columns.update({name: _Column() for name in sheet.columns if name})
                yield from (row.values or {} for row in sheet.rows if not row.is_hidden)
    elif isinstance(form, JsonLines):
        yield from _objects(form, path, head)


def _objects(form: JsonLines, path: Path, head: _Head) -> Iterator[Mapping[str, Any]]:
    for line in form.head(path, HEAD_BYTES):
        if line.data is None or not line.data.strip():
            continue
        try:
            yield form.parse(line.data, line.offset)
        except BadRecord:
            head.readable = False


def leaves(row: Mapping[str, Any], path: str = "", depth: int = DEEPEST) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds that is not an object, list or null, by the path under which `fields` finds it.

    >>> list(leaves({"id": 7, "meta": {"note": "a", "tags": ["b"]}, "none": None}))
    [('id', 7), ('meta.note', 'a')]
    """
    for name, value in row.items():
        whole = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            if depth:
                yield from leaves(value, whole, depth - 1)
        elif value is not None and not isinstance(value, list) and name:
            yield whole, value


def _note(column: _Column, value: Any, seen: set[int]) -> None:
    """Add a value to what is known of its column."""
    column.values += 1
    text = _text(value)
    new = hash(text if text is not None else str(value)) not in seen
    seen.add(hash(text if text is not None else str(value)))
    column.days += isinstance(value, date) or bool(text and DAY.match(text))
    if text is None:
        return
    plain, marks = TAG.subn(" ", text[:MOST_CHARACTERS])
    letters = count_letters(plain)
    column.strings += 1
    column.letters += letters
    column.different += letters * new
    column.marked += marks > 1
    column.long += len(text) > MOST_KEY


def _text(value: Any) -> str | None:
    """A text, also one of bytes; None if it is none."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return value if isinstance(value, str) else None


def count_letters(text: str) -> int:
    """The letters of a text that are in words: not of addresses, numbers, digests, base64 or JSON.

    >>> count_letters("The ferry was late."), count_letters("https://example.org/a"), count_letters("9f86d081884c7d65")
    (15, 0, 0)
    >>> count_letters('{"a": "some words"}'), count_letters("渡し舟は遅れた。")
    (0, 7)
    """
    if text[:2] in ('{"', '["', "[{", "{}", "[]"):
        return 0
    text, end = " ".join(text.split()), 0
    letters = _letters(text)
    for match in NO_WORD.finditer(text):
        if match.start() >= end:
            end = (text + " ").find(" ", match.end())
            piece = text[text.rfind(" ", 0, match.start()) + 1 : end]
            letters -= _letters(piece) if piece.isascii() else 0
    return letters


def _letters(text: str) -> int:
    ascii_letters = len(text.encode("ascii", "ignore").translate(None, NO_LETTERS))
    return ascii_letters + (0 if text.isascii() else len(OTHER_LETTER.findall(ASCII.sub("", text))))
