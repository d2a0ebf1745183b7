"""Project Gutenberg's header, licence and notes: every form of them that its files have had."""
# ruff: noqa: RUF001 - typographic quotes are the subject here

import pytest
from labelled_cases import cases_of

from corpora.sources.books.gutenberg import cut_gutenberg, cut_notes, find_stated_encoding

CASES = cases_of(__file__, "gutenberg")

HEADER = """The Project Gutenberg EBook of Emma, by Jane Austen

This eBook is for the use of anyone anywhere at no cost.


Title: Emma
       A Novel in Three Volumes

Author: Jane Austen

Release Date: August, 1994  [EBook #158]
Last Updated: March 10, 2018

Language: English

Character set encoding: UTF-8

"""
PROSE = "She was handsome, clever, and rich.\n\n" * 40


@pytest.mark.parametrize(("start", "end"), CASES["headers"])
def test_header_and_licence_are_cut_in_all_their_forms(start: str, end: str) -> None:
    found = cut_gutenberg(f"{HEADER}{start}\n\n{PROSE}{end}\n\nSection 1. General Terms of Use\n")
    assert found.marked and found.body.strip() == PROSE.strip()
    assert (found.number, found.title, found.author) == (158, "Emma A Novel in Three Volumes", "Jane Austen")
    assert (found.language, found.released, found.revision) == ("English", "1994-08", 20180310)


def test_an_old_etext_says_its_title_in_its_first_line_alone() -> None:
    small_print = "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.07.02.92*END*"
    head = "Project Gutenberg's Etext of The Star, by H. G. Wells\n\nOctober, 2001  [Etext #2852]\n"
    found = cut_gutenberg(f"{head}{small_print}\n{PROSE}")
    assert (found.title, found.author) == ("The Star", "H. G. Wells")
    assert (found.number, found.released, found.revision) == (2852, "2001-10", 20011000)
    assert found.body.strip() == PROSE.strip()


def test_a_text_of_another_origin_is_left_as_it_is() -> None:
    text = PROSE + "He read of Gutenberg, and of the end of the project.\n\n" + PROSE
    found = cut_gutenberg(text)
    assert found.body == text and not found.marked
    assert (found.number, found.title, found.author, found.revision) == (None, None, None, None)


@pytest.mark.parametrize(
    ("line", "encoding"),
    [
        ("Character set encoding: ISO-8859-1", "ISO-8859-1"),
        ("CHARACTER SET ENCODING: windows-1251", "windows-1251"),
        ("Language: English", None),
        ("Character set encoding:", None),
    ],
)
def test_the_header_says_its_encoding(line: str, encoding: str | None) -> None:
    assert find_stated_encoding(f"Title: Emma\n\n{line}\n\n*** START OF") == encoding


@pytest.mark.parametrize("note", CASES["notes"])
def test_notes_go_from_the_front_and_nothing_else_does(note: list[str]) -> None:
    book = ["EMMA", "By Jane Austen", *["He was produced by the police as a witness, she said."] * 60]
    assert cut_notes([book[0], *note, *book[1:]]) == book
    late = [*book, *note, *book]
    assert cut_notes(late) == late  # in the middle of a book they are its own


def test_notes_go_from_the_end_within_bounds() -> None:
    book = ["A paragraph of the book, which has many words in it."] * 200
    errors = ["in a very simply way=> in a very simple way {pg 68}"] * 9
    assert cut_notes([*book, "Typographical errors corrected by the etext transcriber:", *errors]) == book
    assert cut_notes([*book, "Transcriber’s Notes", *errors]) == book
    assert cut_notes([*book, "    | Transcribers' note: |", *errors]) == book
    far = [*book[:100], "Transcriber's Notes", *book]
    assert cut_notes(far) == far
    assert cut_notes([*book, "Ende dieses Project Gutenberg EBook von Emma"]) == book


def test_a_number_of_thousands_of_digits_is_no_number() -> None:
    """Fails if a header is turned into a number that Python refuses to read."""
    book = cut_gutenberg(f"[eBook #{'9' * 5_000}]\n*** START OF THE PROJECT GUTENBERG EBOOK A ***\nShe was.\n")
    assert (book.number, book.body.strip()) == (None, "She was.")
