"""`onnx`: a model as a file of ONNX, with its tokenizer beside it; and what it takes there, next to how good it is.

    model.onnx         float32; inputs and output as `running` says, batch and length free
    model.int8.onnx    where asked for: weights as whole numbers of eight bits, and what they are multiplied with
    onnx.json          inputs, output, and the table: parameters, file, memory and time of each, with its scores
    tokenizer.json, config.json, finetune.json    as they were

What is written is compared with our model before anything appears in the output folder. Scores are those of the task on
the file of labelled examples that is given; of one of other answers than ours they would differ.

Whole numbers have seven of the eight bits, by row of each matrix: processors without an instruction for sums of such
products add them up in 16 bits, which would overflow (onnxruntime: `reduce_range`).

Cost: a BERT of two layers of 128 on the 1,821 rows of SST-2's dev set: written, scored and measured in 15 s of one
x86-64 core. Of it (2026-11-23, `cloze onnx --int8 --evaluate`): 440, 66 and 64 MB; 2.1, 0.5 and 0.3 ms a text; 66.5,
66.5 and 66.6 % right; by torch, ONNX and int8.
"""

import argparse
import importlib.util
import json
import logging
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from corpora.errors import InputError
from corpora.kernels.arrays import Int32s
from corpora.store.files import unfinished
from corpora.store.settings import bind
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.huggingface.config import CONFIG
from trainer.metrics import line, speak
from trainer.model.objective import count_parameters
from trainer.tasks.batching import batch_of_items
from trainer.tasks.contract import TaskItem, Tokens
from trainer.tasks.course import answers_of
from trainer.tasks.data import EncodedExamples, encode, named_file, read_file
from trainer.tasks.encoding import TextEncoder
from trainer.tasks.finetune import TOKENIZER_FILES
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.portable.measuring import measure
from trainer.tasks.portable.padded import SEQUENCE, PaddedModel
from trainer.tasks.portable.running import IDS, MASK, SEGMENTS, OnnxModel, onnxruntime_here
from trainer.tasks.portable.source import PortableModel, read_source
from trainer.tasks.saving import MORE, RECORD, written_json
from trainer.training.parallel import joined

FLOAT32, INT8, TABLE = "model.onnx", "model.int8.onnx", "onnx.json"
BESIDE = (*TOKENIZER_FILES, "tokenizer_config.json", CONFIG, RECORD)
COMPARED = 16  # items by which what is written is compared with our model
DIFFERENT = 1e-3  # as a share of the largest number that a model says
TIMED = 50  # texts
LENGTHS = (4, 8, 16, 32, 64, 128)  # of texts where none are given

Outputs = list[npt.NDArray[Any]]


def main(arguments: list[str]) -> int:
    """`onnx MODEL OUTPUT [--int8] [--file FILE.json]`: write, measure, tell an event with the table; 0.

    FILE.json: the settings of a file of labelled examples (`FileSettings`). Raises InputError.
    """
    parser = argparse.ArgumentParser(prog="onnx", description="A model as a file of ONNX.")
    parser.add_argument("model", type=Path, help="folder of a model")
    parser.add_argument("output", type=Path, help="the folder to write; it must not hold anything yet")
    parser.add_argument("--int8", action="store_true", help="write the weights as whole numbers of eight bits too")
    parser.add_argument("--file", type=Path, help="settings of a file of labelled examples, as JSON")
    asked = parser.parse_args(arguments)
    said = json.loads(asked.file.read_text(encoding="utf-8")) if asked.file else None
    file = None if said is None else bind(FileSettings, said, "file")
    speak(line({"event": "done", **export_onnx(asked.model, asked.output, asked.int8, file)}))
    return 0


def export_onnx(folder: Path, output: Path, int8: bool, file: FileSettings | None) -> dict[str, Any]:
    """Write the folder; what `onnx.json` says. Raises InputError.

    int8: whether whole numbers are written too; file: labelled examples to score and time by
    """
    _check(output)
    source = read_source(folder)
    encoded = _encoded(source, folder, file)
    items = encoded.items if encoded is not None else made_items(source)
    new = unfinished(output, alone=True)
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    write_onnx(source, new / FLOAT32)
    if int8:
        write_int8(new / FLOAT32, new / INT8)
    for name in BESIDE:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, new / name)
    table = [_row(source, path, items, encoded) for path in (folder, new / FLOAT32, *([new / INT8] if int8 else []))]
    _check_equal(table[1]["difference"], folder)
    told = _told(source, table, file)
    written_json(new / TABLE, told)
    if output.is_dir():
        output.rmdir()  # seen to be empty
    new.rename(output)
    return told


