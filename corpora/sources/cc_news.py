"""News pages in WARC archives: `CC-NEWS-*.warc.gz`, other `.warc` and `.wet`, plain, `.gz` or `.zst`.

Promises: every record of an archive is one record here, a page's main text or a drop that says what it is
instead (a request, a redirect, an image...). The address is the key and the second of the crawl the revision,
so the latest crawl of a page supersedes earlier ones. An archive that is damaged or cut off is refused. A
`.gz` archive is cut every 8 MB, and a record belongs to the slice in which its gzip member begins.
Costs: nearly all of it is `html.py`'s, some 10 ms for a page of 170 kB. Memory: one record of at most
`max_record_bytes`, its body decoded, and its blocks.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import ClassVar, NamedTuple
from urllib.parse import urlsplit

from fastwarc.warc import WarcRecord

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.html import extract_page, paragraphs
from corpora.sources.html_charset import decode_html
from corpora.sources.html_tree import Refused
from corpora.sources.source import Drop, RawFile, Record, Slice, Tally, matching_files, whole_file
from corpora.sources.warc import (
    BadRecord,
    CutRecord,
    WarcHead,
    first_member,
    open_record,
    parse_head,
    read_archive,
    read_record,
)
from corpora.sources.warc_http import TooLarge, decoded_body, read_response
from corpora.sources.warc_members import ArchiveFault
from corpora.store.manifest import Json
from corpora.store.settings import check_range, settings_json

ENDINGS = (".warc", ".warc.gz", ".warc.zst", ".wet", ".wet.gz", ".wet.zst")
SLICE_BYTES = 8_000_000
KINDS = ("warcinfo", "request", "response", "resource", "metadata", "revisit", "conversion", "continuation")
HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
MARKUP = re.compile(rb"<(!doctype\s+html|html|head|body|title|meta)\b", re.IGNORECASE)
PAGE_TYPES = ("text/html", "application/xhtml+xml")
IDENTITY_BYTES = 4_096  # of a record without an address: its head, which has the record's own id


class Content(NamedTuple):
    """What a record says as a document. num_replaced: characters that could not be decoded; lang: what it claims."""

    text: str
    title: str | None = None
    date: str | None = None
    license: str | None = None
    num_replaced: int = 0
    lang: str | None = None
    canonical: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CcNewsSource:
    """The `[[source]]` table of kind "cc-news".

    path:             an archive, a folder of archives, or a glob
    hosts:            pages of these hosts and their subdomains alone; empty: of all
    blocked_hosts:    no page of these and their subdomains
    first_day:        pages of this day and later, YYYY-MM-DD; a page's day is that of its publication where it says
                      one, else that of its crawl
    last_day:         pages of this day and earlier
    truncated:        keep pages that the crawler cut off, which `meta` then says
    max_record_bytes: a longer record, or page after decoding, is dropped
    split:            cut `.gz` archives into slices; changes no document
    """

    kind: ClassVar[str] = "cc-news"
    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("fastwarc",)

    name: str = "cc-news"
    path: str
    hosts: tuple[str, ...] = ()
    blocked_hosts: tuple[str, ...] = ()
    first_day: str | None = None
    last_day: str | None = None
    truncated: bool = True
    max_record_bytes: int = 10_000_000
    split: bool = True

    def __post_init__(self) -> None:
        check_range(f"source {self.name!r}: max_record_bytes", self.max_record_bytes, 1, 1 << 30)
        for host in (*self.hosts, *self.blocked_hosts):
            if not HOST.fullmatch(host):
                raise InputError(
                    f"Source {self.name!r}: {host!r} in `hosts` or `blocked_hosts` is no host. Write it in small "
                    "letters without scheme, port and path, as in 'example.org'."
                )
        for key, day in (("first_day", self.first_day), ("last_day", self.last_day)):
            if day is not None and not is_day(day):
                raise InputError(f"Source {self.name!r}: {key} = {day!r} is no day. Write it as in 2026-01-31.")

    def settings(self) -> dict[str, Json]:
        """What determines the bytes of its documents."""
        plain = {key: value for key, value in settings_json(self).items() if key not in ("name", "path", "split")}
        return {**plain, "hosts": sorted(set(self.hosts)), "blocked_hosts": sorted(set(self.blocked_hosts))}

    def files(self) -> list[tuple[str, Path]]:
        """The archives, sorted by name. Raises InputError where there are none."""
        wanted = f"an archive with one of the endings {', '.join(ENDINGS)}, a folder of them, or a glob"
        found = matching_files(self.name, self.path, lambda name: name.lower().endswith(ENDINGS), wanted)
        for _, path in found:
            if not path.name.lower().endswith(ENDINGS):
                raise InputError(f"Source {self.name!r}: {path} is none of {', '.join(ENDINGS)}. Rename it.")
        return found

    def slices(self, file: RawFile) -> list[Slice]:
        """Every 8 MB of a `.gz` archive that is compressed by record; any other whole. Raises InputError."""
        try:
            begins, by_record = first_member(Path(file.path))
        except ArchiveFault as fault:
            raise _refusal(file, fault) from fault
        if not begins:
            raise InputError(f"{file.path} is no WARC archive: it does not begin with `WARC/`. Take it out of `path`.")
        if not (self.split and by_record):
            return [whole_file(file)]
        starts = range(0, file.size_bytes, SLICE_BYTES)
        return [Slice(file=file, start=start, stop=min(start + SLICE_BYTES, file.size_bytes)) for start in starts]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """One record for each of the archive, in its order. Raises InputError for a damaged archive."""
        path = Path(piece.file.path)
        try:
            for cut in read_archive(path, piece.start, piece.stop, self.max_record_bytes, tally):
                yield self.record(cut, piece.file, tally)
        except ArchiveFault as fault:
            raise _refusal(piece.file, fault) from fault

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """The bytes of a record, head and block."""
        try:
            return read_record(file, locator.stream, locator.offset, locator.length)
        except ArchiveFault as fault:
            raise InputError(f"Cannot read {locator} again: {fault}. Get the file again.") from fault

    def record(self, cut: CutRecord, file: RawFile, tally: Tally) -> Record:
        """What a record's bytes give: a page's main text, or a drop."""
        locator = Locator(file=file.name, sha256=file.sha256, stream=cut.stream, offset=cut.offset, length=cut.length)
        found = Record(locator=locator, text="", raw=cut.data[:IDENTITY_BYTES])
        if cut.fault:
            return found._replace(drop=Drop("damaged", f"it {cut.fault}", damaged=True))
        if drop := tally.enter(locator):
            return found._replace(drop=drop)
        try:
            opened = open_record(cut.data)
            head = parse_head(opened)
            host = host_of(head.url)
            drop = not_a_page(head, host)
            if drop is None:
                url = head.url.partition("#")[0]
                found = found._replace(key=url, revision=head.revision, url=url, date=head.crawl_day, group=host)
            content = drop or self._unwanted(head, host) or self._content(opened, head, cut.whole)
        except BadRecord as error:
            return found._replace(drop=Drop("damaged", str(error), damaged=True))
        if isinstance(content, Drop):
            return found._replace(drop=content)
        day = content.date or head.crawl_day
        if not self._in_range(day):
            return found._replace(title=content.title, date=day, drop=Drop("date", day))
        return found._replace(
            text=content.text,
            title=content.title,
            date=day,
            license=content.license,
            meta=_meta(head.truncated, content),
        )

    def _unwanted(self, head: WarcHead, host: str) -> Drop | None:
        """Why a page is not wanted, by its head alone."""
        if (self.hosts and not is_within(host, self.hosts)) or is_within(host, self.blocked_hosts):
            return Drop("host", host)
        if head.truncated and not self.truncated:
            return Drop("truncated", head.truncated)
        return None

    def _in_range(self, day: str) -> bool:
        """Whether pages of a day are wanted."""
        return (self.first_day or "") <= day <= (self.last_day or "9999")

    def _content(self, opened: WarcRecord, head: WarcHead, whole: bool) -> Content | Drop:
        """The prose of a record, or why it has none. whole: the record is not longer than allowed."""
        if head.kind == "conversion":
            return self._plain_text(opened, head, whole)
        response = read_response(opened)
        if response.status != 200:
            return Drop("http status", str(response.status))
        if not (response.media_type in PAGE_TYPES or (not response.media_type and looks_like_html(response.body))):
            return Drop("content type", response.media_type)
        if not whole:
            return self._too_large()
        try:
            body = decoded_body(response, self.max_record_bytes)
        except TooLarge:
            return self._too_large()
        if not body.strip():
            return Drop("empty")
        html = decode_html(body, response.charset)
        page = extract_page(html.text, head.url, head.last_day)
        if isinstance(page, Refused):
            return Drop(page.reason, page.detail)
        return Content(page.text, page.title, page.date, page.license, html.num_replaced, page.language, page.canonical)

    def _plain_text(self, opened: WarcRecord, head: WarcHead, whole: bool) -> Content | Drop:
        """A page that was made plain text for a WET archive, a block of the page to a line."""
        if head.media_type != "text/plain":
            return Drop("content type", head.media_type)
        if not whole:
            return self._too_large()
        text, _, num_replaced = decode_html(opened.reader.read(), "utf-8")
        text = paragraphs(text)
        return Content(text, num_replaced=num_replaced) if text else Drop("empty")

    def _too_large(self) -> Drop:
        return Drop("too large", f"over {self.max_record_bytes} bytes")


def not_a_page(head: WarcHead, host: str) -> Drop | None:
    """Why a record is no page of the web, by its head alone."""
    if head.kind not in ("response", "conversion"):
        return Drop(f"not a page: {head.kind if head.kind in KINDS else 'unknown'}")
    if head.kind == "response" and head.media_type != "application/http":
        return Drop("not a page: response", head.media_type)
    return None if host else Drop("no address", head.url[:200])


def host_of(url: str) -> str:
    """The host of a web address in small letters; "" where there is none. Raises BadRecord.

    >>> host_of("https://News.Example.org:8443/a#b"), host_of("dns:example.org")
    ('news.example.org', '')
    """
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme in ("http", "https") else ""
    except ValueError as error:
        raise BadRecord(f"its address cannot be read: {error}") from error


def is_day(text: str) -> bool:
    """Whether a text is a day of the calendar, YYYY-MM-DD.

    >>> is_day("2026-01-31"), is_day("2026-02-30"), is_day("January")
    (True, False, False)
    """
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def is_within(host: str, hosts: tuple[str, ...]) -> bool:
    """Whether a host is one of `hosts` or a subdomain of one.

    >>> is_within("news.example.org", ("example.org",)), is_within("myexample.org", ("example.org",))
    (True, False)
    """
    return any(host == known or host.endswith("." + known) for known in hosts)


def looks_like_html(body: bytes) -> bool:
    """Whether a body whose type is not said begins like a page."""
    return bool(MARKUP.search(body[:1024]))


def _meta(truncated: str, content: Content) -> str | None:
    said = {"canonical": content.canonical, "lang": content.lang, "replaced": content.num_replaced}
    said |= {"truncated": truncated}
    kept = {key: value for key, value in said.items() if value}
    return json.dumps(kept, sort_keys=True) if kept else None


def _refusal(file: RawFile, fault: ArchiveFault) -> InputError:
    return InputError(f"{file.path}: {fault} (seen at byte {fault.position} of {file.size_bytes}). {fault.remedy}")
