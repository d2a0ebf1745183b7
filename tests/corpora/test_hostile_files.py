"""Every form of raw file in every kind of damage: counted drops or one clear paragraph, and nothing written outside.

Each case goes the way of a run: the source's files are planned, a part is built, and its ledger compares the records
counted in the bytes with the rows that were written. `test_memory.py` has what is large or expands.
"""

import bz2
import gzip
import io
import lzma
import os
import random
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora.documents import plan_documents
from corpora.errors import InputError
from corpora.judging import DocumentsSettings, judge_records
from corpora.sources.registry import make_source
from corpora.sources.source import Record, StatCache, Tally, hash_files
from corpora.store.places import Place
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
NUM_FLIPS = 20
NOBODY = 65_534
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


# Whole files


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
PACKED = tuple(form for form in FORMS if form.name.endswith((".gz", ".bz2", ".xz", ".zst")))
OWN_PARSER = tuple(form for form in FORMS if form not in PACKED or form.name in ("a.wet.gz", "a.txt.gz", "a.tar.xz"))


def each(forms: tuple[Form, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("form", forms, ids=lambda form: f"{form.kind}-{form.name}")


each_form = each(FORMS)


# What comes of a file


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


def parse(path: Path, form: Form) -> None:
    """The same without a store: the records, each of which the columns of the next stage can hold."""
    source = make_source({"kind": form.kind, "name": "hostile", "path": str(path), **form.table})
    tally, batch = Tally(), list[Record]()
    try:
        for file in hash_files(source.files(), StatCache()):
            for piece in source.slices(file):
                batch += source.records(piece, tally)
    except InputError as error:
        assert path.name in str(error) and str(error).strip() == str(error) and "\n\n" not in str(error)
        return
    assert tally.records == len(batch)
    assert (
        judge_records([found for found in batch if found.drop], "hostile", DocumentsSettings()).documents.num_rows == 0
    )
    for found in batch:
        pa.array([*found[1:3], *found[5:11]], pa.large_string()).validate(full=True)


def listing(folder: Path, store: Path) -> list[tuple[str, int, int]]:
    """Everything below a folder but the store: path, size, time of the last change."""
    found = (path for path in sorted(folder.rglob("*")) if store not in (path, *path.parents))
    return [(str(path), (stat := path.lstat()).st_size, stat.st_mtime_ns) for path in found]


def documents(found: Mapping[str, int] | str) -> int:
    return found["documents"] if not isinstance(found, str) else 0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the hostile file, two below the one that is watched; the working folder is beside it."""
    for name in ("raw", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "raw"


@each_form
def test_whole_files_are_read(place: Path, form: Form) -> None:
    """Fails where what is damaged below would not be read whole."""
    (place / form.name).write_bytes(form.make(form.fields))
    found = outcome(place / form.name, form)
    assert documents(found) >= 1 and not isinstance(found, str)
    assert set(found) == {"documents"}


@each_form
def test_cut_off(place: Path, form: Form) -> None:
    """Fails where a file that is cut off ends a run in anything but drops or a paragraph."""
    data = form.make(form.fields)
    for share in (0.1, 0.5, 0.9):
        (place / form.name).write_bytes(data[: int(share * len(data))])
        outcome(place / form.name, form)
    (place / form.name).write_bytes(b"")
    assert documents(outcome(place / form.name, form)) == 0


@each(PACKED)
def test_packed_files_that_are_cut_off_are_told(place: Path, form: Form) -> None:
    """Fails where a packed file that is cut off is taken for a whole one, however little is missing."""
    data = form.make(form.fields)
    for size in (len(data) // 3, len(data) - 1):
        (place / form.name).write_bytes(data[:size])
        found = outcome(place / form.name, form)
        assert isinstance(found, str) or any("damaged" in reason for reason in found)


@each_form
def test_bits_flipped(place: Path, form: Form) -> None:
    """Fails where one turned bit ends a run in anything but drops or a paragraph."""
    data = form.make(form.fields)
    draw = random.Random(form.kind + form.name)
    for _ in range(NUM_FLIPS):
        spoilt = bytearray(data)
        spoilt[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (place / form.name).write_bytes(spoilt)
        parse(place / form.name, form)


SPOILS = {
    "a zero": b"\0",
    "many zeros": bytes(600),
    "no UTF-8": b"\xff\xc3\x28\xfe",
    "half a character, escaped": b"\\ud800 &#xD800;",
    "half a character in bytes": b"\xed\xa0\x80",
    "control characters": b"\x1b[2J\x07\r\x0b",
    "nothing": b"",
}


@each(OWN_PARSER)
@pytest.mark.parametrize("spoil", SPOILS)
def test_spoilt_fields(place: Path, form: Form, spoil: str) -> None:
    """Fails where a text field that no writer should write ends a run: each field in turn, then all of them."""
    inside = SPOILS[spoil]
    for names in (*((name,) for name in form.fields), tuple(form.fields)):
        middle = {name: form.fields[name][:9] + inside + form.fields[name][9:] if inside else b"" for name in names}
        (place / form.name).write_bytes(form.make({**form.fields, **middle}))
        (parse if len(names) == 1 < len(form.fields) else outcome)(place / form.name, form)


# Encodings

CODECS = "undefined idna punycode unicode_escape raw_unicode_escape utf-7 utf-16 hex zlib rot13 cp037 none-such".split()


@pytest.mark.parametrize("codec", CODECS)
def test_encodings_that_a_file_may_state(place: Path, codec: str) -> None:
    """Fails where an encoding that Python knows, but no text is in, ends a run: of XML, of pages, as a setting."""
    body = PROSE + rb" \ud800 +2AA- caf" + b"\xe9"
    declared = b'<?xml version="1.0" encoding="%s"?>' % codec.encode() + pubmed({**PUBMED_FIELDS, b"text": body})
    (place / "a.xml").write_bytes(declared)
    outcome(place / "a.xml", Form(kind="xml", name="a.xml", make=pubmed, table={"preset": "pubmed"}))
    stated = b'<meta charset="%s">%s' % (codec.encode(), body)
    (place / "a.html").write_bytes(stated)
    outcome(place / "a.html", Form(kind="files", name="a.html", make=page))
    (place / "a.epub").write_bytes(epub({**EPUB_FIELDS, b"text": stated}))
    outcome(place / "a.epub", Form(kind="files", name="a.epub", make=epub))
    media = b"text/html; charset=%s" % codec.encode()
    (place / "a.warc").write_bytes(warc_record({**WARC_FIELDS, b"text": body, b"media": media}))
    outcome(place / "a.warc", Form(kind="cc-news", name="a.warc", make=warc_record))
    try:
        make_source({"kind": "files", "name": "hostile", "path": "a.txt", "encoding": codec})
    except InputError:
        return
    (place / "a.txt").write_bytes(body)
    outcome(place / "a.txt", Form(kind="files", name="a.txt", make=page, table={"encoding": codec}))


# Where a file should be


@each_form
def test_a_folder_in_place_of_a_file(place: Path, form: Form) -> None:
    """Fails where a folder with the name of a file is opened: alone, and among files."""
    (place / form.name).mkdir()
    assert isinstance(outcome(place / form.name, form), str)
    whole = place / f"z{form.name}"
    whole.write_bytes(form.make(form.fields))
    assert documents(outcome(place, form)) >= 1


@each_form
def test_a_file_that_goes_away(place: Path, form: Form) -> None:
    """Fails where a link to nothing is read, or named without its name."""
    (place / form.name).symlink_to(place / "nowhere")
    assert isinstance(outcome(place / form.name, form), str)


@each_form
def test_a_file_that_may_not_be_read(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where permissions are anything but a paragraph: of a file, and of the folder around it."""
    with tempfile.TemporaryDirectory() as folder, as_nobody(Path(folder)):
        place = Path(folder) / "raw"
        (Path(folder) / "work").mkdir()
        monkeypatch.chdir(Path(folder) / "work")
        place.mkdir()
        (place / form.name).write_bytes(form.make(form.fields))
        (place / form.name).chmod(0)
        assert isinstance(outcome(place / form.name, form), str)
        place.chmod(0)
        assert isinstance(outcome(place / form.name, form), str)
        place.chmod(0o700)
        monkeypatch.undo()


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Root may read everything, so for a while it is somebody else, to whom the folder belongs."""
    if os.geteuid():
        yield
        return
    os.chown(folder, NOBODY, -1)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_name_that_is_not_utf_8(place: Path) -> None:
    """Fails where a name that no column can hold is found out only by the writer of a table."""
    name = os.fsdecode(b"caf\xe9.jsonl")
    (place / name).write_bytes(json_lines(ROW_FIELDS))
    source = make_source({"kind": "files", "name": "hostile", "path": str(place)})
    with pytest.raises(InputError, match="UTF-8"):
        source.files()


# Archives whose members point elsewhere


def hostile_tar(target: Path) -> bytes:
    """Members that would be written beside and above, links and devices with and without bytes, and one good text."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in (f"{target}/absolute.txt", "../../up.txt", "a/../../../up.epub", "good.txt"):
            info = tarfile.TarInfo(name)
            info.size = len(LONG_PROSE)
            archive.addfile(info, io.BytesIO(LONG_PROSE))
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, b"6", b"Z")):
            info = tarfile.TarInfo(f"{number}.txt")
            info.type, info.linkname = kind, f"{target}/secret.txt"
            archive.addfile(info)
    return out.getvalue()


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.xz"])
def test_members_that_point_elsewhere(place: Path, name: str) -> None:
    """Fails where a member is unpacked, or a link followed: what it names is neither written nor in a text."""
    target = place.parent / "target"
    target.mkdir()
    (target / "secret.txt").write_bytes(b"The secret word is xyzzy. " * 90)
    packings: dict[str, Callable[[bytes], bytes]]
    packings = {"a.tar": bytes, "a.tar.gz": gzip.compress, "a.tar.xz": lzma.compress}
    (place / name).write_bytes(packings[name](hostile_tar(target)))
    kinds = {"a.tar": ("bookcorpus", "openwebtext"), "a.tar.gz": ("bookcorpus",), "a.tar.xz": ("openwebtext",)}
    for kind in kinds[name]:
        found = outcome(place / name, Form(kind=kind, name=name, make=dump))
        assert not isinstance(found, str) and sum(found.values()) == 10
        assert documents(found) >= 1 and sum(count for reason, count in found.items() if "not a" in reason) >= 5


@pytest.mark.parametrize("kind", ["bookcorpus", "files"])
def test_a_zip_that_points_elsewhere(place: Path, kind: str) -> None:
    """Fails where a page that an EPUB names outside itself is read, or one of its members is unpacked."""
    (place.parent / "secret.xhtml").write_bytes(b"<p>The secret word is xyzzy.</p>" * 90)
    for href in (b"../secret.xhtml", b"/etc/hostname", b"file:///etc/hostname", b"%2e%2e/secret.xhtml"):
        (place / "a.epub").write_bytes(epub({**EPUB_FIELDS, b"href": href}))
        found = outcome(place / "a.epub", Form(kind=kind, name="a.epub", make=epub))
        assert not isinstance(found, str) and documents(found) == 0
        with zipfile.ZipFile(place / "a.epub", "a") as archive:
            archive.writestr("../../up.txt", "up")
        outcome(place / "a.epub", Form(kind=kind, name="a.epub", make=epub))
