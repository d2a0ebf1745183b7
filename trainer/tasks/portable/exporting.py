"""`onnx`: a model as an ONNX file, with its tokenizer; and what it costs there, next to how good it is.

    model.onnx         float32; inputs and outputs as in `running` and `graphs`, batch and length free
    second.onnx        of a dual encoder, that of passages
    model.int8.onnx    where asked for: weights as whole numbers of eight bits, and what they are multiplied with
    task.safetensors   what comes after them (`answering`), where something does: a chain, an LSTM over words
    onnx.json          all that reads them again, and the table: parameters, files, memory and time, with scores
    tokenizer.json, config.json, finetune.json    as they were

The files are compared with our model before anything appears in the output folder. Scores are those of the task on the
given file of labelled examples; those of a model with other answers would differ.

Whole numbers have seven of the eight bits, by row of each matrix: processors without an instruction for sums of such
products add them up in 16 bits, which would overflow (onnxruntime: `reduce_range`).

Cost: a BERT of two layers of 128 on the 1,821 rows of SST-2's dev set: written, scored and measured in 15 s of one
x86-64 core. Of it (2026-11-23, `cloze onnx --int8 --evaluate`): 440, 66 and 64 MB; 2.1, 0.5 and 0.3 ms a text; 66.5,
66.5 and 66.6 % right; by torch, ONNX and int8.
"""

import argparse
import importlib.util
import json
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from corpora.errors import InputError
from corpora.kernels.arrays import Float32s
from corpora.store.places.files import unfinished
from corpora.store.settings import bind
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.huggingface.config import CONFIG
from trainer.metrics import line, speak
from trainer.model.objective import count_parameters
from trainer.tasks.contract import TaskItem
from trainer.tasks.data import EncodedExamples, encode, named_file, read_file
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.task_model import TaskModel, answers_of
from trainer.tasks.portable.answering import needed_weights, onnx_answers, rows_of, text_of
from trainer.tasks.portable.folder import FLOAT32, INT8, MORE, TABLE, sha256_of
from trainer.tasks.portable.graphs import Graph, Outputs, PortableModel, item_of, plain_rows, read_source
from trainer.tasks.portable.measuring import measure
from trainer.tasks.portable.padded import PaddedModel
from trainer.tasks.portable.running import COLUMNS, IDS, MASK, SEGMENTS, OnnxFiles, OnnxText, onnxruntime_here
from trainer.tasks.saving import MORE as MORE_WEIGHTS
from trainer.tasks.saving import RECORD, task_json, written_json
from trainer.tasks.saving import SECOND as SECOND_FOLDER
from trainer.tasks.text_encoder import TOKENIZER_FILES, TextEncoder
from trainer.training.parallel import joined

BESIDE = (*TOKENIZER_FILES, "tokenizer_config.json", CONFIG, RECORD)
WHOLE = (WEIGHTS, MORE_WEIGHTS)
FOLDERS = ("teacher", "second_encoder")  # settings of a task that name some
SEQUENCE = "sequence"
COMPARED = 16  # items by which what is written is compared with our model
DIFFERENT = 1e-3  # as a share of the largest number in a model's answers
TIMED = 50  # texts
LENGTHS = (4, 8, 16, 32, 64, 128)  # of texts where none are given


def main(arguments: list[str]) -> int:
    """Run `onnx MODEL OUTPUT [--int8] [--file FILE.json]`: write, measure, report an event with the table; return 0.

    FILE.json: the settings of a file of labelled examples (`FileSettings`). Raises InputError.
    """
    parser = argparse.ArgumentParser(prog="onnx", description="A model as an ONNX file.")
    parser.add_argument("model", type=Path, help="folder of a model")
    parser.add_argument("output", type=Path, help="the folder to write; it must not hold anything yet")
    parser.add_argument("--int8", action="store_true", help="also write the weights as eight-bit integers")
    parser.add_argument("--file", type=Path, help="settings of a file of labelled examples, as JSON")
    asked = parser.parse_args(arguments)
    settings = json.loads(asked.file.read_text(encoding="utf-8")) if asked.file else None
    file = None if settings is None else bind(FileSettings, settings, "file")
    speak(line({"event": "done", **export_onnx(asked.model, asked.output, asked.int8, file)}))
    return 0


