"""Inputs that `fuzzing.py` damages: for every parser small whole ones, signs of its format, and how it is read."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_readers import (
    INDEX_FOLLOWS,
    ROOT,
    example_source,
    reads,
    reads_catalogue,
    reads_indexed,
    reads_items,
    reads_mail,
    reads_module,
    reads_wikitext,
)
from fuzz_signs import BINARY, BOOKISH, CODE, DOCTYPE, HEADS, HTML_SIGNS, LINES, MAILISH, MARKUP, OPF, PAGE, WIKI
from fuzzing import CASES, Target, Whole
from office_files import (
    LEGACY,
    LETTER,
    MAILBOX,
    PROSE,
    SHEETS,
    SLIDES,
    WORDS,
    changed_parts,
    package,
    recoded,
)

SAMPLES = ROOT / "corpora" / "samples"


# Whole inputs.


def _whole(name: str) -> bytes:
    """A file of `cases/whole`, with prose in it."""
    return (CASES.parent / "whole" / name).read_bytes().replace(b"PROSE", PROSE.encode())


WIKITEXT = _whole("tide.wiki").decode()
HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en"><siteinfo>
<sitename>W</sitename><base>https://en.wikipedia.org/wiki/Main</base><namespaces><namespace key="0" />
<namespace key="10">Template</namespace><namespace key="6">File</namespace></namespaces></siteinfo>
"""


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _page(number: int, text: str, title: str = "Tide") -> str:
    return (
        f"<page><title>{title} {number}</title><ns>0</ns><id>{number}</id><revision><id>{number + 7}</id>"
        f"<timestamp>2026-01-0{number}T00:00:00Z</timestamp><contributor><username>A</username><id>4</id></contributor>"
        f'<model>wikitext</model><format>text/x-wiki</format><text bytes="9" xml:space="preserve">'
        f"{_escaped(text)}</text>"
        "<sha1>a</sha1></revision></page>\n"
    )


PAGES = [_page(1, WIKITEXT), _page(2, "#REDIRECT [[Tide]]"), _page(3, PROSE, "List of"), _page(4, PROSE + "{{stub}}")]
DUMP = (HEAD + "".join(PAGES) + "</mediawiki>\n").encode()


def _multistream(data: bytes) -> bytes:
    """Streams of the head, of pages twice and of the foot, and the index."""
    cuts = [0, *(at for at in (data.find(b"<page>"), data.rfind(b"<page>"), data.rfind(b"</mediawiki>")) if at > 0)]
    cuts = sorted(set(cuts))
    streams = [bz2.compress(data[a:b]) for a, b in zip(cuts, [*cuts[1:], len(data)], strict=True)]
    starts = [sum(map(len, streams[:number])) for number in range(len(streams))]
    second, third = starts[min(1, len(starts) - 1)], starts[min(2, len(starts) - 1)]
    index = "".join(f"{at}:{number}:Tide {number}\n" for number, at in enumerate((second, second, second, third), 1))
    return b"".join(streams) + INDEX_FOLLOWS + bz2.compress(index.encode())


def _streams(data: bytes) -> bytes:
    """The same without the index."""
    return _multistream(data).partition(INDEX_FOLLOWS)[0]


def _own_index(data: bytes) -> bytes:
    """The whole dump with this index."""
    return _streams(DUMP) + INDEX_FOLLOWS + bz2.compress(data)


def _utf16(data: bytes) -> bytes:
    return data.decode(errors="replace").encode("utf-16")


HTML = _whole("tide.html")


def _chunked(data: bytes) -> bytes:
    pieces = [data[at : at + 500] for at in range(0, len(data), 500)]
    return b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def _zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "zstd", asbytes=True)
    return packed


def _record(block: bytes, kind: bytes = b"response", media: bytes = b"application/http; msgtype=response") -> bytes:
    """A WARC record of a block, with the length that it has."""
    return (
        b"WARC/1.0\r\nWARC-Type: %s\r\nWARC-Target-URI: http://example.org/a\r\nWARC-Date: 2026-01-03T00:00:00Z\r\n"
        b"WARC-Record-ID: <urn:uuid:1>\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n"
    ) % (kind, media, len(block), block)


