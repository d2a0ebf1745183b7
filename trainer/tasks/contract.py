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

Shapes: T tokens, S sequences, P points of an item.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Int32s, Int64s
from trainer.objectives.contract import Term
from trainer.tasks.text_encoder import TextEncoder

NO_POINTS: Int64s = np.empty(0, np.int64)

Example = Any  # the task's own, hashable or not
Prediction = Any  # the task's own


class Tokens(NamedTuple):
    """One sequence as a model reads it. ids: int32 [T]; segment_ids: int32 [T], 0 or 1"""

    ids: Int32s
    segment_ids: Int32s


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskItem:
    """The unit that is learnt from or judged at once: an example, or a window of one.

    sequences: one, or several that are compared
    example:   its number among the examples
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


class Task(Protocol):
    """One kind of task, besides being a frozen dataclass. Raise `version` whenever it learns otherwise.

    kind:         its name
    builder:      "package.module:function", which makes the model that learns: of the task, the model's settings and
                  inputs, and the pre-trained state
    format:       of files whose ending does not show it
    unit:         what a row of the model's answers is of: a "sequence", a "point" or a "token"
    architecture: by which families know the class of the model, as far as it is one of theirs
    usual_length: tokens of a sequence before it is cut, where nothing else is set
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    builder: ClassVar[str]
    format: ClassVar[str]
    unit: ClassVar[str]
    architecture: ClassVar[str]
    usual_length: ClassVar[int]

    @property
    def roles(self) -> tuple[str, ...]:
        """The parts of a record that it reads; each has the column of its name unless a file's settings differ."""
        ...

    @property
    def optional(self) -> frozenset[str]:
        """Those of them that a file may lack."""
        ...

    @property
    def learnt(self) -> frozenset[str]:
        """Those of them that are learnt: only labelled examples have them."""
        ...

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names in `scores` by which an epoch may be judged: the higher the better; the first is used."""
        ...

    @property
    def exported(self) -> str:
        """The class that is exported; "encoder" where none of theirs has the heads: these are in a file next to it."""
        ...

    def terms(self) -> tuple[Term, ...]:
        """The terms of the loss."""
        ...

    def example(self, values: Mapping[str, Any], labelled: bool) -> Example:
        """A record's values by role as an example. Raises Unusable, also for what training did not know.

        labelled: whether it must have what is to be learnt; without, that may be missing
        """
        ...

    def fitted(self, examples: Sequence[Example], where: str) -> Self:
        """The task with what it must know of the training examples: names of classes, and the like.

        where: their file, for messages. Raises InputError where they cannot be learnt.
        """
        ...

    def items(
        self, examples: Sequence[Example], encoder: TextEncoder, labelled: bool, first: int = 0
    ) -> list[TaskItem]:
        """Examples as items, in their order. first: number of the first of them

        A file is encoded in parts, each by a call of its own; the items are those of one call (see `GroupedTask`).
        """
        ...

    def counts(self, items: Sequence[TaskItem]) -> tuple[int, ...]:
        """By what the sum of each term is divided, once they are added up over the step."""
        ...

    def predictions(
        self, examples: Sequence[Example], items: Sequence[TaskItem], answers: Sequence[npt.NDArray[Any]]
    ) -> list[Prediction]:
        """Return the model's prediction for each example, from the answers to all items."""
        ...

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Return the scores of predictions, by name."""
        ...

    def said(self, example: Example, prediction: Prediction) -> dict[str, Any]:
        """A prediction as a row of JSON."""
        ...

    def config(self) -> Mapping[str, Any]:
        """The keys of the exported `config.json` that are the task's."""
        ...


@runtime_checkable
class TunedTask(Protocol):
    """A task that takes something from the scores of the epoch that is kept, such as a threshold."""

    def tuned(self, scores: Mapping[str, float]) -> Self:
        """The task with it."""
        ...


@runtime_checkable
class GroupedTask(Protocol):
    """A task for which examples of a file belong together, like those of a document. Others read each for itself."""

    def groups(self, examples: Sequence[Example]) -> Iterable[range]:
        """Examples that are encoded in one call, in their order. Raises InputError where they are of several kinds."""
        ...


class PlainTask:
    """The defaults of tasks, for dataclasses to inherit."""

    __slots__ = ()

    version: ClassVar[int] = 1
    format: ClassVar[str] = ""
    unit: ClassVar[str] = "sequence"
    architecture: ClassVar[str] = "encoder"
    usual_length: ClassVar[int] = 512
    learnt: ClassVar[frozenset[str]] = frozenset()

    @property
    def exported(self) -> str:
        """The class by which families know its model."""
        return self.architecture

    def terms(self) -> tuple[Term, ...]:
        """The terms of the loss."""
        raise NotImplementedError

    def fitted(self, examples: Sequence[Example], where: str) -> Self:
        """Return the task as it is."""
        return self

    def counts(self, items: Sequence[TaskItem]) -> tuple[int, ...]:
        """The number of items, for each term; of a task on points, that of these."""
        number = sum(len(item.points) for item in items) if self.unit == "point" else len(items)
        return (number,) * len(self.terms())

    def config(self) -> Mapping[str, Any]:
        """Nothing of its own."""
        return {}
