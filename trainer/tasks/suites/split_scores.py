"""The scores of a split's predictions, and numbers for each example from which the scores can be recomputed.

A score is a function of rows, with one row per example: for classes, numbers and similarities, the correct and the
predicted value; for tagged sentences, counts; for texts of a language model, the loss of their tokens; for choices and
answers in a text, the example's own score if the total score is the mean of these; for rankings, a row per query. So
intervals and tests between two models need neither the models nor the texts. Other tasks, and vectors truncated to a
smaller width, have no rows, and the table says so.

This module also computes the uncertainty of a score: intervals for one system, and tests between two. Random numbers
are functions of their purpose (`corpora/store/randomness.py`), so the same rows and seed give the same interval
anywhere. A row is one number per example, such as 1 for correct and 0 for wrong, or several, such as the counts of
spans in a sentence. A statistic computes a score from rows, by default their mean. Examples that must be drawn together
(the options of a question, the sentences of a document) are one row. Cost: with the mean, 1,000 rounds of an interval
over 10,000 rows take 0.3 s, and 10,000 rounds of a test 0.4 s. Other statistics are called once or twice per round.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Bools, Float64s, Int64s
from corpora.store.places.files import replace_file
from corpora.store.randomness import compute_keys, draw, draw_below
from corpora.store.settings import bind_settings
from trainer.tasks.kinds.answers import SpanTask
from trainer.tasks.kinds.choices import ChoiceTask
from trainer.tasks.kinds.next_word import NextTask, compute_next_scores
from trainer.tasks.kinds.tags import TagsTask, count_spans
from trainer.tasks.kinds.texts import (
    ClassesTask,
    NumberTask,
    compute_class_scores,
    compute_correlations,
    compute_multilabel_scores,
    compute_option_scores,
    compute_rates,
)
from trainer.tasks.kinds.vectors import RetrievalTask, SimilarityTask, compute_similarities, score_own_rankings
from trainer.tasks.task import Example, Prediction, Task

CLASSES, LABELS, NUMBERS, MEANS, SPANS, TOKENS = "classes", "labels", "numbers", "means", "spans", "tokens"
OPTIONS, COSTS = "options", "costs"
METRICS_BY_STATISTIC = {
    OPTIONS: ("f1a", "exact"),
    NUMBERS: ("pearson", "spearman"),
    SPANS: ("precision", "recall", "f1"),
    TOKENS: ("token_accuracy",),
}  # of all their scores
VERSION = 2  # raised whenever answers are written or scored otherwise; 1 had no gold answers in their lines
MAX_MEAN_ERROR = 1e-9  # that a mean may differ from the score by its rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSplit:
    """The scores of the predictions for a split (a file such as dev), with the rows from which they can be recomputed.

    sha256:    digest of the file with the examples
    examples:  the number of examples with a prediction
    unusable:  the number of records that could not be used
    scores:    the scores by metric; {} if there are no labels
    majority, words: the scores of the baselines (the same prediction for everything, a bag of words); {} if unknown
    p_majority, p_words: p-values of the difference from each baseline in the first metric; None if it cannot be tested
    statistic: how scores are computed from rows, such as "means"; "" if there are no rows
    columns:   for "means", the metric of each column of the rows
    classes:   for "classes" and "labels", the number of classes
    rows:      the numbers of each example, or of each group of examples if `is_grouped`
    version:   the version of the format of the predictions and of the way they are scored
    """

    sha256: str
    examples: int
    unusable: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)
    majority: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, float] = field(default_factory=dict)
    p_majority: float | None = None
    p_words: float | None = None
    statistic: str = ""
    columns: tuple[str, ...] = ()
    classes: int = 0
    rows: tuple[tuple[float, ...], ...] = ()
    is_grouped: bool = False
    version: int = VERSION

    def can_draw(self, metric: str) -> bool:
        """Return True if a metric can be recomputed from rows, which is required for intervals and tests."""
        columns = (
            self.columns if self.statistic == MEANS else METRICS_BY_STATISTIC.get(self.statistic, tuple(self.scores))
        )
        return bool(self.statistic) and metric in columns

    def to_array(self) -> Float64s:
        """Convert the rows of all examples to an array: float64 [N, K]."""
        return np.array(self.rows, np.float64)

    def score(self, rows: Float64s, metric: str) -> float:
        """Compute a metric from rows, float64 [N, K], which may be all rows of this split or a sample of them.

        Raises KeyError if it cannot be computed from rows (if `can_draw` returns False).
        """
        return float(self._compute_scores(rows)[metric])

    def find_mean_parts(self, metric: str) -> Float64s | None:
        """Return one number per row if a metric is the mean of these numbers: float64 [N].

        Otherwise, return None.
        """
        if self.statistic == CLASSES and metric == "accuracy":
            gold_N, answers_N = self.to_array().T
            return np.asarray(gold_N == answers_N, np.float64)
        in_columns = self.statistic == MEANS and metric in self.columns
        return self.to_array()[:, self.columns.index(metric)] if in_columns else None

    def _compute_scores(self, rows: Float64s) -> Mapping[str, float]:
        if self.statistic == MEANS:
            return dict(zip(self.columns, rows.mean(0).tolist(), strict=True))
        if self.statistic == NUMBERS:
            return compute_correlations(rows[:, 0], rows[:, 1])
        if self.statistic == COSTS:
            return compute_next_scores(rows)
        if self.statistic == LABELS:
            return compute_multilabel_scores(rows[:, : self.classes], rows[:, self.classes :])
        if self.statistic == CLASSES:
            return compute_class_scores(rows[:, 0], rows[:, 1], self.classes)
        if self.statistic == OPTIONS:
            return compute_option_scores(rows)
        sums = rows.sum(0).astype(np.int64).tolist()
        if self.statistic == SPANS:
            return compute_rates(*sums)._asdict()
        return {"token_accuracy": sums[0] / sums[1] if sums[1] else 0.0}


def score_predictions(task: Task, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Compute the scores of predictions for labeled examples, and the rows from which they can be recomputed.

    Returns:
        A dictionary with fields of `JudgedSplit`: `scores` and, if they apply, `statistic`, `columns`, `classes`,
        `rows` and `is_grouped`.
    """
    scores = task.compute_scores(examples, predictions)
    return {"scores": scores, **_build_rows(task, examples, predictions, scores)}


