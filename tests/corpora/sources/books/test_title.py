"""Titles and authors by the title page: where it says both, and nowhere else."""

import pytest

from corpora.sources.books.lines import find_title_and_author


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (["THE SKY", "by", "ANN LEE"], ("The Sky", "Ann Lee")),
        (["The Sky, by H. G. Wells"], ("The Sky", "H. G. Wells")),
        (["The Sky\nby Ann van der Lee"], ("The Sky", "Ann van der Lee")),
        (["THE CALL OF THE WILD", "A Tale", "By Jack London."], ("The Call of the Wild", "Jack London")),
        (["The Sky", "Published by Ann Lee at Smashwords", "Copyright 2012 Ann Lee"], ("The Sky", "Ann Lee")),
        (["Ann Lee", "The Sky", "Copyright © 2012 Ann Lee"], ("The Sky", "Ann Lee")),
        (['"CAPTAINS OF THE SKY"', "by", "Ann Lee"], ("Captains of the Sky", "Ann Lee")),
        (["THE SKY", "TRANSLATED BY BOB RAY", "BY ANN LEE"], ("The Sky", "Ann Lee")),
    ],
)
def test_title_pages(page: list[str], expected: tuple[str, str]) -> None:
    assert find_title_and_author([*page, "CHAPTER I", "It was late."]) == expected


@pytest.mark.parametrize(
    "page",
    [
        [],
        ["The Sky"],
        ["By Ann Lee"],  # and no title
        ["The Sky", "Illustrated by Bob Ray"],
        ["The Sky", "Copyright 1917 The Century Co."],
        ["The Sky", "Gone by nightfall", "by and by he came"],
        ["It was late, and by the lamp. " * 9, "by", "Ann Lee"][:1],
    ],
)
def test_nothing_is_guessed(page: list[str]) -> None:
    assert find_title_and_author([*page, "It was late."]) == (None, None)
