"""Tables of text as a format: `.csv` and `.tsv`, in the forms that programs write.

    delimiters ..... comma, semicolon, tab or bar, by which of them parts most of the first rows alike; or what a first
                     line `sep=;` says, as Excel writes it
    one column ..... lines that no sign parts alike, under a name of one word
    no names ....... where the first row holds a number or a sentence, the columns are "column 1", "column 2", ...

Promises: every row that is not blank is one record; one that cannot be read is a damaged drop that says why. A file
that cannot be read to its end raises InputError. Costs: measured in `source.py`. Memory: one record.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.bytes.faults import BadRecord, refusing_damage
from corpora.sources.bytes.objects import raw_path
from corpora.sources.bytes.raw_files import Line, decode, line_after, read_lines
from corpora.sources.bytes.recoded import open_lines, read_lines_again
from corpora.sources.contract import RawFile, Record, Slice, Tally, damaged, too_large, unpacked_place, whole_file
from corpora.sources.files.fields import Fields, find_fields, how_to_name, settled, with_text
from corpora.sources.files.formats import counted, cut_lines, record_of, stop_of, wide_lines
from corpora.sources.files.rows import OpenQuote, by_name, parse_row, read_rows

SAMPLED, SAMPLE_BYTES = 20, 1_000_000  # rows that tell the delimiter
NO_DELIMITER = "\0"  # which no text holds
STATED = re.compile(rb"\"?sep=([!-~\t])\"?[,;\t]*\s*", re.IGNORECASE)
MOST_STATED = 100
NUMBER = re.compile(r"[-+]?\d[\d.,]*%?|\d{1,4}[-./]\d\d?[-./]\d{1,4}")
SENTENCE = re.compile(r"(?:\s\S+){3}[.!?]\Z|[。！？]\Z")  # noqa: RUF001
WORDS_OF_A_SENTENCE, LONGEST_NAME = 7, 100
YEARS = range(1800, 2101)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """Each row that is not blank is a record, but for the first where it names the columns.

    delimiter: between the fields of a row
    quote:     around a field that holds delimiters, line ends or, doubled, itself; "": there is none
    others:    signs that are the delimiter instead, where they part more of the first rows alike
    above:     rows before that which names the columns
    named:     a row names the columns
    """

    fields: Fields
    encoding: str
    max_record_bytes: int
    delimiter: str
    quote: str
    others: str = ""
    above: int = 0
    named: bool = True

    def slices(self, file: RawFile) -> list[Slice]:
        """A plain file in which no field holds a line end every 8 MB, any other whole."""
        return [whole_file(file)] if self.quote else cut_lines(file, self.encoding)

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """One record for each row. Raises InputError for a file that cannot be read to its end."""
        path = raw_path(piece.file.path)
        wide = "" if piece.start else wide_lines(path, self.encoding)
        with open_lines(path, wide) as stream, refusing_damage(path):
            if piece.start and line_after(stream, piece.start, piece.stop) >= piece.stop:
                return  # no row begins here: what the columns are need not be looked for
            try:
                table, columns = self.of_file(path)
                if columns is not None:
                    table._check_named(columns, path)
                yield from table._records(stream, piece, columns or [], tally, bool(wide))
            except OpenQuote as error:
                raise InputError(
                    f'{path}: {error}. Close it, or set the source\'s `quote` to "" where quotes mean '
                    "nothing, or get the file again."
                ) from error

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """The bytes of a row, without its end; of UTF-16 as UTF-8."""
        return read_lines_again(file, locator.offset, locator.length, self.encoding)

    def of_file(self, path: Path) -> tuple["TextTable", list[str] | None]:
        """The table as one file has it, and the names of its columns; None of an empty file.

        The usual delimiter stays where it finds all that `fields` names, or no other parts more rows alike.
        Raises InputError, and OpenQuote.
        """
        if sign := self._stated_delimiter(path):
            return replace(self, delimiter=sign, others="", above=1)._of_file(path)
        return self._of_file(path)

    def _of_file(self, path: Path) -> tuple["TextTable", list[str] | None]:
        usual = self._first_rows(path)
        if not usual:
            return self._settled([]), None
        names = with_text(self.fields).values()
        named = all(set(usual[0]) & ({name} if isinstance(name, str) else set(name)) for name in names)
        if named and (len(usual[0]) > 1 or not self.others):
            return self._settled(usual[0]), usual[0]
        tables = [(self, usual)]
        for sign in (*self.others, *(NO_DELIMITER if self.others else "")):
            with suppress(InputError, OpenQuote):
                table = replace(self, delimiter=sign)
                tables.append((table, table._first_rows(path)))
        table, rows = max(tables[:-1] or tables, key=lambda each: _fit(each[1]))
        lines = tables[-1][1]
        if self.others and not _fit(rows)[0] and (len(rows[0]) == 1 or is_data(lines[0], lines[1:])):
            table, rows = tables[-1]  # one column, of lines that hold signs
        if not is_data(rows[0], rows[1:]):
            return table._settled(rows[0]), rows[0]
        columns = [f"column {number}" for number in range(1, len(rows[0]) + 1)]
        return replace(table, named=False)._settled(columns), columns

    def _stated_delimiter(self, path: Path) -> str:
        """The delimiter that a file's first line states, as in `sep=;`; "" for none. Raises InputError."""
        with open_lines(path, wide_lines(path, self.encoding)) as stream, refusing_damage(path):
            match = STATED.fullmatch(stream.readline(MOST_STATED).removeprefix(codecs.BOM_UTF8))
        return match[1].decode() if match else ""

    def _settled(self, columns: list[str]) -> "TextTable":
        return replace(self, fields=settled(self.fields, columns.__contains__))

    def rows(self, path: Path, columns: list[str]) -> Iterator[dict[str, Any] | None]:
        """The rows of a file by their columns' names; None for one that cannot be read. Raises InputError."""
        with open_lines(path, wide_lines(path, self.encoding)) as stream, refusing_damage(path):
            cut = self._cut(stream, 0, None, len(columns))
            rows = (row for row in cut if row.data is not None and row.data.strip())
            for row in islice(rows, self.above + self.named, None):
                try:
                    yield by_name(columns, self._fields_of(row))
                except BadRecord:
                    yield None

    def _records(
        self, stream: BufferedIOBase, piece: Slice, columns: list[str], tally: Tally, recoded: bool
    ) -> Iterator[Record]:
        rows = self._cut(stream, piece.start, None if recoded else stop_of(piece), len(columns))
        if piece.start == 0:
            skipped = (row for row in rows if row.data is None or row.data.strip())
            rows = islice(skipped, self.above + self.named, None)
        for row in counted(rows, tally):
            yield self._record(row, columns, piece.file, tally, recoded)

    def _cut(self, stream: BufferedIOBase, start: int, stop: int | None, columns: int = 0) -> Iterator[Line]:
        if not self.quote:
            return read_lines(stream, start, stop, self.max_record_bytes)
        return read_rows(stream, self.max_record_bytes, self.delimiter, self.quote, columns)

    def _first_rows(self, path: Path) -> list[list[str]]:
        """The fields of a file's first rows, the names of its columns first; none of an empty file.

        Raises InputError, and OpenQuote.
        """
        try:
            first = self._sample(path, SAMPLED)
        except OpenQuote:
            one = replace(self, quote="") if self.delimiter == "\t" else self  # whose quotes end in their lines
            first = self._sample(path, SAMPLED, len(self._fields_of(one._sample(path, 1)[0])))
        fields = []
        for row in first:
            try:
                fields.append(self._fields_of(row) if row.data is not None else [])
            except BadRecord as error:
                if not fields:
                    raise InputError(
                        f"{path}: its header cannot be read: {error}. Fix it, or set `encoding`."
                    ) from error
                fields.append([])
        return fields

    def _sample(self, path: Path, most: int, columns: int = 0) -> list[Line]:
        """The first rows of a file that are not blank. Raises InputError, and OpenQuote."""
        with open_lines(path, wide_lines(path, self.encoding)) as stream, refusing_damage(path):
            rows = (row for row in self._cut(stream, 0, None, columns) if row.data is None or row.data.strip())
            return list(islice(_up_to(rows, SAMPLE_BYTES), self.above, self.above + most))

    def _check_named(self, columns: list[str], path: Path) -> None:
        """Raise InputError where a column that `fields` names is not there once."""
        for name, names in self.fields.items():
            if columns.count(str(names)) != 1:
                problem = "twice" if names in columns else "not"
                raise InputError(
                    f"{path} names the column {names!r} {problem}, but {', '.join(columns)[:500]}. "
                    f"{how_to_name(name)}, set `delimiter` or `quote` to what the file has, or give it a first row of "
                    "names."
                )

    def _fields_of(self, row: Line) -> list[str]:
        """The fields of a row. Raises BadRecord."""
        return parse_row(decode(row.data or b"", self.encoding, row.offset), self.delimiter, self.quote)

    def _record(self, row: Line, columns: list[str], file: RawFile, tally: Tally, recoded: bool) -> Record:
        locator = unpacked_place(file, row.offset, row.length, recoded)
        if row.data is None:
            return too_large(locator, self.max_record_bytes)
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=row.data.strip(), drop=drop)
        try:
            values = by_name(columns, self._fields_of(row))
            given = {key: value or None for key, value in values.items()}
            text = str(self.fields["text"])
            given_fields = find_fields({**given, text: values[text]}, self.fields)
        except BadRecord as error:
            return damaged(locator, row.data.strip(), error)
        return record_of(locator, row.data.strip(), given_fields)


