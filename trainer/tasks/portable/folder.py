"""A folder of ONNX files as it is read again, and its answers to a file, without torch.

`onnx.json` holds all that an answer needs. Promise: files of other bytes than were written, and those of another
folder, are refused before they answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.store.settings import bind
from trainer.families.contract import ModelInputs, SpecialIds
from trainer.huggingface.config import read_json
from trainer.tasks.contract import Task
from trainer.tasks.data import encode, read_alike, read_file, sha256_of
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.portable.running import OnnxFiles
from trainer.tasks.prediction.answer_lines import FileAnswers, answer
from trainer.tasks.registry import read_task

TABLE = "onnx.json"
FLOAT32, INT8 = ".onnx", ".int8.onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxFolder:
    """The content of a folder. files: the first reads a text's first sequence; learnt_from: the training file"""

    task: Task
    inputs: ModelInputs
    max_length: int
    files: tuple[Path, ...]
    learnt_from: Mapping[str, Any]


def main(arguments: list[str]) -> int:
    """`predict-onnx FOLDER FILE.json OUTPUT [--labelled] [--int8]`: as `answer_lines.answer`."""
    return answer(arguments, answered)


def answered(folder: Path, file: FileSettings, labelled: bool, int8: bool) -> tuple[Task, FileAnswers]:
    """Return the folder's task, and its model's answers to a file. Raises InputError."""
    source = read_folder(folder, int8)
    files, task = OnnxFiles(source.files, source.inputs.special_ids.pad), source.task
    examples = read_file(task, read_alike(file, source.learnt_from), labelled)
    encoded = encode(task, examples, task.text_encoder(folder, source.inputs, source.max_length))
    answers = files.answers(encoded.items, task.unit)
    return task, FileAnswers(examples, encoded.ledger, task.predictions(encoded.examples, encoded.items, answers))


def read_folder(folder: Path, int8: bool) -> OnnxFolder:
    """Read a folder. Raises InputError for one that `onnx` did not write, or that is incomplete."""
    table = folder / TABLE
    content = read_json(table)
    if content.get("task", table) is None:
        raise InputError(f"{folder} is an encoder without a task: it makes no predictions.")
    try:
        sums = content["sha256"]
        task = read_task(content["task"], str(table))
        special = bind(SpecialIds, content["special_ids"], "special_ids")
        files = tuple(_checked(folder / name, sums) for name in content["files"]["int8" if int8 else "float32"])
        inputs = ModelInputs(vocab_size=content["vocab_size"], special_ids=special)
        length = int(content["max_length"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{table} lacks what an answer needs ({error}): write the folder again.") from error
    if not files:
        raise InputError(f"{folder} has no eight-bit weights: write it with --int8, or leave --int8 out.")
    learnt_from = content.get("learnt_from", {})
    return OnnxFolder(task=task, inputs=inputs, max_length=length, files=files, learnt_from=learnt_from)


def _checked(path: Path, sums: Mapping[str, Any]) -> Path:
    """Raise InputError for a file that is missing or has other bytes."""
    if not path.is_file():
        raise InputError(f"{path} is missing, and {TABLE} names it: copy the folder again, with all its files.")
    if sha256_of(str(path)) != sums[path.name]:
        raise InputError(
            f"{path} is not the file that was written with its {TABLE}: it is damaged, or of another model. Copy the "
            "folder again, with all its files."
        )
    return path
