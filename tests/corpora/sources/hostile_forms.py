"""Every format in one small whole file, made by the tests, and the source that reads it."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora.errors import InputError
from corpora.judging.documents import plan_documents
from corpora.judging.settings import DocumentsSettings
from corpora.sources.contract import StatCache, hash_files
from corpora.sources.registry import make_source
from corpora.store.places.place import Place
from corpora.store.stage import build_stage

PROSE = (
    b"The keeper of the lighthouse and his cat watch over the bay. It is a quiet life, and they have a boat with "
    b"oars. In the evening he writes down how many ships have passed, and what the weather was like when they did. "
    b"Nobody has asked him for these books in twenty years. He keeps them on a shelf behind the stove, where it is "
    b"warm and dry."
)
WORDS = sorted(set(PROSE.decode().lower().replace(".", "").replace(",", "").split()))
LONG_PROSE = b" ".join(
    f"The {' '.join(random.Random(number).choices(WORDS, k=11))}.".encode() for number in range(60)
)  # as long as a book must be, and without a sentence that comes twice
Fields = Mapping[bytes, bytes]
TEXT: Fields = {b"text": PROSE}


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form of raw file: its source, its name, and how a whole one is made of its text fields."""

    kind: str
    name: str
    make: Callable[[Fields], bytes]
    fields: Fields = field(default_factory=lambda: TEXT)
    table: Mapping[str, Any] = field(default_factory=dict)


DUMP_FIELDS = {b"title": b"Bay", b"ns": b"0", b"id": b"1", b"revision": b"7", b"text": PROSE}
DUMP_FIELDS |= {b"timestamp": b"2026-01-03T00:00:00Z", b"model": b"wikitext"}
WARC_FIELDS = {b"type": b"response", b"uri": b"http://example.org/a", b"date": b"2026-01-03T00:00:00Z", b"text": PROSE}
WARC_FIELDS |= {b"id": b"<urn:uuid:1>", b"media": b"text/html; charset=utf-8", b"title": b"Bay"}
ROW_FIELDS = {b"text": PROSE, b"title": b"Bay", b"url": b"http://example.org/a", b"date": b"2026-01-03", b"key": b"1"}
PUBMED_FIELDS = {b"text": PROSE, b"title": b"Bay", b"key": b"12", b"year": b"2026"}
EPUB_FIELDS = {b"text": LONG_PROSE, b"title": b"Bay", b"author": b"A. B.", b"date": b"2026", b"href": b"a.xhtml"}


def dump(fields: Fields) -> bytes:
    """Two pages, the second always whole."""
    page = (
        b"<page><title>%(title)s</title><ns>%(ns)s</ns><id>%(id)s</id><revision><id>%(revision)s</id><timestamp>"
        b"%(timestamp)s</timestamp><model>%(model)s</model><text>%(text)s</text></revision></page>\n"
    )
    head = b'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">\n'
    return head + page % fields + page % {**DUMP_FIELDS, b"id": b"2"} + b"</mediawiki>\n"


def warc_records(fields: Fields) -> list[bytes]:
    """Two pages, the second always whole."""
    return [warc_record(fields), warc_record({**WARC_FIELDS, b"uri": b"http://example.org/b"})]


def warc_record(fields: Fields) -> bytes:
    html = b"<html><head><title>%(title)s</title></head><body><article><p>%(text)s</p></article></body></html>" % fields
    block = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n%s" % (fields[b"media"], html)
    return record(fields, b"application/http; msgtype=response", block)


def wet(fields: Fields) -> bytes:
    return gzip.compress(record({**fields, b"type": b"conversion"}, b"text/plain", fields[b"text"]))


def record(fields: Fields, media: bytes, block: bytes) -> bytes:
    head = b"WARC/1.0\r\nWARC-Type: %(type)s\r\nWARC-Target-URI: %(uri)s\r\nWARC-Date: %(date)s\r\n" % fields
    head += b"WARC-Record-ID: %(id)s\r\n" % fields
    return head + b"Content-Type: %s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n" % (media, len(block), block)


def json_lines(fields: Fields) -> bytes:
    pairs = b", ".join(b'"%s": "%s"' % item for item in fields.items())
    return b"{%s}\n" % pairs + b"{%s}\n" % b", ".join(b'"%s": "%s"' % item for item in ROW_FIELDS.items())


