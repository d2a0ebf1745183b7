"""A folder of ONNX files as it is read again, without torch: `onnx.json` holds all that an answer needs.

Promise: files of other bytes than were written, and those of another folder, are refused before they answer.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file

from corpora.errors import InputError
from corpora.store.settings import bind
from trainer.families.contract import ModelInputs, SpecialIds
from trainer.huggingface.config import read_json
from trainer.tasks.contract import Task
from trainer.tasks.portable.answering import Weights, needed_weights
from trainer.tasks.portable.running import OnnxFiles
from trainer.tasks.registry import read_task

TABLE = "onnx.json"
MORE = "task.safetensors"  # what the ONNX files do not hold
FLOAT32, INT8 = ".onnx", ".int8.onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxFolder:
    """The content of a folder. files: the first reads a text's first sequence; weights: as `needed_weights` names"""

    task: Task
    inputs: ModelInputs
    max_length: int
    files: tuple[Path, ...]
    weights: Weights

    def opened(self, threads: int = 0) -> OnnxFiles:
        """Ready to answer. Raises InputError."""
        return OnnxFiles(self.files, self.inputs.special_ids.pad, threads)


def read_folder(folder: Path, int8: bool) -> OnnxFolder:
    """Read a folder. Raises InputError for one that `onnx` did not write, or that is incomplete."""
    table = folder / TABLE
    content = read_json(table)
    if content.get("task") is None and "files" in content:
        raise InputError(f"{folder} is an encoder without a task: it makes no predictions.")
    try:
        named, sums = content["files"]["int8" if int8 else "float32"], content["sha256"]
        task = read_task(content["task"], str(table))
        special = bind(SpecialIds, content["special_ids"], "special_ids")
        inputs = ModelInputs(vocab_size=content["vocab_size"], special_ids=special)
        checked = tuple(_checked(folder / name, sums) for name in named)
        more = load_file(_checked(folder / MORE, sums)) if needed_weights(task) else {}
        length = int(content["max_length"])
    except (KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise InputError(f"{table} lacks what an answer needs ({error}): write the folder again.") from error
    if not checked:
        raise InputError(f"{folder} has no eight-bit weights: write it with --int8, or leave --int8 out.")
    return OnnxFolder(task=task, inputs=inputs, max_length=length, files=checked, weights=more)


def _checked(path: Path, sums: Mapping[str, Any]) -> Path:
    """Raise InputError for a file that is missing or has other bytes."""
    if not path.is_file():
        raise InputError(f"{path} is missing, and {TABLE} names it: copy the folder again, with all its files.")
    if sha256_of(path) != sums[path.name]:
        raise InputError(
            f"{path} is not the file that was written with its {TABLE}: it is damaged, or of another model. Copy the "
            "folder again, with all its files."
        )
    return path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
