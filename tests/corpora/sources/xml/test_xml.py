"""XML by a map of fields: paths, layout, every kind of bad record, and files that are refused."""

import bz2
import gzip
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from source_reading import read_and_find as read
from source_reading import reasons
from tiers import LONG

from corpora.errors import InputError
from corpora.sources.registry import make_source
from corpora.sources.xml.source import (
    TextLayout,
    XmlSource,
    extract_paragraphs,
    find_all,
    parse_date,
    parse_path,
    parse_step,
)

FIELDS = {"text": ["title", "body//p"], "key": "@id", "title": "title", "revision": "rev", "date": "when"}


def source(path: Path, **settings: Any) -> XmlSource:
    given = {"record": "entry", "fields": FIELDS, **settings}
    return XmlSource(name="own", path=str(path), **given)


def entry(number: int, inside: str = "", encoding: str = "utf-8") -> bytes:
    inside = inside or f"<title>Title {number}</title><body><p>Text {number}.</p></body>"
    return f'<entry id="{number}">{inside}</entry>\n'.encode(encoding)


def write(path: Path, *entries: bytes, head: bytes = b"<?xml version='1.0'?>\n<set>", end: bytes = b"</set>\n") -> Path:
    path.write_bytes(head + b"".join(entries) + end)
    return path


def test_fields_are_found_by_their_paths(tmp_path: Path) -> None:
    inside = (
        "<title>A <i>small</i> thing</title><rev>7</rev><when><Year>2020</Year><Month>Feb</Month><Day>3</Day></when>"
        "<body><sec><p>One &amp; H<sub>2</sub>O.</p></sec><p>\n  Two\n  lines.</p><note>No.</note></body>"
    )
    write(tmp_path / "a.xml", entry(1, inside), entry(2))
    first, second = read(source(tmp_path))
    assert (first.key, first.title, first.revision, first.date) == ("1", "A small thing", 7, "2020-02-03")
    assert first.text == "A small thing\n\nOne & H2O.\n\nTwo lines."
    assert (second.key, second.text, second.revision, second.date) == ("2", "Title 2\n\nText 2.", None, None)


TREE = etree.fromstring(
    b"<r xmlns:n='x'><a k='1'>one</a><n:a k='2'>two</n:a><b><a>three</a><c n:k='4'><a k='2'>four</a></c></b></r>"
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a", ["one", "two"]),
        ("a[@k='2']", ["two"]),
        ("b/a", ["three"]),
        ("b//a", ["three", "four"]),
        ("//a[@k='2']", ["two", "four"]),
        ("b/*/a", ["four"]),
        ("a/@k", ["1", "2"]),
        ("b/c/@k", ["4"]),
        ("b/none", []),
    ],
)
def test_paths(path: str, found: list[str]) -> None:
    hits = find_all(TREE, parse_path(path, "fields"))
    assert [hit if isinstance(hit, str) else hit.text for hit in hits] == found


