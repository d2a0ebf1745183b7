"""`cloze predict`: a fine-tuned model's predictions for a file's records, by the trainer's process."""

import json
from collections.abc import Callable
from pathlib import Path

from corpora.errors import InputError
from corpora.store.places.files import replaced_file
from flows.command.tasks.piped import from_pipe
from flows.command.trainer_process import job_file, model_folder, trainer_events
from flows.run.task_lines import ledger_line
from trainer.metrics import Event
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.kinds.answers import SpanTask, official_answers


def predict_file(
    model: str,
    file: FileSettings,
    output: Path,
    labelled: bool,
    tell: Callable[[str], None],
    *,
    official: Path | None = None,
) -> Event:
    """Write a line of JSON for each record; print what was done, and scores; return both.

    Raises InputError, or TrainingFailed.

    official: file for answers that are spans, as SQuAD's script reads them
    """
    with model_folder(model, ("tasks", "models")) as folder, from_pipe(file) as whole, job_file(whole) as path:
        flags = ["--labelled"] if labelled else []
        for event in trainer_events("predict", *flags, "--", str(folder), path, str(output.resolve())):
            task = str(event["task"])
            tell(f"{task}: {ledger_line(event['ledger'])}")
            for name, value in event["scores"].items():
                tell(f"{name} {value:.4g}")
    tell(f"Answers: {output}")
    if official is not None:
        write_official(output, official, task, tell)
    return {"task": task, "ledger": event["ledger"], "scores": event["scores"], "output": str(output)}


def write_official(output: Path, official: Path, task: str, tell: Callable[[str], None]) -> None:
    """Write the answers in an output's lines, and for SQuAD 2.0 the probabilities of no answer. Raises InputError."""
    if task != SpanTask.kind:
        raise InputError(f"--official is SQuAD's form, and the model's task is {task!r}: leave it out.")
    with output.open(encoding="utf-8") as lines:
        answers = official_answers(map(json.loads, lines))
    files = {official: answers.texts, official.with_suffix(".na_prob.json"): answers.no_answer}
    for path, content in files.items():
        if content:
            with replaced_file(path) as new:
                new.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
            tell(f"For the official script: {path}")
