"""MediaWiki's XML export, page by page: pages are cut out of the bytes, and each is parsed by itself.

Cutting needs no parser: in an export `<page>` and `</page>` occur only as tags (in texts they are escaped). So damage
in one page stays in that page, a page's bytes are known exactly, and memory is bounded by one page. Bytes can be cut
anywhere: a page belongs to the slice in which its `<page>` begins, so slices that are read separately give the same
records as slices read together. Export schemas 0.3 to 0.11 (mediawiki.org, Help:Export), UTF-8.

The module also reads the index of a multistream dump, which says which pages are in which bzip2 stream. A line of the
index is `offset:page id:title`; the offset is that of the stream's first byte, and about a hundred pages share one.
Costs: one pass of bzip2 and a split for each line. Memory: the distinct offsets.
"""

import bz2
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lxml import etree

from corpora.errors import InputError
from corpora.sources.bytes.bz2_streams import StreamPiece, is_stream_start
from corpora.sources.bytes.faults import READ_FAULTS, BadRecord
from corpora.sources.bytes.objects import open_for_library, parse_raw_path
from corpora.sources.contract import RawFile

PAGE_TAG = re.compile(rb"<(/?)page>")
END_TAG_BYTES = len(b"</page>")
MAX_HEAD_BYTES = 1 << 20
HIDDEN_NAMESPACES = (-2, 6, 14)  # Media, File and Category: links to their pages show nothing


class CutPage(NamedTuple):
    """The bytes from `<page>` to `</page>`, and their position.

    Attributes:
        stream: First byte of the compressed stream that contains the page; -1 in a plain file.
        offset: First byte of the page, relative to the decompressed stream.
        length: Number of bytes.
        data: The bytes; b"" if the page is too large.
        fault: "" for a complete page, else "no end", "no start" or "too large".
    """

    stream: int
    offset: int
    length: int
    data: bytes
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WikiPage:
    """A page of a MediaWiki export with its newest revision.

    Attributes:
        id: The page's id in its wiki.
        title: The title with its namespace, such as "Talk:Ayr".
        namespace: Number of the namespace; None in exports older than schema 0.6, which lack it.
        redirect: Title of the page that this one redirects to; None for other pages.
        revision: Id of the revision; None if not given.
        timestamp: Time of the revision in ISO 8601; None if not given.
        model: Content model, such as "wikitext".
        wikitext: The text of the revision.
    """

    id: int
    title: str
    namespace: int | None
    redirect: str | None
    revision: int | None
    timestamp: str | None
    model: str
    wikitext: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteInfo:
    """Information about a wiki from the head of its export.

    Attributes:
        base: URL of a page without the title; None if not given.
        namespaces: Maps names of namespaces to their numbers.
        has_root: True if the file has the tag `<mediawiki>`; excerpts of dumps may lack it.
        is_utf16: True if the file is encoded in UTF-16, which is rare.
        language: Language code that the export states for its pages.
    """

    base: str | None
    namespaces: dict[str, int]
    has_root: bool
    is_utf16: bool = False
    language: str = "en"

    @property
    def hidden_namespaces(self) -> frozenset[str]:
        """Lower-case names of the wiki's namespaces for files and categories. Links to them are not rendered."""
        return frozenset(name.lower() for name, number in self.namespaces.items() if number in HIDDEN_NAMESPACES)

    @property
    def wiki_code(self) -> str:
        """Language code in the wiki's URL ("fr" in fr.wikipedia.org), or else the language of the export."""
        host = re.match(
            r"(?:https?:)?//([a-z]{2,3}(?:-[a-z]+)*)\.(?:m\.)?wik[a-z]+\.org\b", self.base or "", re.IGNORECASE
        )
        return host[1].lower() if host else self.language

    def find_namespace(self, title: str) -> int:
        """Return the number of the namespace in a title's prefix; 0 (articles) if there is no known prefix."""
        return self.namespaces.get(title.partition(":")[0], 0) if ":" in title else 0


class PageCounter:
    """Counts `<page>` tags in consecutive chunks of bytes by plain search, independently of `PageCutter`."""

    def __init__(self) -> None:
        self._tail = b""

    def count_tags(self, data: bytes) -> int:
        """Return the number of `<page>` tags that end in `data`, the next chunk.

        A tag may begin in the previous chunk.
        """
        data = self._tail + data
        self._tail = data[-len(b"<page") :]
        return data.count(b"<page>")

    def count_begun_tag(self, data: bytes) -> int:
        """Return 1 if a `<page>` tag that began in the previous chunk ends in `data`, the next chunk; otherwise 0."""
        return self.count_tags(data[: len(b"page>")])


