"""Scores of classifiers: by hand, by their definitions, and added up from parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.kernels.arrays import Int64s
from trainer.tasks.scores import confusion, correlations, scores


def test_by_hand() -> None:
    """TP 3, FN 1, FP 2, TN 4: F1 of the first 6/9, of the second 8/11; Matthews (12 - 2) / sqrt(5*4*6*5)."""
    found = scores(np.array([[3, 1], [2, 4]]))
    assert found.accuracy == pytest.approx(0.7)
    assert found.macro_f1 == pytest.approx((6 / 9 + 8 / 11) / 2)
    assert found.matthews == pytest.approx(10 / 600**0.5)


def test_three_classes_by_hand() -> None:
    """Gorodkin 2004: (right * all - labels . answers) / sqrt((all^2 - labels^2) (all^2 - answers^2))."""
    found = scores(np.array([[2, 1, 0], [0, 3, 0], [1, 0, 1]]))
    assert found.accuracy == pytest.approx(6 / 8)
    assert found.matthews == pytest.approx((6 * 8 - (9 + 12 + 2)) / ((64 - 22) * (64 - 26)) ** 0.5)
    assert found.macro_f1 == pytest.approx((4 / 6 + 6 / 7 + 2 / 3) / 3)


@pytest.mark.parametrize(
    ("table", "accuracy", "macro_f1", "matthews"),
    [
        ([[5, 0], [0, 5]], 1.0, 1.0, 1.0),
        ([[0, 5], [5, 0]], 0.0, 0.0, -1.0),
        ([[5, 0], [5, 0]], 0.5, 1 / 3, 0.0),  # always the same answer
        ([[5, 0], [0, 0]], 1.0, 1.0, 0.0),  # the second class is nowhere
    ],
)
def test_bounds(table: list[list[int]], accuracy: float, macro_f1: float, matthews: float) -> None:
    found = scores(np.array(table))
    assert (found.accuracy, found.macro_f1, found.matthews) == pytest.approx((accuracy, macro_f1, matthews))


Pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


@given(Pairs)
def test_equal_to_the_definitions(pairs: list[tuple[int, int]]) -> None:
    labels, answers = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    found = scores(confusion(labels, answers, 4))
    assert found.accuracy == pytest.approx(np.mean(labels == answers))
    f1 = [_f1(labels == number, answers == number) for number in sorted({*labels.tolist(), *answers.tolist()})]
    assert found.macro_f1 == pytest.approx(sum(f1) / len(f1))
    assert found.matthews == pytest.approx(_correlation(labels, answers))


def _f1(labels: Int64s, answers: Int64s) -> float:
    both = np.sum(labels & answers)
    precision, recall = both / max(1, answers.sum()), both / max(1, labels.sum())
    return float(2 * precision * recall / (precision + recall)) if both else 0.0


def _correlation(labels: Int64s, answers: Int64s) -> float:
    """Pearson's, of the two as rows of zeros and a one."""
    one, other = (np.eye(4)[side] - np.eye(4)[side].mean(0) for side in (labels, answers))
    spread = (one * one).sum() * (other * other).sum()
    return float((one * other).sum() / spread**0.5) if spread > 1e-12 else 0.0


@given(Pairs, Pairs)
def test_parts_add_up(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    tables = [confusion(*np.array(pairs, np.int64).T, 4) for pairs in (one, other, one + other)]
    assert (tables[0] + tables[1] == tables[2]).all() and tables[2].sum() == len(one) + len(other)


def test_correlations_by_hand() -> None:
    """Ranks of 2, 2, 1, 3 are 1.5, 1.5, 0, 3; equal values share theirs. One side that never changes tells nothing."""
    found = correlations(np.array([2.0, 2.0, 1.0, 3.0]), np.array([1.0, 2.0, 3.0, 10.0]))
    assert found["pearson"] == pytest.approx(7 / 100**0.5)
    assert found["spearman"] == pytest.approx(1.5 / (4.5 * 5) ** 0.5)
    assert correlations(np.ones(3), np.arange(3.0)) == {"pearson": 0.0, "spearman": 0.0}
