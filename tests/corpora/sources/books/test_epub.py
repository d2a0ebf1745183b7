"""EPUB: order, apparatus, inline markup, what lies about itself, and every kind of damage."""

import io
import zipfile
from collections.abc import Mapping

import pytest
from labelled_cases import cases_of

from corpora.sources.books import epub as epub_module
from corpora.sources.books.epub import BadBook, LargeBook, LockedBook, read_epub, read_page_paragraphs

CASES = cases_of(__file__, "epub")

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/package.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
METADATA = """<metadata xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:opf="http://www.idpf.org/2007/opf">
<dc:title>The Sky</dc:title><dc:creator opf:role="ill">Bob Ray</dc:creator>
<dc:creator opf:role="aut">Lee, Ann</dc:creator><dc:language>en-GB</dc:language>
<dc:date opf:event="conversion">2020-01-01</dc:date><dc:date opf:event="publication">1994-08</dc:date>
<dc:rights>Public domain in the USA.</dc:rights>
<dc:identifier>http://www.gutenberg.org/ebooks/158</dc:identifier></metadata>"""
ENCRYPTED = (
    '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:enc="http://www.w3.org/2001/04/xmlenc#">'
    '<enc:EncryptedData><enc:EncryptionMethod Algorithm="{algorithm}"/><enc:CipherData>'
    '<enc:CipherReference URI="{uri}"/></enc:CipherData></enc:EncryptedData></encryption>'
)


def page(body: str, attributes: str = "") -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" '
        f'xmlns:epub="http://www.idpf.org/2007/ops"><head><title>Sky</title></head><body{attributes}>{body}</body></html>'
    )


def package(pages: Mapping[str, str], extra: str = "", guide: str = "") -> str:
    """A package file whose spine has these pages (name: properties) in order."""
    items = "".join(
        f'<item id="i{number}" href="{name}" media-type="application/xhtml+xml" properties="{properties}"/>'
        for number, (name, properties) in enumerate(pages.items())
    )
    spine = "".join(f'<itemref idref="i{number}"/>' for number in range(len(pages)))
    return (
        f'<package xmlns="http://www.idpf.org/2007/opf" version="3.0">{METADATA}<manifest>{items}{extra}</manifest>'
        f"<spine>{spine}</spine><guide>{guide}</guide></package>"
    )


def packed(members: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def book(pages: Mapping[str, str], guide: str = "", **more: str) -> bytes:
    names = {name: "nav" if name.startswith("menu") else "" for name in pages}
    members = {f"OPS/{name}": body for name, body in pages.items()}
    return packed(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": CONTAINER,
            "OPS/package.opf": package(names, guide=guide),
            **members,
            **{name.replace("__", "/").replace("_xml", ".xml"): text for name, text in more.items()},
        }
    )


def test_pages_come_in_the_order_of_the_spine() -> None:
    pages = {"b%20c.xhtml": page("<p>One.</p>"), "a.xhtml": page("<p>Two.</p>"), "0.html": page("<p>Three.</p>")}
    members = {f"OPS/{name.replace('%20', ' ')}": text for name, text in pages.items()}
    names = dict.fromkeys(pages, "")
    extra = '<item id="css" href="a.css" media-type="text/css"/><item id="x" href="unread.xhtml"/>'
    data = packed(
        {
            "META-INF/container.xml": CONTAINER,
            "OPS/package.opf": package(names, extra),
            "OPS/unread.xhtml": "",
            **members,
        }
    )
    assert read_epub(data, 1_000_000).paragraphs == ["One.", "Two.", "Three."]


def test_what_the_package_says_of_the_book() -> None:
    found = read_epub(book({"a.xhtml": page("<p>One.</p>")}), 1_000_000)
    assert (found.title, found.creator, found.language, found.date) == ("The Sky", "Ann Lee", "en-GB", "1994-08")
    assert found.rights == "Public domain in the USA."
    assert found.identifiers == ("http://www.gutenberg.org/ebooks/158",)


def test_apparatus_is_passed_over_where_the_book_names_it() -> None:
    prose = "<p>" + "It was late, and the lamp in the window went out. " * 150 + "</p>"
    pages = {
        "menu.xhtml": page("<p>Menu.</p>"),
        "cover.xhtml": page("<p>Cover.</p>"),
        "titlepage.xhtml": page("<p>Title.</p>"),
        "book-copyright.xhtml": page("<p>Copyright.</p>"),
        "typed.xhtml": page('<section epub:type="imprint"><p>Imprint.</p></section><p>Kept.</p>'),
        "colophon_2.html": page("<p>Colophon.</p>"),
        "front.xhtml": page("<p>Guided.</p>"),
        "toc.html": page(prose),
        "discovery.xhtml": page("<p>Found.</p>"),
        "body.xhtml": page("<p>Whole.</p>", ' epub:type="bodymatter toc"'),
    }
    guide = '<reference type="copyright-page" href="front.xhtml"/><reference type="toc" href="discovery.xhtml#list"/>'
    found = read_epub(book(pages, guide), 1_000_000).paragraphs
    assert [text[:20] for text in found] == ["Kept.", "It was late, and the", "Found."]


