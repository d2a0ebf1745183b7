"""Shingles: the kernels equal their plain definition, and the definition holds what it says."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from corpora.duplicates.verify import build_shingle_sets
from corpora.text.shingles import hash_text_shingles, keep_distinct

TEXTS = st.lists(
    st.sampled_from(["a", "B", "word", " ", ", ", "é", "”", "中", "\u0323", "exactly8", "-" * 9]), max_size=40
)


@given(texts=st.lists(TEXTS.map("".join), max_size=5), words=st.integers(1, 6), skipped=st.integers(0, 2))
@examples(200)
def test_kernels_equal_the_definition(texts: list[str], words: int, skipped: int) -> None:
    """Each row alone, whatever is before and after it in the buffer, and in a slice of a column."""
    sets = build_shingle_sets(pa.array(texts, pa.large_string())[skipped:], words)
    rows = [sets.values[start:end].tolist() for start, end in zip(sets.offsets, sets.offsets[1:], strict=False)]
    assert rows == [sorted(hash_text_shingles(text, words)) for text in texts[skipped:]]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("one two three four five", "two one three four five"),
        ("one two", "onetwo"),
        ("one two", "one two two"),
        ("café", "cafe"),
        ("don’t", "dont"),  # noqa: RUF001
    ],
)
def test_what_makes_another_shingle(text: str, other: str) -> None:
    assert not hash_text_shingles(text) & hash_text_shingles(other)


@pytest.mark.parametrize(("num_words", "num_shingles"), [(0, 0), (1, 1), (4, 1), (5, 1), (6, 2), (20, 16)])
def test_number_of_shingles(num_words: int, num_shingles: int) -> None:
    text = " ".join(f"w{number}" for number in range(num_words))
    assert len(hash_text_shingles(text)) == num_shingles


def test_a_sentence_without_spaces_has_a_shingle_for_every_character_but_four() -> None:
    """Fails if a sentence of Chinese or Thai is one word, so that a change of one character hides it."""
    assert len(hash_text_shingles("天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。")) == 12  # noqa: RUF001
    one, other = hash_text_shingles("กขคงจฉชซฌญฎฏฐฑฒณดตถท" * 2), hash_text_shingles("กขคงจฉชซฌญฎฏฐฑฒณดตถท")
    assert other < one and len(other) == 16


def test_repeated_shingles_count_once() -> None:
    assert len(hash_text_shingles("la " * 50)) == 1


@given(values=st.lists(st.integers(0, 20) | st.integers(0, 2**64 - 1), max_size=50))
@settings(deadline=None)
def test_keep_distinct_keeps_the_first_of_each(values: list[int]) -> None:
    """Zero, which marks a free place of the table, among them."""
    array, table = np.array(values, np.uint64), np.full(128, 7, np.uint64)
    number = keep_distinct(array, len(values), table)
    assert array[:number].tolist() == list(dict.fromkeys(values))
