"""What a fine-tuned model says of every record of a file, as lines of JSON; scores where the file has labels.

    MODEL, FILE ─► examples ─► items ─► answers ─► {"line": ..., "label": ..., "probabilities": {...}}

Promise: one line for each record that can be used, in the order of the file; the others are counted with their reason.
A file of another task, and labels that training did not have, are refused.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from corpora.store.settings import bind
from trainer.metrics import line, speak
from trainer.tasks.answer_lines import FileAnswers, write_answers
from trainer.tasks.data import encode, read_file
from trainer.tasks.encoding import TextEncoder
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.task_model import answers_of
from trainer.tasks.saving import Loaded, load_task
from trainer.training.parallel import Ranks, joined


def main(arguments: list[str]) -> int:
    """`predict MODEL FILE.json OUTPUT [--labelled]`: write the lines, tell an event with what was done; 0.

    FILE.json: the settings of the file to read (`FileSettings`). Raises InputError.
    """
    parser = argparse.ArgumentParser(prog="predict", description="What a fine-tuned model says of a file.")
    parser.add_argument("model", type=Path, help="folder of a fine-tuned model")
    parser.add_argument("file", type=Path, help="settings of the file, as JSON")
    parser.add_argument("output", type=Path, help="file for the lines")
    parser.add_argument("--labelled", action="store_true", help="the file has labels: tell scores as well")
    asked = parser.parse_args(arguments)
    file = bind(FileSettings, json.loads(asked.file.read_text(encoding="utf-8")), "file")
    with joined() as ranks:
        speak(line({"event": "done", **predict(asked.model, file, asked.output, asked.labelled, ranks)}))
    return 0


def predict(folder: Path, file: FileSettings, output: Path, labelled: bool, ranks: Ranks) -> dict[str, Any]:
    """Write a line for each record; what was done, with scores where there are labels. Raises InputError."""
    loaded = load_task(folder)
    loaded.model.to(ranks.device)
    told = answered(folder, loaded, file, labelled, ranks)
    if ranks.rank == 0:
        write_answers(output, loaded.task, told)
    examples = told.found.examples
    scores = loaded.task.scores(examples, told.predictions) if labelled else {}
    return {"examples": len(examples), "task": loaded.task.kind, "scores": scores, "ledger": told.ledger.to_json()}


def answered(folder: Path, loaded: Loaded, file: FileSettings, labelled: bool, ranks: Ranks) -> FileAnswers:
    """What the model of a folder says of a file. All processes must call it. Raises InputError."""
    found = read_file(loaded.task, file, labelled)
    encoded = encode(loaded.task, found, TextEncoder.of(folder, loaded.inputs, _length(loaded)))
    with torch.inference_mode():
        answers, _ = answers_of(loaded.model, loaded.task, encoded.items, ranks, judging=False)
    return FileAnswers(found, encoded.ledger, loaded.task.predictions(encoded.examples, encoded.items, answers))


def _length(loaded: Loaded) -> int:
    positions = loaded.settings.positions
    return min(loaded.max_length or max(loaded.task.usual_length, positions), positions)
