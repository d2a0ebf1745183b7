"""Replaced-token detection (Clark et al. 2020, section 3) with a generator and a discriminator.

    masked tokens ─► generator ─► a token for each, drawn from the predicted distribution
                                              └─► discriminator ─► for every token: original or drawn?

The drawn token depends on a random number for each masked token, which is a function of (seed, epoch, example,
position). So what the discriminator reads depends neither on the number of processes nor on how a step is divided
(except when the rounding of a probability matters), and a resumed run reads the same as an uninterrupted one.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Float64s
from corpora.store.randomness import compute_keys, draw_uniform
from corpora.store.settings import check_range
from shards.reading.loader import GatheredExamples
from trainer.families.contract import Family, ModelInputs
from trainer.objectives.contract import HeadInputs, ModelPart, Target, Term
from trainer.objectives.masked import MASKED, MaskedObjective

REPLACED = "replaced"
NOISE, PRESENT = "noise", "present"  # further targets

GENERATOR = ModelPart(
    "generator", "generator", {"masked_head": "masked_head"}, "masked", embeddings="encoder", width=None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedObjective(MaskedObjective):
    """The objective of ELECTRA.

    generator_size:   hidden size of the generator as a share of the model's; None for the default of the model's size
                      (1/4; base 1/3, tiny 1/2). The generator has as many layers, one head for each 64 dimensions, and
                      a feed-forward part four times as wide
    replaced_weight:  weight of the discriminator's loss; the weight of the generator's loss is 1
    temperature:      number by which the generator's logits are divided before a token is drawn
    """

    kind: ClassVar[str] = REPLACED
    version: ClassVar[int] = 1
    builder: ClassVar[str] = "trainer.model.replaced:ReplacedModel"

    generator_size: float | None = None
    replaced_weight: float = 50.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.generator_size is not None:
            check_range("model.objective.generator_size", self.generator_size, 1e-3, 1)
        check_range("model.objective.replaced_weight", self.replaced_weight, 0, 1e6)
        check_range("model.objective.temperature", self.temperature, 1e-3, 1e3)

    def check(self, family: Family) -> None:
        """Raise InputError if models of the family have no discriminator."""
        if REPLACED not in family.names.architectures:
            raise InputError(
                f'model.objective.kind = "replaced" trains a discriminator, which the family {family.name!r} does not '
                'have: set model.family = "electra", or use another objective.'
            )

    def list_terms(self, family: Family, inputs: ModelInputs) -> tuple[Term, ...]:
        """Return the generator's loss term (masked tokens), then the discriminator's (replaced tokens)."""
        return MASKED, Term(REPLACED, self.replaced_weight, has_area=True)

    def read(self, gathered: GatheredExamples, terms: tuple[Term, ...], seed: int) -> HeadInputs:
        """Collect the targets of generator and discriminator.

        They are the ids of masked tokens, a random number for each masked token that determines its replacement, and a
        flag for each token that is not padding. `terms` is not used.
        """
        targets = {
            MASKED.name: Target(gathered.targets, "point"),
            NOISE: Target(draw_noise(gathered, seed), "point", 0.0),
            PRESENT: Target(np.ones(len(gathered.ids), bool), "token", 0),
        }
        return HeadInputs(gathered.masked, targets, gathered.targets)

    def count_targets(self, gathered: GatheredExamples, terms: tuple[Term, ...]) -> tuple[int, ...]:
        """Count the masked tokens, which the generator predicts, and all tokens, which the discriminator classifies."""
        return len(gathered.masked), len(gathered.ids)

    def list_parts(self, family: Family, inputs: ModelInputs) -> tuple[ModelPart, ...]:
        """Return two parts: the discriminator, and the generator, which is exported to a subfolder."""
        discriminator = ModelPart("", "encoder", {"replaced_head": "replaced_head"}, REPLACED)
        return discriminator, GENERATOR._replace(width=self.generator_size)


def draw_noise(gathered: GatheredExamples, seed: int) -> Float64s:
    """Draw a number in [0, 1) for each masked token: float64 [M].

    Each number depends only on the seed, the epoch, the example, and the token's position in the example.
    """
    keys = compute_keys(seed, "replaced", gathered.epochs, gathered.example_ids)
    examples = np.searchsorted(gathered.offsets, gathered.masked, side="right") - 1
    return draw_uniform(keys[examples], gathered.masked - gathered.offsets[examples])
