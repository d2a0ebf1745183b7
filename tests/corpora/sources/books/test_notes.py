"""Footnotes and their marks go; brackets and asterisks that are the text's own stay."""

import pytest

from corpora.sources.books.matter import cut_footnotes

PROSE = ["It was late in the evening, and nobody spoke of it."] * 30


@pytest.mark.parametrize(
    ("book", "expected"),
    [
        (["A beast[1] came.", "[1] Vulture.", "It went.[2]", "[2] Away."], ["A beast came.", "It went."]),
        (["A beast,[A] and no more.", "[A] See the plate."], ["A beast, and no more."]),
        (["Ave Maria.*", "* A prayer.", "*A prayer."], ["Ave Maria."]),
        (["A stang{301} is long.", "FOOTNOTES:", "{301} A pole."], ["A stang is long."]),
        (["He came.†", *PROSE, "† At night."], ["He came.", *PROSE]),
    ],
)
def test_notes_and_marks_go(book: list[str], expected: list[str]) -> None:
    assert cut_footnotes([*PROSE, *book, *PROSE]) == [*PROSE, *expected, *PROSE]


@pytest.mark.parametrize(
    "book",
    [
        ["[1] stands alone.", "He said [sic] nothing.", "* A list", "* Its second line"],
        ["[He goes out.]", "[Enter two.]", "f(x) = a[i] * b"],
        ["Mr. ---- of S*** came.", "2 * 3 * 4"],
        ["I came.[1]", *PROSE * 3, "[1] Far behind it, what a list begins."],
    ],
)
def test_what_is_no_note_stays(book: list[str]) -> None:
    assert cut_footnotes([*PROSE, *book, *PROSE]) == [*PROSE, *book, *PROSE]


def test_notes_gathered_at_the_end_go_with_their_heading() -> None:
    assert cut_footnotes([*PROSE * 4, "ENDNOTES", "Elegant, I mean.", "They must have meant it."]) == PROSE * 4
    middle = [*PROSE * 4, "Notes", "His own were few.", *PROSE * 4]
    assert cut_footnotes(middle) == middle
    assert cut_footnotes(PROSE) is not None and cut_footnotes(PROSE) == PROSE
