"""Tables of text: rows of RFC 4180, in which a quoted field may hold line ends, delimiters and doubled quotes.

Promises: rows are cut out of the bytes before any is parsed, by a kernel that its plain twin agrees with; a quote opens
a field only where the field begins. A row of any length is passed over in bounded memory. A lone quote costs no row:
what it joins, up to the next quote or to the file's end, is read line by line if most of the lines are rows of the
table. If they are not, a quote that is never closed is refused, with the byte of its row: the file is cut off there;
between tabs, where quotes are rare, it is a character.
Costs: measured in `source.py`. Memory: one row and a piece of 256 kB.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import BufferedIOBase
from typing import Any

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.bytes.raw_files import Line

PIECE_BYTES = 1 << 18
STEP_BYTES = 1 << 12  # that are read again after a row that was none
RUN_LINES = 100  # by which a row that is too large is known to be none
MOSTLY, CUT_LINES = 0.75, 3  # of lines that are rows; of a file that is cut off, at most so many lines seem to be rows
FIELD_START, PLAIN, QUOTED, QUOTE_SEEN = range(4)  # where in a row the byte before this one left us


class OpenQuote(ValueError):
    """A quote is not closed by the end of the file. `offset`: the first byte of its row."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"a quote in the row at byte {offset} is never closed")
        self.offset = offset


def row_ends_plain(data: bytes, state: int, delimiter: int, quote: int) -> tuple[list[int], int]:
    """The places after the line ends that end a row, and the state after the last byte.

    >>> row_ends_plain(b'a,"b\\nc"\\nd', FIELD_START, ord(","), ord('"'))
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
def row_ends(data: Bytes, state: int, delimiter: int, quote: int) -> tuple[Int64s, int]:
    """The twin of `row_ends_plain`."""
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
    """The rows of a table from its beginning, after a byte order mark of UTF-8. Raises OpenQuote.

    A row of more than `max_bytes` is passed over and never in memory.
    columns: of the table, by which a row is known that a lone quote has joined; 0: every row is as its quotes say
    """
    pieces = iter(lambda: stream.read(PIECE_BYTES), b"")
    first = next(pieces, b"")
    offset = len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0
    shape, state, length = _Shape(delimiter, quote, columns), FIELD_START, 0
    held, again, found_joined = list[memoryview](), [memoryview(first)[offset:]], False
    while data := again.pop() if again else memoryview(next(pieces, b"")):
        ends, state = row_ends(np.frombuffer(data, np.uint8), state, ord(delimiter), ord(quote))
        begin = 0
        for end in ends.tolist():
            length += end - begin
            raw = b"".join([*held, data[begin:end]])
            row = _row(offset, raw, length, max_bytes)
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
            *lines, last = _lines(offset, joined)
            yield from lines
            again.append(memoryview(joined)[last.offset - offset :])  # its quote may begin a field as it should
            offset, state, length, held = last.offset, FIELD_START, 0, []
    if state == QUOTED:
        raw = b"".join(held)
        if not (found_joined or (columns and delimiter == "\t") or shape.is_joined_to_the_end(raw)):
            raise OpenQuote(offset)
        yield from _lines(offset, raw)
    elif length:
        yield _row(offset, b"".join(held), length, max_bytes)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the rows of a table look like: by it rows are known that a lone quote has joined to one."""

    delimiter: str
    quote: str
    columns: int

    def is_joined(self, data: bytes) -> bool:
        """Return True if a row of several lines is no row, and most of its lines are one each.

        A row between tabs whose lines are all rows is joined, too: a text that a quote is around has no such lines.
        """
        full = data.count(b"\n") - data.count(b"\n\n") - data.count(b"\n\r\n")
        if not full or data.count(self.delimiter.encode()) < MOSTLY * full * (self.columns - 1) or not self.columns:
            return False  # as nearly every text of several lines in quotes
        first, *others = data.split(b"\n")
        if not self._are_rows(others):
            return False
        return not self._is_row(data) or (
            self.delimiter == "\t" and self.columns > 1 and all(map(self._is_row, (first, *others)))
        )

    def is_run(self, data: bytes) -> bool:
        """Return True if what a quote has opened is many lines, all of them rows, before it is too large for one."""
        lines = data.split(b"\n")[1:-1]
        return self.columns > 2 - (self.delimiter == "\t") and len(lines) > RUN_LINES and all(map(self._is_row, lines))

    def is_joined_to_the_end(self, data: bytes) -> bool:
        """Return True if most lines of what a quote has opened are rows: else the file is cut off in a field."""
        lines = data.split(b"\n")
        return self.columns > 1 and len(lines) > CUT_LINES and self._are_rows(lines[1:])

    def _are_rows(self, lines: list[bytes]) -> bool:
        full = [line for line in lines if line.strip()]
        sign, needed = self.delimiter.encode(), MOSTLY * max(1, len(full))
        fitting = [line for line in full if line.count(sign) >= self.columns - 1]
        return len(fitting) >= needed and sum(map(self._is_row, fitting)) >= needed

    def _is_row(self, data: bytes) -> bool:
        try:
            return len(parse_row(data.decode("latin-1"), self.delimiter, self.quote)) == self.columns
        except BadRecord:
            return False


def _lines(offset: int, raw: bytes) -> list[Line]:
    """The lines of a row that is none, each a row."""
    lines = []
    for line in raw.split(b"\n") if not raw.endswith(b"\n") else raw[:-1].split(b"\n"):
        text = line.removesuffix(b"\r")
        lines.append(Line(offset, len(text), text))
        offset += len(line) + 1
    return lines


def _row(offset: int, data: bytes, length: int, max_bytes: int) -> Line:
    text = data.removesuffix(b"\n").removesuffix(b"\r")
    if len(data) < length or len(text) > max_bytes:
        return Line(offset, length, None)
    return Line(offset, len(text), text)


def parse_row(row: str, delimiter: str, quote: str) -> list[str]:
    r"""The fields of a row without its end. quote: "" where there is none. Raises BadRecord.

    A quote that is not closed is a character like others: what it would take in is rows of their own. So are quotes
    that are not around a whole field, unless they may have joined lines.

    >>> parse_row('a,"b, ""c""\nd",5" pipe,', ",", '"'), parse_row('a,"b,c', ",", '"')
    (['a', 'b, "c"\nd', '5" pipe', ''], ['a', '"b', 'c'])
    >>> parse_row('"a" b,c', ",", '"')
    ['"a" b', 'c']
    """
    if not quote or quote not in row:
        return row.split(delimiter)
    pattern = _field_pattern(delimiter, quote)
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
def _field_pattern(delimiter: str, quote: str) -> "re.Pattern[str]":
    d, q = re.escape(delimiter), re.escape(quote)
    quoted = f"{q}(?P<quoted>[^{q}]*+(?:{q}{q}[^{q}]*+)*+){q}"
    return re.compile(f"(?:{quoted}|(?!{q})(?P<plain>[^{d}]*+))(?P<end>{d}|\\Z)")


def by_name(header: list[str], row: list[str]) -> dict[str, Any]:
    """A row's fields by their columns' names. Raises BadRecord where there are more or fewer than columns."""
    if len(row) != len(header):
        raise BadRecord(f"{len(row)} fields where the header names {len(header)}")
    return dict(zip(header, row, strict=True))
