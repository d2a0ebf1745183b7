"""`onnx`: a model as an ONNX file, with its tokenizer; and what it costs there, next to how good it is.

    model.onnx         float32; inputs and outputs as in `running` and `graphs`, batch and length free
    second.onnx        of a dual encoder, that of passages
    model.int8.onnx    where asked for: weights as whole numbers of eight bits, and what they are multiplied with
    onnx.json          all that reads them again, and the table: parameters, files, memory and time, with scores
    tokenizer.json, config.json, finetune.json    as they were; also what sentence-transformers says of prompts

The files are compared with our model before anything appears in the output folder. Scores are those of the task on the
given file of labelled examples; those of a model with other answers would differ.

Whole numbers have seven of the eight bits, by row of each matrix: processors without an instruction for sums of such
products add them up in 16 bits, which would overflow (onnxruntime: `reduce_range`).

Cost: a BERT of two layers of 128 on the 1,821 rows of SST-2's dev set: written, scored and measured in 15 s of one
x86-64 core. Of it (2026-11-23, `cloze onnx --int8 --evaluate`): 440, 66 and 64 MB; 2.1, 0.5 and 0.3 ms a text; 66.5,
66.5 and 66.6 % right; by torch, ONNX and int8.
"""

import argparse
import json
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from corpora.errors import InputError
from corpora.store.settings import bind
from trainer.complete_folders import check_output, new_folder, written_json
from trainer.huggingface.checkpoints import WEIGHTS
from trainer.huggingface.config import CONFIG
from trainer.huggingface.sentences import sentence_files
from trainer.metrics import line, speak
from trainer.model.objective import count_parameters
from trainer.settings.model import encoder_shape
from trainer.tasks.contract import TaskItem, Tokens
from trainer.tasks.data import EncodedExamples, encode, named_file, read_file, sha256_of
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.heads.task_model import answers_of
from trainer.tasks.kinds.texts import COLUMNS, TextTask
from trainer.tasks.portable.folder import FLOAT32, INT8, TABLE
from trainer.tasks.portable.graphs import Graph, graphs_of, plain_rows
from trainer.tasks.portable.measuring import measure
from trainer.tasks.portable.padded import PaddedModel
from trainer.tasks.portable.running import IDS, MASK, SEGMENTS, OnnxFiles, check_installed
from trainer.tasks.saving import MORE, RECORD, SECOND, Loaded, NoTask, read_source, task_json
from trainer.tasks.text_encoder import TOKENIZER_FILES
from trainer.training.parallel import joined

BESIDE = (*TOKENIZER_FILES, "tokenizer_config.json", CONFIG, RECORD)
WHOLE = (WEIGHTS, MORE, f"{SECOND}/{WEIGHTS}")
FOLDERS = ("teacher", "second_encoder")  # settings of a task that name some
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
    check_output(output)  # before minutes of work
    check_installed("onnx", "onnxscript", "onnxruntime")
    loaded = read_source(folder)
    if file is not None and isinstance(loaded.task, NoTask):
        raise InputError(
            f"{folder} is an encoder without a task, so labelled examples cannot score it: leave them out."
        )
    encoder = loaded.task.text_encoder(folder, loaded.inputs, loaded.max_length)
    encoded = encode(loaded.task, read_file(loaded.task, file), encoder) if file is not None else None
    with new_folder(output) as new:
        written = write_files(loaded, folder, new, int8)
        table = _compared(loaded, folder, written, encoded)
        content = _table_json(loaded, written, table, file)
        written_json(new / TABLE, content)
    return content


def made_items(loaded: Loaded) -> list[TaskItem]:
    """Return texts of several lengths, of words drawn from the vocabulary; the same for every model of its size."""
    drawn, files, num_columns = np.random.default_rng(0), len(graphs_of(loaded)), _num_columns(loaded)
    items = list[TaskItem]()
    for length in sorted({min(length, loaded.max_length) for length in LENGTHS}):
        ids = drawn.integers(0, loaded.inputs.vocab_size, length).astype(np.int32)
        columns = drawn.standard_normal((1, num_columns)).astype(np.float32)
        sequences = (Tokens(ids, np.zeros_like(ids)),) * files
        targets = {COLUMNS: columns} if num_columns else {}
        points = np.arange(length * files, dtype=np.int64)
        items.append(TaskItem(sequences=sequences, example=0, points=points, targets=targets))
    return items


def _num_columns(loaded: Loaded) -> int:
    """Return the number of further columns with a text."""
    return loaded.task.num_columns if isinstance(loaded.task, TextTask) else 0


# The files.