def _build_rows(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], scores: Mapping[str, float]
) -> dict[str, Any]:
    """Build the fields of `JudgedSplit` that hold the rows, by name; {} if scores cannot be computed from rows.

    `scores` are the task's scores for all examples.
    """
    if isinstance(task, NumberTask):
        gold = [example.label for example in examples]
        return {"statistic": NUMBERS, "rows": _zip_values(gold, [float(answer[0]) for answer in predictions])}
    if isinstance(task, ClassesTask):
        return _build_class_rows(task, examples, predictions)
    if isinstance(task, TagsTask):
        return _build_tag_rows(task, examples, predictions)
    if isinstance(task, (SimilarityTask, RetrievalTask)):
        return _build_vector_rows(task, examples, predictions)
    if isinstance(task, NextTask):
        costs = [
            (*map(float, answer), float(len(text.encode()))) for text, answer in zip(examples, predictions, strict=True)
        ]
        return {"statistic": COSTS, "rows": tuple(costs)}
    has_means = isinstance(task, (ChoiceTask, SpanTask))
    return _build_mean_rows(task, examples, predictions, scores) if has_means else {}


def _build_vector_rows(
    task: SimilarityTask | RetrievalTask, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> dict[str, Any]:
    """Build the row fields of a vector task, for the metrics of the task.

    Rows are measures per query, pairs of score and cosine, or pairs of classes.
    """
    if isinstance(task, SimilarityTask) and task.loss == "softmax":
        gold, answers = task.to_class_indices(examples, predictions)
        return {"statistic": CLASSES, "classes": len(task.labels), "rows": _zip_values(gold.tolist(), answers.tolist())}
    if task.metrics[0] in METRICS_BY_STATISTIC[NUMBERS]:
        ones, others = (np.stack([rows[place] for rows in predictions]) for place in (0, 1))
        cosines = compute_similarities(ones, others, task.resolved_similarity).tolist()
        return {"statistic": NUMBERS, "rows": _zip_values([example.label for example in examples], cosines)}
    columns = tuple(name for name in task.metrics if name not in METRICS_BY_STATISTIC[NUMBERS])
    each = score_own_rankings(examples, predictions, task.resolved_similarity, columns)
    rows = tuple(tuple(scores[name] for name in columns) for scores in each)
    return {"statistic": MEANS, "columns": columns, "rows": rows, "is_grouped": True}


def _zip_values(gold: Sequence[float], answered: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    return tuple(zip(gold, answered, strict=True))


def _build_class_rows(
    task: ClassesTask, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> dict[str, Any]:
    gold, answers = task.to_class_indices(examples, predictions)
    if task.multi_label:
        rows = np.concatenate([gold, answers], axis=1).astype(np.float64)
        return {"statistic": LABELS, "classes": gold.shape[1], "rows": tuple(map(tuple, rows.tolist()))}
    return {"statistic": CLASSES, "classes": len(task.labels), "rows": _zip_values(gold.tolist(), answers.tolist())}


def _build_tag_rows(task: TagsTask, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Build the row fields of a tagging task, with counts for each sentence.

    The counts are its correct, predicted and gold spans, or its correct tags and all tags.
    """
    gold = [list(task.convert_tags(example)) for example in examples]
    if task.units == "spans":
        return {"statistic": SPANS, "rows": tuple(map(tuple, count_spans(gold, predictions).astype(float).tolist()))}
    right = [
        float(sum(tag == other for tag, other in zip(tags, answered, strict=True)))
        for tags, answered in zip(gold, predictions, strict=True)
    ]
    return {"statistic": TOKENS, "rows": _zip_values(right, [float(len(tags)) for tags in gold])}


def _build_mean_rows(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], scores: Mapping[str, float]
) -> dict[str, Any]:
    """Build the row fields of a task with a separate score for each example.

    A row has the scores of one example. Metrics that are not the mean of these scores are omitted.
    """
    own = [
        task.compute_scores([example], [prediction]) for example, prediction in zip(examples, predictions, strict=True)
    ]
    everywhere = [name for name in scores if all(name in each for each in own)]
    columns = [
        name
        for name in everywhere
        if abs(float(np.mean([each[name] for each in own])) - scores[name]) <= MAX_MEAN_ERROR
    ]
    rows = tuple(tuple(each[name] for name in columns) for each in own) if columns else ()
    return {"statistic": MEANS if columns else "", "columns": tuple(columns), "rows": rows}


def write_judged(path: Path, judged: JudgedSplit) -> None:
    """Write the scores of one split to a JSON file, which appears only when complete."""
    with replace_file(path, is_only_writer=True) as new:
        new.write_text(json.dumps(asdict(judged)) + "\n", encoding="utf-8")


def read_judged(path: Path) -> JudgedSplit | None:
    """Read the scores of a split from a file written by `write_judged`, or return None if it does not exist.

    Raises:
        InputError: If the file is damaged, or the number of rows differs from the number of examples.
    """
    if not path.is_file():
        return None
    try:
        judged = bind_settings(JudgedSplit, {"version": 1, **json.loads(path.read_text(encoding="utf-8"))}, path.name)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is not as it was written ({error}): remove it, and it is made again.") from error
    if judged.rows and not judged.is_grouped and len(judged.rows) != judged.examples:
        raise InputError(
            f"{path} has {len(judged.rows):,} answers to {judged.examples:,} examples: remove it, and it is made again."
        )
    return judged


Statistic = Callable[[Float64s], float]

DRAWS_AT_ONCE = 1 << 21  # numbers that are drawn at once

# Shapes: N rows, R rounds.


def compute_mean(rows: Float64s) -> float:
    """Compute the mean of all numbers of an array, the default statistic."""
    return float(rows.mean())


class Interval(NamedTuple):
    """A score with the lower and upper bound of its confidence interval."""

    low: float
    score: float
    high: float


class Comparison(NamedTuple):
    """The score of the first system minus that of the second, with the two-sided p-value of the difference."""

    difference: float
    p: float


def bootstrap_interval(
    rows: npt.ArrayLike, statistic: Statistic = compute_mean, *, seed: int, rounds: int = 1000, level: float = 0.95
) -> Interval:
    """Compute the bootstrap percentile interval of a score (Efron, Tibshirani 1993, chapter 13).

    If there is only one row, or if all rows are equal, the interval has zero width; it then says nothing about the
    uncertainty of the score.

    Args:
        rows: [N] or [N, K], one row for each example. Must not be empty.
        statistic: Function that computes the score from rows; the mean by default.
        seed: The random seed.
        rounds: The number of resamples. Each draws N rows with replacement.
        level: The confidence level: the share of resampled scores inside the interval.

    >>> bootstrap_interval([1, 0, 1, 1, 0, 1, 1, 1, 1, 1], seed=1).score
    0.8
    """
    values = np.asarray(rows, np.float64)
    drawn = [statistic(values[index]) for index in _iter_draws(len(values), rounds, seed)]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(statistic(values)), float(high))


def run_paired_randomization(
    first: npt.ArrayLike, second: npt.ArrayLike, statistic: Statistic = compute_mean, *, seed: int, rounds: int = 10_000
) -> Comparison:
    """Test whether two systems differ on the same examples, by approximate randomization (Noreen 1989; Yeh 2000).

    Each round swaps the two systems on about half of the rows. The p-value is (1 + the number of rounds with a
    difference at least as large as the observed one) / (1 + rounds). It is never 0, and it is 1 if the scores are
    equal.

    Args:
        first: [N] or [N, K], the rows of the first system, one for each example.
        second: The rows of the second system, for the same examples in the same order.
        statistic: Function that computes the score from rows; the mean by default.
        seed: The random seed.
        rounds: The number of rounds.

    >>> run_paired_randomization([1, 1, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0], seed=1).p < 0.1
    True
    """
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    difference = float(statistic(one) - statistic(other))
    reached = abs(difference) * (1 - 1e-12)  # sums of the same numbers in another order are not the same to the bit
    apart_N, as_large = (one - other).reshape(len(one), -1).mean(1), 0
    for coins_RN in _iter_coins(len(one), rounds, seed):
        if statistic is compute_mean:
            differences = np.where(coins_RN, -apart_N, apart_N).mean(1)
        else:
            swaps = coins_RN.reshape(*coins_RN.shape, *[1] * (one.ndim - 1))
            swapped = ((np.where(swap, other, one), np.where(swap, one, other)) for swap in swaps)
            differences = np.array([statistic(ours) - statistic(theirs) for ours, theirs in swapped])
        as_large += int(np.count_nonzero(np.abs(differences) >= reached))
    return Comparison(difference, (1 + as_large) / (1 + rounds))


def _iter_draws(num_rows: int, rounds: int, seed: int) -> Iterator[Int64s]:
    """Yield the row indices of each bootstrap sample, drawn with replacement: int64 [num_rows]."""
    at_once = max(1, DRAWS_AT_ONCE // num_rows)
    for first in range(0, rounds, at_once):
        keys_R = compute_keys(seed, "bootstrap", 0, np.arange(first, min(first + at_once, rounds)))
        yield from draw_below(keys_R[:, None], np.arange(num_rows), num_rows).astype(np.int64)


def _iter_coins(num_rows: int, rounds: int, seed: int) -> Iterator[Bools]:
    """Yield random coin flips for several rounds at a time: bool [R, num_rows], `rounds` rows in total.

    Each random number gives 64 of them.
    """
    words = -(-num_rows // 64)
    at_once = max(1, DRAWS_AT_ONCE // num_rows)
    for first in range(0, rounds, at_once):
        keys_R = compute_keys(seed, "randomisation", 0, np.arange(first, min(first + at_once, rounds)))
        drawn = draw(keys_R[:, None], np.arange(words)).astype("<u8")
        yield np.unpackbits(drawn.view(np.uint8), axis=1, count=num_rows).view(np.bool_)
