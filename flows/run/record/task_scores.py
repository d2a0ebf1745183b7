"""The scores of a run's tasks: as figures, as the tables of a suite, and against those of another artifact.

Promise: everything comes from what the artifact keeps of each seed's answers, by the code of `cloze evaluate`; no model
is loaded. Two artifacts are compared only where they answered the same bytes.
Cost: intervals draw 1,000 times, a comparison 10,000 times; of 10,000 examples with a class each 1 s and 0.4 s.
"""

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from flows.run.record.ledger_balance import newest_of_each
from trainer.tasks.build import BASELINE, CONTROL, found_in, suite_in
from trainer.tasks.suites.comparing import SuiteComparison, compared
from trainer.tasks.suites.suite import Suite
from trainer.tasks.suites.table import Found, SuiteResult, SuiteRow, hundredfold, result_of, suite_judged

SCORE, GAIN = "by the median seed", "over the most frequent class"


class TaskScore(NamedTuple):
    """One number of a task. name: as a bound of a recipe names it; unit: in words, after the number"""

    name: str
    value: float
    unit: str


def scores_of(place: Place, tasks: Manifest, called: str = "") -> Iterator[TaskScore]:
    """Yield the median of every metric, and how much the first of a split gains over what is compared with.

    called: the name of the artifact where there are several. Raises Damaged.
    """
    ours, others = found_in(place, tasks), found_in(place, tasks, BASELINE)
    suite = suite_judged(suite_in(tasks), ours)
    for task in suite.tasks:
        for split in task.splits:
            of, split_in = f"task {label(suite, called, task.name)}", "" if split.averaged else f" in {split.name}"
            for metric in split.metrics if split.labelled else ():
                score = _median(suite, ours, task.name, split.name, metric)
                yield TaskScore(f"{of}: {metric}{split_in}", score, SCORE)
                if metric != split.metrics[0]:
                    continue
                usual = ours[task.name, suite.seeds[0], split.name].majority.get(metric)
                if usual is not None:
                    yield TaskScore(f"{of}: gain in {metric}{split_in}", score - usual, GAIN)
                if others:
                    base = _median(suite, others, task.name, split.name, metric)
                    yield TaskScore(f"{of}: gain in {metric}{split_in} over the baseline", score - base, BASELINE)


def result_in(place: Place, tasks: Manifest, called: str = "") -> SuiteResult:
    """Return the scores of an artifact as the table of a suite. called: the artifact. Raises Damaged."""
    results = found_in(place, tasks)
    suite = suite_judged(suite_in(tasks), results)
    return result_of(suite, called or suite.name, results)


def summaries(result: SuiteResult) -> Iterator[str]:
    """Yield a sentence for each task, by the first metric of the split that counts."""
    first: dict[str, SuiteRow] = {}
    for row in result.rows:
        if row.averaged:
            first.setdefault(row.task, row)
    for task, row in first.items():
        interval = f" ({hundredfold(row.interval[0])} to {hundredfold(row.interval[1])})" if row.interval else ""
        usual = "" if row.majority is None else f"; the most frequent class has {hundredfold(row.majority)}"
        why = f" {row.verdict[0].upper()}{row.verdict[1:]}." if row.verdict else ""
        yield f"{task}: {row.metric} {hundredfold(row.median)}{interval}{usual}.{why}"


def label(suite: Suite, called: str, task: str) -> str:
    """Return what a task is called in figures. called: its artifact, where there are several"""
    return (called or suite.name) if len(suite.tasks) == 1 else f"{called or suite.name} {task}"


def _median(suite: Suite, results: Found, task: str, split: str, metric: str) -> float:
    return statistics.median(results[task, seed, split].scores[metric] for seed in suite.seeds)


def comparison_with(place: Place, tasks: Manifest, other: Manifest, names: tuple[str, str]) -> SuiteComparison | None:
    """Compare an artifact with another of its name by the paired tests of a suite; None where they differ too much.

    names: of the two. What did not answer the same bytes, or was learnt from other seeds, is not compared.
    Raises Damaged.
    """
    suite = suite_in(tasks)
    ours, theirs = found_in(place, tasks), found_in(place, other)
    return _comparison(suite, ours, theirs, names)


def comparison_within(place: Place, tasks: Manifest, of: str) -> SuiteComparison | None:
    """Compare the model of an artifact with its baseline or its control; None where it has none. Raises Damaged."""
    ours, theirs = found_in(place, tasks), found_in(place, tasks, of)
    return _comparison(suite_in(tasks), ours, theirs, ("the model", f"the {of}"), of == CONTROL)


def _comparison(
    suite: Suite, ours: Found, theirs: Found, names: tuple[str, str], is_control: bool = False
) -> SuiteComparison | None:
    same = {key for key in ours.keys() & theirs.keys() if _answered_alike(ours, theirs, key)}
    tasks = tuple(
        task
        for task in suite.tasks
        if all((task.name, seed, split.name) in same for seed in suite.seeds for split in task.splits)
    )
    if not tasks:
        return None
    asked = Suite(name=suite.name, seeds=suite.seeds, tasks=tasks, average=False)
    return compared(asked, names, ours, theirs, is_control)


def _answered_alike(ours: Found, theirs: Found, key: tuple[str, int, str]) -> bool:
    one, other = ours[key], theirs[key]
    return (one.sha256, one.examples, len(one.rows)) == (other.sha256, other.examples, len(other.rows))


def chances_of_worse(place: Place, after: Sequence[Manifest], before: Sequence[Manifest]) -> dict[str, float]:
    """Return, for each first metric that is lower than before, the probability that chance alone makes it so.

    after, before: the manifests of two runs. What cannot be compared is not in it. Raises Damaged.
    """
    earlier = {tasks.name: tasks for tasks in newest_of_each(before, "tasks").values()}
    chances = {}
    for called, tasks in newest_of_each(after, "tasks").items():
        other = earlier.get(tasks.name)
        comparison = comparison_with(place, tasks, other, ("after", "before")) if other is not None else None
        for each in comparison.tasks if comparison is not None else ():
            if each.difference < 0 and each.adjusted is not None:
                chances[f"task {label(suite_in(tasks), called, each.task)}: {each.metric}"] = each.adjusted
    return chances
