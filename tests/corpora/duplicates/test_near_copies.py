"""Near-duplicates as they are met: one text set in two ways, found with the settings as they come."""

import random
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from corpora.duplicates.signatures import compute_band_keys, compute_signatures
from corpora.duplicates.survivors import DuplicateSettings, judge_duplicates
from corpora.duplicates.verify import build_shingle_sets

SYLLABLES = ["ka", "lé", "mor", "tin", "sul", "ße", "va", "nor", "öd", "pi", "ran", "dok"]
BOOKS = ("the-secret-garden_113", "treasure-island_120", "the-war-of-the-worlds_36")


def removed(texts: Sequence[str]) -> list[bool]:
    """Which of the documents go, judged in the order in which they are given."""
    column, settings = pa.array(texts, pa.large_string()), DuplicateSettings()
    sketches = compute_signatures(column, settings.signature)
    keys = compute_band_keys(sketches.signature, settings.band)
    verdicts = judge_duplicates(
        sketches.set_hash, keys, build_shingle_sets(column, settings.signature.shingle_words), settings
    )
    return (verdicts.survivor >= 0).tolist()


def curled(text: str) -> str:
    """Typographic quotes, apostrophes, dashes and points for those of a typewriter."""
    marks = [('"', "”"), ("'", "’"), ("--", "—"), ("...", "…")]  # noqa: RUF001
    text = text.replace(' "', " “")
    for straight, curly in marks:
        text = text.replace(straight, curly)
    return text


def speech(number: int) -> str:
    """A page in which people talk: every sentence has quotation marks, apostrophes and dashes."""
    chance = random.Random(number)
    word = lambda: "".join(chance.choices(SYLLABLES, k=chance.randint(1, 3)))  # noqa: E731
    lines = (f"\"{word()} {word()}'{word()},\" {word()} {word()} -- '{word()}'... {word()}." for _ in range(60))
    return " ".join(lines)


@pytest.mark.parametrize(
    "changed",
    [
        curled,
        str.upper,
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: text.replace('"', "„").replace("--", "\u2013"),
        lambda text: text.replace("an", "a\u00adn"),
        lambda text: text.replace(" ", "\u00a0\n"),
        lambda text: "".join(chr(ord(c) + 0xFEE0) if "a" <= c <= "z" else c for c in text),
    ],
)
def test_a_page_set_in_another_way_is_found(changed: Callable[[str], str]) -> None:
    """Fails if a mark, a case or a form of Unicode enters a word. Pages that differ stay."""
    pages = [speech(number) for number in range(4)]
    copies = [changed(page) for page in pages]
    assert all(copy != page for copy, page in zip(copies, pages, strict=True))
    assert removed([*pages, *copies]) == [False] * 4 + [True] * 4


@pytest.mark.parametrize(("first", "last"), [(0x4E00, 0x5200), (0x0E01, 0x0E2E), (0x1780, 0x17A2), (0x3041, 0x3096)])
def test_an_edited_page_without_spaces_is_found(first: int, last: int) -> None:
    """One character in a hundred is another, so that hardly a sentence is as it was: Chinese, Thai, Khmer, kana."""
    chance = np.random.default_rng(first)
    pages = chance.integers(first, last, (3, 1_500))
    pages[:, ::17] = ord(" ")
    edited = np.where(chance.random(pages.shape) < 0.01, first, pages)
    texts = ["".join(map(chr, page)) for page in (*pages.tolist(), *edited.tolist())]
    assert removed(texts) == [False] * 3 + [True] * 3


def test_pages_without_words_stay() -> None:
    """There is nothing by which they could be compared."""
    assert removed(["!!! ...", "!!! ...", "😀 😀", ""]) == [False] * 4


def test_a_novel_with_curly_quotes_is_found_next_to_the_one_with_straight_quotes(shared: Path) -> None:
    books = [(shared / f"data/books/txt/{name}.txt").read_text(encoding="utf-8") for name in BOOKS]
    straight = [book.translate({0x201C: '"', 0x201D: '"', 0x2018: "'", 0x2019: "'", 0x2014: "--"}) for book in books]
    assert removed([*straight, *map(curled, straight)]) == [False] * 3 + [True] * 3