def table(fields: Fields) -> bytes:
    rows = [list(fields), list(fields.values()), [ROW_FIELDS[name] for name in fields]]
    return b"".join(b",".join(b'"%s"' % value for value in row) + b"\n" for row in rows)


def parquet(fields: Fields) -> bytes:
    """Texts whose bytes Arrow does not look at, as a writer in another language may leave them."""
    names = [name.decode() for name in fields]
    columns = [pa.array([value, ROW_FIELDS[name]], pa.binary()).view(pa.string()) for name, value in fields.items()]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, names), out)
    return out.getvalue()


def pubmed(fields: Fields) -> bytes:
    article = (
        b'<PubmedArticle><MedlineCitation><PMID Version="1">%(key)s</PMID>'
        b"<DateRevised><Year>%(year)s</Year></DateRevised>"
        b"<Article><ArticleTitle>%(title)s</ArticleTitle><Abstract><AbstractText>%(text)s</AbstractText></Abstract>"
        b"</Article></MedlineCitation></PubmedArticle>\n"
    )
    second = article % {**PUBMED_FIELDS, b"key": b"13"}
    return b"<PubmedArticleSet>\n" + article % fields + second + b"</PubmedArticleSet>\n"


def page(fields: Fields) -> bytes:
    return b"<html><head><title>Bay</title></head><body><article><p>%(text)s</p></article></body></html>" % fields


def epub(fields: Fields) -> bytes:
    package = (
        b'<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        b"<dc:title>%(title)s</dc:title><dc:creator>%(author)s</dc:creator><dc:date>%(date)s</dc:date></metadata>"
        b'<manifest><item id="a" href="%(href)s" media-type="application/xhtml+xml"/></manifest>'
        b'<spine><itemref idref="a"/></spine></package>'
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p.opf", package % fields)
        archive.writestr("a.xhtml", b"<html><body><p>%(text)s</p></body></html>" % fields)
    return out.getvalue()


def tar(fields: Fields, names: tuple[str, ...] = ("0000001-" + "0" * 32 + ".txt", "b.txt")) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in zip(names, (fields[b"text"], LONG_PROSE), strict=True):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def nested_tar(fields: Fields) -> bytes:
    """A tar of pages inside xz inside a tar."""
    inner, out = lzma.compress(tar(fields)), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("openwebtext/urlsf_subset00-1_data.xz")
        info.size = len(inner)
        archive.addfile(info, io.BytesIO(inner))
    return out.getvalue()


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "zstd", asbytes=True)
    return packed


def lines(fields: Fields) -> bytes:
    return fields[b"text"] + b"\n\n" + PROSE + b"\n"


