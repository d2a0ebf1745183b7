"""The settings of a fine-tuning run, and the published values of those that are not set. No torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from corpora.errors import InputError
from corpora.store.settings import bind_settings, check_choice, check_range, limit_field
from trainer.settings.model import ModelSettings
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import PRECISIONS, TrainingSettings
from trainer.tasks.formats.records import FileSettings

Job = TypeVar("Job")

MAX_VALUE = float(1 << 20)
BOUNDS = (
    *(
        ("max_length", 3.0, MAX_VALUE),
        ("epochs", 1.0, MAX_VALUE),
        ("batch", 1.0, MAX_VALUE),
        ("patience", 1.0, MAX_VALUE),
    ),
    *(("warmup", 0.0, 1.0), ("dropout", 0.0, 0.9)),
)
TRAINING_KEYS = (  # keys that mean the same in pre-training
    *("schedule", "epsilon", "clip_norm", "precision", "compile", "micro_batch", "seed", "log_every", "device"),
    "processes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneSettings:
    """The settings of fine-tuning. Unless stated otherwise, None means the value published for the model's family.

    max_length:    maximum number of tokens of a sequence, including special tokens; None: the default of the task, or
                   the model's maximum if that is less
    epochs:        number of passes over all training examples
    patience:      number of epochs without improvement after which training stops; None: no early stopping
    batch:         number of items of a step, over all processes and micro-batches
    micro_batch:   maximum number of items that a process holds at once; None: its whole share of a step
    learning_rate: the peak learning rate
    schedule:      how the learning rate changes after the peak, as in pre-training
    warmup:        share of all steps over which the learning rate rises to the peak
    weight_decay, layer_decay, clip_norm, epsilon: as in pre-training
    dropout:       dropout of hidden states and in the head; None: the model's dropout
    pooling:       input of a head for whole texts: "cls" (the first token) or "mean" (the mean of all tokens); None:
                   the model's pooling (ModernBERT); models of other families only support the first token
    freeze:        parts that are not trained: "embeddings", "encoder" (including the embeddings), or layers by
                   zero-based index: "3", "0-5"
    precision:     number type of matrix products: "auto", "float32", "bfloat16" or "float16"
    compile:       whether to compile every layer with torch.compile
    seed:          seed of the heads' initial weights, the order of examples, and dropout
    restarts:      number of runs, with consecutive seeds from `seed` on; the run that is best on the evaluation
                   examples is kept, and all are reported, with median and spread
    keep:          epoch to keep: the "best" by the task's metric on the evaluation examples (if several are equal, the
                   one with the lower loss), or the "last"
    log_every:     number of steps between lines of the log
    device:        "cuda" or "cpu"; "auto": a GPU if there is one
    processes:     number of processes on this machine; 0: one per GPU, or one if there is none
    """

    max_length: int | None = None
    epochs: int | None = None
    patience: int | None = None
    batch: int | None = None
    micro_batch: int | None = limit_field(None)
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
    compile: bool = limit_field(False)
    seed: int = 42
    restarts: int = 1
    keep: str = "best"
    log_every: int = limit_field(1)
    device: str = limit_field("auto")
    processes: int = limit_field(0)

    def __post_init__(self) -> None:
        for name, low, high in BOUNDS:
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), low, high)
        check_range("restarts", self.restarts, 1, 1_000)
        check_choice("precision", self.precision, ("auto", *PRECISIONS))
        check_choice("keep", self.keep, ("best", "last"))
        for layers in self.freeze:
            _ = parse_frozen_layers(layers)
        if self.keep == "last" and self.restarts > 1:
            raise InputError('restarts are compared by their best epochs, and keep is "last": leave one of them out.')
        self.to_training_settings(1)  # checks what is left

    def to_training_settings(self, steps: int) -> TrainingSettings:
        """Convert to the settings of the optimizer and the training loop, with one phase for each restart.

        Values that are None become 0 (learning rate, weight decay), 1 (batch, layer decay) or no warm-up.

        Args:
            steps: The number of steps of one restart.

        Raises:
            InputError: If a value is out of range.
        """
        warmup_steps = round((self.warmup or 0.0) * steps)
        return TrainingSettings(
            phase=(PhaseSettings(steps=steps, batch=self.batch or 1, warmup_steps=warmup_steps),) * self.restarts,
            learning_rate=self.learning_rate or 0.0,
            weight_decay=self.weight_decay or 0.0,
            layer_decay=1.0 if self.layer_decay is None else self.layer_decay,
            **{name: getattr(self, name) for name in TRAINING_KEYS},
        )


def read_job(kind: type[Job], arguments: Sequence[str]) -> Job:
    """Read the settings of a command from a JSON file.

    Args:
        kind: The dataclass to build, such as `FinetuneJob`. The keys of the file are its fields.
        arguments: The arguments of the command, which must be the path of a single file.

    Raises:
        InputError: If the file does not exist, or has an unknown key or a value out of range.
    """
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        raise InputError("Name one JSON file with the job.")
    return bind_settings(kind, json.loads(Path(arguments[0]).read_text(encoding="utf-8")), "job")


def parse_frozen_layers(text: str) -> range | None:
    """Parse an entry of `freeze` as a range of zero-based layer indices; None for "embeddings" and "encoder".

    Raises:
        InputError: If the entry is invalid.

    >>> parse_frozen_layers("0-5"), parse_frozen_layers("3"), parse_frozen_layers("encoder")
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

    model:  folder of the model to start from
    output: folder for the fine-tuned model; must be empty or not exist
    task:   `kind`, and settings of the task
    training: the labeled file to train on
    evaluation: the labeled file that is used to choose the best epoch; equal to `training` if some of its examples are
            held out
    settings: the settings of fine-tuning
    folds:  number of parts into which the training examples are divided; 0: none are held out
    fold:   zero-based index of the part that is held out
    group:  name of a kept column of `training`; examples with the same value are held out together; "": examples
            with the same text, context or document
    first_weights: whether to start from random weights instead of the pre-trained ones, as a control
    """

    model: str
    output: str
    task: Mapping[str, Any]
    training: FileSettings
    evaluation: FileSettings
    settings: FinetuneSettings = field(default_factory=FinetuneSettings)
    folds: int = 0
    fold: int = 0
    group: str = ""
    first_weights: bool = False

    def __post_init__(self) -> None:
        if self.folds:
            check_range("folds", self.folds, 2, 1_000)
            check_range("fold", self.fold, 0, self.folds - 1)


# Hyper-parameters as the authors of each family published them: the defaults.
#
# BERT        Devlin et al. 2018, appendix A.3: batch 32, 3 epochs, 5e-5 to 2e-5; warm-up of a tenth is their code's
# small BERTs Turc et al. 2019, section 5: 4 epochs, rates of 3e-4 to 3e-5
# RoBERTa     Liu et al. 2019, table 10: 10 epochs, warm-up of 6 %, decay 0.1, 1e-5 to 3e-5
# ELECTRA     Clark et al. 2020, table 7: 3e-4, 1e-4 and 5e-5 by size, layer-wise decay, no weight decay
# ALBERT      Lan et al. 2020, table 14: 1e-5 to 5e-5 by task
# DistilBERT  as BERT, of which it is distilled (Sanh et al. 2019, section 3)
# ModernBERT  Warner et al. 2024, appendix E: rates by task, decay of 1e-6 to 1e-5
#
# similarity  Reimers, Gurevych 2019, sections 3.1 and 4.2: batch 16, 2e-5, 4 epochs of scores, one of NLI's classes
# retrieval   Karpukhin et al. 2020, section 5: batch 128, 40 epochs, 2e-5; 1,237 steps of warm-up of their 18,400
#
# By task: SQuAD of RoBERTa and RACE (Liu et al. 2019, table 10), SQuAD of ELECTRA (Clark et al. 2020, appendix B),
# SQuAD of ALBERT (Lan et al. 2020, table 14), SWAG of BERT (Devlin et al. 2018, section 4.4).
#
# The rates of tasks are those of models of the size base; small ones keep their own.

MAX_SMALL_HIDDEN_SIZE = 512  # hidden size up to which a BERT is one of the small ones

DEFAULTS: dict[str, Any] = {"epochs": 3, "batch": 32, "learning_rate": 5e-5, "warmup": 0.1, "weight_decay": 0.01}
FAMILY_DEFAULTS: dict[str, dict[str, Any]] = {
    "roberta": {"epochs": 10, "learning_rate": 2e-5, "warmup": 0.06, "weight_decay": 0.1},
    "albert": {"learning_rate": 2e-5},
    "modernbert": {"learning_rate": 5e-5, "warmup": 0.06, "weight_decay": 1e-5},
    "electra": {"weight_decay": 0.0},
}
ELECTRA_SIZES = ((256, 3e-4, 0.8), (768, 1e-4, 0.8), (1 << 20, 5e-5, 0.9))  # up to this hidden size: rate, decay
TASK_DEFAULTS: dict[str, dict[str, Any]] = {
    "similarity": {"batch": 16, "epochs": 4, "learning_rate": 2e-5, "warmup": 0.1, "weight_decay": 0.01},
    "retrieval": {"batch": 128, "epochs": 40, "learning_rate": 2e-5, "warmup": 0.07, "weight_decay": 0.0},
}
TASK_AND_FAMILY_DEFAULTS: dict[tuple[str, str], dict[str, Any]] = {
    ("span", "roberta"): {"epochs": 2, "batch": 48, "learning_rate": 1.5e-5, "weight_decay": 0.01},
    ("span", "electra"): {"epochs": 2},
    ("span", "albert"): {"epochs": 2, "batch": 48, "learning_rate": 5e-5},
    ("choice", "bert"): {"batch": 16, "learning_rate": 2e-5},
    ("choice", "roberta"): {"epochs": 4, "batch": 16, "learning_rate": 1e-5},
}


def with_published(settings: FinetuneSettings, model: ModelSettings, kind: str = "") -> FinetuneSettings:
    """Return a copy of the fine-tuning settings in which None values are replaced by published ones.

    Args:
        settings: The settings. Values that are not None are unchanged.
        model: The settings of the model, which determine its family and size.
        kind: The kind of task, such as "span". Values published for it take precedence over those of the family, except
            the learning rate of small models.
    """
    family, hidden_size = model.family_row.name, model.shape[1]
    taken = {**DEFAULTS, "layer_decay": 1.0, **FAMILY_DEFAULTS.get(family, {})}
    if family == "electra":
        _, rate, decay = next(row for row in ELECTRA_SIZES if hidden_size <= row[0])
        taken |= {"learning_rate": rate, "layer_decay": decay}
    elif family == "bert" and hidden_size <= MAX_SMALL_HIDDEN_SIZE:
        taken |= {"learning_rate": 3e-4, "epochs": 4}
    small = {"learning_rate"} if hidden_size <= MAX_SMALL_HIDDEN_SIZE else set()
    of_task = {**TASK_DEFAULTS.get(kind, {}), **TASK_AND_FAMILY_DEFAULTS.get((kind, family), {})}
    taken |= {name: value for name, value in of_task.items() if name not in small}
    return replace(settings, **{name: value for name, value in taken.items() if getattr(settings, name) is None})