def _http(body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n%s\r\n%s" % (more, body)


def _responses(body: bytes) -> bytes:
    """A page under every coding, after a record that is none."""
    coded = [
        _http(body, b"Content-Length: %d\r\n" % len(body)),
        _http(_chunked(gzip.compress(body, mtime=0)), b"Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n"),
        _http(zlib.compress(body), b"Content-Encoding: deflate\r\n"),
        _http(body, b"Content-Encoding: br\r\n"),
    ]
    return _record(b"software: x", b"warcinfo", b"application/warc-fields") + b"".join(map(_record, coded))


def _coded(coding: bytes, pack: Callable[[bytes], bytes], body: bytes) -> bytes:
    return _record(_http(pack(body), coding + b"\r\n"))


def _by_record(data: bytes) -> bytes:
    """Each record in a gzip member of its own."""
    cuts = [at for at in range(len(data)) if data.startswith(b"WARC/1.", at)]
    pieces = [data[a:b] for a, b in zip(cuts, [*cuts[1:], len(data)], strict=True)] or [data]
    return b"".join(gzip.compress(piece, mtime=0) for piece in pieces)


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gz": partial(gzip.compress, mtime=0),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": _zstd,
}
WARC = _responses(HTML)
WET = _record(b"a", b"warcinfo", b"application/warc-fields") + _record(PROSE.encode(), b"conversion", b"text/plain") * 2
HTTP_CODINGS = (
    (b"Transfer-Encoding: chunked", _chunked),
    (b"Content-Encoding: gzip", PACKINGS["gz"]),
    (b"Content-Encoding: deflate", zlib.compress),
    (b"Content-Encoding: zstd", _zstd),
)
BODIES = tuple(Whole(HTML, partial(_coded, coding, pack)) for coding, pack in HTTP_CODINGS)

END = b"\n\n*** END OF THE PROJECT GUTENBERG EBOOK REPAIRS ***\n"
BOOK = _whole("front.txt") + (SAMPLES / "books" / "small-repairs.txt").read_bytes() + END
EPUB = (SAMPLES / "books" / "the-map-of-hollin-marsh.epub").read_bytes()


def _zip(method: int, name: str = "", data: bytes = b"") -> bytes:
    """The sample's EPUB with one member changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(EPUB)) as packed, zipfile.ZipFile(out, "w", method) as opened:
        for info in packed.infolist():
            member = data if info.filename == name else packed.read(info.filename)
            opened.writestr(zipfile.ZipInfo(info.filename), member, method)
    return out.getvalue()


def _epub_members() -> tuple[Whole, ...]:
    """Each member of the sample's EPUB that is text, to be damaged in an archive that is whole."""
    with zipfile.ZipFile(io.BytesIO(EPUB)) as packed:
        names = [name for name in packed.namelist() if name.endswith((".xml", ".opf", ".ncx", ".xhtml", ".html"))]
        return tuple(Whole(packed.read(name), partial(_zip, zipfile.ZIP_DEFLATED, name)) for name in names)


def _tar(form: int, names: tuple[str, ...], data: bytes) -> bytes:
    """A tar of files with the same data, and a folder, a link and a device next to them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for name, kind in (("d", tarfile.DIRTYPE), ("l", tarfile.SYMTYPE), ("c", tarfile.CHRTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "../../etc/passwd"
            tar.addfile(info)
    return out.getvalue()


def _checked(data: bytes) -> bytes:
    """A tar whose first header's checksum is right again, whatever was damaged in it."""
    header = data[:148] + b" " * 8 + data[156:512]
    return data[:148] + b"%06o\0 " % sum(header) + data[156:] if len(data) >= 512 else data


def _sparse() -> bytes:
    """A tar of GNU's with an old sparse file, whose map goes on in a block of its own."""
    header = bytearray(tarfile.TarInfo("s.txt").tobuf(tarfile.GNU_FORMAT))
    header[156:157], header[124:136], header[482:483] = b"S", b"%011o\0" % 512, b"\1"
    return (
        _checked(bytes(header)) + bytes(512) + PROSE.encode()[:512] + _tar(tarfile.GNU_FORMAT, PAGE_NAMES, b"One page.")
    )


