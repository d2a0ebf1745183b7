"""WARC archives: what becomes of each kind of record, bodies in every coding, slices, and every kind of damage."""

import gzip
import io
import json
import random
import re
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from fastwarc.stream_io import BrotliWriter

from corpora.errors import InputError
from corpora.sources import cc_news
from corpora.sources.cc_news import CcNewsSource
from corpora.sources.source import (
    Drop,
    RawFile,
    Record,
    Slice,
    StatCache,
    Tally,
    group_slices,
    hash_files,
    quarantine_place,
)
from corpora.sources.warc import CutRecord, read_archive
from corpora.sources.warc_http import join_chunks
from corpora.sources.warc_members import ArchiveFault

MENU = "<nav><ul><li><a href='/'>Home</a></li><li><a href='/sport'>Sport pages</a></li></ul></nav>"
FOOT = "<footer><p>All rights reserved by the owners of this site.</p></footer>"
SENTENCES = (
    "The council of {0} voted on Monday to mend the old bridge before the winter comes.",
    "Nobody in {0} could remember when the river had last stood so high, the mayor said.",
    "Work begins in the spring, when the water is low enough for the masons to reach the piers.",
)


def html(name: str = "Ayr", more: str = "", head: str = "") -> str:
    body = "".join(f"<p>{sentence.format(name)}</p>\n" for sentence in SENTENCES)
    return (
        f"<!DOCTYPE html>\n<html><head><title>{name} | The Paper</title>{head}</head><body>{MENU}"
        f"<article><h1>The bridge of {name}</h1>{body}{more}</article>{FOOT}</body></html>"
    )


def prose(name: str = "Ayr") -> str:
    return "\n\n".join([f"The bridge of {name}", *(sentence.format(name) for sentence in SENTENCES)])


