"""Shingles: the kernels equal their plain definition, and the definition holds what it says."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.duplicates.verify import shingle_sets
from corpora.kernels.hashing import GOLDEN_RATIO
from corpora.text.shingles import (
    EMPTY_WORD,
    keep_distinct,
    shingle_hashes,
    word_hash,
)

# Bytes on both sides of each border of the word class, in runs that cross the eight bytes of one load.
CLASS_BORDERS = [
    b"/",
    b"0",
    b"9",
    b":",
    b"@",
    b"A",
    b"Z",
    b"[",
    b"`",
    b"a",
    b"z",
    b"{",
    b"\x7f",
    b"\x80",
    b"\xff",
]
PIECES = st.sampled_from([*CLASS_BORDERS, b" ", b", ", b"\x00", b"word", b"exactly8", b"seventeen letters", b"-" * 9])
TEXTS = st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=40).map(b"".join)).map(
    lambda data: data.decode("utf-8", "replace").encode()
)


@given(texts=st.lists(TEXTS, max_size=5), words=st.integers(1, 6), skipped=st.integers(0, 2))
@settings(deadline=None, max_examples=400)
def test_kernels_equal_the_definition(texts: list[bytes], words: int, skipped: int) -> None:
    """Each row alone, whatever is before and after it in the buffer, and in a slice of a column."""
    sets = shingle_sets(pa.array(texts, pa.large_binary())[skipped:], words)
    rows = [sets.values[start:end].tolist() for start, end in zip(sets.offsets, sets.offsets[1:], strict=False)]
    assert rows == [sorted(shingle_hashes(text, words)) for text in texts[skipped:]]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (b"The cat, the DOG; and -- you!", b"the cat the dog and you"),
        (b"naive caf\xc3\xa9 bar 7th x", b"NAIVE caf\xc3\xa9 BAR 7TH X"),
        (b"one two", b"  One\n\nTWO."),
    ],
)
def test_case_and_ascii_marks_do_not_matter(text: bytes, same: bytes) -> None:
    assert shingle_hashes(text) == shingle_hashes(same) != set()


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (b"one two three four five", b"two one three four five"),
        (b"one two", b"onetwo"),
        (b"one two", b"one two two"),
        (b"caf\xc3\xa9", b"caf\xc3\x89"),  # only ASCII is lower-cased
        (b"don\xe2\x80\x99t", b"dont"),  # a typographic apostrophe is part of the word
    ],
)
def test_what_makes_another_shingle(text: bytes, other: bytes) -> None:
    assert not shingle_hashes(text) & shingle_hashes(other)


@pytest.mark.parametrize(("num_words", "num_shingles"), [(0, 0), (1, 1), (4, 1), (5, 1), (6, 2), (20, 16)])
def test_number_of_shingles(num_words: int, num_shingles: int) -> None:
    text = b" ".join(b"w%d" % number for number in range(num_words))
    assert len(shingle_hashes(text)) == num_shingles


def test_repeated_shingles_count_once() -> None:
    assert len(shingle_hashes(b"la " * 50)) == 1


@given(word=st.binary(min_size=1, max_size=8).filter(lambda word: 0 not in word))
def test_words_of_up_to_eight_bytes_can_be_read_back_from_their_hash(word: bytes) -> None:
    """So no two of them share one."""
    state = word_hash(word)
    state ^= state >> 32
    state = state * pow(int(GOLDEN_RATIO), -1, 2**64) % 2**64 ^ int(EMPTY_WORD)
    assert state.to_bytes(8, "little").rstrip(b"\x00") == word


@given(values=st.lists(st.integers(0, 20) | st.integers(0, 2**64 - 1), max_size=50))
@settings(deadline=None)
def test_keep_distinct_keeps_the_first_of_each(values: list[int]) -> None:
    """Zero, which marks a free place of the table, among them."""
    array, table = np.array(values, np.uint64), np.full(128, 7, np.uint64)
    number = keep_distinct(array, len(values), table)
    assert array[:number].tolist() == list(dict.fromkeys(values))
