"""Scores of answers for whole texts: one label of several, several at once, options grouped by question, numbers.

`rates` has precision, recall and F1 of three counts, whatever is counted.

Of one label each, all scores come from one table: how often label i was answered with j. Tables of parts, and of
processes, add up; so the scores do not depend on how the rows were divided.
Cost: a table of a million rows takes some milliseconds, several labels at once 1 ns a cell; Spearman's correlation
sorts, 0.4 s for a million rows.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Float64s, Int64s

# Shapes: N rows, C classes, Q questions.


class Rates(NamedTuple):
    """precision: of what was answered, the share that is right; recall: of what is gold; f1: their harmonic mean."""

    precision: float
    recall: float
    f1: float


def rates(right: int, answered: int, gold: int) -> Rates:
    """0 where there is nothing to be a share of: no answer has precision 0, no gold has recall 0, neither has F1 0.

    >>> rates(2, 4, 2)
    Rates(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    return Rates(
        right / answered if answered else 0.0,
        right / gold if gold else 0.0,
        2 * right / (answered + gold) if answered + gold else 0.0,
    )


def means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each score over the rows that have it."""
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def confusion(labels: npt.ArrayLike, answers: npt.ArrayLike, num_classes: int) -> Int64s:
    """Return int64 [C, C]: the number of rows with label i and answer j. More classes than asked for if labels are.

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    gold, answered = np.asarray(labels, np.int64), np.asarray(answers, np.int64)
    num_classes = max(num_classes, int(gold.max()) + 1)
    counts: Int64s = np.bincount(gold * num_classes + answered, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


def table_scores(table: Int64s, num_classes: int = 0) -> dict[str, float]:
    """Return accuracy, macro_f1 and matthews of a confusion table of at least one row; for two classes the second's f1.

    num_classes: that answers have; labels may have more, which no answer is; 0: as the table has

    accuracy, macro_f1: in [0, 1]; macro_f1 is the mean over the classes that are a label or an answer anywhere, each
              2 TP / (2 TP + FP + FN)
    f1:       of the positive class of MRPC and QQP, the second (GLUE, Wang et al. 2018, section 2.2)
    matthews: in [-1, 1], 0 for an answer that is always the same; for any number of classes (Gorodkin 2004)
    """
    total, right = int(table.sum()), np.diag(table)
    labelled, answered = table.sum(1), table.sum(0)
    met = labelled + answered > 0
    f1 = 2 * right[met] / (labelled + answered)[met]
    covariance = float(right.sum() * total - labelled @ answered)
    spread = float(total**2 - labelled @ labelled) * float(total**2 - answered @ answered)
    scores = {
        "accuracy": float(right.sum() / total),
        "macro_f1": float(f1.mean()),
        "matthews": covariance / spread**0.5 if spread else 0.0,
    }
    if (num_classes or len(table)) != 2:
        return scores
    return {**scores, "f1": rates(int(right[1]), int(answered[1]), int(labelled[1])).f1}


def class_scores(labels: npt.ArrayLike, answers: npt.ArrayLike, num_classes: int) -> dict[str, float]:
    """The scores of `table_scores`, of a row at least.

    Micro F1 of one label each is the accuracy: every wrong answer is one false positive and one false negative.

    >>> class_scores([0, 1, 1], [0, 1, 0], 2)["f1"]
    0.6666666666666666
    """
    return table_scores(confusion(labels, answers, num_classes), num_classes)


def multilabel_scores(labels: npt.ArrayLike, answers: npt.ArrayLike) -> dict[str, float]:
    """Return micro_f1, macro_f1 and subset_accuracy of rows with any number of labels: two tables [N, C] of 0 and 1.

    micro_f1: 2 TP / (2 TP + FP + FN) over all cells; 0 where nothing is labelled and nothing answered
    macro_f1: the mean of that over the classes that are a label or an answer anywhere; 0 where none is
    subset_accuracy: the share of rows that are right in every class (scikit-learn's accuracy of such tables)

    >>> multilabel_scores([[1, 0], [1, 1]], [[1, 0], [1, 0]])
    {'micro_f1': 0.8, 'macro_f1': 0.5, 'subset_accuracy': 0.5}
    """
    gold, answered = np.asarray(labels, np.bool_), np.asarray(answers, np.bool_)
    right, met = (gold & answered).sum(0), gold.sum(0) + answered.sum(0)
    f1 = 2 * right[met > 0] / met[met > 0]
    return {
        "micro_f1": float(2 * right.sum() / met.sum()) if met.sum() else 0.0,
        "macro_f1": float(f1.mean()) if len(f1) else 0.0,
        "subset_accuracy": float((gold == answered).all(1).mean()),
    }


def option_scores(questions: npt.ArrayLike) -> dict[str, float]:
    """Score MultiRC (Khashabi et al. 2018, section 4; SuperGLUE): options, right or wrong, by question.

    f1a: the F1 of right options over all; 0 where none is right and none is answered so
    exact: the share of questions whose options are all answered right (SuperGLUE's EM)
    questions: [Q, 4], of each how many options are right and answered so, are answered so, are right; 1 where all are
              answered right

    >>> option_scores([[1, 2, 1, 0], [1, 1, 1, 1]])
    {'f1a': 0.8, 'exact': 0.5}
    """
    counts = np.asarray(questions, np.int64)
    right, answered, gold, exact = counts.sum(0).tolist()
    return {"f1a": rates(right, answered, gold).f1, "exact": exact / len(counts)}


def correlations(labels: npt.ArrayLike, answers: npt.ArrayLike) -> dict[str, float]:
    """Pearson's and Spearman's correlation, in [-1, 1]; 0 where one side is always the same.

    STS-B is judged by the two (GLUE, Wang et al. 2018, section 2.2). Spearman's is Pearson's of the ranks, where equal
    values share the mean of theirs.

    >>> correlations(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 9.0]))["spearman"]
    1.0
    """
    one, other = np.asarray(labels, np.float64), np.asarray(answers, np.float64)
    return {"pearson": _pearson(one, other), "spearman": _pearson(_ranks(one), _ranks(other))}


def _pearson(one: Float64s, other: Float64s) -> float:
    if (one == one[0]).all() or (other == other[0]).all():  # the mean of equal numbers need not be that number
        return 0.0
    one, other = one - one.mean(), other - other.mean()
    spread = float(np.sqrt((one @ one) * (other @ other)))
    return float(np.clip(one @ other / spread, -1, 1))


def _ranks(values: Float64s) -> Float64s:
    """The ranks from 0; equal values share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Float64s = (np.cumsum(counts) - (counts + 1) / 2)[places]
    return ranks
