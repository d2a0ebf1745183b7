"""Tasks: what is read from a record, how an example becomes tokens, what is trained, and how predictions are scored.

A task is a frozen dataclass. Its fields are the settings of this kind of task. To add a kind, write a file with such a
class in `trainer/tasks/kinds` and add a line to `trainer.tasks.registry`, or publish the class in a package with an
entry point in `cloze.tasks`:

    [project.entry-points."cloze.tasks"]
    stance = "my_package:StanceTask"

The class must not import torch, because the command uses it. Code that needs torch is in the class that `builder`
names, a `trainer.tasks.heads.task_model.TaskModel` with a pre-trained encoder.

    record ─make_example─► example ─fit─► the task, with settings from the examples ─make_items─► items of tokens
    items ─the model─► outputs ─make_predictions─► predictions ─compute_scores, to_row─► scores, rows

This module also has functions that several kinds use, for names of metrics and classes, and for probabilities.

Shapes: T tokens, S sequences, P points (token positions that the heads read) of an item.
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
    """One sequence of tokens as a model reads it.

    ids:         int32 [T], token ids
    segment_ids: int32 [T], 1 for the tokens of a second text, 0 for all others, including special tokens
    """

    ids: Int32s
    segment_ids: Int32s

    @staticmethod
    def from_encoding(encoding: Encoding) -> "Tokens":
        """Convert an encoding of the tokenizers library to token ids and segment ids."""
        return Tokens(to_ids(encoding), to_segment_ids(encoding))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskItem:
    """The input of a model for one example, or for one window of a long example.

    sequences: one sequence, or several that are compared, such as the choices of a question
    example:   zero-based index of the example, within the call of `make_items` and later within the file
    points:    int64 [P], token positions that the heads read, counted across all sequences of the item
    targets:   arrays by name; in a batch, the arrays of all items are concatenated along the first axis
    origin:    data for converting the model's outputs to predictions; the model does not read it
    """

    sequences: tuple[Tokens, ...]
    example: int
    points: Int64s = field(default_factory=lambda: NO_POINTS)
    targets: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    origin: Any = None

    @property
    def num_tokens(self) -> int:
        """The total number of tokens of all sequences."""
        return sum(len(sequence.ids) for sequence in self.sequences)


Items = Sequence[TaskItem]
Answers = Sequence[npt.NDArray[Any]]  # of a model to items
OldKeys = Mapping[str, Mapping[str, Json]]


class Misfit(InputError):
    """An error in an example that makes it impossible to fit the task. `example` is the example's zero-based index."""

    def __init__(self, example: int, message: str) -> None:
        super().__init__(message)
        self.example = example


def check_finite(answers: npt.NDArray[Any]) -> None:
    """Raise InputError if an output of the model is infinite or NaN."""
    strange = np.flatnonzero(~np.isfinite(answers))
    if len(strange):
        raise InputError(
            f"{len(strange):,} of {answers.size:,} answers of the model are not finite numbers, first number "
            f"{strange[0] + 1:,}, which is {answers.flat[strange[0]]}: a model that diverged gives such answers."
        )


