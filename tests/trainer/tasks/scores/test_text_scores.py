"""Scores of classes and numbers: by scikit-learn and by scipy, and options by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from trainer.tasks.kinds.texts import (
    compute_class_scores,
    compute_correlations,
    compute_multilabel_scores,
    compute_option_scores,
)

Pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


Tables = st.integers(1, 12).flatmap(
    lambda rows: st.integers(1, 5).flatmap(
        lambda classes: st.tuples(
            *[st.lists(st.lists(st.booleans(), min_size=classes, max_size=classes), min_size=rows, max_size=rows)] * 2
        )
    )
)


@pytest.mark.filterwarnings("ignore:A single label was found:UserWarning")
@examples(15)
@given(Pairs, Tables)
def test_equal_to_scikit_learn(pairs: list[tuple[int, int]], tables: tuple[list[list[bool]], list[list[bool]]]) -> None:
    """Fails if a divisor or a degenerate case is another than there (with nan for a class that is nowhere)."""
    metrics = pytest.importorskip("sklearn.metrics")
    labels, answers = np.array(pairs, np.int64).T
    found = compute_class_scores(labels, answers, 4)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(labels, answers))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(labels, answers, average="macro"))
    assert found["matthews"] == pytest.approx(metrics.matthews_corrcoef(labels, answers))
    two = metrics.f1_score(labels % 2, answers % 2, zero_division=0)
    assert compute_class_scores(labels % 2, answers % 2, 2)["f1"] == pytest.approx(two)
    gold, marked = (np.pad(table, ((0, 0), (0, 1))) for table in tables)  # of one column it makes two classes
    several = compute_multilabel_scores(gold, marked)
    assert several["micro_f1"] == pytest.approx(metrics.f1_score(gold, marked, average="micro", zero_division=0))
    assert several["subset_accuracy"] == pytest.approx(metrics.accuracy_score(gold, marked))
    if (gold | marked).any():
        macro = metrics.f1_score(gold, marked, average="macro", zero_division=np.nan)
        assert several["macro_f1"] == pytest.approx(macro)


def test_options_by_hand() -> None:
    """TP 2, FP 1, FN 1, and of three questions one is all right."""
    found = compute_option_scores([[1, 1, 1, 1], [1, 1, 2, 0], [0, 1, 0, 0]])
    assert found == {"f1a": pytest.approx(4 / 6), "exact": pytest.approx(1 / 3)}


Values = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=40)


@given(Values)
def test_equal_to_scipy(pairs: list[tuple[int, int]]) -> None:
    """Fails if ties get other ranks; scipy has no correlation of a constant, here it is 0."""
    stats = pytest.importorskip("scipy.stats")
    one, other = (np.array(side, np.float64) for side in zip(*pairs, strict=True))
    found = compute_correlations(one, other)
    if np.ptp(one) and np.ptp(other):
        assert found["pearson"] == pytest.approx(stats.pearsonr(one, other)[0], abs=1e-12)
        assert found["spearman"] == pytest.approx(stats.spearmanr(one, other)[0], abs=1e-12)
    else:
        assert found == {"pearson": 0.0, "spearman": 0.0}


@pytest.mark.parametrize("number", [0.1, 1 / 3, 1e17, -1.1])
def test_a_constant_answer_tells_nothing(number: float) -> None:
    """Fails if the mean of equal numbers is off by a bit and the noise is correlated."""
    assert compute_correlations(np.full(7, number), np.arange(7.0)) == {"pearson": 0.0, "spearman": 0.0}
    assert compute_correlations(np.arange(7.0), np.full(7, number)) == {"pearson": 0.0, "spearman": 0.0}
