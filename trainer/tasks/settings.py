"""The settings of a fine-tuning run. Standard library only, no torch."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from corpora.errors import InputError
from corpora.store.settings import bind, check_choice, check_range, limit
from trainer.settings.phases import PRECISIONS, PhaseSettings
from trainer.settings.training import TrainingSettings
from trainer.tasks.formats.records import FileSettings

Job = TypeVar("Job")

MOST = float(1 << 20)
BOUNDS = (
    *(("max_length", 3.0, MOST), ("epochs", 1.0, MOST), ("batch", 1.0, MOST), ("patience", 1.0, MOST)),
    *(("warmup", 0.0, 1.0), ("dropout", 0.0, 0.9)),
)
AS_IN_TRAINING = (  # keys that mean the same in pre-training
    *("schedule", "epsilon", "clip_norm", "precision", "compile", "micro_batch", "seed", "log_every", "device"),
    "processes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneSettings:
    """The settings of fine-tuning. None is the value that the authors of the model's family published (`published`).

    max_length:    tokens of a sequence, special ones included, before it is cut; None: the task's own, or all that the
                   model reads where that is less
    epochs:        times that all training examples are read
    patience:      epochs without a better one after which it ends; None: none are counted
    batch:         items of a step, over all processes and micro-batches
    micro_batch:   most items that a process holds at once; None: all of its share
    learning_rate: the peak
    schedule:      how it goes on from there, as in pre-training
    warmup:        share of all steps over which it rises
    weight_decay, layer_decay, clip_norm, epsilon: as in pre-training
    dropout:       of hidden states and in the head; None: the model's own
    pooling:       what a head for whole texts reads: "cls", the first token, or the "mean" of all; None: as the model
                   says (ModernBERT); models of other families know the first token only
    freeze:        what does not learn: "embeddings", "encoder" (with them), or layers by number from 0: "3", "0-5"
    precision:     "auto", "float32", "bfloat16" or "float16" for the matrices of forward and backward
    compile:       torch.compile every layer
    seed:          of the heads' first weights, the order of examples, and dropout
    restarts:      runs with seeds from `seed` on; the one that is best on the evaluation examples is kept, and all are
                   told, with median and spread
    keep:          "best" epoch by the task's metric on the evaluation examples (of equals that with the lower loss
                   there), or the "last"
    log_every:     steps between lines of the log
    device:        "cuda" or "cpu"; "auto": a GPU where there is one
    processes:     processes on this machine; 0 for one a GPU, one where there is none
    """

    max_length: int | None = None
    epochs: int | None = None
    patience: int | None = None
    batch: int | None = None
    micro_batch: int | None = limit(None)
    learning_rate: float | None = None
    schedule: str = "linear"
    warmup: float | None = None
    weight_decay: float | None = None
    layer_decay: float | None = None
    clip_norm: float = 1.0
    epsilon: float = 1e-6
    dropout: float | None = None
    pooling: str | None = None
    freeze: tuple[str, ...] = ()
    precision: str = "float32"
    compile: bool = limit(False)
    seed: int = 42
    restarts: int = 1
    keep: str = "best"
    log_every: int = limit(1)
    device: str = limit("auto")
    processes: int = limit(0)

    def __post_init__(self) -> None:
        for name, low, high in BOUNDS:
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), low, high)
        check_range("restarts", self.restarts, 1, 1_000)
        check_choice("precision", self.precision, ("auto", *PRECISIONS))
        check_choice("keep", self.keep, ("best", "last"))
        for layers in self.freeze:
            _ = frozen_layers(layers)
        if self.keep == "last" and self.restarts > 1:
            raise InputError('restarts are compared by their best epochs, and keep is "last": leave one of them out.')
        self.training(1)  # checks what is left

    def training(self, steps: int) -> TrainingSettings:
        """Return the same for the optimizer, once the steps of a restart are known: each is a phase of its own."""
        warmup_steps = round((self.warmup or 0.0) * steps)
        return TrainingSettings(
            phase=(PhaseSettings(steps=steps, batch=self.batch or 1, warmup_steps=warmup_steps),) * self.restarts,
            learning_rate=self.learning_rate or 0.0,
            weight_decay=self.weight_decay or 0.0,
            layer_decay=1.0 if self.layer_decay is None else self.layer_decay,
            **{name: getattr(self, name) for name in AS_IN_TRAINING},
        )


def read_job(kind: type[Job], arguments: Sequence[str]) -> Job:
    """Read a command's job from the JSON file that its arguments name. Raises InputError."""
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        raise InputError("Name one JSON file with the job.")
    return bind(kind, json.loads(Path(arguments[0]).read_text(encoding="utf-8")), "job")


def frozen_layers(text: str) -> range | None:
    """Return the layers from 0 that an entry of `freeze` names; None for "embeddings" and "encoder". Raises InputError.

    >>> frozen_layers("0-5"), frozen_layers("3"), frozen_layers("encoder")
    (range(0, 6), range(3, 4), None)
    """
    if text in ("embeddings", "encoder"):
        return None
    first, dash, last = text.partition("-")
    if first.isdecimal() and (last.isdecimal() if dash else not last) and int(last or first) >= int(first):
        return range(int(first), int(last or first) + 1)
    raise InputError(
        f'freeze: {text!r} is not one of "embeddings", "encoder", a layer\'s number, or layers as in "0-5".'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneJob:
    """One fine-tuning run.

    model:  folder of the model to begin with
    output: folder for what is learnt; it must not hold anything yet
    task:   `kind`, and settings of the task
    """

    model: str
    output: str
    task: Mapping[str, Any]
    training: FileSettings
    evaluation: FileSettings
    settings: FinetuneSettings = field(default_factory=FinetuneSettings)

    def to_json(self) -> str:
        """The job as a JSON document."""
        return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False)
