"""What a model in a folder of ONNX says of every record of a file, without torch; lines and scores as `predict`'s."""

import argparse
import json
from pathlib import Path
from typing import Any

from corpora.store.settings import bind
from trainer.metrics import line, speak
from trainer.tasks.answer_lines import FileAnswers, write_answers
from trainer.tasks.data import encode, read_file
from trainer.tasks.encoding import TextEncoder
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.portable.answering import onnx_answers
from trainer.tasks.portable.folder import read_folder


def main(arguments: list[str]) -> int:
    """`predict-onnx FOLDER FILE.json OUTPUT [--labelled] [--int8]`: write the lines, tell what was done; 0.

    FILE.json: the settings of the file to read (`FileSettings`). Raises InputError.
    """
    parser = argparse.ArgumentParser(prog="predict-onnx", description="What a folder of ONNX says of a file.")
    parser.add_argument("model", type=Path, help="folder that `onnx` wrote")
    parser.add_argument("file", type=Path, help="settings of the file, as JSON")
    parser.add_argument("output", type=Path, help="file for the lines")
    parser.add_argument("--labelled", action="store_true", help="the file has labels: tell scores as well")
    parser.add_argument("--int8", action="store_true", help="by the weights of eight bits")
    asked = parser.parse_args(arguments)
    file = bind(FileSettings, json.loads(asked.file.read_text(encoding="utf-8")), "file")
    speak(line({"event": "done", **predict_onnx(asked.model, file, asked.output, asked.labelled, asked.int8)}))
    return 0


def predict_onnx(folder: Path, file: FileSettings, output: Path, labelled: bool, int8: bool) -> dict[str, Any]:
    """Write a line for each record; what was done, with scores where there are labels. Raises InputError."""
    source = read_folder(folder, int8)
    files, task = source.opened(), source.task
    found = read_file(task, file, labelled)
    encoded = encode(task, found, TextEncoder.of(folder, source.inputs, source.max_length))
    answers = onnx_answers(files, task, encoded.items, source.weights)
    told = FileAnswers(found, encoded.ledger, task.predictions(encoded.examples, encoded.items, answers))
    write_answers(output, task, told)
    scores = task.scores(found.examples, told.predictions) if labelled else {}
    return {"examples": len(found.examples), "task": task.kind, "scores": scores, "ledger": encoded.ledger.to_json()}
