"""The model that guesses masked tokens, and pairs where there are such: BERT, RoBERTa, ALBERT, ModernBERT."""

import torch
from torch import Tensor

from corpora.kernels.arrays import Int64s
from trainer.families.contract import Family, ModelInputs
from trainer.flops import Macs, class_head_macs, encoder_macs, vocabulary_head_macs
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.model.heads import MaskedHead, PairHead
from trainer.model.objective import JudgedBatch, Objective, sum_loss, sum_loss_of_words
from trainer.objectives.contract import Term
from trainer.settings.model import ModelSettings, encoder_shape

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
        """Return the sums of masked tokens, and of pairs where there is a head for them: [terms, 2]."""
        hidden_TH = self.encoder(batch)
        masked_MH = hidden_TH.index_select(0, batch.points)
        words_VE = self.encoder.embeddings.word.weight
        masked = sum_loss_of_words(self.masked_head, masked_MH, words_VE, batch.targets["masked"])
        return self._with_pairs(masked, batch, self._pairs(hidden_TH, batch))

    def judged(self, batch: Batch) -> JudgedBatch:
        """The sums, and the most probable token of each masked place."""
        masked_MV, pair_B2 = self.logits(batch)
        masked = sum_loss(masked_MV, batch.targets["masked"])
        return JudgedBatch(self._with_pairs(masked, batch, pair_B2), masked_MV.argmax(-1))

    def _pairs(self, hidden_TH: Tensor, batch: Batch) -> Tensor | None:
        """Logits [B, 2]."""
        return None if self.pair_head is None else self.pair_head(hidden_TH.index_select(0, batch.first_tokens()))

    @staticmethod
    def _with_pairs(masked: Tensor, batch: Batch, pair_B2: Tensor | None) -> Tensor:
        sums = [masked]
        if pair_B2 is not None:
            sums.append(sum_loss(pair_B2, batch.targets["pair"]))
        return torch.stack(sums)

    def macs(self, lengths: Int64s, places: int) -> Macs:
        """Those of the encoder and its heads."""
        shape = self.encoder.shape
        pairs = 0 if self.pair_head is None else class_head_macs(shape, len(lengths))
        return Macs(encoder_macs(shape, lengths) + vocabulary_head_macs(shape, places) + pairs)

    def answers(self, batch: Batch) -> Tensor:
        """Logits of the tokens at the points: [M, V]."""
        return self.logits(batch)[0]

    def logits(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the logits of the masked tokens [M, V], and of the pairs [B, 2] where the model has a pair head.

        Not on a sharded model, whose weights are gathered by `forward` alone.
        """
        hidden_TH = self.encoder(batch)
        masked_MH = hidden_TH.index_select(0, batch.points)
        masked_MV = self.masked_head(masked_MH, self.encoder.embeddings.word.weight)
        return masked_MV, self._pairs(hidden_TH, batch)


def build_masked(settings: ModelSettings, inputs: ModelInputs) -> MaskedModel:
    """The model of `MaskedObjective`, on torch's default device."""
    family, shape = settings.of_family, encoder_shape(settings, inputs)
    pair_head = PairHead(shape) if family.has_pairs(inputs) else None
    terms = settings.objective_settings.terms(family, inputs)
    return MaskedModel(family, terms, TransformerEncoder(shape), MaskedHead(shape, family.masked_head), pair_head)
