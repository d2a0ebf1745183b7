"""Compares two models on a suite: tests whether they differ by more than chance, over examples and over seeds.

Over examples, the median runs of both models are compared with the approximate randomization test
(`run_paired_randomization`), which counts how often swapping their predictions gives a difference that is as large.
This says nothing about other seeds. Over seeds, the same test compares the scores of all runs, paired by seed. With few
seeds it cannot find a difference. If several tasks are compared, some differ by chance, so p-values are adjusted for
the number of tests by Holm's method (1979).
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from corpora.errors import InputError
from trainer.tasks.suites.split_scores import Comparison, JudgedSplit, run_paired_randomization
from trainer.tasks.suites.suite import Suite, SuiteSplit, SuiteTask
from trainer.tasks.suites.table import SEED, JudgedSplits, align_columns, find_median_run, format_score

LEVEL = 0.05  # below which two models count as different
MIN_PAIRED_SEEDS = 2  # the fewest that are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTask:
    """The comparison of two models on one split (a file such as dev) of a task, by its first metric.

    first, second:   the scores of the two models' median runs (those with the median score over all seeds)
    p:               p-value over examples; None if the metric cannot be computed from rows
    adjusted:        the p-value adjusted for the number of tests by Holm's method
    over_seeds:      comparison of the means over seeds; None if there is only one seed
    """

    task: str
    split: str
    metric: str
    first: float
    second: float
    p: float | None
    adjusted: float | None
    over_seeds: Comparison | None

    @property
    def difference(self) -> float:
        """The score of the first model minus that of the second."""
        return self.first - self.second

    @property
    def is_significant(self) -> bool:
        """True if the p-value, adjusted for the number of tests, is below LEVEL."""
        return self.adjusted is not None and self.adjusted < LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteComparison:
    """The comparison of two models on a suite. `first` and `second` are the names of the models.

    seeds:      the number of seeds with which each task was fine-tuned
    is_control: True if the second model is the first one with random initial weights
    """

    first: str
    second: str
    seeds: int
    tasks: tuple[ComparedTask, ...]
    is_control: bool = False

    def to_json(self) -> dict[str, Any]:
        """Convert the comparison of two models to a dictionary that can be written as JSON.

        The keys are the attributes and `level`. The tasks are dictionaries too, and also have their `difference`.
        """
        tasks = [
            {**asdict(each), "difference": each.difference, "over_seeds": each.over_seeds and each.over_seeds._asdict()}
            for each in self.tasks
        ]
        return {**asdict(self), "level": LEVEL, "tasks": tasks}


def compare_models(
    suite: Suite, names: tuple[str, str], first: JudgedSplits, second: JudgedSplits, is_control: bool = False
) -> SuiteComparison:
    """Compare two models on all labeled splits that are included in the mean over tasks.

    Args:
        suite: The suite.
        names: The names of the two models in the table.
        first: The scores of the first model, by (task, seed, split).
        second: The scores of the second model, by (task, seed, split).
        is_control: True if the second model is the first one with random initial weights.

    Raises:
        InputError: If the two models have predictions for different numbers of examples.
    """
    comparisons = [
        _compare_split(task, split, suite.seeds, first, second)
        for task in suite.tasks
        for split in task.splits
        if split.averaged and split.labelled
    ]
    adjusted = iter(adjust_p_values([each.p for each in comparisons if each.p is not None]))
    tasks = tuple(each if each.p is None else replace(each, adjusted=next(adjusted)) for each in comparisons)
    return SuiteComparison(first=names[0], second=names[1], seeds=len(suite.seeds), tasks=tasks, is_control=is_control)


def _compare_split(
    task: SuiteTask, split: SuiteSplit, seeds: Sequence[int], first: JudgedSplits, second: JudgedSplits
) -> ComparedTask:
    metric = split.metrics[0]
    one, other = (results[task.name, find_median_run(task, seeds, results), split.name] for results in (first, second))
    check_same_examples(f"{task.name} {split.name}", one, other)
    ours, theirs = ([results[task.name, n, split.name].scores[metric] for n in seeds] for results in (first, second))
    return ComparedTask(
        task=task.name,
        split=split.name,
        metric=metric,
        first=one.scores[metric],
        second=other.scores[metric],
        p=compute_p_value(one, other, metric),
        adjusted=None,
        over_seeds=run_paired_randomization(ours, theirs, seed=SEED) if len(seeds) >= MIN_PAIRED_SEEDS else None,
    )


def compute_p_value(one: JudgedSplit, other: JudgedSplit, metric: str) -> float | None:
    """Test whether two models differ in a metric on the same examples, and return the two-sided p-value.

    Args:
        one: The scores of the first model.
        other: The scores of the second model.
        metric: The name of the metric.

    Returns:
        The p-value, or None if the metric cannot be computed from rows.
    """
    if not (one.can_draw(metric) and other.can_draw(metric)):
        return None
    ours, theirs = one.find_mean_parts(metric), other.find_mean_parts(metric)
    if ours is not None and theirs is not None:
        return run_paired_randomization(ours, theirs, seed=SEED).p
    return run_paired_randomization(one.to_array(), other.to_array(), partial(one.score, metric=metric), seed=SEED).p


def check_same_examples(what: str, one: JudgedSplit, other: JudgedSplit) -> None:
    """Raise InputError if two models have predictions for different numbers of examples of a split.

    Args:
        what: The task and the split, for the error message.
        one: The scores of the first model.
        other: The scores of the second model.
    """
    if one.examples != other.examples or len(one.rows) != len(other.rows):
        raise InputError(
            f"{what}: one model answered {one.examples:,} examples and the other {other.examples:,} of the same file: "
            "they can be compared on the same examples alone. Fix the records that one of them could not use."
        )


def adjust_p_values(values: Sequence[float]) -> list[float]:
    """Adjust p-values for the number of tests (Holm 1979). The order of the values is kept.

    >>> adjust_p_values([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(values)), key=lambda place: values[place])
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = highest
    return adjusted


