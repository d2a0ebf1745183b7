"""Answers to the records of a file as lines of JSON. No torch."""

import json
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

from corpora.store.ledger import Ledger
from trainer.complete_folders import write_lines
from trainer.tasks.contract import Prediction, Task
from trainer.tasks.data import FileExamples, kept_values
from trainer.tasks.formats.records import ID, Values


class FileAnswers(NamedTuple):
    """A file's examples, what became of its records, and a model's answer to each."""

    file: FileExamples
    ledger: Ledger
    predictions: Sequence[Prediction]


def written_answers(output: Path, labelled: bool, task: Task, answers: FileAnswers) -> dict[str, Any]:
    """Write a line for each record; return a summary, with scores where there are labels. Raises InputError."""
    write_answers(output, task, answers)
    examples = answers.file.examples
    scores = task.scores(examples, answers.predictions) if labelled else {}
    return {"examples": len(examples), "task": task.kind, "scores": scores, "ledger": answers.ledger.to_json()}


def write_answers(output: Path, task: Task, answers: FileAnswers) -> None:
    """Write a line of JSON for each record, in one step. Raises InputError where the file cannot be written.

    A number is written with all its digits, so scores of the lines are those of the answers.
    """
    write_lines(output, (json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in answer_rows(task, answers)))


def answer_rows(task: Task, answers: FileAnswers) -> Iterator[dict[str, Any]]:
    """Yield what is written of each record of a file, in its order: its line and names, and the answer or why none.

    Of a file that is labelled also what `Task.judged` has of an example.
    """
    file = answers.file
    given = zip(file.lines, file.ids, file.kept or repeat({}), file.examples, answers.predictions)  # noqa: B905
    dropped = {each.number: each for each in file.counts.dropped}
    for number in range(file.counts.rows):
        if number in dropped:
            _, line, reason, names = dropped[number]
            yield {**_named(line, names.get(ID), kept_values(names)), "unusable": reason}
        else:
            line, name, kept, example, prediction = next(given)
            judged = task.judged(example, prediction) if file.labelled else {}
            yield {**_named(line, name, kept), **task.row(example, prediction), **judged}


def _named(line: int, name: Any, kept: Values) -> dict[str, Any]:
    """Return how a row is found in its file."""
    return {"line": line, **({} if name is None else {ID: name}), **({"kept": kept} if kept else {})}
