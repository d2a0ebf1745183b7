"""`cloze predict`: a fine-tuned model's predictions for a file's records, by the trainer's process."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from corpora.errors import InputError
from flows.command.arguments import AsJson, is_standard_output
from flows.command.record_files import DEFAULT_FILE_OPTIONS, FileOptions, hold_piped_file
from flows.command.terminal import choose_printer, print_json, print_lines
from flows.command.trainer_process import iter_trainer_events, open_job_file, open_model_folder
from flows.run.record.task_scores import describe_ledger
from flows.signals import open_scratch_folder
from trainer.metrics import Event
from trainer.tasks.formats.records import FileSettings


def predict(
    model: Annotated[str, Parameter(help="The folder that `cloze finetune` wrote, or one of Hugging Face's form.")],
    file: Annotated[Path, Parameter(help="Records to predict; - reads the standard input.")],
    *,
    output: Annotated[
        Path | None, Parameter(help="File for the answers, a line of JSON for each record; default: standard output.")
    ] = None,
    reading: FileOptions = DEFAULT_FILE_OPTIONS,
    keep: Annotated[
        list[str] | None,
        Parameter(help="A column of the file to write with each answer; may be repeated.", negative=()),
    ] = None,
    labelled: Annotated[
        bool, Parameter(help="The records have labels: write them and each row's score, report all.", negative=())
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a fine-tuned model's answer to each record of a file."""
    asked = reading.to_settings(file, keep or ())
    if output is None or is_standard_output(output):
        if as_json:
            raise InputError("--json prints one document, and the answers are lines: name their file (--output FILE).")
        print_predictions(model, asked, labelled, choose_printer(as_json=True))
        return
    facts = predict_file(model, asked, output, labelled, choose_printer(as_json))
    if as_json:
        print_json(facts)
    else:
        print_lines(f"Answers: {output}")


def print_predictions(model: str, file: FileSettings, labelled: bool, tell: Callable[[str], None]) -> None:
    """Predict each record of a file with a fine-tuned model, and print the predictions as JSON lines.

    The arguments and errors are those of `predict_file`.
    """
    with open_scratch_folder() as scratch:
        answers = scratch / "answers.jsonl"
        predict_file(model, file, answers, labelled, tell)
        sys.stdout.flush()
        with answers.open("rb") as lines:
            shutil.copyfileobj(lines, sys.stdout.buffer)


def predict_file(model: str, file: FileSettings, output: Path, labelled: bool, tell: Callable[[str], None]) -> Event:
    """Predict each record of a file with a fine-tuned model, and write the predictions as JSON lines to another file.

    Args:
        model: A fine-tuned model's folder, its folder in a store, or a release.
        file: The records.
        output: The file to write, with one line for each record.
        labelled: True if the records have labels. Then each line has a score, and overall scores are reported.
        tell: Called with a line of record counts, and with a line for each overall score.

    Returns:
        A dict with the keys "task", "ledger" (counts of records, by outcome), "scores" (by metric) and "output" (the
        path).

    Raises:
        InputError: If an argument is not valid.
        TrainingFailed: If the trainer's process fails.
    """
    with (
        open_model_folder(model, ("tasks", "models")) as folder,
        hold_piped_file(file) as whole,
        open_job_file(whole) as path,
    ):
        flags = ["--labelled"] if labelled else []
        for event in iter_trainer_events("predict", *flags, "--", str(folder), path, str(output.resolve())):
            task = str(event["task"])
            tell(f"{task}: {describe_ledger(event['ledger'])}")
            for name, value in event["scores"].items():
                tell(f"{name} {value:.4g}")
    return {"task": task, "ledger": event["ledger"], "scores": event["scores"], "output": str(output)}
