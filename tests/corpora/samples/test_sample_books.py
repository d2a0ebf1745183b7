"""The shipped books: in the forms they claim, each a document of its prose alone; and all samples together."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pack_books as pack
import pytest
from shipped import SAMPLES, documents, dropped

FOLDER = SAMPLES / "books"
LEDGER, REPAIRS, TIDES = (
    FOLDER / f"{name}.txt" for name in ("the-lamplighters-ledger", "small-repairs", "tide-tables")
)
EPUB = FOLDER / pack.EPUB_NAME
XHTML = "{http://www.w3.org/1999/xhtml}"

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


def book(path: Path) -> dict[str, Any]:
    """The document that a file of the sample became."""
    [row] = [row for row in documents("books") if row["locator"]["file"] == path.name]
    return row


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


def test_each_book_is_a_document_and_the_tables_are_not() -> None:
    assert sorted(row["locator"]["file"] for row in documents("books")) == sorted(OPENINGS)
    [tables] = dropped("books")
    assert (tables["locator"]["file"], tables["step"], tables["reason"]) == (TIDES.name, "parse", "no prose")


def test_titles_and_authors_are_known() -> None:
    """By header, by package, and by the title page of the Smashwords form."""
    assert (book(LEDGER)["title"], book(LEDGER)["group"]) == ("The Lamplighter's Ledger", "Harriet Colemere")
    assert (book(EPUB)["title"], book(EPUB)["group"]) == ("The Map of Hollin Marsh", "Ruth Ashdown")
    assert (book(REPAIRS)["title"], book(REPAIRS)["group"]) == ("Small Repairs", "Nora Tindall")


@pytest.mark.parametrize("path", [LEDGER, REPAIRS, EPUB], ids=lambda path: path.stem)
def test_nothing_is_left_but_the_book(path: Path) -> None:
    """Fails if matter around the book stays, or its first or last sentence is cut with it."""
    text = book(path)["text"]
    assert [word for word in MATTER if word in text] == []
    assert OPENINGS[path.name] in text[:300]
    assert text.endswith(ENDINGS[path.name]) or text.endswith(f"{ENDINGS[path.name]}\n\nTHE END")


def test_the_matter_was_there() -> None:
    """Fails if the files lack what the test above looks for, so that it would pass without anything to find."""
    raw = [LEDGER.read_text(encoding="latin-1"), REPAIRS.read_text(encoding="utf-8")]
    raw += [path.read_text(encoding="utf-8") for path in pack.CONTENTS.rglob("*") if path.is_file()]
    assert [word for word in MATTER if not any(word in text for text in raw)] == []


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
