"""Predictions of a model in a folder of ONNX files for every record, without torch; output as `predict`'s."""

from pathlib import Path

from trainer.tasks.contract import Task
from trainer.tasks.data import encode, read_file
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.portable.answering import onnx_answers
from trainer.tasks.portable.folder import read_folder
from trainer.tasks.prediction.answer_lines import FileAnswers, answer
from trainer.tasks.text_encoder import TextEncoder


def main(arguments: list[str]) -> int:
    """`predict-onnx FOLDER FILE.json OUTPUT [--labelled] [--int8]`: as `answer_lines.answer`."""
    return answer(arguments, answered)


def answered(folder: Path, file: FileSettings, labelled: bool, int8: bool) -> tuple[Task, FileAnswers]:
    """Return the folder's task, and its model's answers to a file. Raises InputError."""
    source = read_folder(folder, int8)
    files, task = source.opened(), source.task
    examples = read_file(task, file, labelled)
    encoded = encode(task, examples, TextEncoder.of(folder, source.inputs, source.max_length))
    answers = onnx_answers(files, task, encoded.items, source.weights)
    return task, FileAnswers(examples, encoded.ledger, task.predictions(encoded.examples, encoded.items, answers))