PAGE_NAMES = tuple(f"000000{n}-{hashlib.md5(bytes([n])).hexdigest()}.txt" for n in range(2))
BOOK_NAMES = ("a/one.txt", "a/" + "long" * 40 + ".epub.txt", "../up.txt", "c.epub")
FORMS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
TARS = tuple(Whole(tar, _checked) for tar in (*(_tar(form, PAGE_NAMES, PROSE.encode()) for form in FORMS), _sparse()))
BOOK_TARS = tuple(Whole(_tar(form, BOOK_NAMES, PROSE.encode()), _checked) for form in FORMS[1:])


def _nested(pages: bytes) -> bytes:
    """OpenWebText as it was published: tars in xz in a tar in xz."""
    return lzma.compress(_tar(tarfile.GNU_FORMAT, ("openwebtext/urlsf_subset00-1_data.xz",), lzma.compress(pages)))


XML_START = b'<?xml version="1.0" encoding="utf-8"?>'
PUBMED = _whole("pubmed.xml")
JATS = _whole("article.nxml")
PATENT = _whole("patent.xml")
GREENBOOK = b"PATN\nWKU  039373754\nTTL  A lamp\nABST\nPAL  %s\nCLMS\nPAR  1. A lamp.\n" % PROSE.encode()
OWN_XML = {"record": "entry", "fields": {"text": ["title", "body//p[@a='b']", "note/@x"], "key": "@id", "date": "day"}}
ENTRIES = _whole("entries.xml")

ROWS = [
    {"text": PROSE, "id": str(n), "n": n, "meta": {"url": "u", "date": "2026-01-01", "a": [1.5, None]}}
    for n in range(3)
]
JSONL = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
FIELDS = {"text": "text", "key": "id", "revision": "n", "url": "meta.url", "date": "meta.date"}
COLUMNS = {"key": "id", "revision": "n"}
CSV = f'id,text,n\n1,"{PROSE}\nA second line, ""quoted"".",5\n2,{PROSE.replace(",", "")},\n'.encode()
TSV = f"id\ttext\tn\n1\t{PROSE}\t5\n2\t{PROSE}\t\n".encode()


def _parquet(**options: Any) -> bytes:
    rows = {
        "text": [PROSE, "two", None],
        "id": ["a", "b", "c"],
        "raw": [b"x", b"\xff", b""],
        "meta": [{"url": "u", "tags": ["a", "b"]}, None, {"url": None, "tags": None}],
        "at": [datetime(2026, 1, 2, tzinfo=UTC)] * 3,
        "price": [Decimal("1.50"), None, Decimal("2.25")],
        "n": [1, 2, 3],
    }
    out = io.BytesIO()
    pq.write_table(pa.table(rows), out, row_group_size=2, **options)
    return out.getvalue()


def _text_parquet(data: bytes) -> bytes:
    """A table whose first text is these bytes, whether they are UTF-8 or not."""
    _, offsets, values = pa.array([data, b"two"], pa.binary()).buffers()
    out = io.BytesIO()
    pq.write_table(
        pa.table({"text": pa.StringArray.from_buffers(2, offsets, values), "id": ["a", "b"], "n": [1, 2]}), out
    )
    return out.getvalue()


PARQUETS = (
    Whole(_parquet()),
    Whole(_parquet(compression="none", use_dictionary=False, write_page_checksum=True)),
    Whole(_parquet(compression="zstd", data_page_version="2.0")),
    Whole(PROSE.encode(), _text_parquet),
)
MAIL = (ROOT / "examples" / "mbox_source" / "sample" / "list.mbox").read_bytes()
MODULE = _whole("module")
METADATA = _whole("metadata")
SQUAD = {"data": [{"title": "t", "paragraphs": [{"context": PROSE, "qas": [{"question": "Why?", "id": "1"}]}]}]}
DUMP_NAMES = ("multistream1.xml-p1p40.bz2", "multistream-index1.txt-p1p40.bz2", "multistream10.xml-p41p90.bz2")
DUMP_FILES = {f"testwiki-20261101-pages-articles-{name}": {"size": 5, "sha1": "a" * 40} for name in DUMP_NAMES}
STATUS = json.dumps({"jobs": {"articlesmultistreamdump": {"status": "done", "files": DUMP_FILES}}}).encode()
NEWS = b"crawl-data/CC-NEWS/2026/01/CC-NEWS-20260101000000-00001.warc.gz\n"
TEXTS = b"crawl-data/CC-MAIN-2026-04/segments/1.2/wet/CC-MAIN-a-00001.warc.wet.gz\n"
LISTING = b'<a href="20261101/">20261101/</a> <a href="2026/index.html">2026</a>\n' + b"a" * 40 + b"  a.bz2\n"
ADDRESSES = (
    b"# files\nhttps://example.org/a.txt " + b"a" * 64 + b" 12 name=b.txt\n\nhttp://[::1]:80/c.gz sha1:" + b"b" * 40
)


