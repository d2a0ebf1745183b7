"""Verification: exact overlaps, unrounded thresholds, and a store that reads each text once."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.duplicates import verify
from corpora.duplicates.signatures import SignatureSettings, signatures
from corpora.duplicates.verify import (
    ShingleStore,
    jaccard,
    reaches,
    shingle_sets,
    sort_sets,
    threshold_ratio,
)
from corpora.errors import InputError
from corpora.text.shingles import shingle_hashes

TEXTS = st.lists(st.lists(st.sampled_from("abcd"), max_size=12).map(" ".join), min_size=1, max_size=6)


@given(texts=TEXTS, words=st.integers(1, 3))
@settings(deadline=None)
def test_pairs_equal_the_definition(texts: list[str], words: int) -> None:
    sets = shingle_sets(pa.array(texts, pa.large_string()), words)
    left, right = (side.ravel() for side in np.indices((len(texts), len(texts))))
    overlaps = sets.overlaps(left, right)
    for pair, (one, other) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        a, b = (shingle_hashes(texts[row], words) for row in (one, other))
        assert jaccard(sets, one, other) == (len(a & b), len(a | b))
        assert (overlaps.intersection[pair], overlaps.union[pair]) == (len(a & b), len(a | b))


@given(texts=st.lists(st.text("ab ", max_size=60), max_size=8), picked=st.data())
@settings(deadline=None)
def test_held_shingles_make_the_same_sets(texts: list[str], picked: st.DataObject) -> None:
    """Fails where the sets of some rows, sorted from what a sketch holds, are not those that reading again makes."""
    column = pa.array(texts, pa.large_string())
    rows = np.flatnonzero(picked.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))))
    held = signatures(column, SignatureSettings(), with_shingles=True)
    sets = shingle_sets(column.take(pa.array(rows, pa.int64())))
    out = np.zeros_like(sets.values)
    assert sort_sets(held.shingles, np.cumsum(held.num_shingles, dtype=np.int64), rows, out) == len(out)
    assert np.array_equal(out, sets.values)


def test_four_in_five_reach_a_threshold_of_point_eight() -> None:
    """The binary number 0.8 is above 4/5, so comparing with it would say no."""
    assert Fraction(0.8) > Fraction(4, 5)
    assert reaches(4, 5, threshold_ratio(0.8))
    assert not reaches(799_999, 1_000_000, threshold_ratio(0.8))


@given(thousandths=st.integers(1, 1000), union=st.integers(1, 5000), common=st.integers(0, 5000))
def test_thresholds_mean_what_is_written(thousandths: int, union: int, common: int) -> None:
    ratio = threshold_ratio(thousandths / 1000)
    assert ratio == Fraction(thousandths, 1000)
    assert reaches(common, union, ratio) == (Fraction(common, union) >= Fraction(thousandths, 1000))


def test_two_empty_sets_reach_no_threshold() -> None:
    assert not reaches(0, 0, threshold_ratio(0.000001))


@pytest.mark.parametrize("wrong", [0, -0.5, 1.01, float("nan"), float("inf"), 0.1234567, 1 / 3])
def test_thresholds_that_cannot_be_met_exactly_are_refused(wrong: float) -> None:
    with pytest.raises(InputError, match="threshold"):
        threshold_ratio(wrong)


def test_store_equals_the_sets_and_reads_each_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "READ", 7)
    texts = pa.array([" ".join(f"w{word % (3 + row)}" for word in range(30)) for row in range(40)], pa.large_string())
    asked: list[int] = []

    def read(rows: Sequence[int]) -> pa.Array:
        assert 0 < len(rows) <= 7
        asked.extend(rows)
        return texts.take(pa.array(rows))

    store = ShingleStore(SignatureSettings(shingle_words=2), read)
    sets = shingle_sets(texts, 2)
    store.expect(np.array([3, 30, 3]))
    assert sorted(asked) == [3, 30]
    rng = np.random.default_rng(2)
    for _ in range(6):
        left, right = rng.integers(0, 40, (2, 25))
        mine, theirs = store.overlaps(left, right), sets.overlaps(left, right)
        assert np.array_equal(mine.intersection, theirs.intersection)
        assert np.array_equal(mine.union, theirs.union)
    assert len(asked) == len(set(asked)) > 30
