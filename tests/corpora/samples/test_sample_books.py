"""The shipped books: in the forms they claim, each a document of its prose alone; and all samples together."""

import io
import re
import xml.etree.ElementTree as ElementTree
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pack_books as pack
import pyarrow as pa
import pytest

from corpora import samples
from corpora.errors import InputError
from corpora.judging.batches import Judged, judge_records
from corpora.judging.documents import in_batches
from corpora.judging.settings import DocumentsSettings
from corpora.sources.books.source import BookCorpusSource
from corpora.sources.contract import Source, StatCache, Tally, hash_files
from corpora.sources.openwebtext import OpenWebTextSource
from corpora.sources.stories import StoriesSource
from corpora.sources.web.source import CcNewsSource
from corpora.sources.wiki.source import WikipediaSource

SAMPLES = Path(samples.__file__).parent
FOLDER = SAMPLES / "books"
LEDGER, REPAIRS, TIDES = (
    FOLDER / f"{name}.txt" for name in ("the-lamplighters-ledger", "small-repairs", "tide-tables")
)
EPUB = FOLDER / pack.EPUB_NAME
XHTML = "{http://www.w3.org/1999/xhtml}"
PACKAGE = "{http://www.idpf.org/2007/opf}"

SOURCES: dict[str, Source] = {
    "books": BookCorpusSource(path=str(FOLDER)),
    "cc_news": CcNewsSource(path=str(SAMPLES / "cc_news")),
    "openwebtext": OpenWebTextSource(path=str(SAMPLES / "openwebtext")),
    "stories": StoriesSource(path=str(SAMPLES / "stories")),
    "wikipedia": WikipediaSource(path=str(SAMPLES / "wikipedia")),
}

# What is before and after the books, in words that the books themselves do not have.
MATTER = (
    "Gutenberg", "Character set", "Release Date", "Produced by", "sample workshop", "warranty", "licence", "License",
    "Donations", "Updated editions", "Smashwords", "Copyright", "ebook", "Table of Contents", "About the Author",
    "Connect with", "https://", "bus conductor", "leave a short review", "~~~", "Colophon", "typeface", "proofread",
    "Empty Shelf", "chapter-1", "xhtml", "[Illustration", "Contents", "CONTENTS",
)  # fmt: skip
OPENINGS = {
    LEDGER.name: "There was in those days at Cawsey Bridge no evening without Abel Trench.",
    REPAIRS.name: "The lift stopped with a bump somewhere between four and five",
    EPUB.name: "The wardrobe came with the house, because nobody had ever been able to get it out.",
}
ENDINGS = {
    LEDGER.name: "sat with him until the sun was on the wall, and then I put out the lamp.",
    REPAIRS.name: "where anyone could reach, and she put her key on the nail.",
    EPUB.name: "“Sorry,” she said, and passed him the sugar.",
}


@cache
def judged(name: str) -> Judged:
    """A sample after all steps of the documents stage."""
    source = SOURCES[name]
    files = hash_files(source.files(), StatCache())
    records = [record for file in files for piece in source.slices(file) for record in source.records(piece, Tally())]
    [batch] = in_batches(records)
    return judge_records(batch, source.name, DocumentsSettings())


def texts(name: str) -> list[str]:
    found: list[str] = judged(name).documents.column("text").to_pylist()
    return found


def book(path: Path) -> dict[str, Any]:
    """The document that a file of the sample became."""
    column = judged("books").documents.column("locator")
    rows = pa.Table.from_batches([judged("books").documents]).to_pylist()
    [row] = [row for row, locator in zip(rows, column.to_pylist(), strict=True) if locator["file"] == path.name]
    return dict(row)


def five_grams(text: str) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return [tuple(words[i : i + 5]) for i in range(len(words) - 4)]


def epub_texts() -> list[str]:
    """The paragraphs of the EPUB's chapters, read by another hand than the source's."""
    found = []
    for path in sorted((pack.CONTENTS / "OEBPS").glob("chapter-*.xhtml")):
        for element in ElementTree.parse(path).iter(f"{XHTML}p"):
            if element.get("class") not in ("note", "break"):
                for reference in element.findall(f"{XHTML}a"):
                    reference.text = ""
                found.append(" ".join("".join(element.itertext()).split()))
    return found


def test_the_folder_packs_to_the_shipped_bytes() -> None:
    assert pack.pack(pack.read_entries(pack.CONTENTS)) == EPUB.read_bytes()


def test_the_archive_is_an_epub() -> None:
    """OCF 3.3: fails where a reader of EPUBs would not know the file, or would miss one of its parts."""
    data = EPUB.read_bytes()
    # The first entry is stored without an extra field, so that the type is at a fixed place.
    assert data[30:58] == b"mimetypeapplication/epub+zip"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        assert archive.testzip() is None and names[1] == pack.CONTAINER
        package = ElementTree.fromstring(archive.read("OEBPS/content.opf"))
        items = {item.attrib["id"]: f"OEBPS/{item.attrib['href']}" for item in package.iter(f"{PACKAGE}item")}
        assert set(items.values()) | {"mimetype", pack.CONTAINER, "OEBPS/content.opf"} == set(names)
        spine = [items[item.attrib["idref"]] for item in package.iter(f"{PACKAGE}itemref")]
        assert [name for name in spine if "chapter" in name] == [f"OEBPS/chapter-{n}.xhtml" for n in (1, 2, 3, 4)]
        assert all(ElementTree.fromstring(archive.read(name)).find(f"{XHTML}body") is not None for name in spine)


