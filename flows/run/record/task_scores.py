"""The scores of a run's tasks: as figures, as the tables of a suite, and compared with those of another artifact.

Promise: everything comes from what the artifact keeps of each seed's answers, by the code of `cloze evaluate`; no model
is loaded. Two artifacts are compared only if they answered the same bytes. Cost: intervals draw 1,000 times, a
comparison 10,000 times; of 10,000 examples with a class each 1 s and 0.4 s.

Also formats the events of fine-tuning and of a suite's runs as lines for people.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from corpora.generic_types import Tell
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from flows.run.policies import METRIC_SECONDS
from flows.run.record.counts_text import format_count
from flows.run.record.ledger_balance import find_newest_by_name
from trainer.metrics import Event
from trainer.tasks.build import BASELINE, CONTROL, read_judged_splits, rebuild_suite
from trainer.tasks.suites.baselines import iter_baseline_lines
from trainer.tasks.suites.compare import LEVEL, ComparedTask, SuiteComparison, compare_models
from trainer.tasks.suites.suite import Suite
from trainer.tasks.suites.table import (
    JudgedSplits,
    SuiteResult,
    SuiteRow,
    build_result,
    format_score,
    with_judged_metrics,
)

SCORE_UNIT, GAIN_UNIT = "by the median seed", "over the most frequent class"


class TaskScore(NamedTuple):
    """One metric of a fine-tuning task.

    Attributes:
        name: Name of the metric, as used in a recipe's `[bounds]` (limits).
        value: The score, or its gain over the majority class or the baseline model.
        unit: Description of the value, shown after the number.
    """

    name: str
    value: float
    unit: str


def iter_scores(place: Place, tasks: Manifest, called: str = "") -> Iterator[TaskScore]:
    """Yield the scores of fine-tuned models: for each task and split, the median of every metric over the seeds.

    The first metric of each split is followed by its gains over the majority class and over the baseline model, if any.

    Args:
        place: The store.
        tasks: Manifest (description) of the stored fine-tuned models.
        called: Name of the artifact if the run has several artifacts of this kind, otherwise "".

    Raises:
        Damaged: If the stored predictions are damaged.
    """
    ours, others = read_judged_splits(place, tasks), read_judged_splits(place, tasks, BASELINE)
    suite = with_judged_metrics(rebuild_suite(tasks), ours)
    for task in suite.tasks:
        for split in task.splits:
            of, split_in = f"task {name_task(suite, called, task.name)}", "" if split.averaged else f" in {split.name}"
            for metric in split.metrics if split.labelled else ():
                score = _compute_median(suite, ours, task.name, split.name, metric)
                yield TaskScore(f"{of}: {metric}{split_in}", score, SCORE_UNIT)
                if metric != split.metrics[0]:
                    continue
                usual = ours[task.name, suite.seeds[0], split.name].majority.get(metric)
                if usual is not None:
                    yield TaskScore(f"{of}: gain in {metric}{split_in}", score - usual, GAIN_UNIT)
                if others:
                    base = _compute_median(suite, others, task.name, split.name, metric)
                    yield TaskScore(f"{of}: gain in {metric}{split_in} over the baseline", score - base, BASELINE)


def read_result(place: Place, tasks: Manifest, called: str = "") -> SuiteResult:
    """Read the scores of stored fine-tuned models, as the table of their suite (set of tasks).

    Args:
        place: The store.
        tasks: Manifest (description) of the stored models.
        called: Title of the table. If "", the name of the suite is used.

    Raises:
        Damaged: If the stored predictions are damaged.
    """
    results = read_judged_splits(place, tasks)
    suite = with_judged_metrics(rebuild_suite(tasks), results)
    return build_result(suite, called or suite.name, results)


def iter_summaries(result: SuiteResult) -> Iterator[str]:
    """Yield a line for each task: its first metric on its main split, with its interval and the majority class's score.

    A line looks like "sentiment: accuracy 91.2 (89.5 to 93.0); the most frequent class has 50.0."

    Args:
        result: The scores of the tasks.
    """
    for task, row in _find_main_rows(result).items():
        interval = f" ({format_score(row.interval[0])} to {format_score(row.interval[1])})" if row.interval else ""
        usual = "" if row.majority is None else f"; the most frequent class has {format_score(row.majority)}"
        why = f" {row.verdict[0].upper()}{row.verdict[1:]}." if row.verdict else ""
        yield f"{task}: {row.metric} {format_score(row.median)}{interval}{usual}.{why}"


def _find_main_rows(result: SuiteResult) -> dict[str, SuiteRow]:
    """Find the row with the first metric on the main split of each task, by task name."""
    first: dict[str, SuiteRow] = {}
    for row in result.rows:
        if row.averaged:
            first.setdefault(row.task, row)
    return first


class TaskWorth(NamedTuple):
    """Whether pre-training was worth it for one task.

    Attributes:
        task: The name of the task.
        answer: "yes", "no" or "not shown".
        reason: The scores that the answer is based on, as a clause without a full stop.
    """

    task: str
    answer: str
    reason: str


def iter_task_worth(result: SuiteResult, control: SuiteComparison | None) -> Iterator[TaskWorth]:
    """Yield whether pre-training was worth it, for each task.

    The answer is "yes" if paired tests on the same examples show that the model is better than the same model trained
    from random weights and, if there is one, better than a bag of words. It is "no" if one of them is at least as good.

    Args:
        result: The scores of the model.
        control: The comparison with the same model trained from random weights. If None, nothing can be shown.
    """
    compared = {each.task: each for each in control.tasks} if control is not None else {}
    for task, row in _find_main_rows(result).items():
        twin = compared.get(task)
        reason = f"{row.metric} {format_score(row.median)}"
        if twin is not None:
            reason += f"; the same model from first weights {format_score(twin.second)}{_format_chance(twin.adjusted)}"
        if row.words is not None:
            reason += f"; a bag of words {format_score(row.words)}{_format_chance(row.p_words)}"
        if twin is None:
            reason += "; `control = true` would compare it with the same model from first weights"
        yield TaskWorth(task, _decide_worth(row, twin), reason)


def _decide_worth(row: SuiteRow, twin: ComparedTask | None) -> str:
    no_better = twin is not None and twin.difference <= 0
    if no_better or (row.words is not None and row.median <= row.words):
        return "no"
    is_above_words = row.words is None or (row.p_words is not None and row.p_words < LEVEL)
    return "yes" if twin is not None and twin.is_significant and is_above_words else "not shown"


def _format_chance(p: float | None) -> str:
    return "" if p is None else f" (p {max(p, 0.0001):.2g})"


def format_task_worth(worth: Sequence[TaskWorth]) -> str:
    """Format the answers for all tasks of a run as one text. Returns "" if there are none.

    >>> format_task_worth([TaskWorth("tone", "no", "accuracy 81.0; a bag of words 83.0")])
    'No: accuracy 81.0 on tone; a bag of words 83.0.'
    """
    if len(worth) == 1:
        [(task, answer, reason)] = worth
        score, *others = reason.split("; ")
        return f"{answer.capitalize()}: {'; '.join([f'{score} on {task}', *others])}."
    number = sum(each.answer == "yes" for each in worth)
    details = " ".join(f"{task}: {answer}, {reason}." for task, answer, reason in worth)
    return f"Yes for {number} of {len(worth)} tasks. {details}" if worth else ""


def name_task(suite: Suite, called: str, task: str) -> str:
    """Return the name of a task, as it is used in the names of its figures (metrics).

    Args:
        suite: The set of tasks that the task belongs to.
        called: Name of the fine-tuned models' artifact if the run has several, otherwise "".
        task: Name of the task in the suite.
    """
    return (called or suite.name) if len(suite.tasks) == 1 else f"{called or suite.name} {task}"


def _compute_median(suite: Suite, results: JudgedSplits, task: str, split: str, metric: str) -> float:
    return statistics.median(results[task, seed, split].scores[metric] for seed in suite.seeds)


def compare_with(place: Place, tasks: Manifest, other: Manifest, names: tuple[str, str]) -> SuiteComparison | None:
    """Compare stored fine-tuned models with those of another artifact, by paired significance tests.

    Args:
        place: The store.
        tasks: Manifest (description) of the stored models.
        other: Manifest of the models to compare them with.
        names: Column titles for `tasks` and `other`.

    Returns:
        The comparison of the tasks for which both have predictions for the same examples and seeds, or None if there
        are no such tasks.

    Raises:
        Damaged: If the stored predictions are damaged.
    """
    suite = rebuild_suite(tasks)
    ours, theirs = read_judged_splits(place, tasks), read_judged_splits(place, other)
    return _compare(suite, ours, theirs, names)


def compare_within(place: Place, tasks: Manifest, of: str) -> SuiteComparison | None:
    """Compare stored fine-tuned models with their baseline or control model, by paired significance tests.

    Returns None if there is no such model.

    Args:
        place: The store.
        tasks: Manifest (description) of the stored models.
        of: The model to compare with: BASELINE or CONTROL.

    Raises:
        Damaged: If the stored predictions are damaged.
    """
    ours, theirs = read_judged_splits(place, tasks), read_judged_splits(place, tasks, of)
    return _compare(rebuild_suite(tasks), ours, theirs, ("the model", f"the {of}"), of == CONTROL)


def _compare(
    suite: Suite, ours: JudgedSplits, theirs: JudgedSplits, names: tuple[str, str], is_control: bool = False
) -> SuiteComparison | None:
    same = {key for key in ours.keys() & theirs.keys() if _has_same_answers(ours, theirs, key)}
    tasks = tuple(
        task
        for task in suite.tasks
        if all((task.name, seed, split.name) in same for seed in suite.seeds for split in task.splits)
    )
    if not tasks:
        return None
    asked = Suite(name=suite.name, seeds=suite.seeds, tasks=tasks, average=False)
    return compare_models(asked, names, ours, theirs, is_control)


def _has_same_answers(ours: JudgedSplits, theirs: JudgedSplits, key: tuple[str, int, str]) -> bool:
    one, other = ours[key], theirs[key]
    return (one.sha256, one.examples, len(one.rows)) == (other.sha256, other.examples, len(other.rows))


def compute_worse_chances(place: Place, after: Sequence[Manifest], before: Sequence[Manifest]) -> dict[str, float]:
    """Compute the p-value of each decrease of a task's first metric: the probability of such a decrease by chance.

    Args:
        place: The store.
        after, before: Manifests (artifact descriptions) of the later and the earlier run.

    Returns:
        The p-values by name of the figure (metric). Tasks that cannot be compared are omitted.

    Raises:
        Damaged: If the stored predictions are damaged.
    """
    earlier = {tasks.name: tasks for tasks in find_newest_by_name(before, "tasks").values()}
    chances = {}
    for called, tasks in find_newest_by_name(after, "tasks").items():
        other = earlier.get(tasks.name)
        comparison = compare_with(place, tasks, other, ("after", "before")) if other is not None else None
        for each in comparison.tasks if comparison is not None else ():
            if each.difference < 0 and each.adjusted is not None:
                chances[f"task {name_task(rebuild_suite(tasks), called, each.task)}: {each.metric}"] = each.adjusted
    return chances


NUMBERS = ("epoch", "restart", "loss", "learning_rate")  # of a line, next to the scores
_OTHERS = ("event", "step", "again", "gradient_norm", "sequences", "tokens", "seconds", "output", "metric")
NO_SCORES = frozenset((*_OTHERS, "baselines", *NUMBERS))


def _format_run(event: Event) -> str:
    return f"run {event['number']} of {event['of']}: {event['task']}, seed {event['seed']}"


def _format_judged(event: Event) -> str:
    scores = ", ".join(f"{name} {score:.4g}" for name, score in event["scores"].items())
    return f"{event['split']}: {event['examples']:,} examples{', ' + scores if scores else ', answered'}"


SUITE_LINES: Mapping[str, Callable[[Event], str]] = {"run": _format_run, "judged": _format_judged}


class EventPrinter:
    """Prints the events of fine-tuning runs as lines.

    Args:
        tell: Called with each line to print.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._last = 0.0
        self._steps = 0

    def print_event(self, event: Event) -> None:
        """Print an event. Step events are printed at most every METRIC_SECONDS, and checkpoint events are not printed.

        Args:
            event: Dict with the kind of the event under the key "event" (such as "start", "step", "warning" or "done"),
                and further keys for each kind.
        """
        if event["event"] in SUITE_LINES:
            self._tell(SUITE_LINES[event["event"]](event))
        elif event["event"] == "warning":
            self._tell(f"warning: {event['message']}")
        elif event["event"] == "start":
            self._steps = event["steps"]
            for line in iter_start_lines(event):
                self._tell(line)
        elif event.get("again"):
            self._tell(f"{event['output']} is done already, with the same settings and files: {_format_figures(event)}")
        elif event["event"] == "step" and time.monotonic() - self._last < METRIC_SECONDS:
            return
        elif event["event"] != "checkpoint":
            self._last = time.monotonic()
            self._tell(format_event(event, self._steps))
        if event["event"] == "done" and event["metric"] in event:
            for line in iter_baseline_lines(event["metric"], event[event["metric"]], event.get("baselines", {})):
                self._tell(line)


