"""WARC archives: what becomes of each kind of record, bodies in every coding, slices, and every kind of damage."""

import gzip
import io
import json
import random
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from fastwarc.stream_io import BrotliWriter
from news_archives import SENTENCES, html, outcome, page, warc, write
from source_reading import read

from corpora.errors import InputError
from corpora.sources.contract import (
    Drop,
    Record,
)
from corpora.sources.web.archived_pages import join_chunks
from corpora.sources.web.source import CcNewsSource


def prose(name: str = "Ayr") -> str:
    return "\n\n".join(sentence.format(name) for sentence in SENTENCES)


def read_one(tmp_path: Path, record: bytes, **settings: object) -> Record:
    path = write(tmp_path / "one.warc.gz", [record])
    (found,) = read(CcNewsSource(path=path, **settings))  # type: ignore[arg-type]
    return found


def test_a_page_becomes_a_document(tmp_path: Path) -> None:
    head = '<meta property="article:published_time" content="2024-03-04T05:00:00Z"><link rel="license" href="https://l/by">'
    record = read_one(tmp_path, page(html(head=head), "https://News.Example.org/a?b=1#c"))
    assert record.drop is None
    assert record.text == prose()
    assert (record.title, record.date, record.license) == ("The bridge of Ayr", "2024-03-04", "https://l/by")
    assert record.key == record.url == "https://News.Example.org/a?b=1"
    assert (record.revision, record.group) == (20240305060708, "news.example.org")
    assert 0 < json.loads(record.meta or "")["whole"] <= 1 and len(json.loads(record.meta or "")) == 1


def test_without_a_date_it_is_the_day_of_the_crawl(tmp_path: Path) -> None:
    assert read_one(tmp_path, page(html())).date == "2024-03-05"
    assert read_one(tmp_path, page(html(), Date="2024-03-05")).date == "2024-03-05"


def test_a_date_is_no_later_than_anywhere_on_earth_at_the_crawl(tmp_path: Path) -> None:
    body = html(head='<meta property="article:published_time" content="2024-03-06T00:10:00">')
    assert read_one(tmp_path, page(body, Date="2024-03-05T10:00:00Z")).date == "2024-03-06"
    assert (read_one(tmp_path, page(body, Date="2024-03-05T09:59:59Z")).date or "") <= "2024-03-05"


@pytest.mark.parametrize(
    ("said", "revision"),
    [("2024-03-05T06:07:08.987654Z", 20240305060708), ("2024-03", 20240301000000), ("2024", 20240101000000)],
)
def test_dates_of_other_precision(tmp_path: Path, said: str, revision: int) -> None:
    assert read_one(tmp_path, page(html(), Date=said)).revision == revision


@pytest.mark.parametrize(
    "said", ["", "05/03/2024", "2024-02-30T00:00:00Z", "0000-01-01", "9999-12-31", "2024-03-05T06:07:08+01:00"]
)
def test_a_record_without_a_date_is_damaged(tmp_path: Path, said: str) -> None:
    drop = read_one(tmp_path, page(html(), Date=said)).drop
    assert drop is not None and drop.damaged and "WARC-Date" in drop.detail


@pytest.mark.parametrize(
    ("first", "last", "kept"),
    [(None, None, True), ("2024-03-04", "2024-03-04", True), ("2024-03-05", None, False), (None, "2024-03-03", False)],
)
def test_pages_of_other_days_are_dropped(tmp_path: Path, first: str | None, last: str | None, kept: bool) -> None:
    """Fails if a page's day is that of its crawl though it says its own, or a bound is left out or in."""
    head = '<meta property="article:published_time" content="2024-03-04T05:00:00Z">'
    path = write(tmp_path / "a.warc.gz", [page(html(head=head))])
    [record] = read(CcNewsSource(path=path, first_day=first, last_day=last))
    assert record.drop == (None if kept else Drop("date", "2024-03-04"))


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("frames", ["one", "each"])
def test_a_zstd_archive_is_read_as_the_plain_one(tmp_path: Path, frames: str) -> None:
    """Fails if a frame ends the reading, or a record cannot be found again."""
    records = [page(html(place)) + b"\r\n\r\n" for place in ("Ayr", "Troon", "Largs")]
    path = tmp_path / "a.warc.zst"
    path.write_bytes(zstd(b"".join(records)) if frames == "one" else b"".join(map(zstd, records)))
    source, plain = CcNewsSource(path=str(path)), CcNewsSource(path=write(tmp_path / "a.warc", [page(html("Ayr"))]))
    found = read(source)
    assert [record.text for record in found][:1] == [record.text for record in read(plain)] and len(found) == 3
    assert [source.raw_record(path, record.locator) + b"\r\n\r\n" for record in found] == records
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="zstd stream"):
        read(source)