def test_a_folder_that_is_no_epub_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chapter-1.xhtml").write_text("<html/>")
    with pytest.raises(InputError, match="there is no META-INF/container"):
        pack.read_entries(tmp_path)


def test_the_tale_has_the_form_of_an_old_file() -> None:
    data = LEDGER.read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n") > 300
    assert max(map(len, data.split(b"\r\n"))) == 72
    with pytest.raises(UnicodeDecodeError):
        data.decode("utf-8")
    text = data.decode("latin-1")
    assert "Th\u00e9r\u00e8se" in text and "_cr\u00eape_" in text
    assert text.count("*** START OF THIS PROJECT GUTENBERG EBOOK") == text.count("*** END OF THIS PROJECT") == 1


def test_six_paragraphs_of_the_stories_are_broken() -> None:
    paragraphs = REPAIRS.read_text(encoding="utf-8").split("\n\n")
    broken = [paragraph for paragraph in paragraphs if re.search("\u00e2\u20ac|\u00c3\u0192", paragraph)]
    assert len(broken) == 6
    assert sum("\u201c" in paragraph for paragraph in paragraphs) > 30


def test_each_book_is_a_document_and_the_tables_are_not() -> None:
    documents = judged("books").documents
    assert sorted(row["file"] for row in documents.column("locator").to_pylist()) == sorted(OPENINGS)
    [dropped] = judged("books").dropped.to_pylist()
    assert (dropped["locator"]["file"], dropped["step"], dropped["reason"]) == (TIDES.name, "parse", "no prose")


def test_titles_and_authors_are_known() -> None:
    """By header, by package, and by the title page of the Smashwords form."""
    assert (book(LEDGER)["title"], book(LEDGER)["group"]) == ("The Lamplighter's Ledger", "Harriet Colemere")
    assert (book(EPUB)["title"], book(EPUB)["group"]) == ("The Map of Hollin Marsh", "Ruth Ashdown")
    assert (book(REPAIRS)["title"], book(REPAIRS)["group"]) == ("Small Repairs", "Nora Tindall")


@pytest.mark.parametrize("path", [LEDGER, REPAIRS, EPUB], ids=lambda path: path.stem)
def test_nothing_is_left_but_the_book(path: Path) -> None:
    """Fails where matter around the book stays, or its first or last sentence is cut with it."""
    text = book(path)["text"]
    assert [word for word in MATTER if word in text] == []
    assert OPENINGS[path.name] in text[:300]
    assert text.endswith(ENDINGS[path.name]) or text.endswith(f"{ENDINGS[path.name]}\n\nTHE END")


def test_the_matter_was_there() -> None:
    """What the test above looks for is in the files: it cannot pass for want of something to find."""
    raw = [LEDGER.read_text(encoding="latin-1"), REPAIRS.read_text(encoding="utf-8")]
    raw += [path.read_text(encoding="utf-8") for path in pack.CONTENTS.rglob("*") if path.is_file()]
    assert [word for word in MATTER if not any(word in text for text in raw)] == []


def test_wrapped_lines_became_paragraphs() -> None:
    raw = LEDGER.read_bytes().decode("latin-1").replace("\r\n", "\n")
    body = raw[raw.index("There was in those days") : raw.index("THE END")].replace("_", "")
    paragraphs = [" ".join(part.split()) for part in body.split("\n\n")]
    prose = [paragraph for paragraph in paragraphs if len(paragraph) > 80]
    assert len(prose) > 40
    assert [part for part in prose if part not in book(LEDGER)["text"].split("\n\n")] == []


def test_broken_letters_are_mended() -> None:
    text = book(REPAIRS)["text"]
    assert re.findall(r"[\u00e2\u20ac\u0192\u0080-\u009f]", text) == []
    for words in (
        "You\u2019ll ask why I didn\u2019t",
        "JO\u00c3O AND CELESTE",
        "\u201cI\u2019m so sorry,\u201d I said.",
    ):
        assert words in text


def test_the_chapters_are_whole_and_the_reference_is_gone() -> None:
    paragraphs = book(EPUB)["text"].split("\n\n")
    expected = epub_texts()
    assert len(expected) > 60
    assert [part for part in expected if part not in paragraphs] == []
    assert "They were the legs of a road." in book(EPUB)["text"]


def shipped() -> list[tuple[str, str]]:
    """The documents of all samples as (sample, text), those left out that repeat one before them."""
    kept: list[tuple[str, str, set[tuple[str, ...]]]] = []
    for name in SOURCES:
        for text in texts(name):
            grams = set(five_grams(text))
            if all(len(grams & other) < 0.5 * len(grams | other) for _, _, other in kept):
                kept.append((name, text, grams))
    return [(name, text) for name, text, _ in kept]


def test_all_samples_together_repeat_hardly_anything() -> None:
    """Fails where a sample was filled by repeating phrases, in itself or from another sample."""
    documents = shipped()
    grams = [gram for _, text in documents for gram in five_grams(text)]
    assert len(set(grams)) / len(grams) >= 0.95
    # Planted: two copies among the stories, one among the articles, two among the news, four among the web pages.
    assert sum(len(texts(name)) for name in SOURCES) - len(documents) == 9
    assert {name for name, _ in documents} == set(SOURCES)


def test_the_samples_are_of_the_promised_size() -> None:
    sizes = {name: sum(map(len, texts(name))) for name in SOURCES}
    assert 40_000 <= sizes["books"] <= 55_000
    assert 22_000 <= sizes["stories"] <= 27_000
    # A wheel holds them: they stay small.
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 100_000
