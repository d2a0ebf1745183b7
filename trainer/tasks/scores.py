"""Scores of a classifier, all from one table: how often label i was answered with j; and correlations of numbers.

Tables of parts, and of processes, add up; so the scores do not depend on how the rows were divided.
"""

from dataclasses import dataclass

import numpy as np

from corpora.kernels.arrays import Float64s, Int64s

# Shapes: N rows, C classes.


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """accuracy and macro_f1 are in [0, 1], matthews in [-1, 1]: 0 for an answer that is always the same."""

    accuracy: float
    macro_f1: float
    matthews: float


def confusion(labels: Int64s, answers: Int64s, num_classes: int) -> Int64s:
    """int64 [C, C]: rows with label i and answer j.

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    counts: Int64s = np.bincount(labels * num_classes + answers, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


def scores(table: Int64s) -> Scores:
    """From a confusion table of at least one row.

    macro_f1: the mean over the classes that are a label or an answer anywhere, each 2 TP / (2 TP + FP + FN)
    matthews: for any number of classes (Gorodkin 2004); for two it is Matthews' own
    """
    total, right = int(table.sum()), np.diag(table)
    assert total, "scores of no rows"
    labelled, answered = table.sum(1), table.sum(0)
    met = labelled + answered > 0
    f1 = 2 * right[met] / (labelled + answered)[met]
    covariance = float(right.sum() * total - labelled @ answered)
    spread = float(total**2 - labelled @ labelled) * float(total**2 - answered @ answered)
    return Scores(
        accuracy=float(right.sum() / total),
        macro_f1=float(f1.mean()),
        matthews=covariance / spread**0.5 if spread else 0.0,
    )


def correlations(labels: Float64s, answers: Float64s) -> dict[str, float]:
    """Pearson's and Spearman's correlation, in [-1, 1]; 0 where one side is always the same.

    >>> correlations(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 9.0]))["spearman"]
    1.0
    """
    return {"pearson": _pearson(labels, answers), "spearman": _pearson(_ranks(labels), _ranks(answers))}


def _pearson(one: Float64s, other: Float64s) -> float:
    one, other = one - one.mean(), other - other.mean()
    spread = float(np.sqrt((one @ one) * (other @ other)))
    return float(np.clip(one @ other / spread, -1, 1)) if spread else 0.0


def _ranks(values: Float64s) -> Float64s:
    """The ranks from 0; equal values share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Float64s = (np.cumsum(counts) - (counts + 1) / 2)[places]
    return ranks