# As text.

HEAD = ("task", "split", "metric", "this", "other", "difference", "p", "p of Holm", "over seeds", "p over seeds")


def format_cells(each: ComparedTask) -> list[str]:
    """Format the comparison of two models on a task as the cells of a table row, in the order of HEAD."""
    seeds = each.over_seeds
    return [
        each.task,
        each.split,
        each.metric,
        format_score(each.first),
        format_score(each.second),
        f"{100 * each.difference:+.1f}",
        _format_p(each.p),
        _format_p(each.adjusted),
        f"{100 * seeds.difference:+.1f}" if seeds else "-",
        _format_p(seeds.p if seeds else None),
    ]


def iter_comparison_lines(comparison: SuiteComparison) -> Iterator[str]:
    """Yield the lines of a comparison of two models for a terminal: the table, then the conclusions as sentences."""
    yield f"{comparison.first} (this) and {comparison.second} (other), on the same examples"
    yield ""
    yield from align_columns([HEAD, *map(format_cells, comparison.tasks)])
    yield ""
    yield from iter_conclusions(comparison)


def iter_conclusions(comparison: SuiteComparison) -> Iterator[str]:
    """Yield the conclusions of a comparison as sentences, including what the p-values do not show."""
    number = sum(each.p is not None for each in comparison.tasks)
    comparisons = f"{number} comparison{'s' * (number != 1)}"
    if comparison.is_control:
        yield format_worth(comparison)
    for each in comparison.tasks:
        if each.is_significant:
            better = comparison.first if each.difference > 0 else comparison.second
            yield (
                f"{each.task} {each.split}: {better} is better by {100 * abs(each.difference):.1f} (p "
                f"{_format_p(each.adjusted)} after Holm's correction for {comparisons})."
            )
    alike = [f"{each.task} {each.split}" for each in comparison.tasks if each.p is not None and not each.is_significant]
    if alike:
        yield (
            f"Not distinguished at {LEVEL:g}: {', '.join(alike)}. Chance alone makes such differences often enough; "
            "that does not mean that the two are equal."
        )
    if left := [f"{each.task} {each.split}" for each in comparison.tasks if each.p is None]:
        yield f"Not tested on examples, because their metric cannot be computed from rows: {', '.join(left)}."
    yield (
        "p is for the median runs' examples: how often swapping the answers of the two gives a difference as large. "
        "It does not show what another seed would do."
    )
    if comparison.seeds >= MIN_PAIRED_SEEDS:
        yield (
            f"p over seeds is of the means over {comparison.seeds} seeds, paired by seed; so few seeds can "
            f"never show one below about {2 / 2**comparison.seeds:.2g}."
        )


def format_worth(comparison: SuiteComparison) -> str:
    """Return a sentence that says whether pre-training improved the scores.

    It contains the numbers of tasks on which the pre-trained model is significantly better or worse than the control,
    which starts from random weights.
    """
    apart = [each for each in comparison.tasks if each.is_significant]
    better = sum(each.difference > 0 for each in apart)
    worse, of = len(apart) - better, f"{len(comparison.tasks)} compared"
    mean = 100 * sum(each.difference for each in comparison.tasks) / max(1, len(comparison.tasks))
    counts = (
        f"better than from first weights on {better} of {of}, worse on {worse} (p below {LEVEL:g}), by {mean:+.1f} on "
        "average"
    )
    if better > worse:
        return f"Pre-training was worth it: {counts}."
    return f"Pre-training was {'harmful' if worse > better else 'not shown to be worth it'}: {counts}."


def _format_p(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}" if value >= 0.0001 else "0.0001"
