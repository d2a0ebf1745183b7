"""An objective that guesses masked tokens with smoothed targets (Szegedy et al. 2016, section 7), and a family.

Nothing here imports torch: the flow reads it to plan and to fingerprint. The module that learns is in
`smoothed_masks_model.py`, which only the trainer imports.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from corpora.store.settings import check_range
from shards.reading.loader import GatheredExamples
from trainer.families.bert import BERT
from trainer.families.contract import Family, ModelInputs, Size
from trainer.objectives.contract import HeadInputs, Target, Term
from trainer.objectives.masked import MASKED, MaskedObjective

SHALLOW_BERT = replace(BERT, name="shallow-bert", model_type="bert", sizes={"base": Size(1, 768, 12, 3072)})


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothedObjective(MaskedObjective):
    """The `[model.objective]` table of kind "smoothed". smoothing: share of a target that all tokens have together"""

    kind: ClassVar[str] = "smoothed"
    version: ClassVar[int] = 1
    builder: ClassVar[str] = "smoothed_masks_model:SmoothedModel"

    smoothing: float = 0.1

    def __post_init__(self) -> None:
        check_range("model.objective.smoothing", self.smoothing, 0.0, 0.9)

    def list_terms(self, family: Family, inputs: ModelInputs) -> tuple[Term, ...]:
        """Masked tokens alone, whatever labels the examples have."""
        return (MASKED,)

    def read(self, gathered: GatheredExamples, terms: tuple[Term, ...], seed: int) -> HeadInputs:
        """The masked tokens."""
        return HeadInputs(gathered.masked, {MASKED.name: Target(gathered.targets, "point")}, gathered.targets)
