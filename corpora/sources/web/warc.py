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
        first_line: The first line without white space around it.
        fields: (name, value) of each field, in order, as they are written.
        size_bytes: Number of bytes of the head, including its blank line.
    """

    first_line: bytes
    fields: list[tuple[bytes, bytes]]
    size_bytes: int

    def get_values(self, name: bytes) -> list[bytes]:
        """Return all values of a field, in order.

        Args:
            name: Name of the field in lower case.
        """
        return [value for key, value in self.fields if key.lower() == name]

    def get_first(self, name: bytes) -> bytes:
        """Return the first value of a field; b"" if there is none.

        Args:
            name: Name of the field in lower case.
        """
        return next((value for key, value in self.fields if key.lower() == name), b"")


def read_head(data: bytes) -> Head:
    r"""Parse the head at the beginning of `data`.

    Raises:
        BadRecord: If it is longer than 32 KiB.

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
    """Decode the value of an HTTP field, each byte as a character of windows-1252."""
    return value.decode("latin-1").translate(WINDOWS_1252)


def _split_head(data: bytes) -> tuple[list[bytes], int]:
    """Return the lines before the first blank line, and the number of bytes up to and including that."""
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
    """The bytes of one record, without the blank lines after it, and where they are.

    Attributes:
        stream: First byte of its gzip member in the file; -1 in a plain archive.
        offset: First byte of the record, relative to the decompressed member or the plain file.
        length: Number of bytes.
        data: The bytes; only the first ones if the record is too long or faulty.
        fault: "" for a record that is as long as it says, else what is wrong with it.
        num_starts: Number of lines that begin like a record's head. It is one, or more if a page shows such lines, or
            zero if no record begins.
    """

    stream: int
    offset: int
    length: int
    data: bytes
    fault: str = ""
    num_starts: int = 1

    @property
    def is_whole(self) -> bool:
        """True if `data` holds all of the record."""
        return len(self.data) == self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class WarcHead:
    """What a WARC record's head says.

    Attributes:
        kind: The type of the record in lower case: warcinfo, response, request, ...
        url: The address; "" if there is none.
        crawl_day: Day of the crawl in UTC, YYYY-MM-DD.
        last_day: The day it was then in the first time zone (UTC+14). No page is dated later.
        revision: The second of the crawl as a number, YYYYMMDDHHMMSS.
        media_type: Media type of the block; "" if it is not given.
        truncated: Why the crawler cut the block off; "" for a whole one.
    """

    kind: str
    url: str
    crawl_day: str
    last_day: str
    revision: int
    media_type: str
    truncated: str


def read_archive(path: Path, start: int, stop: int, max_bytes: int, tally: Tally) -> Iterator[CutRecord]:
    """Yield the records with a gzip member that begins in bytes `start` to `stop` of an archive.

    A plain archive is read whole.

    The tally counts, in the decompressed bytes, the lines that begin like a record's head, except those inside a
    record. So a record that is missed or given out twice is noticed.

    Args:
        path: The archive.
        start: Zero, or an offset at which a slice was cut: reading begins with the first member from there on.
        stop: First byte after the slice.
        max_bytes: A record with a longer block is yielded with only the beginning of its data.
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
    """Return (True if an archive begins with a record, True if its first gzip member is exactly one record).

    Reads at most 256 kB: crawlers begin with a record about themselves. Raises DamagedBytes.
    """
    for member in iter_members(path, 0, 1):
        reader = io.BufferedReader(member)
        head = reader.read(PIECE_BYTES)
        is_alone = find_packing(path) == "gz" and member.num_starts == 1 and not reader.read(1)
        return head.startswith(RECORD_START), is_alone
    return False, False


def _check_cut(path: Path, end: int, stop: int) -> None:
    """Raise DamagedBytes unless the next slice begins at the end of this one's last member, or is empty."""
    expected = end if end >= stop and is_member_start(path, end) else None
    actual = find_next_member(path, stop)
    if actual != expected:
        raise DamagedBytes(
            f"it cannot be cut near byte {stop}, for a record there holds an archive or is damaged",
            end,
            remedy="Set `split = false` for this source, and if that does not help get the file again.",
        )


