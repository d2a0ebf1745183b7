"""Excel's `.xlsx` to rows: the values that its reader sees, sheet after sheet.

Formulas have the value that Excel kept of them, numbers with a format of dates become dates in ISO 8601, errors such as
`#N/A` are empty. The first row that fills over half of the columns names them; what is above it is a title. A name over
merged columns names each of them, with the name below it if the row below has one for each. Hidden columns and
readings above words are left out; hidden rows, and those of hidden sheets, say so.

Promises: those of `package.py`; rows are streamed. Cost: about 8 MB of XML a second. Memory: the texts that sheets
share, in UTF-8, and a row of at most `max_row` characters.
"""

import json
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

from corpora.sources.bytes.faults import BadRecord
from corpora.sources.files.office.package import MAX_DEPTH, Handler, LargeDocument, Package, find_relation_id

MAIN_PART = "xl/workbook.xml"
HEAD_ROWS = 20  # looked at for the one that names the columns
MAX_COLUMNS = 16_384  # of a sheet, by Excel's own bound
MAX_ROWS = 1 << 20
DATE_FORMATS = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
NOT_OF_A_FORMAT = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
OF_A_DURATION = re.compile(r"\[[hms]+\]", re.I)
REFERENCE = re.compile(r"([A-Za-z]{1,3})(\d{1,7})")
ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
EPOCH, EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
YES, NO_SIZE = ("1", "true"), ("0", "0.0")
MAX_DAYS = 2_958_466  # 9999-12-31


class SheetRow(NamedTuple):
    """A row of a sheet.

    Attributes:
        sheet: One-based number of the sheet in the workbook.
        number: One-based number of the row in the sheet.
        values: The values by column name; None if the row is too large.
        is_hidden: True if the row or its sheet is hidden.
    """

    sheet: int
    number: int
    values: dict[str, Any] | None
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Worksheet:
    """A sheet of a workbook.

    Attributes:
        number: One-based number of the sheet in the workbook.
        name: Name of the sheet.
        columns: The column names, each of them unique.
        rows: The rows after the header rows.
    """

    number: int
    name: str
    columns: list[str]
    rows: Iterator[SheetRow]


