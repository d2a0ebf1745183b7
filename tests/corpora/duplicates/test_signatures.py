"""Signatures: datasketch's bits, an order-independent set hash, and estimates as good as the theory says."""

import numpy as np
import pyarrow as pa
import pytest
from datasketch import MinHash
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpora.duplicates.signatures import (
    EMPTY_MINIMUM,
    EMPTY_SET,
    SignatureSettings,
    compute_signature_plain,
    compute_signatures,
    draw_permutations,
    hash_set_plain,
)
from corpora.errors import InputError
from corpora.text.shingles import hash_text_shingles

WORDS = st.lists(st.sampled_from([f"w{number}" for number in range(12)]), max_size=40)


@given(
    texts=st.lists(WORDS.map(" ".join), min_size=1, max_size=4),
    lanes=st.sampled_from([1, 63, 64, 65, 128, 200]),
    words=st.integers(1, 6),
    seed=st.integers(0, 3),
)
@settings(deadline=None)
def test_bits_equal_datasketch(texts: list[str], lanes: int, words: int, seed: int) -> None:
    chosen = SignatureSettings(permutations=lanes, shingle_words=words, seed=seed)
    batch = compute_signatures(pa.array(texts, pa.large_string()), chosen)
    for row, text in enumerate(texts):
        shingles = hash_text_shingles(text, words)
        assert np.array_equal(batch.signature[row], compute_signature_plain(text, chosen))
        assert batch.num_shingles[row] == len(shingles)
        assert int(batch.set_hash[row]) == hash_set_plain(shingles)


@given(number=st.integers(1, 4096), seed=st.integers(0, 2**32 - 1))
@example(number=128, seed=1)
def test_permutations_are_datasketchs(number: int, seed: int) -> None:
    ours = draw_permutations(SignatureSettings(permutations=number, seed=seed))
    theirs = MinHash(num_perm=number, seed=seed).permutations
    assert [(array.dtype, array.tolist()) for array in ours] == [(array.dtype, array.tolist()) for array in theirs]


def test_datasketch_reads_and_compares_our_signatures() -> None:
    texts = ["one two three four five six seven eight", "one two three four five six seven nine"]
    chosen = SignatureSettings()
    batch = compute_signatures(pa.array(texts, pa.large_string()), chosen)
    ours = MinHash(hashvalues=batch.signature[0], scheme="affine32", permutations=draw_permutations(chosen))
    theirs = MinHash(num_perm=128, seed=1, hashfunc=int)
    for value in hash_text_shingles(texts[1]):
        theirs.update(value >> 32)
    assert np.array_equal(theirs.hashvalues, batch.signature[1])
    assert ours.jaccard(theirs) == np.mean(batch.signature[0] == batch.signature[1])


def test_set_hash_sees_the_set_and_not_its_order() -> None:
    """Six words in a circle, read from anywhere for six shingles, have one set; a step less, another."""
    circle = "a b c d e f".split()
    texts = [" ".join((circle * 3)[start : start + 10]) for start in range(6)]
    hashes = compute_signatures(
        pa.array([*texts, "a b c d e f a b c"], pa.large_string()), SignatureSettings()
    ).set_hash
    assert len(set(hashes[:6].tolist())) == 1
    assert hashes[6] != hashes[0]


def test_set_hash_of_no_shingles_is_reserved() -> None:
    batch = compute_signatures(pa.array(["", "...", "word"], pa.large_string()), SignatureSettings())
    assert (batch.set_hash == EMPTY_SET).tolist() == [True, True, False]
    assert (batch.signature == EMPTY_MINIMUM).all(axis=1).tolist() == [True, True, False]
    assert batch.num_shingles.tolist() == [0, 0, 1]


def test_columns_with_nulls_are_refused() -> None:
    with pytest.raises(InputError, match="nulls"):
        compute_signatures(pa.array(["a", None], pa.large_string()), SignatureSettings())
