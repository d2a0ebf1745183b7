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
    """One term of the loss.

    Attributes:
        name: Its name in metrics, as `{name}_loss` and `{name}_accuracy`.
        weight: The factor on its mean in the loss.
        has_rights: True if an answer is right or wrong.
        has_area: True if an evaluation computes the area under the ROC curve, as `{name}_auc`.
    """

    name: str
    weight: float = 1.0
    has_rights: bool = True
    has_area: bool = False


class Target(NamedTuple):
    """The values of a batch with which a term compares answers.

    Attributes:
        values: An array of [M], [B] or [T].
        per: What there is one value for: "point" [M], "sequence" [B] or "token" [T].
        fill: The value for padding.
    """

    values: npt.NDArray[Any]
    per: str
    fill: int | float = IGNORED


class HeadInputs(NamedTuple):
    """What the heads of an objective read of a batch, on the processor.

    Attributes:
        points: int64 [M], the positions among the T tokens of the vectors that heads read.
        targets: The targets by name.
        guessed: [M], the id of the token to guess at each point, from which guessing by frequency is computed.
    """

    points: Int64s
    targets: Mapping[str, Target]
    guessed: npt.NDArray[Any]


class ModelPart(NamedTuple):
    """A part of a model that is exported as a folder.

    Attributes:
        folder: Its folder below the export; "" for the export itself.
        encoder: The attribute of the module that holds its encoder.
        heads: Maps the attributes of the module that hold its heads to the names of these heads in the family.
        architecture: The key of its class in the family's names.
        config: Further keys of its configuration.
        embeddings: The attribute of the module with the encoder that shares its embeddings; "" if it has its own.
        width: Its hidden size as a share of the model's; None for the share that the family gives for the size.
    """

    folder: str
    encoder: str
    heads: Mapping[str, str]
    architecture: str
    config: Mapping[str, Any] = MappingProxyType({})
    embeddings: str = ""
    width: float | None = 1.0


class ObjectiveSettings(Protocol):
    """The settings of one kind of objective, a frozen dataclass. Raise `version` whenever it learns differently.

    Attributes:
        kind: Its name in a recipe.
        version: Enters the fingerprint if it is above 1.
        builder: "package.module:Class" of the module that learns. It is called with ModelSettings and ModelInputs.
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    builder: ClassVar[str]

    def check(self, family: Family) -> None:
        """Raise InputError if no model of the family can be trained with this objective."""

    def check_shards(self, what: str, facts: Mapping[str, Json]) -> None:
        """Raise InputError if there is nothing to learn from shards.

        Args:
            what: Names the shards in the message.
            facts: The facts of their manifest.
        """

    def list_terms(self, family: Family, inputs: ModelInputs) -> tuple[Term, ...]:
        """Return the terms of the loss for a family and the inputs of the model."""

    def read(self, gathered: GatheredExamples, terms: tuple[Term, ...], seed: int) -> HeadInputs:
        """Return what the heads need of some examples. The result must depend only on the arguments.

        Args:
            gathered: The examples.
            terms: The terms of the loss.
            seed: The seed of the training.
        """

    def count_targets(self, gathered: GatheredExamples, terms: tuple[Term, ...]) -> tuple[int, ...]:
        """Return one number per term. The term's summed loss is divided by the total of this number over the step."""

    def list_parts(self, family: Family, inputs: ModelInputs) -> tuple[ModelPart, ...]:
        """Return the parts of the model that are exported. The first one is the model itself."""
