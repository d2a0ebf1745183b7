"""The result table of a suite: for every split and metric, the median over seeds, its interval and the baselines.

The median run of a task is the run with the median score on dev over all seeds, by the first metric. If there are two
middle runs, it is the one with the lower score. Intervals and tests use its examples. The mean over tasks is defined as
in GLUE and SuperGLUE (Wang et al. 2018, section 4): the metrics of each task are averaged first, over the sets that
count as one task (MNLI matched and mismatched), and then over all tasks.

Cost: an interval takes 1,000 draws, and a test between two models 10,000. For 10,000 examples with one class each, that
takes 1 s and, for accuracy, 0.4 s.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from trainer.tasks.suites.baselines import describe_weakness
from trainer.tasks.suites.split_scores import JudgedSplit, bootstrap_interval
from trainer.tasks.suites.suite import Suite, SuiteTask

LEVEL = 0.95  # of intervals
SEED = 1  # of what is drawn
HUNDREDFOLD_NOTE = "Scores are in percent, as the benchmarks print them."
BEST_EPOCH_NOTE = (
    "If a run keeps its best epoch (the setting keep), that was chosen on its dev examples, so its scores on dev are a "
    "little too high."
)

JudgedSplits = Mapping[tuple[str, int, str], JudgedSplit]  # by task, seed and split


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRow:
    """The results for one metric of one split (a file such as dev) of a task.

    scores:   the score of each seed, in the order of the suite's seeds
    run:      the seed of the task's median run
    interval: confidence interval of the median run's score over examples; None if it cannot be computed from rows
    majority, words: scores of the majority and bag-of-words baselines; None if they are unknown
    p, p_words: p-values of the difference from the majority and the bag-of-words baseline in the first metric; None if
              it was not tested
    averaged: True if the split is included in the mean over tasks
    """

    task: str
    split: str
    metric: str
    scores: tuple[float, ...]
    run: int
    interval: tuple[float, float] | None
    majority: float | None
    examples: int
    averaged: bool
    words: float | None = None
    p: float | None = None
    p_words: float | None = None

    @property
    def verdict(self) -> str:
        """A clause that says how the model fails to beat a baseline; "" if it is better or no baseline is known."""
        return describe_weakness(self.metric, self.median, self.majority, self.words, self.p, format_score)

    @property
    def median(self) -> float:
        """The median score over seeds."""
        return statistics.median(self.scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """The scores of a model on a suite. `average` is the mean over tasks, or None if the suite does not request one."""

    suite: str
    model: str
    seeds: tuple[int, ...]
    rows: tuple[SuiteRow, ...]
    average: float | None

    def to_json(self) -> dict[str, Any]:
        """Convert the scores of a model on a suite to a dictionary that can be written as JSON."""
        rows = [
            {**asdict(row), "median": row.median, "lowest": min(row.scores), "highest": max(row.scores)}
            for row in self.rows
        ]
        return {**asdict(self), "interval_level": LEVEL, "rows": rows}


def build_result(suite: Suite, model: str, results: JudgedSplits) -> SuiteResult:
    """Build the result table of a model on a suite, with a row for each task, labeled split and metric.

    Args:
        suite: The suite.
        model: The name of the model in the table.
        results: The scores of all runs, by (task, seed, split).
    """
    rows = list[SuiteRow]()
    for task in suite.tasks:
        run = find_median_run(task, suite.seeds, results)
        for split in task.splits:
            judged = results[task.name, run, split.name]
            rows += [
                SuiteRow(
                    task=task.name,
                    split=split.name,
                    metric=metric,
                    scores=tuple(results[task.name, seed, split.name].scores[metric] for seed in suite.seeds),
                    run=run,
                    interval=compute_bounds(judged, metric),
                    majority=judged.majority.get(metric),
                    examples=judged.examples,
                    averaged=split.averaged,
                    words=judged.words.get(metric),
                    p=judged.p_majority if metric == split.metrics[0] else None,
                    p_words=judged.p_words if metric == split.metrics[0] else None,
                )
                for metric in (split.metrics if split.labelled else ())
            ]
    return SuiteResult(
        suite=suite.name,
        model=model,
        seeds=suite.seeds,
        rows=tuple(rows),
        average=compute_task_mean(rows) if suite.average else None,
    )


def with_judged_metrics(suite: Suite, results: JudgedSplits) -> Suite:
    """Return a copy of the suite with only the metrics that were computed; for example, three classes have no `f1`.

    `results` has the scores of all runs, by (task, seed, split).
    """

    def with_metrics(task: SuiteTask) -> SuiteTask:
        scores = {split.name: results[task.name, suite.seeds[0], split.name].scores for split in task.splits}
        splits = (replace(s, metrics=tuple(m for m in s.metrics if m in scores[s.name])) for s in task.splits)
        return replace(task, splits=tuple(splits))

    return replace(suite, tasks=tuple(map(with_metrics, suite.tasks)))


def compute_bounds(judged: JudgedSplit, metric: str) -> tuple[float, float] | None:
    """Compute the lower and upper bound of a score's confidence interval over examples.

    Return None if the score cannot be computed from rows.
    """
    if not judged.can_draw(metric):
        return None
    interval = bootstrap_interval(judged.to_array(), lambda rows: judged.score(rows, metric), seed=SEED, level=LEVEL)
    return interval.low, interval.high


def find_median_run(task: SuiteTask, seeds: Sequence[int], results: JudgedSplits) -> int:
    """Return the seed of the run with the median score of a task, on its first split in its first metric.

    With an even number of seeds, the lower of the two middle scores is used. If several seeds have this score, the
    first one is returned. `results` has the scores by (task, seed, split).
    """
    split = task.splits[0]
    scores = [results[task.name, seed, split.name].scores[split.metrics[0]] for seed in seeds]
    middle = statistics.median_low(scores)
    return next(seed for seed, score in zip(seeds, scores, strict=True) if score == middle)


def compute_task_mean(rows: Sequence[SuiteRow]) -> float:
    """Compute the mean over tasks from the rows of a table.

    The mean of a task is the mean of its averaged splits, and the mean of a split is the mean of its metrics (medians
    over seeds).
    """
    tasks: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row.averaged:
            tasks.setdefault(row.task, {}).setdefault(row.split, []).append(row.median)
    return statistics.fmean(
        statistics.fmean(statistics.fmean(scores) for scores in splits.values()) for splits in tasks.values()
    )


# As text.

HEAD = (
    *("task", "split", "metric", "median", "lowest to highest", "95 % interval", "majority", "bag of words"),
    "examples",
)


def iter_table_lines(result: SuiteResult) -> Iterator[str]:
    """Yield the lines of a suite's results for a terminal: the table, the conclusions, and explanatory notes."""
    yield f"{result.suite}: {result.model}, seeds {', '.join(map(str, result.seeds))}"
    yield ""
    yield from align_columns([HEAD, *map(format_cells, result.rows)])
    yield ""
    if result.average is not None:
        yield format_average(result)
    yield from (f"{row.task} {row.split}: {row.verdict}." for row in list_unconvincing(result))
    yield from iter_notes()


