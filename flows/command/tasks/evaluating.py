"""`cloze evaluate`: a model on the tasks of a suite; the trainer runs them, this adds up and tells.

    MODEL, SUITE ─► runs ─► python -m trainer evaluate ─► judged splits ─► evaluation.txt, .json, .html
                                                 corpus ─► overlaps ──┘

Promise: what is finished in the output folder is not done again; files of the table are written anew each time.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from corpora.errors import InputError
from flows.command.models import Event, model_folder, trainer_process
from flows.command.tasks.finetuning import Listener
from flows.stopping import scratch_folder
from trainer.launch import events
from trainer.settings import TrainingSettings
from trainer.tasks.suites.certainty import bounds_of
from trainer.tasks.suites.judged import JudgedSplit, read_judged
from trainer.tasks.suites.runs import SuiteJob, SuiteRun, runs_of
from trainer.tasks.suites.suite import read_suite
from trainer.tasks.suites.table import Found, SuiteResult, result_of, table_lines

TEXT, JSON = "evaluation.txt", "evaluation.json"

Tell = Callable[[str], None]


def evaluate_model(model: str, asked: str, data: Path | None, output: Path, tell: Tell) -> SuiteResult:
    """Run a suite, and write its table. Raises InputError, or TrainingFailed.

    asked: a suite's file, or the name of one that comes with the program; data: the folder of its files
    """
    suite = read_suite(asked, data)
    with model_folder(model) as folder:
        runs = list(runs_of(suite, folder, output))
        learn(runs, tell)
    result = result_of(suite, model, found_in(runs), {}, bounds_of)
    write_table(result, output)
    for line in table_lines(result):
        tell(line)
    return result


def write_table(result: SuiteResult, output: Path) -> None:
    """The table as text and as JSON."""
    output.mkdir(parents=True, exist_ok=True)
    (output / TEXT).write_text("".join(f"{line}\n" for line in table_lines(result)), encoding="utf-8")
    document = json.dumps(result.to_json(), indent=1, ensure_ascii=False)
    (output / JSON).write_text(f"{document}\n", encoding="utf-8")


# The runs.


def learn(runs: Sequence[SuiteRun], tell: Tell) -> None:
    """Have the trainer do them: those that ask for the same processes in one of its processes."""
    for _, group in groupby(runs, lambda run: _machine(run)):
        _learn(tuple(group), tell)


def _machine(run: SuiteRun) -> tuple[str, int]:
    return run.job.settings.device, run.job.settings.processes


def _learn(runs: tuple[SuiteRun, ...], tell: Tell) -> None:
    with scratch_folder() as scratch:
        path = scratch / "runs.json"
        path.write_text(json.dumps(dataclasses.asdict(SuiteJob(runs=runs))), encoding="utf-8")
        listener = Listener(tell)
        with trainer_process(["evaluate", str(path)], _training(runs)) as (said, log):
            for event in events(said, log):
                if event["event"] in SAID:
                    tell(SAID[event["event"]](event))
                else:
                    listener.hear(event)


def _training(runs: Sequence[SuiteRun]) -> TrainingSettings:
    return runs[0].job.settings.training(1)


def _run_line(event: Event) -> str:
    return f"run {event['number']} of {event['of']}: {event['task']}, seed {event['seed']}"


def _judged_line(event: Event) -> str:
    scores = ", ".join(f"{name} {score:.4g}" for name, score in event["scores"].items())
    return f"{event['split']}: {event['examples']:,} examples{', ' + scores if scores else ', answered'}"


SAID: Mapping[str, Callable[[Event], str]] = {"run": _run_line, "judged": _judged_line}


def found_in(runs: Sequence[SuiteRun]) -> Found:
    """What was judged, by task, seed and split. Raises InputError where one of them lacks a metric of its set."""
    return {key: judged for run in runs for key, judged in _judged(run)}


def _judged(run: SuiteRun) -> Iterator[tuple[tuple[str, int, str], JudgedSplit]]:
    for split in run.splits:
        judged = read_judged(run.judged(split))
        if judged is None:
            raise InputError(f"{run.judged(split)} is gone while it was waited for: give the command once more.")
        lacking = [metric for metric in split.metrics if metric not in judged.scores] if split.labelled else []
        if lacking:
            raise InputError(
                f"The task {run.task} says no {lacking[0]} of {split.name}: name `metrics` of "
                f"{', '.join(judged.scores)} in its table."
            )
        yield (run.task, run.seed, split.name), judged
