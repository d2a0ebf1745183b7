"""`cloze onnx`: a model as ONNX files by the trainer's process, and its cost there as a table.

For a suite the same for each task's median run, with its score: the output of `cloze evaluate --onnx`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from flows.command.trainer_process import job_file, model_folder, trainer_events
from flows.run.record.ledger_balance import readable_bytes
from trainer.tasks.formats.records import FileSettings
from trainer.tasks.portable.folder import TABLE
from trainer.tasks.suites.runs import SuiteRun
from trainer.tasks.suites.table import aligned, hundredfold

HEADINGS = ("", "parameters", "file", "memory", "a text", "largest difference")
SUITE_HEAD = ("task", "model", "metric", "score", *HEADINGS[1:])
SUITE_NOTE = (
    "The cost of each task's median run on one thread of this machine: by torch, as ONNX, and as ONNX with 8-bit "
    "weights. Memory is all of a process that answers, a text the median of single ones; the score is on dev, by "
    "the task's own measure; the largest difference is that of an answer from torch's, as a share of the largest."
)

Models = Sequence[Mapping[str, Any]]


def write_onnx(model: str, output: Path, int8: bool, file: FileSettings | None, tell: Callable[[str], None]) -> None:
    """Write the folder; print the table. Raises InputError, or TrainingFailed."""
    with model_folder(model) as folder:
        for line in table(written(folder, output, int8, file)):
            tell(line)
    tell(f"ONNX: {output}")


def written(folder: Path, output: Path, int8: bool, file: FileSettings | None) -> Models:
    """Have the trainer write a folder; return what its models take. Raises InputError, or TrainingFailed."""
    with ExitStack() as held:
        options = ["--int8"] if int8 else []
        if file is not None:
            options += ["--file", held.enter_context(job_file(file))]
        [event] = trainer_events("onnx", *options, "--", str(folder), str(output.resolve()))
    models: Models = event["models"]
    return models


def suite_models(medians: Mapping[str, SuiteRun], tell: Callable[[str], None]) -> dict[str, Models]:
    """Return for each task what its median run takes; written files are kept. Raises as `written`. medians: by task"""
    models_by_task = {}
    for task, run in medians.items():
        output = Path(run.folder) / "onnx"
        if (output / TABLE).is_file():
            models_by_task[task] = json.loads((output / TABLE).read_text(encoding="utf-8"))["models"]
        else:
            tell(f"{task}, seed {run.seed}: as ONNX, and what it takes")
            models_by_task[task] = written(Path(run.job.output), output, True, run.job.evaluation)
    return models_by_task


def suite_cells(models_by_task: Mapping[str, Models], metrics: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield rows of a table under `SUITE_HEAD`. metrics: by task the one to show, where the models have it"""
    for task, models in models_by_task.items():
        for row in models:
            metric = metrics[task] if metrics[task] in row["scores"] else next(iter(row["scores"]))
            name, *taken, difference = _cells(row)
            yield task, name, metric, hundredfold(row["scores"][metric]), *taken, difference


def table(models: Models) -> Iterator[str]:
    """Yield a line for each model under one of headings.

    >>> row = {"model": "torch", "parameters": 1_000, "file_bytes": 4_000, "memory_bytes": 9 << 20, "difference": 0.0}
    >>> print(*table([{**row, "milliseconds": 2.5, "scores": {"accuracy": 0.5}}]), sep="\\n")
           parameters  file    memory  a text  largest difference  accuracy
    torch  1,000       4.0 kB  9.4 MB  2.5 ms  0                   0.5000
    """
    scores = [[f"{score:.4f}" for score in row["scores"].values()] for row in models]
    rows = ((*_cells(row), *values) for row, values in zip(models, scores, strict=True))
    return aligned([(*HEADINGS, *models[0]["scores"]), *rows])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the costs of a model, under `HEADINGS`."""
    return (
        *(row["model"], f"{row['parameters']:,}", readable_bytes(row["file_bytes"])),
        *(readable_bytes(row["memory_bytes"]), f"{row['milliseconds']:.3g} ms", f"{row['difference']:.2g}"),
    )
