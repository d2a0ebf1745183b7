"""Verification: exact overlaps, unrounded thresholds, and sets that are read once."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_columns import assert_equal

from corpora.duplicates.shingle_file import MAPPED_BYTES, ShingleFile
from corpora.duplicates.signatures import SignatureSettings, compute_signatures
from corpora.duplicates.verify import (
    ShingleSets,
    build_shingle_sets,
    count_common_plain,
    is_at_least,
    parse_threshold,
    sort_sets,
)
from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.store.scratch import open_scratch_file
from corpora.text.shingles import hash_text_shingles

TEXTS = st.lists(st.lists(st.sampled_from("abcd"), max_size=12).map(" ".join), min_size=1, max_size=6)


@given(texts=TEXTS, words=st.integers(1, 3))
@settings(deadline=None)
def test_pairs_equal_the_definition(texts: list[str], words: int) -> None:
    sets = build_shingle_sets(pa.array(texts, pa.large_string()), words)
    left, right = (side.ravel() for side in np.indices((len(texts), len(texts))))
    overlaps = sets.compute_overlaps(left, right)
    for pair, (one, other) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        a, b = (hash_text_shingles(texts[row], words) for row in (one, other))
        assert count_common_plain(sets, one, other) == (len(a & b), len(a | b))
        assert (overlaps.intersection[pair], overlaps.union[pair]) == (len(a & b), len(a | b))


@given(texts=st.lists(st.text("ab ", max_size=60), max_size=8), picked=st.data())
@settings(deadline=None)
def test_held_shingles_make_the_same_sets(texts: list[str], picked: st.DataObject) -> None:
    """Fails if the sets of some rows, sorted from what a sketch holds, are not those that reading again makes."""
    column = pa.array(texts, pa.large_string())
    rows = np.flatnonzero(picked.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))))
    held = compute_signatures(column, SignatureSettings(), with_shingles=True)
    sets = build_shingle_sets(column.take(pa.array(rows, pa.int64())))
    out = np.zeros_like(sets.values)
    ends = np.cumsum(held.num_shingles, dtype=np.int64)
    sort_sets(held.shingles, (ends - held.num_shingles)[rows], ends[rows], out)
    assert np.array_equal(out, sets.values)


def test_four_in_five_reach_a_threshold_of_point_eight() -> None:
    """The binary number 0.8 is above 4/5, so comparing with it would say no."""
    assert Fraction(0.8) > Fraction(4, 5)
    assert is_at_least(4, 5, parse_threshold(0.8))
    assert not is_at_least(799_999, 1_000_000, parse_threshold(0.8))


@given(thousandths=st.integers(1, 1000), union=st.integers(1, 5000), common=st.integers(0, 5000))
def test_thresholds_mean_what_is_written(thousandths: int, union: int, common: int) -> None:
    ratio = parse_threshold(thousandths / 1000)
    assert ratio == Fraction(thousandths, 1000)
    assert is_at_least(common, union, ratio) == (Fraction(common, union) >= Fraction(thousandths, 1000))


def test_two_empty_sets_reach_no_threshold() -> None:
    assert not is_at_least(0, 0, parse_threshold(0.000001))


@pytest.mark.parametrize("wrong", [0, -0.5, 1.01, float("nan"), float("inf"), 0.1234567, 1 / 3])
def test_thresholds_that_cannot_be_met_exactly_are_refused(wrong: float) -> None:
    with pytest.raises(InputError, match="threshold"):
        parse_threshold(wrong)


@pytest.mark.parametrize("mapped", [0, MAPPED_BYTES])
def test_sets_in_a_file_equal_the_sets_and_are_read_once(
    mapped: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a place in the order is taken for a row, sets are read twice, or lost as pages are given back."""
    monkeypatch.setattr("corpora.duplicates.shingle_file.MAPPED_BYTES", mapped)
    texts = pa.array([" ".join(f"w{word % (3 + row)}" for word in range(30)) for row in range(40)], pa.large_string())
    asked: list[int] = []
    order = np.random.default_rng(2).permutation(40).astype(np.int32)

    def read(rows: Int64s) -> Iterator[ShingleSets]:
        asked.extend(rows.tolist())
        for first in range(0, len(rows), 7):
            yield build_shingle_sets(texts.take(pa.array(rows[first : first + 7])), 2)

    sets = build_shingle_sets(texts.take(pa.array(order)), 2)
    places = np.arange(0, 40, 2)
    with open_scratch_file(str(tmp_path)) as file:
        compared = ShingleFile(file, str(tmp_path), order, read)
        compared.load(places)
        assert asked == sorted(order[places].tolist())
        left, right = np.random.default_rng(3).choice(places, (2, 100))
        assert_equal(compared.compute_overlaps(left, right), sets.compute_overlaps(left, right))
    assert not [*tmp_path.iterdir()]