def list_unconvincing(result: SuiteResult) -> list[SuiteRow]:
    """List the rows in which the model is no better than a baseline, in the first metric of a split."""
    first = dict[tuple[str, str], SuiteRow]()
    for row in result.rows:
        first.setdefault((row.task, row.split), row)
    return [row for row in first.values() if row.verdict]


def align_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of a table as lines with aligned columns. All rows must have the same number of cells.

    >>> list(align_columns([["a", "b"], ["long", "c"]]))
    ['a     b', 'long  c']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def format_cells(row: SuiteRow) -> list[str]:
    """Format one metric of a split as the cells of a table row, in the order of HEAD."""
    return [
        row.task,
        row.split,
        row.metric,
        format_score(row.median),
        f"{format_score(min(row.scores))} to {format_score(max(row.scores))}" if len(row.scores) > 1 else "one seed",
        f"{format_score(row.interval[0])} to {format_score(row.interval[1])}" if row.interval else "-",
        *(format_score(score) if score is not None else "-" for score in (row.majority, row.words)),
        f"{row.examples:,}",
    ]


def format_score(score: float) -> str:
    """Format a score as a percentage with one decimal, like the benchmarks.

    >>> format_score(0.6049), format_score(-0.001)
    ('60.5', '-0.1')
    """
    return f"{100 * score:.1f}"


def format_average(result: SuiteResult) -> str:
    """Format the mean over tasks as a sentence that includes the number of tasks. The mean must not be None."""
    assert result.average is not None
    tasks = {row.task for row in result.rows if row.averaged}
    return f"Mean over {len(tasks)} tasks, each by the mean of its metrics: {format_score(result.average)}"


def iter_notes() -> Iterator[str]:
    """Yield the notes that explain the columns of the table."""
    yield HUNDREDFOLD_NOTE
    yield (
        "Median, lowest and highest are over seeds; the interval is of the median run's score, its examples drawn "
        "again with replacement (bootstrap): it does not show how much another seed would change."
    )
    yield BEST_EPOCH_NOTE
    yield (
        "Majority is the score of one answer to everything: the most frequent class of the training examples, the mean "
        "of numbers, vectors by chance. A bag of words is a linear model of words and pairs of words; for tags, the "
        "most frequent tag of each word."
    )
