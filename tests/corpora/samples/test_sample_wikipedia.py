"""The shipped dump: packed from its pages, split as its index says, and as varied as it claims to be."""

import bz2
import hashlib
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pack_wikipedia as pack
import pytest

from corpora.errors import InputError

FOLDER = pack.FOLDER
DUMP = FOLDER / pack.DUMP_NAME
INDEX = FOLDER / pack.INDEX_NAME
TAG = "{http://www.mediawiki.org/xml/export-0.11/}"

REFERENCE = re.compile(r"<ref\b[^<>]*/>|<ref\b[^<>]*>.*?</ref>|<!--.*?-->", re.DOTALL)
INNERMOST_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
PARAGRAPH = re.compile(r"(?!\[\[(?:File|Image|Category|Kategorie):)['\"\[]*\w")
PAGE_OPENING = re.compile(r"<page>\n    <title>(.*)</title>\n    <ns>.*</ns>\n    <id>(\d+)</id>")

# What a cleaner of wikitext meets: each has to occur somewhere in the sample.
CONSTRUCTS = (
    "{{Infobox", "{{convert|", "{{cvt|", "{{formatnum:", "{{val|", "{{lang|fr|", "{{nihongo|", "{{circa|",
    "{{birth date|", "{{death date and age|", "{{coord|", "{{cite book", "{{quote|", "{{efn|", "{{Reflist}}",
    "{{Use dmy dates", "{{About|", "{{DEFAULTSORT:", "__NOTOC__", "<ref>", "<ref name=", "<references />",
    "<math>", "<gallery", "<nowiki>", "<syntaxhighlight", "<sub>", "<!--", "&nbsp;", "&mdash;", "{| class=",
    "\n|-", "\n* ", "\n** ", "\n# ", "\n; ", "\n:", "\n== ", "\n===", "'''", "[[File:", "|thumb",
    "[[Category:", "[https://", "#REDIRECT", "\n#redirect", "{{{name|", "~~~~", "\u00e9", "\u03ba", "\u6f09",
)  # fmt: skip


def index_rows() -> list[tuple[int, int, str]]:
    rows = []
    for line in bz2.decompress(INDEX.read_bytes()).decode().splitlines():
        offset, page_id, title = line.split(":", 2)
        rows.append((int(offset), int(page_id), title))
    return rows


def stream_at(offset: int) -> str:
    return bz2.BZ2Decompressor().decompress(DUMP.read_bytes()[offset:]).decode()


def dump_pages() -> list[ElementTree.Element]:
    return ElementTree.fromstring(bz2.decompress(DUMP.read_bytes())).findall(f"{TAG}page")


def prose(text: str) -> str:
    """The paragraphs of a page, roughly: references and templates out, lines that open with a word kept."""
    text = REFERENCE.sub("", text)
    while INNERMOST_TEMPLATE.search(text):
        text = INNERMOST_TEMPLATE.sub("", text)
    lines = [line for line in text.splitlines() if PARAGRAPH.match(line) and len(line) > 120]
    return re.sub(r"\[\[[^\[\]|]*\||\[\[|\]\]|'{2,}", "", "\n".join(lines))


def five_grams(text: str) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return [tuple(words[i : i + 5]) for i in range(len(words) - 4)]


def page_files(pattern: str) -> list[Path]:
    return sorted((FOLDER / "pages").glob(pattern))


