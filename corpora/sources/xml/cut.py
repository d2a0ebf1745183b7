"""Records cut out of the bytes of an XML file, before any parser sees them.

Promises: a record's bytes are known exactly, and damage in it stays in it. Tags in comments and CDATA sections are not
taken for records. What is before the first record is never parsed, so no entity of a DTD is ever expanded. If there are
two starts without an end between them, the first is a record without an end; records do not nest. Costs: measured in
`source.py`. Memory: one record of at most `max_bytes`, and a piece of 256 kB.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

PIECE_BYTES = 1 << 18
MAX_TAG_BYTES = 1 << 20
MAX_HEAD_BYTES = 1 << 20
NAME = rb"[A-Za-z_][\w.:-]*"
ENCODING = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<\?xml\s[^>]*?encoding\s*=\s*[\"']([\w.:-]+)")
NAMESPACE = re.compile(rb"\sxmlns:([\w.-]+)\s*=\s*(\"[^\"<]*\"|'[^'<]*')")
COLON = ord(":")
SECTION_ENDS = {b"<!--": b"-->", b"<![CDATA[": b"]]>"}
SECTION_START = re.compile(b"|".join(map(re.escape, SECTION_ENDS)))


class CutElement(NamedTuple):
    """The bytes from a record's start tag to its end tag.

    Attributes:
        name: Name of the element, without its namespace prefix.
        offset: First byte, relative to the decompressed file.
        length: Number of bytes.
        data: The bytes; b"" if the record is too large.
        fault: "" for a whole record, else "no end", "no start" or "too large".
    """

    name: str
    offset: int
    length: int
    data: bytes
    fault: str = ""


class RecordCutter:
    """Cuts the elements with certain names out of a file that is fed in consecutive chunks of bytes.

    Args:
        names: Names of the elements that are records, without namespace prefix.
        max_bytes: A longer record is yielded without its data.

    Attributes:
        head: The bytes before the first record, at most 1 MiB of them.
        root: Name of the file's first element, with its namespace prefix; b"" if none has been seen yet.
        open_start: Offset at which the current record begins; None between records. If it is not None after the last
            chunk, the file ends inside a record.
        is_closed: True once the root element's end tag has been seen after the last record.
        num_records: Number of records so far.
    """

    def __init__(self, names: tuple[str, ...], max_bytes: int) -> None:
        names_pattern = b"|".join(re.escape(name.encode()) for name in names)
        self._tag = re.compile(
            rb"<!--|<!\[CDATA\[|<(?P<end>/?)(?:[\w.-]+:)?(?P<name>" + names_pattern + rb")(?=[ \t\r\n/>])[^<>]*>",
            re.DOTALL,
        )
        self._needles = (*SECTION_ENDS, *(sign + name.encode() for name in names for sign in (b"<", b"</", b":")))
        self.max_bytes = max_bytes
        self.head = b""
        self.root = b""
        self.open_start: int | None = None
        self.is_closed = False
        self.num_records = 0
        self._name = ""
        self._section_end = b""  # what ends the comment or CDATA section that we are in
        self._tail = b""  # bytes in which no tag can be recognized yet
        self._tail_start = 0  # position of the tail's first byte
        self._kept: list[bytes] = []  # the record begun, but for what is still in the tail; empty if it is too large
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[CutElement]:
        """Yield the XML records that end in `piece`, the next chunk of the file.

        A record that ends in the last few bytes of the chunk may be yielded by the next call. Iterate to the end before
        feeding the next chunk.
        """
        data = self._tail + piece
        yield from self._cut_records(data, _find_safe_length(data))

    def finish(self) -> Iterator[CutElement]:
        """Yield the XML records that end in the last bytes of the file. Call this after the last chunk."""
        yield from self._cut_records(self._tail, len(self._tail))

    def _cut_records(self, data: bytes, stop: int) -> Iterator[CutElement]:
        """Yield the records that end in the first `stop` bytes of `data`. Keep the other bytes for later."""
        start_of_rest = at = 0
        positions = {needle: data.find(needle, 0, stop) for needle in self._needles}
        while at < stop:
            if self._section_end:
                end = data.find(self._section_end, at, stop)
                at = stop if end < 0 else end + len(self._section_end)
                self._section_end = self._section_end if end < 0 else b""
                continue
            match = self._find_tag(data, at, stop, positions)
            if match is None:
                break
            at = match.end()
            if match["name"] is None:
                self._section_end = SECTION_ENDS[match[0]]
                continue
            yield from self._handle_tag(data, start_of_rest, match)
            start_of_rest = match.end() if match["end"] or match[0].endswith(b"/>") else match.start()
        self._add_bytes(data[start_of_rest:stop])
        self._tail, self._tail_start = data[stop:], self._tail_start + stop

    def _find_tag(self, data: bytes, at: int, stop: int, positions: dict[bytes, int]) -> "re.Match[bytes] | None":
        """Return the next match of a record's tag, a comment or a CDATA section; None if there is none before `stop`.

        The pattern can match only at a few fixed strings. Searching for these first is ten times faster.

        Args:
            data: The bytes.
            at: Offset at which the search begins.
            stop: End of the search.
            positions: Maps each search string to the offset at which it was last found, or -1 if it does not occur.
                Updated in place.
        """
        while True:
            for needle, position in positions.items():
                if 0 <= position < at:
                    positions[needle] = data.find(needle, at, stop)
            position = min((position for position in positions.values() if position >= at), default=-1)
            if position < 0:
                return None
            start = position if data[position] != COLON else max(data.rfind(b"<", at, position), at)
            match = self._tag.match(data, start, stop)
            if match is not None:
                return match
            at = position + 1

    def _handle_tag(self, data: bytes, start_of_rest: int, match: "re.Match[bytes]") -> Iterator[CutElement]:
        """Yield the records that end at a start or end tag.

        Args:
            data: The bytes being processed.
            start_of_rest: Index of the first byte in `data` that has not been added to a record yet.
            match: A match of the tag in `data`.
        """
        start, stop = self._tail_start + match.start(), self._tail_start + match.end()
        name = match["name"].decode()
        if match["end"]:
            self._add_bytes(data[start_of_rest : match.end()])
            if self.open_start is None:
                yield CutElement(name, start, stop - start, match[0], "no start")
            else:
                yield self._end_record(stop, "" if name == self._name else "no end")
            return
        self._add_bytes(data[start_of_rest : match.start()])
        if self.open_start is not None:
            yield self._end_record(start, "no end")
        self.open_start, self._name, self.is_closed = start, name, False
        if match[0].endswith(b"/>"):
            self._add_bytes(match[0])
            yield self._end_record(stop, "")

    def _add_bytes(self, data: bytes) -> None:
        """Add bytes to the current record, or to the data outside records."""
        if self.open_start is not None:
            self._size += len(data)
            self._kept = [*self._kept, data] if self._size <= self.max_bytes else []
            return
        if not self.num_records and len(self.head) < MAX_HEAD_BYTES:
            self.head += data[: MAX_HEAD_BYTES - len(self.head)]
            if not self.root and (root := find_root_name(self.head)):
                self.root, data = root, self.head[self.head.find(b"<" + root) :]
        self.is_closed = self.is_closed or (bool(self.root) and b"</" + self.root in data)

    def _end_record(self, stop: int, fault: str) -> CutElement:
        """Return the current record, which ends before byte `stop` of the file, and prepare for the next record."""
        assert self.open_start is not None, "a record ends that has not begun"
        data, start = b"".join(self._kept), self.open_start
        self.open_start, self._kept, self._size = None, [], 0
        self.num_records += 1
        if stop - start > self.max_bytes:
            return CutElement(self._name, start, stop - start, b"", fault or "too large")
        return CutElement(self._name, start, stop - start, data, fault)


def _find_safe_length(data: bytes) -> int:
    """Return the number of bytes of a chunk that can be searched without splitting a tag or the end of a comment."""
    last = data.rfind(b"<")
    if last > data.rfind(b">") and len(data) - last <= MAX_TAG_BYTES:
        return last
    return max(data.rfind(b">") + 1, len(data) - 2)


class RecordCounter:
    """Counts the start tags of records in consecutive chunks by plain search, independently of `RecordCutter`.

    Args:
        name: Name of the element that is a record, without namespace prefix.
    """

    def __init__(self, name: str) -> None:
        self._starts = (b"<" + name.encode(), b":" + name.encode())
        self._tail = b""
        self._section_end = b""  # what ends the comment or CDATA section that we are in

    def feed(self, piece: bytes) -> int:
        """Return the number of start tags in `piece`, the next chunk of the file.

        Tags in comments and CDATA sections are not counted.
        """
        data = self._tail + piece
        stop = _find_safe_length(data)
        self._tail = data[stop:]
        return self._count(data[:stop])

    def finish(self) -> int:
        """Return the number of start tags in the last bytes of the file. Call this after the last chunk."""
        return self._count(self._tail)

    def _count(self, data: bytes) -> int:
        """Count the start tags in the next bytes, `data`, outside comments and CDATA sections."""
        if self._section_end or any(opening in data for opening in SECTION_ENDS):
            data = b"<>".join(self._iter_outside(data))  # so that no tag continues after a comment in it
        return sum(self._count_one(data, start) for start in self._starts)

    def _iter_outside(self, data: bytes) -> Iterator[bytes]:
        """Yield the bytes outside comments and CDATA sections. These cannot be nested.

        A comment may begin in one call and end in a later one.
        """
        at = 0
        while at < len(data):
            if self._section_end:
                end = data.find(self._section_end, at)
                at = len(data) if end < 0 else end + len(self._section_end)
                self._section_end = self._section_end if end < 0 else b""
                continue
            match = SECTION_START.search(data, at)
            yield data[at : match.start() if match else len(data)]
            at, self._section_end = (match.end(), SECTION_ENDS[match[0]]) if match else (len(data), b"")

    def _count_one(self, data: bytes, start: bytes) -> int:
        """Count the complete tags in `data` that begin with `start`, which is "<NAME" or ":NAME"."""
        count, at = 0, data.find(start)
        while at >= 0:
            after = data[at + len(start) : at + len(start) + 1]
            prefix = data[data.rfind(b"<", 0, at) + 1 : at] if start[:1] == b":" else b"x"
            if after in (b" ", b"\t", b"\r", b"\n", b"/", b">") and re.fullmatch(rb"[\w.-]+", prefix) is not None:
                end = data.find(b">", at)
                count += end >= 0 and data.find(b"<", at + 1, end) < 0
            at = data.find(start, at + 1)
        return count


def find_root_name(head: bytes) -> bytes:
    """Return the name of an XML file's first element, with its namespace prefix; b"" if `head` has no element.

    >>> find_root_name(b'<?xml version="1.0"?><!DOCTYPE a [<!ELEMENT b ANY>]><!-- <c> --><a:d x="1">')
    b'a:d'
    """
    bare = re.sub(rb"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)", b"", head, flags=re.DOTALL)
    match = re.search(rb"<(" + NAME + rb")[ \t\r\n/>]", bare)
    return match[1] if match else b""


def find_encoding(head: bytes) -> str:
    """Return the encoding named in the XML declaration at the beginning of a file; "utf-8" if there is none.

    >>> find_encoding(b'<?xml version="1.0" encoding="ISO-8859-1"?>')
    'ISO-8859-1'
    """
    match = ENCODING.match(head)
    return match[1].decode() if match else "utf-8"


def find_namespaces(head: bytes) -> bytes:
    """Return the namespace declarations before the first record, in the form of attributes: b' xmlns:m="..."'.

    If a prefix is declared twice, the last declaration is used.
    """
    declared = {match[1]: match[2] for match in NAMESPACE.finditer(head)}
    return b"".join(b" xmlns:" + prefix + b"=" + address for prefix, address in declared.items())
