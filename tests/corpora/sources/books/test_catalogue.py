"""Advertisements after the end of a book go; a book that speaks of prices stays whole."""

import pytest

from corpora.sources.books.matter import cut_catalogue

PROSE = ["It was late in the evening when the lamp went out, and nobody in the house spoke of it."] * 300
BURT = [
    "Popular Copyright Novels",
    "AT MODERATE PRICES",
    "Ask Your Dealer for a Complete List of\nA. L. Burt Company's Popular Copyright Fiction",
    "Bambi. By Marjorie Benton. Barbara of the Snows. By Harry Green.",
]
SERIES = [
    "THE YOUNG PIONEER SERIES",
    "BY HARRISON ADAMS",
    "Each 12mo, cloth decorative, illustrated, per volume $1.65",
    "THE PIONEER BOYS OF THE OHIO",
    "“Such books as these are an admirable means of stimulating interest in the past.”",
    "MINUTE BOY SERIES",
    "Each one volume, cloth decorative, 12mo, per volume $1.50",
    "THE MINUTE BOYS OF BOSTON",
    "Price, $2.00 postpaid",
]


@pytest.mark.parametrize("end", [["THE END"], ["FINIS."], ["The End."]])
@pytest.mark.parametrize("catalogue", [BURT, SERIES, SERIES * 4])
def test_what_follows_the_end_goes(end: list[str], catalogue: list[str]) -> None:
    assert cut_catalogue([*PROSE, *end, *catalogue]) == [*PROSE, *end]


def test_a_catalogue_goes_without_an_end_before_it() -> None:
    assert cut_catalogue([*PROSE, *SERIES]) == PROSE


def test_the_printer_goes() -> None:
    assert cut_catalogue([*PROSE, "THE END", "PRINTED BY CLOWES AND SONS, LONDON"]) == [*PROSE, "THE END"]


@pytest.mark.parametrize(
    "end",
    [
        ["THE END", "EPILOGUE", "He paid $1.50 for it, and went home.", *PROSE[:5]],
        ["THE END OF BOOK ONE", "BOOK TWO", *PROSE[:20]],
        ["He paid $1.50 for it.", "She paid $2.00."],
        ["He printed by night."],
    ],
)
def test_a_book_is_not_cut(end: list[str]) -> None:
    assert cut_catalogue([*PROSE, *end]) == [*PROSE, *end]


def test_no_more_than_its_share_goes() -> None:
    book = [*PROSE, "THE END", *BURT, *PROSE]
    assert cut_catalogue(book) == book
