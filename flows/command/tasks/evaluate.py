"""`cloze evaluate`: a model on the tasks of a suite; the trainer runs them, this adds up and reports.

    MODEL, SUITE ─► runs ─► python -m trainer evaluate ─► judged splits ─► evaluation.txt, .json, .html
                                                 corpus ─► overlaps ──┘

Promise: what is finished in the output folder is not done again; the files of the table are written again each time.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from shutil import copyfile
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.settings import check_choice
from flows.command.tasks.check import checked_first
from flows.command.tasks.onnx import SUITE_HEAD, SUITE_NOTE, Models, suite_cells, suite_models
from flows.command.tasks.options import EvaluationAsked
from flows.command.tasks.overlap import began_elsewhere, overlaps, provenance_at
from flows.command.terminal.output import WIDEST, console
from flows.command.terminal.tables import fitted_lines
from flows.command.trainer_process import job_file, model_folder, trainer_events
from flows.export.cards.model_card import CardFacts, export_with_card, license_choices
from flows.export.exported import Provenance
from flows.report.evaluation import evaluation_page
from flows.run.task_lines import Listener
from trainer.complete_folders import check_output, refusing
from trainer.jobs.start import CONFIG
from trainer.tasks.build import RECORD
from trainer.tasks.suites import comparing
from trainer.tasks.suites import table as tables
from trainer.tasks.suites.judged import JudgedSplit, read_judged
from trainer.tasks.suites.runs import SuiteJob, SuiteRun, bare, check_judged, runs_of
from trainer.tasks.suites.submitting import submission_files
from trainer.tasks.suites.suite import Suite, read_suite

TEXT, JSON, PAGE = "evaluation.txt", "evaluation.json", "evaluation.html"
SUBMISSION = "submission"


def check_asked(asked: EvaluationAsked) -> None:
    """Raise InputError for what cannot be evaluated so."""
    check_choice("--license", asked.license, license_choices())
    if asked.control and asked.compare is not None:
        raise InputError(f"--control compares with {asked.model} from first weights: leave --compare out.")
    if asked.compare == asked.model:
        raise InputError(f"--compare names {asked.model} itself: give another model.")
    if asked.card is not None:
        check_output(asked.card)


def evaluate_model(asked: EvaluationAsked, tell: Tell) -> tables.SuiteResult:
    """Run a suite, and write its table. Raises InputError, or TrainingFailed."""
    check_asked(asked)
    model, output, compare = asked.model, asked.output, asked.model if asked.control else asked.compare
    suite = read_suite(asked.suite, asked.data)
    runs = run_suite(suite, model, output, tell, asked.accept)
    judged = found_in(runs)
    suite = tables.suite_judged(suite, judged)
    comparison = None
    if compare is not None:
        others = found_in(run_suite(suite, compare, output, tell, asked.accept, asked.control))
        second = f"{model} from first weights" if asked.control else compare
        comparison = comparing.compared(suite, (model, second), judged, others, asked.control)
    made = provenance_at(model)
    elsewhere = made is not None and began_elsewhere(made)
    result = tables.result_of(suite, model, judged, overlaps(suite, made), elsewhere)
    medians = median_runs(suite, runs, judged)
    sizes = suite_models(medians, tell) if asked.onnx else {}
    metrics = {task.name: task.splits[0].metrics[0] for task in suite.tasks}
    table = Table(result=result, comparison=comparison, models=sizes, metrics=metrics)
    write_table(table, output)
    for line in all_lines(table, console.width):
        tell(line)
    for line in hand_in(medians, output):
        tell(line)
    if asked.answers is not None:
        copy_answers(medians, asked.answers)
        tell(f"Answers of each task's median run: {asked.answers}")
    tell(f"Table: {output / PAGE}")
    if asked.card is not None:
        write_card(asked, made, result, comparison, tuned_with(runs))
        tell(f"Model with its card: {asked.card}")
    return result


def tuned_with(runs: Sequence[SuiteRun]) -> dict[str, Mapping[str, Any]]:
    """Return for each task the settings that were chosen in the end, as its last run's record has them."""
    records = {run.task: Path(run.job.output) / RECORD for run in runs}
    return {task: json.loads(path.read_text(encoding="utf-8"))["settings"] for task, path in records.items()}


