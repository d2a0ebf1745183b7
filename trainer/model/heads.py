"""The heads of pre-training: the word that was masked, and whether the second segment followed the first.

The masked head is given the vectors of masked tokens alone, some 15 % of all: its product with the vocabulary is
the largest of a small model. It owns no decoder: the word embeddings are handed to it, so the tie (Press, Wolf 2017)
cannot come undone, and one parameter has one name.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.model.encoder import ACTIVATIONS

# Shapes in the names of tensors: M masked tokens, B sequences, H hidden size, V vocabulary.


class MaskedHead(nn.Module):
    """Dense, activation, LayerNorm, and the word embeddings with a bias as decoder (Devlin et al. 2018, appendix A)."""

    def __init__(self, *, vocab_size: int, hidden_size: int, activation: str, norm_epsilon: float) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.activation = ACTIVATIONS[activation]
        self.norm = nn.LayerNorm(hidden_size, eps=norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, hidden_MH: Tensor, words_VH: Tensor) -> Tensor:
        """Logits [M, V]."""
        return F.linear(self.norm(self.activation(self.dense(hidden_MH))), words_VH, self.bias)


class Pooler(nn.Module):
    """A sequence as one vector: dense and tanh of its first token."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, first_BH: Tensor) -> Tensor:
        """[B, H]."""
        pooled_BH: Tensor = self.dense(first_BH).tanh()
        return pooled_BH


class PairHead(nn.Module):
    """Whether the second segment follows the first (0) or comes from elsewhere (1), from the pooled sequence."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.pooler = Pooler(hidden_size)
        self.decision = nn.Linear(hidden_size, 2)

    def forward(self, first_BH: Tensor) -> Tensor:
        """Logits [B, 2]."""
        logits_B2: Tensor = self.decision(self.pooler(first_BH))
        return logits_B2
