"""Records cut out of the bytes of an XML file, before any parser sees them.

Promises: a record's bytes are known exactly, and damage in it stays in it. Tags in comments and CDATA sections are not
taken for records. What is before the first record is never parsed, so no entity of a DTD is ever expanded. Of
two starts without an end between them the first is a record without an end; records do not nest.
Costs: measured in `source.py`. Memory: one record of at most `max_bytes`, and a piece of 256 kB.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

PIECE_BYTES = 1 << 18
MOST_TAG_BYTES = 1 << 20
MOST_HEAD_BYTES = 1 << 20
NAME = rb"[A-Za-z_][\w.:-]*"
ENCODING = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<\?xml\s[^>]*?encoding\s*=\s*[\"']([\w.:-]+)")
NAMESPACE = re.compile(rb"\sxmlns:([\w.-]+)\s*=\s*(\"[^\"<]*\"|'[^'<]*')")
COLON = ord(":")
OPENINGS = {b"<!--": b"-->", b"<![CDATA[": b"]]>"}
OPENING = re.compile(b"|".join(map(re.escape, OPENINGS)))


class CutElement(NamedTuple):
    """The bytes from a record's start tag to its end tag. name: of the element, without its prefix.

    fault: "" for a whole record; else why `data` is not one: "no end", "no start" or "too large" (then it is empty)
    """

    name: str
    offset: int
    length: int
    data: bytes
    fault: str = ""


class RecordCutter:
    """Cuts the elements of these names out of pieces that follow each other.

    After the last piece `open` tells where a record begins that has no end, `head` what is before the first one,
    `root` the name of the file's first element, and `closed` whether its end tag came by after the last record.
    """

    def __init__(self, names: tuple[str, ...], max_bytes: int) -> None:
        joined = b"|".join(re.escape(name.encode()) for name in names)
        self._tag = re.compile(
            rb"<!--|<!\[CDATA\[|<(?P<end>/?)(?:[\w.-]+:)?(?P<name>" + joined + rb")(?=[ \t\r\n/>])[^<>]*>", re.DOTALL
        )
        self._needles = (*OPENINGS, *(sign + name.encode() for name in names for sign in (b"<", b"</", b":")))
        self.max_bytes = max_bytes
        self.head = b""
        self.root = b""
        self.open: int | None = None
        self.closed = False
        self.num_records = 0
        self._name = ""
        self._until = b""  # what ends the comment or CDATA section that we are in
        self._tail = b""  # bytes in which no tag can be recognized yet
        self._at = 0  # position of the tail's first byte
        self._held: list[bytes] = []  # the record begun, but for what is still in the tail; empty if it is too large
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[CutElement]:
        """The records that end in this piece, but for what its end leaves open."""
        data = self._tail + piece
        yield from self._take(data, _safe_length(data))

    def finish(self) -> Iterator[CutElement]:
        """The records that end in the last bytes."""
        yield from self._take(self._tail, len(self._tail))

    def _take(self, data: bytes, stop: int) -> Iterator[CutElement]:
        done = at = 0
        places = {needle: data.find(needle, 0, stop) for needle in self._needles}
        while at < stop:
            if self._until:
                end = data.find(self._until, at, stop)
                at = stop if end < 0 else end + len(self._until)
                self._until = self._until if end < 0 else b""
                continue
            match = self._next_tag(data, at, stop, places)
            if match is None:
                break
            at = match.end()
            if match["name"] is None:
                self._until = OPENINGS[match[0]]
                continue
            yield from self._tag_found(data, done, match)
            done = match.end() if match["end"] or match[0].endswith(b"/>") else match.start()
        self._pass(data[done:stop])
        self._tail, self._at = data[stop:], self._at + stop

    def _next_tag(self, data: bytes, at: int, stop: int, places: dict[bytes, int]) -> "re.Match[bytes] | None":
        """The next match of `_tag`, which is only where one of the needles does.

        places: where each needle was found last, -1 for nowhere: plain search is ten times faster than the pattern's
        """
        while True:
            for needle, place in places.items():
                if 0 <= place < at:
                    places[needle] = data.find(needle, at, stop)
            place = min((place for place in places.values() if place >= at), default=-1)
            if place < 0:
                return None
            start = place if data[place] != COLON else max(data.rfind(b"<", at, place), at)
            match = self._tag.match(data, start, stop)
            if match is not None:
                return match
            at = place + 1

    def _tag_found(self, data: bytes, done: int, match: "re.Match[bytes]") -> Iterator[CutElement]:
        """Yield what a record's start or end tag makes of the bytes from `done` on."""
        start, stop = self._at + match.start(), self._at + match.end()
        name = match["name"].decode()
        if match["end"]:
            self._pass(data[done : match.end()])
            if self.open is None:
                yield CutElement(name, start, stop - start, match[0], "no start")
            else:
                yield self._cut(stop, "" if name == self._name else "no end")
            return
        self._pass(data[done : match.start()])
        if self.open is not None:
            yield self._cut(start, "no end")
        self.open, self._name, self.closed = start, name, False
        if match[0].endswith(b"/>"):
            self._pass(match[0])
            yield self._cut(stop, "")

    def _pass(self, data: bytes) -> None:
        """Bytes of the record begun, or of what is around records."""
        if self.open is not None:
            self._size += len(data)
            self._held = [*self._held, data] if self._size <= self.max_bytes else []
            return
        if not self.num_records and len(self.head) < MOST_HEAD_BYTES:
            self.head += data[: MOST_HEAD_BYTES - len(self.head)]
            if not self.root and (root := root_name(self.head)):
                self.root, data = root, self.head[self.head.find(b"<" + root) :]
        self.closed = self.closed or (bool(self.root) and b"</" + self.root in data)

    def _cut(self, stop: int, fault: str) -> CutElement:
        assert self.open is not None, "a record ends that has not begun"
        data, start = b"".join(self._held), self.open
        self.open, self._held, self._size = None, [], 0
        self.num_records += 1
        if stop - start > self.max_bytes:
            return CutElement(self._name, start, stop - start, b"", fault or "too large")
        return CutElement(self._name, start, stop - start, data, fault)


