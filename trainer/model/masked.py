"""The model that predicts masked tokens, with a masked-token head and, if there are pair labels, a pair head.

The masked-token head gets only the vectors of masked tokens, some 15 % of all, because its product with the vocabulary
is the largest of a small model. It has no decoder weights: the word embeddings are passed to it, so that the two remain
tied (Press, Wolf 2017) and each parameter has one name.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpora.kernels.arrays import Int64s
from trainer.families.contract import ClassHeadShape, EncoderShape, MaskedHeadShape, ModelInputs
from trainer.model.batches import Batch
from trainer.model.encoder import ACTIVATIONS, TransformerEncoder
from trainer.model.objective import JudgedBatch, Macs, Objective, sum_loss, sum_loss_of_words
from trainer.objectives.masked import PAIR
from trainer.settings.model import ModelSettings, build_encoder_shape

# Shapes in the names of tensors: M masked tokens, B sequences, H hidden size, E embedding size, V vocabulary.

POOLER = ClassHeadShape()  # tanh, as BERT's
ROW_MULTIPLE = 64  # rows of a matrix that tensor cores take at full speed, in any precision
ALIGNED_DEVICES = ("cuda",)  # devices on which that counts


class MaskedHead(nn.Module):
    """Masked-token head: dense, activation, LayerNorm, tied word embeddings with a bias (Devlin et al. 2018, A)."""

    def __init__(self, shape: EncoderShape, head: MaskedHeadShape) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.hidden_size, shape.embedding_size, bias=head.biases)
        self.activation = ACTIVATIONS[head.activation or shape.activation]
        self.norm = nn.LayerNorm(shape.embedding_size, eps=shape.norm_epsilon, bias=head.biases)
        self.bias = nn.Parameter(torch.zeros(shape.vocab_size))

    def forward(self, hidden_MH: Tensor, words_VE: Tensor, targets_M: Tensor | None = None) -> Tensor:
        """Compute the vocabulary logits [M, V] or, if targets are given, the result of `sum_loss` [2].

        When compiled with targets, the logits are never copied to memory.

        Args:
            hidden_MH: The hidden states at the masked positions.
            words_VE: The word embeddings, which serve as decoder.
            targets_M: The ids of the masked tokens; None to return logits.
        """
        logits_MV = compute_logits(self.transform(hidden_MH), words_VE, self.bias)
        return logits_MV if targets_M is None else sum_loss(logits_MV, targets_M)

    def transform(self, hidden_MH: Tensor) -> Tensor:
        """Apply dense layer, activation and norm: [M, E]. The decoder multiplies the result by the word embeddings."""
        vectors_ME: Tensor = self.norm(self.activation(self.dense(hidden_MH)))
        return vectors_ME


def compute_logits(vectors_ME: Tensor, words_VE: Tensor, bias_V: Tensor) -> Tensor:
    """Multiply vectors by the word embeddings, which serve as decoder, and add the bias of each token: [M, V].

    On CUDA the word embeddings are padded with zero rows to a multiple of ROW_MULTIPLE, which is several times faster
    than an odd number of rows. The padding is cut from the result, so no weight, softmax or file contains such rows.
    """
    more = -len(words_VE) % ROW_MULTIPLE
    if not (more and vectors_ME.device.type in ALIGNED_DEVICES):
        return F.linear(vectors_ME, words_VE, bias_V)
    wide = F.linear(vectors_ME, F.pad(words_VE, (0, 0, 0, more)), F.pad(bias_V, (0, more)))
    return wide[:, : len(words_VE)]


class Pooler(nn.Module):
    """Represents a sequence by one vector: applies a matrix and an activation to its first token."""

    def __init__(self, shape: EncoderShape, head: ClassHeadShape = POOLER) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.hidden_size, shape.hidden_size, bias=head.biases)
        self.activation = ACTIVATIONS[head.activation]
        self.norm = nn.LayerNorm(shape.hidden_size, eps=shape.norm_epsilon, bias=False) if head.norm else None

    def forward(self, first_BH: Tensor) -> Tensor:
        """Compute one vector for each sequence from the hidden state of its first token: [B, H]."""
        pooled_BH: Tensor = self.activation(self.dense(first_BH))
        return pooled_BH if self.norm is None else self.norm(pooled_BH)


class PairHead(nn.Module):
    """Classifies a pooled sequence by its pair label, 0 or 1 (for example, whether the second segment follows)."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.pooler = Pooler(shape)
        self.decision = nn.Linear(shape.hidden_size, 2)

    def forward(self, first_BH: Tensor) -> Tensor:
        """Compute the logits of both pair labels for each sequence from the hidden state of its first token: [B, 2]."""
        logits_B2: Tensor = self.decision(self.pooler(first_BH))
        return logits_B2


