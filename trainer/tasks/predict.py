"""Predicts every record of a file with a fine-tuned model, as lines of JSON, and computes scores if it has labels.

    MODEL, FILE ─► examples ─► items ─► outputs ─► {"line": ..., "label": ..., "probabilities": {...}}

Promise: there is one line for each record, in the order of the file. A record that cannot be used has the reason
instead of a prediction. Settings that are not given are taken from the training file. A file that does not fit the task
is refused. If a label did not occur in training, the prediction counts as wrong.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

from corpora.store.ledger import Ledger
from corpora.store.settings import bind_settings
from trainer.complete_folders import write_lines
from trainer.metrics import print_event
from trainer.ranks import Ranks, join_process_group
from trainer.tasks.data import FileExamples, encode, read_file, select_kept_values, with_defaults_from
from trainer.tasks.folders import LoadedFolder, load_task
from trainer.tasks.formats.records import ID, FileSettings, Values
from trainer.tasks.heads.task_model import compute_answers
from trainer.tasks.task import Prediction, Task


class FileAnswers(NamedTuple):
    """The examples of a file, the ledger that accounts for its records, and the prediction for each example."""

    file: FileExamples
    ledger: Ledger
    predictions: Sequence[Prediction]


def main(arguments: list[str]) -> int:
    """Run `predict MODEL FILE.json OUTPUT [--labelled]`: write the predictions, print an event, and return 0.

    FILE.json contains the settings of the file to read (`FileSettings`). Raises InputError if the file cannot be
    predicted (see `predict`).
    """
    parser = argparse.ArgumentParser(prog="predict", description="Answers of a fine-tuned model to a file.")
    parser.add_argument("model", type=Path, help="folder of a fine-tuned model")
    parser.add_argument("file", type=Path, help="settings of the file, as JSON")
    parser.add_argument("output", type=Path, help="file for the lines")
    parser.add_argument("--labelled", action="store_true", help="the file has labels: report scores as well")
    asked = parser.parse_args(arguments)
    file = bind_settings(FileSettings, json.loads(asked.file.read_text(encoding="utf-8")), "file")
    with join_process_group() as ranks:
        done = predict(asked.model, file, asked.output, asked.labelled, ranks)
    print_event({"event": "done", **done})
    return 0


def predict(folder: Path, file: FileSettings, output: Path, labelled: bool, ranks: Ranks) -> dict[str, Any]:
    """Predict each record of a file with the model of a folder, and write the predictions as JSON lines.

    Args:
        folder: The folder of a fine-tuned model.
        file: The file. Settings that are not given are taken from the training file.
        output: The file to write.
        labelled: True if the file has labels, so that scores are computed.
        ranks: The processes that share the work. All must call this function.

    Returns:
        A summary with the keys `examples` (their number), `task` (the kind), `scores` (by metric), and `ledger`.

    Raises:
        InputError: If the model has no task, the file cannot be read, or the output cannot be written.
    """
    loaded = load_task(folder)
    loaded.model.to(ranks.device)
    answers = predict_file(folder, loaded, with_defaults_from(file, loaded.file), labelled, ranks)
    write_answers(output, loaded.task, answers)
    examples = answers.file.examples
    scores = loaded.task.compute_scores(examples, answers.predictions) if labelled else {}
    return {"examples": len(examples), "task": loaded.task.kind, "scores": scores, "ledger": answers.ledger.to_json()}


def predict_file(folder: Path, loaded: LoadedFolder, file: FileSettings, labelled: bool, ranks: Ranks) -> FileAnswers:
    """Compute the predictions of a loaded model for all examples of a file. All processes must call this function.

    Args:
        folder: The folder of the model, which contains its tokenizer.
        loaded: The loaded model of the folder.
        file: The file and how to read it.
        labelled: True if the examples must have labels.
        ranks: The processes that share the work.

    Raises:
        InputError: If the file cannot be read or has no example that the task can use.
    """
    examples = read_file(loaded.task, file, labelled)
    encoded = encode(loaded.task, examples, loaded.task.build_text_encoder(folder, loaded.inputs, loaded.max_length))
    answers, _ = compute_answers(loaded.model, loaded.task, encoded.items, ranks)
    return FileAnswers(examples, encoded.ledger, loaded.task.make_predictions(encoded.examples, encoded.items, answers))


def write_answers(output: Path, task: Task, answers: FileAnswers) -> None:
    """Write a JSON line for each record of a file, with the keys of `iter_answer_rows`.

    The file appears when complete. Numbers are written in full precision.

    Args:
        output: The file to write.
        task: The task of the model.
        answers: The examples and predictions.

    Raises:
        InputError: If the file cannot be written.
    """
    write_lines(
        output, (json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in iter_answer_rows(task, answers))
    )


def iter_answer_rows(task: Task, answers: FileAnswers) -> Iterator[dict[str, Any]]:
    """Yield a row for each record of a file, in order, with the keys `line`, `id`, `kept` and those of `Task.to_row`.

    `id` and `kept` are omitted if the record has none. An unusable record has `unusable`, the reason, instead of a
    prediction. Rows of labeled examples also have the keys of `Task.judge`.
    """
    file = answers.file
    given = zip(file.lines, file.ids, file.kept or repeat({}), file.examples, answers.predictions)  # noqa: B905
    dropped = {each.number: each for each in file.counts.dropped}
    for number in range(file.counts.rows):
        if number in dropped:
            _, line, reason, names = dropped[number]
            yield {**_name_record(line, names.get(ID), select_kept_values(names)), "unusable": reason}
        else:
            line, name, kept, example, prediction = next(given)
            judged = task.judge(example, prediction) if file.labelled else {}
            yield {**_name_record(line, name, kept), **task.to_row(example, prediction), **judged}


def _name_record(line: int, name: Any, kept: Values) -> dict[str, Any]:
    """Build the keys that identify a record in its file: `line` and, if present, `id` and `kept`."""
    return {"line": line, **({} if name is None else {ID: name}), **({"kept": kept} if kept else {})}
