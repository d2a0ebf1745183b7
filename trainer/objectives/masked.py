"""Prediction of masked tokens (Devlin et al. 2018, section 3.1) and, if the examples have pair labels, of these labels.

The shards determine what a label means: whether the second segment follows the first (Devlin et al. 2018), or whether
the two are in order (Lan et al. 2020, section 3.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from corpora.errors import InputError
from corpora.generic_types import Json
from shards.reading.loader import GatheredExamples
from trainer.families.contract import Family, ModelInputs
from trainer.objectives.contract import HeadInputs, ModelPart, Target, Term

MASKED, PAIR = Term("masked"), Term("pair")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedObjective:
    """The objective of BERT, RoBERTa, ALBERT and ModernBERT."""

    kind: ClassVar[str] = "masked"
    version: ClassVar[int] = 1
    builder: ClassVar[str] = "trainer.model.masked:MaskedModel"

    def check(self, family: Family) -> None:
        """Accept every family, because each has a masked-token head."""

    def check_shards(self, what: str, facts: Mapping[str, Json]) -> None:
        """Raise InputError if the examples of the shards have no masked tokens.

        Args:
            what: The name of the shards in the message.
            facts: The facts in the shards' manifest.
        """
        if facts["masking"] == "none":
            raise InputError(
                f'{what} mask nothing (masking.kind = "none"), and this model learns by guessing masked tokens: it '
                "would learn nothing. Leave masking.kind out."
            )

    def list_terms(self, family: Family, inputs: ModelInputs) -> tuple[Term, ...]:
        """Return the loss term for masked tokens and, if family and examples have pairs, the one for pair labels."""
        return (MASKED, PAIR) if family.has_pairs(inputs) else (MASKED,)

    def read(self, gathered: GatheredExamples, terms: tuple[Term, ...], seed: int) -> HeadInputs:
        """Collect the positions and ids of masked tokens and, if there is a pair term, the pair labels.

        `seed` is not used.
        """
        targets = {MASKED.name: Target(gathered.targets, "point")}
        if PAIR in terms:
            assert gathered.labels is not None, "a model with a pair head was given examples without pair labels"
            targets[PAIR.name] = Target(gathered.labels, "sequence")
        return HeadInputs(gathered.masked, targets, gathered.targets)

    def count_targets(self, gathered: GatheredExamples, terms: tuple[Term, ...]) -> tuple[int, ...]:
        """Count the masked tokens and, if there is a pair term, the examples."""
        return (len(gathered.masked), gathered.num_examples)[: len(terms)]

    def list_parts(self, family: Family, inputs: ModelInputs) -> tuple[ModelPart, ...]:
        """Return a single part: the encoder with its masked-token head and, if there are pairs, the pair head."""
        heads = ("masked_head", "pair_head") if family.has_pairs(inputs) else ("masked_head",)
        architecture = "pairs" if family.has_pairs(inputs) else "masked"
        return (ModelPart("", "encoder", {head: head for head in heads}, architecture),)
