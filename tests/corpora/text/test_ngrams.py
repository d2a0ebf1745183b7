"""The hashes of runs of words: the definition, and that the kernels agree with it."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiers import examples

from corpora.text.ngrams import find_key, hash_ngrams, hash_text_ngrams, make_slots

ALPHABET = "aBzZ09_-.,' \n\tÄßẞσςΣİıǅ½²中國かガｶ゙́हि한\u00ad\u200d\u200b\ufeff\U00020000\U0001f600\U0010ffffȺK\u0345"  # noqa: RUF001
TEXTS = st.lists(st.text(st.sampled_from(ALPHABET) | st.characters(exclude_categories=["Cs"]), max_size=60), max_size=5)


def column(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.large_string())


@given(texts=TEXTS, n=st.integers(1, 5), skipped=st.integers(0, 2))
@example(texts=["ééééé ééééaéé aéééaéé ȺȺȺȺ", "中中中中 x"], n=1, skipped=0)
@example(texts=["word " * 40 + "w" * 50], n=13, skipped=0)
@examples(400)
def test_the_kernel_equals_the_definition(texts: list[str], n: int, skipped: int) -> None:
    hashes, offsets = hash_ngrams(column(texts)[skipped:], n)
    rows = [hashes[start:end].tolist() for start, end in pairwise(offsets)]
    assert rows == [hash_text_ngrams(text, n) for text in texts[skipped:]]


@pytest.mark.parametrize("other", ["b a c", "a b", "ab c", "a b d", "a b ç"])
def test_other_words_have_other_hashes(other: str) -> None:
    assert hash_text_ngrams("a b c", 3) != hash_text_ngrams(other, 3)


@given(keys=st.sets(st.integers(0, 40) | st.integers(0, 2**64 - 1), max_size=60), other=st.integers(0, 2**64 - 1))
@settings(deadline=None)
def test_every_key_is_found_in_its_place_and_no_other(keys: set[int], other: int) -> None:
    array = np.array(sorted(keys), np.uint64)
    slots = make_slots(array)
    assert [find_key(key, array, slots) for key in array] == list(range(len(keys)))
    assert (find_key(np.uint64(other), array, slots) >= 0) == (other in keys)
