"""Tables of text as a format: `.csv` and `.tsv`, in the forms that programs write.

    delimiters ..... comma, semicolon, tab or bar, by which of them parts most of the first rows alike; or what a first
                     line `sep=;` says, as Excel writes it
    one column ..... lines that no sign parts alike, under a name of one word
    no names ....... if the first row holds a number or a sentence, the columns are "column 1", "column 2", ...

Promises: every row that is not blank is one record; one that cannot be read is a damaged drop that says why. A file
that cannot be read to its end raises InputError. Costs: measured in `source.py`. Memory: one record.

Tables of text: rows of RFC 4180, in which a quoted field may hold line ends, delimiters and doubled quotes.

Promises: rows are cut out of the bytes before any is parsed, by a kernel that its plain twin agrees with; a quote opens
a field only at its beginning. A row of any length is passed over in bounded memory. A lone quote costs no row:
what it joins, up to the next quote or to the file's end, is read line by line if most of the lines are rows of the
table. If they are not, a quote that is never closed is refused, with the byte of its row: the file is cut off there;
between tabs, since quotes are rare there, it is a character.
Costs: measured in `source.py`. Memory: one row and a piece of 256 kB.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.schema import Locator
from corpora.sources.bytes.faults import BadRecord, explain_damage
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import Line, decode, read_lines, seek_line
from corpora.sources.bytes.recoded import open_lines, read_lines_again
from corpora.sources.contract import (
    RawFile,
    Record,
    Slice,
    Tally,
    build_locator,
    drop_damaged,
    drop_too_large,
    slice_whole_file,
)
from corpora.sources.files.fields import Fields, choose_names, describe_remedy, find_fields, with_text
from corpora.sources.files.formats import build_record, cut_lines, find_line_encoding, find_stop, iter_nonblank_lines

PIECE_BYTES = 1 << 18
STEP_BYTES = 1 << 12  # that are read again after a row that was none
MIN_RUN_LINES = 100  # by which a row that is too large is known to be none
MIN_ROW_SHARE = 0.75  # of lines that are rows
MAX_CUT_LINES = 3  # of a file that is cut off, at most so many lines seem to be rows
FIELD_START, PLAIN, QUOTED, QUOTE_SEEN = range(4)  # where in a row the byte before this one left us


class OpenQuote(ValueError):
    """Raised if a quote is not closed before the end of the file. `offset` is the first byte of its row."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"a quote in the row at byte {offset} is never closed")
        self.offset = offset


def find_row_ends_plain(data: bytes, state: int, delimiter: int, quote: int) -> tuple[list[int], int]:
    """Find the newlines that end the rows of a table. This is the reference for `find_row_ends`, for tests.

    Args:
        data: A chunk of the file.
        state: The state after the preceding byte: FIELD_START, PLAIN, QUOTED or QUOTE_SEEN.
        delimiter, quote: The delimiter and the quote as byte values.

    Returns:
        The index after each of these newlines, and the state after the last byte.

    >>> find_row_ends_plain(b'a,"b\\nc"\\nd', FIELD_START, ord(","), ord('"'))
    ([8], 1)
    """
    ends = []
    for at, byte in enumerate(data):
        if state == QUOTED:
            state = QUOTE_SEEN if byte == quote else QUOTED
        elif byte == quote and state in (FIELD_START, QUOTE_SEEN):
            state = QUOTED
        elif byte == delimiter:
            state = FIELD_START
        elif byte == 10:
            ends.append(at + 1)
            state = FIELD_START
        else:
            state = PLAIN
    return ends, state


