"""Objectives: the terms of a loss, what the heads read from an example, and by what each term is divided.

An objective is a frozen dataclass. Its fields are the keys of the recipe's `[model.objective]` table other than `kind`.
To add an objective, write a file with such a class and add a row to `trainer.settings.model`, or publish the class in a
package with an entry point in `cloze.objectives`:

    [project.entry-points."cloze.objectives"]
    order = "my_package:OrderObjective"

The class must not import torch, because the flow uses it. Its `builder` names the class of the module to train, a
`trainer.model.objective.Objective`, which may import torch.

Shapes: T tokens, B sequences, M points (token positions that the heads read).
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
    """A term of the loss.

    Attributes:
        name: The name in metrics, as in `{name}_loss` and `{name}_accuracy`.
        weight: The factor by which the term's mean is multiplied in the loss.
        has_rights: True if each prediction is either correct or wrong, so that the term has an accuracy.
        has_area: True if an evaluation computes the area under the ROC curve, as `{name}_auc`.
    """

    name: str
    weight: float = 1.0
    has_rights: bool = True
    has_area: bool = False


class Target(NamedTuple):
    """The values that the predictions for a batch are compared with.

    Attributes:
        values: An array of shape [M], [B] or [T].
        per: What has one value each: "point" (a token position that heads read, [M]), "sequence" [B] or "token" [T].
        fill: The value for padding.
    """

    values: npt.NDArray[Any]
    per: str
    fill: int | float = IGNORED


class HeadInputs(NamedTuple):
    """The token positions and targets that an objective's heads read from a batch, on the CPU.

    Attributes:
        points: int64 [M], the token positions that the heads read, as indices into the batch's T tokens.
        targets: The targets by name.
        guessed: [M], the id of the token to predict at each of these positions. They are used to compute the loss of
            guessing by frequency.
    """

    points: Int64s
    targets: Mapping[str, Target]
    guessed: npt.NDArray[Any]


class ModelPart(NamedTuple):
    """A part of a model that is exported to a folder.

    Attributes:
        folder: The subfolder of the export; "" for the export folder itself.
        encoder: The name of the module's attribute that holds the encoder.
        heads: Maps the names of the module's attributes that hold heads to the family's names of these heads.
        architecture: The key of the part's class in `Names.architectures` of the family.
        config: Additional keys of the part's configuration.
        embeddings: The name of the module's attribute with another encoder whose embeddings this part uses; "" if it
            has its own.
        width: The ratio of the part's hidden size to the model's; None for the family's ratio for the model's size.
    """

    folder: str
    encoder: str
    heads: Mapping[str, str]
    architecture: str
    config: Mapping[str, Any] = MappingProxyType({})
    embeddings: str = ""
    width: float | None = 1.0


class ObjectiveSettings(Protocol):
    """The settings of one kind of objective, a frozen dataclass. Increase `version` whenever training changes.

    Attributes:
        kind: The name in a recipe.
        version: Part of the fingerprint if it is greater than 1.
        builder: "package.module:Class" of the module to train. The class is called with ModelSettings and ModelInputs.
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    builder: ClassVar[str]

    def check(self, family: Family) -> None:
        """Raise InputError if no model of the family can be trained with this objective."""

    def check_shards(self, what: str, facts: Mapping[str, Json]) -> None:
        """Raise InputError if shards contain nothing that the objective can be trained on.

        Args:
            what: The name of the shards in the message, a plural such as "The shards wiki".
            facts: The `facts` dictionary in the shards' manifest, with keys such as `masking`.
        """

    def list_terms(self, family: Family, inputs: ModelInputs) -> tuple[Term, ...]:
        """Return the terms of the loss for a model of the given family with the given inputs.

        All sums and counts have the same order as these terms.
        """

    def read(self, gathered: GatheredExamples, terms: tuple[Term, ...], seed: int) -> HeadInputs:
        """Return the token positions and targets that the heads read from a batch of examples.

        The result must depend only on the arguments.

        Args:
            gathered: The examples.
            terms: The terms of the loss.
            seed: The seed of the training run.
        """

    def count_targets(self, gathered: GatheredExamples, terms: tuple[Term, ...]) -> tuple[int, ...]:
        """Count the targets of each term in a batch of examples, in the order of the terms.

        The summed loss of a term is divided by the total of this number over the step.
        """

    def list_parts(self, family: Family, inputs: ModelInputs) -> tuple[ModelPart, ...]:
        """Return the parts of the model to export, each to its own folder. The first one is the main model."""