def warc(kind: str, block: bytes = b"", end: str = "\r\n", **more: str) -> bytes:
    """A record without the two line ends after it. A keyword `Target_URI` is the header `WARC-Target-URI`."""
    fields = {"Date": "2024-03-05T06:07:08Z", "Record_ID": f"<urn:{zlib.crc32(block)}>"}
    fields |= {"Content_Length": str(len(block)), **more}
    prefixes = {name: "" if name.startswith("Content") else "WARC-" for name in fields}
    headers = [f"{prefixes[name]}{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return end.join(["WARC/1.0", f"WARC-Type: {kind}", *headers, "", ""]).encode() + block


def page(
    body: bytes | str = "",
    url: str = "https://news.example.org/a",
    status: str = "200 OK",
    http: Sequence[str] = ("Content-Type: text/html; charset=utf-8",),
    **more: str,
) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = "\r\n".join([f"HTTP/1.1 {status}", *http, "", ""]).encode()
    return warc("response", head + data, Target_URI=url, Content_Type="application/http; msgtype=response", **more)


def write(path: Path, records: Sequence[bytes]) -> str:
    """An archive: `.gz` with a member for each record, `-one.gz` with one member for all, else plain."""
    ended = [record + b"\r\n\r\n" for record in records]
    if path.name.endswith("-one.warc.gz"):
        path.write_bytes(gzip.compress(b"".join(ended), mtime=0))
    else:
        pack = path.name.endswith(".gz")
        path.write_bytes(b"".join(gzip.compress(record, mtime=0) if pack else record for record in ended))
    return str(path)


def raw(source: CcNewsSource) -> RawFile:
    (file,) = hash_files(source.files(), StatCache())
    return file


def read(source: CcNewsSource, pieces: Sequence[Slice] | None = None) -> list[Record]:
    """All records, the tally checked."""
    tally = Tally()
    slices = source.slices(raw(source)) if pieces is None else pieces
    records = [record for piece in slices for record in source.records(piece, tally)]
    assert tally.records == len(records)
    return records


def read_one(tmp_path: Path, record: bytes, **settings: object) -> Record:
    path = write(tmp_path / "one.warc.gz", [record])
    (found,) = read(CcNewsSource(path=path, **settings))  # type: ignore[arg-type]
    return found


def outcome(record: Record) -> str:
    return record.drop.reason if record.drop else "document"


def cut(path: Path) -> list[CutRecord]:
    """All records of an archive, the tally checked."""
    tally = Tally()
    records = list(read_archive(path, 0, max(1, path.stat().st_size), 1 << 20, tally))
    assert tally.records == len(records)
    return records


def test_a_page_becomes_a_document(tmp_path: Path) -> None:
    head = '<meta property="article:published_time" content="2024-03-04T05:00:00Z"><link rel="license" href="https://l/by">'
    record = read_one(tmp_path, page(html(head=head), "https://News.Example.org/a?b=1#c"))
    assert record.drop is None
    assert record.text == prose()
    assert (record.title, record.date, record.license) == ("The bridge of Ayr", "2024-03-04", "https://l/by")
    assert record.key == record.url == "https://News.Example.org/a?b=1"
    assert (record.revision, record.group, record.meta) == (20240305060708, "news.example.org", None)


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


def test_a_later_crawl_is_a_later_revision_of_one_key(tmp_path: Path) -> None:
    records = [page(html("Ayr")), page(html("Troon"), Date="2024-03-05T06:07:09Z")]
    first, second = read(CcNewsSource(path=write(tmp_path / "a.warc.gz", records)))
    assert first.key == second.key and first.text != second.text
    assert first.revision is not None and second.revision is not None and first.revision < second.revision


@pytest.mark.parametrize(
    ("first", "last", "kept"),
    [(None, None, True), ("2024-03-04", "2024-03-04", True), ("2024-03-05", None, False), (None, "2024-03-03", False)],
)
def test_pages_of_other_days_are_dropped(tmp_path: Path, first: str | None, last: str | None, kept: bool) -> None:
    """Fails where a page's day is that of its crawl though it says its own, or a bound is left out or in."""
    head = '<meta property="article:published_time" content="2024-03-04T05:00:00Z">'
    path = write(tmp_path / "a.warc.gz", [page(html(head=head))])
    [record] = read(CcNewsSource(path=path, first_day=first, last_day=last))
    assert record.drop == (None if kept else Drop("date", "2024-03-04"))


def test_what_is_no_day_is_refused() -> None:
    with pytest.raises(InputError, match="last_day = '2024-02-30' is no day"):
        CcNewsSource(path="a.warc.gz", last_day="2024-02-30")


def test_a_page_in_quarantine_is_passed_over(tmp_path: Path) -> None:
    """Fails where a page is parsed although the lock says that it ended its worker."""
    source = CcNewsSource(path=write(tmp_path / "a.warc.gz", [page(html("Ayr")), page(html("Troon"))]))
    first, second = read(source)
    [(name, path)] = source.files()
    file = RawFile(name=name, sha256=first.locator.sha256, size_bytes=path.stat().st_size, path=str(path))
    tally = Tally([quarantine_place(second.locator)])
    again = [record for piece in source.slices(file) for record in source.records(piece, tally)]
    assert again[0] == first and again[1].drop is not None and again[1].drop.reason == "quarantined"


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("frames", ["one", "each"])
def test_a_zstd_archive_is_read_as_the_plain_one(tmp_path: Path, frames: str) -> None:
    """Fails where a frame ends the reading, or a record cannot be found again."""
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
    """Fails where only the reader of archives, which is strict about it, knows what a response is."""
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
    with pytest.raises(InputError, match=r"'https://a\.org' in `hosts`"):
        CcNewsSource(path=path, hosts=("https://a.org",))


def test_settings_are_what_determines_documents() -> None:
    settings = CcNewsSource(path="a").settings()
    assert settings == CcNewsSource(path="b", name="c", split=False).settings()
    assert settings != CcNewsSource(path="a", truncated=False).settings()
    hosts = ("a.org", "b.org")
    assert CcNewsSource(path="a", hosts=hosts).settings() == CcNewsSource(path="a", hosts=hosts[::-1]).settings()


def test_pages_cut_off_by_the_crawler_are_kept_and_marked(tmp_path: Path) -> None:
    record = page(html()[:-40], Truncated="length")
    found = read_one(tmp_path, record)
    assert found.text == prose() and json.loads(found.meta or "") == {"truncated": "length"}
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


SMALL = [
    warc("warcinfo", b"software: x\r\n"),
    warc("request", b"GET / HTTP/1.1\r\n\r\n", Target_URI="https://a.example/"),
    warc("metadata", b""),
    warc("metadata", b"a: b\r\n\r\nWARC/1.0\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n"),
]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "a-one.warc.gz"])
def test_locators_lead_back_to_the_record(tmp_path: Path, name: str) -> None:
    records = [*SMALL, page(html())]
    source = CcNewsSource(path=write(tmp_path / name, records))
    found = read(source)
    path = Path(raw(source).path)
    assert [source.raw_record(path, record.locator) for record in found] == records
    streams = {record.locator.stream for record in found}
    assert len(streams) == (5 if name == "a.warc.gz" else 1) and (-1 in streams) == (name == "a.warc")
    for stream in streams - {-1}:
        assert path.read_bytes()[stream:].startswith(b"\x1f\x8b")


