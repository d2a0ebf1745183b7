"""A bag of words: what a linear model of words and pairs of words gets, with nothing learnt before.

    texts ─► words, pairs of neighbours ─► hashed, weighted by idf, rows at length 1 ─► ridge regression ─► answers

Least squares with a penalty (Hoerl, Kennard 1970), solved by conjugate gradients; classes are told by one output each,
which does about as well on texts as logistic regression and has nothing to tune. Two texts have features of their own
and in common, and their cosine. No torch, and no other package.

Cost: training rows are at most MOST_ROWS, at equal distances; SST-2 (6,920 rows and 1,821 to answer) takes
1.4 CPU seconds (one x86-64 core, 2026-11-27).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import xxhash

from corpora.kernels.arrays import Float64s, Int64s
from corpora.text.words import words

WIDTH = 1 << 18  # features; those that share one are rare
COSINE = WIDTH  # the feature that follows them
COSINE_WEIGHT = 3.0  # of rows at length 1
PENALTY = 1.0
ROUNDS = 30  # of conjugate gradients
MOST_ROWS = 20_000
MOST_PRODUCTS = 100_000_000  # features of all rows times outputs

Texts = Sequence[str]  # of a row: one, or two

# Shapes: N rows, C outputs, D = WIDTH + 1 features.


class Bags(NamedTuple):
    """Rows of features, one after another. starts: int64 [N + 1]; features, weights: of all rows"""

    starts: Int64s
    features: Int64s
    weights: Float64s

    def times(self, vector: Float64s) -> Float64s:
        """Return the product with a vector [D]: [N]."""
        sums = np.cumsum(np.append(0.0, self.weights * vector[self.features]))
        products: Float64s = sums[self.starts[1:]] - sums[self.starts[:-1]]
        return products

    def back(self, rows: Float64s) -> Float64s:
        """Return the product of the transpose with a vector [N]: [D]."""
        spread = np.repeat(rows, np.diff(self.starts))
        return np.asarray(np.bincount(self.features, self.weights * spread, WIDTH + 1), np.float64)


def linear_answers(training: Sequence[Texts], targets: Float64s, rows: Sequence[Texts]) -> Float64s:
    """Return the outputs for rows: float64 [N, C]. targets: of the training rows, float64 [.., C]"""
    taken = range(0, len(training), -(-len(training) // MOST_ROWS))
    features = [features_of(training[place]) for place in taken]
    idf = idf_of(features)
    learnt, asked = bags(features, idf), bags([features_of(texts) for texts in rows], idf)
    wanted = targets[taken.start : taken.stop : taken.step]
    means = wanted.mean(0)
    columns = [asked.times(ridge(learnt, wanted[:, place] - means[place])) for place in range(wanted.shape[1])]
    answers: Float64s = np.stack(columns, 1) + means
    return answers


def is_feasible(training: Sequence[Texts], outputs: int) -> bool:
    """Tells whether so many outputs are learnt in a bounded time."""
    some = training[:: max(1, len(training) // 100)]
    mean = sum(2 * len(text.split()) for texts in some for text in texts) / max(1, len(some))
    return mean * min(len(training), MOST_ROWS) * outputs <= MOST_PRODUCTS


def features_of(texts: Texts) -> dict[int, float]:
    """Return the features of a row, and how often each is there."""
    sides = [[*own, *(f"{one} {other}" for one, other in pairwise(own))] for own in map(words, texts)]
    names = [f"{place} {name}" for place, side in enumerate(sides) for name in {*side}]
    if len(sides) == 2:
        names += [f"& {name}" for name in {*sides[0]} & {*sides[1]}]
    features = dict.fromkeys((xxhash.xxh3_64_intdigest(name.encode()) % WIDTH for name in names), 1.0)
    return features | ({COSINE: cosine_of(*texts)} if len(texts) == 2 else {})


def cosine_of(one: str, other: str) -> float:
    """Return the cosine of two texts' sets of words.

    >>> round(cosine_of("a man plays", "A man sings"), 3)
    0.667
    """
    ours, theirs = {*words(one)}, {*words(other)}
    return len(ours & theirs) / (len(ours) * len(theirs)) ** 0.5 if ours and theirs else 0.0


def idf_of(rows: Sequence[dict[int, float]]) -> Float64s:
    """Return the weight of each feature: the logarithm of the share of rows that have it, turned round: float64 [D]."""
    met = np.bincount(np.fromiter((name for row in rows for name in row), np.int64), minlength=WIDTH + 1)
    return np.asarray(np.log((1 + len(rows)) / (1 + met)) + 1, np.float64)


def bags(rows: Sequence[dict[int, float]], idf: Float64s) -> Bags:
    """Return rows with their weights, each at length 1 but for the cosine."""
    starts = np.cumsum([0, *map(len, rows)])
    features = np.fromiter((name for row in rows for name in row), np.int64, starts[-1])
    given = np.fromiter((value for row in rows for value in row.values()), np.float64, starts[-1])
    weights = np.where(features == COSINE, 0.0, given * idf[features])
    owner = np.repeat(np.arange(len(rows)), np.diff(starts))
    lengths = np.sqrt(np.bincount(owner, weights * weights, len(rows)))
    weights = weights / np.maximum(lengths[owner], 1e-12)
    return Bags(starts, features, np.where(features == COSINE, COSINE_WEIGHT * given, weights))


def ridge(rows: Bags, targets: Float64s) -> Float64s:
    """Return the weights with the least squares, by conjugate gradients (Hestenes, Stiefel 1952): float64 [D]."""
    weights = np.zeros(WIDTH + 1)
    rest = rows.back(targets)
    direction, size = rest, float(rest @ rest)
    first = size
    for _ in range(ROUNDS):
        if size <= 1e-8 * first:
            break
        image = rows.back(rows.times(direction)) + PENALTY * direction
        step = size / float(direction @ image)
        weights, rest = weights + step * direction, rest - step * image
        size, before = float(rest @ rest), size
        direction = rest + size / before * direction
    return weights