class Task:
    """The base class of all kinds of task.

    A role is the meaning of a value for the task, such as `text` or `label`.

    kind:           the name of the kind
    builder:        "package.module:Class" of the model, which is called with the task and a `Pretrained` model
    version:        must be increased whenever the same settings and examples result in a different model
    format:         format of files with an ambiguous extension
    unit:           what each row of the model's outputs belongs to: a "sequence", a "point" or a "token"
    architecture:   the key under which model families list the Hugging Face class for this kind
    causal:         True if a token only attends to itself and to earlier tokens
    default_length: maximum number of tokens of a sequence, unless set otherwise
    label_roles:    the roles that only labeled examples have
    old_keys:       removed settings and their only supported values, by the name of the setting that preceded them;
                    they are still written to records, so that equal tasks have equal records
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
    old_keys: ClassVar[OldKeys] = {}

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that the task reads from a record, such as "text" and "label".

        By default, a role is read from the column of the same name; the settings of a file can name another column.
        """
        raise NotImplementedError

    @property
    def optional_roles(self) -> frozenset[str]:
        """The roles (meanings of values, such as `second` for a second text) that may be missing from a file."""
        return frozenset()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the scores that can be used to choose the best epoch, the default one first.

        Higher scores are better.
        """
        raise NotImplementedError

    @property
    def export_architecture(self) -> str:
        """The key of the Hugging Face class to which the model is exported.

        It is "encoder" if no Hugging Face class has the task's heads. The heads are then written to a separate file.
        """
        return self.architecture

    @property
    def term(self) -> Term:
        """The loss term of the task: its name, and whether correct predictions are counted."""
        raise NotImplementedError

    def list_terms(self) -> tuple[Term, ...]:
        """Return the terms of the task's loss, in the order in which `TaskModel.compute_losses` returns them."""
        return (self.term,)

    def make_example(self, values: Mapping[str, Any], labelled: bool) -> Example:
        """Build an example from a record, such as a line of a file.

        Args:
            values: The values of the record by role, without those that are None.
            labelled: True if the example must have a label. If False, the label is ignored and may be missing.

        Raises:
            Unusable: If the record cannot be used. Its message is the reason under which such records are counted.
        """
        raise NotImplementedError

    def fit(self, examples: Sequence[Example], where: str) -> Self:
        """Return a copy of the task with settings taken from the training examples, such as the names of the classes.

        Args:
            examples: The training examples.
            where: The name of their file, for error messages.

        Raises:
            InputError: If nothing can be learned from the examples.
            Misfit: If nothing can be learned because of one particular example.
        """
        return self

    def find_unknown_label(self, example: Example) -> Unusable | None:
        """Return a reason if the label of an example is unknown to the fitted task, otherwise None.

        A class without training rows, for example, is unknown. Examples with unknown labels are not used for training.
        In an evaluation file they are kept, and every prediction for them is wrong.
        """
        return None

    def find_source(self, example: Example) -> Any:
        """Return the text, context or document that an example was taken from.

        Examples from the same source are held out together.
        """
        return example[0] if isinstance(example, tuple) else example

    def build_text_encoder(self, folder: Path, inputs: ModelInputs, max_length: int) -> TextEncoder:
        """Build the encoder that converts texts to tokens for a model.

        Args:
            folder: The folder of the model, which contains its tokenizer.
            inputs: The model's vocabulary size and special token ids.
            max_length: Maximum number of tokens of a sequence, including special tokens.

        Raises:
            InputError: If the tokenizer is missing or does not fit the model.
        """
        return TextEncoder.from_folder(folder, inputs, max_length)

    def iter_groups(self, examples: Sequence[Example]) -> Iterable[range]:
        """Yield ranges of example indices, in order, that must be encoded together, such as a document's sentences.

        By default, each example is its own group.
        """
        return (range(number, number + 1) for number in range(len(examples)))

    def make_items(self, examples: Sequence[Example], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """Encode examples as items (model inputs for an example, or for one window of a long example).

        Args:
            examples: The examples, which must be one or more complete groups of `iter_groups`.
            encoder: The encoder that converts texts to tokens and counts truncated tokens.
            labelled: True to add targets to the items.

        Returns:
            The items, in the order of the examples. `TaskItem.example` is an index into `examples`.
        """
        raise NotImplementedError

    def count_targets(self, items: Items) -> tuple[int, ...]:
        """Return the divisor of each term's summed loss: the number of points if `unit` is "point", else of items."""
        number = sum(len(item.points) for item in items) if self.unit == "point" else len(items)
        return (number,) * len(self.list_terms())

    def make_predictions(self, examples: Sequence[Example], items: Items, answers: Answers) -> list[Prediction]:
        """Convert the model's outputs for all items to one prediction for each example.

        Args:
            examples: The examples.
            items: The items of all examples, as returned by `make_items`. `TaskItem.example` is an index into
                `examples`.
            answers: The model's output for each item: an array with one row for each sequence, point or token.

        Returns:
            The predictions, in the order of the examples; by default the outputs themselves.
        """
        return list(answers)

    def compute_scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Compute the scores of predictions for labeled examples, as {metric: score}.

        Each kind of task defines its scores.
        """
        raise NotImplementedError

    def tune(self, scores: Mapping[str, float]) -> Self:
        """Return a copy of the task with settings taken from the scores of the best epoch, such as a threshold.

        By default, the task is returned unchanged.
        """
        return self

    def to_row(self, example: Example, prediction: Prediction) -> dict[str, Any]:
        """Convert a prediction to a dictionary that can be written as JSON, without the label."""
        raise NotImplementedError

    def judge(self, example: Example, prediction: Prediction) -> dict[str, Any]:
        """Return the keys that only rows of labeled examples have: `gold`, and `score` if one example can be scored."""
        return {}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self | None:
        """Build the task from the `config.json` of a model trained elsewhere, or return None if it does not fit."""
        return cls()

    def to_config(self) -> Mapping[str, Any]:
        """Return the keys of the exported `config.json` that describe the task. By default there are none."""
        return {}


# What kinds share: names of metrics and of classes, shares of answers.


def format_names(names: Sequence[str]) -> str:
    """Format names for a message as quoted names, at most MAX_LISTED of them, followed by how many more there are.

    >>> format_names(["a", "b"]), format_names([str(n) for n in range(10)])
    ("'a', 'b'", "'0', '1', '2', '3', '4', '5', '6', '7' and 2 more")
    """
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(map(repr, names[:MAX_LISTED])) + more


def with_first(requested: str, metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Return metrics with the requested one moved to the front.

    Args:
        requested: A name in `metrics`. If "", the order is unchanged.
        metrics: All metrics of the task.

    Raises:
        InputError: If the requested metric is not one of them.

    >>> with_first("f1", ("accuracy", "f1"))
    ('f1', 'accuracy')
    """
    check_choice("metric", requested, ("", *metrics))
    return (requested, *(name for name in metrics if name != requested)) if requested else metrics


def with_others(labels: Sequence[str], named: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return class names followed by all other names that occur in examples, sorted.

    >>> with_others(["no", "yes"], [["yes"], ["maybe"]])
    ('no', 'yes', 'maybe')
    """
    return (*labels, *sorted({name for names in named for name in names} - {*labels}))


def check_labels(labels: Sequence[str]) -> None:
    """Raise InputError if the names of the classes are not distinct."""
    if len({*labels}) < len(labels):
        raise InputError(f"labels = {', '.join(labels)} names a class twice: give each name once.")


def to_label_keys(labels: Sequence[str]) -> dict[str, Any]:
    """Build the keys of a `config.json` that name the classes: `id2label` and `label2id`."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def parse_labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Read the names of the classes from a `config.json`, in the order of the model's outputs.

    If it has no names, they are LABEL_0 and LABEL_1.
    """
    named = {int(n): str(label) for n, label in config.get("id2label", {0: "LABEL_0", 1: "LABEL_1"}).items()}
    return tuple(named[number] for number in sorted(named))


def softmax(logits: npt.NDArray[Any]) -> Float64s:
    """Compute the softmax over all elements of an array: probabilities of the same shape that sum to 1."""
    powers = np.exp((logits - logits.max()).astype(np.float64))
    shares: Float64s = powers / powers.sum()
    return shares


def sigmoid(logits: npt.NDArray[Any]) -> Float64s:
    """Compute the sigmoid of each logit. The results are separate probabilities, which need not sum to 1."""
    shares: Float64s = 1 / (1 + np.exp(-logits.astype(np.float64)))
    return shares
