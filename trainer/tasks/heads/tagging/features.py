"""Features of an encoder that learns nothing, and a bidirectional LSTM over the words of a sentence.

As in Devlin et al. 2018, section 5.3 and table 7: vectors of first pieces from one or several layers, and two layers of
LSTM before the matrix. The weights of a weighted sum come from a softmax, with one factor for all (Peters et al. 2018,
equation 1).

Cost: the encoder is passed once for each step, without a backward pass and without dropout.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from corpora.errors import InputError
from trainer.tasks.heads.tagging.chains import Chains, silent

# Shapes in the names of tensors: P points, H hidden size, W width of a word's vector.

LAYERS = {
    "embeddings": slice(0, 1),
    "last": slice(-1, None),
    "second-to-last": slice(-2, -1),
    "sum-last-four": slice(-4, None),
    "concat-last-four": slice(-4, None),
    "weighted-last-four": slice(-4, None),
    "weighted": slice(1, None),
}  # of what `hidden_states` returns


class LayerFeatures(nn.Module):
    """One vector for each word from those of all layers. layers: of the encoder. Raises InputError for too few."""

    def __init__(self, kind: str, layers: int, hidden_size: int) -> None:
        super().__init__()
        self.kind = kind
        read = range(layers + 1)[LAYERS[kind]]
        needed = 4 if kind.endswith("four") else 2 if kind == "second-to-last" else 1
        if layers < needed:
            raise InputError(
                f'features = "{kind}" reads {needed} layers, and the model has {layers}: name another, such as "last".'
            )
        self.width = hidden_size * (4 if kind == "concat-last-four" else 1)
        self.weights = nn.Parameter(torch.zeros(len(read))) if kind.startswith("weighted") else None
        self.factor = nn.Parameter(torch.ones(1)) if kind.startswith("weighted") else None

    def forward(self, states: list[Tensor]) -> Tensor:
        """[P, W]. states: layers + 1 of [P, H]"""
        read = states[LAYERS[self.kind]]
        if self.kind == "concat-last-four":
            return torch.cat(read, -1)
        if self.weights is None or self.factor is None:
            return torch.stack(read).sum(0)
        shares = self.weights.softmax(0).to(read[0].dtype)
        return self.factor.to(read[0].dtype) * torch.einsum("l,lph->ph", shares, torch.stack(read))


class SentenceLSTM(nn.Module):
    """Layers of LSTM that read each sentence from both sides. size: of each side; dropout: between layers"""

    def __init__(self, width: int, size: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.width = 2 * size
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(width, size, layers, dropout=between, bidirectional=True)

    def forward(self, words_PW: Tensor, chains: Chains) -> Tensor:
        """Return [P, 2 x size]."""
        if not len(chains.lengths):
            return words_PW.new_zeros(0, self.width) + words_PW.sum() * 0 + silent(self)
        packed = PackedSequence(words_PW[chains.by_step], torch.tensor(chains.sizes))
        outputs: Tensor = self.lstm(packed)[0].data
        return outputs[chains.by_step.argsort()]