def test_a_line_of_a_page_that_looks_like_a_head_is_no_record(tmp_path: Path) -> None:
    quoted = html(more="<pre>\nWARC/1.0\r\nWARC-Type: request\r\n\r\nWARC/1.0\n</pre>")
    for name in ("a.warc", "a.warc.gz", "a-one.warc.gz"):
        found = read(CcNewsSource(path=write(tmp_path / name, [page(quoted), page(quoted), *SMALL])))
        assert Counter(map(outcome, found))["document"] == 2 and len(found) == 6


def test_line_ends_and_gaps_of_other_writers(tmp_path: Path) -> None:
    records = [warc("metadata", b"a: b\n", end="\n"), warc("request", b"GET /\n"), page(html())]
    path = tmp_path / "a.warc"
    path.write_bytes(b"\n".join(records))
    assert [outcome(record) for record in read(CcNewsSource(path=str(path)))][2] == "document"
    padded = tmp_path / "b.warc.gz"
    padded.write_bytes(b"".join(map(gzip.compress, records)) + bytes(300_000))
    assert [outcome(record) for record in read(CcNewsSource(path=str(padded)))][2] == "document"


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "a-one.warc.gz"])
def test_a_file_cut_off_anywhere_is_noticed(tmp_path: Path, name: str) -> None:
    """Every byte at which an archive can end: it is refused, or it ends between two whole records."""
    path = tmp_path / name
    whole = Path(write(path, SMALL)).read_bytes()
    records = cut(path)
    starts = {record.stream for record in records}
    ends = {record.offset + record.length for record in records}
    allowed = {"a.warc": {0} | {end + more for end in ends for more in range(5)}, "a.warc.gz": starts}.get(name, {0})
    accepted = set()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        try:
            found = cut(path)
        except ArchiveFault as fault:
            assert fault.position <= size
        else:
            assert [(record.data, record.fault) for record in found] == [(r.data, "") for r in records[: len(found)]]
            accepted.add(size)
    assert accepted == allowed - {len(whole)}


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "a-one.warc.gz"])
def test_a_cut_off_archive_is_refused_with_its_remedy(tmp_path: Path, name: str) -> None:
    path = Path(write(tmp_path / name, [*SMALL, page(html())]))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=rf"{name}: .*seen at byte \d+ of {path.stat().st_size}\).*Get the file again"):
        read(CcNewsSource(path=str(path)))


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.warc.gz", [warc("warcinfo"), page(html()), page(html())]))
    data = bytearray(path.read_bytes())
    second = cut(path)[1].stream
    data[second + 200] ^= 0x10
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=f"gzip member at byte {second} is damaged"):
        read(CcNewsSource(path=str(path)))
    path.write_bytes(bytes(data[:second]) + b"no member" + bytes(data[second:]))
    with pytest.raises(InputError, match=f"no gzip member begins at byte {second}"):
        read(CcNewsSource(path=str(path)))


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (warc("response", b"x" * 50, Content_Length="40"), "goes on after"),
        (warc("response", b"x" * 50, Content_Length="9000"), "ends before"),
        (warc("response", b"x" * 50).replace(b"Content-Length", b"Length"), "without end or Content-Length"),
        (b"no record at all", "does not begin"),
        (b"WARC/1.0\r\n" + b"A: b\r\n" * 20_000, "without end"),
    ],
)
def test_a_broken_record_costs_itself_alone(tmp_path: Path, broken: bytes, why: str) -> None:
    good = page(html())
    records = read(CcNewsSource(path=write(tmp_path / "a.warc.gz", [good, broken, good])))
    assert [outcome(record) for record in records] == ["document", "damaged", "document"]
    drop = records[1].drop
    assert drop is not None and drop.damaged and why in drop.detail
    for name in ("a.warc", "a-one.warc.gz"):  # where nothing but its length says where the next one begins
        with pytest.raises(InputError, match=re.escape(why)):
            read(CcNewsSource(path=write(tmp_path / name, [good, broken, good])))


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    for data in (b"", gzip.compress(b"some text"), b"some text", gzip.compress(b"WARC/1.0 x")[:20]):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"a\.warc\.gz"):
            read(CcNewsSource(path=str(path)))
    with pytest.raises(InputError, match=r"\.warc\.gz"):
        CcNewsSource(path=str(Path(__file__))).files()


