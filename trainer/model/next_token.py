"""The model that guesses the next token from those on one side."""

import torch
from torch import Tensor

from corpora.kernels.arrays import Int64s
from trainer.families.contract import Family, ModelInputs
from trainer.flops import Macs, encoder_macs, vocabulary_head_macs
from trainer.model.batches import Batch
from trainer.model.encoder import TransformerEncoder
from trainer.model.heads import MaskedHead
from trainer.model.objective import Objective, sum_loss_of_words
from trainer.objectives.contract import Term
from trainer.settings.model import ModelSettings, encoder_shape

# Shapes in the names of tensors: T tokens, M tokens that have a next one, H hidden size, V vocabulary.


class NextTokenModel(Objective):
    """An encoder whose tokens see one side, with the head of `NextTokenObjective`."""

    def __init__(
        self, family: Family, terms: tuple[Term, ...], encoder: TransformerEncoder, next_head: MaskedHead
    ) -> None:
        super().__init__(family, terms)
        self.encoder = encoder
        self.next_head = next_head

    def sums(self, batch: Batch) -> Tensor:
        """Return the sums of the next tokens: [1, 2]."""
        hidden_MH = self.encoder(batch).index_select(0, batch.points)
        words_VE = self.encoder.embeddings.word.weight
        return torch.stack([sum_loss_of_words(self.next_head, hidden_MH, words_VE, batch.targets["next"])])

    def macs(self, lengths: Int64s, places: int) -> Macs:
        """Those of the encoder and its head."""
        shape = self.encoder.shape
        return Macs(encoder_macs(shape, lengths) + vocabulary_head_macs(shape, places))

    def answers(self, batch: Batch) -> Tensor:
        """Logits of the next tokens at the points: [M, V]."""
        hidden_MH = self.encoder(batch).index_select(0, batch.points)
        logits_MV: Tensor = self.next_head(hidden_MH, self.encoder.embeddings.word.weight)
        return logits_MV


def build_next_token(settings: ModelSettings, inputs: ModelInputs) -> NextTokenModel:
    """The model of `NextTokenObjective`, on torch's default device."""
    family, shape = settings.of_family, encoder_shape(settings, inputs)
    terms = settings.objective_settings.terms(family, inputs)
    return NextTokenModel(family, terms, TransformerEncoder(shape), MaskedHead(shape, family.masked_head))
