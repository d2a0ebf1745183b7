"""Intervals and tests: by hand, by scipy, and how often they are right on data that are made for it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from corpora.kernels.arrays import Float64s
from trainer.tasks.suites.split_scores import bootstrap_interval, run_paired_randomization


def test_the_interval_is_scipys() -> None:
    """Fails if rows are drawn without replacement, or too few, or quantiles are others: widths are then far off."""
    stats = pytest.importorskip("scipy.stats")
    rows = np.random.default_rng(3).exponential(size=200)
    theirs = stats.bootstrap((rows,), np.mean, method="percentile", n_resamples=4000, rng=np.random.default_rng(1))
    found = bootstrap_interval(rows, seed=7, rounds=4000)
    assert found.score == rows.mean()
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.02 * np.std(rows))


def test_a_statistic_of_counts() -> None:
    """F1 of all spans is not the mean over sentences: rows are counts, and their sum is scored."""
    counts = np.array([[3, 3, 4], [0, 2, 0], [5, 5, 5], [1, 2, 3]] * 5)

    def f1(rows: Float64s) -> float:
        right, answered, gold = rows.sum(0)
        return float(2 * right / (answered + gold))

    found = bootstrap_interval(counts, f1, seed=1, rounds=200)
    assert found.low < found.score < found.high and found.score == pytest.approx(2 * 9 / (12 + 12))
    mirrored = run_paired_randomization(counts, counts[:, [0, 2, 1]], f1, seed=1, rounds=50)
    assert mirrored.p == 1 and mirrored.difference == 0


def test_the_seed_alone_decides() -> None:
    rows = np.arange(50) % 7
    assert bootstrap_interval(rows, seed=1) == bootstrap_interval(rows, seed=1) != bootstrap_interval(rows, seed=2)
    one, other = rows, rows[::-1]
    assert run_paired_randomization(one, other, seed=1, rounds=99) == run_paired_randomization(
        one, other, seed=1, rounds=99
    )


def test_means_are_tested_at_once_as_they_are_one_by_one() -> None:
    """Fails if the rounds that are worked out together swap other rows than the plain ones, or miss a tie."""
    for rows in (3, 64, 65, 200):
        one, other = np.random.default_rng(rows).integers(0, 2, (2, rows))
        plain = run_paired_randomization(one, other, lambda drawn: float(drawn.mean()), seed=rows, rounds=500)
        assert run_paired_randomization(one, other, seed=rows, rounds=500) == plain


@examples(15)
@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=2, max_size=9))
def test_the_randomisation_test_is_scipys(pairs: list[tuple[int, int]]) -> None:
    """Scipy's tries all swaps of so few rows, or draws them; five standard errors of 2,000 rounds are allowed."""
    stats = pytest.importorskip("scipy.stats")
    one, other = np.array(pairs, np.float64).T

    def difference(first: Any, second: Any, axis: int) -> Any:
        return np.mean(first, axis=axis) - np.mean(second, axis=axis)

    exact = stats.permutation_test((one, other), difference, permutation_type="samples", vectorized=True).pvalue
    found = run_paired_randomization(one, other, seed=3, rounds=2000)
    assert found.difference == pytest.approx(one.mean() - other.mean())
    assert found.p == pytest.approx(exact, abs=5 * (exact * (1 - exact) / 2000) ** 0.5 + 2 / 2000)
