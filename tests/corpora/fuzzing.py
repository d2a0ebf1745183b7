"""Fuzzing of every parser: damaged inputs made from small whole ones, and what must hold whatever comes.

A source may drop records and may refuse a file with InputError. It may not raise anything else, take long, or yield a
record that the next stage cannot take. The short form runs with the tests; the long one, ten minutes a parser:

    PYTHONPATH=.:tests/corpora .venv/bin/python tests/corpora/fuzzing.py --minutes 10 [PARSER ...]

What it finds is written to `cases/fuzz/PARSER/`, made as small as Hypothesis can make it; every file there is a test.
"""

import argparse
import bz2
import gzip
import hashlib
import io
import json
import lzma
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.schema import LOCATOR
from corpora.sources.registry import make_source
from corpora.sources.source import RawFile, Record, Tally
from corpora.sources.wikitext import wikitext_to_text

CASES = Path(__file__).with_name("cases") / "fuzz"
SAMPLES = Path(__file__).parents[2] / "corpora" / "samples"
CPU_SECONDS = 20.0  # that reading one small input may take; what is quadratic in it takes more
LONGEST = 200_000  # bytes of an input


@dataclass(frozen=True)
class Target:
    """A parser: whole inputs to damage, what its format is made of, and how it is read."""

    inputs: tuple[bytes, ...]
    tokens: tuple[bytes, ...]
    read: Callable[[bytes, Path], int]


def reads(name: str, **table: Any) -> Callable[[bytes, Path], int]:
    """Reads an input as a raw file of this name of a source of this kind; says how many records became texts."""

    def read(data: bytes, folder: Path) -> int:
        path, texts = folder / name, 0
        path.write_bytes(data)
        source = make_source({"name": "fuzzed", "path": str(path), **table})
        try:
            for file_name, where in source.files():
                digest = hashlib.sha256(data).hexdigest()
                file = RawFile(name=file_name, sha256=digest, size_bytes=len(data), path=str(where))
                for piece in source.slices(file):
                    for record in source.records(piece, Tally()):
                        check(record)
                        texts += record.drop is None
        except InputError as error:
            assert str(error).strip() and "\n\n" not in str(error)
        return texts

    return read


def check(record: Record) -> None:
    """What every record must be, dropped or not: columns that the next stage can take."""
    texts = [record.text, record.key, record.title, record.url, record.date, record.license, record.group, record.meta]
    pa.array(texts, pa.large_string()).validate(full=True)
    pa.array([{name: getattr(record.locator, name) for name in LOCATOR.names}], LOCATOR)
    assert record.drop is not None or record.text.strip(), "an empty text without a drop"
    assert record.meta is None or isinstance(json.loads(record.meta), dict)
    assert record.revision is None or abs(record.revision) < 1 << 63


def read_wikitext(data: bytes, folder: Path) -> int:
    """Wikitext alone, without a dump around it."""
    return bool(wikitext_to_text(data.decode("utf-8", "replace")).encode().strip())