def read_record(path: Path, stream: int, offset: int, length: int) -> bytes:
    """Read `length` bytes from `offset` of the decompressed member at byte `stream` (-1: of the plain file).

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
    """Cuts one gzip member into its records."""

    def __init__(self, member: WarcMember, max_bytes: int) -> None:
        self.member, self.max_bytes = member, max_bytes
        self.reader = io.BufferedReader(member, MAX_HEAD_BYTES)
        self.offset = 0  # of the byte that is read next
        self.num_starts = 0  # lines read that begin like a record's head
        self._tail = b"\n"

    def cut_records(self) -> Iterator[CutRecord]:
        """Yield the records up to the member's end.

        Raises:
            DamagedBytes: For a faulty record that is not the only one of its member.
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
        return "" if self.member.stream < 0 else f" of the member at byte {self.member.stream}"

    def _read_first_line(self) -> bytes:
        """Read the first line of the next record, skipping blank lines; b"" at the end."""
        while (line := self._read_line()) and not line.strip(b"\r\n"):
            pass
        return line

    def _cut_record(self, line: bytes) -> CutRecord:
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
        """Read the lines up to the first blank one."""
        head = b""
        while len(head) < MAX_HEAD_BYTES and (line := self._read_line()):
            head += line
            if not line.strip(b"\r\n"):
                break
        return head

    def _build_faulty_record(self, start: int, data: bytes, fault: str) -> CutRecord:
        """Build a faulty record from the rest of the member, because the beginning of the next record is not known."""
        self._skip_to(None)
        return CutRecord(self.member.stream, start, self.offset - start, data[:MAX_HEAD_BYTES], fault)

    def _skip_to(self, stop: int | None) -> None:
        """Read up to a byte offset, or if it is None to the member's end, and discard the bytes."""
        while self._read(PIECE_BYTES if stop is None else min(PIECE_BYTES, stop - self.offset)):
            pass

    def _read_line(self) -> bytes:
        return self._count_starts(self.reader.readline(MAX_HEAD_BYTES))

    def _read(self, size: int) -> bytes:
        return self._count_starts(self.reader.read(size))

    def _count_starts(self, data: bytes) -> bytes:
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
    """Parse a record's bytes.

    Raises:
        BadRecord: If the head is too long, or of an unknown version.
    """
    try:
        head = read_head(data)
        if not VERSION.fullmatch(head.first_line):
            raise BadRecord("No WARC record found")
    except BadRecord as error:
        raise BadRecord(f"its head cannot be read: {error}") from error
    return ParsedRecord(head, data[head.size_bytes :][: _find_block_bytes(head)])


def _find_block_bytes(head: Head) -> int:
    """Return the length that a head gives for its block; 0 if it gives none, or repeats the fields that define it."""
    fields = [(name, value) for name, value in head.fields if name in UNIQUE_FIELDS][: len(UNIQUE_FIELDS)]
    length = BLOCK_BYTES.fullmatch(dict(fields).get(b"Content-Length", b""))
    return int(length[0]) if length else 0


def parse_warc_head(head: Head) -> WarcHead:
    """Interpret the fields of a record's head.

    A date may be less exact than a second (WARC 1.1): it means the first second of its year, month or day.

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
    """Return the first value of a field as text; "" if there is none."""
    return head.get_first(name).decode(errors="replace")


def _parse_moment(date: str) -> datetime:
    match = DATE.fullmatch(date)
    if match is None:
        raise BadRecord(f"its WARC-Date is no date: {date[:40]!r}")
    year, month, day, hour, minute, second = (int(field) if field else None for field in match.groups())
    try:
        return datetime(year or 0, month or 1, day or 1, hour or 0, minute or 0, second or 0)
    except ValueError as error:
        raise BadRecord(f"its WARC-Date is no date: {date[:40]!r}") from error


def to_media_type(content_type: str) -> str:
    """Return a media type in lower case without its parameters.

    >>> to_media_type("Text/HTML; charset=utf-8")
    'text/html'
    """
    return content_type.partition(";")[0].strip().lower()
