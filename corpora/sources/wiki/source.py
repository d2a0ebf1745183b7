"""MediaWiki dumps: `pages-articles-multistream.xml.bz2` with its index, or any other bz2, zst and plain xml.

Promises: every page of the dump is one record, an article's prose or a drop with its reason. One file keeps every
worker busy: a dump with an index is cut at the streams that the index names, any other bz2 file at the streams found in
it, a plain file every 16 MB. A page belongs to the slice in which it begins. A bz2 file of one stream, a zst file and
one in UTF-16 are one slice. Damage to a stream costs the pages that the index lists for it and no others; without an
index, or if the file is cut off, the file is refused. A document's `meta` says what kind of page it is, and its
headings: `{"page":"stub","sections":[[2,"History"]]}`; each heading is a paragraph of the text. Costs: bzip2 about 30
MB/s of XML, parsing the XML little, `wikitext_to_text` as much again. Planning reads the index once, or without one the
file. Memory: 47 MB of a stream until its checksum is verified, and one page.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.schema import MAX_EXCERPT_CHARACTERS, Locator
from corpora.sources.bytes.bz2_streams import (
    StreamPiece,
    as_utf8,
    choose_reader,
    find_streams,
    is_utf16,
    read_at,
    read_bz2_pieces,
    verify_pieces,
)
from corpora.sources.bytes.faults import BadRecord, DamagedBytes
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.contract import (
    Drop,
    RawFile,
    Record,
    Slice,
    Tally,
    cut_at,
    drop_damaged,
    find_files,
    select_settings,
    slice_whole_file,
)
from corpora.sources.wiki.pages import (
    MAX_HEAD_BYTES,
    CutPage,
    IndexEntry,
    PageCounter,
    PageCutter,
    SiteInfo,
    WikiPage,
    find_index,
    parse_page,
    parse_site_info,
    read_index,
    read_stream_starts,
)
from corpora.sources.wiki.wikitext.hidden import MATH
from corpora.sources.wiki.wikitext.links import DROPPED_NAMESPACES
from corpora.sources.wiki.wikitext.prose import (
    LISTS,
    WikitextSettings,
    is_disambiguation,
    is_list,
    is_redirect,
    is_stub,
    read_wikitext,
)
from corpora.sources.wiki.wikitext.wikis import list_known_codes
from corpora.store.settings import check_choice, check_range

WIKI_NAME = re.compile(r"(?P<code>[a-z]{2,3}(?:_[a-z]+)*)wiki[-.]")
DUMP_NAME = re.compile(r"(?P<wiki>[a-z_]+)?.*\.xml(-p\d+p\d+)?(\.bz2|\.zst)?")
SLICE_BYTES = 16_000_000  # of a plain file
MIN_SLICE_BYTES = 1024  # a shorter end of a file is read with what is before it
KINDS = ("disambiguation", "list", "redirect", "stub")  # all others are articles
# The projects whose text is under CC BY-SA, and the days their terms of use changed it.
BY_SA_HOSTS = (
    "wikipedia.org",
    "wiktionary.org",
    "wikibooks.org",
    "wikiquote.org",
    "wikiversity.org",
    "wikivoyage.org",
)
PROJECTS_WITHOUT_ARTICLES = {
    "wiktionary": "entries of a dictionary",
    "wikidata": "records of data",
    "commons.wikimedia": "descriptions of files",
    "species.wikimedia": "records of species",
    "wikifunctions": "functions",
}
OTHER_PROJECTS = re.compile(rf"[\w.-]*?\b({'|'.join(map(re.escape, PROJECTS_WITHOUT_ARTICLES))})\.org", re.IGNORECASE)
LICENSES = (("2023-06-07", "CC BY-SA 4.0"), ("2009-06-15", "CC BY-SA 3.0"), ("", "GFDL"))
WEB_ADDRESS = re.compile(r"(?:https?:)?//([\w.-]+)", re.IGNORECASE)
URL_SAFE = ";@$!*(),/~:"  # what MediaWiki leaves as it is in the address of a page


@dataclass(frozen=True, slots=True, kw_only=True)
class WikipediaSource:
    """The `[[source]]` table of kind "wikipedia".

    path:           a dump, a folder of dumps, or a glob; all dumps are of one wiki (a dump's index is next to it)
    namespaces:     numbers of the namespaces to read pages from
    drop:           kinds of pages to drop: "redirect", "disambiguation", "list", "stub"
    lists:          "sentences" keeps list items of six or more words, "drop" removes all list items
    math:           formulas in TeX: "placeholder" replaces them, "tex" keeps their TeX, "drop" removes them
    license:        license of the text; None to derive it from the wiki and the date of the dump, or else from the
                    date of each revision
    max_page_bytes: a longer page is dropped
    """

    kind: ClassVar[str] = "wikipedia"
    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("lxml",)

    name: str = "wikipedia"
    path: str
    namespaces: tuple[int, ...] = (0,)
    drop: tuple[str, ...] = ("redirect", "disambiguation", "list")
    lists: str = "sentences"
    math: str = "placeholder"
    license: str | None = None
    max_page_bytes: int = 20_000_000

    def __post_init__(self) -> None:
        prefix = f"source {self.name!r}"
        check_range(f"{prefix}: max_page_bytes", self.max_page_bytes, 1, 1 << 30)
        check_choice(f"{prefix}: lists", self.lists, LISTS)
        check_choice(f"{prefix}: math", self.math, tuple(MATH))
        for kind in self.drop:
            check_choice(f"{prefix}: drop", kind, KINDS)
        if not self.namespaces:
            raise InputError(f"Source {self.name!r}: `namespaces` is empty. Leave it out for articles alone.")

    def settings(self) -> dict[str, Json]:
        """Return the settings that affect the documents, as JSON by field name.

        The kinds in `drop` are sorted.
        """
        return {**select_settings(self), "drop": sorted(set(self.drop))}

    def files(self) -> list[tuple[str, Path]]:
        """List the raw files as (name, path) pairs, sorted by name.

        These are the dumps at `path`.

        Raises:
            InputError: If there are no dumps, or dumps of several wikis.
        """
        wanted = "a dump such as enwiki-20261101-pages-articles-multistream.xml.bz2, a folder of them, or a glob"
        dumps = find_files(self.name, self.path, lambda name: bool(DUMP_NAME.fullmatch(name)), wanted)
        wikis = {match["wiki"] for _, path in dumps if (match := DUMP_NAME.fullmatch(path.name))}
        if len(dumps) > 1 and len(wikis) > 1:
            raise InputError(
                f"Source {self.name!r}: {self.path} holds dumps of several wikis, whose ids would clash: "
                f"{', '.join(sorted(map(str, wikis)))}. Give each wiki a [[source]] with a name of its own."
            )
        return dumps

    def companions(self) -> list[Path]:
        """List the paths of the index files that are read along with the dumps.

        Raises:
            InputError: If there are no dumps.
        """
        indexes = (find_index(path) for _, path in self.files())
        return [index for index in indexes if index is not None]

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A dump is cut at the streams that its index lists or that are found in it, a plain file every 16 MB.

        Raises:
            InputError: If the file is not a dump, or does not match its index.
        """
        site = read_site(file.path, file.sha256)
        index = find_index(parse_raw_path(file.path))
        if index is not None:
            starts = read_stream_starts(file, index)
        elif site.is_utf16 or parse_raw_path(file.path).name.endswith(".zst"):
            return [slice_whole_file(file)]
        else:
            starts = _find_cuts(file)
        return cut_at(file, starts)

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Each wiki page that begins in the slice is a record.

        Args:
            piece: The slice.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file is truncated, or is damaged and has no index.
        """
        index = find_index(parse_raw_path(piece.file.path))
        reading = _SliceReader(self, piece, tally)
        yield from reading.read_whole() if index is None else reading.read_by_stream(index)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The record is a wiki page, from `<page>` to `</page>`.

        Raises:
            InputError: If the bytes cannot be decompressed.
        """
        try:
            return read_at(file, locator.stream, locator.offset, locator.length)
        except DamagedBytes as fault:
            raise InputError(f"Cannot read {locator} again: {fault}. Download the file again.") from fault

    def build_wikitext_settings(self, site: SiteInfo, wiki: str) -> WikitextSettings:
        """Return the settings for extracting prose from a wiki's pages.

        Args:
            site: Information about the wiki from the dump.
            wiki: The wiki's language code.
        """
        return WikitextSettings(
            math=self.math, lists=self.lists, hidden=DROPPED_NAMESPACES | site.hidden_namespaces, wiki=wiki
        )

    def build_record(
        self, page: CutPage, file: RawFile, site: SiteInfo, wikitext: WikitextSettings, tally: Tally
    ) -> Record:
        """Build the record of a page, and count its unknown templates. A page that is not kept yields a dropped record.

        Args:
            page: The page and its position.
            file: The dump.
            site: Information about the wiki from the dump.
            wikitext: The settings for extracting prose, as returned by `build_wikitext_settings`.
            tally: Counts the templates that are missing from all template tables, and knows which records crashed
                earlier and must be skipped.
        """
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
        if quarantined := tally.enter(locator):
            return Record(locator=locator, text="", raw=page.data, drop=quarantined)
        try:
            parsed = parse_page(page.data)
        except BadRecord as error:
            return drop_damaged(locator, page.data, error)
        kind = classify_page(parsed, wikitext.wiki)
        drop_reason = self._judge_page(parsed, kind, site)
        text, meta = parsed.wikitext[: 2 * MAX_EXCERPT_CHARACTERS], None
        if drop_reason is None:
            text, sections, unknown, hidden = read_wikitext(parsed.wikitext, wikitext, parsed.title)
            for template in unknown:
                tally.unknown_templates.add(template.name, template.example)
            facts = {"page": kind, "sections": sections} | ({"hidden": hidden} if hidden else {})
            meta = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
        return Record(
            locator=locator,
            text=text,
            key=str(parsed.id),
            raw=page.data,
            revision=parsed.revision,
            title=parsed.title,
            url=build_page_url(site, parsed.title),
            date=parsed.timestamp,
            license=self.license or find_dump_license(site, file.name, parsed.timestamp),
            meta=meta,
            drop=drop_reason or (None if text.strip() else Drop("empty")),
        )

    def _judge_page(self, page: WikiPage, kind: str, site: SiteInfo) -> Drop | None:
        """Return a `Drop` if a page must not become a document, else None.

        The page's namespace, its kind (the result of `classify_page`), its content model and its text decide.
        """
        namespace = site.find_namespace(page.title) if page.namespace is None else page.namespace
        if namespace not in self.namespaces:
            return Drop("namespace", str(namespace))
        if kind == "redirect" and kind in self.drop:
            return Drop("redirect", page.redirect or _find_redirect_target(page.wikitext))
        if page.model != "wikitext":
            return Drop("model", page.model)
        if not page.wikitext.strip():
            return Drop("empty")
        return Drop(kind) if kind in self.drop else None


class _SliceReader:
    """Reads one slice of a dump. The tally counts `<page>` tags in the bytes, independently of the parser.

    Attributes:
        site: Information about the wiki from the dump.
        wikitext: The settings for extracting prose.
        num_read: Number of pages read, by the first byte of their stream.
        tally_before: The tally's count when the current stream began, by the first byte of the stream.
    """

    def __init__(self, source: WikipediaSource, piece: Slice, tally: Tally) -> None:
        self.source, self.piece, self.tally = source, piece, tally
        self.file, self.path = piece.file, parse_raw_path(piece.file.path)
        self.site = read_site(piece.file.path, piece.file.sha256)
        self.wikitext = source.build_wikitext_settings(self.site, find_wiki_code(self.file.name, self.site))
        self.num_read: Counter[int] = Counter()  # pages read, by stream
        self.tally_before: dict[int, int] = {}  # the tally where the stream now read began

    def read_whole(self) -> Iterator[Record]:
        """Yield the records of a slice of a dump without an index.

        Raises:
            InputError: During iteration, if a stream is damaged or the dump is truncated.
        """
        read, piece, size = choose_reader(self.path), self.piece, self.file.size_bytes
        inside = read(self.path, piece.start, piece.stop)
        following = read(self.path, piece.stop, size) if piece.stop < size else ()
        try:
            yield from self._read_pages(inside if piece.start else as_utf8(inside), following=following)
        except DamagedBytes as fault:
            raise InputError(
                f"{self.path}: {fault}, found at byte {fault.position} of {self.file.size_bytes}. Download it "
                "again, or take the multistream dump and its index: of that only damaged pages are lost."
            ) from fault

    def read_by_stream(self, index: Path) -> Iterator[Record]:
        """Yield the records of a slice of a dump with an index, stream by stream.

        If a stream is damaged, each page that the index lists for it yields a dropped record that counts as damaged.

        Raises:
            InputError: During iteration, if the index is damaged or the dump is truncated.
        """
        start, faults = self.piece.start, 0
        while start < self.piece.stop:
            try:
                pieces = verify_pieces(read_bz2_pieces(self.path, start, self.piece.stop))
                yield from self._read_pages(pieces, expects_end=not faults, is_separate=True)
                start = self.piece.stop
            except DamagedBytes as fault:
                self._refuse_end(fault)
                faults += 1
                entries = list(read_index(index, fault.stream, self.piece.stop))
                yield from self._drop_lost_pages(fault, [entry for entry in entries if entry.stream == fault.stream])
                start = next((entry.stream for entry in entries if entry.stream > fault.stream), self.piece.stop)

    def _read_pages(
        self,
        pieces: Iterator[StreamPiece],
        *,
        expects_end: bool = True,
        is_separate: bool = False,
        following: Iterable[StreamPiece] = (),
    ) -> Iterator[Record]:
        """Yield the records of the pages that begin in `pieces`.

        Args:
            pieces: The bytes of the slice, in chunks.
            expects_end: True to check for `</mediawiki>` if the slice ends the file.
            is_separate: True if no page extends across the beginning or end of the slice.
            following: The bytes after the slice, in which its last page may end.

        Raises:
            InputError: At the end, if `</mediawiki>` is expected and missing.
            DamagedBytes: During iteration, if `pieces` raises it.
        """
        cutter = PageCutter(self.source.max_page_bytes, starts_inside=self.piece.start > 0 and not is_separate)
        count = PageCounter()
        for piece in pieces:
            if piece.stream not in self.tally_before:
                self.tally_before = {piece.stream: self.tally.records}
            self.tally.records += count.count_tags(piece.data)
            yield from map(self._build_record, cutter.feed(piece))
        cutter.stop_here()
        # A slice in which no page begins owns nothing of what is after it, so no byte is read more than twice.
        for number, piece in enumerate(following):
            self.tally.records += 0 if number else count.count_begun_tag(piece.data)
            yield from map(self._build_record, cutter.feed(piece))
            if cutter.is_done or not cutter.has_begun:
                break
        yield from map(self._build_record, cutter.finish())
        if expects_end and self.piece.stop == self.file.size_bytes and self.site.has_root and not cutter.is_closed:
            raise InputError(
                f"{self.path} ends before its </mediawiki>, after {self.file.size_bytes} bytes: cut off. "
                "Download the file again."
            )

    def _build_record(self, page: CutPage) -> Record:
        """Build the record of a page of this slice, and count the page."""
        self.num_read[page.stream] += 1
        self.tally.records += page.fault == "no start"  # it has no `<page>` to be counted by
        return self.source.build_record(page, self.file, self.site, self.wikitext, self.tally)

    def _refuse_end(self, fault: DamagedBytes) -> None:
        """Raise an error if the damage means that the file ends too early; otherwise do nothing.

        Raises:
            InputError: If the last stream of the file is truncated.
        """
        if fault.truncated and self.piece.stop == self.file.size_bytes:
            raise InputError(
                f"{self.path}: {fault}, for the file ends at byte {fault.position}. Download the file again."
            ) from fault

    def _drop_lost_pages(self, fault: DamagedBytes, promised: list[IndexEntry]) -> Iterator[Record]:
        """Yield a dropped record for each page of a damaged stream that the index lists and that was not read.

        Args:
            fault: The damage.
            promised: The index entries of the stream.
        """
        num_read = self.num_read[fault.stream]
        self.tally.records = self.tally_before.get(fault.stream, self.tally.records) + max(len(promised), num_read)
        for entry in promised[num_read:]:
            locator = Locator(file=self.file.name, sha256=self.file.sha256, stream=fault.stream, offset=0, length=0)
            drop = Drop("damaged", str(fault), damaged=True)
            yield Record(locator=locator, text="", key=entry.page, title=entry.title, drop=drop)


@lru_cache(maxsize=256)
def read_site(path: str, sha256: str) -> SiteInfo:
    """Read the information about a wiki from a dump's head. The result is cached by path and content.

    Args:
        path: The dump.
        sha256: Digest of the dump's content. It is only part of the cache's key.

    Raises:
        InputError: If the file cannot be read, is not a MediaWiki dump, or is from a project without articles.
    """
    head, has_utf16 = _read_head(parse_raw_path(path))
    site = parse_site_info(head)
    if site is None:
        raise InputError(
            f"{path} is no MediaWiki dump: its first {len(head)} bytes hold neither <mediawiki nor <page>. "
            "Set `path` to a file of pages-articles XML."
        )
    if project := OTHER_PROJECTS.search(site.base or ""):
        raise InputError(
            f"{path} is a dump of {project[0]}, whose pages are {PROJECTS_WITHOUT_ARTICLES[project[1].lower()]}, not "
            "articles: read as such, they would leave scraps of templates. Set `path` to a dump of a Wikipedia, or "
            'write the texts to files and read them with a source of kind "files".'
        )
    return replace(site, is_utf16=has_utf16)


def _read_head(path: Path) -> tuple[bytes, bool]:
    """Return the first bytes of a dump, converted to UTF-8, and True if the file is encoded in UTF-16.

    They contain all information about the wiki, unless it is longer than 1 MiB.

    Raises:
        InputError: If the file is damaged.
    """
    size, head, is_encoded_utf16 = path.stat().st_size or 1 << 62, b"", False  # a pipe says nothing of its size
    try:
        pieces = choose_reader(path)(path, 0, size)
        first = list(itertools.islice(pieces, 1))
        is_encoded_utf16 = bool(first) and is_utf16(first[0].data)
        for piece in as_utf8(itertools.chain(first, pieces)):
            head += piece.data
            if len(head) >= MAX_HEAD_BYTES or b"</siteinfo>" in head or b"<page>" in head:
                break
    except DamagedBytes as fault:
        raise InputError(
            f"{path} cannot be read: {fault}. Is it a bzip2 file? If it should be, download it again."
        ) from fault
    return head[:MAX_HEAD_BYTES], is_encoded_utf16


def _find_cuts(file: RawFile) -> list[int]:
    """Find the byte offsets at which a dump without an index is cut: the streams of a bz2 file, or every 16 MB.

    The first is 0.
    """
    is_bz2 = parse_raw_path(file.path).name.endswith(".bz2")
    starts = _find_streams(file.path, file.sha256) if is_bz2 else tuple(range(0, file.size_bytes, SLICE_BYTES))
    return [0, *(start for start in starts if 0 < start <= file.size_bytes - MIN_SLICE_BYTES)]


@lru_cache(maxsize=256)
def _find_streams(path: str, sha256: str) -> tuple[int, ...]:
    """Find the byte offsets of all streams of a bz2 file at `path`.

    The result is cached by path and content (`sha256`).
    """
    return tuple(find_streams(parse_raw_path(path)))


def classify_page(page: WikiPage, wiki: str = "en") -> str:
    """Return the kind of a page: "redirect", "disambiguation", "list", "stub" or "article".

    A list with a stub template is a list. `wiki` is the wiki's language code.
    """
    if page.redirect is not None or is_redirect(page.wikitext):
        return "redirect"
    if is_disambiguation(page.wikitext, page.title, wiki):
        return "disambiguation"
    if is_list(page.title):
        return "list"
    return "stub" if is_stub(page.wikitext) else "article"


def find_wiki_code(dump: str, site: SiteInfo) -> str:
    """Return the language code of a dump, from its file name if this is a Wikipedia dump's, else from its head.

    The file name takes precedence because excerpts of dumps sometimes have the head of another wiki.

    >>> site = SiteInfo(base="https://en.wikipedia.org/wiki/", namespaces={}, has_root=True)
    >>> [find_wiki_code(dump, site) for dump in ("frwiki-20261001-pages-articles.xml", "notes.xml", "mywiki.xml")]
    ['fr', 'en', 'en']
    """
    named = WIKI_NAME.match(dump.rpartition("/")[2])
    code = named["code"].replace("_", "-") if named else ""
    is_wikipedia = site.base is None or "wikipedia.org" in site.base
    return code if code in list_known_codes() and is_wikipedia else site.wiki_code


def build_page_url(site: SiteInfo, title: str) -> str | None:
    """Return the URL of a page; None if the wiki's URL is unknown.

    >>> site = SiteInfo(base="https://en.wikipedia.org/wiki/", namespaces={}, has_root=True)
    >>> build_page_url(site, "C++ (language)")
    'https://en.wikipedia.org/wiki/C%2B%2B_(language)'
    """
    return None if site.base is None else site.base + quote(title.replace(" ", "_"), safe=URL_SAFE)


def find_dump_license(site: SiteInfo, dump: str, timestamp: str | None) -> str | None:
    """Return the license that a Wikimedia wiki used on the day of the dump or, if unknown, on the day of the revision.

    Args:
        site: Information about the wiki from the dump.
        dump: Name of the dump file, which may contain its date.
        timestamp: Time of the revision in ISO 8601; None if unknown.

    Returns:
        The license; None for other wikis, and if both days are unknown.

    >>> site = SiteInfo(base="https://en.wikipedia.org/wiki/", namespaces={}, has_root=True)
    >>> find_dump_license(site, "enwiki-20120104-pages-articles.xml.bz2", None)
    'CC BY-SA 3.0'
    """
    address = WEB_ADDRESS.match(site.base or "")
    host = address[1].lower() if address else ""
    if not any(host == name or host.endswith("." + name) for name in BY_SA_HOSTS):
        return None
    dated = re.search(r"-(20\d\d)(\d\d)(\d\d)-", dump)
    day = "-".join(dated.groups()) if dated else timestamp
    return None if day is None else next(license for since, license in LICENSES if day >= since)


def _find_redirect_target(wikitext: str) -> str:
    """Return the title that a redirect's wikitext links to; "" if there is no link in its first 1,000 characters."""
    match = re.search(r"\[\[([^\]|]+)", wikitext[:1000])
    return match[1].strip() if match else ""
