"""Events that a training run reports, as JSON lines on standard output and in `metrics.jsonl`. No torch.

    start       step 0: the number of steps, parameters and processes
    resume      training continues from the checkpoint of this step
    damaged     a checkpoint or an export that differs from what was written, and what is done instead
    step        losses and accuracies by term, learning rate, gradient norm and counts of one step; speed, waiting, MFU
                and memory since the last line
    warning     the first steps indicate a setting that is rarely intended
    evaluation  losses and accuracies on the held-out split, compared with those of guessing by frequency; the accuracy
                on rarer words (`trainer/evaluation.py`)
    waiting     the run is waiting for something slow
    checkpoint  a checkpoint was written
    done        the export was written; counts of the whole run
    failure     an error that the user can fix; only on standard output
    stopping    the trainer received a stop signal, and writes a checkpoint of this step; only on standard output

Promise: a run that is interrupted and resumed on the same number of processes logs the same steps and evaluations as an
uninterrupted one, except for times and, on GPUs, rounding. Lines after the checkpoint are removed from the log before
training continues.
"""

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from corpora.store.places.files import replace_file

Event = Mapping[str, Any]

METRICS_FILE = "metrics.jsonl"


class Board(Protocol):
    """Protocol for an additional display of a run, such as `trainer.tensorboard.TensorBoard`."""

    def begin(self, step: int) -> None:
        """Discard what is displayed for steps after `step`. A step of -1 discards everything."""

    def add_event(self, event: Event) -> None:
        """Display an event of the run, such as a step with its losses."""

    def flush(self) -> None:
        """Flush the displayed events to the disk."""


class MetricsLog:
    """The log of a run. Only one process writes it, and only that process may have a board (an additional display)."""

    def __init__(self, work: Path, speaks: bool, board: Board | None = None) -> None:
        self._path = work / METRICS_FILE
        self._speaks = speaks
        self._board = board

    def cut(self, step: int) -> None:
        """Discard the log's events after a step. A step of -1 discards all events."""
        if self._speaks:
            with replace_file(self._path, is_only_writer=True) as new, new.open("w", encoding="utf-8") as file:
                file.writelines(to_line(event) for event in read_metrics(self._path) if event["step"] <= step)
            if self._board is not None:
                self._board.begin(step)

    def write_event(self, event: str, step: int, **fields: Any) -> None:
        """Write an event to standard output, the log file and the board, if this process writes the log.

        Args:
            event: The name of the event, such as "step".
            step: The number of completed steps.
            fields: The event's other fields. Their values must be JSON-serializable.
        """
        if self._speaks:
            record = {"event": event, "step": step, **fields}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(to_line(record))
            print_event(record)
            if self._board is not None:
                self._board.add_event(record)

    def has_event(self, event: str, step: int) -> bool:
        """Return True if the log file has an event with this name and step."""
        return any(logged["event"] == event and logged["step"] == step for logged in read_metrics(self._path))

    def flush(self) -> None:
        """Write the log to the disk. This must be done before a checkpoint is written."""
        if self._speaks and self._path.exists():
            with self._path.open("rb") as file:
                os.fsync(file.fileno())
            if self._board is not None:
                self._board.flush()


def to_line(event: Event) -> str:
    """Serialize an event to a line of JSON with a line end. Infinite and NaN numbers become null."""
    fields = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in event.items()
    }
    return json.dumps(fields, ensure_ascii=False) + "\n"


def print_event(event: Event) -> None:
    """Print an event to standard output in a single write, so that the lines of several processes do not mix."""
    sys.stdout.write(to_line(event))
    sys.stdout.flush()


def read_metrics(path: Path) -> Iterator[Event]:
    """Yield the events in a log file in order, as dictionaries. If the file does not exist, nothing is yielded.

    An incomplete last line, left by a killed process, is skipped.
    """
    if path.exists():
        with path.open(encoding="utf-8") as file:
            yield from (json.loads(text) for text in file if text.endswith("\n"))
