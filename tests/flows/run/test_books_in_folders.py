"""Books of Project Gutenberg in a folder are read as books, and all else in it as before."""

import gzip
import io
import zipfile
from pathlib import Path

import pytest

from corpora.sources.books.gutenberg import cut_whole_book
from corpora.sources.contract import Record, Tally, list_unhashed_files
from corpora.sources.files.source import FilesSource
from flows.recipes.lock import list_raw_files
from flows.recipes.recipe import Recipe
from flows.run.inputs.folder_defaults import build_folder_recipe

ENGLISH = (
    "It was late in the evening when the lamp of house {n} went out,\nand nobody spoke of it again that night.\n\n"
)
FRENCH = "Il faisait nuit quand la lampe de la maison {n} s'éteignit,\net personne n'en parla plus ce soir-là.\n\n"
BOOK = (
    "The Project Gutenberg EBook of {title}, by Ann Lee\n\nTitle: {title}\n\nAuthor: Ann Lee\n\n"
    "Release Date: October 2, 2004 [EBook #{number}]\n\n*** START OF THIS PROJECT GUTENBERG EBOOK ***\n\n"
    "Produced by Bob Ray\n\n{prose}*** END OF THIS PROJECT GUTENBERG EBOOK ***\n\n"
    "Section 1. General Terms of Use of Project Gutenberg works\n"
)


def book(number: int, line: str = ENGLISH, lines: int = 60) -> str:
    prose = "".join(line.format(n=number * 1000 + n) for n in range(lines))
    return BOOK.format(title=f"Sky {number}", number=number, prose=prose)


def epub(text: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("META-INF/container.xml", '<c><rootfile full-path="a.opf"/></c>')
        archive.writestr(
            "a.opf",
            "<package><metadata><title>The Moon</title></metadata>"
            '<manifest><item id="a" href="a.html"/></manifest><spine><itemref idref="a"/></spine></package>',
        )
        body = "".join(f"<p>{block}</p>" for block in text.split("\n\n"))
        archive.writestr("a.html", f"<html><body>{body}</body></html>")
    return stream.getvalue()


def records_of(recipe: Recipe) -> dict[str, Record]:
    [entry] = recipe.sources
    source, tally = entry.source, Tally()
    return {
        record.locator.file: record
        for file in list_unhashed_files(list_raw_files(entry, recipe))
        for piece in source.slices(file)
        for record in source.records(piece, tally)
    }


def test_a_license_is_cut_off_whatever_the_file_and_all_else_stays(tmp_path: Path) -> None:
    """Fails if a license stays, a book is lost, or a text that is no book of Gutenberg's is changed."""
    folder = tmp_path / "f"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.txt").write_text(book(number, FRENCH if number == 5 else ENGLISH), encoding="utf-8")
    with gzip.open(folder / "packed.txt.gz", "wb") as stream:
        stream.write(book(21).encode())
    (folder / "moon.epub").write_bytes(epub(book(22)))
    (folder / "tables.txt").write_text(book(23, "{n} {n} 12 14\n"), encoding="utf-8")
    note, two = "A note on Project Gutenberg:\nits books are free.\n", book(31) + book(32)
    quoted = "word " * 9_000 + "\n*** START OF THIS PROJECT GUTENBERG EBOOK ***\nand so on.\n"
    others = {"note.txt": note, "two.txt": two, "quoted.txt": quoted}
    for name, text in others.items():
        (folder / name).write_text(text, encoding="utf-8")
    with zipfile.ZipFile(folder / "more.zip", "w") as archive:
        archive.writestr("inside.txt", book(41))
    recipe = build_folder_recipe(folder, tmp_path / "store", {})
    assert recipe.fitted is not None and "books = true\n" in recipe.text
    assert any("read as books, without its license" in why for why in recipe.fitted.why)
    assert any("fr 6%" in why or "fr 7%" in why for why in recipe.fitted.why), recipe.fitted.why
    found = records_of(recipe)
    assert not any(record.drop for record in found.values())
    assert {name: found[name].text for name in others} == others
    books = {name: record for name, record in found.items() if name not in others}
    assert len(books) == 12 and not any("Gutenberg" in record.text for record in books.values())
    assert books["0.txt"].key == "gutenberg:0" and books["0.txt"].title == "Sky 0"
    assert books["packed.txt.gz"].text.count("went out, and nobody spoke") == 60
    assert books["moon.epub"].text.count("went out") == books["more.zip/inside.txt"].text.count("went out") == 60
    assert "23000 23000 12 14" in books["tables.txt"].text


def test_a_folder_without_such_books_is_as_before(tmp_path: Path) -> None:
    """Fails if the key is written without need, or changes what older recipes name."""
    folder = tmp_path / "f"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text("".join(ENGLISH.format(n=n) for n in range(9)), encoding="utf-8")
    (folder / "a.txt").write_bytes(b"\xef\xbb\xbfProject Gutenberg \xff\xfe\x00")
    (folder / "note.txt").write_text("I like Project Gutenberg. It has many books.\n" * 9, encoding="utf-8")
    assert "books" not in build_folder_recipe(folder, tmp_path / "store", {}).text
    assert "books" not in FilesSource(name="f", path="f").settings()


@pytest.mark.parametrize(
    "cut", ["", book(1)[:-200], book(1) + "x " * 30_000, book(1) + book(2), "word " * 9_000 + book(1)]
)
def test_only_one_whole_book_is_cut(cut: str) -> None:
    """Fails if text far from Gutenberg's marks, or after them, would be cut off with its license."""
    assert (cut_whole_book(cut) is not None) == (cut == book(1)[:-200])
