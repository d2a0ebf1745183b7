"""Tables of text: rows of RFC 4180, in which a quoted field may hold line ends, delimiters and doubled quotes.

Promises: rows are cut out of the bytes before any is parsed, by a kernel that its plain twin agrees with; a quote opens
a field only where the field begins. A row of any length is passed over in bounded memory. A quote that is
never closed would take the rest of the file for one field, so it is refused, with the byte of its row.
Costs: measured in `source.py`. Memory: one row and a piece of 256 kB.
"""

import codecs
import re
from collections.abc import Iterator
from functools import cache
from io import BufferedIOBase
from itertools import chain
from typing import Any

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s
from corpora.kernels.compiling import kernel
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.bytes.raw_files import Line

PIECE_BYTES = 1 << 18
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


def read_rows(stream: BufferedIOBase, max_bytes: int, delimiter: str, quote: str) -> Iterator[Line]:
    """The rows of a table from its beginning, after a byte order mark of UTF-8. Raises OpenQuote.

    A row of more than `max_bytes` is passed over and never in memory.
    """
    pieces = iter(lambda: stream.read(PIECE_BYTES), b"")
    first = next(pieces, b"")
    begin = len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0
    state, offset, length = FIELD_START, begin, 0
    held: list[bytes] = []
    for data in chain([first[begin:]], pieces):
        ends, state = row_ends(np.frombuffer(data, np.uint8), state, ord(delimiter), ord(quote))
        begin = 0
        for end in ends.tolist():
            yield _row(offset, [*held, data[begin:end]], length + end - begin, max_bytes)
            offset += length + end - begin
            held, length, begin = [], 0, end
        length += len(data) - begin
        held = [*held, data[begin:]] if length <= max_bytes + 2 else []
    if state == QUOTED:
        raise OpenQuote(offset)
    if length:
        yield _row(offset, held, length, max_bytes)


def _row(offset: int, pieces: list[bytes], length: int, max_bytes: int) -> Line:
    data = b"".join(pieces)
    text = data.removesuffix(b"\n").removesuffix(b"\r")
    if len(data) < length or len(text) > max_bytes:
        return Line(offset, length, None)
    return Line(offset, len(text), text)


def parse_row(row: str, delimiter: str, quote: str) -> list[str]:
    r"""The fields of a row without its end. quote: "" where there is none. Raises BadRecord.

    >>> parse_row('a,"b, ""c""\nd",5" pipe,', ",", '"')
    ['a', 'b, "c"\nd', '5" pipe', '']
    """
    if not quote or quote not in row:
        return row.split(delimiter)
    pattern = _field_pattern(delimiter, quote)
    fields: list[str] = []
    at = 0
    while True:
        match = pattern.match(row, at)
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
