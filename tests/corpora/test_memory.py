"""Memory is bounded whatever comes: each reading is a process of its own, and the most it held is measured.

Files are as long as they say, but hold holes, repetitions or a pipe's other end: next to nothing is on disk. What takes
more than a few seconds is marked long.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import subprocess
import sys
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
READER = Path(__file__).with_name("read_in_process.py")
MOST_BYTES = 1_000_000_000  # that a worker may hold
MB = 1_000_000
WORDS = (
    "the keeper of the lighthouse and his cat watch over a quiet bay that they know well while boats with oars have "
    "come in from the sea to be counted before evening because nobody remembered which of them was missing"
).split()


def prose(num_words: int, seed: int = 1) -> str:
    """Sentences that the rules keep."""
    words = random.Random(seed).choices(WORDS, k=num_words)
    return " ".join(f"The {' '.join(words[start : start + 11])}." for start in range(0, num_words, 11))


def measure(table: dict[str, Any], size_bytes: int = 0, judge_every: int = 1) -> Any:
    """Return what a separate process makes of a source, and check that it stayed within a worker's memory."""
    done = subprocess.run(
        [sys.executable, str(READER), json.dumps(table), str(size_bytes), str(judge_every)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["begun_bytes"] < found["peak_bytes"] < MOST_BYTES, found
    assert found["refused"] or found["records"] == found["rows"]
    return found


@contextmanager
def piped(path: Path, content: Callable[[], Iterator[bytes]]) -> Iterator[None]:
    """A pipe at `path` that gives this content to whoever opens it, each time from its beginning.

    Each opening has a pipe of its own: the next one lies ready before the first byte goes into this one.
    """
    ended = threading.Event()

    def serve() -> None:
        os.mkfifo(path)
        while True:
            with path.open("wb", buffering=0) as pipe:  # waits for a reader
                following = path.with_suffix(".next")
                os.mkfifo(following)
                following.replace(path)
                if ended.is_set():
                    return
                with suppress(BrokenPipeError):
                    for piece in content():
                        pipe.write(piece)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    try:
        yield
    finally:
        ended.set()
        path.open("rb").close()
        server.join(10)


def write_all(fd: Any, pieces: Iterator[bytes]) -> None:
    for piece in pieces:
        fd.write(piece)


# A dump of MediaWiki

DUMP_HEAD = b'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">\n'
DUMP_END = b"</mediawiki>\n"
PAGE = (
    "<page><title>{title}</title><ns>{ns}</ns><id>{id}</id><revision><id>7</id><text>{text}</text></revision></page>\n"
)


def dump_block() -> tuple[bytes, int, int]:
    """(1 MB of a dump, its pages, those that become documents): most of it templates, which take no parsing."""
    template = "{{Navbox|" + "x" * 70_000 + "}}"
    pages = [PAGE.format(title=f"Template:N{n}", ns=10, id=n, text=template) for n in range(12)]
    pages += [PAGE.format(title=f"R{n}", ns=0, id=n, text=f"#REDIRECT [[Bay {n}]]") for n in range(20)]
    text = "'''Bay''' is a [[sea|bay]].&lt;ref&gt;x&lt;/ref&gt; "
    text += "".join(f"{prose(700, seed)}\n\n== Boats of {seed} ==\n" for seed in range(14))
    pages += [PAGE.format(title=f"Bay {n}", ns=0, id=100 + n, text=text) for n in range(3)]
    return "".join(pages).encode(), len(pages), 3


@pytest.mark.parametrize(
    "megabytes", [100, pytest.param(2_200, marks=pytest.mark.long)], ids=lambda megabytes: f"{megabytes}MB"
)
def test_a_dump_from_a_pipe(tmp_path: Path, megabytes: int) -> None:
    """Fails if memory grows with a dump, or a page of it gets lost. Of the long one every 20th batch is judged."""
    block, pages, articles = dump_block()
    times = megabytes * MB // len(block) + 1
    size = len(DUMP_HEAD) + times * len(block) + len(DUMP_END)
    assert size >= megabytes * MB
    judge_every = 1 if megabytes < 1000 else 20
    with piped(tmp_path / "d.xml", lambda: chain([DUMP_HEAD], repeat(block, times), [DUMP_END])):
        found = measure({"kind": "wikipedia", "path": str(tmp_path / "d.xml")}, size, judge_every)
    assert (found["refused"], found["records"], found["damaged"]) == ("", times * pages, 0)
    if judge_every == 1:
        assert found["documents"] == times * articles
        assert found["reasons"] == {"parse: namespace": times * 12, "parse: redirect": times * 20}
    else:
        assert 0 < found["documents"] < times * articles / 10


def test_a_pipe_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    """Fails if a dump whose other end goes away is taken for a whole one."""
    block, pages, _ = dump_block()
    with piped(tmp_path / "d.xml", lambda: chain([DUMP_HEAD], repeat(block, 3))):
        found = measure({"kind": "wikipedia", "path": str(tmp_path / "d.xml")}, 10 * len(block))
    assert "cut off" in found["refused"] and found["records"] == 3 * pages


@pytest.mark.long
def test_one_huge_page(tmp_path: Path) -> None:
    """Fails if a page's size is a worker's: of 300 MB, of 19 MB full of markup, and of 19 MB never closed."""
    row = "{| class=x\n|-\n| [[Boat|a]] || '''b''' {{convert|3|km}}\n|}\n* an ''item'' {{x|{{y|z}}}} here\n"
    with (tmp_path / "d.xml").open("wb") as file:
        file.write(DUMP_HEAD + b"<page><title>A</title><id>1</id><revision><text>")
        file.seek(300 * MB, os.SEEK_CUR)
        file.write(b"</text></revision></page>\n")
        for title, text in (("B", row * (19 * MB // len(row))), ("C", "{{[[{|" * (19 * MB // 6)), ("D", prose(900))):
            file.write(PAGE.format(title=title, ns=0, id=ord(title), text=text).encode())
        file.write(DUMP_END)
    found = measure({"kind": "wikipedia", "path": str(tmp_path / "d.xml")})
    assert (found["refused"], found["records"], found["documents"]) == ("", 4, 1)
    assert found["reasons"]["parse: too large"] >= 1


# Bombs, and files of one record

ZEROS = bytes(16 * MB)
GOOD_LINE = json.dumps({"text": prose(300)}).encode() + b"\n"


def sparse(path: Path, before: bytes, size: int, after: bytes) -> None:
    """A file with `size` zeros between two ends, none of them on disk."""
    with path.open("wb") as file:
        file.write(before)
        file.seek(size, os.SEEK_CUR)
        file.write(after)


def packed_zeros(path: Path, compress: Callable[[bytes], bytes], size: int) -> None:
    """A packed file of so many zeros: one stream after another."""
    path.write_bytes(compress(ZEROS) * (size // len(ZEROS)))


def gzip_zeros(before: bytes, size: int, after: bytes = b"") -> bytes:
    """One gzip member with `size` zeros in it, a thousandth of that long."""
    packer = zlib.compressobj(1, wbits=31)
    middle = (packer.compress(ZEROS) for _ in range(size // len(ZEROS)))
    return b"".join([packer.compress(before), *middle, packer.compress(after), packer.flush()])


def epub_bomb(size: int) -> bytes:
    """An EPUB whose one page unpacks to so many letters."""
    package = (
        b'<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.xhtml" '
        b'media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>'
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p.opf", package)
        with archive.open("a.xhtml", "w", force_zip64=True) as page:
            for _ in range(size // len(ZEROS)):
                page.write(ZEROS)
    return out.getvalue()


@pytest.mark.long
def test_bombs_and_long_lines_among_files(tmp_path: Path) -> None:
    """Fails if a line of 500 MB, a gigabyte of zeros in gzip or xz, or a zip bomb is more than a drop."""
    folder = tmp_path / "files"
    folder.mkdir()
    sparse(folder / "line.jsonl", b'{"text": "', 500 * MB, b'"}\n' + GOOD_LINE)
    sparse(folder / "row.csv", b"text\n", 500 * MB, b"\n" + prose(300).encode() + b"\n")
    sparse(folder / "quoted.csv", b'text\n"', 500 * MB, b'"\n' + prose(300).encode() + b"\n")
    sparse(folder / "text.txt", b"", 500 * MB, b"\n")
    sparse(folder / "page.html", b"<p>", 500 * MB, b"</p>")
    sparse(folder / "book.epub", b"PK\3\4", 500 * MB, b"PK")
    for name in ("a.jsonl.gz", "a.txt.gz", "a.html.gz"):
        packed_zeros(folder / name, gzip.compress, 1024 * MB)
    (folder / "b.csv.gz").write_bytes(gzip_zeros(b"text\n", 256 * MB, b"\n" + prose(300).encode()))
    packed_zeros(folder / "a.jsonl.xz", lzma.compress, 1024 * MB)
    packed_zeros(folder / "a.jsonl.bz2", bz2.compress, 256 * MB)
    (folder / "a.jsonl.zst").write_bytes(zstd(ZEROS) * 64)
    (folder / "bomb.epub").write_bytes(epub_bomb(1024 * MB))
    assert sum(path.stat().st_blocks for path in folder.iterdir()) * 512 < 20 * MB  # no big file lies here
    found = measure({"kind": "files", "path": str(folder)})
    assert (found["refused"], found["records"], found["documents"]) == ("", 18, 4)
    assert found["reasons"] == {"parse: too large": 14}


def zstd(data: bytes) -> bytes:
    """One zstd frame."""
    return pa.compress(data, codec="zstd", asbytes=True)  # type: ignore[no-any-return]


@pytest.mark.long
def test_long_stories(tmp_path: Path) -> None:
    """Fails if a story of one line, or of 20 MB of lines without a blank one, is held."""
    for form in ("line", "blank-line"):
        folder = tmp_path / form
        folder.mkdir()
        sparse(folder / "a.txt", b"x", 320 * MB, b"\n\n" + prose(300).encode() + b"\n")
        lines = gzip.compress(b"x" * 99 + b"\n" + b"y" * 900 + b"\n", 9) * 20_000
        (folder / "b.txt.gz").write_bytes(lines if form == "blank-line" else gzip_zeros(b"", 512 * MB))
        found = measure({"kind": "stories", "form": form, "path": str(folder)})
        assert (found["refused"], found["records"], found["documents"]) == ("", 3, 1)
        assert found["reasons"] == {"parse: too large": 2}


def tar_of(*members: tuple[str, int]) -> Iterator[bytes]:
    """A tar of members of so many zeros; after each is a good text."""
    for name, size in members:
        for info, pieces in (
            (tarfile.TarInfo(name), None),
            (tarfile.TarInfo(f"good-{name}.txt"), prose(900).encode()),
        ):
            info.size = size if pieces is None else len(pieces)
            yield info.tobuf(tarfile.USTAR_FORMAT)
            if pieces is None:
                whole, rest = divmod(size, len(ZEROS))
                yield from repeat(ZEROS, whole)
                yield bytes(rest)
            else:
                yield pieces
            yield bytes(-info.size % 512)
    yield bytes(1024)


@pytest.mark.long
def test_huge_members_of_tars(tmp_path: Path) -> None:
    """Fails if a member of 600 MB is held: in a plain tar, and in a bomb of gzip or of xz in xz."""
    members = (("a.txt", 608 * MB), ("b.epub", 608 * MB), ("c.txt.gz", 16 * MB))
    books, pages = tmp_path / "books", tmp_path / "pages"
    books.mkdir()
    pages.mkdir()
    with gzip.open(books / "b.tar.gz", "wb", compresslevel=1) as out:
        write_all(out, tar_of(*members))
    with (books / "a.tar").open("wb") as plain:
        for piece in tar_of(*members[:2]):
            plain.seek(len(piece), os.SEEK_CUR) if not any(piece[:1]) else plain.write(piece)
        plain.truncate()
    (books / "bomb.txt.gz").write_bytes(gzip_zeros(b"", 1024 * MB))
    (books / "bomb.epub").write_bytes(epub_bomb(1024 * MB))
    found = measure({"kind": "bookcorpus", "path": str(books)})
    assert (found["refused"], found["records"]) == ("", 12)
    assert found["documents"] == 5 and found["reasons"]["parse: too large"] == 6
    inner = lzma.compress(b"".join(tar_of(("a.txt", 64 * MB))))
    outer = [*tar_of(("x.txt", 608 * MB))]
    subset = tarfile.TarInfo("subset.xz")
    subset.size = len(inner)
    subset_bytes = subset.tobuf(tarfile.USTAR_FORMAT) + inner + bytes(-len(inner) % 512)
    with lzma.open(pages / "o.tar.xz", "wb", preset=0) as packed:
        write_all(packed, chain(outer[:-1], [subset_bytes], outer[-1:]))
    found = measure({"kind": "openwebtext", "path": str(pages)})
    assert (found["refused"], found["records"], found["documents"]) == ("", 4, 2)
    assert found["reasons"] == {"parse: too large": 2}


# Archives of pages

RECORD = (
    "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.org/{name}\r\n"
    "WARC-Date: 2026-01-03T00:00:00Z\r\n"
    "WARC-Record-ID: <urn:uuid:{name}>\r\nContent-Type: application/http; msgtype=response\r\n"
    "Content-Length: {length}\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n{more}\r\n"
)


def record_head(name: str, body_bytes: int, more: str = "") -> bytes:
    """Return what precedes a page's body in an archive."""
    http = len(RECORD.partition("{length}\r\n\r\n")[2]) - len("{more}") + len(more)
    return RECORD.format(name=name, length=http + body_bytes, more=more).encode()


def page_record(name: str, body: bytes, more: str = "") -> bytes:
    return record_head(name, len(body), more) + body + b"\r\n\r\n"


GOOD_PAGE = b"<html><head><title>Bay</title></head><body><article>%s</article></body></html>" % b"".join(
    f"<p>{prose(120, seed)}</p>".encode() for seed in range(5)
)


@pytest.mark.long
def test_huge_records_of_archives(tmp_path: Path) -> None:
    """Fails if a record of 600 MB, plain or packed, or a body that unpacks to a gigabyte is held."""
    good = page_record("good", GOOD_PAGE)
    bomb = gzip_zeros(b"<html>", 1024 * MB)
    sparse(tmp_path / "a.warc", record_head("a", 600 * MB), 600 * MB, b"\r\n\r\n" + good)
    packed = gzip_zeros(record_head("b", 608 * MB), 608 * MB, b"\r\n\r\n")
    (tmp_path / "b.warc.gz").write_bytes(packed + gzip.compress(good))
    body = page_record("c", bomb, "Content-Encoding: gzip\r\n")
    (tmp_path / "c.warc.gz").write_bytes(gzip.compress(body) + gzip.compress(good))
    found = measure({"kind": "cc-news", "path": str(tmp_path)})
    assert (found["refused"], found["records"], found["documents"]) == ("", 6, 3)
    assert found["reasons"] == {"parse: too large": 3}


PAGES = {
    "nested 100,000 deep": b"<div>" * 100_000 + b"<p>deep</p>" + b"</div>" * 100_000,
    "nested and never closed": b"<ul><li><b>" * 100_000,
    "a million siblings": b"<p>x</p>" * 1_000_000,
    "a million attributes": b"<p " + b"a=1 " * 1_000_000 + b">x</p>",
    "a million half tags": b"<a <" * 1_000_000,
    "a million entities": b"&amp;&#120;" * 800_000,
    "one line of 9 MB": b"word " * 1_800_000,
}


@pytest.mark.long
def test_pages_nested_and_wide(tmp_path: Path) -> None:
    """Fails if a page's form, and not its size, decides what it takes: each between two good ones."""
    bodies = [body for page in PAGES.values() for body in (b"<html><body>" + page, GOOD_PAGE)]
    records = [gzip.compress(page_record(str(n), body), 1) for n, body in enumerate(bodies)]
    (tmp_path / "a.warc.gz").write_bytes(b"".join(records))
    found = measure({"kind": "cc-news", "path": str(tmp_path / "a.warc.gz")})
    assert (found["refused"], found["records"], found["documents"]) == ("", 2 * len(PAGES), len(PAGES))
    assert found["damaged"] == 0 and sum(found["reasons"].values()) == len(PAGES)


# Entities

LAUGHS = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
ENTITIES = f'<!DOCTYPE x [<!ENTITY a0 "{"ha" * 50}">{LAUGHS}<!ENTITY f SYSTEM "file:///etc/hostname">]>'


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    """Fails if a billion laughs, or a file that an entity names, come into a text: of XML and of a dump."""
    entry = f"<entry><text>{prose(300)}</text></entry><entry><text>&a9; {'&f;'} {prose(300)}</text></entry>"
    (tmp_path / "a.xml").write_text(f'<?xml version="1.0"?>{ENTITIES}<x>{entry}</x>')
    found = measure({"kind": "xml", "path": str(tmp_path / "a.xml"), "record": "entry", "fields": {"text": "text"}})
    assert (found["refused"], found["records"]) == ("", 2) and found["documents"] + found["damaged"] == 2
    pages = [PAGE.format(title=title, ns=0, id=ord(title), text=f"&a9; {prose(300)}") for title in "AB"]
    inside = pages[1].replace("<page>", f"<page>{ENTITIES}")
    (tmp_path / "d.xml").write_text(f'<?xml version="1.0"?>{ENTITIES}<mediawiki>{pages[0]}{inside}</mediawiki>')
    found = measure({"kind": "wikipedia", "path": str(tmp_path / "d.xml")})
    assert (found["refused"], found["records"]) == ("", 2) and found["documents"] + found["damaged"] == 2


@pytest.mark.long
def test_a_huge_cell_of_parquet(tmp_path: Path) -> None:
    """Fails if a cell of 100 MB takes ten times its size."""
    table = pa.table({"text": pa.array(["x" * (100 * MB), prose(300)], pa.large_string())})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd")
    for kind in ("files", "openwebtext"):
        found = measure({"kind": kind, "path": str(tmp_path / "a.parquet")})
        assert (found["refused"], found["records"], found["documents"]) == ("", 2, 1)
        assert found["reasons"] == {"parse: too large": 1}