def write_files(loaded: Loaded, folder: Path, new: Path, int8: bool) -> dict[str, list[Path]]:
    """Write all but the table; return the files of ONNX by their precision. folder: of the model. Raises InputError."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graphs = graphs_of(loaded)
    whole = [new / f"{graph.file}{FLOAT32}" for graph in graphs]
    smaller = [new / f"{graph.file}{INT8}" for graph in graphs if int8]
    for graph, path in zip(graphs, whole, strict=True):
        write_graph(loaded, graph, path)
    for path, small in zip(whole, smaller, strict=False):
        quantize_dynamic(path, small, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    for name in (*BESIDE, *(name for name in sentence_files(folder) if name.endswith(".json"))):
        if (folder / name).is_file():
            (new / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(folder / name, new / name)
    return {"float32": whole, "int8": smaller}


def write_graph(loaded: Loaded, graph: Graph, path: Path) -> None:
    """Write a file with padded rows as its input. Raises InputError where torch cannot export it."""
    has_segments = encoder_shape(loaded.settings, loaded.inputs).segment_types > 1
    length, num_columns = min(5, loaded.max_length), _num_columns(loaded)
    names = (IDS, MASK, *((SEGMENTS,) if has_segments else ()))
    given = {name: torch.ones(2, length, dtype=torch.int64) for name in names}
    free: dict[str, dict[int, Any]] = {name: dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC) for name in names}
    if num_columns:
        given[COLUMNS], free[COLUMNS] = torch.ones(2, num_columns), {0: torch.export.Dim.DYNAMIC}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about itself
        try:
            torch.onnx.export(
                PaddedModel(graph.module, loaded.task.unit != "sequence"),
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
            reason = str(error).splitlines()[0]
            raise InputError(f"A model of {loaded.task.kind!r} cannot be written as ONNX: {reason}") from error


# The table.


def _compared(
    loaded: Loaded, folder: Path, written: Mapping[str, list[Path]], encoded: EncodedExamples | None
) -> list[dict[str, Any]]:
    """Return the cost and scores of our model and of each that was written. Raises InputError where they differ."""
    items = encoded.items if encoded is not None else made_items(loaded)
    wanted = plain_rows(loaded, items[:COMPARED])
    table = list[dict[str, Any]]()
    for paths in ([folder], *filter(None, written.values())):
        files = OnnxFiles(paths, loaded.inputs.special_ids.pad) if paths[0] != folder else None
        weights = paths if files else [folder / name for name in WHOLE]
        rows = files.rows(items[:COMPARED], loaded.task.unit) if files else wanted
        table.append(
            {
                "model": paths[0].name if files else "torch",
                "parameters": count_parameters(loaded.model),
                "file_bytes": sum(each.stat().st_size for each in weights if each.is_file()),
                **measure(paths, items[:TIMED], loaded.inputs.special_ids.pad),
                "scores": {} if encoded is None else _scores(loaded, files, encoded),
                "difference": _difference(wanted, rows),
            }
        )
    if table[1]["difference"] > DIFFERENT:
        raise InputError(
            f"The ONNX file of {folder} answers differently from the model: by {table[1]['difference']:.2g} of the "
            "largest answer. It is not kept."
        )
    return table


def _difference(ours: Sequence[npt.NDArray[Any]], theirs: Sequence[npt.NDArray[Any]]) -> float:
    """Return the largest difference, as a share of our largest number."""
    most = max(float(np.abs(row).max(initial=0.0)) for row in ours)
    away = max(float(np.abs(a - b).max(initial=0.0)) for a, b in zip(ours, theirs, strict=True))
    return away / max(most, 1e-9)


def _scores(loaded: Loaded, files: OnnxFiles | None, encoded: EncodedExamples) -> dict[str, float]:
    if files is None:
        with joined("cpu") as ranks:
            answers, _ = answers_of(loaded.model, loaded.task, encoded.items, ranks)
    else:
        answers = files.answers(encoded.items, loaded.task.unit)
    predictions = loaded.task.predictions(encoded.examples, encoded.items, answers)
    return loaded.task.scores(encoded.examples, predictions)


def _table_json(
    loaded: Loaded, written: Mapping[str, list[Path]], table: Sequence[dict[str, Any]], file: FileSettings | None
) -> dict[str, Any]:
    """Return what `folder` reads again, and the table; the task without folders of this machine."""
    paths = [path for some in written.values() for path in some]
    task = {} if isinstance(loaded.task, NoTask) else task_json(loaded.task)
    return {
        "task": {key: value for key, value in task.items() if key not in FOLDERS} or None,
        "max_length": loaded.max_length,
        "vocab_size": loaded.inputs.vocab_size,
        "special_ids": asdict(loaded.inputs.special_ids),
        "files": {kind: [path.name for path in some] for kind, some in written.items()},
        "sha256": {path.name: sha256_of(str(path)) for path in paths},
        "learnt_from": dict(loaded.file),
        "evaluation": None if file is None else named_file(file),
        "models": list(table),
    }
