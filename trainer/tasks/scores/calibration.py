"""Whether a classifier is as often right as it says."""

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from trainer.tasks.scores.checks import finite, numbered, same_rows


def calibration_error(labels: npt.ArrayLike, probabilities: npt.ArrayLike, *, num_bins: int = 15) -> float:
    """The expected calibration error (Guo et al. 2017, section 2): 0 where every confidence is the share that is right.

    probabilities: [rows, classes]; the answer is the most probable class, the first of equals, the confidence its
    probability. Rows fall into bins of equal width, each with its upper bound; the error is the mean over rows of the
    distance between a bin's accuracy and its mean confidence. Empty bins count for nothing. Cost: 0.1 s a million rows.

    >>> round(calibration_error([0, 1], [[0.9, 0.1], [0.8, 0.2]]), 9)
    0.45
    """
    table = finite(probabilities, "probabilities")
    if table.ndim != 2 or not table.size or ((table < 0) | (table > 1 + 1e-6)).any():
        raise InputError("The probabilities are no table of shares, a row for each text and a column for each class.")
    if num_bins < 1:
        raise InputError(f"num_bins = {num_bins}: ask for 1 or more.")
    gold = numbered(labels, table.shape[1], "labels")
    same_rows(gold, table)
    confidence, right = table.max(1), table.argmax(1) == gold
    bins = np.clip(np.ceil(confidence * num_bins).astype(np.int64) - 1, 0, num_bins - 1)
    distance = np.bincount(bins, right - confidence, minlength=num_bins)
    return float(np.abs(distance).sum() / len(gold))