JSONS = (
    json.dumps(ROWS).encode(),
    json.dumps({"version": 1, "data": ROWS}, indent=1).encode(),
    b"\n".join(json.dumps(row, indent=1).encode() for row in ROWS),
    JSONL,
    json.dumps([PROSE, "two"]).encode(),
)
MEMBERS = {
    "a/b.txt": PROSE,
    "c.csv": CSV,
    "d.json": JSONS[0],
    "e.xlsx": package(SHEETS),
    "f.png": b"x",
    "g.txt.gz": b"",
}


def _in_zip(name: str, data: bytes) -> bytes:
    return package({**MEMBERS, name: data})


def _legacy(*encodings: str) -> tuple[Whole, ...]:
    return tuple(Whole(LEGACY.encode(), partial(recoded, encoding)) for encoding in encodings)


def _listed(what: bytes, data: bytes) -> bytes:
    return what + b"\n" + gzip.compress(data, mtime=0)


def in_encoding(name: bytes, page: bytes, entries: bytes) -> list[tuple[str, bytes]]:
    """Files that say that they are in this encoding, each with the parser that it is for."""
    xml = b'<?xml version="1.0" encoding="%s"?>' % name
    said = page.replace(b'charset="utf-8"', b'charset="%s"' % name)
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=%s\r\n\r\n%s\xff" % (name, said)
    with zipfile.ZipFile(io.BytesIO(EPUB)) as packed:
        names = ("OEBPS/content.opf", "OEBPS/chapter-1.xhtml")
        bare = {member: packed.read(member).partition(b"?>")[2] for member in names}
    books = [_zip(zipfile.ZIP_STORED, member, xml + data) for member, data in bare.items()]
    found = [("xml", xml + entries), ("xml", xml + entries + b"\xff"), ("html", said), ("warc", _record(http))]
    return [*found, *(("epub", book) for book in books)]


def _packed(name: str, tokens: tuple[bytes, ...], data: bytes, **table: Any) -> dict[str, Target]:
    """The same lines in every packing."""
    return {
        f"{name}-{ending}": Target((Whole(data, pack),), tokens + BINARY, reads(f"a.{name}.{ending}", **table))
        for ending, pack in PACKINGS.items()
    }


def _wholes(*inputs: bytes) -> tuple[Whole, ...]:
    return tuple(map(Whole, inputs))


def _file(name: str, **table: Any) -> Callable[[bytes, Path], int]:
    return reads(name, kind="files", **table)


def _book(name: str) -> Callable[[bytes, Path], int]:
    return reads(name, kind="bookcorpus", min_prose_words=5)


def _pubmed(name: str) -> Callable[[bytes, Path], int]:
    return reads(name, kind="xml", preset="pubmed")


