"""Copyright pages, contents and what follows a book: cut where they are clear, and no prose with them."""
# ruff: noqa: RUF001 - typographic quotes are the subject here

import pytest

from corpora.sources.books.matter import count_prose_words, cut_back, cut_contents, cut_front, cut_matter

PROSE = "It was late in the evening when the lamp went out, and nobody in the house spoke of it."
BOOK = [PROSE] * 400
SMASHWORDS = [
    "Published by Ann Lee at Smashwords",
    "Copyright 2012 Ann Lee",
    "Smashwords Edition, License Notes",
    "This ebook is licensed for your personal enjoyment only. This ebook may not be re-sold or given away.",
    "If you would like to share this book with another person, please purchase an additional copy.",
    "Thank you for respecting the hard work of this author.",
    "This is a work of fiction. Any resemblance to actual persons, living or dead, is coincidental.",
    "Cover design by Bob Ray",
    "ISBN: 978-1-4523-0000-0",
    "© 2012 by Ann Lee. All rights reserved.",
    "Twenty-seventh Impression, June, 1925\nTwenty-eighth Impression, February, 1926",
    "Published, November, 1917",
    "Made and Printed in Great Britain by\nThe Camelot Press",
    "This new Dover edition, first published in 1963, is an unabridged republication.",
    "Library of Congress Catalog Card Number: 64-16327",
]
ENDS = [
    ["About the Author", "Ann Lee lives in Ohio.", "Her blog: http://annlee.example.com"],
    ["Connect with Me Online:", "Twitter: http://twitter.com/annlee"],
    ["Thank you for reading my book. If you enjoyed it, won’t you please take a moment to leave a review?", "Ann Lee"],
    ["Other titles by Ann Lee", "The Moon", "The Star"],
    ["If you enjoyed this novel, look for the next."],
    ["Discover other titles by Ann Lee at Smashwords.com:", "http://www.smashwords.com/profile/view/annlee"],
]


def test_the_licence_pages_of_a_smashwords_book_go() -> None:
    assert cut_matter(["The Sky", "Ann Lee", *SMASHWORDS, "Chapter One", *BOOK]) == [
        "The Sky",
        "Ann Lee",
        "Chapter One",
        *BOOK,
    ]


def test_the_same_words_inside_a_book_stay() -> None:
    book = [*BOOK, *SMASHWORDS, "About the Author", *BOOK]
    assert cut_front(book) == book and cut_back(book) == book


@pytest.mark.parametrize("end", ENDS)
def test_what_follows_the_end_goes(end: list[str]) -> None:
    assert cut_back([*BOOK, "THE END", *end]) == [*BOOK, "THE END"]


@pytest.mark.parametrize(
    "last",
    [
        "“Thank you for reading my book,” she said.",
        "Thank you for reading, she thought, and closed the door behind her.",
        "About the author of the letter nothing was ever found out, though the whole town talked of him for years.",
        "Connect the wires, he said.",
    ],
)
def test_an_end_that_only_sounds_so_stays(last: str) -> None:
    assert cut_back([*BOOK, last, PROSE]) == [*BOOK, last, PROSE]


@pytest.mark.parametrize(
    ("contents", "heading"),
    [
        (["CONTENTS", "I. THE WALK 3\nII. THE BALL 12\nIII. THE END 44"], ["CHAPTER I", "THE WALK"]),
        (["Contents", "The Walk", "The Ball", "The End"], ["THE WALK"]),
        (["Contents:\nThe Walk\nThe Ball"], ["The Walk"]),
        (["TABLE OF CONTENTS", "CHAPTER PAGE", "I. The Walk . . . 3", "II. The Ball . . . 12"], ["I", "The Walk"]),
        (["CONTENTS", "Chapter 1\nChapter 2\nChapter 3"], ["Chapter 1"]),
        (["CONTENTS", "BOOK ONE", "I The Walk\nII The Ball", "BOOK TWO", "I The End"], ["BOOK ONE", "I", "The Walk"]),
    ],
)
def test_contents_go_up_to_the_first_heading_that_they_name(contents: list[str], heading: list[str]) -> None:
    assert cut_contents(["Emma", *contents, *heading, *BOOK]) == ["Emma", *heading, *BOOK]


def test_a_list_of_illustrations_after_contents_goes_too() -> None:
    lists = ["CONTENTS", "I. The Walk 1", "II. The Ball 9", "ILLUSTRATIONS", "The Lamp Frontispiece\nThe Door 5"]
    found = cut_contents(["Emma", *lists, "TO MY SISTER", "I", "The Walk", *BOOK])
    assert "The Door 5" not in " ".join(found) and "II. The Ball 9" not in found
    assert found[-len(BOOK) - 2 :] == ["I", "The Walk", *BOOK]


def test_where_contents_stop_is_not_guessed() -> None:
    book = ["Emma", "Contents", "A dedication to my friends", "who know it", *BOOK]
    assert cut_contents(book) == book
    late = [*BOOK, "CONTENTS", "I. The Walk 3", "I", "The Walk", *BOOK]
    assert cut_contents(late) == late


def test_prose_words_count_prose() -> None:
    tables = ["Abbey, 12, 45; Aberdeen, 33, 91; Acre, 7.", "CHAPTER ONE", "1 2 3 4 5 6 7 8 9 10.", "The Moon\nThe Star"]
    assert count_prose_words(tables * 50, 1_000) == 0
    assert count_prose_words([*tables, PROSE, PROSE], 1_000) == 2 * len(PROSE.split())
    assert 100 <= count_prose_words(BOOK, 100) < 130