@kernel
def find_row_ends(data: Bytes, state: int, delimiter: int, quote: int) -> tuple[Int64s, int]:
    """Find the newlines that end the rows of a table, in compiled code. Newlines inside quotes are ignored.

    Args:
        data: A chunk of the file.
        state: The state after the preceding byte: FIELD_START, PLAIN, QUOTED or QUOTE_SEEN, which are 0 to 3.
        delimiter, quote: The delimiter and the quote as byte values.

    Returns:
        An int64 array with the index after each of these newlines, and the state after the last byte.
    """
    ends = np.empty(data.size, np.int64)
    num_ends = 0
    for at in range(data.size):
        byte = data[at]
        if state == 2:
            if byte == quote:
                state = 3
        elif byte == quote and (state == 0 or state == 3):
            state = 2
        elif byte == delimiter:
            state = 0
        elif byte == 10:
            ends[num_ends] = at + 1
            num_ends += 1
            state = 0
        else:
            state = 1
    return ends[:num_ends].copy(), state


def read_rows(stream: BufferedIOBase, max_bytes: int, delimiter: str, quote: str, columns: int = 0) -> Iterator[Line]:
    """Yield the rows of a table from its beginning, after any UTF-8 byte order mark.

    Args:
        stream: The bytes of the table.
        max_bytes: Maximum size of a row. A longer row is not held in memory, and its `data` is None.
        delimiter: The character between fields.
        quote: The character that encloses fields.
        columns: The number of columns, used to recognize rows that an unpaired quote has joined. If 0, this is not
            attempted.

    Raises:
        OpenQuote: At the end, if the last quote is never closed, and the lines after it are not rows of the table.
    """
    pieces = iter(lambda: stream.read(PIECE_BYTES), b"")
    first = next(pieces, b"")
    offset = len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0
    shape, state, length = _TableShape(delimiter, quote, columns), FIELD_START, 0
    held, again, found_joined = list[memoryview](), [memoryview(first)[offset:]], False
    while data := again.pop() if again else memoryview(next(pieces, b"")):
        ends, state = find_row_ends(np.frombuffer(data, np.uint8), state, ord(delimiter), ord(quote))
        begin = 0
        for end in ends.tolist():
            length += end - begin
            raw = b"".join([*held, data[begin:end]])
            row = _build_row(offset, raw, length, max_bytes)
            held, begin = [], end
            if len(raw) < length or not (shape.is_run(raw) if row.data is None else shape.is_joined(row.data)):
                yield row
                offset, length = offset + length, 0
                continue
            # What is after it is read again, too, in small steps: there may be many such rows.
            again += filter(None, (data[end + STEP_BYTES :], data[end : end + STEP_BYTES]))
            joined, begin = raw, len(data)
            break
        else:
            length += len(data) - begin
            held.append(data[begin:])
            joined = b""
            if length > max_bytes + 2:
                raw, held = b"".join(held), []
                joined = raw if len(raw) == length and state == QUOTED and shape.is_run(raw) else b""
        if joined:
            found_joined = True
            *lines, last = _split_lines(offset, joined)
            yield from lines
            again.append(memoryview(joined)[last.offset - offset :])  # its quote may begin a field as it should
            offset, state, length, held = last.offset, FIELD_START, 0, []
    if state == QUOTED:
        raw = b"".join(held)
        if not (found_joined or (columns and delimiter == "\t") or shape.is_joined_to_the_end(raw)):
            raise OpenQuote(offset)
        yield from _split_lines(offset, raw)
    elif length:
        yield _build_row(offset, b"".join(held), length, max_bytes)