@pytest.mark.parametrize(("body", "expected"), CASES["markup"])
def test_markup_becomes_paragraphs(body: str, expected: list[str]) -> None:
    assert read_page_paragraphs(page(body).encode()) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"<html><body><p>One<p>Two & three<br>four", ["One", "Two & three\nfour"]),
        (b"<html><head><title/></head><body><a id='x'/><p>One <b>two</p><script/>three", ["One two", "three"]),
        (b"<p>One &unknown; two</p>", ["One &unknown; two"]),
        (b"<?xml version='1.0' encoding='iso-8859-1'?><html><body><p>caf\xe9</p></body></html>", ["caf\xe9"]),
        (b"<html><head><meta charset='windows-1251'></head><p>\xcc\xe8\xf0</p>", ["\u041c\u0438\u0440"]),
        ("<html><body><p>caf\xe9</p></body></html>".encode("utf-16"), ["caf\xe9"]),
        (b"<html><body><p>One\x00 \x01two</p></body></html>", None),
        (b"Only text", ["Only text"]),
        (b"", []),
        (b"   ", []),
        (b"<div>" * 20_000 + b"deep", None),
    ],
)
def test_a_page_that_is_not_well_formed_is_read_as_a_browser_would(data: bytes, expected: list[str] | None) -> None:
    found = read_page_paragraphs(data)
    assert found == expected if expected is not None else isinstance(found, list)


def test_no_entity_is_resolved() -> None:
    secret = "<!DOCTYPE html [<!ENTITY a SYSTEM 'file:///etc/passwd'><!ENTITY b 'bbbb'>]>"
    for body in ("<p>x&a;y</p>", "<p>x&b;y</p>"):
        found = read_page_paragraphs(f"{secret}<html><body>{body}</body></html>".encode())
        assert len(found) == 1 and "root" not in found[0] and "bbbb" not in found[0]
    laughs = "<!ENTITY l0 'ha'>" + "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 12))
    container = f"<!DOCTYPE c [{laughs}]>{CONTAINER.replace('</container>', '&l11;</container>')}"
    data = packed(
        {
            "META-INF/container.xml": container,
            "OPS/package.opf": package({"a.xhtml": ""}),
            "OPS/a.xhtml": page("<p>One.</p>"),
        }
    )
    assert read_epub(data, 1_000_000).paragraphs == ["One."]


