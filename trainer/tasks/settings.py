"""What a fine-tuning run is asked to do. Standard library only, no torch."""

import dataclasses
import json
from dataclasses import dataclass

from corpora.errors import InputError
from corpora.store.settings import bind, check_choice, check_range, limit
from trainer.settings import PhaseSettings, TrainingSettings

CLASSES, NUMBER = "classes", "number"
# By what is predicted; the first is the one that is used where none is named.
METRICS = {CLASSES: ("accuracy", "macro_f1", "matthews"), NUMBER: ("pearson", "spearman")}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """A file of labelled texts: `.tsv` (no quoting), `.csv` (RFC 4180) or `.jsonl`.

    text, label:  a column by its name in the header, or by its number from 1; in a `.jsonl` file a key
    header:       whether the first line names the columns; a `.jsonl` file has none
    max_unusable: largest share of rows that may be unusable before the file is refused
    """

    path: str
    text: str = "text"
    label: str = "label"
    header: bool = True
    max_unusable: float = limit(0.01)

    def __post_init__(self) -> None:
        check_range(f"{self.path}: max_unusable", self.max_unusable, 0, 1)
        if self.text == self.label:
            raise InputError(f"{self.path}: text and label are both {self.text!r}: name a column for each.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneSettings:
    """How a classifier is learnt; the defaults are within the grid of Devlin et al. 2018, appendix A.3.

    predict:    "classes", of which each label names one; "number": a label is a number, learnt with the mean squared
                error (as STS-B's scores); "": classes, unless the labels look like numbers, which is then refused
    labels:     names of the classes in their order; none: those of the training rows, sorted
    max_length: tokens of a text, special ones included, before it is cut; None: 128, or all that the model reads
    warmup:     share of all steps over which the learning rate rises; then it falls linearly to zero
    dropout:    of hidden states and in the head; None: the model's own
    precision:  "float32" or "bfloat16" for the matrices of forward and backward
    keep:       "best" epoch by `metric` on the evaluation rows (the earliest of equals), or the "last"
    metric:     accuracy, macro_f1 or matthews for classes, pearson or spearman for numbers; "": the first of them
    log_every:  steps between lines of the log
    """

    predict: str = ""
    labels: tuple[str, ...] = ()
    max_length: int | None = None
    epochs: int = 3
    batch: int = 32
    learning_rate: float = 5e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    dropout: float | None = None
    precision: str = "float32"
    seed: int = 42
    keep: str = "best"
    metric: str = ""
    log_every: int = limit(1)

    def __post_init__(self) -> None:
        if self.max_length is not None:
            check_range("max_length", self.max_length, 3, 1 << 20)
        check_range("epochs", self.epochs, 1, 1 << 20)
        check_range("warmup", self.warmup, 0, 1)
        check_choice("precision", self.precision, ("float32", "bfloat16"))
        check_choice("keep", self.keep, ("best", "last"))
        check_choice("predict", self.predict, ("", CLASSES, NUMBER))
        if self.metric in METRICS[NUMBER] and not self.predict:
            raise InputError(f'metric = "{self.metric}" judges numbers: say predict = "number" as well, or drop it.')
        check_choice("metric", self.metric, ("", *METRICS[self.predict or CLASSES]))
        if self.predict == NUMBER and self.labels:
            raise InputError('labels names classes, and predict is "number": leave one of them out.')
        if self.dropout is not None:
            check_range("dropout", self.dropout, 0, 0.9)
        if len({*self.labels}) < len(self.labels):
            raise InputError(f"labels = {', '.join(self.labels)} names a class twice: give each name once.")
        self.training(self.epochs)  # checks what is left

    def training(self, steps: int) -> TrainingSettings:
        """The same for the optimiser, once it is known how many steps there are."""
        return TrainingSettings(
            phase=(PhaseSettings(steps=steps, batch=self.batch),),
            learning_rate=self.learning_rate,
            warmup_steps=round(self.warmup * steps),
            weight_decay=self.weight_decay,
            clip_norm=self.clip_norm,
            precision=self.precision,
            seed=self.seed,
            log_every=self.log_every,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneJob:
    """One fine-tuning run.

    model:  folder of the model to begin with
    output: folder for the classifier; it must not hold anything yet
    """

    model: str
    output: str
    training: TableSettings
    evaluation: TableSettings
    settings: FinetuneSettings

    def to_json(self) -> str:
        """The job as a JSON document."""
        return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False)

    @staticmethod
    def from_json(data: str) -> "FinetuneJob":
        """The job that `to_json` wrote. Raises InputError for keys and values that a job does not have."""
        return bind(FinetuneJob, json.loads(data), "job")
