"""Packs the pages of the sample into a WARC archive of the form that CC-News has.

Promises that the records are a function of `crawl.toml` and the page files alone: no date, host or folder
enters them, and record ids are made of address and time. What gzip makes of a record may differ from one
zlib to another. Costs 20 ms. `python tests/corpora/samples/pack_cc_news.py` rewrites the archive
if a record is another.

The form is WARC 1.0 (ISO 28500:2009), each record a gzip member of its own, as its annex D recommends; an
unchanged page is a `revisit` record with headers alone. A body is sent as HTTP has it (RFC 9112, section 7.1
for chunks).
"""

import base64
import codecs
import hashlib
import struct
import tomllib
import uuid
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

FOLDER = Path(__file__).resolve().parents[3] / "corpora" / "samples" / "cc_news"
ARCHIVE_NAME = "CC-NEWS-20260103000000-00000.warc.gz"
STARTED = "2026-01-03T00:00:00Z"

REVISIT_PROFILE = "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest"
CHUNK_BYTES = 1500
STORED_BYTES = 0xFFFF  # the longest stored block (RFC 1951, section 3.2.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One visit of the crawler: a `[[visit]]` of crawl.toml.

    url, time:    where and when
    content_type: as the server says, true or not
    page:         the file in `pages/` that came back; without one, the body is empty
    encoding:     in which the page, kept in UTF-8, is sent; utf-16 with its byte order mark
    status:       of the HTTP answer
    compressed:   send the body through gzip and in chunks
    request:      keep a record of the request as well
    first_seen:   time of an earlier visit that brought the same: a revisit
    """

    url: str
    time: str
    content_type: str
    page: str = ""
    encoding: str = "utf-8"
    status: str = "200 OK"
    compressed: bool = False
    request: bool = False
    first_seen: str = ""


def read_visits(path: Path) -> list[Visit]:
    """The visits of a crawl file, in order."""
    return [Visit(**table) for table in tomllib.loads(path.read_text(encoding="utf-8"))["visit"]]


def page_body(visit: Visit, pages: Path) -> bytes:
    """The bytes of a page as its server encodes them."""
    data = (pages / visit.page).read_bytes() if visit.page else b""
    if visit.encoding == "utf-8":
        return data
    mark, encoding = (codecs.BOM_UTF16_LE, "utf-16-le") if visit.encoding == "utf-16" else (b"", visit.encoding)
    return mark + data.decode("utf-8").encode(encoding)


def http_request(visit: Visit) -> bytes:
    """The request that the crawler sent."""
    address = urlsplit(visit.url)
    return _head(
        f"GET {address.path} HTTP/1.1",
        {"Host": address.netloc, "User-Agent": "samplebot/1.0", "Accept": "text/html", "Accept-Encoding": "gzip"},
    )


def http_response(visit: Visit, payload: bytes) -> bytes:
    """The answer of the server, with the payload (the body, in gzip or not) as it went over the wire."""
    headers = {"Server": "example", "Content-Type": visit.content_type}
    if visit.compressed:
        headers |= {"Content-Encoding": "gzip", "Transfer-Encoding": "chunked"}
        payload = chunked(payload)
    else:
        headers |= {"Content-Length": str(len(payload))}
    return _head(f"HTTP/1.1 {visit.status}", headers) + payload


def _head(first: str, headers: dict[str, str]) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def gzip_stored(data: bytes) -> bytes:
    """A gzip stream that stores instead of compressing: its bytes depend on no version of zlib.

    >>> zlib.decompress(gzip_stored(b"news"), wbits=31)
    b'news'
    """
    stored = b""
    for start in range(0, max(len(data), 1), STORED_BYTES):
        block = data[start : start + STORED_BYTES]
        is_last = start + STORED_BYTES >= len(data)
        stored += struct.pack("<BHH", is_last, len(block), len(block) ^ 0xFFFF) + block
    # Deflate, no flags, no time, no extra flags, unknown system (RFC 1952, section 2.3).
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + stored + struct.pack("<II", zlib.crc32(data), len(data))


def chunked(data: bytes) -> bytes:
    """A body in chunks, each after its length in hexadecimal.

    >>> chunked(b"news")
    b'4\\r\\nnews\\r\\n0\\r\\n\\r\\n'
    """
    chunks = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])


def archive_records(visits: Sequence[Visit], pages: Path) -> Iterator[bytes]:
    """Every record of the archive, uncompressed: the archive's own, then those of each visit."""
    # The program's name is of the sample's first day, and part of its bytes.
    info = f"software: corpora.samples.cc_news.pack\r\nisPartOf: {ARCHIVE_NAME}\r\nformat: WARC File Format 1.0\r\n"
    yield warc_record(
        "warcinfo", "", STARTED, "application/warc-fields", info.encode("ascii"), {"WARC-Filename": ARCHIVE_NAME}
    )
    for visit in visits:
        if visit.request:
            yield warc_record(
                "request", visit.url, visit.time, "application/http; msgtype=request", http_request(visit)
            )
        yield _answer(visit, page_body(visit, pages))


def _answer(visit: Visit, body: bytes) -> bytes:
    """The response record of a visit, or its revisit record where nothing had changed."""
    payload = gzip_stored(body) if visit.compressed else body
    response = http_response(visit, payload)
    more = {"WARC-Payload-Digest": digest(payload)}
    kind = "response"
    if visit.first_seen:
        kind = "revisit"
        response = response.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        more |= {"WARC-Profile": REVISIT_PROFILE, "WARC-Refers-To-Target-URI": visit.url}
        more |= {"WARC-Refers-To-Date": visit.first_seen}
    return warc_record(kind, visit.url, visit.time, "application/http; msgtype=response", response, more)


def warc_record(
    kind: str, url: str, time: str, content_type: str, block: bytes, more: dict[str, str] | None = None
) -> bytes:
    """One record, with the named fields `more` after the usual ones."""
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url} {time}")
    headers = {"WARC-Type": kind, "WARC-Date": time, "WARC-Record-ID": f"<urn:uuid:{identity}>"}
    headers |= {"WARC-Target-URI": url} if url else {}
    headers |= {"Content-Type": content_type, "Content-Length": str(len(block)), "WARC-Block-Digest": digest(block)}
    return _head("WARC/1.0", headers | (more or {})) + block + b"\r\n\r\n"


def digest(data: bytes) -> str:
    """SHA-1 as archives write it, to the base 32.

    >>> digest(b"")
    'sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ'
    """
    return "sha1:" + base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode("ascii")


def gzip_member(record: bytes) -> bytes:
    """A gzip member without name or time."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    return compressor.compress(record) + compressor.flush()


def pack(folder: Path) -> bytes:
    """The archive of a folder that has a crawl.toml and its pages."""
    visits = read_visits(folder / "crawl.toml")
    return b"".join(map(gzip_member, archive_records(visits, folder / "pages")))


def unpack(data: bytes) -> list[bytes]:
    """Return the records of an archive, each from a gzip member of its own."""
    records = []
    while data:
        member = zlib.decompressobj(wbits=31)
        records.append(member.decompress(data))
        assert member.eof
        data = member.unused_data
    return records


if __name__ == "__main__":
    # If the records are the same the archive stays: another zlib may compress otherwise.
    packed = pack(FOLDER)
    if unpack((FOLDER / ARCHIVE_NAME).read_bytes()) != unpack(packed):
        (FOLDER / ARCHIVE_NAME).write_bytes(packed)
