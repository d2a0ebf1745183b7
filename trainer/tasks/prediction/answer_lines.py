"""Answers to the records of a file as lines of JSON, and the command that has them written. No torch.

predict MODEL FILE.json OUTPUT [--labelled] [--int8]     FILE.json: settings of the file to read (`FileSettings`)
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from corpora.store.ledger import Ledger
from corpora.store.settings import bind
from trainer.complete_folders import write_lines
from trainer.metrics import line, speak
from trainer.tasks.contract import Example, Prediction, Task
from trainer.tasks.data import ID, FileExamples
from trainer.tasks.formats.records import FileSettings


class FileAnswers(NamedTuple):
    """A file's examples, what became of its records, and a model's answer to each."""

    file: FileExamples
    ledger: Ledger
    predictions: Sequence[Prediction]


def answer(arguments: list[str], answered: Callable[[Path, FileSettings, bool, bool], tuple[Task, FileAnswers]]) -> int:
    """Write the lines, report an event with what was done; return 0. Raises InputError.

    answered: answers a file by the model of a folder; the flags: it is labelled, and weights of eight bits are used
    """
    parser = argparse.ArgumentParser(prog="predict", description="Answers of a fine-tuned model to a file.")
    parser.add_argument("model", type=Path, help="folder of a fine-tuned model")
    parser.add_argument("file", type=Path, help="settings of the file, as JSON")
    parser.add_argument("output", type=Path, help="file for the lines")
    parser.add_argument("--labelled", action="store_true", help="the file has labels: report scores as well")
    parser.add_argument("--int8", action="store_true", help="use the eight-bit weights of an ONNX folder")
    asked = parser.parse_args(arguments)
    file = bind(FileSettings, json.loads(asked.file.read_text(encoding="utf-8")), "file")
    task, answers = answered(asked.model, file, asked.labelled, asked.int8)
    speak(line({"event": "done", **written_answers(asked.output, asked.labelled, task, answers)}))
    return 0


def written_answers(output: Path, labelled: bool, task: Task, answers: FileAnswers) -> dict[str, Any]:
    """Write a line for each record; return a summary, with scores where there are labels. Raises InputError."""
    write_answers(output, task, answers)
    examples = answers.file.examples
    scores = task.scores(examples, answers.predictions) if labelled else {}
    return {"examples": len(examples), "task": task.kind, "scores": scores, "ledger": answers.ledger.to_json()}


def write_answers(output: Path, task: Task, answers: FileAnswers) -> None:
    """Write a line of JSON for each example, in one step. Raises InputError where the file cannot be written."""
    rows = zip(answers.file.lines, answers.file.ids, answers.file.examples, answers.predictions, strict=True)
    write_lines(output, (json.dumps(_row(task, *row), ensure_ascii=False) + "\n" for row in rows))


def _row(task: Task, line: int, name: Any, example: Example, prediction: Prediction) -> dict[str, Any]:
    """Return a line of the output."""
    named = {} if name is None else {ID: name}
    return {"line": line, **named, **task.row(example, prediction)}
