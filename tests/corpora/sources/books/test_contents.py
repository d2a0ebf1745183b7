"""Lists of contents in more forms, with and without a heading; and what only looks like one."""

import pytest

from corpora.sources.books.matter import cut_contents, is_prose

PROSE = "It was late in the evening when the lamp went out, and nobody in the house spoke of it."
BOOK = [PROSE] * 150


@pytest.mark.parametrize(
    ("contents", "after"),
    [
        # Without a heading: the first entry comes again.
        (["Chapter I", "Chapter II", "Chapter III"], ["A motto", "by nobody", "Chapter I"]),
        # An entry in capitals that ends like a sentence is none.
        (
            ["CONTENTS", *[f"{n} IN WHICH WALK {n} {'IS TAKEN BY THE LADY ' * 5}." for n in ("I", "II", "III")]],
            ["Chapter I", f"IN WHICH WALK I {'IS TAKEN BY THE LADY ' * 5}"],
        ),
        # The text begins with what is named within an entry.
        (
            ["CONTENTS", "INTRODUCTORY. THE CUSTOM-HOUSE", "CHAPTER I. THE WALK", "CHAPTER II. THE BALL"],
            ["THE CUSTOM-HOUSE"],
        ),
        (
            ["CONTENTS", "PREFACE by Bob Ray", "HANDS, concerning Ann", "PILLS, concerning Bob"],
            ["PREFACE", "by Bob Ray"],
        ),
        # The last letters of a name are no number.
        (["CONTENTS", "1. THE OLD ADMIRAL BENBOW 11", "2. THE BLACK SPOT 24"], ["1", "The Old Admiral Benbow"]),
        # Several lines to an entry, and a preface that the list does not name.
        (
            ["CONTENTS", *[f"CHAPTER {n}\nOF {n} LADIES AND\nTHEIR {n} WALKS" for n in ("I", "II", "III")]],
            ["A PREFACE", "I: OF THIS"],
        ),
    ],
)
def test_lists_end_where_the_text_begins(contents: list[str], after: list[str]) -> None:
    assert cut_contents(["Emma", *contents, *after, *BOOK]) == ["Emma", *after, *BOOK]


@pytest.mark.parametrize(
    "captions",
    [
        ["LIST OF ILLUSTRATIONS", '"As he had come into contact with it, he hesitated."', f'"{PROSE}"'],
        ["ILLUSTRATIONS", "The Bride, Headpiece 1\nTailpiece 2", "The Lamp, Headpiece 3\nTailpiece 8"],
    ],
)
def test_captions_go_up_to_the_title_or_the_first_chapter(captions: list[str]) -> None:
    for after in (["EMMA"], ["CHAPTER ONE"], ["PREFACE"]):
        assert cut_contents(["Emma", *captions, *after, *BOOK]) == ["Emma", *after, *BOOK]


def test_the_contents_of_a_second_volume_go_too() -> None:
    contents = ["CONTENTS", "CHAPTER I THE WALK", "CHAPTER II THE BALL", "CHAPTER III THE END"]
    assert cut_contents([*BOOK, *contents, "PART II", "CHAPTER I", "THE WALK", *BOOK]) == [
        *BOOK, "PART II", "CHAPTER I", "THE WALK", *BOOK,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "book",
    [
        ["Emma", "I", "The Walk", PROSE, "II", "The Ball", *BOOK],
        ["Emma", "1", "2", *BOOK],
        ["Emma", "ILLUSTRATIONS", PROSE * 6, *BOOK],
    ],
)
def test_what_is_no_list_stays(book: list[str]) -> None:
    assert cut_contents(book) == book


def test_prose_has_small_letters_and_an_end() -> None:
    assert is_prose(PROSE)
    assert not any(map(is_prose, (PROSE.upper(), PROSE[:-1], f"IV. {PROSE}", PROSE.replace(", ", ",\n"), "Too short.")))
