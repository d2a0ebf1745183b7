"""Scores of numbers: by hand and by scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.tasks.scores.texts import correlations


def test_correlations_by_hand() -> None:
    """Ranks of 2, 2, 1, 3 are 1.5, 1.5, 0, 3; equal values share theirs. One side that never changes tells nothing."""
    found = correlations(np.array([2.0, 2.0, 1.0, 3.0]), np.array([1.0, 2.0, 3.0, 10.0]))
    assert found["pearson"] == pytest.approx(7 / 100**0.5)
    assert found["spearman"] == pytest.approx(1.5 / (4.5 * 5) ** 0.5)
    assert correlations(np.ones(3), np.arange(3.0)) == {"pearson": 0.0, "spearman": 0.0}


Values = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=40)


@given(Values)
def test_equal_to_scipy(pairs: list[tuple[int, int]]) -> None:
    """Fails where ties get other ranks; scipy has no correlation of a constant, here it is 0."""
    stats = pytest.importorskip("scipy.stats")
    one, other = (np.array(side, np.float64) for side in zip(*pairs, strict=True))
    found = correlations(one, other)
    if np.ptp(one) and np.ptp(other):
        assert found["pearson"] == pytest.approx(stats.pearsonr(one, other)[0], abs=1e-12)
        assert found["spearman"] == pytest.approx(stats.spearmanr(one, other)[0], abs=1e-12)
    else:
        assert found == {"pearson": 0.0, "spearman": 0.0}


@pytest.mark.parametrize("number", [0.1, 1 / 3, 1e17, -1.1])
def test_a_constant_answer_tells_nothing(number: float) -> None:
    """Fails where the mean of equal numbers is off by a bit and the noise is correlated."""
    assert correlations(np.full(7, number), np.arange(7.0)) == {"pearson": 0.0, "spearman": 0.0}
    assert correlations(np.arange(7.0), np.full(7, number)) == {"pearson": 0.0, "spearman": 0.0}
