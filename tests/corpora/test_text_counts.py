"""The counts: the kernels count what the definition counts, and that is what a person counts."""
# ruff: noqa: RUF001 - typographic marks are part of the subject here

from pathlib import Path

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpora.text.count_kernels import count
from corpora.text.counts import Counts, measure

WORDS = ["the", "The", "of,", "(and)", "lorem", "Lorem", "ipsum", "ipsum.", "7", "é", "日本。", "！", "x" * 9]
MARKS = ["#", "##", "...", "..", "....", "…", ".", "?”", "'", '"', ")", "{", "}", "-", "•", "*", "\x01"]
PIECES = st.sampled_from([*WORDS, *MARKS, " ", "  ", "\n", "\n\n", "\n \n", "\t"])
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join), st.lists(PIECES, max_size=40).map(" ".join))


def column(*texts: str) -> pa.Array:
    return pa.array(texts, pa.large_string())


def rows(counts: Counts) -> list[tuple[int, ...]]:
    return [tuple(map(int, row)) for row in zip(*counts, strict=True)]


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=4))
@example(["", "a", "lorem ipsum", "… a\n…\n\na\n\n\na"])
def test_the_kernel_counts_what_the_definition_counts(texts: list[str]) -> None:
    assert rows(count(column(*texts))) == [tuple(measure(text)) for text in texts]


def test_counts_of_a_text_counted_by_hand() -> None:
    text = "• The end… of #1 (lorem ipsum).\n\n• The end… of #1 (lorem ipsum).\nÀ {bientôt}!"
    expected = {"words": 16, "word_characters": 61, "alphabetic_words": 14, "stop_words": 2, "sentences": 5}
    expected |= {"hash_marks": 2, "ellipses": 2, "curly_braces": 2, "lorem_ipsum": 2}
    expected |= {"lines": 3, "bullet_lines": 2, "line_characters": 74, "ended_line_characters": 74}
    expected |= {"repeated_lines": 1, "repeated_line_characters": 31, "paragraphs": 2, "repeated_paragraphs": 0}
    counts = measure(text)._asdict()
    assert {name: counts[name] for name in expected} == expected


def test_slices_are_read_where_they_are() -> None:
    text = "The ferry left at seven.\n\nNobody waved."
    assert rows(count(column("x", text, "y")[1:2])) == [tuple(measure(text))]


def test_real_text_is_counted_alike(shared: Path) -> None:
    paths = sorted((shared / "data" / "sample" / "books" / "txt").glob("*.txt"))[:4]
    assert paths
    texts = [path.read_bytes().decode("utf-8", "replace")[:100_000] for path in paths]
    assert rows(count(column(*texts))) == [tuple(measure(text)) for text in texts]