@pytest.mark.parametrize("path", ["a/@b/c", "b/[x]", "/a", "", "a[b]", "a b", "a/", "@", "a[@b=c]", "a|b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="is no path"):
        parse_path(path, "fields")


def test_the_layout_of_a_text() -> None:
    layout = TextLayout(
        blocks=frozenset(("p", "item")),
        skip=frozenset(("table",)),
        marks=(parse_step("x[@t='ref']", "marks"),),
        label="Label",
    )
    element = etree.fromstring(
        "<s Label='AIM'>Lead<p>One<x t='ref'>1</x> two [<x t='ref'>2</x>, <x t='ref'>3</x>]; <x t='fig'>4</x>.</p>"
        "tail<table>no</table> stays<item>A <x t='ref'>Lee 2003</x> says</item></s>"
    )
    assert extract_paragraphs(element, layout) == ["AIM: Lead", "One two; 4.", "tail stays", "A Lee 2003 says"]


@pytest.mark.parametrize(
    ("xml", "parts"),
    [
        ("<c><p>The lamp of <r><p>claim 1</p></r> or <r><p>2</p></r>, lit<p>by day.</p></p></c>",
         ["The lamp of claim 1 or 2, lit", "by day."]),
        ("<c><p>The lamp of <r><p>claim 1</p></r></p> <r><p>By day.</p></r></c>", ["The lamp of claim 1", "By day."]),
        ("<c><p>By Lee et al. [<x/>]. See also <i>al.</i> <x/>, 2.</p></c>", ["By Lee et al. See also al., 2."]),
        ("<c><sec><title>Data</title><table>1</table></sec><sec><title>Aim</title><p>A.</p></sec></c>", ["Aim", "A."]),
        ("<c><sec><label>2</label><title>Data</title></sec><sec><title>End</title></sec></c>", ["Data", "End"]),
    ],
)  # fmt: skip
def test_references_in_sentences_and_sections_without_text(xml: str, parts: list[str]) -> None:
    layout = TextLayout(
        blocks=frozenset(("p", "sec", "title")), skip=frozenset(("table", "label")), marks=(parse_step("x", "marks"),)
    )
    assert extract_paragraphs(etree.fromstring(xml), layout) == parts


@pytest.mark.parametrize(
    ("xml", "date"),
    [
        ("<d><Year>2001</Year><Day>4</Day></d>", "2001"),
        ("<d><year>2001</year><month>12</month><day>4</day></d>", "2001-12-04"),
        ("<d>1998 Dec-1999 Jan</d>", "1998"),
        ("<d>2001-05</d>", "2001-05"),
        ("<d>20010507</d>", "2001-05-07"),
        ("<d>soon</d>", None),
        ("<d><Season>Spring</Season></d>", None),
    ],
)
def test_dates(xml: str, date: str | None) -> None:
    assert parse_date(etree.fromstring(xml)) == date


BOMB = b'<!DOCTYPE set [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>\n<set>'


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b'<entry id="x"><title>a</body></entry>', "not well-formed XML"),
        (b'<entry id="x"><title>\xff</title></entry>', "not utf-8 at byte 21 of the record"),
        (b'<entry id="x"><title>&b;</title></entry>', "uses the entity &b;, and entities are never expanded"),
        (b'<entry id="x"><title>a\x00b</title></entry>', "not well-formed XML"),
        (b'<entry id="x"><title>&#0;</title></entry>', "not well-formed XML"),
        (b"<entry><title>a</title></entry>", "no @id (key)"),
        (b'<entry id="x">' + b"<b>" * 3000 + b"</b>" * 3000 + b"</entry>", "not well-formed XML"),
        (b'<entry id="x"><title>a</title>', "no end tag"),
        (b"</entry>", "no start tag"),
    ],
)
def test_a_bad_record_is_a_damaged_drop_and_costs_no_other(tmp_path: Path, bad: bytes, says: str) -> None:
    write(tmp_path / "a.xml", entry(1), bad, entry(2), head=BOMB)
    first, dropped, last = read(source(tmp_path))
    assert (first.key, last.key) == ("1", "2") and first.drop is last.drop is None
    assert dropped.drop is not None and dropped.drop.damaged and says in dropped.drop.detail


def test_entities_of_html_are_characters_and_files_are_never_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    head = b'<!DOCTYPE set SYSTEM "http://127.0.0.1:9/x.dtd" [<!ENTITY s SYSTEM "secret">]><set>'
    inside = "<title>caf&eacute; &lt;b&gt;<![CDATA[ &eacute; <entry> ]]></title>"
    write(tmp_path / "a.xml", entry(1, inside), entry(2, "<title>&s;</title>"), head=head)
    first, second = read(source(tmp_path))
    assert first.text == "café <b> &eacute; <entry>"
    assert second.drop is not None and "&s;" in second.drop.detail


def test_namespaces_encodings_and_packed_files(tmp_path: Path) -> None:
    head = b'<?xml version="1.0" encoding="ISO-8859-1"?><n:set xmlns:n="urn:n" xmlns:x="urn:x">'
    inside = '<n:title x:lang="de">Zürich</n:title>'
    data = head + b'<n:entry id="1">' + inside.encode("latin-1") + b"</n:entry></n:set>"
    (tmp_path / "a.xml.gz").write_bytes(gzip.compress(data))
    (tmp_path / "b.nxml.bz2").write_bytes(bz2.compress(data))
    assert [(record.text, record.key) for record in read(source(tmp_path))] == [("Zürich", "1")] * 2


def test_documents_one_after_another_in_a_file(tmp_path: Path) -> None:
    document = b'<?xml version="1.0"?>\n<!DOCTYPE entry SYSTEM "e.dtd" [ ]>\n'
    (tmp_path / "a.xml").write_bytes(document + entry(1) + document + entry(2))
    assert [record.key for record in read(source(tmp_path))] == ["1", "2"]


def test_too_large_and_empty_are_drops(tmp_path: Path) -> None:
    write(tmp_path / "a.xml", entry(1, f"<title>{'x' * 200}</title>"), entry(2, "<b>not asked for</b>"), entry(3))
    records = read(source(tmp_path, max_record_bytes=150))
    assert reasons(records) == ["too large", "empty", None]
    assert records[1].key == "2"


