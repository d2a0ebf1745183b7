"""Predictions of a fine-tuned model for every record of a file, as lines of JSON; scores where the file has labels.

    MODEL, FILE ─► examples ─► items ─► answers ─► {"line": ..., "label": ..., "probabilities": {...}}

Promise: one line for each record, in the order of the file; one that cannot be used has the reason in place of an
answer. A file is read as that of training was, where it does not say otherwise; one of another task is refused. A label
that training did not have counts as a wrong answer.
"""

import argparse
import json
from pathlib import Path

from corpora.store.settings import bind
from trainer.metrics import line, speak
from trainer.tasks.contract import Task
from trainer.tasks.data import encode, read_alike, read_file
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.task_model import answers_of
from trainer.tasks.prediction.answer_lines import FileAnswers, written_answers
from trainer.tasks.saving import Loaded, load_task
from trainer.training.parallel import Ranks, joined


def main(arguments: list[str]) -> int:
    """Run `predict MODEL FILE.json OUTPUT [--labelled]`: write the lines, report an event; return 0. Raises InputError.

    FILE.json: settings of the file to read (`FileSettings`)
    """
    parser = argparse.ArgumentParser(prog="predict", description="Answers of a fine-tuned model to a file.")
    parser.add_argument("model", type=Path, help="folder of a fine-tuned model")
    parser.add_argument("file", type=Path, help="settings of the file, as JSON")
    parser.add_argument("output", type=Path, help="file for the lines")
    parser.add_argument("--labelled", action="store_true", help="the file has labels: report scores as well")
    asked = parser.parse_args(arguments)
    file = bind(FileSettings, json.loads(asked.file.read_text(encoding="utf-8")), "file")
    with joined() as ranks:
        task, answers = of_folder(asked.model, file, asked.labelled, ranks)
    speak(line({"event": "done", **written_answers(asked.output, asked.labelled, task, answers)}))
    return 0


def of_folder(folder: Path, file: FileSettings, labelled: bool, ranks: Ranks) -> tuple[Task, FileAnswers]:
    """Return the task of a folder's model, and its answers to a file. All processes must call it. Raises InputError."""
    loaded = load_task(folder)
    loaded.model.to(ranks.device)
    return loaded.task, answered(folder, loaded, read_alike(file, loaded.file), labelled, ranks)


def answered(folder: Path, loaded: Loaded, file: FileSettings, labelled: bool, ranks: Ranks) -> FileAnswers:
    """Return the answers of a folder's model to a file. All processes must call it. Raises InputError."""
    examples = read_file(loaded.task, file, labelled)
    encoded = encode(loaded.task, examples, loaded.task.text_encoder(folder, loaded.inputs, loaded.max_length))
    answers, _ = answers_of(loaded.model, loaded.task, encoded.items, ranks)
    return FileAnswers(examples, encoded.ledger, loaded.task.predictions(encoded.examples, encoded.items, answers))
