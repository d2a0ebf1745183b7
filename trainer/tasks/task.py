"""Tasks: what one reads of a record, how an example becomes tokens, what is learnt, and how answers are scored.

A task is a frozen dataclass whose fields are the settings of this kind of task. A new kind is a file with such a class
in `trainer/tasks/kinds` and a line in `trainer.tasks.registry`; or a class of an installed package, under the entry
point `cloze.tasks`:

    [project.entry-points."cloze.tasks"]
    stance = "my_package:StanceTask"

The class must not import torch, because the command reads it. What needs torch is in the class that `builder` names: a
`trainer.tasks.heads.task_model.TaskModel`, built on a pre-trained encoder.

    record ─make_example─► example ─fit─► the task, with what it learnt of the examples ─make_items─► items of tokens
    items ─the model─► answers ─make_predictions─► predictions ─compute_scores, to_row─► scores, rows

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
    """One sequence of tokens as a model reads it.

    ids:         int32 [T], token ids
    segment_ids: int32 [T], 0 for tokens of a first text and special tokens, 1 for those of a second text
    """

    ids: Int32s
    segment_ids: Int32s

    @staticmethod
    def from_encoding(encoding: Encoding) -> "Tokens":
        """Return the ids and segments of what a tokenizer has encoded."""
        return Tokens(to_ids(encoding), to_segment_ids(encoding))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskItem:
    """What a model reads and answers at once: an example, or one window of a long example.

    sequences: one sequence, or several that are compared, such as the choices of a question
    example:   the zero-based index of its example, in the call of `make_items` and later in the file
    points:    int64 [P], positions that heads read, counted through the tokens of all its sequences
    targets:   arrays by name; a batch concatenates those of its items along the first axis
    origin:    what the task needs to turn answers into predictions; no model reads it
    """

    sequences: tuple[Tokens, ...]
    example: int
    points: Int64s = field(default_factory=lambda: NO_POINTS)
    targets: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    origin: Any = None

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens of all its sequences."""
        return sum(len(sequence.ids) for sequence in self.sequences)


Items = Sequence[TaskItem]
Answers = Sequence[npt.NDArray[Any]]  # of a model to items
OldKeys = Mapping[str, Mapping[str, Json]]


class Misfit(InputError):
    """An error for an example that makes the task impossible to learn. `example` is its zero-based index."""

    def __init__(self, example: int, message: str) -> None:
        super().__init__(message)
        self.example = example


def check_finite(answers: npt.NDArray[Any]) -> None:
    """Raise InputError if an answer of a model is infinite or NaN."""
    strange = np.flatnonzero(~np.isfinite(answers))
    if len(strange):
        raise InputError(
            f"{len(strange):,} of {answers.size:,} answers of the model are not finite numbers, first number "
            f"{strange[0] + 1:,}, which is {answers.flat[strange[0]]}: a model that diverged gives such answers."
        )