def test_every_other_record_is_a_drop_with_its_reason(tmp_path: Path) -> None:
    empty = html()[: html().index("<nav>")] + "</body></html>"
    image = ("Content-Type: image/png",)
    records = {
        "not a page: warcinfo": warc("warcinfo", b"software: x\r\n"),
        "not a page: request": warc("request", b"GET / HTTP/1.1\r\n\r\n", Target_URI="https://a.example/"),
        "not a page: revisit": warc("revisit", b"HTTP/1.1 200 OK\r\n\r\n", Target_URI="https://a.example/"),
        "not a page: metadata": warc("metadata", b"fetchTimeMs: 5\r\n", Target_URI="https://a.example/"),
        "not a page: resource": warc("resource", html().encode(), Target_URI="https://a.example/"),
        "not a page: unknown": warc("screenshot", b"\x89PNG"),
        "not a page: response": warc("response", b"20240305\na. 1 IN A", Target_URI="dns:a", Content_Type="text/dns"),
        "no address": page(html(), url="urn:x:y"),
        "http status": page(html(), status="404 Not Found"),
        "content type": page(b"\x89PNG", http=image),
        "empty": page(" \n"),
        "no main text": page(empty),
        "damaged": page(html(), Date="yesterday"),
        "document": page(html()),
    }
    found = read(CcNewsSource(path=write(tmp_path / "a.warc.gz", list(records.values()))))
    assert [outcome(record) for record in found] == list(records)
    assert [record.drop.detail for record in found if record.drop][8:10] == ["404", "image/png"]
    assert [bool(record.drop and record.drop.damaged) for record in found].count(True) == 1
    assert len({(record.key, record.raw) for record in found}) == len(found)


@pytest.mark.parametrize("said", ["Application/HTTP", "application/http ;msgtype=response"])
def test_a_response_is_one_however_its_type_is_written(tmp_path: Path, said: str) -> None:
    """Fails if only the reader of archives, which is strict about it, knows what a response is."""
    found = read_one(tmp_path, page(html()).replace(b"application/http; msgtype=response", said.encode()))
    assert found.text == prose()
    again = page(html()).replace(b"WARC-Type: response\r\n", b"WARC-Type: response\r\n" * 3)
    assert outcome(read_one(tmp_path, again)) == "damaged"


def test_text_archives(tmp_path: Path) -> None:
    text = "Headline of the page\nFirst paragraph, caf\u00e9.\n\nSecond paragraph.\n".encode()
    more = {"Target_URI": "https://a.example/x", "Content_Type": "text/plain"}
    records = [warc("conversion", text, **more), warc("conversion", b"\n", **more)]
    records.append(warc("conversion", b"<p>", Target_URI="https://a.example/y", Content_Type="text/html"))
    first, *rest = read(CcNewsSource(path=write(tmp_path / "a.warc.wet.gz", records)))
    assert first.text == "Headline of the page\n\nFirst paragraph, caf\u00e9.\n\nSecond paragraph."
    assert (first.key, first.date, first.title) == ("https://a.example/x", "2024-03-05", None)
    assert [outcome(record) for record in rest] == ["empty", "content type"]


def test_hosts_with_their_subdomains(tmp_path: Path) -> None:
    urls = ["https://a.org/", "https://www.a.org/", "https://x.www.a.org:8443/", "https://ba.org/", "http://b.org/"]
    path = write(tmp_path / "a.warc.gz", [page(html(), url=url) for url in urls])

    def kept(**settings: tuple[str, ...]) -> list[str | None]:
        return [record.group for record in read(CcNewsSource(path=path, **settings)) if not record.drop]  # type: ignore[arg-type]

    assert len(kept()) == 5
    assert kept(hosts=("a.org",)) == ["a.org", "www.a.org", "x.www.a.org"]
    assert kept(blocked_hosts=("a.org",)) == ["ba.org", "b.org"]
    assert kept(hosts=("a.org", "b.org"), blocked_hosts=("www.a.org",)) == ["a.org", "b.org"]


def test_settings_are_what_determines_documents() -> None:
    settings = CcNewsSource(path="a").settings()
    assert settings == CcNewsSource(path="b", name="c", split=False).settings()
    assert settings != CcNewsSource(path="a", truncated=False).settings()
    hosts = ("a.org", "b.org")
    assert CcNewsSource(path="a", hosts=hosts).settings() == CcNewsSource(path="a", hosts=hosts[::-1]).settings()


def test_pages_cut_off_by_the_crawler_are_kept_and_marked(tmp_path: Path) -> None:
    record = page(html()[:-40], Truncated="length")
    found = read_one(tmp_path, record)
    assert found.text == prose() and json.loads(found.meta or "")["truncated"] == "length"
    assert outcome(read_one(tmp_path, record, truncated=False)) == "truncated"


def chunked(body: bytes, size: int = 700, extension: bytes = b"") -> bytes:
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks) + b"0\r\n\r\n"


