"""`cloze onnx`: a model as a file of ONNX by the trainer's process, and what it takes there as a table."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flows.command.models import model_folder, trainer_process
from flows.run.accounts import readable_bytes
from flows.stopping import scratch_folder
from trainer.launching.output import events
from trainer.tasks.formats.records import FileSettings

HEADINGS = ("", "parameters", "file", "memory", "a text")


def write_onnx(model: str, output: Path, int8: bool, file: FileSettings | None, tell: Callable[[str], None]) -> None:
    """Write the folder and tell the table. Raises InputError, or TrainingFailed."""
    with model_folder(model) as folder, scratch_folder() as scratch:
        said = []
        if file is not None:
            (scratch / "file.json").write_text(json.dumps(dataclasses.asdict(file)), encoding="utf-8")
            said = ["--file", str(scratch / "file.json")]
        asked = ["onnx", *(["--int8"] if int8 else []), *said, "--", str(folder), str(output.resolve())]
        with trainer_process(asked) as (heard, log):
            for event in events(heard, log):
                for line in table(event["models"]):
                    tell(line)
    tell(f"ONNX: {output}")


def table(models: list[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each model under one of headings.

    >>> row = {"model": "torch", "parameters": 1_000, "file_bytes": 4_000, "memory_bytes": 9 << 20, "difference": 0.0}
    >>> print(*table([{**row, "milliseconds": 2.5, "scores": {"accuracy": 0.5}}]), sep="\\n")
           parameters    file  memory  a text  accuracy  largest difference
    torch       1,000  4.0 kB  9.4 MB  2.5 ms    0.5000                   0
    """
    scores = list(models[0]["scores"])
    rows = [(*HEADINGS, *scores, "largest difference"), *(_cells(each, scores) for each in models)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([name.ljust(widths[0]), *numbers])


def _cells(row: Mapping[str, Any], scores: list[str]) -> tuple[str, ...]:
    return (
        *(row["model"], f"{row['parameters']:,}", readable_bytes(row["file_bytes"])),
        *(readable_bytes(row["memory_bytes"]), f"{row['milliseconds']:.3g} ms"),
        *(f"{row['scores'][name]:.4f}" for name in scores),
        f"{row['difference']:.2g}",
    )
