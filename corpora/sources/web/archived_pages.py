"""The pages of a WARC archive as records: a format, whatever source the archive belongs to.

The general promises and costs are those of `source.py`, which is the file to read first. This one also decodes the HTTP
response in a WARC record: chunks are joined and gzip, deflate, brotli and zstd undone, never to more than `max_bytes`.
Crawlers store many bodies decoded under the heads of encoded ones, so a body that does not begin as its encoding does
is used as it is; a body that ends too soon gives what there is of it. Costs: zlib's and one copy.

Source: RFC 9112, section 7.1 (chunks); RFC 9110, section 8.4 (content codings).
"""

import io
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from fastwarc.stream_io import BrotliReader, ZstdReader

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.bytes.faults import BadRecord, DamagedBytes
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.contract import SLICE_BYTES, Drop, RawFile, Record, Slice, Tally, cut_every, slice_whole_file
from corpora.sources.web.charset import decode_html
from corpora.sources.web.page import WebPage, extract_page, split_paragraphs
from corpora.sources.web.tree import Refused
from corpora.sources.web.warc import (
    CutRecord,
    ParsedRecord,
    WarcHead,
    decode_western,
    inspect_first_member,
    parse_record,
    parse_warc_head,
    read_archive,
    read_head,
    read_record,
    to_media_type,
)