def write_card(
    asked: EvaluationAsked,
    made: Provenance | None,
    result: tables.SuiteResult,
    comparison: comparing.SuiteComparison | None,
    tuned: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write the model to a folder of its own, with a card. Raises InputError."""
    assert asked.card is not None
    with model_folder(asked.model) as folder:
        facts = CardFacts(
            name=made.manifest.name if made is not None else folder.resolve().name,
            config=json.loads((folder / CONFIG).read_text(encoding="utf-8")),
            license=asked.license,
            made=made,
            result=result,
            comparison=comparison,
            tuned=tuned,
        )
        export_with_card(facts, folder, asked.card)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The report of a suite. models: by task the cost of its median run; metrics: by task the one shown with it"""

    result: tables.SuiteResult
    comparison: comparing.SuiteComparison | None
    models: Mapping[str, Models]
    metrics: Mapping[str, str]

    def sizes(self) -> list[tuple[str, ...]]:
        """The costs of models, as rows of texts under a head; none where that was not asked for."""
        return [SUITE_HEAD, *suite_cells(self.models, self.metrics)] if self.models else []


def all_lines(table: Table, width: int = WIDEST) -> Iterator[str]:
    """Yield the table as text, the other model's next to it, and the costs of models. width: of the terminal"""
    rows = [tables.HEAD, *map(tables.cells_of, table.result.rows)]
    yield from fitted_lines([*tables.table_lines(table.result)], 2, len(rows) + 2, rows, width)
    if table.comparison is not None:
        yield ""
        pairs = [comparing.HEAD, *map(comparing.compared_cells, table.comparison.tasks)]
        yield from fitted_lines([*comparing.comparison_lines(table.comparison)], 2, len(pairs) + 2, pairs, width)
    if table.models:
        yield ""
        sizes = table.sizes()
        yield from fitted_lines([*tables.aligned(sizes)], 0, len(sizes), sizes, width)
        yield ""
        yield SUITE_NOTE


def write_table(table: Table, output: Path) -> None:
    """Write the table as text, as JSON and as a page. Raises InputError where they cannot be written."""
    comparison = table.comparison
    document = {**table.result.to_json(), "comparison": comparison.to_json() if comparison else None}
    if table.models:
        document["models"] = {task: list(models) for task, models in table.models.items()}
    texts = {
        TEXT: "".join(f"{line}\n" for line in all_lines(table)),
        JSON: json.dumps(document, indent=1, ensure_ascii=False) + "\n",
        PAGE: evaluation_page(table.result, comparison, table.sizes(), SUITE_NOTE),
    }
    try:
        for name, text in texts.items():
            (output / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot write to {output}: {error.strerror}. Give a folder with enough space.") from error


def median_runs(suite: Suite, runs: Sequence[SuiteRun], judged: tables.Found) -> dict[str, SuiteRun]:
    """Return for each task its median run."""
    by_seed = {(run.task, run.seed): run for run in runs}
    return {task.name: by_seed[task.name, tables.median_run(task, suite.seeds, judged)] for task in suite.tasks}


def hand_in(medians: Mapping[str, SuiteRun], output: Path) -> Iterator[str]:
    """Write the answers to test splits without labels as their benchmark takes them; yield lines about it."""
    files = list(submission_files(medians))
    written = [file for file in files if not file.why]
    if written:
        folder = output / SUBMISSION
        folder.mkdir(exist_ok=True)
        with ZipFile(output / f"{SUBMISSION}.zip", "w") as packed:
            for file in written:
                text = "".join(file.lines)
                (folder / file.name).write_text(text, encoding="utf-8")
                packed.writestr(ZipInfo(file.name), text, ZIP_DEFLATED)
        yield f"Answers to hand in: {output / SUBMISSION}.zip ({', '.join(file.name for file in written)})"
    yield from (f"{file.name} is not written: {file.why}" for file in files if file.why)


def copy_answers(medians: Mapping[str, SuiteRun], folder: Path) -> None:
    """Copy the answers of each task's median run to a folder, a file for each split. Raises InputError."""
    with refusing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for task, run in medians.items():
            for split in run.splits:
                answers = run.answers(split)
                copyfile(answers, folder / f"{bare(task)}-{answers.name}")


# The runs.


def run_suite(
    suite: Suite, model: str, output: Path, tell: Tell, accept: Sequence[str], control: bool = False
) -> list[SuiteRun]:
    """Look at the data of what is not finished yet, and do it. Raises InputError, or TrainingFailed.

    control: from first weights
    """
    with model_folder(model) as folder:
        runs = list(runs_of(suite, folder, output, control))
        waiting = [run for run in runs if run.waiting]
        named = f"{model} from first weights" if control else model
        tell(f"{named}: {len(runs) - len(waiting)} of {len(runs)} runs are done")
        check_suite(suite, {run.task for run in waiting}, folder, tell, accept)
        learn(waiting, tell)
    return runs


def check_suite(suite: Suite, names: Collection[str], model: Path, tell: Tell, accept: Sequence[str]) -> None:
    """Tell what is doubtful in the data of the tasks of these names. Raises InputError where a score means nothing."""
    for task in (task for task in suite.tasks if task.name in names):
        splits = [split for split in task.splits if split.set in ("", task.splits[0].set)]
        files = [task.training, *(split.file for split in splits)]
        hidden = [split.file.path for split in splits if not split.labelled]
        length = task.settings.max_length
        for event in checked_first(task.task, files, accept=accept, unlabelled=hidden, max_length=length, model=model):
            tell(f"warning: {task.name}: {event['message']}")


def learn(runs: Sequence[SuiteRun], tell: Tell) -> None:
    """Have the trainer do them: those that need the same processes in one of its processes."""
    for _, group in groupby(runs, lambda run: (run.job.settings.device, run.job.settings.processes)):
        some = tuple(group)
        listener, training = Listener(tell), some[0].job.settings.training(1)
        with job_file(SuiteJob(runs=some)) as path:
            for event in trainer_events("evaluate", path, training=training):
                listener.hear(event)


def found_in(runs: Sequence[SuiteRun]) -> tables.Found:
    """Return the results, by task, seed and split. Raises InputError where one lacks its first metric."""
    results = dict[tuple[str, int, str], JudgedSplit]()
    for run in runs:
        for split in run.splits:
            judged = read_judged(run.judged(split))
            if judged is None:
                raise InputError(f"{run.judged(split)} disappeared while it was waited for: run the command again.")
            check_judged(run, split, judged)
            results[run.task, run.seed, split.name] = judged
    return results
