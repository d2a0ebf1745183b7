"""Count the looks of examples of two segments with no word read, and guess their labels from these.

    segments and labels ─► cells of equal looks, counted by shard ─► sums ─► a small logistic regression ─► accuracy

A look is: the lengths of A and B in sixteenths of an example, whether A and B begin and end at a sentence, and whether
the example is full. A model that can guess the label from it need not read: if the accuracy is well over one half,
next-sentence or sentence-order loss falls and nothing is learnt.

The regression is fitted on the train split and judged on the held-out one. If that has fewer than `MIN_JUDGED_EXAMPLES`
examples, it is fitted on three quarters of the train split and judged on the other, chosen by the hash that is an
example's id.

Promise: counts add up over shards; the accuracy is a function of the counts. Cost: 0.2 microseconds an example, and one
byte a token in passing; the fit takes milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpora.kernels.arrays import Bools, Bytes, Float64s, Int64s, UInt64s

LENGTH_STEPS = 16  # of a length
MIN_JUDGED_EXAMPLES = 1_000
SUSPECT_ACCURACY = 0.55  # an accuracy that is surely above it gives labels away
SIGMAS = 3
_NUM_ITERATIONS, _RIDGE = 25, 1.0

# A cell is a number with these digits, the last one first.
_CELL_BASES = {
    "label": 2,
    "full": 2,
    "b_ends": 2,
    "b_begins": 2,
    "a_ends": 2,
    "a_begins": 2,
    "b_length": LENGTH_STEPS,
    "a_length": LENGTH_STEPS,
    "quarter": 4,
}
_NUM_CELLS = int(np.prod(list(_CELL_BASES.values())))

SURFACES = pa.schema(
    [
        pa.field("quarter", pa.uint8(), nullable=False),  # by the example's id
        pa.field("a_length", pa.uint8(), nullable=False),  # in sixteenths of an example
        pa.field("b_length", pa.uint8(), nullable=False),
        pa.field("a_begins", pa.uint8(), nullable=False),  # 1 at a sentence, 0 inside one
        pa.field("a_ends", pa.uint8(), nullable=False),
        pa.field("b_begins", pa.uint8(), nullable=False),
        pa.field("b_ends", pa.uint8(), nullable=False),
        pa.field("full", pa.uint8(), nullable=False),
        pa.field("label", pa.uint8(), nullable=False),
        pa.field("examples", pa.int64(), nullable=False),
    ]
)


class Segments(NamedTuple):
    """Position of segments A and B of n examples in the tokens of a shard's documents: int64 [n] each, in tokens."""

    a_start: Int64s
    a_length: Int64s
    b_start: Int64s
    b_length: Int64s


def count_surfaces(sentences: Int64s, segments: Segments, label: Bytes, example_id: UInt64s, *, room: int) -> Int64s:
    """Count examples by their surface features, such as segment lengths, and by label: int64 [cells].

    A cell is one combination of features and label, numbered as in `_CELL_BASES`.

    Args:
        sentences: int64 [sentences + 1], the start of each sentence in the shard's tokens.
        segments: Position of both segments of each example.
        label: uint8 [n], 0 or 1.
        example_id: uint64 [n]. The two highest bits assign each example to one of four quarters.
        room: Maximum number of tokens in both segments together.
    """
    is_bound = np.zeros(sentences[-1] + 1, bool)
    is_bound[sentences] = True
    a_start, a_length, b_start, b_length = segments
    digits: dict[str, Int64s | Bools | Bytes | UInt64s] = {
        "label": label,
        "full": a_length + b_length == room,
        "b_ends": is_bound[b_start + b_length],
        "b_begins": is_bound[b_start],
        "a_ends": is_bound[a_start + a_length],
        "a_begins": is_bound[a_start],
        "b_length": b_length * LENGTH_STEPS // (room + 1),
        "a_length": a_length * LENGTH_STEPS // (room + 1),
        "quarter": example_id >> np.uint64(62),
    }
    cells, base = np.zeros(len(label), np.int64), 1
    for name, values in _CELL_BASES.items():
        cells += digits[name].astype(np.int64) * base
        base *= values
    return np.bincount(cells, minlength=_NUM_CELLS)


