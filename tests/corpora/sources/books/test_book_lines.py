"""Lines to paragraphs: what is wrapped is joined, what is verse stays, and no letter is lost."""

import textwrap

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpora.sources.books.lines import Hyphens, drop_italics, measure_layout, split_paragraphs

WORDS = st.sampled_from("the a of sea light upon window remembered it was evening slowly house, and then.".split())
PROSE = st.lists(WORDS, min_size=30, max_size=120).map(lambda words: " ".join(words) + ".")
STORY = " ".join(["It was late in the evening when the lamp went out, and nobody spoke of it again."] * 6)
VERSE = "Tyger Tyger, burning bright,\nIn the forests of the night;\nWhat immortal hand or eye,\nCould frame thy"


@given(st.lists(PROSE, min_size=1, max_size=8), st.integers(40, 100))
def test_wrapped_prose_comes_back_as_it_was(prose: list[str], width: int) -> None:
    assert split_paragraphs("\n\n".join(textwrap.fill(text, width) for text in prose)) == prose


@given(st.text(alphabet="abcXYZ.,-\n \t_'\u2014", max_size=400))
@example("one-\ntwo\n\n  --three\n_four_")
def test_no_letter_is_lost_or_moved(text: str) -> None:
    found = "".join(split_paragraphs(text))
    assert [letter for letter in found if letter.isalpha()] == [letter for letter in text if letter.isalpha()]


def test_verse_titles_and_addresses_keep_their_lines() -> None:
    prose = textwrap.fill(STORY, 70)
    letter = "Your affectionate uncle,\nGODWIN LYDGATE"
    title = "CHAPTER I\nDown the Rabbit-Hole"
    text = f"{title}\n\n{prose}\n\n{textwrap.indent(VERSE, '     ')}\n\n{prose}\n\n{letter}\n"
    assert split_paragraphs(text) == [title, STORY, VERSE, STORY, letter]


def test_long_verse_keeps_its_lines_and_narrow_prose_does_not() -> None:
    long_verse = "\n".join(f"And {STORY[start : start + 62]}" for start in range(0, 300, 62))
    narrow = textwrap.indent(textwrap.fill(STORY, 50), " " * 8)
    prose = textwrap.fill(STORY, 70)
    assert split_paragraphs("\n\n".join([prose] * 4 + [long_verse, narrow])) == [STORY] * 4 + [
        "\n".join(line.strip() for line in long_verse.split("\n")),
        STORY,
    ]


def test_lines_broken_by_hand_after_sentences_are_prose() -> None:
    ragged = '"He is better than a common boy!" retorted Mary.\n"He is a thousand times better!"'
    text = "\n\n".join([textwrap.fill(STORY, 70), ragged, textwrap.fill(STORY, 70)])
    assert split_paragraphs(text) == [STORY, ragged.replace("\n", " "), STORY]


def test_paragraphs_without_blank_lines_are_found_by_indent_or_by_short_lines() -> None:
    indented = "\n".join(textwrap.fill(STORY, 60, initial_indent="   ") for _ in range(5))
    assert split_paragraphs(indented) == [STORY] * 5
    dense = "\n".join(["CHAPTER I", *[textwrap.fill(STORY, 60)] * 6])
    assert measure_layout(dense).dense
    assert split_paragraphs(dense) == ["CHAPTER I", *[STORY] * 6]


def test_a_paragraph_to_a_line_is_left_so() -> None:
    text = f"The Warden\n\nby\n\n{STORY}\n{STORY}\n\n{VERSE}\n"
    assert measure_layout(text).width is None
    assert split_paragraphs(text) == ["The Warden", "by", STORY, STORY, VERSE]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Illustration: The lamp\nwent out.]\n\nOne.", ["One."]),
        ("[Illustration]\n[Frontispiece: A [Pg 12] lamp]\nOne.", ["One."]),
        ("One [Pg 12]two {13} three.", ["One two three."]),
        ("One.\n\n       *       *       *\n\n-----\n\nTwo.", ["One.", "Two."]),
        ("[He goes out.]\n\n[1] A note.", ["[He goes out.]", "[1] A note."]),
        ("One [Transcriber's note: sale?] two {454b}three.", ["One two three."]),
        ("One.[Footnote A: Which has\n\ntwo paragraphs.] Two.\n\n[Footnote: X]", ["One. Two."]),
        ("[Music: see it elsewhere]\n\n[Printer's decoration]\n\nOne.", ["One."]),
    ],
)
def test_marks_of_pictures_pages_and_breaks_go(text: str, expected: list[str]) -> None:
    assert split_paragraphs(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_Emma_ and _Love and\nFriendship_, he _said_.", "Emma and Love and\nFriendship, he said."),
        ('"_Now_!" and (__bold__)', '"Now!" and (bold)'),
        ("snake_case and Mr. ____ and 2_000", "snake_case and Mr. ____ and 2_000"),
    ],
)
def test_italics(text: str, expected: str) -> None:
    assert drop_italics(text) == expected


def test_a_word_divided_at_a_line_end_is_mended_as_the_book_writes_it() -> None:
    hyphens = Hyphens("Well-known men scrutinise a half-\ncoy drawing-\nroom.")
    pairs = [
        ("Men scru-", "tinise"),
        ("well-", "known"),
        ("half-", "coy"),
        ("Anglo-", "Saxon"),
        ("the sky--", "seemed"),
    ]
    found = [hyphens.join_lines([before, after]) for before, after in pairs]
    assert found == ["Men scrutinise", "well-known", "half-coy", "Anglo-Saxon", "the sky--seemed"]
    divides = Hyphens(
        "generation remember darkness. A gener-\nation I remem-\nber in dark-\nness, and a mis-\nsionary."
    )
    assert divides.join_lines(["a mis-", "sionary"]) == "a missionary"


def numbered(pages: int, step: int = 1) -> str:
    """A wrapped text with a page's number after every six lines."""
    lines = textwrap.fill(" ".join([STORY] * pages), 70).split("\n")
    chunks = ["\n".join(lines[at : at + 6]) for at in range(0, 6 * pages, 6)]
    return "".join(f"{chunk}\n\n {page * step})\n\n" for page, chunk in enumerate(chunks, start=1))


def test_lines_of_page_numbers_go_and_their_sentences_are_one() -> None:
    text = numbered(30)
    assert text.count(")\n") == 30
    [found] = split_paragraphs(text)
    assert not any(letter.isdigit() for letter in found)
    assert found.startswith(STORY) and found.count(STORY) > 20


def test_a_title_before_a_page_number_is_no_sentence() -> None:
    title, *rest = split_paragraphs(f"BY\nANN LEE\n\n 0)\n\nSTORY OF THE DOOR\n\n{numbered(30)}")
    assert (title, rest[0]) == ("BY\nANN LEE", "STORY OF THE DOOR") and len(rest) == 2


def test_numbers_that_are_no_pages_stay() -> None:
    few, apart = split_paragraphs(numbered(15)), split_paragraphs(numbered(30, step=3))
    assert sum(block.endswith(")") for block in few) == 15 and sum(block.endswith(")") for block in apart) == 30
    chapters = "".join(f"{number}\n\n{textwrap.fill(STORY, 70)}\n\n" for number in range(1, 40))
    assert split_paragraphs(chapters) == [block for number in range(1, 40) for block in (str(number), STORY)]
