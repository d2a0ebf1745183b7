"""`cloze check`: checks labeled data before anything is learned from it; other commands that learn do the same.

Promise: commands that learn check their data first, tell what is doubtful and refuse what would make a score
meaningless, unless it is accepted by its name.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from flows.command.arguments import AsJson
from flows.command.record_files import DEFAULT_FILE_OPTIONS, Accept, FileOptions
from flows.command.terminal import console, print_json
from flows.command.trainer_process import open_model_folder
from flows.recipes.tables import parse_override, parse_setting
from trainer.metrics import Event
from trainer.tasks.checking.check import check_task
from trainer.tasks.checking.findings import DataReport
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.registry import split_settings


def check(
    files: Annotated[list[Path], Parameter(help="Labeled files: that to learn from first, then those to judge by.")],
    *,
    task: Annotated[str, Parameter(help="The kind of task.")],
    model: Annotated[str | None, Parameter(help="The model that would learn: its tokenizer counts tokens.")] = None,
    reading: FileOptions = DEFAULT_FILE_OPTIONS,
    overrides: Annotated[
        list[str] | None,
        Parameter(name="--set", help="key=value, of the task or the training: labels, max_length, ...", negative=()),
    ] = None,
    accept: Accept = (),
    as_json: AsJson = False,
) -> int:
    """Check labeled data before training on it.

    The exit code is 1 if something would make a score meaningless.
    """
    given = {key: parse_setting(text) for key, text in map(parse_override, overrides or [])}
    report = check_data([reading.to_settings(file) for file in files], task, given, model, accept)
    if as_json:
        print_json(report.to_json())
    else:
        console.print(report.paragraph, markup=False)
        for each in report.findings:
            console.print(f"{each.severity}: {each.line}", markup=False, highlight=False)
    return 1 if report.stopping_findings else 0


def check_data(
    files: Sequence[FileSettings], task: str, overrides: Mapping[str, Any], model: str | None, accept: Collection[str]
) -> DataReport:
    """Check the labeled files of a task, and return a report of the findings.

    Args:
        files: The training file, followed by the evaluation files.
        task: The kind of task, such as "classes".
        overrides: Settings of the task or of its fine-tuning, by key.
        model: A model's folder, its folder in a store, or a release. Its tokenizer is used to count tokens. If None,
            lengths in tokens are not checked.
        accept: Names of the findings to accept, or "all".

    Raises:
        InputError: If a file, a setting or the model is not valid.
    """
    table, settings = split_settings(task, overrides, "check")
    if model is None:
        return check_task(table, files, max_length=settings.max_length).accept(accept)
    with open_model_folder(model) as folder:
        return check_task(table, files, max_length=settings.max_length, model=folder).accept(accept)


def check_data_first(
    table: Mapping[str, Any],
    files: Sequence[FileSettings],
    *,
    accept: Collection[str],
    unlabelled: Collection[str] = (),
    max_length: int | None = None,
    model: Path | None = None,
) -> Iterator[Event]:
    """Check the files of a task before training, and yield each finding as an event.

    An event is a dict with the keys "event" ("warning") and "message" (a line for the user).

    Args:
        table: The settings of the task, as in a recipe's `[[task]]` table.
        files: The training file, followed by the evaluation files.
        accept: Names of the findings to accept, or "all".
        unlabelled: Paths of the files that have no labels.
        max_length: The maximum input length in tokens. If None, the task's default.
        model: The folder of a model. Its tokenizer is used to count tokens. If None, lengths are not checked.

    Raises:
        InputError: On the first iteration, if a finding that makes scores meaningless is not accepted.
    """
    report = check_task(table, files, unlabelled=unlabelled, max_length=max_length, model=model).accept(accept)
    report.check()
    for finding in report.findings:
        yield {"event": "warning", "message": finding.line}