class PageCutter:
    """Cuts pages out of a file that is fed in consecutive chunks of bytes.

    Args:
        max_page_bytes: A longer page is yielded without its data.
        starts_inside: True if the chunks begin in the middle of a file. Bytes before the first `<page>` then belong to
            the previous slice.

    Attributes:
        is_closed: True once the end tag of the root element, `</mediawiki>`, has been seen.
        has_begun: True once a page has begun, or from the start if the chunks begin at the start of the file.
        is_done: True once the first page of the next slice has begun.
    """

    def __init__(self, max_page_bytes: int, starts_inside: bool = False) -> None:
        self.max_page_bytes = max_page_bytes
        self.is_closed = False
        self.has_begun = not starts_inside
        self.is_done = False
        self._stop: int | None = None
        self._buffer = bytearray()
        self._buffer_start = 0  # position of the buffer's first byte, counted from the first piece on
        self._page_start: int | None = None  # position of the page begun
        self._tag_end = 0  # position after the last tag
        self._streams: deque[tuple[int, int, int]] = deque()  # (position, stream, offset there)

    def feed(self, piece: StreamPiece) -> Iterator[CutPage]:
        """Yield the pages that end in `piece`, the next chunk of the file, complete or with a fault.

        Iterate to the end before feeding the next chunk.
        """
        end = self._buffer_start + len(self._buffer)
        if not self._streams or self._streams[-1][1] != piece.stream:
            self._streams.append((end, piece.stream, piece.offset))
        self._buffer += piece.data
        scan = max(self._tag_end, end - END_TAG_BYTES + 1) - self._buffer_start
        tags = [(self._buffer_start + m.start(), not m[1]) for m in PAGE_TAG.finditer(self._buffer, max(scan, 0))]
        for position, is_start in tags:
            if not self.is_done:
                yield from self._start_page(position) if is_start else self._end_page(position + END_TAG_BYTES)
        self.is_closed = self.is_closed or b"</mediawiki>" in self._buffer[-len(piece.data) - len(b"</mediawiki") :]
        self._trim()

    def stop_here(self) -> None:
        """Mark the end of the slice: pages that begin in later chunks belong to the next slice."""
        self._stop = self._buffer_start + len(self._buffer)

    def finish(self) -> Iterator[CutPage]:
        """Finish after the last chunk. If the file ends within a page, yield this page with the fault "no end"."""
        if self._page_start is not None:
            yield self._cut_page(self._page_start, self._buffer_start + len(self._buffer), "no end")

    def _start_page(self, position: int) -> Iterator[CutPage]:
        """Process a `<page>` tag at `position`. If the page before it has no end tag, yield that page."""
        if self._page_start is not None:
            yield self._cut_page(self._page_start, position, "no end")
        if self._stop is not None and position >= self._stop:
            self.is_done, self._page_start = True, None
            return
        self.has_begun = True
        self._page_start, self._tag_end = position, position + len(b"<page>")

    def _end_page(self, position: int) -> Iterator[CutPage]:
        """Process a `</page>` tag that ends at `position`, and yield the page that it closes."""
        if self._page_start is None and self.has_begun:
            yield self._cut_page(position - END_TAG_BYTES, position, "no start")
        elif self._page_start is not None:
            yield self._cut_page(self._page_start, position, "")
        self._page_start, self._tag_end = None, position

    def _cut_page(self, start: int, end: int, fault: str) -> CutPage:
        """Build the page in bytes `start` to `end`, counted from the first chunk, with its position in the file.

        `fault` is "" for a complete page, else "no end", "no start" or "too large".
        """
        if end - start > self.max_page_bytes:
            fault = fault or "too large"
        is_whole = start >= self._buffer_start and end - start <= self.max_page_bytes
        data = bytes(self._buffer[start - self._buffer_start : end - self._buffer_start]) if is_whole else b""
        while len(self._streams) > 1 and self._streams[1][0] <= start:
            self._streams.popleft()
        position, stream, offset = self._streams[0]
        return CutPage(stream, offset + start - position, end - start, data, fault)

    def _trim(self) -> None:
        """Discard the bytes before the current page, and the bytes of the current page if it is too large."""
        end = self._buffer_start + len(self._buffer)
        keep = max(self._tag_end, end - len(b"</mediawiki>"))
        if self._page_start is not None and end - self._page_start <= self.max_page_bytes:
            keep = self._page_start
        if keep > self._buffer_start:
            del self._buffer[: keep - self._buffer_start]
            self._buffer_start = keep