def test_damaged_files_are_refused_with_the_byte(tmp_path: Path) -> None:
    """Fails if a file that is cut off anywhere, or packed and damaged, gives records and no word."""
    whole = write(tmp_path / "a.xml", entry(1), entry(2)).read_bytes()
    path = tmp_path / "a.xml"
    for stop in range(30, len(whole) - 8):
        path.write_bytes(whole[:stop])
        with pytest.raises(InputError, match=rf"a\.xml ends at byte {stop} .* is cut off"):
            read(source(path))
    packed = gzip.compress(b"<set>" + b"".join(entry(n) for n in range(2000)) + b"</set>", mtime=0)
    path = tmp_path / "b.xml.gz"
    for bad in (packed[:-12], packed[:3000] + b"\x00\xff\x00" + packed[3003:], b"no gzip"):
        path.write_bytes(bad)
        with pytest.raises(InputError, match=r"b\.xml\.gz is damaged behind byte"):
            read(source(path))


@settings(deadline=None)
@given(st.integers(0, 4), st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_byte_costs_no_other_record(hit: int, place: int, flip: int) -> None:
    """Fails if damage inside one record changes another, or what is damaged is neither counted nor refused."""
    entries = [entry(number) for number in range(5)]
    damaged = bytearray(entries[hit])
    at = len(b"<entry") + place % (len(damaged) - len(b"<entry") - len(b"</entry>\n"))
    damaged[at] ^= flip
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.xml", *entries[:hit], bytes(damaged), *entries[hit + 1 :])
        try:
            records = read(source(path))
        except InputError as error:
            assert "inside the record" in str(error) or "before </set>" in str(error)
            return
    found = {record.text for record in records if record.drop is None}
    assert {f"Title {n}\n\nText {n}." for n in range(5) if n != hit} <= found


@pytest.mark.slow
def test_a_record_of_many_megabytes_is_passed_over(tmp_path: Path) -> None:
    """Fails if a record that is too large is held in memory, with tags in it or none."""
    path, megabytes = tmp_path / "a.xml.gz", 150 if LONG else 25
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b'<set><entry id="1">')
        for _ in range(megabytes):
            stream.write(b"x" * 1_000_000)
        for _ in range(megabytes):
            stream.write(b"<p>y</p>z" * 111_111)
        stream.write(b"</entry>" + entry(2) + b"</set>")
    tracemalloc.start()
    records = read(source(path, max_record_bytes=1_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reasons(records) == ["too large", None]
    assert peak < 20_000_000


def test_files_without_such_records_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xml", b"<item/>")
    with pytest.raises(InputError, match=r"a\.xml holds no <entry>; it begins .*<set>"):
        read(source(path))
    path.write_bytes("<set></set>".encode("utf-16"))
    with pytest.raises(InputError, match="UTF-16"):
        read(source(path))
    write(path)
    assert read(source(path)) == []
    (tmp_path / "c.txt").write_text("x")
    with pytest.raises(InputError, match=r"no \.xml or \.nxml"):
        source(tmp_path / "c.txt").files()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"record": ""}, "`record` = ''.*`preset` to one of pubmed, jats, patent"),
        ({"record": "x:entry"}, "without its prefix"),
        ({"preset": "pubmeed"}, "'pubmeed' is not known"),
        ({"fields": {"key": "@id"}}, "`fields` has no text"),
        ({"fields": {"txt": "a"}}, "did you mean 'text'"),
        ({"fields": {"text": 5}}, "neither a path nor a list"),
        ({"fields": {"text": ["a", "b["]}}, "is no path"),
        ({"marks": ["a/b"]}, "not one element"),
        ({"deleted": "gone"}, "container/element"),
        ({"deleted": "gone/id"}, "needs `fields.key`, and `file_order`"),
        ({"file_order": "(\\d+"}, "is no pattern"),
        ({"file_order": "u\\d+"}, "has no group"),
        ({"max_record_bytes": 0}, "max_record_bytes"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], says: str) -> None:
    table = {"kind": "xml", "name": "own", "path": "x", "record": "entry", "fields": FIELDS, **settings}
    with pytest.raises(InputError, match=says):
        make_source(table)


def test_a_preset_is_what_it_fills_in(tmp_path: Path) -> None:
    """Fails if the name of a preset, or the path, enters the identity, or a changed setting does not."""
    own = XmlSource(name="a", path="x", preset="jats")
    form = own.settings()
    spelt = {key: value for key, value in form.items() if key not in ("preset", "max_record_bytes")}
    assert make_source({"kind": "xml", "name": "b", "path": "y", **spelt}).settings() == form
    assert XmlSource(name="a", path="x", preset="jats", label="NlmCategory").settings() != form
    assert XmlSource(name="a", path="x", preset="jats", fields={"text": "Other"}).settings() != form
