"""Scores of classes: by hand, by their definitions, by scikit-learn, and added up from parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from trainer.tasks.scores.classes import (
    binary_f1,
    class_scores,
    confusion,
    multilabel_scores,
    option_scores,
    table_scores,
)


def test_by_hand() -> None:
    """TP 3, FN 1, FP 2, TN 4: F1 of the first 6/9, of the second 8/11; Matthews (12 - 2) / sqrt(5*4*6*5)."""
    found = table_scores(np.array([[3, 1], [2, 4]]))
    assert found["accuracy"] == pytest.approx(0.7)
    assert found["macro_f1"] == pytest.approx((6 / 9 + 8 / 11) / 2)
    assert found["matthews"] == pytest.approx(10 / 600**0.5)


def test_three_classes_by_hand() -> None:
    """Gorodkin 2004: (right * all - labels . answers) / sqrt((all^2 - labels^2) (all^2 - answers^2))."""
    found = table_scores(np.array([[2, 1, 0], [0, 3, 0], [1, 0, 1]]))
    assert found["accuracy"] == pytest.approx(6 / 8)
    assert found["matthews"] == pytest.approx((6 * 8 - (9 + 12 + 2)) / ((64 - 22) * (64 - 26)) ** 0.5)
    assert found["macro_f1"] == pytest.approx((4 / 6 + 6 / 7 + 2 / 3) / 3)


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
    found = table_scores(np.array(table))
    assert (found["accuracy"], found["macro_f1"], found["matthews"]) == pytest.approx((accuracy, macro_f1, matthews))


Pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


@given(Pairs)
def test_equal_to_the_definitions(pairs: list[tuple[int, int]]) -> None:
    labels, answers = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    found = table_scores(confusion(labels, answers, 4))
    assert found["accuracy"] == pytest.approx(np.mean(labels == answers))
    f1 = [_f1(labels == number, answers == number) for number in sorted({*labels.tolist(), *answers.tolist()})]
    assert found["macro_f1"] == pytest.approx(sum(f1) / len(f1))
    assert found["matthews"] == pytest.approx(_correlation(labels, answers))


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


@given(Pairs)
def test_two_classes_have_an_f1(pairs: list[tuple[int, int]]) -> None:
    """Fails where the first class is taken for the positive one, or micro F1 and accuracy part."""
    labels, answers = np.array(pairs, np.int64).T % 2
    found = class_scores(labels, answers, 2)
    assert found["f1"] == pytest.approx(_f1(labels == 1, answers == 1))
    assert binary_f1(confusion(labels, answers, 2), positive=0) == pytest.approx(_f1(labels == 0, answers == 0))
    assert found["accuracy"] == pytest.approx(np.mean(labels == answers))
    assert "f1" not in class_scores(labels, answers, 3)


Tables = st.integers(1, 12).flatmap(
    lambda rows: st.integers(1, 5).flatmap(
        lambda classes: st.tuples(
            *[st.lists(st.lists(st.booleans(), min_size=classes, max_size=classes), min_size=rows, max_size=rows)] * 2
        )
    )
)


@given(Tables)
def test_several_labels_equal_the_definitions(tables: tuple[list[list[bool]], list[list[bool]]]) -> None:
    labels, answers = (np.array(table) for table in tables)
    found = multilabel_scores(labels, answers)
    met = (labels | answers).any(0)
    each = [_f1(labels[:, number], answers[:, number]) for number in np.flatnonzero(met)]
    assert found["micro_f1"] == pytest.approx(_f1(labels.ravel(), answers.ravel()))
    assert found["macro_f1"] == pytest.approx(sum(each) / len(each) if each else 0.0)
    assert found["subset_accuracy"] == np.mean([one == other for one, other in zip(*tables, strict=True)])


@pytest.mark.filterwarnings("ignore:A single label was found:UserWarning")
@examples(15)
@given(Pairs, Tables)
def test_equal_to_scikit_learn(pairs: list[tuple[int, int]], tables: tuple[list[list[bool]], list[list[bool]]]) -> None:
    """Fails where a divisor or a degenerate case is another than there (with nan for a class that is nowhere)."""
    metrics = pytest.importorskip("sklearn.metrics")
    labels, answers = np.array(pairs, np.int64).T
    found = class_scores(labels, answers, 4)
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(labels, answers, average="macro"))
    assert found["matthews"] == pytest.approx(metrics.matthews_corrcoef(labels, answers))
    gold, marked = (np.pad(table, ((0, 0), (0, 1))) for table in tables)  # of one column it makes two classes
    several = multilabel_scores(gold, marked)
    assert several["micro_f1"] == pytest.approx(metrics.f1_score(gold, marked, average="micro", zero_division=0))
    assert several["subset_accuracy"] == pytest.approx(metrics.accuracy_score(gold, marked))
    if (gold | marked).any():
        macro = metrics.f1_score(gold, marked, average="macro", zero_division=np.nan)
        assert several["macro_f1"] == pytest.approx(macro)


def test_options_by_hand() -> None:
    """Rows of one question lie apart; TP 2, FP 1, FN 1, and of three questions one is all right."""
    found = option_scores([1, 1, 0, 1, 0], [1, 0, 1, 1, 0], ["a", "b", "c", "b", "a"])
    assert found == {"f1a": pytest.approx(4 / 6), "exact": pytest.approx(1 / 3)}


@pytest.mark.parametrize(
    ("labels", "answers", "said"),
    [
        ([0, 1, 1], [0, 1], r"3 gold rows and 2 answers.*after the first 2"),
        ([], [], "There are no rows"),
        ([0, 2], [0, 1], r"1 of 2 labels are not among the 2 classes, first number 2, which is 2"),
        ([0, 1], [0, -1], r"1 of 2 answers are not among the 2 classes, first number 2, which is -1"),
        ([0, 1], [0.0, float("nan")], "answers are not class numbers"),
    ],
)
def test_what_is_no_answer_is_refused(labels: list[int], answers: list[float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        class_scores(labels, answers, 2)


@pytest.mark.parametrize(
    ("labels", "answers", "said"),
    [
        ([[0, 1]], [[0, 1, 1]], "2 classes and the answers 3"),
        ([[0, 2]], [[0, 1]], "labels are not a table of 0 and 1"),
        ([[0, 1]], [0, 1], "answers are not a table of 0 and 1"),
        ([[0, 1]], [[0, float("nan")]], "answers are not a table of 0 and 1"),
        ([[]], [[]], "labels are an empty table"),
    ],
)
def test_what_is_no_table_of_marks_is_refused(labels: list[list[float]], answers: list[list[float]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        multilabel_scores(labels, answers)


def test_options_of_no_question_are_refused() -> None:
    with pytest.raises(InputError, match=r"1 gold keys of questions and 2 answers"):
        option_scores([1, 0], [1, 0], ["a"])