def _check(output: Path) -> None:
    """Raise InputError where the folder holds something or a library is missing."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"The output folder {output} is not empty: name another, or remove what is there.")
    onnxruntime_here()
    if importlib.util.find_spec("onnxscript") is None or importlib.util.find_spec("onnx") is None:
        raise InputError("Writing ONNX needs the packages onnx and onnxscript: install the extra `onnx`.")


def _encoded(source: PortableModel, folder: Path, file: FileSettings | None) -> EncodedExamples | None:
    """The labelled examples. Raises InputError where the model has no task."""
    if file is None:
        return None
    if source.task is None:
        raise InputError(f"{folder} is an encoder without a task, which no labelled examples judge: leave them out.")
    found = read_file(source.task, file)
    return encode(source.task, found, TextEncoder.of(folder, source.inputs, source.max_length))


def made_items(source: PortableModel) -> list[TaskItem]:
    """Texts of several lengths, of words drawn from the vocabulary; the same for every model of its size."""
    drawn, special = np.random.default_rng(0), source.inputs.special_ids
    lengths = sorted({min(length, source.max_length) for length in LENGTHS})
    rows = [drawn.integers(0, source.inputs.vocab_size, length).astype(np.int32) for length in lengths]
    return [_item(_framed(row, special.cls, special.sep), number) for number, row in enumerate(rows)]


def _framed(ids: Int32s, first: int, last: int) -> Int32s:
    ids[0], ids[-1] = first, last
    return ids


def _item(ids: Int32s, number: int) -> TaskItem:
    sequence = Tokens(ids, np.zeros(len(ids), np.int32))
    return TaskItem(sequences=(sequence,), example=number, points=np.arange(len(ids), dtype=np.int64))


# The files.


def write_onnx(source: PortableModel, path: Path) -> None:
    """The model with padded rows as its input. Raises InputError where torch cannot tell it."""
    names = (IDS, MASK, *((SEGMENTS,) if source.has_segments else ()))
    padded = PaddedModel(source.model, source.unit)
    length = min(5, source.max_length)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about itself
        try:
            torch.onnx.export(
                padded,
                tuple(torch.ones(2, length, dtype=torch.int64) for _ in names),
                str(path),
                input_names=list(names),
                output_names=[source.output],
                dynamic_shapes={name: {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC} for name in names},
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            kind = "no task" if source.task is None else f"the task {source.task.kind!r}"
            raise InputError(f"A model of {kind} cannot be written as ONNX: {str(error).splitlines()[0]}") from error


def write_int8(path: Path, smaller: Path) -> None:
    """The same with its matrices as whole numbers."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.getLogger().addFilter(_is_no_advice)
    try:
        quantize_dynamic(path, smaller, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    finally:
        logging.getLogger().removeFilter(_is_no_advice)


def _is_no_advice(record: logging.LogRecord) -> bool:
    """Whether a line of the log is other than what quantising says each time."""
    return "pre-processing before quantization" not in record.getMessage()


# The table.


def _row(
    source: PortableModel, path: Path, items: Sequence[TaskItem], encoded: EncodedExamples | None
) -> dict[str, Any]:
    """What one of the models takes, how good it is, and how far its answers are from ours."""
    onnx = None if path.is_dir() else OnnxModel(path, source.inputs.special_ids.pad)
    some = items[:COMPARED]
    difference = 0.0 if onnx is None else _difference(_ours(source, some), onnx_outputs(onnx, source, some))
    files = [path / name for name in (WEIGHTS, MORE)] if path.is_dir() else [path]
    return {
        "model": "torch" if onnx is None else path.name,
        "parameters": count_parameters(source.model),
        "file_bytes": sum(each.stat().st_size for each in files if each.is_file()),
        **measure(path, [item.sequences for item in items[:TIMED]], source.inputs.special_ids.pad),
        "scores": {} if encoded is None else _scores(source, onnx, encoded),
        "difference": difference,
    }


def _ours(source: PortableModel, items: Sequence[TaskItem]) -> Outputs:
    with torch.inference_mode():
        model = source.model.eval()
        return [model.outputs(batch_of_items([item])).float().numpy() for item in items]


def onnx_outputs(model: OnnxModel, source: PortableModel, items: Sequence[TaskItem]) -> Outputs:
    """What a file says of items, row by row as our model's outputs are."""
    sequences = [sequence for item in items for sequence in item.sequences]
    rows = iter(model.outputs(sequences, per_token=source.unit != SEQUENCE))
    whole = [np.concatenate([next(rows) for _ in item.sequences]) for item in items]
    if source.unit != "point":
        return whole
    return [rows[item.points] for rows, item in zip(whole, items, strict=True)]


def _difference(ours: Outputs, theirs: Outputs) -> float:
    """The largest, as a share of the largest number that ours says."""
    most = max(float(np.abs(row).max(initial=0.0)) for row in ours)
    away = max(float(np.abs(a - b).max(initial=0.0)) for a, b in zip(ours, theirs, strict=True))
    return away / max(most, 1e-9)


def _scores(source: PortableModel, onnx: OnnxModel | None, encoded: EncodedExamples) -> dict[str, float]:
    assert source.task is not None, "examples are of a task"
    with torch.inference_mode(), joined("cpu") as ranks:
        if onnx is None:
            answers, _ = answers_of(source.model, source.task, encoded.items, ranks, judging=False)
        else:
            found = onnx_outputs(onnx, source, encoded.items)
            answers = [
                source.model.answers_of(torch.from_numpy(rows), batch_of_items([item])).numpy()
                for rows, item in zip(found, encoded.items, strict=True)
            ]
    predictions = source.task.predictions(encoded.examples, encoded.items, answers)
    return source.task.scores(encoded.examples, predictions)


def _check_equal(difference: float, folder: Path) -> None:
    if difference > DIFFERENT:
        raise InputError(
            f"The ONNX file of {folder} answers otherwise than the model: by {difference:.2g} of the largest answer. "
            "It is not kept."
        )


def _told(source: PortableModel, table: Sequence[dict[str, Any]], file: FileSettings | None) -> dict[str, Any]:
    return {
        "task": None if source.task is None else source.task.kind,
        "inputs": [IDS, MASK, *([SEGMENTS] if source.has_segments else [])],
        "output": source.output,
        "row": source.unit if source.unit == SEQUENCE else "token",
        "padding": {"id": source.inputs.special_ids.pad, "side": "right"},
        "max_length": source.max_length,
        "evaluation": None if file is None else named_file(file),
        "models": list(table),
    }