class Task:
    """The base of all kinds of task.

    kind:           the name of the kind
    builder:        "package.module:Class" of the model, which is called with the task and a `Pretrained` model
    version:        to be raised whenever the same settings and examples learn something else
    format:         the format of files whose ending does not tell it
    unit:           what a row of the model's answers belongs to: a "sequence", a "point" or a "token"
    architecture:   the key under which model families list the Hugging Face class of this kind
    causal:         True if a token attends only to itself and the tokens before it
    default_length: the tokens of a sequence before it is cut, if nothing else is set
    label_roles:    the roles that only labelled examples have
    old_keys: settings that no longer exist, by the setting that they followed, with the value that meant what
                      is done now. They are still written to records, so that equal tasks have equal records.

    A role is the meaning of a value for the task, such as `text` or `label`.
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
        """Return the roles that the task reads. Each is read from the column of its name unless a file's settings name
        another.
        """
        raise NotImplementedError

    @property
    def optional_roles(self) -> frozenset[str]:
        """Return the roles that a file may lack: meanings of values, such as `second` for a second text."""
        return frozenset()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of the scores by which epochs can be compared, the default first. Higher must be better."""
        raise NotImplementedError

    @property
    def export_architecture(self) -> str:
        """Return the key of the class that is exported.

        It is "encoder" if no Hugging Face class has the heads: they are then written to a file next to the encoder.
        """
        return self.architecture

    @property
    def term(self) -> Term:
        """Return the loss term of the labels: its name, and whether right answers are counted."""
        raise NotImplementedError

    def list_terms(self) -> tuple[Term, ...]:
        """List the loss terms, in the order in which `TaskModel.compute_losses` returns them."""
        return (self.term,)

    def make_example(self, values: Mapping[str, Any], labelled: bool) -> Example:
        """Make an example of a record, for instance of a line of a file.

        Args:
            values: The values of the record by role. Values that are None are left out.
            labelled: True if the example must have a label. If False, the label may be missing and is not read.

        Raises:
            Unusable: If the record cannot be used; the message is the reason under which it is counted.
        """
        raise NotImplementedError

    def fit(self, examples: Sequence[Example], where: str) -> Self:
        """Return a copy of the task with what it must know of the training examples, such as the names of classes.

        Args:
            examples: The training examples.
            where: The file that they come from, for messages.

        Raises:
            InputError: If nothing can be learnt from the examples.
            Misfit: The same, if one example is to blame.
        """
        return self

    def find_unknown_label(self, example: Example) -> Unusable | None:
        """Return the reason if the label of an example is unknown to the task, such as a class without training rows,
        else None.

        Training drops such examples. In an evaluation file they are kept, and every prediction for them is wrong.
        """
        return None

    def find_source(self, example: Example) -> Any:
        """Return the text, context or document that an example comes from.

        Examples with one source are held out together.
        """
        return example[0] if isinstance(example, tuple) else example

    def build_text_encoder(self, folder: Path, inputs: ModelInputs, max_length: int) -> TextEncoder:
        """Build the encoder that turns texts into tokens for the model in a folder.

        Args:
            folder: The folder of the model, with its tokenizer.
            inputs: What the model reads: the size of its vocabulary and its special ids.
            max_length: The tokens of a sequence, special ones included, before it is cut.

        Raises:
            InputError: If the tokenizer is missing or does not fit the model.
        """
        return TextEncoder.from_folder(folder, inputs, max_length)

    def iter_groups(self, examples: Sequence[Example]) -> Iterable[range]:
        """Yield ranges of example indices, in order, that must be encoded in one call, such as the sentences of a
        document.
        """
        return (range(number, number + 1) for number in range(len(examples)))

    def make_items(self, examples: Sequence[Example], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """Encode examples as items, each of which a model reads at once: an example, or one window of a long one.

        Args:
            examples: The examples of one or more whole groups of `iter_groups`.
            encoder: Turns texts into tokens, and counts what it cuts.
            labelled: True if the items get targets.

        Returns:
            The items in the order of the examples. `TaskItem.example` is the index in this call.
        """
        raise NotImplementedError

    def count_targets(self, items: Items) -> tuple[int, ...]:
        """Return for each term the number that its summed loss is divided by: of points if `unit` is "point", else of
        items.
        """
        number = sum(len(item.points) for item in items) if self.unit == "point" else len(items)
        return (number,) * len(self.list_terms())

    def make_predictions(self, examples: Sequence[Example], items: Items, answers: Answers) -> list[Prediction]:
        """Turn the answers of a model to all items into one prediction for each example.

        Args:
            examples: The examples.
            items: The items of all examples, as `make_items` returns them, with indices among all examples.
            answers: The answer of the model to each item: an array with a row for each sequence, point or token.

        Returns:
            The prediction for each example; by default the answers.
        """
        return list(answers)

    def compute_scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Compute the scores of predictions for labelled examples, by name."""
        raise NotImplementedError

    def tune(self, scores: Mapping[str, float]) -> Self:
        """Return a copy of the task with what it takes from the scores of the chosen epoch, such as a threshold."""
        return self

    def to_row(self, example: Example, prediction: Prediction) -> dict[str, Any]:
        """Return a prediction as a row of JSON, without the label."""
        raise NotImplementedError

    def judge(self, example: Example, prediction: Prediction) -> dict[str, Any]:
        """Return what a labelled example's row has in addition: `gold`, and `score` if one row can be scored alone."""
        return {}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self | None:
        """Return the task of a model folder that other programs wrote, or None if its `config.json` does not fit."""
        return cls()

    def to_config(self) -> Mapping[str, Any]:
        """Return the keys of the exported `config.json` that describe the task."""
        return {}


# What kinds share: names of metrics and of classes, shares of answers.


def format_names(names: Sequence[str]) -> str:
    """Format names as a list in quotes; of more than MAX_LISTED only the first are named.

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
    """Return the classes, followed by all other names that examples have, sorted.

    >>> with_others(["no", "yes"], [["yes"], ["maybe"]])
    ('no', 'yes', 'maybe')
    """
    return (*labels, *sorted({name for names in named for name in names} - {*labels}))


def check_labels(labels: Sequence[str]) -> None:
    """Raise InputError if a class is named twice."""
    if len({*labels}) < len(labels):
        raise InputError(f"labels = {', '.join(labels)} names a class twice: give each name once.")


def to_label_keys(labels: Sequence[str]) -> dict[str, Any]:
    """Return the keys of a `config.json` that name the classes."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def parse_labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the classes that a `config.json` names, in the order of the outputs; by default LABEL_0 and LABEL_1."""
    named = {int(n): str(label) for n, label in config.get("id2label", {0: "LABEL_0", 1: "LABEL_1"}).items()}
    return tuple(named[number] for number in sorted(named))


def softmax(logits: npt.NDArray[Any]) -> Float64s:
    """Return the softmax of logits along all axes: probabilities of answers, exactly one of them right."""
    powers = np.exp((logits - logits.max()).astype(np.float64))
    shares: Float64s = powers / powers.sum()
    return shares


def sigmoid(logits: npt.NDArray[Any]) -> Float64s:
    """Return the sigmoid of logits: the probability of each answer, independent of the others."""
    shares: Float64s = 1 / (1 + np.exp(-logits.astype(np.float64)))
    return shares
