"""Tasks: the columns that one reads, how an example becomes tokens, what is learnt, and how answers are judged.

A task is a frozen dataclass whose fields are settings of the task alone. One more is a file with such a class in
`trainer/tasks/kinds` and a line in `trainer.tasks.registry`; or a class of an installed package, under the entry point
`cloze.tasks`:

    [project.entry-points."cloze.tasks"]
    stance = "my_package:StanceTask"

None of it may import torch, because the command reads it. What does is in the function that `builder` names: it makes a
`trainer.tasks.heads.task_model.TaskModel` of a pre-trained encoder.

    record ─example─► example ─fitted─► the task, with what it learnt of them ─items─► tokens ─► answers
                                                                                 answers ─predictions─► scores, rows

Below are what kinds share: names of metrics and of classes, shares of answers.

Shapes: T tokens, S sequences, P points of an item.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.kernels.arrays import Float64s, Int32s, Int64s
from corpora.store.settings import check_choice
from trainer.families.contract import ModelInputs
from trainer.objectives.contract import Term
from trainer.tasks.formats.records import Unusable
from trainer.tasks.text_encoder import TextEncoder, to_ids, to_segment_ids

NO_POINTS: Int64s = np.empty(0, np.int64)
MAX_LISTED = 8
MAX_COUNT = 1 << 20  # tokens or sentences: no setting of a kind is larger

Example = Any  # the task's own, hashable or not
Prediction = Any  # the task's own


class Tokens(NamedTuple):
    """One sequence as a model reads it. ids: int32 [T]; segment_ids: int32 [T], 0 or 1"""

    ids: Int32s
    segment_ids: Int32s

    @staticmethod
    def from_encoding(encoding: Encoding) -> "Tokens":
        """Return what a tokenizer has made."""
        return Tokens(to_ids(encoding), to_segment_ids(encoding))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskItem:
    """The unit that is learnt from or judged at once: an example, or a window of one.

    sequences: one, or several that are compared
    example:   its number among the examples that were encoded in one call; later among those of the file
    points:    int64 [P], places among the tokens of all its sequences that heads read
    targets:   by name; those of the items of a batch are put one after another along the first axis
    origin:    what its task needs to know again when it makes predictions; no model reads it
    """

    sequences: tuple[Tokens, ...]
    example: int
    points: Int64s = field(default_factory=lambda: NO_POINTS)
    targets: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    origin: Any = None

    @property
    def num_tokens(self) -> int:
        """The tokens of all its sequences."""
        return sum(len(sequence.ids) for sequence in self.sequences)


Items = Sequence[TaskItem]
Answers = Sequence[npt.NDArray[Any]]  # of a model to items
RemovedSettings = Mapping[str, Mapping[str, Json]]


class Misfit(InputError):
    """An example from which nothing can be learnt as the task is. example: its number, for the line to look at"""

    def __init__(self, example: int, message: str) -> None:
        super().__init__(message)
        self.example = example


def check_finite(answers: npt.NDArray[Any]) -> None:
    """Raise InputError unless each answer of a model is a finite number: scores would not show it."""
    strange = np.flatnonzero(~np.isfinite(answers))
    if len(strange):
        raise InputError(
            f"{len(strange):,} of {answers.size:,} answers of the model are not finite numbers, first number "
            f"{strange[0] + 1:,}, which is {answers.flat[strange[0]]}: a model that diverged gives such answers."
        )


class Task:
    """One kind of task, and the defaults of what a kind may leave out. Raise `version` whenever it learns otherwise.

    kind:         its name
    builder:      "package.module:Class" of the model that learns, made of the task and the `Pretrained` model
    format:       of files whose ending does not show it
    unit:         what a row of the model's answers is of: a "sequence", a "point" or a "token"
    architecture: by which families know the class of the model, as far as it is one of theirs
    causal:       whether a token sees itself and those before it, and none after it
    usual_length: tokens of a sequence before it is cut, where nothing else is set
    roles:        the parts of a record that it reads; each has the column of its name unless a file's settings differ
    optional:     those of them that a file may lack
    learnt:       those of them that are learnt: only labelled examples have them
    former:       settings that are gone, each after the one it followed, with the value that meant what is done now: in
                  records, so that these stay as they were
    """

    __slots__ = ()

    kind: ClassVar[str]
    builder: ClassVar[str]
    version: ClassVar[int] = 1
    format: ClassVar[str] = ""
    unit: ClassVar[str] = "sequence"
    architecture: ClassVar[str] = "encoder"
    causal: ClassVar[bool] = False
    default_length: ClassVar[int] = 512
    label_roles: ClassVar[frozenset[str]] = frozenset()
    removed_settings: ClassVar[RemovedSettings] = {}

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the parts of a record that it reads."""
        raise NotImplementedError

    @property
    def optional_roles(self) -> frozenset[str]:
        """Return those of them that a file may lack."""
        return frozenset()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names in `scores` by which an epoch may be judged: the higher the better; the first is used."""
        raise NotImplementedError

    @property
    def export_architecture(self) -> str:
        """Return the class that is exported; "encoder" where none has the heads: these are in a file next to it."""
        return self.architecture

    @property
    def term(self) -> Term:
        """Return the term of what is learnt from labels."""
        raise NotImplementedError

    def list_terms(self) -> tuple[Term, ...]:
        """Return the terms of the loss."""
        return (self.term,)

    def make_example(self, values: Mapping[str, Any], labelled: bool) -> Example:
        """Return a record's values by role as an example. Raises Unusable.

        labelled: whether it must have what is to be learnt; without, that may be missing
        """
        raise NotImplementedError

    def fit(self, examples: Sequence[Example], where: str) -> Self:
        """Return the task with what it must know of the training examples: names of classes, and the like.

        where: their file, for messages. Raises InputError if they cannot be learnt; Misfit where one is to blame.
        """
        return self

    def find_unknown_label(self, example: Example) -> Unusable | None:
        """Return why an example has an answer that the task does not have: one that no row of training had, say.

        Nothing is learnt from such an example; where it judges, every prediction for it is wrong.
        """
        return None

    def find_source(self, example: Example) -> Any:
        """Return the text, context or document that an example is of: those of one are held out together."""
        return example[0] if isinstance(example, tuple) else example

    def build_text_encoder(self, folder: Path, inputs: ModelInputs, max_length: int) -> TextEncoder:
        """Return what reads texts for a model in a folder. Raises InputError."""
        return TextEncoder.from_folder(folder, inputs, max_length)

    def iter_groups(self, examples: Sequence[Example]) -> Iterable[range]:
        """Return which examples belong together, like those of a document, and are encoded in one call; in order."""
        return (range(number, number + 1) for number in range(len(examples)))

    def make_items(self, examples: Sequence[Example], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """Return examples as items, in their order, numbered from 0.

        A file is encoded in parts, each by a call of its own; the items are those of one call (see `groups`).
        """
        raise NotImplementedError

    def count_targets(self, items: Items) -> tuple[int, ...]:
        """Return by what the sum of each term is divided, once they are added up over the step: items, or points."""
        number = sum(len(item.points) for item in items) if self.unit == "point" else len(items)
        return (number,) * len(self.list_terms())

    def make_predictions(self, examples: Sequence[Example], items: Items, answers: Answers) -> list[Prediction]:
        """Return the model's prediction for each example, from the answers to all items: by default these."""
        return list(answers)

    def compute_scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Return the scores of predictions, by name."""
        raise NotImplementedError

    def tune(self, scores: Mapping[str, float]) -> Self:
        """Return the task with what it takes from the scores of the epoch that is kept, such as a threshold."""
        return self

    def to_row(self, example: Example, prediction: Prediction) -> dict[str, Any]:
        """Return a prediction as a row of JSON."""
        raise NotImplementedError

    def judge(self, example: Example, prediction: Prediction) -> dict[str, Any]:
        """Return what a row of a labelled example has as well: `gold`, and `score` where the row has one by itself."""
        return {}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self | None:
        """Return the task of a folder of its architecture that others wrote; None if it is not of this task."""
        return cls()

    def to_config(self) -> Mapping[str, Any]:
        """Return the keys of the exported `config.json` that are the task's."""
        return {}