TARGETS: dict[str, Target] = {
    "wikitext": Target(_wholes(WIKITEXT.encode(), PROSE.encode()), WIKI, reads_wikitext),
    "wikipedia-xml": Target(_wholes(DUMP, DOCTYPE + DUMP), MARKUP + WIKI + PAGE, reads("d.xml", kind="wikipedia")),
    "wikipedia-utf16": Target((Whole(DUMP, _utf16),), PAGE + BINARY, reads("d.xml", kind="wikipedia")),
    "wikipedia-bz2": Target((Whole(DUMP, bz2.compress),), BINARY + PAGE, reads("d.xml.bz2", kind="wikipedia")),
    "wikipedia-zst": Target((Whole(DUMP, _zstd),), BINARY + PAGE, reads("d.xml.zst", kind="wikipedia")),
    "wikipedia-streams": Target((Whole(DUMP, _streams),), BINARY + PAGE, reads("d.xml.bz2", kind="wikipedia")),
    "wikipedia-index": Target(
        (Whole(DUMP, _multistream), Whole(bz2.decompress(_multistream(DUMP).partition(INDEX_FOLLOWS)[2]), _own_index)),
        (*BINARY, *PAGE, b":", b"\n"),
        reads_indexed,
    ),
    "html": Target(_wholes(HTML), MARKUP + HTML_SIGNS, _file("a.html")),
    "warc": Target((Whole(WARC), Whole(HTML, _responses)), MARKUP + HEADS, reads("a.warc", kind="cc-news")),
    "warc-http": Target(BODIES, BINARY + HEADS, reads("a.warc", kind="cc-news")),
    "warc-gz": Target(
        (Whole(WARC, _by_record), Whole(WARC, PACKINGS["gz"])), BINARY + HEADS, reads("a.warc.gz", kind="cc-news")
    ),
    "wet": Target(_wholes(WET), HEADS + LINES, reads("a.wet", kind="cc-news")),
    "wet-gz": Target((Whole(WET, _by_record),), HEADS + BINARY, reads("a.wet.gz", kind="cc-news")),
    "book": Target(
        _wholes(BOOK, BOOK.decode().encode("utf-16"), BOOK.decode().encode("cp1252", "replace")),
        BOOKISH + LINES,
        _book("b.txt"),
    ),
    "book-gz": Target((Whole(BOOK, PACKINGS["gz"]),), BOOKISH + BINARY, _book("b.txt.gz")),
    "book-tar": Target(BOOK_TARS, BINARY, _book("b.tar")),
    "book-tgz": Target(tuple(Whole(tar.data, PACKINGS["gz"]) for tar in BOOK_TARS), BINARY, _book("b.tar.gz")),
    "epub": Target(_wholes(EPUB, _zip(zipfile.ZIP_STORED)), BINARY + MARKUP, _book("b.epub")),
    "epub-inside": Target(_epub_members(), MARKUP + HTML_SIGNS + OPF, _book("b.epub")),
    "files-epub": Target((Whole(EPUB), *_epub_members()), MARKUP + BINARY + OPF, _file("b.epub")),
    "openwebtext-tar": Target(TARS, BINARY + LINES, reads("o.tar", kind="openwebtext")),
    "openwebtext-xz": Target(
        tuple(Whole(tar.data, pack) for tar in TARS for pack in (lzma.compress, _nested)),
        BINARY + LINES,
        reads("o.xz", kind="openwebtext"),
    ),
    "openwebtext-parquet": Target(PARQUETS, BINARY + LINES, reads("o.parquet", kind="openwebtext")),
    "stories": Target(
        _wholes(PROSE.encode() * 2, b"\n\n".join([PROSE.encode()] * 3)),
        LINES,
        reads("s.txt", kind="stories", form="blank-line"),
    ),
    "stories-line": Target(_wholes(PROSE.encode() + b"\n" + PROSE.encode()), LINES, reads("s.txt", kind="stories")),
    "stories-gz": Target(
        (Whole(PROSE.encode(), PACKINGS["gz"]),), LINES + BINARY, reads("s.txt.gz", kind="stories", form="blank-line")
    ),
    "text": Target(
        _wholes(PROSE.encode(), PROSE.encode("utf-16"), "caf\xe9".encode("cp1252")),
        LINES,
        _file("a.txt", encoding="auto"),
    ),
    "jsonl": Target(_wholes(JSONL), LINES, _file("a.jsonl", fields=FIELDS)),
    **_packed("jsonl", LINES, JSONL, kind="files"),
    "csv": Target(_wholes(CSV), LINES, _file("a.csv", fields=COLUMNS)),
    "csv-plain": Target(
        _wholes(TSV.replace(b"\t", b";")), LINES, _file("a.csv", quote="", delimiter=";", encoding="auto")
    ),
    "tsv": Target(_wholes(TSV), LINES, _file("a.tsv", fields=COLUMNS)),
    "parquet": Target(PARQUETS, BINARY + LINES, _file("a.parquet", fields=COLUMNS)),
    "parquet-nested": Target(
        PARQUETS[:3],
        BINARY,
        _file("a.parquet", fields={"text": "id", "url": "meta.url", "date": "at", "title": "price"}),
    ),
    "json": Target(_wholes(*JSONS), LINES, _file("a.json")),
    "json-gz": Target((Whole(JSONS[1], PACKINGS["gz"]),), LINES + BINARY, _file("a.json.gz", encoding="auto")),
    "json-wide": Target((Whole(JSONS[1], _utf16),), LINES + BINARY, _file("a.json", encoding="auto")),
    "csv-stated": Target(
        _wholes(b"sep=;\n" + TSV.replace(b"\t", b";"), PROSE.replace(".", ".\n").encode()),
        LINES,
        _file("a.csv", encoding="auto", fields={"text": ["text", "column 1"]}),
    ),
    "csv-legacy": Target(
        _legacy("cp932", "utf-16-le"),
        LINES + BINARY,
        _file("a.csv", encoding="auto"),
    ),
    "text-legacy": Target(
        _legacy("cp932", "euc_jp", "utf-16-be"),
        LINES + BINARY,
        _file("a.txt", encoding="auto"),
    ),
    "xlsx": Target((Whole(package(SHEETS)), *changed_parts(SHEETS)), MARKUP + BINARY, _file("a.xlsx")),
    "pptx": Target((Whole(package(SLIDES)), *changed_parts(SLIDES)), MARKUP + BINARY, _file("a.pptx")),
    "docx": Target((Whole(package(WORDS)), *changed_parts(WORDS)), MARKUP + BINARY, _file("a.docx")),
    "eml": Target(_wholes(LETTER), MAILISH + HTML_SIGNS, _file("a.eml")),
    "mbox": Target(_wholes(MAILBOX), MAILISH, _file("a.mbox")),
    "zip": Target(
        (
            Whole(package(MEMBERS)),
            Whole(package(MEMBERS, zipfile.ZIP_STORED)),
            Whole(JSONS[0], partial(_in_zip, "d.json")),
        ),
        BINARY + LINES,
        _file("a.zip"),
    ),
    "pubmed": Target(_wholes(XML_START + PUBMED, DOCTYPE + PUBMED[58:]), MARKUP, _pubmed("pubmed24n0009.xml")),
    "pubmed-gz": Target((Whole(PUBMED, PACKINGS["gz"]),), MARKUP + BINARY, _pubmed("pubmed24n0009.xml.gz")),
    "jats": Target(_wholes(JATS), MARKUP, reads("a.nxml", kind="xml", preset="jats")),
    "patent": Target(_wholes(PATENT), MARKUP, reads("a.xml", kind="xml", preset="patent")),
    "files-patent": Target(_wholes(PATENT), MARKUP, _file("a.xml")),
    "files-greenbook": Target(_wholes(GREENBOOK, GREENBOOK * 2), LINES, _file("a.txt")),
    "xml": Target(_wholes(ENTRIES, b"\xef\xbb\xbf" + ENTRIES), MARKUP, reads("a.xml", kind="xml", **OWN_XML)),
    "mail": Target(_wholes(MAIL), MAILISH, partial(reads_mail, example_source())),
    "python-module": Target(_wholes(MODULE), CODE, partial(reads_module, "stdlib/tide.py")),
    "python-package": Target(_wholes(METADATA), MAILISH, partial(reads_module, "tide-1/tide-1.dist-info/METADATA")),
    "items-txt": Target(_wholes(PROSE.encode()), LINES, partial(reads_items, ".txt")),
    "items-jsonl": Target(_wholes(JSONL), LINES, partial(reads_items, ".jsonl", fields=("text",))),
    "items-json": Target(
        _wholes(json.dumps(SQUAD).encode(), json.dumps(ROWS).encode()), LINES, partial(reads_items, ".json")
    ),
    "items-csv": Target(_wholes(CSV), LINES, partial(reads_items, ".csv", fields=("text", "1"))),
    "items-tsv": Target(_wholes(TSV), LINES, partial(reads_items, ".tsv")),
    "items-parquet": Target(PARQUETS[:3], BINARY, partial(reads_items, ".parquet")),
    "catalogues": Target(
        (
            Whole(b"status\n" + STATUS),
            Whole(b"pages\n" + LISTING),
            Whole(b"addresses\n" + ADDRESSES),
            Whole(NEWS, partial(_listed, b"news")),
            Whole(TEXTS, partial(_listed, b"texts")),
        ),
        (*LINES, b"https://", b"name=", b"sha256:", b"a" * 64, b"-p1p2", b"#", b"@", b"%00", b"/../", b"http://["),
        reads_catalogue,
    ),
}