def to_surface_rows(counts: Int64s) -> pa.Table:
    """Convert the counts from `count_surfaces` to a table with the schema `SURFACES`, without empty cells.

    Args:
        counts: int64 [cells], the number of examples of each combination of surface features and label.
    """
    cells = np.flatnonzero(counts)
    columns = {"examples": counts[cells]}
    left = cells
    for name, values in _CELL_BASES.items():
        left, columns[name] = np.divmod(left, values)
    return pa.table([pa.array(columns[name], SURFACES.field(name).type) for name in SURFACES.names], schema=SURFACES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfaceAccuracy:
    """How well labels of segment pairs can be guessed without the words, from surface features such as lengths.

    Attributes:
        accuracy: Share of correct guesses. It is about one half if the features carry no information and both labels
            are equally frequent.
        examples: Number of examples on which the classifier was evaluated.
        held_out: Whether these are from the held-out split. Otherwise they are a quarter of the training split.
    """

    accuracy: float
    examples: int
    held_out: bool

    @property
    def lower_bound(self) -> float:
        """Accuracy minus three standard deviations of the estimate, as a fraction of 1."""
        return self.accuracy - SIGMAS * float(np.sqrt(self.accuracy * (1 - self.accuracy) / self.examples))


def measure_surface_accuracy(splits: Mapping[str, pa.Table]) -> SurfaceAccuracy | None:
    """Measure how well a logistic regression on surface features, such as segment lengths, guesses the labels.

    The regression is fitted on the training split and evaluated on the held-out split. If the held-out split has fewer
    than `MIN_JUDGED_EXAMPLES` examples, a quarter of the training split is used for the evaluation and the rest for
    fitting.

    Args:
        splits: For "train" and "held-out", the rows from `to_surface_rows` of all shards. A missing split counts as
            empty.

    Returns:
        The accuracy, or None if there are no examples to fit or to evaluate.
    """
    train, held_out = (_to_cells(splits.get(name, SURFACES.empty_table())) for name in ("train", "held-out"))
    is_judged = train.quarter == 0
    fitted, judged = train.select(~is_judged), train.select(is_judged)
    uses_held_out = int(held_out.examples.sum()) >= MIN_JUDGED_EXAMPLES
    if uses_held_out:
        fitted, judged = train, held_out
    if not len(fitted.examples) or not len(judged.examples):
        return None
    weights = _fit_weights(fitted)
    num_right = judged.examples[(judged.features @ weights > 0) == (judged.label == 1)].sum()
    num_judged = int(judged.examples.sum())
    return SurfaceAccuracy(accuracy=float(num_right / num_judged), examples=num_judged, held_out=uses_held_out)


class _Cells(NamedTuple):
    """Counts of examples by surface features and label, in the form that the regression takes.

    Attributes:
        quarter: int64 [cells], the quarter (0 to 3) of the examples.
        features: float64 [cells, features], the features, beginning with a constant 1.
        label: int64 [cells], 0 or 1.
        examples: int64 [cells], the number of examples.
    """

    quarter: Int64s
    features: Float64s
    label: Int64s
    examples: Int64s

    def select(self, chosen: Bools) -> "_Cells":
        """Return only the cells with True in `chosen`, bool [cells]."""
        return _Cells(self.quarter[chosen], self.features[chosen], self.label[chosen], self.examples[chosen])


def _to_cells(rows: pa.Table) -> _Cells:
    """Convert rows of the schema `SURFACES` to the features, labels and counts that the regression takes."""
    columns = {name: rows.column(name).to_numpy().astype(np.int64) for name in SURFACES.names}
    a, b = ((columns[name] + 0.5) / LENGTH_STEPS for name in ("a_length", "b_length"))
    flags = [columns[name] for name in ("a_begins", "a_ends", "b_begins", "b_ends", "full")]
    features = np.stack([np.ones(len(a)), a, b, a * a, b * b, a * b, *flags], axis=1)
    return _Cells(columns["quarter"], features, columns["label"], columns["examples"])


def _fit_weights(cells: _Cells) -> Float64s:
    """Fit a logistic regression of the labels by Newton's method, and return its weights: float64 [features]."""
    weights = np.zeros(cells.features.shape[1])
    ridge = _RIDGE * np.eye(len(weights))
    for _ in range(_NUM_ITERATIONS):
        likely = 1 / (1 + np.exp(-np.clip(cells.features @ weights, -30, 30)))
        gradient = cells.features.T @ (cells.examples * (cells.label - likely)) - _RIDGE * weights
        curvature = (cells.features * (cells.examples * likely * (1 - likely))[:, None]).T @ cells.features + ridge
        weights += np.linalg.solve(curvature, gradient)
    return weights
