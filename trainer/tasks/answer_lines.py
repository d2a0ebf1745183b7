"""Answers to the records of a file as lines of JSON. No torch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from corpora.errors import InputError
from corpora.store.files import replaced_file
from corpora.store.ledger import Ledger
from trainer.tasks.contract import Example, Prediction, Task
from trainer.tasks.data import ID, FileExamples


class FileAnswers(NamedTuple):
    """A file's examples, what became of its records, and what a model says of each."""

    found: FileExamples
    ledger: Ledger
    predictions: Sequence[Prediction]


def write_answers(output: Path, task: Task, told: FileAnswers) -> None:
    """A line of JSON for each example, in one step. Raises InputError where the file cannot be written."""
    rows = zip(told.found.lines, told.found.ids, told.found.examples, told.predictions, strict=True)
    lines = (json.dumps(_row(task, *row), ensure_ascii=False) for row in rows)
    try:
        with replaced_file(output) as new, new.open("w", encoding="utf-8") as file:
            file.writelines(f"{each}\n" for each in lines)
    except OSError as error:
        raise InputError(
            f"Cannot write {output}: {error.strerror}. Give a file in a folder that is there, with room."
        ) from error


def _row(task: Task, line: int, name: Any, example: Example, prediction: Prediction) -> dict[str, Any]:
    """A line of the output."""
    named = {} if name is None else {ID: name}
    return {"line": line, **named, **task.said(example, prediction)}
