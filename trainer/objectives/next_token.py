"""Guessing the next token from those on one side of it (Devlin et al. 2018, section 5.1: "LTR").

No token attends to those on the other side, so none gives the answer. From the right the token before is guessed
from those after it: a model of each direction, put together, is what ELMo and BERT's table 5 compare with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.store.manifest import Json
from corpora.store.settings import check_choice
from shards.reading.loader import GatheredExamples
from trainer.families.contract import Family, ModelInputs, Side
from trainer.objectives.contract import ModelPart, Reads, Target, Term

NEXT = Term("next")


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTokenObjective:
    """The `[model.objective]` table of kind "next". direction: the side that is seen, "left" or "right" """

    kind: ClassVar[str] = "next"
    version: ClassVar[int] = 1
    builder: ClassVar[str] = "trainer.model.masked:NextTokenModel"

    direction: str = "left"

    def __post_init__(self) -> None:
        check_choice("model.objective.direction", self.direction, ("left", "right"))

    @property
    def causal(self) -> Side:
        """The side that is seen."""
        return "right" if self.direction == "right" else "left"

    def check(self, family: Family) -> None:
        """Raise InputError for a family that is read from both sides everywhere else."""
        if "next" not in family.names.architectures:
            raise InputError(
                f'model.objective.kind = "next" does not work with model.family = {family.name!r}: it has no class '
                "that would open such a model. Use a BERT or a RoBERTa."
            )

    def check_shards(self, what: str, facts: Mapping[str, Json]) -> None:
        """Raise InputError where tokens are masked."""
        if facts["masking"] != "none":
            raise InputError(
                f"{what} mask tokens (masking.kind = {facts['masking']!r}), and a model that guesses the next token "
                'must see them all: set shards.masking = { kind = "none" }.'
            )

    def terms(self, family: Family, inputs: ModelInputs) -> tuple[Term, ...]:
        """The next token."""
        return (NEXT,)

    def read(self, gathered: GatheredExamples, terms: tuple[Term, ...], seed: int) -> Reads:
        """Every token that has a next one, and that one."""
        points = seeing(gathered, self.direction)
        targets = gathered.ids[points + (1 if self.direction == "left" else -1)]
        return Reads(points, {NEXT.name: Target(targets, "point")}, targets)

    def counts(self, gathered: GatheredExamples, terms: tuple[Term, ...]) -> tuple[int, ...]:
        """Tokens that are guessed."""
        return (len(seeing(gathered, self.direction)),)

    def parts(self, family: Family, inputs: ModelInputs) -> tuple[ModelPart, ...]:
        """The encoder with its head."""
        config = {"is_decoder": True} if self.direction == "left" else {"direction": self.direction}
        architecture = "next" if self.direction == "left" else "masked"  # no class of others sees the right side
        return (ModelPart("", "encoder", {"next_head": "masked_head"}, architecture, config),)


def seeing(gathered: GatheredExamples, direction: str) -> Int64s:
    """Return the places of the tokens whose next one is guessed, int64 [M]: all but one at the end of each example."""
    ends = np.ones(len(gathered.ids), bool)
    lengths = np.diff(gathered.offsets)
    nonempty = lengths > 0
    ends[gathered.offsets[1:][nonempty] - 1 if direction == "left" else gathered.offsets[:-1][nonempty]] = False
    return np.flatnonzero(ends).astype(np.int64)
