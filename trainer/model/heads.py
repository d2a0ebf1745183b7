"""The heads of pre-training: the word that was masked, and whether the second segment followed the first.

The masked head is given the vectors of masked tokens alone, some 15 % of all: its product with the vocabulary is
the largest of a small model. It owns no decoder: the word embeddings are handed to it, so the tie (Press, Wolf 2017)
cannot come undone, and one parameter has one name.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.families.contract import ClassHeadShape, EncoderShape, MaskedHeadShape
from trainer.model.encoder import ACTIVATIONS
from trainer.model.objective import sum_loss

# Shapes in the names of tensors: M masked tokens, B sequences, H hidden size, E embedding size, V vocabulary.

POOLER = ClassHeadShape()  # tanh, as BERT's
ALIGNED = 64  # rows of a matrix that tensor cores take at full speed, in any precision
ALIGNS = ("cuda",)  # devices on which that counts


class MaskedHead(nn.Module):
    """Dense, activation, LayerNorm, and the word embeddings with a bias as decoder (Devlin et al. 2018, appendix A)."""

    def __init__(self, shape: EncoderShape, head: MaskedHeadShape) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.hidden_size, shape.embedding_size, bias=head.biases)
        self.activation = ACTIVATIONS[head.activation or shape.activation]
        self.norm = nn.LayerNorm(shape.embedding_size, eps=shape.norm_epsilon, bias=head.biases)
        self.bias = nn.Parameter(torch.zeros(shape.vocab_size))

    def forward(self, hidden_MH: Tensor, words_VE: Tensor, targets_M: Tensor | None = None) -> Tensor:
        """Logits [M, V]; where there are targets their `sum_loss` [2], for which a compiled head copies no logits."""
        logits_MV = logits_of(self.transformed(hidden_MH), words_VE, self.bias)
        return logits_MV if targets_M is None else sum_loss(logits_MV, targets_M)

    def transformed(self, hidden_MH: Tensor) -> Tensor:
        """Return the vectors that are compared with the words: [M, E]."""
        vectors_ME: Tensor = self.norm(self.activation(self.dense(hidden_MH)))
        return vectors_ME


def logits_of(vectors_ME: Tensor, words_VE: Tensor, bias_V: Tensor) -> Tensor:
    """[M, V]: the product with the words, and their bias.

    On CUDA it is made with rows of zeros up to a multiple of ALIGNED, which is several times as fast as with an odd
    number of tokens, and is given without them: so no weight, no softmax and no file knows of such rows.
    """
    more = -len(words_VE) % ALIGNED
    if not (more and vectors_ME.device.type in ALIGNS):
        return F.linear(vectors_ME, words_VE, bias_V)
    wide = F.linear(vectors_ME, F.pad(words_VE, (0, 0, 0, more)), F.pad(bias_V, (0, more)))
    return wide[:, : len(words_VE)]


class Pooler(nn.Module):
    """A sequence as one vector: matrix and activation of its first token."""

    def __init__(self, shape: EncoderShape, head: ClassHeadShape = POOLER) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.hidden_size, shape.hidden_size, bias=head.biases)
        self.activation = ACTIVATIONS[head.activation]
        self.norm = nn.LayerNorm(shape.hidden_size, eps=shape.norm_epsilon, bias=False) if head.norm else None

    def forward(self, first_BH: Tensor) -> Tensor:
        """[B, H]."""
        pooled_BH: Tensor = self.activation(self.dense(first_BH))
        return pooled_BH if self.norm is None else self.norm(pooled_BH)


class PairHead(nn.Module):
    """Tells from the pooled sequence whether a pair's label is 0 or 1 (the second segment follows, or not)."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.pooler = Pooler(shape)
        self.decision = nn.Linear(shape.hidden_size, 2)

    def forward(self, first_BH: Tensor) -> Tensor:
        """Logits [B, 2]."""
        logits_B2: Tensor = self.decision(self.pooler(first_BH))
        return logits_B2