def _safe_length(data: bytes) -> int:
    """Return how many bytes can be searched for tags without cutting one, or the end of a comment, in two."""
    last = data.rfind(b"<")
    if last > data.rfind(b">") and len(data) - last <= MOST_TAG_BYTES:
        return last
    return max(data.rfind(b">") + 1, len(data) - 2)


class RecordCount:
    """Start tags of records counted as the bytes pass, by plain search: not the cutter's way."""

    def __init__(self, name: str) -> None:
        self._starts = (b"<" + name.encode(), b":" + name.encode())
        self._tail = b""
        self._until = b""  # what ends the comment or CDATA section that we are in

    def feed(self, piece: bytes) -> int:
        """Count the start tags recognized in this piece; those in comments and CDATA sections are left out."""
        data = self._tail + piece
        stop = _safe_length(data)
        self._tail = data[stop:]
        return self._count(data[:stop])

    def finish(self) -> int:
        """Those in the last bytes."""
        return self._count(self._tail)

    def _count(self, data: bytes) -> int:
        if self._until or any(opening in data for opening in OPENINGS):
            data = b"<>".join(self._outside(data))  # so that no tag continues after a comment in it
        return sum(self._count_one(data, start) for start in self._starts)

    def _outside(self, data: bytes) -> Iterator[bytes]:
        """Yield what is before, between and after comments and CDATA sections, of which none begins in another."""
        at = 0
        while at < len(data):
            if self._until:
                end = data.find(self._until, at)
                at = len(data) if end < 0 else end + len(self._until)
                self._until = self._until if end < 0 else b""
                continue
            match = OPENING.search(data, at)
            yield data[at : match.start() if match else len(data)]
            at, self._until = (match.end(), OPENINGS[match[0]]) if match else (len(data), b"")

    def _count_one(self, data: bytes, start: bytes) -> int:
        count, at = 0, data.find(start)
        while at >= 0:
            after = data[at + len(start) : at + len(start) + 1]
            prefix = data[data.rfind(b"<", 0, at) + 1 : at] if start[:1] == b":" else b"x"
            if after in (b" ", b"\t", b"\r", b"\n", b"/", b">") and re.fullmatch(rb"[\w.-]+", prefix) is not None:
                end = data.find(b">", at)
                count += end >= 0 and data.find(b"<", at + 1, end) < 0
            at = data.find(start, at + 1)
        return count


def root_name(head: bytes) -> bytes:
    """The name of the first element, as it is written; b"" if there is none yet.

    >>> root_name(b'<?xml version="1.0"?><!DOCTYPE a [<!ELEMENT b ANY>]><!-- <c> --><a:d x="1">')
    b'a:d'
    """
    bare = re.sub(rb"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)", b"", head, flags=re.DOTALL)
    match = re.search(rb"<(" + NAME + rb")[ \t\r\n/>]", bare)
    return match[1] if match else b""


def declared_encoding(head: bytes) -> str:
    """Return the encoding in the XML declaration; "utf-8" if it names none.

    >>> declared_encoding(b'<?xml version="1.0" encoding="ISO-8859-1"?>')
    'ISO-8859-1'
    """
    match = ENCODING.match(head)
    return match[1].decode() if match else "utf-8"


def namespaces(head: bytes) -> bytes:
    """The declarations of namespaces before the first record, as attributes; of two of one prefix the last."""
    declared = {match[1]: match[2] for match in NAMESPACE.finditer(head)}
    return b"".join(b" xmlns:" + prefix + b"=" + address for prefix, address in declared.items())