def test_encrypted_text_is_locked_and_obfuscated_fonts_are_not() -> None:
    pages = {"a.xhtml": page("<p>One.</p>")}
    fonts = ENCRYPTED.format(algorithm="http://www.idpf.org/2008/embedding", uri="OPS/font.otf")
    assert read_epub(book(pages, META_INF__encryption_xml=fonts), 1_000_000).paragraphs == ["One."]
    data = book(pages)
    text = ENCRYPTED.format(algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc", uri="OPS/a.xhtml")
    stream = io.BytesIO(data)
    with zipfile.ZipFile(stream, "a") as archive:
        archive.writestr("META-INF/encryption.xml", text)
    with pytest.raises(LockedBook, match=r"OPS/a\.xhtml is encrypted"):
        read_epub(stream.getvalue(), 1_000_000)


def test_a_zip_bomb_is_bounded() -> None:
    bomb = book({"a.xhtml": page("<p>One.</p>"), "b.xhtml": page("<p>" + "0" * 5_000_000 + "</p>")})
    assert len(bomb) < 20_000
    with pytest.raises(LargeBook, match="over 1000000 bytes unpacked"):
        read_epub(bomb, 1_000_000)
    with pytest.raises(LargeBook, match=r"OPS/b\.xhtml unpacks to over 200 times its size"):
        read_epub(bomb, 10_000_000)
    spaces = book({"a.xhtml": page("<p>One.</p>" + " " * 900_000), "b.xhtml": page("<p>Two.</p>")})
    assert read_epub(spaces, 10_000_000).paragraphs == ["One.", "Two."]  # as much as this is free


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packing_that_takes_any_memory_is_refused(packing: int) -> None:
    with pytest.raises(BadBook, match=r"packed in a way that no EPUB may have \(method 1[24]\)"):
        read_epub(packed({"META-INF/container.xml": CONTAINER}, packing), 1_000_000)


def test_a_page_of_tags_and_a_zip_of_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = book({"a.xhtml": page("<b></b>" * 30)})
    assert read_epub(data, 1_000_000).paragraphs == []
    monkeypatch.setattr(epub_module, "MAX_TAGS", 50)
    with pytest.raises(LargeBook, match=r"OPS/a\.xhtml has over 50 tags"):
        read_epub(data, 1_000_000)
    monkeypatch.setattr(epub_module, "MAX_MEMBERS", 2)
    with pytest.raises(LargeBook, match="over 2 files in one zip"):
        read_epub(data, 1_000_000)


@pytest.mark.parametrize("href", ["../../../../etc/passwd.html", "/etc/passwd.html", "file:///etc/passwd.html"])
def test_a_page_outside_the_book_is_not_read(href: str) -> None:
    members = {"META-INF/container.xml": CONTAINER, "OPS/package.opf": package({href: ""}), "etc/other.html": "x"}
    with pytest.raises(BadBook, match=r"names .*passwd\.html, which it does not hold"):
        read_epub(packed(members), 1_000_000)


def test_a_page_named_twice_is_read_once_and_one_beside_the_reading_line_is_not() -> None:
    opf = package({"a.xhtml": "", "b.xhtml": "", "long.xhtml": ""})
    spine = '<itemref idref="i0"/><itemref idref="i1"/><itemref idref="i2"/>'
    assert spine in opf
    other = (
        '<itemref idref="i1"/><itemref idref="i0" linear="no"/><itemref idref="i2" linear="no"/><itemref idref="i1"/>'
    )
    prose = "It was late, and the lamp in the window went out. " * 150
    members = {
        "META-INF/container.xml": CONTAINER,
        "OPS/package.opf": opf.replace(spine, other),
        "OPS/a.xhtml": page("<p>Advertisement.</p>"),
        "OPS/b.xhtml": page("<p>One.</p>"),
        "OPS/long.xhtml": page(f"<p>{prose}</p>"),
    }
    assert read_epub(packed(members), 1_000_000).paragraphs == ["One.", prose.strip()]  # much prose is text anyway


def test_without_a_spine_the_manifest_gives_the_order() -> None:
    opf = package({"b.xhtml": "", "a.xhtml": ""})
    whole = {"META-INF/container.xml": CONTAINER, "OPS/package.opf": opf[: opf.index("<spine>")] + "</package>"}
    pages = {"OPS/a.xhtml": page("<p>Two.</p>"), "OPS/b.xhtml": page("<p>One.</p>")}
    assert read_epub(packed({**whole, **pages}), 1_000_000).paragraphs == ["One.", "Two."]


def test_landmarks_name_apparatus() -> None:
    links = '<a epub:type="copyright-page" href="rights.xhtml">x</a><a epub:type="bodymatter" href="a.xhtml">y</a>'
    menu = page(f'<nav epub:type="landmarks">{links}<a epub:type="toc" href="a.xhtml#list">z</a></nav>')
    pages = {"menu.xhtml": menu, "rights.xhtml": page("<p>No part of this.</p>"), "a.xhtml": page("<p>One.</p>")}
    assert read_epub(book(pages), 1_000_000).paragraphs == ["One."]


@pytest.mark.parametrize(("body", "expected"), CASES["notes and verse"])
def test_notes_go_and_verse_keeps_its_lines(body: str, expected: list[str]) -> None:
    assert read_page_paragraphs(page(body).encode()) == expected


def test_what_is_missing_is_said() -> None:
    opf = package({"a.xhtml": "", "cover.xhtml": ""})
    text = {"OPS/a.xhtml": page("<p>One.</p>")}
    whole = {"META-INF/container.xml": CONTAINER, "OPS/package.opf": opf, **text}
    assert read_epub(packed(whole), 1_000_000).paragraphs == ["One."]  # a cover may be missing
    assert read_epub(packed({"OPS/package.opf": opf, **text}), 1_000_000).paragraphs == ["One."]  # the only .opf
    for members, says in [
        ({"META-INF/container.xml": CONTAINER, **text}, "no package file"),
        ({"META-INF/container.xml": CONTAINER, "OPS/package.opf": opf}, r"names OPS/a\.xhtml, which it does not hold"),
        ({"META-INF/container.xml": CONTAINER, "OPS/package.opf": "<html/>", **text}, "is no package file"),
        ({"META-INF/container.xml": CONTAINER, "OPS/package.opf": package({})}, "names no page of text"),
    ]:
        with pytest.raises(BadBook, match=says):
            read_epub(packed(members), 1_000_000)
    for data in (b"", b"<html>403 Forbidden</html>", packed(whole)[:-40], packed(whole)[40:]):
        with pytest.raises(BadBook, match="zip"):
            read_epub(data, 1_000_000)
