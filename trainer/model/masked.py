"""The model that guesses masked tokens, and pairs where there are such: BERT, RoBERTa, ALBERT, ModernBERT."""

import torch
from torch import Tensor

from trainer.families.contract import Family, ModelInputs
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.model.heads import MaskedHead, PairHead
from trainer.model.objective import JudgedBatch, Objective, sum_loss
from trainer.model_settings import ModelSettings, encoder_shape
from trainer.objectives.contract import Term

# Shapes in the names of tensors: T tokens, B sequences, M masked tokens, H hidden size, V vocabulary.


class MaskedModel(Objective):
    """An encoder with the heads of `MaskedObjective`."""

    def __init__(
        self,
        family: Family,
        terms: tuple[Term, ...],
        encoder: TransformerEncoder,
        masked_head: MaskedHead,
        pair_head: PairHead | None,
    ) -> None:
        super().__init__(family, terms)
        self.encoder = encoder
        self.masked_head = masked_head
        self.pair_head = pair_head

    def sums(self, batch: Batch) -> Tensor:
        """Of masked tokens, and of pairs where there is a head for them: [terms, 2]."""
        return self._sums(batch, *self.logits(batch))

    def judged(self, batch: Batch) -> JudgedBatch:
        """The sums, and the most probable token of each masked place."""
        masked_MV, pair_B2 = self.logits(batch)
        return JudgedBatch(self._sums(batch, masked_MV, pair_B2), masked_MV.argmax(-1))

    def _sums(self, batch: Batch, masked_MV: Tensor, pair_B2: Tensor | None) -> Tensor:
        sums = [sum_loss(masked_MV, batch.targets["masked"])]
        if pair_B2 is not None:
            sums.append(sum_loss(pair_B2, batch.targets["pair"]))
        return torch.stack(sums)

    def answers(self, batch: Batch) -> Tensor:
        """Logits of the tokens at the points: [M, V]."""
        return self.logits(batch)[0]

    def logits(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Of the masked tokens [M, V], and of the pairs [B, 2] where the model has a pair head.

        Not on a sharded model, whose weights are gathered by `forward` alone.
        """
        hidden_TH = self.encoder(batch)
        masked_MH = hidden_TH.index_select(0, batch.points)
        masked_MV = self.masked_head(masked_MH, self.encoder.embeddings.word.weight)
        if self.pair_head is None:
            return masked_MV, None
        return masked_MV, self.pair_head(hidden_TH.index_select(0, batch.first_tokens()))


def build_masked(settings: ModelSettings, inputs: ModelInputs) -> MaskedModel:
    """The model of `MaskedObjective`, on torch's default device."""
    family, shape = settings.of_family, encoder_shape(settings, inputs)
    pair_head = PairHead(shape) if family.has_pairs(inputs) else None
    terms = settings.objective_settings.terms(family, inputs)
    return MaskedModel(family, terms, TransformerEncoder(shape), MaskedHead(shape, family.masked_head), pair_head)