def export_onnx(folder: Path, output: Path, int8: bool, file: FileSettings | None) -> dict[str, Any]:
    """Write the folder; return the content of `onnx.json`. Raises InputError.

    int8: whether whole numbers are written too; file: labelled examples to score and time by
    """
    _check(output)
    source = read_source(folder)
    encoded = _encoded(source, folder, file)
    items = encoded.items if encoded is not None else made_items(source)
    new = unfinished(output, alone=True)
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    written = write_files(source, folder, new, int8)
    kinds = {"torch": (folder,), **{named[0].name: named for named in written.values() if named}}
    table = [_row(source, name, paths, items, encoded) for name, paths in kinds.items()]
    if table[1]["difference"] > DIFFERENT:
        raise InputError(
            f"The ONNX file of {folder} answers differently from the model: by {table[1]['difference']:.2g} of the "
            "largest answer. It is not kept."
        )
    content = _table_json(source, written, table, file)
    written_json(new / TABLE, content)
    if output.is_dir():
        output.rmdir()  # seen to be empty
    new.rename(output)
    return content


def _check(output: Path) -> None:
    """Raise InputError where the folder holds something or a library is missing."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"The output folder {output} is not empty: name another, or remove what is there.")
    onnxruntime_here()
    if importlib.util.find_spec("onnxscript") is None or importlib.util.find_spec("onnx") is None:
        raise InputError("Writing ONNX needs the packages onnx and onnxscript: install the extra `onnx`.")


def _encoded(source: PortableModel, folder: Path, file: FileSettings | None) -> EncodedExamples | None:
    """Return the labelled examples. Raises InputError where the model has no task."""
    if file is None:
        return None
    if source.task is None:
        raise InputError(
            f"{folder} is an encoder without a task, so labelled examples cannot score it: leave them out."
        )
    examples = read_file(source.task, file)
    return encode(source.task, examples, TextEncoder.of(folder, source.inputs, source.max_length))


def made_items(source: PortableModel) -> list[TaskItem]:
    """Return texts of several lengths, of words drawn from the vocabulary; the same for every model of its size."""
    drawn = np.random.default_rng(0)
    items = list[TaskItem]()
    for length in sorted({min(length, source.max_length) for length in LENGTHS}):
        ids = drawn.integers(0, source.inputs.vocab_size, length).astype(np.int32)
        beside = drawn.standard_normal((1, source.num_columns)).astype(np.float32) if source.num_columns else None
        items.append(item_of(OnnxText([(ids, np.zeros_like(ids))] * len(source.graphs), beside)))
    return items


# The files.


def write_files(source: PortableModel, folder: Path, new: Path, int8: bool) -> dict[str, tuple[Path, ...]]:
    """All but the table; the files of ONNX by their precision. folder: of the model. Raises InputError."""
    whole = tuple(new / f"{graph.file}{FLOAT32}" for graph in source.graphs)
    smaller = tuple(new / f"{graph.file}{INT8}" for graph in source.graphs if int8)
    for graph, path in zip(source.graphs, whole, strict=True):
        write_graph(source, graph, path)
    for path, small in zip(whole, smaller, strict=False):
        write_int8(path, small)
    for name in BESIDE:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, new / name)
    if weights := weights_after(source):
        save_file(weights, new / MORE)
    return {"float32": whole, "int8": smaller}


def weights_after(source: PortableModel) -> dict[str, Float32s]:
    """The parameters that are in no file of ONNX, by our names."""
    begins = needed_weights(source.task)
    named = source.model.state_dict().items()
    return {name: tensor.float().cpu().numpy() for name, tensor in named if begins and name.startswith(begins)}


def write_graph(source: PortableModel, graph: Graph, path: Path) -> None:
    """Write a file with padded rows as its input. Raises InputError where torch cannot export it."""
    length = min(5, source.max_length)
    names = (IDS, MASK, *((SEGMENTS,) if source.has_segments else ()))
    given = {name: torch.ones(2, length, dtype=torch.int64) for name in names}
    free: dict[str, dict[int, Any]] = {name: dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC) for name in names}
    if source.num_columns:
        given[COLUMNS], free[COLUMNS] = torch.ones(2, source.num_columns), {0: torch.export.Dim.DYNAMIC}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about itself
        try:
            torch.onnx.export(
                PaddedModel(graph.module, source.unit != SEQUENCE),
                kwargs=given,
                f=str(path),
                input_names=[*given],
                output_names=[*graph.outputs],
                dynamic_shapes=free,
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

    quantize_dynamic(path, smaller, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


# The table.


def _row(
    source: PortableModel,
    name: str,
    paths: Sequence[Path],
    items: Sequence[TaskItem],
    encoded: EncodedExamples | None,
) -> dict[str, Any]:
    """Return the cost and scores of one of the models, and its distance from ours. paths: a folder, or files"""
    onnx = None if paths[0].is_dir() else OnnxFiles(paths, source.inputs.special_ids.pad)
    some = items[:COMPARED]
    difference = 0.0 if onnx is None else _difference(plain_rows(source, some), rows_of(onnx, source.unit, some))
    files = [paths[0] / name for name in (*WHOLE, f"{SECOND_FOLDER}/{WEIGHTS}")] if onnx is None else paths
    return {
        "model": name,
        "parameters": count_parameters(source.model),
        "file_bytes": sum(each.stat().st_size for each in files if each.is_file()),
        **measure(paths, [text_of(item) for item in items[:TIMED]], source.inputs.special_ids.pad),
        "scores": {} if encoded is None else _scores(source, onnx, encoded),
        "difference": difference,
    }


def _difference(ours: Outputs, theirs: Outputs) -> float:
    """Return the largest difference, as a share of our largest number."""
    most = max(float(np.abs(row).max(initial=0.0)) for row in ours)
    away = max(float(np.abs(a - b).max(initial=0.0)) for a, b in zip(ours, theirs, strict=True))
    return away / max(most, 1e-9)


def _scores(source: PortableModel, onnx: OnnxFiles | None, encoded: EncodedExamples) -> dict[str, float]:
    assert source.task is not None and isinstance(source.model, TaskModel), "examples are of a task"
    if onnx is None:
        with torch.inference_mode(), joined("cpu") as ranks:
            answers, _ = answers_of(source.model, source.task, encoded.items, ranks, judging=False)
    else:
        answers = onnx_answers(onnx, source.task, encoded.items, weights_after(source))
    predictions = source.task.predictions(encoded.examples, encoded.items, answers)
    return source.task.scores(encoded.examples, predictions)


def _table_json(
    source: PortableModel,
    written: Mapping[str, Sequence[Path]],
    table: Sequence[dict[str, Any]],
    file: FileSettings | None,
) -> dict[str, Any]:
    """Return what `folder` reads again, and the table; the task without folders of this machine."""
    paths = [path for some in written.values() for path in some]
    more = paths[0].parent / MORE
    task = {} if source.task is None else task_json(source.task)
    return {
        "task": {key: value for key, value in task.items() if key not in FOLDERS} or None,
        "max_length": source.max_length,
        "vocab_size": source.inputs.vocab_size,
        "special_ids": asdict(source.inputs.special_ids),
        "files": {kind: [path.name for path in some] for kind, some in written.items()},
        "sha256": {path.name: sha256_of(path) for path in [*paths, *([more] if more.is_file() else [])]},
        "evaluation": None if file is None else named_file(file),
        "models": list(table),
    }
