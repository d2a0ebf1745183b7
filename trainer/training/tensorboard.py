"""TensorBoard: what a run says of steps and evaluations, as scalars under `work/tensorboard` (extra `tensorboard`).

    step/masked_loss, evaluation/masked_loss, "evaluation of wiki"/masked_loss, step/tokens_per_second, ...

Promise: every step is shown once. A run that goes on from a checkpoint begins a file of its own, whose first event
takes back what earlier ones hold of later steps. Where there is no file yet, it begins with what was said before.
Cost: about a kilobyte a logged step, written at once, by no thread.
"""

import math
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from corpora.errors import InputError
from trainer.metrics import Event

FOLDER = "tensorboard"
SHOWN = ("step", "evaluation")  # events
FORMAT = "brain.Event:2"  # that takes back by session logs


class Package(NamedTuple):
    """What is used of the package: messages by name, and what writes one as a record."""

    event: Any
    summary: Any
    session: Any
    records: Any


def find_package() -> Package:
    """The package. Raises InputError where it is not installed."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event as Message
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ModuleNotFoundError as error:
        raise InputError(
            f"training.tensorboard is on, and there is no package {error.name} where the model is trained: install "
            "the extra `tensorboard` there (pip install 'cloze-pipeline[tensorboard]'), or leave the setting out."
        ) from error
    return Package(Message, Summary, SessionLog, RecordWriter)


class TensorBoard:
    """A listener of the metrics' log that writes scalars."""

    def __init__(self, work: Path) -> None:
        self._folder = work / FOLDER
        self._package = find_package()
        self._path = self._folder  # of the file, once it is begun

    def begin(self, step: int, said: Iterable[Event]) -> None:
        """What was shown of later steps counts no more; -1: of all. said: the events up to this one"""
        first = not self._folder.is_dir()
        self._open()
        self._write(step=step + 1, session_log=self._package.session(status=self._package.session.START))
        for event in said if first else ():
            self.hear(event)

    def hear(self, event: Event) -> None:
        """The numbers of an event, if it is one that is shown."""
        for name, values in shown(event):
            entries = [self._package.summary.Value(tag=f"{name}/{key}", simple_value=n) for key, n in values.items()]
            self._write(step=event["step"], summary=self._package.summary(value=entries))

    def flush(self) -> None:
        """Have the system write down what was shown, as a checkpoint presumes that it is."""
        if self._path.is_file():
            with self._path.open("rb") as file:
                os.fsync(file.fileno())

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns() // 1000:016d}.{socket.gethostname()}.{os.getpid()}"
        self._path = self._folder / name
        self._write(file_version=FORMAT)

    def _write(self, **fields: Any) -> None:
        message = self._package.event(wall_time=time.time(), **fields)
        with self._path.open("ab") as file:
            self._package.records(file).write(message.SerializeToString())


def shown(event: Event) -> Iterator[tuple[str, dict[str, float]]]:
    """The numbers of an event by what they are of; of a mixture also of each component."""
    if event["event"] in SHOWN:
        yield event["event"], _numbers(event)
        for name, found in event.get("components", {}).items():
            yield f"{event['event']} of {name}", _numbers(found)


def _numbers(found: Mapping[str, Any]) -> dict[str, float]:
    """Every number but the step's own; what is none in JSON is not a number here as well."""
    named = {name: math.nan if value is None else value for name, value in found.items() if name != "step"}
    return {name: float(value) for name, value in named.items() if isinstance(value, int | float)}