class Kept(io.BytesIO):
    """Bytes that can still be read when the writer has closed them."""

    def close(self) -> None:
        """Nothing."""


def brotli(body: bytes) -> bytes:
    target = Kept()
    writer = BrotliWriter(target)
    writer.write(body)
    writer.close()
    return target.getvalue()


def raw_deflate(body: bytes) -> bytes:
    return zlib.compress(body)[2:-4]


BODY = html(more="<p>" + "A last paragraph of the report. " * 60 + "</p>").encode()


@pytest.mark.parametrize(
    ("codings", "body"),
    [
        (["Transfer-Encoding: chunked"], chunked(BODY)),
        (["Transfer-Encoding: chunked"], chunked(BODY, extension=b";name=value")),
        (["Transfer-Encoding: chunked"], BODY),
        (["Transfer-Encoding: chunked"], chunked(BODY)[: -len(b"\r\n0\r\n\r\n")]),
        (["Content-Encoding: gzip"], gzip.compress(BODY)),
        (["Content-Encoding: x-gzip"], gzip.compress(BODY[:500]) + gzip.compress(BODY[500:])),
        (["Content-Encoding: gzip"], gzip.compress(b"") * 2_000 + gzip.compress(BODY) + b"more"),
        (["Content-Encoding: gzip"], gzip.compress(BODY)[:-8]),
        (["Content-Encoding: gzip"], BODY),
        (["Content-Encoding: deflate"], zlib.compress(BODY)),
        (["Content-Encoding: deflate"], raw_deflate(BODY)),
        (["Content-Encoding: deflate"], BODY),
        (["Content-Encoding: br"], brotli(BODY)),
        (["Content-Encoding: br"], b"\xef\xbb\xbf" + BODY),
        (["Content-Encoding: deflate, gzip"], gzip.compress(zlib.compress(BODY))),
        (["Content-Encoding: klingon"], BODY),
        (["Transfer-Encoding: chunked", "Content-Encoding: gzip"], chunked(gzip.compress(BODY), 90)),
    ],
)
def test_bodies_are_decoded(tmp_path: Path, codings: list[str], body: bytes) -> None:
    plain = read_one(tmp_path, page(BODY))
    found = read_one(tmp_path, page(body, http=["Content-Type: text/html", *codings]))
    assert len(plain.text) > 2_000 and "paragraph of the report" in plain.text
    assert found.text == plain.text and found.drop is None


def test_a_body_that_is_not_in_its_coding_is_damaged(tmp_path: Path) -> None:
    http = ["Content-Type: text/html", "Content-Encoding: gzip"]
    body = bytearray(gzip.compress(BODY))
    body[40:60] = bytes(20)
    found = read_one(tmp_path, page(bytes(body), http=http))
    assert found.drop is not None and found.drop.damaged and "gzip body" in found.drop.detail


@pytest.mark.parametrize("seed", range(20))
def test_chunks_are_joined_however_they_are_cut(seed: int) -> None:
    choose = random.Random(seed)
    data = bytes(choose.choices(b"0a\r\n;<", k=choose.randrange(1, 300)))
    assert join_chunks(chunked(data, choose.randrange(1, 50))) == data


@pytest.mark.parametrize(("coding", "packed"), [("gzip", gzip.compress), ("br", brotli), ("deflate", zlib.compress)])
def test_what_becomes_too_large_is_dropped(tmp_path: Path, coding: str, packed: Callable[[bytes], bytes]) -> None:
    body = packed(b"<p>" + bytes(5_000_000))
    assert len(body) < 20_000
    http = ["Content-Type: text/html", f"Content-Encoding: {coding}"]
    assert outcome(read_one(tmp_path, page(body, http=http), max_record_bytes=100_000)) == "too large"


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_large_records_are_judged_by_their_head_and_never_read_whole(tmp_path: Path, name: str) -> None:
    large = b"<html>" + bytes(12_000_000)
    records = [page(large), page(large, http=["Content-Type: video/mp4"]), warc("resource", large), page(html())]
    source = CcNewsSource(path=write(tmp_path / name, records), max_record_bytes=50_000)
    read(source)  # so that what is imported and cached on the way is not counted below
    tracemalloc.start()
    found = read(source)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [outcome(record) for record in found] == ["too large", "content type", "not a page: resource", "document"]
    assert [record.locator.length for record in found] == [len(record) for record in records]
    assert peak_bytes < 4_000_000


def test_a_record_a_little_too_large_is_dropped_and_one_of_the_size_is_not(tmp_path: Path) -> None:
    record = page(html())
    size = len(record) - record.index(b"HTTP/1.1")
    assert outcome(read_one(tmp_path, record, max_record_bytes=size)) == "document"
    assert outcome(read_one(tmp_path, record, max_record_bytes=size - 1)) == "too large"