PROSE = "The tide came in at noon. The keeper counted seven boats, and nobody knew why one was missing. " * 6
DUMP = f"""<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">
<siteinfo><namespaces><namespace key="0" case="first-letter"/><namespace key="10">Template</namespace></namespaces>
</siteinfo><page><title>Tide</title><ns>0</ns><id>1</id><revision><id>7</id><text>'''Tide''' is {{{{convert|3|km}}}}
of [[sea|water]].&lt;ref&gt;x&lt;/ref&gt; {PROSE}</text></revision></page><page><title>B</title><ns>0</ns><id>2</id>
<revision><id>8</id><text>#REDIRECT [[Tide]]</text></revision></page></mediawiki>""".encode()
HTML = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tide</title></head><body><nav><a href="/">x
</a></nav><article><h1>Tide</h1><p>{PROSE}</p><ul><li>one<li>two</ul><table><tr><td>{PROSE}</td></tr></table></article>
<script>var a = "</p>";</script></body></html>""".encode()
WARC = (
    b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.org/a\r\nWARC-Date: 2026-01-03T00:00:00Z\r\n"
    b"WARC-Record-ID: <urn:uuid:1>\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n%s"
    b"\r\n\r\n"
)
HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s" % (len(HTML), HTML)
WHOLE_WARC = WARC % (len(HTTP), HTTP) * 2
PUBMED = f"""<?xml version="1.0"?><PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">12</PMID>
<Article><ArticleTitle>On <i>tides</i></ArticleTitle><Abstract><AbstractText Label="AIM">{PROSE}</AbstractText>
</Abstract></Article></MedlineCitation></PubmedArticle><DeleteCitation><PMID Version="1">9</PMID></DeleteCitation>
</PubmedArticleSet>""".encode()
JSONL = b"".join(json.dumps({"text": PROSE, "id": str(n), "n": n}).encode() + b"\n" for n in range(3))
CSV = f'id,text\n1,"{PROSE}\nA second line, ""quoted""."\n2,{PROSE.replace(",", "")}\n'.encode()
START = b"The Project Gutenberg eBook of Repairs\n\n*** START OF THE PROJECT GUTENBERG EBOOK REPAIRS ***\n\n"
END = b"\n\n*** END OF THE PROJECT GUTENBERG EBOOK REPAIRS ***\n"
BOOK = START + (SAMPLES / "books" / "small-repairs.txt").read_bytes() + END


def _epub() -> bytes:
    return (SAMPLES / "books" / "the-map-of-hollin-marsh.epub").read_bytes()


def _open_epub() -> bytes:
    """The same with nothing compressed, so that what is damaged is its text."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(_epub())) as packed, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as opened:
        for info in packed.infolist():
            opened.writestr(zipfile.ZipInfo(info.filename), packed.read(info.filename))
    return out.getvalue()


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number in range(2):
            info = tarfile.TarInfo(f"000000{number}-{hashlib.md5(bytes([number])).hexdigest()}.txt")
            info.size = len(PROSE)
            tar.addfile(info, io.BytesIO(PROSE.encode()))
    return out.getvalue()


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"text": [PROSE, "two"], "id": ["a", "b"]}), out)
    return out.getvalue()


MARKUP = (b"<", b">", b"</", b"/>", b"&", b"&#0;", b"&#xD800;", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"\0", b"\xff")
# fmt: off
WIKI = (b"{{", b"}}", b"[[", b"]]", b"{|", b"|}", b"|", b"<ref>", b"<ref", b"</ref>", b"<nowiki>", b"<math>", b"'''",
        b"{{{", b"\n*", b"\n:", b"==", b"&nbsp;", b"<!--", b"{{convert|", b"{{lang|", b"[http://", b"\n|-\n")
# fmt: on
HEADS = (b"\r\n", b"WARC/1.0", b"Content-Length: 9", b"\r\n\r\n", b"chunked")
BINARY = (b"\0", b"\xff", b"\0" * 512, b"\xff\xff\xff\xff", b"../", b"/etc/passwd", b"PK\3\4", b"\x1f\x8b", b"BZh9")
LINES = (b"\n", b"\r\n", b"\r", b'"', b'""', b",", b"\t", b"{", b"}", b"[", b"\\ud800", b"\0", b"\xff")