BOOK = {b"text": LONG_PROSE}
BOOKS = {"min_prose_words": 50}
MAPPED = {"fields": {"text": "text", "title": "title", "url": "url", "date": "date", "key": "key"}}
COLUMNS: Mapping[str, Any] = {"fields": ROW_FIELDS, "table": MAPPED}
FORMS = (
    Form(kind="wikipedia", name="a.xml", make=dump, fields=DUMP_FIELDS),
    Form(kind="wikipedia", name="a.xml.bz2", make=lambda f: bz2.compress(dump(f)), fields=DUMP_FIELDS),
    Form(kind="wikipedia", name="a.xml.zst", make=lambda f: zstd(dump(f)), fields=DUMP_FIELDS),
    Form(kind="cc-news", name="a.warc", make=lambda f: b"".join(warc_records(f)), fields=WARC_FIELDS),
    Form(
        kind="cc-news",
        name="a.warc.gz",
        make=lambda f: b"".join(map(gzip.compress, warc_records(f))),
        fields=WARC_FIELDS,
    ),
    Form(kind="cc-news", name="a.wet.gz", make=wet, fields=WARC_FIELDS),
    Form(kind="bookcorpus", name="a.txt", make=lambda f: f[b"text"], fields=BOOK, table=BOOKS),
    Form(kind="bookcorpus", name="a.txt.gz", make=lambda f: gzip.compress(f[b"text"]), fields=BOOK, table=BOOKS),
    Form(kind="bookcorpus", name="a.epub", make=epub, fields=EPUB_FIELDS, table=BOOKS),
    Form(kind="bookcorpus", name="a.tar", make=tar, fields=BOOK, table=BOOKS),
    Form(kind="bookcorpus", name="a.tar.gz", make=lambda f: gzip.compress(tar(f)), fields=BOOK, table=BOOKS),
    Form(kind="openwebtext", name="a.tar", make=tar),
    Form(kind="openwebtext", name="a.tar.xz", make=lambda f: lzma.compress(nested_tar(f))),
    Form(kind="openwebtext", name="a.parquet", make=parquet),
    Form(kind="openwebtext", name="a.jsonl", make=json_lines),
    Form(kind="stories", name="a.txt", make=lines, table={"form": "line"}),
    Form(kind="stories", name="b.txt", make=lines, table={"form": "blank-line"}),
    Form(kind="stories", name="a.txt.gz", make=lambda f: gzip.compress(lines(f)), table={"form": "blank-line"}),
    Form(kind="files", name="a.txt", make=lambda f: f[b"text"]),
    Form(kind="files", name="b.txt", make=lambda f: f[b"text"], table={"encoding": "auto"}),
    Form(kind="files", name="a.jsonl", make=json_lines, **COLUMNS),
    Form(kind="files", name="a.jsonl.gz", make=lambda f: gzip.compress(json_lines(f)), **COLUMNS),
    Form(kind="files", name="a.jsonl.zst", make=lambda f: zstd(json_lines(f)), **COLUMNS),
    Form(kind="files", name="a.jsonl.bz2", make=lambda f: bz2.compress(json_lines(f)), **COLUMNS),
    Form(kind="files", name="a.jsonl.xz", make=lambda f: lzma.compress(json_lines(f)), **COLUMNS),
    Form(kind="files", name="a.csv", make=table, **COLUMNS),
    Form(kind="files", name="a.parquet", make=parquet, **COLUMNS),
    Form(kind="files", name="a.html", make=page),
    Form(kind="files", name="a.epub", make=epub, fields=EPUB_FIELDS),
    Form(kind="files", name="a.warc.gz", make=lambda f: gzip.compress(warc_record(f)), fields=WARC_FIELDS),
    Form(kind="xml", name="a.xml", make=pubmed, fields=PUBMED_FIELDS, table={"preset": "pubmed"}),
    Form(
        kind="xml",
        name="a.xml.gz",
        make=lambda f: gzip.compress(pubmed(f)),
        fields=PUBMED_FIELDS,
        table={"preset": "pubmed"},
    ),
)


def each(forms: tuple[Form, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("form", forms, ids=lambda form: f"{form.kind}-{form.name}")


each_form = each(FORMS)


def outcome(path: Path, form: Form) -> Mapping[str, int] | str:
    """What a run makes of a path: counted rows by outcome, or the paragraph with which it refuses.

    Fails where anything else is raised, the ledger does not add up, the paragraph is no paragraph or names no file,
    or something outside the store is written or changed.
    """
    around = Path.cwd().parent
    store = around / "store"
    before = listing(around, store)
    source = make_source({"kind": form.kind, "name": "hostile", "path": str(path), **form.table})
    try:
        files = hash_files(source.files(), StatCache())
        manifest = build_stage(Place(str(store)), plan_documents(source, files, DocumentsSettings()))
    except InputError as error:
        assert path.name in str(error) and str(error).strip() == str(error) and "\n\n" not in str(error)
        assert listing(around, store) == before
        return str(error)
    assert listing(around, store) == before
    if not manifest.parts:
        return {"documents": 0}
    account = manifest.ledger.account("records")
    rows = sum(part.rows("documents") + part.rows("dropped") for part in manifest.parts)
    assert account.total == sum(account.outcomes.values()) == rows
    return account.outcomes


def listing(folder: Path, store: Path) -> list[tuple[str, int, int]]:
    """Everything below a folder but the store: path, size, time of the last change."""
    found = (path for path in sorted(folder.rglob("*")) if store not in (path, *path.parents))
    return [(str(path), (stat := path.lstat()).st_size, stat.st_mtime_ns) for path in found]


def documents(found: Mapping[str, int] | str) -> int:
    return found["documents"] if not isinstance(found, str) else 0
