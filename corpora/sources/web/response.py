"""The HTTP response in a WARC record: status, types, and the body as its sender meant it.

Promises: chunks are joined and gzip, deflate, brotli and zstd undone, never to more than `max_bytes`. Crawlers
store many bodies decoded under the heads of encoded ones, so a body that does not begin as its encoding does
is taken as it is; a body that ends too soon gives what there is of it.
Costs: zlib's and one copy.

Source: RFC 9112, section 7.1 (chunks); RFC 9110, section 8.4 (content codings).
"""

import io
import re
import zlib
from dataclasses import dataclass

from fastwarc.stream_io import BrotliReader, ZstdReader

from corpora.sources.bytes.faults import BadRecord
from corpora.sources.web.heads import read_head, western
from corpora.sources.web.warc import OpenedRecord, media_type

CHUNK = re.compile(rb"[ \t]*([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
STATUS = re.compile(rb"HTTP/[^ ]* \+?([0-9]+)(?: .*)?", re.DOTALL)
MOST_STATUS = (1 << 16) - 1
INFLATED_BYTES = 1 << 12  # at a time, for what follows a gzip member is copied
CHARSET = re.compile(r"charset\s*+=\s*+[\"']?\s*+([^\s\"';,]+)", re.IGNORECASE)
GZIP_START = b"\x1f\x8b"
ZSTD_START = b"\x28\xb5\x2f\xfd"
BEFORE_MARKUP = b"\xef\xbb\xbf \t\r\n\f"
DEFLATE_STARTS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


class TooLarge(ValueError):
    """A body that becomes larger than allowed when it is decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An HTTP response. media_type, charset: "" where the head does not say. body: still encoded."""

    status: int
    media_type: str
    charset: str
    transfer_encoding: str
    content_encoding: str
    body: bytes


def read_response(record: OpenedRecord) -> Response:
    """Take the block of a response record apart. Raises BadRecord for one without a status line."""
    try:
        head = read_head(record.block)
    except BadRecord as error:
        raise BadRecord(f"its HTTP head cannot be read: {error}") from error
    status = STATUS.fullmatch(head.first_line)
    if status is None or int(status[1]) > MOST_STATUS:
        raise BadRecord("its block has no HTTP status line")
    content_type = western(head.first(b"content-type"))
    charset = CHARSET.search(content_type)
    return Response(
        status=int(status[1]),
        media_type=media_type(content_type),
        charset=charset[1] if charset else "",
        transfer_encoding=_joined(head.values(b"transfer-encoding")),
        content_encoding=_joined(head.values(b"content-encoding")),
        body=record.block[head.size_bytes :],
    )


def decoded_body(response: Response, max_bytes: int) -> bytes:
    """The body without chunks and content codings. Raises TooLarge, and BadRecord for a broken coding.

    A coding of an unknown name is passed over, as browsers do.
    """
    body = response.body
    if "chunked" in response.transfer_encoding:
        body = join_chunks(body)
    for coding in reversed(response.content_encoding.split(",")):
        body = _decode(body, coding.strip(), max_bytes)
    return body


def join_chunks(body: bytes) -> bytes:
    r"""The data of a chunked body, or the body itself where it is not chunked.

    >>> join_chunks(b"4\r\nTwo \r\n3;x=y\r\nand\r\n0\r\n\r\n")
    b'Two and'
    >>> join_chunks(b"<html>")
    b'<html>'
    """
    joined, position = bytearray(), 0
    while match := CHUNK.match(body, position):
        stop = match.end() + int(match[1], 16)
        if stop == match.end():
            return bytes(joined)
        if body[stop : stop + 1].strip(b"\r\n"):
            return body if not joined else bytes(joined)
        joined += body[match.end() : stop]
        position = stop + (2 if body.startswith(b"\r\n", stop) else 1)
    return bytes(joined) if joined else body


def _decode(body: bytes, coding: str, max_bytes: int) -> bytes:
    """The body without one coding; the body itself where it is markup already, whatever the head says."""
    try:
        if coding in ("gzip", "x-gzip") and body.startswith(GZIP_START):
            return _inflate(body, 31, max_bytes)
        if coding == "deflate":
            return _inflate(body, 15 if body.startswith(DEFLATE_STARTS) else -15, max_bytes)
        if coding == "br":
            return _read_all(BrotliReader(io.BytesIO(body)), max_bytes)
        if coding == "zstd" and body.startswith(ZSTD_START):
            return _read_all(ZstdReader(io.BytesIO(body)), max_bytes)
    except (zlib.error, OSError) as error:
        if not body.lstrip(BEFORE_MARKUP).startswith(b"<"):
            raise BadRecord(f"its {coding} body cannot be decoded: {error}") from error
    return body


def _inflate(body: bytes, wbits: int, max_bytes: int) -> bytes:
    """A zlib, raw or gzip stream; of gzip all members."""
    unpacked, at = bytearray(), 0
    while True:
        decompressor = zlib.decompressobj(wbits=wbits)
        while at < len(body) and not decompressor.eof:
            piece = body[at : at + INFLATED_BYTES]
            unpacked += decompressor.decompress(piece, max_bytes + 1 - len(unpacked))
            if len(unpacked) > max_bytes:
                raise TooLarge
            at += len(piece) - len(decompressor.unused_data)
        if not body.startswith(GZIP_START, at):
            return bytes(unpacked)


def _read_all(reader: BrotliReader | ZstdReader, max_bytes: int) -> bytes:
    unpacked = reader.read(max_bytes + 1)
    if len(unpacked) > max_bytes:
        raise TooLarge
    return unpacked


def _joined(values: list[bytes]) -> str:
    return western(b",".join(values)).lower()
