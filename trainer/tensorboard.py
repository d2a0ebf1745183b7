"""TensorBoard: what a run says of steps and evaluations, as scalars under `work/tensorboard` (extra `tensorboard`).

    step/masked_loss, evaluation/masked_loss, "evaluation of wiki"/masked_loss, step/tokens_per_second, ...

Promise: every step is shown once. A run that goes on from a checkpoint begins a file of its own, whose first event
takes back what earlier ones hold of later steps. Where there is no file yet, it begins with what was said before.
Cost: about a kilobyte a logged step, written within FLUSH_SECONDS by a thread of torch's writer.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from trainer.metrics import Event

FOLDER = "tensorboard"
SHOWN = ("step", "evaluation")  # events
FLUSH_SECONDS = 5


def find_writer() -> Callable[..., Any]:
    """Return torch's writer. Raises InputError where its package is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        raise InputError(
            f"training.tensorboard is on, and there is no package {error.name} where the model is trained: install "
            "the extra `tensorboard` there (pip install 'cloze-pipeline[tensorboard]'), or leave the setting out."
        ) from error
    return SummaryWriter


class TensorBoard:
    """A listener of the metrics' log that writes scalars."""

    def __init__(self, work: Path) -> None:
        self._folder = work / FOLDER
        self._find = find_writer()
        self._writer: Any = None  # once a run has begun

    def begin(self, step: int, said: Iterable[Event]) -> None:
        """What was shown of later steps counts no more; -1: of all. said: the events up to this one"""
        first = not self._folder.is_dir()
        self._writer = self._find(str(self._folder), purge_step=step + 1, flush_secs=FLUSH_SECONDS)
        for event in said if first else ():
            self.hear(event)

    def hear(self, event: Event) -> None:
        """The numbers of an event, if it is one that is shown."""
        for name, values in shown(event):
            for key, number in values.items():
                self._writer.add_scalar(f"{name}/{key}", number, event["step"])

    def flush(self) -> None:
        """Have the system write down what was shown, as a checkpoint presumes that it is."""
        self._writer.flush()


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
