"""MediaWiki dumps: `pages-articles-multistream.xml.bz2` with its index, or plain bz2 and xml.

Promises: every page of the dump is one record, an article's prose or a drop with its reason; a dump with an
index is cut at its streams, so that one file keeps every worker busy. Damage to a stream costs the pages
that the index promises for it and no others; without an index, or where the file is cut off, the file is
refused.
Costs: bzip2 about 30 MB/s of XML, the pages' XML little, `wikitext_to_text` as much again. Planning reads
the index once. Memory: 47 MB of a stream whose checksums are still open, and one page.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote, urlsplit

from corpora.errors import InputError
from corpora.schema import EXCERPT_CHARACTERS, Locator
from corpora.sources.bz2_streams import (
    Piece,
    StreamFault,
    plain_pieces,
    read_at,
    stream_pieces,
    verified,
)
from corpora.sources.mediawiki_xml import (
    HEAD_BYTES,
    BadPage,
    CutPage,
    Page,
    PageCutter,
    SiteInfo,
    count_pages,
    parse_head,
    parse_page,
)
from corpora.sources.source import Drop, RawFile, Record, Slice, Tally, matching_files, whole_file
from corpora.sources.stream_index import IndexEntry, index_beside, read_index, stream_starts
from corpora.sources.wikitext import is_disambiguation, is_list, is_redirect, wikitext_to_text
from corpora.store.manifest import Json
from corpora.store.settings import check_range, settings_json

DUMP = re.compile(r"(?P<wiki>[a-z_]+)?.*\.xml(-p\d+p\d+)?(\.bz2)?")
# The projects whose text is under CC BY-SA, and the days their terms of use changed it.
BY_SA_HOSTS = (
    "wikipedia.org",
    "wiktionary.org",
    "wikibooks.org",
    "wikiquote.org",
    "wikiversity.org",
    "wikivoyage.org",
)
LICENSES = (("2023-06-07", "CC BY-SA 4.0"), ("2009-06-15", "CC BY-SA 3.0"), ("", "GFDL"))
URL_SAFE = ";@$!*(),/~:"  # what MediaWiki leaves as it is in the address of a page


@dataclass(frozen=True, slots=True, kw_only=True)
class WikipediaSource:
    """The `[[source]]` table of kind "wikipedia".

    path:            a dump, a folder of dumps, or a glob; all of one wiki (its index is found beside a dump)
    namespaces:      numbers of the namespaces whose pages are documents
    disambiguations: keep disambiguation pages
    lists:           keep pages that are lists
    license:         of the text; None: by the wiki and the dump's date, or else each revision's
    max_page_bytes:  a longer page is dropped
    """

    kind: ClassVar[str] = "wikipedia"
    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("lxml",)

    name: str = "wikipedia"
    path: str
    namespaces: tuple[int, ...] = (0,)
    disambiguations: bool = False
    lists: bool = False
    license: str | None = None
    max_page_bytes: int = 20_000_000

    def __post_init__(self) -> None:
        check_range(f"source {self.name!r}: max_page_bytes", self.max_page_bytes, 1, 1 << 30)
        if not self.namespaces:
            raise InputError(f"Source {self.name!r}: `namespaces` is empty. Leave it out for articles alone.")

    def settings(self) -> dict[str, Json]:
        """What determines the bytes of its documents."""
        return {key: value for key, value in settings_json(self).items() if key not in ("name", "path")}

    def files(self) -> list[tuple[str, Path]]:
        """The dumps, sorted by name. Raises InputError where there are none, or those of several wikis."""
        wanted = "a dump such as enwiki-20261101-pages-articles-multistream.xml.bz2, a folder of them, or a glob"
        found = matching_files(self.name, self.path, lambda name: bool(DUMP.fullmatch(name)), wanted)
        wikis = {match["wiki"] for _, path in found if (match := DUMP.fullmatch(path.name))}
        if len(found) > 1 and len(wikis) > 1:
            raise InputError(
                f"Source {self.name!r}: {self.path} holds dumps of several wikis, whose ids would clash: "
                f"{', '.join(sorted(map(str, wikis)))}. Give each wiki a [[source]] with a name of its own."
            )
        return found

    def slices(self, file: RawFile) -> list[Slice]:
        """One slice for each stream that the index names; one for the whole file where there is no index."""
        read_site(file.path, file.sha256)
        index = index_beside(Path(file.path))
        if index is None:
            return [whole_file(file)]
        starts = stream_starts(file, index)
        return [
            Slice(file=file, start=start, stop=stop)
            for start, stop in zip(starts, [*starts[1:], file.size_bytes], strict=True)
        ]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """One record for each page, in the file's order. Raises InputError for a file that is cut off."""
        index = index_beside(Path(piece.file.path))
        reading = _Reading(self, piece, tally)
        yield from reading.whole() if index is None else reading.stream_by_stream(index)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """The bytes of a page, from `<page>` to `</page>`."""
        try:
            return read_at(file, locator.stream, locator.offset, locator.length)
        except StreamFault as fault:
            raise InputError(f"Cannot read {locator} again: {fault}. Download the file again.") from fault

    def record(self, page: CutPage, file: RawFile, site: SiteInfo) -> Record:
        """What a page's bytes give: an article's prose, or a drop."""
        locator = Locator(
            file=file.name, sha256=file.sha256, stream=page.stream, offset=page.offset, length=page.length
        )
        if page.fault:
            drop = (
                Drop(page.fault, f"over {self.max_page_bytes} bytes")
                if page.fault == "too large"
                else Drop("damaged", f"the page has {page.fault}", damaged=True)
            )
            return Record(locator=locator, text="", raw=page.data or str(locator).encode(), drop=drop)
        try:
            parsed = parse_page(page.data)
        except BadPage as error:
            drop = Drop("damaged", str(error), damaged=True)
            return Record(locator=locator, text="", raw=page.data, drop=drop)
        drop_reason = self._judge(parsed, site)
        text = parsed.wikitext[: 2 * EXCERPT_CHARACTERS] if drop_reason else wikitext_to_text(parsed.wikitext)
        return Record(
            locator=locator,
            text=text,
            key=str(parsed.id),
            raw=page.data,
            revision=parsed.revision,
            title=parsed.title,
            url=page_url(site, parsed.title),
            date=parsed.timestamp,
            license=self.license or license_of(site, file.name, parsed.timestamp),
            drop=drop_reason or (None if text.strip() else Drop("empty")),
        )

    def _judge(self, page: Page, site: SiteInfo) -> Drop | None:
        """Why a whole page is no document."""
        namespace = site.namespace_of(page.title) if page.namespace is None else page.namespace
        if namespace not in self.namespaces:
            return Drop("namespace", str(namespace))
        if page.redirect is not None or is_redirect(page.wikitext):
            return Drop("redirect", page.redirect or _redirect_target(page.wikitext))
        if page.model != "wikitext":
            return Drop("model", page.model)
        if not page.wikitext.strip():
            return Drop("empty")
        if not self.disambiguations and is_disambiguation(page.wikitext, page.title):
            return Drop("disambiguation")
        if not self.lists and is_list(page.title):
            return Drop("list")
        return None


