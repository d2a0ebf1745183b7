"""The encoder: ids of many sequences end to end in, one vector for every token out; no padding anywhere.

Embeddings of word, position and segment, then layers of self-attention and feed-forward, each with its residual and
LayerNorm after it (Vaswani et al. 2017, section 3.1; Devlin et al. 2018, section 3). What differs between families
is in the `EncoderShape`; the code asks for no name.

A layer is called with (hidden, boundaries, longest) and can be compiled, checkpointed and sharded alone. Modules can
be made on the meta device; weights come from `families.init_weights` or a checkpoint.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import torch.nn.functional as F
from torch import Tensor, nn

from trainer.model.attention import attend

# Shapes in the names of tensors: T tokens of all sequences, B sequences, H hidden size, F feed-forward size, A heads,
# D size of a head.

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {"gelu": F.gelu, "gelu-tanh": partial(F.gelu, approximate="tanh"), "relu": F.relu}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """Sizes and constants of an encoder.

    positions:      rows of the position table, those before `first_position` included
    first_position: row of a sequence's first token
    segment_types:  rows of the segment table; with one, every token is of that one
    norm_epsilon:   of every LayerNorm
    """

    vocab_size: int
    positions: int
    first_position: int
    segment_types: int
    layers: int
    hidden_size: int
    heads: int
    feed_forward_size: int
    activation: str
    dropout: float
    attention_dropout: float
    norm_epsilon: float


class Embeddings(nn.Module):
    """Word, position and segment of every token, summed."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.first_position = shape.first_position
        self.segment_types = shape.segment_types
        self.word = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.position = nn.Embedding(shape.positions, shape.hidden_size)
        self.segment = nn.Embedding(shape.segment_types, shape.hidden_size)
        self.norm = nn.LayerNorm(shape.hidden_size, eps=shape.norm_epsilon)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, ids_T: Tensor, segment_ids_T: Tensor, positions_T: Tensor) -> Tensor:
        """[T, H]; positions count from 0 in each sequence."""
        segments = self.segment.weight[0] if self.segment_types == 1 else self.segment(segment_ids_T)
        summed_TH = self.word(ids_T) + self.position(positions_T + self.first_position) + segments
        embedded_TH: Tensor = self.dropout(self.norm(summed_TH))
        return embedded_TH


class SelfAttention(nn.Module):
    """Queries, keys and values of every head by one matrix, attention within sequences, and a matrix after it."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.dropout = shape.attention_dropout
        self.query_key_value = nn.Linear(shape.hidden_size, 3 * shape.hidden_size)
        self.output = nn.Linear(shape.hidden_size, shape.hidden_size)

    def forward(self, hidden_TH: Tensor, boundaries: Tensor, longest: int) -> Tensor:
        """[T, H]."""
        num_tokens, hidden_size = hidden_TH.shape
        qkv_T3AD = self.query_key_value(hidden_TH).view(num_tokens, 3, self.heads, hidden_size // self.heads)
        attended_TAD = attend(qkv_T3AD, boundaries, longest, self.dropout if self.training else 0.0)
        mixed_TH: Tensor = self.output(attended_TAD.flatten(1))
        return mixed_TH


class Layer(nn.Module):
    """Attention, then feed-forward; after each dropout, the residual and LayerNorm."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.attention = SelfAttention(shape)
        self.attention_norm = nn.LayerNorm(shape.hidden_size, eps=shape.norm_epsilon)
        self.widen = nn.Linear(shape.hidden_size, shape.feed_forward_size)
        self.activation = ACTIVATIONS[shape.activation]
        self.narrow = nn.Linear(shape.feed_forward_size, shape.hidden_size)
        self.feed_forward_norm = nn.LayerNorm(shape.hidden_size, eps=shape.norm_epsilon)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, hidden_TH: Tensor, boundaries: Tensor, longest: int) -> Tensor:
        """[T, H]; boundaries int32 [B + 1], longest as in `Batch`."""
        attended_TH = self.attention(hidden_TH, boundaries, longest)
        hidden_TH = self.attention_norm(hidden_TH + self.dropout(attended_TH))
        wide_TF = self.activation(self.widen(hidden_TH))
        output_TH: Tensor = self.feed_forward_norm(hidden_TH + self.dropout(self.narrow(wide_TF)))
        return output_TH


class TransformerEncoder(nn.Module):
    """Embeddings and layers. `layers` is what is compiled, checkpointed and sharded one by one."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.shape = shape
        self.embeddings = Embeddings(shape)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))

    def forward(
        self, ids_T: Tensor, segment_ids_T: Tensor, positions_T: Tensor, boundaries: Tensor, longest: int
    ) -> Tensor:
        """[T, H]: the arguments are those of a `Batch`, `positions_T` its `positions()`."""
        hidden_TH: Tensor = self.embeddings(ids_T, segment_ids_T, positions_T)
        for layer in self.layers:
            hidden_TH = layer(hidden_TH, boundaries, longest)
        return hidden_TH