CHUNK = re.compile(rb"[ \t]*([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
STATUS = re.compile(rb"HTTP/[^ ]* \+?([0-9]+)(?: .*)?", re.DOTALL)
MAX_STATUS = (1 << 16) - 1
INFLATE_BYTES = 1 << 12  # at a time, for what follows a gzip member is copied
CHARSET = re.compile(r"charset\s*+=\s*+[\"']?\s*+([^\s\"';,]+)", re.IGNORECASE)
GZIP_START = b"\x1f\x8b"
ZSTD_START = b"\x28\xb5\x2f\xfd"
BEFORE_MARKUP = b"\xef\xbb\xbf \t\r\n\f"
DEFLATE_STARTS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


class TooLarge(ValueError):
    """Raised if a body exceeds the size limit when it is decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An HTTP response.

    Attributes:
        status: The status code.
        media_type: The media type in lower case, without parameters; "" if not given.
        charset: The charset; "" if not given.
        transfer_encoding: In lower case; several codings are separated by commas.
        content_encoding: In lower case; several codings are separated by commas.
        body: The body, still encoded.
    """

    status: int
    media_type: str
    charset: str
    transfer_encoding: str
    content_encoding: str
    body: bytes


def read_response(record: ParsedRecord) -> Response:
    """Parse the HTTP response in a WARC response record. The body is not decoded.

    Raises:
        BadRecord: If there is no status line, or the head is too long.
    """
    try:
        head = read_head(record.block)
    except BadRecord as error:
        raise BadRecord(f"its HTTP head cannot be read: {error}") from error
    status = STATUS.fullmatch(head.first_line)
    if status is None or int(status[1]) > MAX_STATUS:
        raise BadRecord("its block has no HTTP status line")
    content_type = decode_western(head.get_first(b"content-type"))
    charset = CHARSET.search(content_type)
    return Response(
        status=int(status[1]),
        media_type=to_media_type(content_type),
        charset=charset[1] if charset else "",
        transfer_encoding=_join_values(head.get_values(b"transfer-encoding")),
        content_encoding=_join_values(head.get_values(b"content-encoding")),
        body=record.block[head.size_bytes :],
    )


def decode_body(response: Response, max_bytes: int) -> bytes:
    """Decode the body of a response: undo chunking and content codings. An unknown coding is ignored, as in browsers.

    Raises:
        TooLarge: If the result is longer than `max_bytes`.
        BadRecord: If the body is corrupt.
    """
    body = response.body
    if "chunked" in response.transfer_encoding:
        body = join_chunks(body)
    for coding in reversed(response.content_encoding.split(",")):
        body = _decode(body, coding.strip(), max_bytes)
    return body


def join_chunks(body: bytes) -> bytes:
    r"""Return the data of a chunked body. A body that is not chunked is returned unchanged.

    >>> join_chunks(b"4\r\nTwo \r\n3;x=y\r\nand\r\n0\r\n\r\n")
    b'Two and'
    >>> join_chunks(b"<html>")
    b'<html>'
    """
    data, position = bytearray(), 0
    while match := CHUNK.match(body, position):
        stop = match.end() + int(match[1], 16)
        if stop == match.end():
            return bytes(data)
        if body[stop : stop + 1].strip(b"\r\n"):
            return body if not data else bytes(data)
        data += body[match.end() : stop]
        position = stop + (2 if body.startswith(b"\r\n", stop) else 1)
    return bytes(data) if data else body


def _decode(body: bytes, coding: str, max_bytes: int) -> bytes:
    """Undo one content coding of a body. A body that is already markup is returned unchanged.

    Args:
        body: The bytes.
        coding: Name of the coding in lower case: "gzip", "deflate", "br" or "zstd". Other codings are ignored.
        max_bytes: Maximum length of the result.

    Raises:
        TooLarge: If the result is longer.
        BadRecord: If the body is corrupt.
    """
    try:
        if coding in ("gzip", "x-gzip") and body.startswith(GZIP_START):
            return _decompress_zlib(body, 31, max_bytes)
        if coding == "deflate":
            return _decompress_zlib(body, 15 if body.startswith(DEFLATE_STARTS) else -15, max_bytes)
        if coding == "br":
            return _read_all(BrotliReader(io.BytesIO(body)), max_bytes)
        if coding == "zstd" and body.startswith(ZSTD_START):
            return _read_all(ZstdReader(io.BytesIO(body)), max_bytes)
    except (zlib.error, OSError) as error:
        if not body.lstrip(BEFORE_MARKUP).startswith(b"<"):
            raise BadRecord(f"its {coding} body cannot be decoded: {error}") from error
    return body


def _decompress_zlib(body: bytes, wbits: int, max_bytes: int) -> bytes:
    """Decompress a zlib, raw deflate or gzip stream, including all members of a gzip stream.

    For a truncated stream, the bytes up to the truncation are returned.

    Args:
        body: The compressed bytes.
        wbits: The format, as in `zlib.decompressobj`: 15 for zlib, -15 for raw deflate, 31 for gzip.
        max_bytes: Maximum length of the result.

    Raises:
        TooLarge: If the result is longer.
        zlib.error: If the bytes are corrupt.
    """
    unpacked, at = bytearray(), 0
    while True:
        decompressor = zlib.decompressobj(wbits=wbits)
        while at < len(body) and not decompressor.eof:
            piece = body[at : at + INFLATE_BYTES]
            unpacked += decompressor.decompress(piece, max_bytes + 1 - len(unpacked))
            if len(unpacked) > max_bytes:
                raise TooLarge
            at += len(piece) - len(decompressor.unused_data)
        if not body.startswith(GZIP_START, at):
            return bytes(unpacked)


def _read_all(reader: BrotliReader | ZstdReader, max_bytes: int) -> bytes:
    """Read a decompressing stream to its end.

    Raises:
        TooLarge: If there are more than `max_bytes` bytes.
    """
    unpacked = reader.read(max_bytes + 1)
    if len(unpacked) > max_bytes:
        raise TooLarge
    return unpacked


def _join_values(values: list[bytes]) -> str:
    """Join the values of an HTTP field with commas, in lower case; "" if there are none."""
    return decode_western(b",".join(values)).lower()


KINDS = ("warcinfo", "request", "response", "resource", "metadata", "revisit", "conversion", "continuation")
MARKUP = re.compile(rb"<(!doctype\s+html|html|head|body|title|meta)\b", re.IGNORECASE)
PAGE_TYPES = ("text/html", "application/xhtml+xml")
IDENTITY_BYTES = 4_096  # of a record without an address: its head, which has the record's own id


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedPages:
    """Reads the records of a WARC archive. The fields are described at the `[[source]]` kind "cc-news"."""

    max_record_bytes: int
    hosts: tuple[str, ...] = ()
    blocked_hosts: tuple[str, ...] = ()
    first_day: str | None = None
    last_day: str | None = None
    truncated: bool = True
    min_whole: float = 0.0
    split: bool = True

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A `.gz` archive is cut every 1 MB if it is compressed record by record and `split` is True. Others are one
        slice.

        Raises:
            InputError: If the file is not a WARC archive, or its beginning is damaged.
        """
        try:
            is_warc, is_packed_by_record = inspect_first_member(parse_raw_path(file.path))
        except DamagedBytes as fault:
            raise _to_input_error(file, fault) from fault
        if not is_warc:
            raise InputError(f"{file.path} is no WARC archive: it does not begin with `WARC/`. Take it out of `path`.")
        if not (self.split and is_packed_by_record):
            return [slice_whole_file(file)]
        return cut_every(file, SLICE_BYTES)

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Each WARC record becomes one record, which is marked as dropped if it is not a web page.

        Args:
            piece: The slice.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the archive is damaged or truncated.
        """
        path = parse_raw_path(piece.file.path)
        try:
            for cut in read_archive(path, piece.start, piece.stop, self.max_record_bytes, tally):
                yield self.build_record(cut, piece.file, tally)
        except DamagedBytes as fault:
            raise _to_input_error(piece.file, fault) from fault

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes (head and block) of the WARC record at a locator that `records` yielded.

        Raises:
            InputError: If the bytes cannot be decompressed.
        """
        try:
            return read_record(file, locator.stream, locator.offset, locator.length)
        except DamagedBytes as fault:
            raise InputError(f"Cannot read {locator} again: {fault}. Get the file again.") from fault

    def build_record(self, cut: CutRecord, file: RawFile, tally: Tally) -> Record:
        """Build the record of a page from a WARC record. A rejected page yields a dropped record.

        Args:
            cut: The bytes of the WARC record.
            file: The archive.
            tally: Knows whether the record crashed earlier and must be skipped.
        """
        locator = Locator(file=file.name, sha256=file.sha256, stream=cut.stream, offset=cut.offset, length=cut.length)
        record = Record(locator=locator, text="", raw=cut.data[:IDENTITY_BYTES])
        if cut.fault:
            return record._replace(drop=Drop("damaged", f"it {cut.fault}", damaged=True))
        if drop := tally.enter(locator):
            return record._replace(drop=drop)
        try:
            parsed = parse_record(cut.data)
            head = parse_warc_head(parsed.head)
            host = find_host(head.url)
            drop = judge_kind(head, host)
            if drop is None:
                url = head.url.partition("#")[0]
                record = record._replace(key=url, revision=head.revision, url=url, date=head.crawl_day, group=host)
            content = drop or self._judge_head(head, host) or self._extract_content(parsed, head, cut.is_whole)
        except BadRecord as error:
            return record._replace(drop=Drop("damaged", str(error), damaged=True))
        if isinstance(content, Drop):
            return record._replace(drop=content)
        day = content.date or head.crawl_day
        if not self._is_in_range(day):
            return record._replace(title=content.title, date=day, drop=Drop("date", day))
        return record._replace(
            text=content.text,
            title=content.title,
            date=day,
            license=content.license,
            meta=_build_meta(head.truncated, content),
        )

    def _judge_head(self, head: WarcHead, host: str) -> Drop | None:
        """Return a `Drop` if a page has an unwanted host or was truncated by the crawler; None if it must be read."""
        if (self.hosts and not is_within(host, self.hosts)) or is_within(host, self.blocked_hosts):
            return Drop("host", host)
        if head.truncated and not self.truncated:
            return Drop("truncated", head.truncated)
        return None

    def _is_in_range(self, day: str) -> bool:
        """Return True if a day (YYYY-MM-DD) is between `first_day` and `last_day`."""
        return (self.first_day or "") <= day <= (self.last_day or "9999")

    def _extract_content(self, parsed: ParsedRecord, head: WarcHead, is_whole: bool) -> WebPage | Drop:
        """Extract the page of a WARC record, or return a `Drop` with the reason why there is none.

        Args:
            parsed: The record's head and block.
            head: The parsed fields of the head.
            is_whole: False if the record is longer than allowed, so that its block is incomplete.

        Raises:
            BadRecord: If the HTTP response is corrupt.
        """
        if head.kind == "conversion":
            return self._extract_plain_text(parsed, head, is_whole)
        response = read_response(parsed)
        if response.status != 200:
            return Drop("http status", str(response.status))
        if not (response.media_type in PAGE_TYPES or (not response.media_type and is_like_html(response.body))):
            return Drop("content type", response.media_type)
        if not is_whole:
            return self._drop_too_large()
        try:
            body = decode_body(response, self.max_record_bytes)
        except TooLarge:
            return self._drop_too_large()
        if not body.strip():
            return Drop("empty")
        html = decode_html(body, response.charset)
        page = extract_page(html.text, head.url, head.last_day)
        if isinstance(page, Refused):
            return Drop(page.reason, page.detail)
        if page.whole is not None and page.whole < self.min_whole:
            return Drop("text not whole", f"a chance of {page.whole:.2f}")
        return replace(page, num_replaced=html.num_replaced)

    def _extract_plain_text(self, parsed: ParsedRecord, head: WarcHead, is_whole: bool) -> WebPage | Drop:
        """Read a page from a WET archive, where it was converted to plain text with one block of the page per line.

        Args:
            parsed: The record's head and block.
            head: The parsed fields of the head.
            is_whole: False if the record is longer than allowed, so that its block is incomplete.

        Returns:
            The page; a `Drop` if the record is not plain text, is too large, or is empty.
        """
        if head.media_type != "text/plain":
            return Drop("content type", head.media_type)
        if not is_whole:
            return self._drop_too_large()
        text, _, num_replaced = decode_html(parsed.block, "utf-8")
        text = split_paragraphs(text)
        return WebPage(text=text, num_replaced=num_replaced) if text else Drop("empty")

    def _drop_too_large(self) -> Drop:
        """Return the `Drop` for a record or page that is longer than allowed."""
        return Drop("too large", f"over {self.max_record_bytes} bytes")


def judge_kind(head: WarcHead, host: str) -> Drop | None:
    """Return a `Drop` if the head of a WARC record shows that it is not a web page; None if it may be one.

    Args:
        head: The fields of the record's head.
        host: Host of its URL; "" if it has none.
    """
    if head.kind not in ("response", "conversion"):
        return Drop(f"not a page: {head.kind if head.kind in KINDS else 'unknown'}")
    if head.kind == "response" and head.media_type != "application/http":
        return Drop("not a page: response", head.media_type)
    return None if host else Drop("no address", head.url[:200])


def find_host(url: str) -> str:
    """Return the host of a web URL in lower case; "" for a URL with another scheme.

    Raises:
        BadRecord: If the URL cannot be parsed.

    >>> find_host("https://News.Example.org:8443/a#b"), find_host("dns:example.org")
    ('news.example.org', '')
    """
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme in ("http", "https") else ""
    except ValueError as error:
        raise BadRecord(f"its address cannot be read: {error}") from error


def is_within(host: str, hosts: tuple[str, ...]) -> bool:
    """Return True if a host is in `hosts` or is a subdomain of a host in `hosts`.

    >>> is_within("news.example.org", ("example.org",)), is_within("myexample.org", ("example.org",))
    (True, False)
    """
    return any(host == name or host.endswith("." + name) for name in hosts)


def is_like_html(body: bytes) -> bool:
    """Return True if the first 1,024 bytes of a body contain a tag such as `<html>` or `<title>`."""
    return bool(MARKUP.search(body[:1024]))


def _build_meta(truncated: str, content: WebPage) -> str | None:
    """Return the JSON for a record's `meta` field: facts about its page; None if there are none.

    Args:
        truncated: Why the crawler truncated the page; "" if it did not.
        content: The content extracted from the page.
    """
    facts = {"canonical": content.canonical, "lang": content.language, "replaced": content.num_replaced}
    facts["hidden"] = content.hidden
    kept: dict[str, object] = {key: value for key, value in (facts | {"truncated": truncated}).items() if value}
    kept |= {} if content.whole is None else {"whole": content.whole}
    return json.dumps(kept, sort_keys=True) if kept else None


def _to_input_error(file: RawFile, fault: DamagedBytes) -> InputError:
    """Build the InputError for a damaged archive. Its message names the file and the position of the damage."""
    return InputError(f"{file.path}: {fault} (seen at byte {fault.position} of {file.size_bytes}). {fault.remedy}")