def _up_to(rows: Iterator[Line], size: int) -> Iterator[Line]:
    """The rows that begin in the first bytes."""
    for row in rows:
        if row.offset > size:
            return
        yield row


def _fit(rows: Sequence[Sequence[str]]) -> tuple[bool, int, int]:
    """Return how well a delimiter parts rows: over half into as many fields as the first; how many; into how many."""
    columns = len(rows[0]) if rows else 0
    alike = sum(len(row) == columns for row in rows[1:])
    return columns > 1 and 2 * alike >= len(rows) - 1, alike if columns > 1 else 0, columns


def is_data(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row of a table is none of names: it holds a sentence, or a number as those below it do.

    >>> is_data(["1", "great film"], [["2", "a bore"]]), is_data(["id", "text"], [["2", "a bore"]])
    (True, False)
    >>> is_data(["", "0", "1"], [["a", "5", "7"]]), is_data(["city", "2019"], [["Ulm", "5"]])
    (False, False)
    """
    cells = [cell.strip() for cell in first]
    if not all(cells) or max(Counter(cells).values(), default=0) > 1 == len(set(cells)):
        return False
    if any(
        len(cell) > LONGEST_NAME or len(cell.split()) >= WORDS_OF_A_SENTENCE or SENTENCE.search(cell) for cell in cells
    ):
        return True
    numbers = [at for at, cell in enumerate(cells) if NUMBER.fullmatch(cell)]
    counted_up = [str(number) for number in range(len(cells))], [str(number + 1) for number in range(len(cells))]
    years = all(cells[at].isdecimal() and int(cells[at]) in YEARS for at in numbers)
    if not numbers or years or cells in counted_up:
        return False
    return any(len(row) > at and NUMBER.fullmatch(row[at].strip()) for row in others for at in numbers)