# What kinds share: names of metrics and of classes, shares of answers.


def format_names(names: Sequence[str]) -> str:
    """Names, not too many of them.

    >>> format_names(["a", "b"]), format_names([str(n) for n in range(10)])
    ("'a', 'b'", "'0', '1', '2', '3', '4', '5', '6', '7' and 2 more")
    """
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(map(repr, names[:MAX_LISTED])) + more


def with_first(requested: str, metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Return metrics with the requested one first. asked: "": as they are. Raises InputError for another.

    >>> with_first("f1", ("accuracy", "f1"))
    ('f1', 'accuracy')
    """
    check_choice("metric", requested, ("", *metrics))
    return (requested, *(name for name in metrics if name != requested)) if requested else metrics


def with_others(labels: Sequence[str], named: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return classes, and after them the other names that examples have, sorted.

    >>> with_others(["no", "yes"], [["yes"], ["maybe"]])
    ('no', 'yes', 'maybe')
    """
    return (*labels, *sorted({name for names in named for name in names} - {*labels}))


def check_labels(labels: Sequence[str]) -> None:
    """Raise InputError if a class is named twice."""
    if len({*labels}) < len(labels):
        raise InputError(f"labels = {', '.join(labels)} names a class twice: give each name once.")


def to_label_keys(labels: Sequence[str]) -> dict[str, Any]:
    """The keys of a configuration that name classes."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def parse_labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The classes that a configuration names, in their order."""
    named = {int(n): str(label) for n, label in config.get("id2label", {0: "LABEL_0", 1: "LABEL_1"}).items()}
    return tuple(named[number] for number in sorted(named))


def softmax(logits: npt.NDArray[Any]) -> Float64s:
    """The shares of answers of which one is right."""
    powers = np.exp((logits - logits.max()).astype(np.float64))
    shares: Float64s = powers / powers.sum()
    return shares


def sigmoid(logits: npt.NDArray[Any]) -> Float64s:
    """The share of each answer by itself."""
    shares: Float64s = 1 / (1 + np.exp(-logits.astype(np.float64)))
    return shares