class _Reading:
    """One slice being read. The tally counts `<page>` tags in the bytes, whatever is made of the pages."""

    def __init__(self, source: WikipediaSource, piece: Slice, tally: Tally) -> None:
        self.source, self.piece, self.tally = source, piece, tally
        self.file, self.path = piece.file, Path(piece.file.path)
        self.site = read_site(piece.file.path, piece.file.sha256)
        self.read: Counter[int] = Counter()  # pages read, by stream
        self.before: dict[int, int] = {}  # the tally where the stream now read began

    def whole(self) -> Iterator[Record]:
        """Read the slice without an index: a fault of its streams is a fault of the file."""
        read = stream_pieces if _is_bz2(self.path) else plain_pieces
        try:
            yield from self._pages(read(self.path, self.piece.start, self.piece.stop))
        except StreamFault as fault:
            raise InputError(
                f"{self.path}: {fault}, found at byte {fault.position} of {self.file.size_bytes}. Download it "
                "again, or take the multistream dump and its index: of that only damaged pages are lost."
            ) from fault

    def stream_by_stream(self, index: Path) -> Iterator[Record]:
        """Read the slice; of a damaged stream every page that its index promises becomes a damaged drop."""
        start, faults = self.piece.start, 0
        while start < self.piece.stop:
            try:
                pieces = verified(stream_pieces(self.path, start, self.piece.stop))
                yield from self._pages(pieces, whole=not faults)
                start = self.piece.stop
            except StreamFault as fault:
                self._refuse_end(fault)
                faults += 1
                entries = list(read_index(index, fault.stream, self.piece.stop))
                yield from self._lost(fault, [entry for entry in entries if entry.stream == fault.stream])
                start = next((entry.stream for entry in entries if entry.stream > fault.stream), self.piece.stop)

    def _pages(self, pieces: Iterator[Piece], whole: bool = True) -> Iterator[Record]:
        cutter = PageCutter(self.source.max_page_bytes)
        for piece, pages in count_pages(pieces):
            if piece.stream not in self.before:
                self.before = {piece.stream: self.tally.records}
            self.tally.records += pages
            yield from map(self._record, cutter.feed(piece))
        yield from map(self._record, cutter.finish())
        if whole and self.piece.stop == self.file.size_bytes and self.site.has_root and not cutter.closed:
            raise InputError(
                f"{self.path} ends before its </mediawiki>, after {self.file.size_bytes} bytes: cut off. "
                "Download the file again."
            )

    def _record(self, page: CutPage) -> Record:
        self.read[page.stream] += 1
        self.tally.records += page.fault == "no start"  # it has no `<page>` to be counted by
        return self.source.record(page, self.file, self.site)

    def _refuse_end(self, fault: StreamFault) -> None:
        if fault.truncated and self.piece.stop == self.file.size_bytes:
            raise InputError(
                f"{self.path}: {fault}, for the file ends at byte {fault.position}. Download the file again."
            ) from fault

    def _lost(self, fault: StreamFault, promised: list[IndexEntry]) -> Iterator[Record]:
        """The pages of a damaged stream that were not read before the damage, as the index names them."""
        read = self.read[fault.stream]
        self.tally.records = self.before.get(fault.stream, self.tally.records) + max(len(promised), read)
        for entry in promised[read:]:
            locator = Locator(file=self.file.name, sha256=self.file.sha256, stream=fault.stream, offset=0, length=0)
            drop = Drop("damaged", str(fault), damaged=True)
            yield Record(locator=locator, text="", key=entry.page, title=entry.title, drop=drop)


