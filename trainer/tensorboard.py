"""TensorBoard: a run's steps and evaluations as scalars under `work/tensorboard` (extra `tensorboard`).

    step/masked_loss, evaluation/masked_loss, "evaluation of wiki"/masked_loss, step/tokens_per_second, ...

Promise: every step is shown once. A run that resumes from a checkpoint starts a new file. Its first event discards
the later steps in earlier files.
Cost: about a kilobyte per logged step, written within FLUSH_SECONDS by a thread of torch's writer.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from trainer.metrics import Event

FOLDER = "tensorboard"
SHOWN = ("step", "evaluation")  # events
FLUSH_SECONDS = 5


class TensorBoard:
    """Writes the steps and evaluations of a run as TensorBoard scalars."""

    def __init__(self, work: Path) -> None:
        """Create the writer. Raises InputError if the `tensorboard` package is not installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise InputError(
                f"training.tensorboard is on, but the package {error.name} is missing where the model is trained: "
                "install the extra `tensorboard` there (pip install 'cloze-pipeline[tensorboard]'), or leave the "
                "setting out."
            ) from error
        self._folder, self._open = work / FOLDER, SummaryWriter
        self._writer: Any = None  # once a run has begun

    def begin(self, step: int) -> None:
        """Open a file for scalars, and discard the scalars of steps after `step`. A step of -1 discards everything."""
        self._writer = self._open(str(self._folder), purge_step=step + 1, flush_secs=FLUSH_SECONDS)

    def add_event(self, event: Event) -> None:
        """Write the numbers of an event if it is a step or an evaluation. Other events are ignored."""
        for name, values in iter_scalars(event):
            for key, number in values.items():
                self._writer.add_scalar(f"{name}/{key}", number, event["step"])

    def flush(self) -> None:
        """Flush the scalars to the disk. This must be done before a checkpoint is written."""
        self._writer.flush()


def iter_scalars(event: Event) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name and the numbers of a step or evaluation and, for a mixture, of each of its components.

    Other events yield nothing.
    """
    if event["event"] in SHOWN:
        yield event["event"], _select_numbers(event)
        for name, component in event.get("components", {}).items():
            yield f"{event['event']} of {name}", _select_numbers(component)


def _select_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Select the numeric fields of an event by name, except its step. None becomes NaN."""
    named = {name: math.nan if value is None else value for name, value in values.items() if name != "step"}
    return {name: float(value) for name, value in named.items() if isinstance(value, int | float)}