TARGETS: dict[str, Target] = {
    "wikitext": Target((DUMP, PROSE.encode()), WIKI, read_wikitext),
    "wikipedia-xml": Target((DUMP,), MARKUP + WIKI, reads("d.xml", kind="wikipedia")),
    "wikipedia-bz2": Target((bz2.compress(DUMP),), BINARY, reads("d.xml.bz2", kind="wikipedia")),
    "html": Target((HTML,), MARKUP, reads("a.html", kind="files")),
    "warc": Target((WHOLE_WARC,), MARKUP + HEADS, reads("a.warc", kind="cc-news")),
    "warc-gz": Target((gzip.compress(WHOLE_WARC, mtime=0),), BINARY, reads("a.warc.gz", kind="cc-news")),
    "book": Target((BOOK, BOOK.decode().encode("utf-16")), LINES, reads("b.txt", kind="bookcorpus")),
    "epub": Target((_epub(),), BINARY, reads("b.epub", kind="bookcorpus")),
    "epub-open": Target((_open_epub(),), MARKUP + BINARY, reads("b.epub", kind="bookcorpus")),
    "openwebtext-tar": Target((_tar(),), BINARY, reads("o.tar", kind="openwebtext")),
    "openwebtext-xz": Target((lzma.compress(_tar()),), BINARY, reads("o.xz", kind="openwebtext")),
    "stories": Target((JSONL, PROSE.encode() * 2), LINES, reads("s.txt", kind="stories", form="blank-line")),
    "jsonl": Target((JSONL,), LINES, reads("a.jsonl", kind="files")),
    "csv": Target((CSV,), LINES, reads("a.csv", kind="files")),
    "parquet": Target((_parquet(),), BINARY, reads("a.parquet", kind="files")),
    "pubmed": Target((PUBMED,), MARKUP, reads("p.xml", kind="xml", preset="pubmed")),
}  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, target: Target) -> bytes:
    """An input with a few places damaged: bytes put in, put out, turned, doubled, or all cut off behind."""
    data = bytearray(draw(st.sampled_from(target.inputs)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        much = draw(st.sampled_from((1, 1, 2, 8, 64, 512)))
        what = draw(st.sampled_from(("token", "token", "tokens", "remove", "turn", "double", "cut", "random")))
        if what in ("token", "tokens"):
            times = 1 if what == "token" else draw(st.sampled_from((2, 50, 2_000)))
            data[at:at] = draw(st.sampled_from(target.tokens)) * times
        elif what == "remove":
            del data[at : at + much]
        elif what == "turn" and at < len(data):
            data[at] ^= draw(st.integers(1, 255))
        elif what == "double":
            data[at:at] = data[at : at + much] * 3
        elif what == "cut":
            del data[at:]
        elif what == "random":
            data[at : at + much] = draw(st.binary(max_size=much))
    return bytes(data[:LONGEST])


def try_input(target: Target, data: bytes) -> int:
    """Read one input; how many texts it gave. Raises whatever is a fault of ours."""
    with tempfile.TemporaryDirectory(prefix="cloze-fuzz-") as folder:
        begun = time.process_time()
        texts = target.read(data, Path(folder))
        spent = time.process_time() - begun
    assert spent < CPU_SECONDS, f"{len(data)} bytes took {spent:.0f} s"
    return texts


def fuzz(name: str, examples: int, number: int) -> None:
    """Try so many damaged inputs. What fails is kept as a case, and raised."""
    target = TARGETS[name]
    last: list[bytes] = []

    @seed(number)
    @settings(
        max_examples=examples, deadline=None, database=None, phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(damaged(target))
    def attempt(data: bytes) -> None:
        last[:] = [data]
        try_input(target, data)

    failed = True
    try:
        attempt()
        failed = False
    finally:
        if failed and last:
            keep(name, last[0])


def keep(name: str, data: bytes) -> Path:
    """Write an input among the cases."""
    path = CASES / name / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def main() -> int:
    """Fuzz the parsers that are named, or all, so many minutes each, every one in a process of its own."""
    parser = argparse.ArgumentParser(description="Fuzz parsers; what is found is kept as a test case.")
    parser.add_argument("parsers", nargs="*", metavar="PARSER", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--minutes", type=float, default=10.0)
    arguments = parser.parse_args()
    names = arguments.parsers or list(TARGETS)
    if len(names) > 1:
        each = ["--minutes", str(arguments.minutes)]
        return max(subprocess.run([sys.executable, __file__, name, *each], check=False).returncode for name in names)
    end, number = time.monotonic() + 60 * arguments.minutes, 0
    while time.monotonic() < end:
        number += 1
        fuzz(names[0], 200, number)
    print(f"{names[0]}: {number * 200} inputs, none of them failed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