def parse_page(data: bytes) -> WikiPage:
    """Parse the bytes of one `<page>` of a dump. If it has several revisions, the last one is used.

    Raises:
        BadRecord: If the page is not well-formed, lacks a title, id or revision, or contains another page.

    >>> parse_page(b"<page><title>A</title><id>7</id><revision><text>x</text></revision></page>").title
    'A'
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True, remove_comments=True)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise BadRecord(f"not well-formed XML: {error.msg}") from error
    title, revisions = root.findtext("title"), root.findall("revision")
    if not title or not revisions:
        raise BadRecord("it has no title" if not title else "it has no revision")
    if len(root.findall("title")) > 1 or len(root.findall("id")) > 1:
        raise BadRecord("it holds two pages: the tags between them are damaged")
    last, redirect = revisions[-1], root.find("redirect")
    page_id = _parse_number(root, "id")
    if page_id is None:
        raise BadRecord("it has no id")
    return WikiPage(
        id=page_id,
        title=title,
        namespace=_parse_number(root, "ns"),
        redirect=None if redirect is None else redirect.get("title", ""),
        revision=_parse_number(last, "id"),
        timestamp=last.findtext("timestamp"),
        model=last.findtext("model") or "wikitext",
        wikitext=last.findtext("text") or "",
    )


def _parse_number(element: etree._Element, tag: str) -> int | None:
    """Return the integer in an element's child `tag`; None if there is no such child.

    Raises:
        BadRecord: If the child contains something else.
    """
    text = element.findtext(tag)
    if text is None:
        return None
    if not re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text):
        raise BadRecord(f"its <{tag}> is not a number: {text[:40]!r}")
    return int(text)


def parse_site_info(head: bytes) -> SiteInfo | None:
    """Parse the information about a wiki from the first bytes of an export. Return None if this is not an export.

    Patterns are used instead of a parser, because the head of a dump that was split into pieces may end anywhere.
    """
    has_root = b"<mediawiki" in head
    if not has_root and b"<page>" not in head:
        return None
    text = head.partition(b"<page>")[0].decode("utf-8", errors="replace")
    base = re.search(r"<base>\s*([^<\s]+)/[^<\s/]*\s*</base>", text)
    namespaces = re.findall(r'<namespace key="(-?\d{1,9})"[^<>]*>([^<]+)</namespace>', text)
    numbers = {_unescape(name): int(key) for key, name in namespaces}
    language = re.search(r"<mediawiki\b[^<>]*\bxml:lang=[\"']([a-z]{2,3}(?:-[a-z]+)*)[\"']", text)
    return SiteInfo(
        base=_unescape(base[1]) + "/" if base else None,
        namespaces=numbers,
        has_root=has_root,
        language=language[1] if language else "en",
    )


def _unescape(text: str) -> str:
    """Replace the four XML entities that occur in a dump's head with their characters."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")


MULTISTREAM_NAME = re.compile(r"(?P<stem>.*multistream)(?P<number>\d*)\.xml(?P<range>-p\d+p\d+)?\.bz2")

INDEX_ERRORS: tuple[type[Exception], ...] = (*READ_FAULTS, ValueError)


class IndexEntry(NamedTuple):
    """A line of a multistream dump's index.

    Attributes:
        stream: First byte of the stream that contains the page.
        page: The page's id.
        title: The page's title.
    """

    stream: int
    page: str
    title: str


def find_index(dump: Path) -> Path | None:
    """Return the path of the index file next to a multistream dump; None if there is no such file.

    For `enwiki-...-multistream.xml.bz2` it is `enwiki-...-multistream-index.txt.bz2`.
    """
    match = MULTISTREAM_NAME.fullmatch(dump.name)
    if match is None:
        return None
    index = dump.with_name(f"{match['stem']}-index{match['number']}.txt{match['range'] or ''}.bz2")
    return index if index.is_file() else None


def read_index(index: Path, start: int, stop: int) -> Iterator[IndexEntry]:
    """Yield the index entries of the streams that begin in bytes `start` to `stop` of the dump.

    Args:
        index: Path of the index.
        start: First byte of the slice.
        stop: First byte after the slice.

    Raises:
        InputError: During iteration, if the index is damaged.
    """
    line = b""
    try:
        with bz2.open(open_for_library(index), "rb") as lines:
            for line in lines:
                offset, page, title = line.split(b":", 2)
                if start <= int(offset) < stop:
                    yield IndexEntry(int(offset), page.decode(), title.decode().rstrip("\n"))
                elif int(offset) >= stop:
                    return
    except INDEX_ERRORS as error:
        seen = f" (at {line[:60]!r})" if isinstance(error, ValueError) else ""
        raise InputError(
            f"{index} cannot be read as a stream index: {error}{seen}. Download it again, or remove it: the "
            "streams are then looked for in the dump."
        ) from error


def read_stream_starts(file: RawFile, index: Path) -> list[int]:
    """Read the byte offsets of all streams of a dump from its index, and compare them with the dump.

    Args:
        file: The dump.
        index: Path of its index.

    Returns:
        The offsets in ascending order.

    Raises:
        InputError: If the index is damaged, the offsets are not ascending or are outside the file, or most of them are
            not the start of a stream.
    """
    starts = list(dict.fromkeys(entry.stream for entry in read_index(index, 0, 1 << 62)))
    with parse_raw_path(file.path).open("rb") as stream:
        wrong = sum(not is_stream_start(stream, start) for start in starts)
    is_ordered = bool(starts) and starts == sorted(starts) and starts[-1] < file.size_bytes
    if not is_ordered or 2 * wrong > len(starts):
        raise InputError(
            f"{index} and {file.path} do not belong together, or one is cut off: of {len(starts)} offsets "
            f"{wrong} begin no stream, and the last is {starts[-1] if starts else 'missing'} where the dump "
            f"has {file.size_bytes} bytes. Download both again, from the same day."
        )
    return starts