# Shapes in the names of tensors: T tokens, B sequences, M masked tokens, H hidden size, V vocabulary.


class MaskedModel(Objective):
    """An encoder with a masked-token head and, for examples with pair labels, a pair head (see `MaskedObjective`)."""

    def __init__(self, settings: ModelSettings, inputs: ModelInputs) -> None:
        family, shape = settings.family_row, build_encoder_shape(settings, inputs)
        super().__init__(family, settings.objective_settings.list_terms(family, inputs))
        pair_head = PairHead(shape) if PAIR in self.terms else None  # drawn before the encoder
        self.encoder = TransformerEncoder(shape)
        self.masked_head = MaskedHead(shape, family.masked_head)
        self.pair_head = pair_head

    def sum_losses(self, batch: Batch) -> Tensor:
        """Sum the masked-token loss and, if there is a pair head, the pair loss over a batch: float32 [terms, 2].

        Each row has the summed loss and the number of correct predictions.
        """
        hidden_TH = self.encoder(batch)
        masked_MH = hidden_TH.index_select(0, batch.points)
        words_VE = self.encoder.embeddings.word.weight
        masked = sum_loss_of_words(self.masked_head, masked_MH, words_VE, batch.targets["masked"])
        return self._with_pairs(masked, batch, self._compute_pair_logits(hidden_TH, batch))

    def judge(self, batch: Batch) -> JudgedBatch:
        """Compute the loss sums of a batch, and the most probable token at each masked position."""
        masked_MV, pair_B2 = self.compute_logits(batch)
        masked = sum_loss(masked_MV, batch.targets["masked"])
        return JudgedBatch(self._with_pairs(masked, batch, pair_B2), masked_MV.argmax(-1))

    def _compute_pair_logits(self, hidden_TH: Tensor, batch: Batch) -> Tensor | None:
        """Compute the pair head's logits for each sequence, [B, 2], or return None if there is no pair head."""
        return (
            None if self.pair_head is None else self.pair_head(hidden_TH.index_select(0, batch.locate_first_tokens()))
        )

    @staticmethod
    def _with_pairs(masked: Tensor, batch: Batch, pair_B2: Tensor | None) -> Tensor:
        sums = [masked]
        if pair_B2 is not None:
            sums.append(sum_loss(pair_B2, batch.targets["pair"]))
        return torch.stack(sums)

    def count_macs(self, lengths: Int64s, places: int) -> Macs:
        """Count the multiply-accumulates of the encoder, the masked-token head and the pair head, if there is one.

        Args:
            lengths: int64 [B], the lengths of the sequences.
            places: The number of masked tokens, to which the masked-token head is applied.
        """
        shape = self.encoder.shape
        pairs = 0 if self.pair_head is None else shape.count_class_head_macs(len(lengths))
        return Macs(shape.count_macs(lengths) + shape.count_vocabulary_head_macs(places) + pairs)

    def answer(self, batch: Batch) -> Tensor:
        """Compute the vocabulary logits of a masked language model at the positions `batch.points`: [M, V]."""
        return self.compute_logits(batch)[0]

    def compute_logits(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Compute the logits of masked tokens [M, V] and of pairs [B, 2]. The latter are None if there is no pair head.

        Do not call this on a sharded model, because only `forward` gathers its weights.
        """
        hidden_TH = self.encoder(batch)
        masked_MH = hidden_TH.index_select(0, batch.points)
        masked_MV = self.masked_head(masked_MH, self.encoder.embeddings.word.weight)
        return masked_MV, self._compute_pair_logits(hidden_TH, batch)