def iter_start_lines(event: Event) -> Iterator[str]:
    """Yield lines about the start of a fine-tuning run: the record counts of its files, and its settings.

    Args:
        event: Dict with the keys "training" and "evaluation" (record counts as for `describe_ledger`), "settings"
            (values by name), "resumed" (True or False) and "step".
    """
    for name in ("training", "evaluation"):
        yield f"{name}: {describe_ledger(event[name])}"
    settings = {name: value for name, value in event["settings"].items() if value not in (None, [], ())}
    yield f"settings: {', '.join(f'{name} {_format_value(value)}' for name, value in settings.items())}"
    if event["resumed"]:
        yield f"resumes after step {event['step']}"


def describe_ledger(ledger: Mapping[str, Any]) -> str:
    """Describe in one line how many records of a labeled file were used, dropped and truncated.

    Args:
        ledger: Record counts of the file as JSON, with the keys `accounts` (for one unit, such as "examples", a dict
            with the counts by outcome under "outcomes") and `figures` (other counts by name).
    """
    [(unit, account)] = ledger["accounts"].items()
    figures = ledger["figures"]
    dropped = [f"{number} {reason}" for reason, number in account["outcomes"].items() if reason != "given"]
    counts = [
        format_count(account["outcomes"]["given"], unit.removesuffix("s")),
        format_count(figures["tokens"], "token"),
        *dropped,
    ]
    cut = f"{format_count(figures['texts_cut'], 'text')} cut by {format_count(figures['tokens_cut'], 'token')}"
    unknown = f"{format_count(figures.get('unknown', 0), 'answer')} unknown to the model, which count as wrong"
    return ", ".join(counts + [cut] * bool(figures["texts_cut"]) + [unknown] * bool(figures.get("unknown")))


def format_event(event: Event, steps: int) -> str:
    """Format an event of a fine-tuning run as one line: its kind, step, epoch, losses and scores.

    Args:
        event: Dict with the keys `event` and `step`, and the metrics to show, by name.
        steps: Total number of steps of the run.

    >>> format_event({"event": "step", "step": 3, "epoch": 1, "loss": 0.6931}, 9)
    'step 3/9: epoch 1, loss 0.6931'
    """
    parts = [_format_figures(event), *([f"output {event['output']}"] if "output" in event else [])]
    return f"{event['event']} {event['step']}/{steps}: {', '.join(filter(None, parts))}"


def _format_figures(event: Event) -> str:
    scores = [name for name, value in event.items() if name not in NO_SCORES and value is not None]
    return ", ".join(f"{name} {_format_value(event[name])}" for name in (*NUMBERS, *scores) if name in event)


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(map(_format_value, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