@dataclass(frozen=True, slots=True)
class _TableShape:
    """The shape of a table's rows, used to recognize rows that an unpaired quote has joined into one.

    Attributes:
        delimiter: The character between fields.
        quote: The character that encloses fields.
        columns: Number of columns. If 0, rows are never recognized as joined.
    """

    delimiter: str
    quote: str
    columns: int

    def is_joined(self, data: bytes) -> bool:
        """Return True if the bytes of a multi-line row are not a valid row, but most of its lines are.

        In a tab-separated table, a row also counts as joined if all its lines are valid rows, because a quoted text
        would not have such lines.
        """
        full = data.count(b"\n") - data.count(b"\n\n") - data.count(b"\n\r\n")
        if (
            not full
            or data.count(self.delimiter.encode()) < MIN_ROW_SHARE * full * (self.columns - 1)
            or not self.columns
        ):
            return False  # as nearly every text of several lines in quotes
        first, *others = data.split(b"\n")
        if not self._are_rows(others):
            return False
        return not self._is_row(data) or (
            self.delimiter == "\t" and self.columns > 1 and all(map(self._is_row, (first, *others)))
        )

    def is_run(self, data: bytes) -> bool:
        """Return True if a quote spans so many lines that it cannot be a field, and all of them are valid rows.

        The first and last line of `data` are not considered.
        """
        lines = data.split(b"\n")[1:-1]
        return (
            self.columns > 2 - (self.delimiter == "\t") and len(lines) > MIN_RUN_LINES and all(map(self._is_row, lines))
        )

    def is_joined_to_the_end(self, data: bytes) -> bool:
        """Return True if most of the lines after an unclosed quote are valid rows. `data` begins with the quote's row.

        Otherwise, the file seems to be truncated within a field.
        """
        lines = data.split(b"\n")
        return self.columns > 1 and len(lines) > MAX_CUT_LINES and self._are_rows(lines[1:])

    def _are_rows(self, lines: list[bytes]) -> bool:
        """Return True if at least three quarters of the nonblank lines are valid rows."""
        full = [line for line in lines if line.strip()]
        sign, needed = self.delimiter.encode(), MIN_ROW_SHARE * max(1, len(full))
        fitting = [line for line in full if line.count(sign) >= self.columns - 1]
        return len(fitting) >= needed and sum(map(self._is_row, fitting)) >= needed

    def _is_row(self, data: bytes) -> bool:
        """Return True if the bytes are a row with the correct number of fields."""
        try:
            return len(parse_row(data.decode("latin-1"), self.delimiter, self.quote)) == self.columns
        except BadRecord:
            return False


def _split_lines(offset: int, raw: bytes) -> list[Line]:
    """Split the bytes of joined rows into lines. Each line is a row.

    `offset` is the position of the first byte in the file.
    """
    lines = []
    for line in raw.split(b"\n") if not raw.endswith(b"\n") else raw[:-1].split(b"\n"):
        text = line.removesuffix(b"\r")
        lines.append(Line(offset, len(text), text))
        offset += len(line) + 1
    return lines


def _build_row(offset: int, data: bytes, length: int, max_bytes: int) -> Line:
    """Build the `Line` of a row.

    Args:
        offset: Position of the row in the file.
        data: The row with its line ending; incomplete if it is too long.
        length: Number of bytes of the row with its line ending.
        max_bytes: Maximum length of a row without its line ending. The `data` of a longer row is None.
    """
    text = data.removesuffix(b"\n").removesuffix(b"\r")
    if len(data) < length or len(text) > max_bytes:
        return Line(offset, length, None)
    return Line(offset, len(text), text)


def parse_row(row: str, delimiter: str, quote: str) -> list[str]:
    r"""Parse the fields of a row without its line ending.

    An unclosed quote is an ordinary character, because the lines that it would span are separate rows. Quotes that do
    not enclose a whole field are ordinary characters, too, unless they may have joined lines.

    Args:
        row: The row.
        delimiter: The character between fields.
        quote: The character that encloses fields, or "" if there is none.

    Raises:
        BadRecord: If a multi-line row has characters between a closing quote and the delimiter.

    >>> parse_row('a,"b, ""c""\nd",5" pipe,', ",", '"'), parse_row('a,"b,c', ",", '"')
    (['a', 'b, "c"\nd', '5" pipe', ''], ['a', '"b', 'c'])
    >>> parse_row('"a" b,c', ",", '"')
    ['"a" b', 'c']
    """
    if not quote or quote not in row:
        return row.split(delimiter)
    pattern = _build_field_pattern(delimiter, quote)
    fields: list[str] = []
    at = 0
    while True:
        match = pattern.match(row, at)
        if match is None and row[at + 1 :].replace(quote * 2, "").count(quote) == 0:
            return [*fields, *row[at:].split(delimiter)]
        if match is None and (delimiter == "\t" or "\n" not in row):
            end = row.find(delimiter, at)
            fields.append(row[at : end if end >= 0 else None])
            if end < 0:
                return fields
            at = end + 1
            continue
        if match is None:
            raise BadRecord(f"characters between a closing quote and the delimiter, in field {len(fields) + 1}")
        quoted, plain = match["quoted"], match["plain"]
        fields.append(plain if quoted is None else quoted.replace(quote * 2, quote))
        if match.end() == len(row) and match["end"] == "":
            return fields
        at = match.end()