def read_sheets(package: Package, max_row: int) -> Iterator[Worksheet]:
    """Yield the sheets of a workbook in order. Each sheet must be read before the next one is requested.

    Args:
        package: The open workbook.
        max_row: Maximum number of characters in a row. The `values` of a longer row are None.

    Raises:
        BadRecord: During iteration, if the workbook is damaged.
        LockedDocument: During iteration, if a part of it is encrypted.
        LargeDocument: During iteration, if more is decompressed than allowed.
    """
    main = package.find_main_part(MAIN_PART)
    book, related = _Workbook(), package.list_related(main)
    package.parse(main, book)
    parts = dict(related.values())
    shared, styles = _SharedTexts(package.bytes_left // 2), _Styles()
    package.parse(parts.get("sharedStrings", ""), shared, needed=False)
    package.parse(parts.get("styles", ""), styles, needed=False)
    read_value = _ValueReader(shared, styles.dates, EPOCH_1904 if book.from_1904 else EPOCH)
    for number, (name, id, is_hidden) in enumerate(book.sheets, 1):
        kind, part = related.get(id, ("", ""))
        if kind == "worksheet":
            yield _build_sheet(number, name, _iter_raw_rows(package, part, _RowReader(read_value, max_row, is_hidden)))


def _iter_raw_rows(package: Package, part: str, rows: "_RowReader") -> Iterator["_RawRow"]:
    """Yield the nonempty rows of a sheet, in order.

    Args:
        package: The open workbook.
        part: Name of the sheet's part in the package.
        rows: A new handler, with which the part is parsed.

    Raises:
        BadRecord: During iteration, if the sheet is damaged.
        LockedDocument: During iteration, if the sheet is encrypted.
        LargeDocument: During iteration, if more is decompressed than allowed.
    """
    for _ in package.iter_parse_steps(part, rows):
        yield from rows.complete
        rows.complete.clear()


def _build_sheet(number: int, name: str, rows: Iterator["_RawRow"]) -> Worksheet:
    """Build a sheet from its one-based number, its name and its nonempty rows.

    The names of the columns are in the header row: the first of the first 20 rows that has more than half as many cells
    as the fullest of them, sometimes together with the row below it (see `_name_columns`). Rows before it are omitted.
    A column without a name is called "column 3", for example.
    """
    head = []
    for row in rows:
        head.append(row)
        if len(head) == HEAD_ROWS:
            break
    most = max((len(row.cells) for row in head if row.cells), default=0)
    at = next((at for at, row in enumerate(head) if row.cells and len(row.cells) > most / 2), 0)
    names, used = _name_columns([row.cells for row in head[at : at + 2] if row.cells])

    def records() -> Iterator[SheetRow]:
        for row in chain(head[at + used :], rows):
            yield _build_row(number, row, names)

    return Worksheet(number, name, list(names.values()), records())


def _name_columns(head: list[dict[int, Any]]) -> tuple[dict[int, str], int]:
    """Return the column names by column index, and the number of header rows that they are taken from.

    Args:
        head: The cells, by column index, of the first row that may name columns and of the row below it.

    >>> _name_columns([{0: "id", 1: "text"}, {0: 7, 1: "a"}])
    ({0: 'id', 1: 'text'}, 1)
    >>> _name_columns([{0: "id", 1: "contact"}, {1: "name", 2: "mail"}])
    ({0: 'id', 1: 'contact name', 2: 'contact mail'}, 2)
    """
    if not head:
        return {}, 0
    top = {column: " ".join(str(value).split()) for column, value in head[0].items()}
    below = head[1] if len(head) > 1 else {}
    last = max([*top, *below])
    whole = {column: _find_left_name(top, column) for column in range(last + 1)}
    merged = {column for column in range(last + 1) if column not in top or column + 1 not in {*top, last + 1}}
    two = merged == set(below) and all(isinstance(value, str) for value in below.values()) and len(merged) > 1
    if two:
        whole = {column: f"{name} {below[column]}" if column in below else name for column, name in whole.items()}
    names: dict[int, str] = {}
    for column, name in whole.items():
        if two or column <= max(top):
            names[column] = _make_unique(name or "column", set(names.values()))
    return names, 1 + two


def _find_left_name(top: dict[int, str], column: int) -> str:
    """Return the name at a column index or, if there is none, at the nearest index to its left; "" if there is none."""
    return next((top[at] for at in range(column, -1, -1) if at in top), "")


def _make_unique(name: str, used: set[str]) -> str:
    """Return a name that is not in `used`: the name itself, or the name and the lowest possible number from 2 on."""
    if name not in used:
        return name
    return next(f"{name} {number}" for number in range(2, MAX_COLUMNS + 2) if f"{name} {number}" not in used)


def _build_row(sheet: int, row: "_RawRow", names: dict[int, str]) -> SheetRow:
    """Build the row of a sheet, with its values by column name.

    Args:
        sheet: One-based number of the sheet.
        row: The row as read from XML.
        names: Column names by column index. A column without a name is called "column 3", for example.
    """
    if row.cells is None:
        return SheetRow(sheet, row.number, None, row.is_hidden)
    values = {names.get(at, f"column {at + 1}"): value for at, value in sorted(row.cells.items())}
    return SheetRow(sheet, row.number, values, row.is_hidden)


def to_row_json(row: SheetRow) -> bytes:
    """Return the values of a sheet's row as one line of UTF-8 JSON. The record's id is computed from it."""
    return json.dumps(row.values, ensure_ascii=False).encode(errors="backslashreplace")


class _Workbook(Handler):
    """Collects the sheets of a workbook and its date system.

    Attributes:
        sheets: For each sheet, in order: (name, relationship id, True if hidden).
        from_1904: True if days are counted from 1904 instead of 1900.
    """

    def __init__(self) -> None:
        self.sheets: list[tuple[str, str, bool]] = []
        self.from_1904 = False

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        if name == "sheet":
            is_hidden = attributes.get("state", "visible") != "visible"
            self.sheets.append((attributes.get("name", ""), find_relation_id(attributes), is_hidden))
        elif name == "workbookPr":
            self.from_1904 = attributes.get("date1904") in ("1", "true")


class _Styles(Handler):
    """Collects which cell styles are date formats: `dates` has one bool per cell style."""

    def __init__(self) -> None:
        self.dates: list[bool] = []
        self._codes: dict[str, str] = {}
        self._in_cells = False

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        if name == "numFmt":
            self._codes[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif name == "cellXfs":
            self._in_cells = True
        elif name == "xf" and self._in_cells:
            id = attributes.get("numFmtId", "0")
            code = self._codes.get(id)
            self.dates.append(is_date_format(code) if code is not None else id.isdecimal() and int(id) in DATE_FORMATS)

    def end(self, tag: str) -> None:
        self._in_cells = self._in_cells and not tag.endswith(" cellXfs")


def is_date_format(code: str) -> bool:
    """Return True if a number format displays a date or a time of day.

    >>> [is_date_format(code) for code in ("yyyy\\\\-mm", "0.00", "[Red]#,##0", '0" days"', "[h]:mm", "h:mm")]
    [True, False, False, False, False, True]
    """
    plain = NOT_OF_A_FORMAT.sub("", code.partition(";")[0]).lower()
    return not OF_A_DURATION.search(code) and plain != "general" and bool(set(plain) & set("ymdhs"))


class _SharedTexts(Handler):
    """Collects the shared strings of a workbook in one buffer.

    Raises LargeDocument if they exceed `max_bytes` bytes.
    """

    def __init__(self, max_bytes: int) -> None:
        self._bytes, self._ends, self._max_bytes = bytearray(), array("Q", [0]), max_bytes
        self._in_text, self._passing = False, 0

    def __getitem__(self, number: int) -> str:
        if not 0 <= number < len(self._ends) - 1:
            raise BadRecord(f"a cell has the shared text {number}, and there are {len(self._ends) - 1}")
        return ESCAPED.sub(_unescape, self._bytes[self._ends[number] : self._ends[number + 1]].decode())

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        self._passing += name == "rPh"  # how a text is pronounced
        self._in_text = name == "t"

    def end(self, tag: str) -> None:
        self._in_text = False
        name = tag.rpartition(" ")[2]
        self._passing -= name == "rPh"
        if name == "si":
            self._ends.append(len(self._bytes))

    def add_text(self, data: str) -> None:
        if self._in_text and not self._passing:
            self._bytes += data.encode()
            if len(self._bytes) > self._max_bytes:
                raise LargeDocument(f"its shared texts have over {self._max_bytes} bytes")


def _unescape(match: "re.Match[str]") -> str:
    """Return the character that a match of Excel's escape `_x0041_` stands for.

    Return "" for a control character other than a tab or line break, and the escape itself for half of a surrogate
    pair.
    """
    character = chr(int(match[1], 16))
    if "\ud800" <= character < "\ue000":
        return match[0]
    return character if character >= " " or character in "\t\n" else ""


@dataclass(frozen=True, slots=True)
class _ValueReader:
    """Converts the type, style and text of a cell to a value, when called.

    Attributes:
        shared: The shared strings of the workbook.
        dates: One bool per cell style: True if it is a date format.
        epoch: The day with the number 0.
    """

    shared: _SharedTexts
    dates: list[bool]
    epoch: datetime

    def __call__(self, kind: str, style: str, text: str) -> Any:
        """Return the value of a cell as a string, number or boolean; None for an empty cell or an error value.

        Args:
            kind: The cell's type in the XML, such as "s" for a shared string.
            style: The cell's style, as the string of an index.
            text: The text of the cell.

        Raises:
            BadRecord: If the cell refers to a shared string that does not exist.
        """
        if kind == "s":
            return self.shared[_parse_index(text)] or None
        if kind in ("str", "inlineStr", "d"):
            return ESCAPED.sub(_unescape, text) or None
        if kind == "e" or not text.strip():
            return None
        if kind == "b":
            return text.strip() in ("1", "true")
        try:
            number = float(text)
        except ValueError:
            return text
        if style.isdecimal() and int(style) < len(self.dates) and self.dates[int(style)] and 0 <= number < MAX_DAYS:
            return self._to_date(number)
        return int(number) if number.is_integer() and abs(number) < 1e15 else number if abs(number) < 1e308 else text

    def _to_date(self, days: float) -> str:
        """Convert a day number to an ISO 8601 date, time of day (below 1), or both (if it has a fraction).

        Excel also counts February 29, 1900, which did not exist. The conversion takes this into account.
        """
        shift = 1 if self.epoch is EPOCH and 1 <= days < 60 else 0
        moment = self.epoch + timedelta(days=int(days) + shift, seconds=round(days % 1 * 86_400))
        if days < 1:
            return moment.time().isoformat()
        return moment.isoformat() if moment.time().isoformat() != "00:00:00" else moment.date().isoformat()


def _parse_index(text: str) -> int:
    """Parse the index of a shared string from the text of a cell.

    Raises:
        BadRecord: If the cell's text is not an integer.
    """
    try:
        return int(text)
    except ValueError as error:
        raise BadRecord(f"a cell has no number of a shared text, but {text[:20]!r}") from error


class _RawRow(NamedTuple):
    """A row as read from XML.

    Attributes:
        number: One-based number of the row in the sheet.
        cells: The values by zero-based column index, without hidden columns; None if the row is too large.
        is_hidden: True if the row, its sheet, or all of its cells are hidden.
    """

    number: int
    cells: dict[int, Any] | None
    is_hidden: bool


@dataclass(slots=True)
class _RowReader(Handler):
    """Collects the completed rows of a sheet in `complete`. The caller takes them from there and empties it.

    Attributes:
        read_value: Converts the type, style and text of a cell to a value.
        max_characters: A row with more characters is too large.
        hidden: True if the sheet is hidden.
        complete: The rows completed since the list was last emptied.
    """

    read_value: Callable[[str, str, str], Any]
    max_characters: int
    hidden: bool
    complete: list[_RawRow] = field(default_factory=list)
    _hidden_columns: set[int] = field(default_factory=set)
    _hidden_row: bool = False
    _hides_cells: bool = False
    _cells: dict[int, Any] = field(default_factory=dict)
    _number: int = 0
    _column: int = -1
    _kind: str = ""
    _style: str = ""
    _text: list[str] = field(default_factory=list)
    _size: int = 0
    _in_value: bool = False
    _passing: int = 0
    _depth: int = 0

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadRecord(f"elements are nested over {MAX_DEPTH} deep")
        if name == "row":
            given = attributes.get("r", "")
            self._number = max(self._number + 1, int(given) if given.isdecimal() and len(given) < 8 else 0)
            self._cells, self._column, self._size = {}, -1, 0
            self._hides_cells = False
            self._hidden_row = self.hidden or _is_hidden(attributes, "ht")
        elif name == "col" and _is_hidden(attributes, "width"):
            self._hidden_columns.update(range(_read_place(attributes, "min") - 1, _read_place(attributes, "max")))
        elif name == "c":
            place = REFERENCE.fullmatch(attributes.get("r", ""))
            self._column = _parse_column(place[1]) if place else self._column + 1
            self._kind, self._style, self._text = attributes.get("t", "n"), attributes.get("s", ""), []
        self._passing += name == "rPh"
        self._in_value = name in ("v", "t") and not self._passing

    def end(self, tag: str) -> None:
        name = tag.rpartition(" ")[2]
        self._in_value = False
        self._depth -= 1
        self._passing -= name == "rPh"
        if name == "c" and self._size <= self.max_characters:
            value = self.read_value(self._kind, self._style, "".join(self._text))
            self._size += len(value) if self._kind == "s" and value else 0
            if value is not None and self._column in self._hidden_columns:
                self._hides_cells = True
            elif value is not None and 0 <= self._column < MAX_COLUMNS:
                self._cells[self._column] = value
        elif name == "row" and (self._cells or self._hides_cells or self._size > self.max_characters):
            cells = self._cells if self._size <= self.max_characters else None
            is_hidden = self._hidden_row or (self._hides_cells and not self._cells)
            self.complete.append(_RawRow(self._number, cells, is_hidden))

    def add_text(self, data: str) -> None:
        if self._in_value:
            self._size += len(data)
            if self._size <= self.max_characters:
                self._text.append(data)


def _is_hidden(attributes: dict[str, str], size: str) -> bool:
    """Return True if a row or column is hidden by its XML attributes, or if its `size` ("ht" or "width") is zero."""
    return attributes.get("hidden") in YES or attributes.get(size) in NO_SIZE


def _read_place(attributes: dict[str, str], name: str) -> int:
    """Return the one-based column number in the attribute `name`, at most Excel's limit, or 0 if there is none."""
    given = attributes.get(name, "")
    return min(int(given), MAX_COLUMNS) if given.isdecimal() and len(given) < 8 else 0


def _parse_column(letters: str) -> int:
    """Convert column letters to a zero-based column index.

    >>> _parse_column("A"), _parse_column("AB")
    (0, 27)
    """
    place = 0
    for letter in letters.upper():
        place = 26 * place + ord(letter) - ord("A") + 1
    return place - 1
