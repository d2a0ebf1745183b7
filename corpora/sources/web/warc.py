"""WARC archives, record by record: cut out of the bytes by their lengths, each parsed by itself.

Promises: every record of an archive is given out in the file's order with its place. If a length does not fit, the
record is faulty if it is the only one in its gzip member, as crawlers write them; otherwise the archive is refused. A
file that is cut off inside a record is noticed wherever it is cut. Heads (a first line, then fields up to a blank line)
are read as WARC records and HTTP responses have them: lines may end in CR LF or LF, a line that begins with a space or
tab continues the field before it, a line without a colon is ignored, the case of a field's name does not matter, and a
head without a blank line ends with its bytes. Costs: what decompression costs, and little more; less than 0.1 ms for a
head of fifteen fields. Memory: one record of at most `max_bytes`.

Source: ISO 28500, WARC 1.0 and 1.1 (iipc.github.io/warc-specifications); RFC 9112, section 2.1.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from corpora.sources.bytes.faults import BadRecord, DamagedBytes
from corpora.sources.bytes.packed_stream import PIECE_BYTES
from corpora.sources.bytes.warc_members import (
    RECORD_START,
    START_LINE,
    WarcMember,
    find_next_member,
    find_packing,
    is_member_start,
    iter_members,
)
from corpora.sources.contract import Tally

MAX_FIELDS_BYTES = 1 << 15
BLANKS = b" \t\n\x0c\r"
# What windows-1252, which senders mean by Latin-1, has where that has control characters.
WINDOWS_1252 = {
    at: bytes((at,)).decode("cp1252") for at in range(0x80, 0xA0) if at not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}


class Head(NamedTuple):
    """A parsed head of a WARC record or an HTTP response.

    Attributes:
        first_line: The first line, stripped of white space.
        fields: (name, value) of each field, in file order, with the original case.
        size_bytes: Length of the head in bytes, including its blank line.
    """

    first_line: bytes
    fields: list[tuple[bytes, bytes]]
    size_bytes: int

    def get_values(self, name: bytes) -> list[bytes]:
        """Return the values of all fields with a name, in order; [] if there are none.

        Args:
            name: Name of the field in lower case.
        """
        return [value for key, value in self.fields if key.lower() == name]

    def get_first(self, name: bytes) -> bytes:
        """Return the value of the first field with a name; b"" if there is none.

        Args:
            name: Name of the field in lower case.
        """
        return next((value for key, value in self.fields if key.lower() == name), b"")


def read_head(data: bytes) -> Head:
    r"""Parse the head (first line and fields, up to a blank line) at the beginning of `data`.

    Raises:
        BadRecord: If the head is longer than 32 KiB.

    >>> read_head(b"HTTP/1.1 200 OK\r\nServer: a\r\n b\r\n\r\n<html>")
    Head(first_line=b'HTTP/1.1 200 OK', fields=[(b'Server', b'a b')], size_bytes=34)
    """
    lines, size_bytes = _split_head(data)
    fields: list[tuple[bytes, bytes]] = []
    for line in lines[1:]:
        if line.startswith((b" ", b"\t")):
            name, value = fields.pop() if fields else (b"", None)
            more = line.strip(BLANKS)
            fields.append((name, more if value is None else value + b" " + more))
        elif b":" in line:
            name, _, value = line.partition(b":")
            fields.append((name.strip(BLANKS), value.strip(BLANKS)))
    return Head(lines[0].strip(BLANKS) if lines else b"", fields, size_bytes)


def decode_western(value: bytes) -> str:
    """Decode the value of an HTTP field as windows-1252.

    It never fails: the five bytes that windows-1252 does not define become control characters, as in browsers.
    """
    return value.decode("latin-1").translate(WINDOWS_1252)


def _split_head(data: bytes) -> tuple[list[bytes], int]:
    """Return the lines before the first blank line, and the number of bytes including the blank line.

    Raises:
        BadRecord: If they are longer than 32 KiB.
    """
    lines: list[bytes] = []
    at = 0
    while at < len(data):
        end = data.find(b"\n", at, MAX_FIELDS_BYTES) + 1 or len(data)
        if end > MAX_FIELDS_BYTES:
            raise BadRecord("Maximum header length exceeded.")
        line, at = data[at:end].removesuffix(b"\n").removesuffix(b"\r"), end
        if not line.strip(BLANKS):
            break
        lines.append(line)
    return lines, at


MAX_HEAD_BYTES = 1 << 16
HEAD_ENDS = (b"\n\r\n", b"\n\n")
LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
VERSION = re.compile(rb"WARC/(?:1\.[01]|0\..{0,2})", re.DOTALL)
UNIQUE_FIELDS = (b"WARC-Type", b"Content-Type", b"Content-Length")
BLOCK_BYTES = re.compile(rb"\+?[0-9]{1,18}")
DATE = re.compile(r"([12]\d{3})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?)?)?Z?", re.ASCII)

FIRST_ZONE_OFFSET = timedelta(hours=14)


class CutRecord(NamedTuple):
    """The bytes of one WARC record, without the blank lines after it, and their position.

    Attributes:
        stream: Offset of the record's gzip member in the file; -1 in a plain archive.
        offset: First byte of the record, relative to the decompressed member or the plain file.
        length: Number of bytes.
        data: The bytes; only the first few if the record is too long or faulty.
        fault: "" if the record has the declared length, else a description of the fault.
        num_starts: Number of lines that look like the beginning of a record: 1 for a normal record, more if the page
            quotes such lines, and 0 if no record begins here.
    """

    stream: int
    offset: int
    length: int
    data: bytes
    fault: str = ""
    num_starts: int = 1

    @property
    def is_whole(self) -> bool:
        """True if `data` contains the whole record."""
        return len(self.data) == self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class WarcHead:
    """The interpreted fields of a WARC record's head.

    Attributes:
        kind: The type of the record in lower case: warcinfo, response, request, ...
        url: The URL; "" if there is none.
        crawl_day: Day of the crawl in UTC, YYYY-MM-DD.
        last_day: Day of the crawl in the easternmost time zone (UTC+14). No page can have a later date.
        revision: Time of the crawl as a number, YYYYMMDDHHMMSS.
        media_type: Media type of the block; "" if not given.
        truncated: The reason why the crawler truncated the block; "" if it is whole.
    """

    kind: str
    url: str
    crawl_day: str
    last_day: str
    revision: int
    media_type: str
    truncated: str


def read_archive(path: Path, start: int, stop: int, max_bytes: int, tally: Tally) -> Iterator[CutRecord]:
    """Yield the WARC records of a slice of an archive: those in gzip members that begin in the slice.

    A plain archive is read whole.

    The tally counts the lines that look like the beginning of a record, except those inside a record, in the
    decompressed bytes. A record that is skipped or yielded twice is therefore noticed.

    Args:
        path: The archive.
        start: Zero, or an offset at which the archive was cut. Reading begins with the first member at or after it.
        stop: First byte after the slice.
        max_bytes: Maximum length of a record's block. A longer record is yielded with only the beginning of its data.
        tally: Counts the records.

    Raises:
        DamagedBytes: During iteration, if the archive is damaged, or cannot be cut at `stop`.
    """
    is_gzip = find_packing(path) == "gz"
    end = find_next_member(path, start, stop) if start else 0
    if end is None:
        return
    for member in iter_members(path, end, stop):
        num_counted = 0
        for record in _MemberCutter(member, max_bytes).cut_records():
            tally.records += member.num_starts - num_counted - (record.num_starts - 1)
            num_counted = member.num_starts
            yield record
        tally.records += member.num_starts - num_counted
        end = member.end
    if is_gzip and stop < path.stat().st_size:
        _check_cut(path, end, stop)


def inspect_first_member(path: Path) -> tuple[bool, bool]:
    """Return whether an archive begins with a WARC record, and whether its first gzip member is exactly one record.

    At most 256 kB are read, because the first record of an archive is usually a short description of the crawl.

    Raises:
        DamagedBytes: If the member cannot be decompressed.
    """
    for member in iter_members(path, 0, 1):
        reader = io.BufferedReader(member)
        head = reader.read(PIECE_BYTES)
        is_alone = find_packing(path) == "gz" and member.num_starts == 1 and not reader.read(1)
        return head.startswith(RECORD_START), is_alone
    return False, False


def _check_cut(path: Path, end: int, stop: int) -> None:
    """Check that the first gzip member at or after `stop` begins where the last member of this slice ends.

    If no member begins where the last one ends, there must be none at or after `stop`.

    Args:
        path: The archive.
        end: First byte after the slice's last member.
        stop: First byte after the slice.

    Raises:
        DamagedBytes: If it does not.
    """
    expected = end if end >= stop and is_member_start(path, end) else None
    actual = find_next_member(path, stop)
    if actual != expected:
        raise DamagedBytes(
            f"it cannot be cut near byte {stop}, for a record there holds an archive or is damaged",
            end,
            remedy="Set `split = false` for this source, and if that does not help get the file again.",
        )


def read_record(path: Path, stream: int, offset: int, length: int) -> bytes:
    """Read the bytes of a record from an archive. Fewer than `length` bytes are returned if the archive ends early.

    Args:
        path: The archive.
        stream: Offset of the record's gzip member in the file; -1 in a plain archive.
        offset: First byte to read, relative to the decompressed member or the plain file.
        length: Number of bytes to read.

    Raises:
        DamagedBytes: If the member cannot be decompressed.
    """
    with path.open("rb") as file:
        if stream < 0:
            file.seek(offset)
            return file.read(length)
        reader = io.BufferedReader(WarcMember(file, stream, find_packing(path)))
        while offset and (skipped := reader.read(min(offset, PIECE_BYTES))):
            offset -= len(skipped)
        return reader.read(length)


class _MemberCutter:
    """Cuts one gzip member, or a plain archive, into its records."""

    def __init__(self, member: WarcMember, max_bytes: int) -> None:
        self.member, self.max_bytes = member, max_bytes
        self.reader = io.BufferedReader(member, MAX_HEAD_BYTES)
        self.offset = 0  # of the byte that is read next
        self.num_starts = 0  # lines read that begin like a record's head
        self._tail = b"\n"

    def cut_records(self) -> Iterator[CutRecord]:
        """Yield the records of this member, up to its end.

        Raises:
            DamagedBytes: During iteration, if a record is faulty and is not the only one in the member.
        """
        num_records = num_starts = 0
        while line := self._read_first_line():
            record = self._cut_record(line)
            record = record._replace(num_starts=self.num_starts - num_starts)
            if record.fault and (self.member.stream < 0 or num_records or record.num_starts > 1):
                raise DamagedBytes(f"the record at byte {record.offset}{self._locate()} {record.fault}", record.offset)
            num_records, num_starts = num_records + 1, self.num_starts
            yield record

    def _locate(self) -> str:
        """Return a phrase for error messages that names the gzip member, such as " of the member at byte 12".

        Return "" for a plain archive.
        """
        return "" if self.member.stream < 0 else f" of the member at byte {self.member.stream}"

    def _read_first_line(self) -> bytes:
        """Read the first line of the next record, skipping blank lines; b"" at the end of the member."""
        while (line := self._read_line()) and not line.strip(b"\r\n"):
            pass
        return line

    def _cut_record(self, line: bytes) -> CutRecord:
        """Cut the record whose first line, `line`, was just read. A faulty record includes the rest of the member."""
        start = self.offset - len(line)
        if not line.startswith(RECORD_START):
            return self._build_faulty_record(start, line, "does not begin as a record does")
        head = line + self._read_rest_of_head()
        length = LENGTH.search(head)
        if length is None or not head.endswith(HEAD_ENDS):
            return self._build_faulty_record(start, head, "has a head without end or Content-Length")
        block_bytes = int(length[1])
        stop = self.offset + block_bytes
        data = head + self._read(block_bytes if block_bytes <= self.max_bytes else min(block_bytes - 1, MAX_HEAD_BYTES))
        self._skip_to(stop)
        if self.offset < stop:
            return self._build_faulty_record(start, data, "ends before its Content-Length")
        if self.reader.peek(1)[:1].strip(b"\r\n"):
            return self._build_faulty_record(start, data, "goes on after its Content-Length")
        return CutRecord(self.member.stream, start, stop - start, data)

    def _read_rest_of_head(self) -> bytes:
        """Return the lines up to and including the first blank line, or about 64 kB if there is none before."""
        head = b""
        while len(head) < MAX_HEAD_BYTES and (line := self._read_line()):
            head += line
            if not line.strip(b"\r\n"):
                break
        return head

    def _build_faulty_record(self, start: int, data: bytes, fault: str) -> CutRecord:
        """Build a faulty record from the rest of the member, because the start of the next record is unknown.

        Args:
            start: Offset of the record's first byte.
            data: Its bytes that were already read.
            fault: What is wrong, such as "ends before its Content-Length".
        """
        self._skip_to(None)
        return CutRecord(self.member.stream, start, self.offset - start, data[:MAX_HEAD_BYTES], fault)

    def _skip_to(self, stop: int | None) -> None:
        """Read and discard bytes up to the offset `stop`, or up to the member's end if it is None."""
        while self._read(PIECE_BYTES if stop is None else min(PIECE_BYTES, stop - self.offset)):
            pass

    def _read_line(self) -> bytes:
        """Return the next line with its line break; b"" at the end of the member.

        Lines that begin a record are counted.
        """
        return self._count_starts(self.reader.readline(MAX_HEAD_BYTES))

    def _read(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end of the member. Lines that begin a record are counted."""
        return self._count_starts(self.reader.read(size))

    def _count_starts(self, data: bytes) -> bytes:
        """Count the lines in `data` that begin a record, advance `offset` by its length, and return it unchanged."""
        seen = self._tail + data
        self.num_starts += seen.count(START_LINE)
        self._tail = seen[-len(RECORD_START) :]
        self.offset += len(data)
        return data


class ParsedRecord(NamedTuple):
    """A parsed record: its head, and the block after it."""

    head: Head
    block: bytes


def parse_record(data: bytes) -> ParsedRecord:
    """Split a WARC record's bytes into its head and block, and parse the head.

    The block is cut to the length that the head declares; it is shorter if the data ends early.

    Raises:
        BadRecord: If the head is too long, or has an unknown version.
    """
    try:
        head = read_head(data)
        if not VERSION.fullmatch(head.first_line):
            raise BadRecord("No WARC record found")
    except BadRecord as error:
        raise BadRecord(f"its head cannot be read: {error}") from error
    return ParsedRecord(head, data[head.size_bytes :][: _find_block_bytes(head)])


def _find_block_bytes(head: Head) -> int:
    """Return the block length declared in a head; 0 if it is missing or declared more than once."""
    fields = [(name, value) for name, value in head.fields if name in UNIQUE_FIELDS][: len(UNIQUE_FIELDS)]
    length = BLOCK_BYTES.fullmatch(dict(fields).get(b"Content-Length", b""))
    return int(length[0]) if length else 0


def parse_warc_head(head: Head) -> WarcHead:
    """Interpret the fields of a WARC record's head.

    A date may be less precise than a second (WARC 1.1). It then means the first second of that year, month or day.

    Raises:
        BadRecord: If the date is invalid or missing.
    """
    moment = _parse_moment(_get_text(head, b"warc-date"))
    return WarcHead(
        kind=_get_text(head, b"warc-type").lower(),
        url=_get_text(head, b"warc-target-uri").strip("<> \t"),
        crawl_day=moment.date().isoformat(),
        last_day=(moment + FIRST_ZONE_OFFSET).date().isoformat(),
        revision=int(re.sub(r"\D", "", moment.isoformat())),
        media_type=to_media_type(_get_text(head, b"content-type")),
        truncated=_get_text(head, b"warc-truncated"),
    )


def _get_text(head: Head, name: bytes) -> str:
    """Return the first value of the field `name` (in lower case) as a string; "" if the field is missing."""
    return head.get_first(name).decode(errors="replace")


def _parse_moment(date: str) -> datetime:
    """Parse a WARC date in UTC, such as "2019-11" or "2019-11-20T10:00:00Z", and return the first moment it covers.

    Raises:
        BadRecord: If the date is invalid.
    """
    match = DATE.fullmatch(date)
    if match is None:
        raise BadRecord(f"its WARC-Date is no date: {date[:40]!r}")
    year, month, day, hour, minute, second = (int(field) if field else None for field in match.groups())
    try:
        return datetime(year or 0, month or 1, day or 1, hour or 0, minute or 0, second or 0)
    except ValueError as error:
        raise BadRecord(f"its WARC-Date is no date: {date[:40]!r}") from error


def to_media_type(content_type: str) -> str:
    """Return the media type of a Content-Type value: in lower case, without parameters.

    >>> to_media_type("Text/HTML; charset=utf-8")
    'text/html'
    """
    return content_type.partition(";")[0].strip().lower()