@cache
def _build_field_pattern(delimiter: str, quote: str) -> "re.Pattern[str]":
    """Build the pattern of a field and the delimiter after it. Its groups are "quoted", "plain" and "end". Cached."""
    d, q = re.escape(delimiter), re.escape(quote)
    quoted = f"{q}(?P<quoted>[^{q}]*+(?:{q}{q}[^{q}]*+)*+){q}"
    return re.compile(f"(?:{quoted}|(?!{q})(?P<plain>[^{d}]*+))(?P<end>{d}|\\Z)")


def name_fields(header: list[str], row: list[str]) -> dict[str, Any]:
    """Return the fields of a row by column name.

    Raises:
        BadRecord: If the row has more or fewer fields than the header has columns.
    """
    if len(row) != len(header):
        raise BadRecord(f"{len(row)} fields where the header names {len(header)}")
    return dict(zip(header, row, strict=True))


SAMPLE_ROWS, SAMPLE_BYTES = 20, 1_000_000  # rows that tell the delimiter
NO_DELIMITER = "\0"  # which no text holds
STATED_DELIMITER = re.compile(rb"\"?sep=([!-~\t])\"?[,;\t]*\s*", re.IGNORECASE)
MAX_STATED_BYTES = 100
NUMBER = re.compile(r"[-+]?\d[\d.,]*%?|\d{1,4}[-./]\d\d?[-./]\d{1,4}")
SENTENCE = re.compile(r"(?:\s\S+){3}[.!?]\Z|[。！？]\Z")  # noqa: RUF001
MIN_SENTENCE_WORDS, MAX_NAME_CHARACTERS = 7, 100
YEARS = range(1800, 2101)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """The format of text tables, in which each nonblank row becomes a record, except for a header row.

    delimiter:        character between the fields of a row
    quote:            character that encloses fields with delimiters, newlines or (doubled) quotes; "" if there is none
    other_delimiters: characters to use as the delimiter instead if they split more of the first rows uniformly
    rows_above:       number of rows before the header row
    has_names:        True if there is a header row
    """

    fields: Fields
    encoding: str
    max_record_bytes: int
    delimiter: str
    quote: str
    other_delimiters: str = ""
    rows_above: int = 0
    has_names: bool = True

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A table without quotes is cut every 1 MB if it is uncompressed. Any other file is one slice, since newlines may
        be inside quotes.

        Raises:
            InputError: If the file cannot be read, or its encoding contradicts the setting `encoding`.
        """
        return [slice_whole_file(file)] if self.quote else cut_lines(file, self.encoding)

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Each nonblank row of a table that begins in the slice is a record.

        Args:
            piece: The slice.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file or its header cannot be read, a column in `fields` is missing, or
                a quote is never closed.
        """
        path = parse_raw_path(piece.file.path)
        wide = "" if piece.start else find_line_encoding(path, self.encoding)
        with open_lines(path, wide) as stream, explain_damage(path):
            if piece.start and seek_line(stream, piece.start, piece.stop) >= piece.stop:
                return  # no row begins here: what the columns are need not be looked for
            try:
                table, columns = self.fit_to_file(path)
                if columns is not None:
                    table._check_named(columns, path)
                yield from table._read_records(stream, piece, columns or [], tally, bool(wide))
            except OpenQuote as error:
                raise InputError(
                    f'{path}: {error}. Close it, or set the source\'s `quote` to "" where quotes mean '
                    "nothing, or get the file again."
                ) from error

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The record is a row, without its line ending. If the file is converted to UTF-8 for reading, the returned bytes
        are converted, too.

        Raises:
            InputError: If the file cannot be read.
        """
        return read_lines_again(file, locator.offset, locator.length, self.encoding)

    def fit_to_file(self, path: Path) -> tuple["TextTable", list[str] | None]:
        """Adapt the format to a file: determine its delimiter, and whether it has a header row.

        The usual delimiter is kept if it yields all columns in `fields`, or if no other delimiter splits more rows
        uniformly.

        Returns:
            The adapted format and the column names. The names are None for an empty file.

        Raises:
            InputError: If the file or its header cannot be read.
            OpenQuote: If a quote is never closed.
        """
        if sign := self._read_stated_delimiter(path):
            return replace(self, delimiter=sign, other_delimiters="", rows_above=1)._fit_to_file(path)
        return self._fit_to_file(path)

    def _fit_to_file(self, path: Path) -> tuple["TextTable", list[str] | None]:
        """Adapt the format to a file whose first line does not declare a delimiter.

        Returns:
            The adapted format and the column names. The names are None for an empty file.

        Raises:
            InputError: If the file or its header cannot be read.
            OpenQuote: If a quote is never closed.
        """
        usual = self._read_first_rows(path)
        if not usual:
            return self._with_settled_fields([]), None
        names = with_text(self.fields).values()
        named = all(set(usual[0]) & ({name} if isinstance(name, str) else set(name)) for name in names)
        if named and (len(usual[0]) > 1 or not self.other_delimiters):
            return self._with_settled_fields(usual[0]), usual[0]
        tables = [(self, usual)]
        for sign in (*self.other_delimiters, *(NO_DELIMITER if self.other_delimiters else "")):
            with suppress(InputError, OpenQuote):
                table = replace(self, delimiter=sign)
                tables.append((table, table._read_first_rows(path)))
        table, rows = max(tables[:-1] or tables, key=lambda each: _score_split(each[1]))
        lines = tables[-1][1]
        if self.other_delimiters and not _score_split(rows)[0] and (len(rows[0]) == 1 or is_data(lines[0], lines[1:])):
            table, rows = tables[-1]  # one column, of lines that hold signs
        if not is_data(rows[0], rows[1:]):
            return table._with_settled_fields(rows[0]), rows[0]
        columns = [f"column {number}" for number in range(1, len(rows[0]) + 1)]
        return replace(table, has_names=False)._with_settled_fields(columns), columns

    def _read_stated_delimiter(self, path: Path) -> str:
        """Return the delimiter declared in a file's first line, such as `sep=;`; "" if it declares none.

        Raises:
            InputError: If the file cannot be read.
        """
        with open_lines(path, find_line_encoding(path, self.encoding)) as stream, explain_damage(path):
            match = STATED_DELIMITER.fullmatch(stream.readline(MAX_STATED_BYTES).removeprefix(codecs.BOM_UTF8))
        return match[1].decode() if match else ""

    def _with_settled_fields(self, columns: list[str]) -> "TextTable":
        """Return a copy in which each of `fields` has only one name: its first name that is a column of the table."""
        return replace(self, fields=choose_names(self.fields, columns.__contains__))

    def iter_rows(self, path: Path, columns: list[str]) -> Iterator[dict[str, Any] | None]:
        """Yield the fields of each row after the header by column name, or None for a row that cannot be parsed.

        Args:
            path: Path of the file. The format must have been adapted to it.
            columns: The column names, as returned by `fit_to_file`.

        Raises:
            InputError: During iteration, if the file cannot be read.
            OpenQuote: During iteration, if a quote is never closed.
        """
        with open_lines(path, find_line_encoding(path, self.encoding)) as stream, explain_damage(path):
            cut = self._read_rows(stream, 0, None, len(columns))
            rows = (row for row in cut if row.data is not None and row.data.strip())
            for row in islice(rows, self.rows_above + self.has_names, None):
                try:
                    yield name_fields(columns, self._parse_fields(row))
                except BadRecord:
                    yield None

    def _read_records(
        self, stream: BufferedIOBase, piece: Slice, columns: list[str], tally: Tally, recoded: bool
    ) -> Iterator[Record]:
        """Yield the records of the rows that begin in a slice, without the header, and count them in the tally.

        Args:
            stream: The file's content.
            piece: The slice.
            columns: The column names.
            tally: Counts the records.
            recoded: True if the content was converted to UTF-8. It is then read to its end.
        """
        rows = self._read_rows(stream, piece.start, None if recoded else find_stop(piece), len(columns))
        if piece.start == 0:
            skipped = (row for row in rows if row.data is None or row.data.strip())
            rows = islice(skipped, self.rows_above + self.has_names, None)
        for row in iter_nonblank_lines(rows, tally):
            yield self._build_record(row, columns, piece.file, tally, recoded)

    def _read_rows(self, stream: BufferedIOBase, start: int, stop: int | None, columns: int = 0) -> Iterator[Line]:
        """Yield the rows of a table, each with its position.

        Args:
            stream: The table's content.
            start: Byte offset in the content. Without quotes, a row that begins before it is skipped.
            stop: Without quotes, the byte offset at which to stop; None for the end. With quotes, all rows are yielded.
            columns: The number of columns, used to recognize rows joined by an unpaired quote; 0 if unknown.
        """
        if not self.quote:
            return read_lines(stream, start, stop, self.max_record_bytes)
        return read_rows(stream, self.max_record_bytes, self.delimiter, self.quote, columns)

    def _read_first_rows(self, path: Path) -> list[list[str]]:
        """Return the fields of each of a file's first rows, beginning with the column names; [] for an empty file.

        The fields of a row that cannot be parsed are [].

        Raises:
            InputError: If the file or its first row cannot be read.
            OpenQuote: If a quote is never closed.
        """
        try:
            first = self._read_sample(path, SAMPLE_ROWS)
        except OpenQuote:
            one = replace(self, quote="") if self.delimiter == "\t" else self  # whose quotes end in their lines
            header = self._parse_header(one._read_sample(path, 1)[0], path)
            first = self._read_sample(path, SAMPLE_ROWS, max(1, len(header)))
        fields = [self._parse_header(row, path) for row in first[:1]]
        for row in first[1:]:
            try:
                fields.append(self._parse_fields(row) if row.data is not None else [])
            except BadRecord:
                fields.append([])
        return fields

    def _parse_header(self, row: Line, path: Path) -> list[str]:
        """Return the fields of a file's first row; [] if it is too long.

        Raises:
            InputError: If the row cannot be decoded or parsed. The message names the file at `path`.
        """
        try:
            return self._parse_fields(row) if row.data is not None else []
        except BadRecord as error:
            raise InputError(f"{path}: its header cannot be read: {error}. Fix it, or set `encoding`.") from error

    def _read_sample(self, path: Path, max_rows: int, columns: int = 0) -> list[Line]:
        """Return the first nonblank rows of a file, from the header row on. At most one megabyte is searched.

        Args:
            path: Path of the file.
            max_rows: Maximum number of rows.
            columns: The number of columns, used to recognize rows joined by an unpaired quote; 0 if unknown.

        Raises:
            InputError: If the file cannot be read.
            OpenQuote: If a quote is never closed.
        """
        with open_lines(path, find_line_encoding(path, self.encoding)) as stream, explain_damage(path):
            rows = (row for row in self._read_rows(stream, 0, None, columns) if row.data is None or row.data.strip())
            return list(islice(_take_first(rows, SAMPLE_BYTES), self.rows_above, self.rows_above + max_rows))

    def _check_named(self, columns: list[str], path: Path) -> None:
        """Check that each column named in `fields` exists exactly once in `columns`.

        Raises:
            InputError: If one does not. The message names the file at `path`.
        """
        for name, names in self.fields.items():
            if columns.count(str(names)) != 1:
                problem = "twice" if names in columns else "not"
                raise InputError(
                    f"{path} names the column {names!r} {problem}, but {', '.join(columns)[:500]}. "
                    f"{describe_remedy(name)}, set `delimiter` or `quote` to what the file has, or give it a first "
                    "row of names."
                )

    def _parse_fields(self, row: Line) -> list[str]:
        """Return the fields of a row as strings.

        Raises:
            BadRecord: If the row cannot be decoded or parsed.
        """
        return parse_row(decode(row.data or b"", self.encoding, row.offset), self.delimiter, self.quote)

    def _build_record(self, row: Line, columns: list[str], file: RawFile, tally: Tally, recoded: bool) -> Record:
        """Build the record of a table's row. A row that is too long or cannot be parsed yields a dropped record.

        Args:
            row: The row.
            columns: The column names.
            file: The file that contains the row.
            tally: Knows which records crashed earlier and must be skipped.
            recoded: True if the file was converted to UTF-8, so that offsets are relative to the converted content.
        """
        locator = build_locator(file, row.offset, row.length, recoded)
        if row.data is None:
            return drop_too_large(locator, self.max_record_bytes)
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=row.data.strip(), drop=drop)
        try:
            values = name_fields(columns, self._parse_fields(row))
            given = {key: value or None for key, value in values.items()}
            text = str(self.fields["text"])
            given_fields = find_fields({**given, text: values[text]}, self.fields)
        except BadRecord as error:
            return drop_damaged(locator, row.data.strip(), error)
        return build_record(locator, row.data.strip(), given_fields)


def _take_first(rows: Iterator[Line], size: int) -> Iterator[Line]:
    """Yield the rows that begin in the first `size` bytes of the file."""
    for row in rows:
        if row.offset > size:
            return
        yield row


def _score_split(rows: Sequence[Sequence[str]]) -> tuple[bool, int, int]:
    """Score how well a delimiter splits the first rows of a table into fields. A greater tuple is better.

    Args:
        rows: The fields of the first rows, split at the delimiter.

    Returns:
        True if the first row has several fields and at least half of the others have the same number of fields; the
        number of these rows; the number of fields of the first row.
    """
    columns = len(rows[0]) if rows else 0
    alike = sum(len(row) == columns for row in rows[1:])
    return columns > 1 and 2 * alike >= len(rows) - 1, alike if columns > 1 else 0, columns


def is_data(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row of a table is data, not a header.

    This is the case if it contains a sentence, or a number in a column in which the other rows have numbers, too.

    >>> is_data(["1", "great film"], [["2", "a bore"]]), is_data(["id", "text"], [["2", "a bore"]])
    (True, False)
    >>> is_data(["", "0", "1"], [["a", "5", "7"]]), is_data(["city", "2019"], [["Ulm", "5"]])
    (False, False)
    """
    cells = [cell.strip() for cell in first]
    if not all(cells) or max(Counter(cells).values(), default=0) > 1 == len(set(cells)):
        return False
    if any(
        len(cell) > MAX_NAME_CHARACTERS or len(cell.split()) >= MIN_SENTENCE_WORDS or SENTENCE.search(cell)
        for cell in cells
    ):
        return True
    numbers = [at for at, cell in enumerate(cells) if NUMBER.fullmatch(cell)]
    counted_up = [str(number) for number in range(len(cells))], [str(number + 1) for number in range(len(cells))]
    years = all(cells[at].isdecimal() and int(cells[at]) in YEARS for at in numbers)
    if not numbers or years or cells in counted_up:
        return False
    return any(len(row) > at and NUMBER.fullmatch(row[at].strip()) for row in others for at in numbers)