@lru_cache(maxsize=256)
def read_site(path: str, sha256: str) -> SiteInfo:
    """What the head of a dump says of its wiki, read once for each content. Raises InputError."""
    head = _read_head(Path(path))
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is UTF-16; dumps are UTF-8. Convert it first, for instance with `iconv`.")
    site = parse_head(head)
    if site is None:
        raise InputError(
            f"{path} is no MediaWiki dump: its first {len(head)} bytes hold neither <mediawiki nor <page>. "
            "Set `path` to a file of pages-articles XML."
        )
    return site


def _read_head(path: Path) -> bytes:
    size = path.stat().st_size
    head = b""
    try:
        for piece in (stream_pieces if _is_bz2(path) else plain_pieces)(path, 0, size):
            head += piece.data
            if len(head) >= HEAD_BYTES or b"</siteinfo>" in head or b"<page>" in head:
                break
    except StreamFault as fault:
        raise InputError(
            f"{path} cannot be read: {fault}. Is it a bzip2 file? If it should be, download it again."
        ) from fault
    return head[:HEAD_BYTES]


def _is_bz2(path: Path) -> bool:
    return path.name.endswith(".bz2")


def page_url(site: SiteInfo, title: str) -> str | None:
    """The address of a page.

    >>> site = SiteInfo(base="https://en.wikipedia.org/wiki/", namespaces={}, has_root=True)
    >>> page_url(site, "C++ (language)")
    'https://en.wikipedia.org/wiki/C%2B%2B_(language)'
    """
    return None if site.base is None else site.base + quote(title.replace(" ", "_"), safe=URL_SAFE)


def license_of(site: SiteInfo, dump: str, timestamp: str | None) -> str | None:
    """The licence of a Wikimedia wiki's text on the day of the dump, or else of the revision; else None.

    >>> site = SiteInfo(base="https://en.wikipedia.org/wiki/", namespaces={}, has_root=True)
    >>> license_of(site, "enwiki-20120104-pages-articles.xml.bz2", None)
    'CC BY-SA 3.0'
    """
    host = urlsplit(site.base or "").hostname or ""
    if not any(host == known or host.endswith("." + known) for known in BY_SA_HOSTS):
        return None
    dated = re.search(r"-(20\d\d)(\d\d)(\d\d)-", dump)
    day = "-".join(dated.groups()) if dated else timestamp
    return None if day is None else next(license for since, license in LICENSES if day >= since)


def _redirect_target(wikitext: str) -> str:
    match = re.search(r"\[\[([^\]|]+)", wikitext[:1000])
    return match[1].strip() if match else ""
