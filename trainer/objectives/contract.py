"""Objectives: the terms of a loss, what its heads read of an example, and by what each term is divided.

An objective is a frozen dataclass; its fields are keys of the recipe's `[model.objective]` table besides `kind`. One
more is a file with such a class and a row in `trainer.settings.model`; or a class of an installed package, under
the entry point `cloze.objectives`:

    [project.entry-points."cloze.objectives"]
    order = "my_package:OrderObjective"

None of it may import torch, because the flow reads it. What does is in what `builder` names, a
`trainer.model.objective.Objective`.

Shapes: T tokens, B sequences, M points of a batch.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy.typing as npt

from corpora.generic_types import Json
from corpora.kernels.arrays import Int64s
from shards.reading.loader import GatheredExamples
from trainer.families.contract import Family, ModelInputs

IGNORED = -100  # a target or label that no loss counts: what cross entropy ignores by default


class Term(NamedTuple):
    """One addend of the loss.

    name:       in metrics, as `{name}_loss` and `{name}_accuracy`
    weight:     of its mean in the loss
    has_rights: whether an answer of it is right or wrong
    has_area:   whether an evaluation says the area under its ROC curve, as `{name}_auc`
    """

    name: str
    weight: float = 1.0
    has_rights: bool = True
    has_area: bool = False


class Target(NamedTuple):
    """A batch's values for a term. per: "point" [M], "sequence" [B] or "token" [T]; fill: where there is no example."""

    values: npt.NDArray[Any]
    per: str
    fill: int | float = IGNORED


class HeadInputs(NamedTuple):
    """The part of a batch that an objective reads, on the processor.

    points:  int64 [M], places among the T tokens whose vectors its heads take
    targets: by name
    guessed: the token at each point that is to be guessed; what is known of guessing by frequency comes from these
    """

    points: Int64s
    targets: Mapping[str, Target]
    guessed: npt.NDArray[Any]


class ModelPart(NamedTuple):
    """A model of an objective that is exported.

    folder:       below the export; "" for the export itself
    encoder:      attribute of the module that holds the encoder
    heads:        attributes of the module that hold its heads, and what the family's names call them
    architecture: by which the family's names know its class
    config:       keys of its configuration besides those of every model
    embeddings:   attribute of the module that holds the encoder whose embeddings it shares; "": it has its own
    width:        its hidden size as a share of the model's; None: what the family's row says of the size
    """

    folder: str
    encoder: str
    heads: Mapping[str, str]
    architecture: str
    config: Mapping[str, Any] = MappingProxyType({})
    embeddings: str = ""
    width: float | None = 1.0


class ObjectiveSettings(Protocol):
    """One kind of objective, besides being a frozen dataclass. Raise `version` whenever it learns otherwise.

    kind:    its name in a recipe
    builder: "package.module:Class" of the module that learns, made of `ModelSettings` and `ModelInputs`
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    builder: ClassVar[str]

    def check(self, family: Family) -> None:
        """Raise InputError if no model of the family can be trained so."""

    def check_shards(self, what: str, facts: Mapping[str, Json]) -> None:
        """Raise InputError if there is nothing to learn from shards. what: holds them"""

    def list_terms(self, family: Family, inputs: ModelInputs) -> tuple[Term, ...]:
        """The terms of the loss of a model for these examples."""

    def read(self, gathered: GatheredExamples, terms: tuple[Term, ...], seed: int) -> HeadInputs:
        """Return what the heads need of examples: a pure function of its arguments. seed: of the training"""

    def count_targets(self, gathered: GatheredExamples, terms: tuple[Term, ...]) -> tuple[int, ...]:
        """By what the sum of each term is divided, once they are added up over the step."""

    def list_parts(self, family: Family, inputs: ModelInputs) -> tuple[ModelPart, ...]:
        """Return the parts that are exported."""