def many(count: int) -> list[bytes]:
    choose = random.Random(3)
    blocks = [bytes(choose.choices(range(256), k=choose.randrange(10, 4_000))) for _ in range(count)]
    return [warc("metadata", block, Target_URI=f"https://a.example/{n}") for n, block in enumerate(blocks)]


@pytest.mark.parametrize("slice_bytes", [100, 1_000, 7_000, 100_000])
def test_slices_give_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_bytes: int) -> None:
    records = many(60)
    source = CcNewsSource(path=write(tmp_path / "a.warc.gz", records))
    monkeypatch.setattr(cc_news, "SLICE_BYTES", slice_bytes)
    slices = source.slices(raw(source))
    assert len(slices) == -(-raw(source).size_bytes // slice_bytes) > 1
    whole = read(CcNewsSource(path=source.path, split=False))
    assert [record.locator for record in read(source, slices)] == [record.locator for record in whole]
    assert [source.raw_record(Path(source.path), record.locator) for record in whole] == records
    for group in group_slices(slices, 3 * slice_bytes):
        inside = [record for record in whole if group[0].start <= record.locator.stream < group[-1].stop]
        assert read(source, group) == inside


def test_other_archives_are_one_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cc_news, "SLICE_BYTES", 1_000)
    for name in ("a.warc", "a-one.warc.gz"):
        source = CcNewsSource(path=write(tmp_path / name, many(20)))
        assert len(source.slices(raw(source))) == 1


def test_an_archive_in_an_archive_is_never_cut_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored archive shows the members of its own in the file's bytes: wherever the file is cut, it is seen."""
    inner = b"".join(gzip.compress(record + b"\r\n\r\n") for record in many(20))
    parts = [*many(5), warc("resource", inner), *many(8)]
    path = tmp_path / "a.warc.gz"
    path.write_bytes(b"".join(gzip.compress(part + b"\r\n\r\n", compresslevel=0) for part in parts))
    whole = read(CcNewsSource(path=str(path), split=False))
    assert len(whole) == len(parts)
    refused = 0
    sizes = range(1_500, 90_000, 4_000)
    for slice_bytes in sizes:
        monkeypatch.setattr(cc_news, "SLICE_BYTES", slice_bytes)
        source = CcNewsSource(path=str(path))
        try:
            assert read(source) == whole
        except InputError as error:
            assert "split = false" in str(error)
            refused += 1
    assert 0 < refused < len(sizes)


