"""`cloze predict`: a fine-tuned model's predictions for a file's records, by the trainer's process."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from flows.command.tasks.piped import from_pipe
from flows.command.trainer_process import job_file, model_folder, trainer_events
from flows.run.record.task_scores import describe_ledger
from flows.signals import scratch_folder
from trainer.metrics import Event
from trainer.tasks.formats.records import FileSettings


def print_predictions(model: str, file: FileSettings, labelled: bool, tell: Callable[[str], None]) -> None:
    """Print a line of JSON for each record on standard output. Raises as `predict_file` does."""
    with scratch_folder() as scratch:
        answers = scratch / "answers.jsonl"
        predict_file(model, file, answers, labelled, tell)
        sys.stdout.flush()
        with answers.open("rb") as lines:
            shutil.copyfileobj(lines, sys.stdout.buffer)


def predict_file(model: str, file: FileSettings, output: Path, labelled: bool, tell: Callable[[str], None]) -> Event:
    """Write a line of JSON for each record; tell what was done, and scores; return both.

    Raises InputError, or TrainingFailed.
    """
    with model_folder(model, ("tasks", "models")) as folder, from_pipe(file) as whole, job_file(whole) as path:
        flags = ["--labelled"] if labelled else []
        for event in trainer_events("predict", *flags, "--", str(folder), path, str(output.resolve())):
            task = str(event["task"])
            tell(f"{task}: {describe_ledger(event['ledger'])}")
            for name, value in event["scores"].items():
                tell(f"{name} {value:.4g}")
    return {"task": task, "ledger": event["ledger"], "scores": event["scores"], "output": str(output)}
