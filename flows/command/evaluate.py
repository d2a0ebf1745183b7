"""`cloze evaluate`: a model on the tasks of a suite; the trainer runs them, this adds up and reports.

    MODEL, SUITE ─► runs ─► python -m trainer evaluate ─► judged splits ─► evaluation.txt, .json, .html

Promise: what is finished in the output folder is not done again; the files of the table are written again each time.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from shutil import copyfile
from typing import Annotated

from cyclopts import Parameter

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.settings import check_choice
from flows.command.arguments import AsJson, Model
from flows.command.check import check_data_first
from flows.command.record_files import Accept
from flows.command.suite_runs import read_results, run_jobs
from flows.command.terminal import MAX_COLUMNS, choose_printer, console, fit_table, print_json
from flows.command.trainer_process import open_model_folder
from flows.export.cards.model_card import CardFacts, export_with_card, list_license_choices
from flows.export.exported import Provenance, read_provenance
from flows.report.evaluation import render_evaluation_page
from flows.run.addresses import find_artifacts, pick_newest
from trainer.complete_folders import check_output, explain_disk_errors
from trainer.start_weights import CONFIG
from trainer.tasks.build import RECORD
from trainer.tasks.suites import compare as comparing
from trainer.tasks.suites import table as tables
from trainer.tasks.suites.suite import Suite, SuiteRun, iter_runs, read_suite, to_file_name

TEXT, JSON, PAGE = "evaluation.txt", "evaluation.json", "evaluation.html"


@Parameter(name="*")
@dataclass(frozen=True)
class EvaluationOptions:
    """The options of `cloze evaluate`: the model, the task suite, and the output folders."""

    model: Model
    suite: Annotated[str, Parameter(help="A suite's TOML file, or one that comes with Cloze: glue, superglue.")]
    _: KW_ONLY
    data: Annotated[Path | None, Parameter(help="Folder of the tasks' files; default: the suite's own.")] = None
    output: Annotated[Path, Parameter(help="Folder for runs and tables.")] = Path("evaluation")
    answers: Annotated[
        Path | None, Parameter(help="Folder for each task's answers: a line a record, with gold answer and score.")
    ] = None
    compare: Annotated[str | None, Parameter(help="Another model, for a paired test on the same tasks.")] = None
    control: Annotated[
        bool, Parameter(help="Compare with the same model from first weights: was it worth it?", negative=())
    ] = False
    card: Annotated[Path | None, Parameter(help="A new folder for the model's files, with a model card.")] = None
    license: Annotated[str, Parameter(help="The model's license as Hugging Face spells it, for its card.")] = "unknown"
    accept: Accept = ()


def evaluate(options: EvaluationOptions, *, as_json: AsJson = False) -> None:
    """Fine-tune a model on each task of a suite, and report scores.

    Each task is trained with several seeds. The scores are reported in one table. Finished runs are kept, so
    running the same command again resumes.
    """
    evaluate_model(options, choose_printer(as_json))
    if as_json:
        print_json(json.loads((options.output / JSON).read_text(encoding="utf-8")))


def check_options(options: EvaluationOptions) -> None:
    """Check the options for contradictions before anything is run.

    Raises:
        InputError: If the license is unknown, if a model would be compared with itself, or if the folder for the model
            card is not empty.
    """
    check_choice("--license", options.license, list_license_choices())
    if options.control and options.compare is not None:
        raise InputError(f"--control compares with {options.model} from first weights: leave --compare out.")
    if options.compare == options.model:
        raise InputError(f"--compare names {options.model} itself: give another model.")
    if options.card is not None:
        check_output(options.card)


def evaluate_model(options: EvaluationOptions, tell: Tell) -> tables.SuiteResult:
    """Fine-tune a model on each task of a suite, and write and print the table of scores.

    Runs already finished in the output folder are not repeated.

    Args:
        options: The options of the command.
        tell: Callback that prints a line. It is called with progress messages and with each line of the table.

    Returns:
        The scores.

    Raises:
        InputError: If an option, a file of a task or the model is not valid.
        TrainingFailed: If the trainer's process fails.
    """
    check_options(options)
    model, output, compare = options.model, options.output, options.model if options.control else options.compare
    suite = read_suite(options.suite, options.data)
    runs = run_suite(suite, model, output, tell, options.accept)
    judged = read_results(runs)
    suite = tables.with_judged_metrics(suite, judged)
    comparison = None
    if compare is not None:
        others = read_results(run_suite(suite, compare, output, tell, options.accept, options.control))
        second = f"{model} from first weights" if options.control else compare
        comparison = comparing.compare_models(suite, (model, second), judged, others, options.control)
    result = tables.build_result(suite, model, judged)
    write_table(result, comparison, output)
    for line in iter_table_lines(result, comparison, console.width):
        tell(line)
    if options.answers is not None:
        medians = {(task.name, tables.find_median_run(task, suite.seeds, judged)) for task in suite.tasks}
        copy_answers([run for run in runs if (run.task, run.seed) in medians], options.answers)
        tell(f"Answers of each task's median run: {options.answers}")
    tell(f"Table: {output / PAGE}")
    if options.card is not None:
        write_card(options, result, comparison, runs)
        tell(f"Model with its card: {options.card}")
    return result


def write_card(
    options: EvaluationOptions,
    result: tables.SuiteResult,
    comparison: comparing.SuiteComparison | None,
    runs: Sequence[SuiteRun],
) -> None:
    """Write the model to the new folder `options.card`, with a model card that reports its scores.

    Args:
        options: The options; `card` must not be None.
        result: The scores.
        comparison: The comparison with another model, or None.
        runs: The fine-tuning runs of the suite. For each task, the card reports the settings of the last run in the
            list.

    Raises:
        InputError: If the folder cannot be written.
    """
    assert options.card is not None
    records = {run.task: Path(run.job.output) / RECORD for run in runs}
    made = find_provenance(options.model)
    with open_model_folder(options.model) as folder:
        facts = CardFacts(
            name=made.manifest.name if made is not None else folder.resolve().name,
            config=json.loads((folder / CONFIG).read_text(encoding="utf-8")),
            license=options.license,
            provenance=made,
            result=result,
            comparison=comparison,
            task_settings={
                task: json.loads(path.read_text(encoding="utf-8"))["settings"] for task, path in records.items()
            },
        )
        export_with_card(facts, folder, options.card)


def find_provenance(address: str) -> Provenance | None:
    """Return the descriptions (manifests) of everything that a model was built from.

    Returns None if the address is not that of a model in a store.

    Args:
        address: A model's folder, its folder in a store, or a release.
    """
    try:
        artifact = pick_newest(find_artifacts(address, "models"))
    except InputError:  # no artifact exists at the address
        return None
    return read_provenance(artifact)


def iter_table_lines(
    result: tables.SuiteResult, comparison: comparing.SuiteComparison | None, width: int = MAX_COLUMNS
) -> Iterator[str]:
    """Yield the lines of the table of scores, followed by the comparison with another model if there is one.

    Args:
        result: The scores.
        comparison: The comparison with another model; None to omit it.
        width: The width of the terminal in characters. If the table is wider, each row is printed as a block of lines.
    """
    rows = [tables.HEAD, *map(tables.format_cells, result.rows)]
    yield from fit_table([*tables.iter_table_lines(result)], 2, len(rows) + 2, rows, width)
    if comparison is not None:
        yield ""
        pairs = [comparing.HEAD, *map(comparing.format_cells, comparison.tasks)]
        yield from fit_table([*comparing.iter_comparison_lines(comparison)], 2, len(pairs) + 2, pairs, width)


def write_table(result: tables.SuiteResult, comparison: comparing.SuiteComparison | None, output: Path) -> None:
    """Write the table of scores to the output folder, as text, JSON and HTML.

    Args:
        result: The scores.
        comparison: The comparison with another model, or None.
        output: The output folder.

    Raises:
        InputError: If the files cannot be written.
    """
    document = {**result.to_json(), "comparison": comparison.to_json() if comparison else None}
    texts = {
        TEXT: "".join(f"{line}\n" for line in iter_table_lines(result, comparison)),
        JSON: json.dumps(document, indent=1, ensure_ascii=False) + "\n",
        PAGE: render_evaluation_page(result, comparison),
    }
    try:
        for name, text in texts.items():
            (output / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot write to {output}: {error.strerror}. Give a folder with enough space.") from error


def copy_answers(medians: Iterable[SuiteRun], folder: Path) -> None:
    """Copy the predictions of each task's median run to a folder, one file per split.

    Args:
        medians: The median runs.
        folder: The folder, which is created if it does not exist.

    Raises:
        InputError: If the folder cannot be written.
    """
    with explain_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for run in medians:
            for answers in map(run.locate_answers, run.splits):
                copyfile(answers, folder / f"{to_file_name(run.task)}-{answers.name}")


# The runs.


def run_suite(
    suite: Suite, model: str, output: Path, tell: Tell, accept: Sequence[str], control: bool = False
) -> list[SuiteRun]:
    """Check the data of a suite, run its unfinished runs, and return all its runs, one per task and seed.

    Args:
        suite: The tasks and seeds.
        model: A model's folder, its folder in a store, or a release.
        output: The folder of the runs.
        tell: Callback that prints a line. It is called with progress messages.
        accept: Names of the data findings to accept, or "all".
        control: True to start from random weights instead of the model's.

    Raises:
        InputError: If the data make a score meaningless, or an input is not valid.
        TrainingFailed: If the trainer's process fails.
    """
    with open_model_folder(model) as folder:
        runs = list(iter_runs(suite, folder, output, control))
        waiting = [run for run in runs if run.unanswered_splits]
        named = f"{model} from first weights" if control else model
        tell(f"{named}: {len(runs) - len(waiting)} of {len(runs)} runs are done")
        check_suite(suite, {run.task for run in waiting}, folder, tell, accept)
        run_jobs(waiting, tell)
    return runs


def check_suite(suite: Suite, names: Collection[str], model: Path, tell: Tell, accept: Sequence[str]) -> None:
    """Check the data of some tasks of a suite, and report each finding.

    Args:
        suite: The suite.
        names: The names of the tasks to check. Other tasks are skipped.
        model: The folder of a model. Its tokenizer is used to count tokens.
        tell: Called with a line for each finding.
        accept: Names of the findings to accept, or "all".

    Raises:
        InputError: If a finding that makes scores meaningless is not accepted.
    """
    for task in (task for task in suite.tasks if task.name in names):
        splits = [split for split in task.splits if split.set in ("", task.splits[0].set)]
        files = [task.training, *(split.file for split in splits)]
        hidden = [split.file.path for split in splits if not split.labelled]
        length = task.settings.max_length
        for event in check_data_first(
            task.task, files, accept=accept, unlabelled=hidden, max_length=length, model=model
        ):
            tell(f"warning: {task.name}: {event['message']}")