def wikitext(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n\n", 1)[1]


def test_the_pages_pack_to_the_shipped_bytes() -> None:
    dump, index = pack.pack(pack.read_pages(pack.PAGES))
    assert hashlib.sha256(dump).digest() == hashlib.sha256(DUMP.read_bytes()).digest()
    assert hashlib.sha256(index).digest() == hashlib.sha256(INDEX.read_bytes()).digest()


def test_each_stream_holds_the_pages_the_index_says() -> None:
    streams: dict[int, list[tuple[int, str]]] = {}
    for offset, page_id, title in index_rows():
        streams.setdefault(offset, []).append((page_id, title))
    assert len(streams) >= 6
    assert [len(pages) for pages in streams.values()][:-1] == [8] * (len(streams) - 1)
    for offset, expected in streams.items():
        # Titles are escaped in both, so the raw text is compared, not the parsed one.
        found = PAGE_OPENING.findall(stream_at(offset))
        assert [(int(page_id), title) for title, page_id in found] == expected


def test_header_and_footer_are_streams_of_their_own() -> None:
    first = min(offset for offset, _, _ in index_rows())
    header = bz2.decompress(DUMP.read_bytes()[:first]).decode()
    assert header.startswith("<mediawiki ") and header.endswith("</siteinfo>\n")
    rest = DUMP.read_bytes()
    last = b""
    while rest:
        decompressor = bz2.BZ2Decompressor()
        last = decompressor.decompress(rest)
        rest = decompressor.unused_data
    assert last == b"</mediawiki>\n"


def test_the_dump_is_well_formed_and_gives_the_texts_back() -> None:
    pages = dump_pages()
    assert len(pages) == len(index_rows()) == len(page_files("*.wiki"))
    bodies = sorted(wikitext(path).removesuffix("\n") for path in page_files("*.wiki"))
    assert sorted(page.findtext(f"{TAG}revision/{TAG}text", "") for page in pages) == bodies
    for page in pages:
        text = page.find(f"{TAG}revision/{TAG}text")
        assert text is not None
        assert int(text.attrib["bytes"]) == len((text.text or "").encode())
    ids = [int(page.findtext(f"{TAG}id", "")) for page in pages]
    assert ids == sorted(set(ids))


def test_the_checksum_of_a_text_is_its_sha1_in_base_36() -> None:
    for page in dump_pages():
        text = page.findtext(f"{TAG}revision/{TAG}text", "")
        value = int(page.findtext(f"{TAG}revision/{TAG}sha1", ""), 36)
        assert value.to_bytes(20) == hashlib.sha1(text.encode(), usedforsecurity=False).digest()


def test_the_kinds_of_pages_are_there() -> None:
    pages = dump_pages()
    assert Counter(page.findtext(f"{TAG}ns") for page in pages) == {"0": len(pages) - 2, "1": 1, "10": 1}
    redirects = [page for page in pages if page.find(f"{TAG}redirect") is not None]
    marked = [path for path in page_files("*.wiki") if wikitext(path).lower().startswith("#redirect")]
    assert len(redirects) == len(marked) == 5
    titles = {page.findtext(f"{TAG}title") for page in pages}
    targets = {element.get("title") for page in redirects for element in page.iter(f"{TAG}redirect")}
    assert targets < titles and len(targets) == 5
    texts = [page.findtext(f"{TAG}revision/{TAG}text", "") for page in pages]
    assert sum(not text for text in texts) == 1
    assert sum("{{disambiguation}}" in text for text in texts) == 1
    # Thirty-eight subjects, the two near-duplicates and the page in German.
    assert sum(len(prose(text).split()) >= 250 for text in texts) == 38 + 2 + 1


def test_every_construct_of_wikitext_occurs() -> None:
    text = "\n".join(wikitext(path) for path in page_files("*.wiki"))
    assert [construct for construct in CONSTRUCTS if construct not in text] == []


def test_the_prose_repeats_hardly_anything() -> None:
    paths = [path for path in page_files("*.wiki") if not path.stem.endswith("near-duplicate-b")]
    texts = [prose(wikitext(path)) for path in paths]
    grams = [gram for text in texts for gram in five_grams(text)]
    assert sum(map(len, texts)) > 75_000
    assert len(set(grams)) / len(grams) >= 0.99
    # The pair counts in the whole, and the whole still holds the promised share.
    twin = five_grams(prose(wikitext(page_files("*near-duplicate-b.wiki")[0])))
    assert len(set(grams) | set(twin)) / (len(grams) + len(twin)) >= 0.95


def test_the_near_duplicates_are_near() -> None:
    one, other = (set(five_grams(prose(wikitext(path)))) for path in page_files("*near-duplicate-?.wiki"))
    assert 0.82 <= len(one & other) / len(one | other) <= 0.95


def test_one_paragraph_was_read_in_the_wrong_encoding() -> None:
    lines = [line for path in page_files("*.wiki") for line in wikitext(path).splitlines()]
    broken = [line for line in lines if "Ã" in line]
    assert len(broken) == 1
    # Undone by the way it came about; the undefined bytes of Windows-1252 stand for themselves.
    data = b"".join(bytes([ord(letter)]) if ord(letter) < 256 else letter.encode("cp1252") for letter in broken[0])
    assert "Café Bellaria" in data.decode() and "didn\u2019t" in data.decode()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("title: A\nns: 0\nid: 1\nrevision: 2\n\ntext\n", "lacks timestamp"),
        ("title: A\nns: 0\nid: one\nrevision: 2\ntimestamp: 2025-01-01T00:00:00Z\n\ntext\n", "whole number"),
        ("title: A\nns: 0\nid: 1\nrevision: 2\ntimestamp: yesterday\n\ntext\n", "2025-03-01T09:30:00Z"),
        ("title: A\nnamespace: 0\n\ntext\n", "'namespace: 0'"),
        ("title: A\nns: 0\nid: 1\nrevision: 2\ntimestamp: 2025-01-01T00:00:00Z\n", "empty line"),
    ],
)
def test_a_page_with_a_wrong_header_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "001-a.wiki"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(complaint)) as caught:
        pack.read_page(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("one", "other"), [(("A", 1), ("B", 1)), (("A", 1), ("A", 2))], ids=["same id", "same title"])
def test_two_pages_with_one_id_or_title_are_refused(
    tmp_path: Path, one: tuple[str, int], other: tuple[str, int]
) -> None:
    for name, (title, page_id) in (("001", one), ("002", other)):
        header = f"title: {title}\nns: 0\nid: {page_id}\nrevision: 2\ntimestamp: 2025-01-01T00:00:00Z"
        (tmp_path / f"{name}.wiki").write_text(f"{header}\n\ntext\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"002\.wiki: its id or title is that of .*001\.wiki"):
        pack.read_pages(tmp_path)


def test_markup_of_xml_is_escaped_in_titles_and_texts() -> None:
    page = pack.Page(
        title='A & "B"',
        ns=0,
        id=1,
        revision=2,
        timestamp="2025-01-01T00:00:00Z",
        redirect="<C>",
        parent=None,
        text="x < y && <ref>&nbsp;</ref>",
    )
    parsed = ElementTree.fromstring(pack.page_xml(page))
    assert parsed.findtext("title") == page.title
    assert [element.attrib for element in parsed.iter("redirect")] == [{"title": "<C>"}]
    assert parsed.findtext("revision/text") == page.text


def test_a_folder_without_pages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file here ends in"):
        pack.read_pages(tmp_path)