def test_slices_do_not_pass_over_damage_at_their_border(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(write(tmp_path / "a.warc.gz", many(40)))
    streams = [record.stream for record in cut(path)]
    data = bytearray(path.read_bytes())
    data[streams[20]] ^= 0xFF
    path.write_bytes(bytes(data))
    for slice_bytes in (streams[20], streams[20] - 1, streams[20] + 1, 5_000):
        monkeypatch.setattr(cc_news, "SLICE_BYTES", slice_bytes)
        with pytest.raises(InputError, match=r"(G|g)et the file again"):
            read(CcNewsSource(path=str(path)))


def test_a_page_gives_the_same_text_whatever_came_before(tmp_path: Path) -> None:
    same = "<p>This very paragraph stands in every page, and is more than fifty characters long.</p>"
    pages = {f"https://a.example/{n}": page(html(f"Town {n}", same), f"https://a.example/{n}") for n in range(12)}
    texts = []
    for seed in range(4):
        order = random.Random(seed).sample(sorted(pages), len(pages))
        path = write(tmp_path / "a.warc.gz", [pages[url] for url in order])
        texts.append({record.key: record.text for record in read(CcNewsSource(path=path))})
    assert len(texts) == 4 and all(text == texts[0] for text in texts)
    assert all("stands in every page" in text for text in texts[0].values())


def response_count(path: Path) -> int:
    """Records of type response, counted in the bytes."""
    return len(re.findall(rb"^WARC-Type: response\r$", gzip.decompress(path.read_bytes()), re.MULTILINE))


@pytest.fixture(scope="module")
def sample(shared: Path) -> dict[Path, list[Record]]:
    """The records of each archive of the sample."""
    source = CcNewsSource(path=str(shared / "data" / "sample" / "cc-news" / "warc"))
    return {Path(file.path): read(source, source.slices(file)) for file in hash_files(source.files(), StatCache())}


def test_sample_archives(sample: dict[Path, list[Record]]) -> None:
    for path, records in sample.items():
        documents = [record for record in records if record.drop is None]
        assert len(documents) == response_count(path) == len(records) - 1
        assert all(record.text and record.title and record.date and record.group for record in documents)
        for record in records:
            found = CcNewsSource(path=str(path)).raw_record(path, record.locator)
            assert found.startswith(b"WARC/1.0\r\n") and (record.url or "").encode() in found
    assert list(map(len, sample.values())) == [7, 69]


def test_genuine_archives(shared: Path) -> None:
    """Every record of archives that real crawlers wrote is accounted for, and none is damaged."""
    total: Counter[str] = Counter()
    source = CcNewsSource(path=str(shared / "data" / "cc-news" / "warc-genuine"))
    for file in hash_files(source.files(), StatCache()):
        data = Path(file.path).read_bytes()
        plain = gzip.decompress(data) if file.path.endswith(".gz") else data
        records = read(source, source.slices(file))
        assert len(records) == len(re.findall(rb"^WARC/1\.0\r$", plain, re.MULTILINE))
        assert [source.raw_record(Path(file.path), record.locator) in plain for record in records].count(False) == 0
        total.update(map(outcome, records))
    assert total.total() == 682 and total["document"] == 66
    assert total["not a page: revisit"] > 100 and total["damaged"] == 0


def four_grams(text: str) -> Counter[tuple[str, ...]]:
    words = re.findall(r"\w+", text)
    return Counter(zip(words, words[1:], words[2:], words[3:], strict=False))


def f1(found: str, gold: str) -> float:
    ours, theirs = four_grams(found), four_grams(gold)
    return 2 * (ours & theirs).total() / (ours.total() + theirs.total())


def test_main_text_against_the_marked_one(shared: Path, sample: dict[Path, list[Record]]) -> None:
    """Mean 4-gram F1 over the pages of the sample: .940 when this was written."""
    lines = (
        (shared / "data" / "sample" / "cc-news" / "gold" / "news-sample.jsonl").read_text(encoding="utf-8").splitlines()
    )
    gold = {row["url"].partition("#")[0]: row["text"] for row in map(json.loads, lines)}
    texts = {record.key: record.text for records in sample.values() for record in records if record.drop is None}
    scores = [f1(texts[url], text) for url, text in gold.items()]
    assert len(scores) == 68
    assert sum(scores) / len(scores) > 0.935
