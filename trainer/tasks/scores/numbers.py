"""Scores of answers that are numbers: correlations. Cost: Spearman sorts, 0.4 s for a million rows."""

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Float64s


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
