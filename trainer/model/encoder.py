"""The encoder: it takes the ids of concatenated sequences and returns one vector per token, without any padding.

Word, position and segment embeddings are followed by layers of self-attention and feed-forward, each with a residual
and LayerNorm after it (Vaswani et al. 2017, section 3.1; Devlin et al. 2018, section 3) or before it. The
`EncoderShape` describes all differences between families; the code never checks a family's name.

A layer is called with (hidden, boundaries, longest, turns), and can be compiled, checkpointed and sharded by itself.
Layers that share their weights are one module, which is called once per layer. Modules can be created on the meta
device. Weights come from `init_weights` or a checkpoint. Initializing BERT-base takes 1.0 s: the family defines how
matrices are drawn, biases are 0, and norms have weight 1 and bias 0.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.families.contract import DEVIATION, EncoderShape, Family
from trainer.model.attention import attend, compute_rotation, rotate
from trainer.model.batches import Batch

# Shapes in the names of tensors: T tokens of all sequences, B sequences, H hidden size, E embedding size,
# F feed-forward size, A heads, D size of a head.

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {"gelu": F.gelu, "gelu-tanh": partial(F.gelu, approximate="tanh"), "relu": F.relu, "tanh": torch.tanh}
)
Draw = Callable[[Tensor, float], None]
INTO_RESIDUAL = ("attention.output", "narrow", "masked_head.dense", "pooler.dense")


def build_norm(size: int, shape: EncoderShape) -> nn.LayerNorm:
    """Build a LayerNorm of vectors of the given size, with the encoder's epsilon and, if it has biases, a bias."""
    return nn.LayerNorm(size, eps=shape.norm_epsilon, bias=shape.biases)


class Embeddings(nn.Module):
    """Embedding layer: the sum of word embeddings and, if there are such tables, position and segment embeddings."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        size = shape.embedding_size
        self.first_position = shape.first_position
        self.word = nn.Embedding(shape.vocab_size, size)
        self.position = nn.Embedding(shape.positions, size) if shape.position_kind == "learned" else None
        self.segment = nn.Embedding(shape.segment_types, size) if shape.segment_types else None
        self.norm = build_norm(size, shape)
        self.dropout = nn.Dropout(shape.dropout)
        self.sinusoidal = shape.sinusoidal

    def forward(self, batch: Batch) -> Tensor:
        """Compute the embeddings of all tokens of a batch: [T, E]."""
        summed_TE = self.word(batch.ids)
        if self.position is not None:
            summed_TE = summed_TE + self.position(batch.compute_positions() + self.first_position)
        if self.segment is not None:
            single = self.segment.num_embeddings == 1
            summed_TE = summed_TE + (self.segment.weight[0] if single else self.segment(batch.segment_ids))
        embedded_TE: Tensor = self.dropout(self.norm(summed_TE))
        return embedded_TE


class SelfAttention(nn.Module):
    """Self-attention within sequences, with one matrix for queries, keys and values and one for the output."""

    def __init__(self, shape: EncoderShape, number: int) -> None:
        super().__init__()
        self.heads = shape.heads
        self.dropout = shape.attention_dropout
        self.window, self.causal = shape.get_window(number), shape.causal
        self.query_key_value = nn.Linear(shape.hidden_size, 3 * shape.hidden_size, bias=shape.biases)
        self.output = nn.Linear(shape.hidden_size, shape.hidden_size, bias=shape.biases)

    def forward(self, hidden_TH: Tensor, boundaries: Tensor, longest: int, turns: Tensor | None = None) -> Tensor:
        """Compute the output of self-attention for each token: [T, H].

        Args:
            hidden_TH: The hidden states of all tokens.
            boundaries: int32 [B + 1], the index of the first token of each sequence; the last item is T.
            longest: The number of tokens of the longest sequence.
            turns: The rotary embeddings of all tokens; None unless positions are rotary.
        """
        num_tokens, hidden_size = hidden_TH.shape
        qkv_T3AD = self.query_key_value(hidden_TH).view(num_tokens, 3, self.heads, hidden_size // self.heads)
        if turns is not None:
            qkv_T3AD = rotate(qkv_T3AD, turns)
        dropout = self.dropout if self.training else 0.0
        attended_TAD = attend(qkv_T3AD, boundaries, longest, dropout, self.window, self.causal)
        mixed_TH: Tensor = self.output(attended_TAD.flatten(1))
        return mixed_TH


class Layer(nn.Module):
    """Transformer layer: attention, then feed-forward, each with dropout and a residual connection.

    LayerNorm follows or precedes each of them, depending on the encoder's shape.
    """

    def __init__(self, shape: EncoderShape, number: int) -> None:
        super().__init__()
        gated, before = shape.feed_forward == "glu", shape.norm_place == "before"
        self.gated, self.norms_before = gated, before
        self.attention = SelfAttention(shape, number)
        # what enters the first layer comes from a norm
        self.attention_norm = nn.Identity() if before and not number else build_norm(shape.hidden_size, shape)
        self.widen = nn.Linear(shape.hidden_size, shape.feed_forward_size * (2 if gated else 1), bias=shape.biases)
        self.activation = ACTIVATIONS[shape.activation]
        self.narrow = nn.Linear(shape.feed_forward_size, shape.hidden_size, bias=shape.biases)
        self.feed_forward_norm = build_norm(shape.hidden_size, shape)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, hidden_TH: Tensor, boundaries: Tensor, longest: int, turns: Tensor | None = None) -> Tensor:
        """Apply the whole layer, attention and feed-forward, to the hidden states of all tokens: [T, H].

        Args:
            hidden_TH: The hidden states of all tokens.
            boundaries: int32 [B + 1], the index of the first token of each sequence; the last item is T.
            longest: The number of tokens of the longest sequence.
            turns: The rotary embeddings of all tokens; None unless positions are rotary.
        """
        if self.norms_before:
            attended_TH = self.attention(self.attention_norm(hidden_TH), boundaries, longest, turns)
            hidden_TH = hidden_TH + self.dropout(attended_TH)
            hidden_TH = hidden_TH + self.dropout(self.feed_forward(self.feed_forward_norm(hidden_TH)))
            return hidden_TH
        attended_TH = self.attention(hidden_TH, boundaries, longest, turns)
        hidden_TH = self.attention_norm(hidden_TH + self.dropout(attended_TH))
        output_TH: Tensor = self.feed_forward_norm(hidden_TH + self.dropout(self.feed_forward(hidden_TH)))
        return output_TH

    def feed_forward(self, hidden_TH: Tensor) -> Tensor:
        """Apply the feed-forward network to each token's hidden state: [T, H]."""
        wide = self.widen(hidden_TH)
        if self.gated:
            activated_TF, gate_TF = wide.chunk(2, -1)
            narrowed_TH: Tensor = self.narrow(self.activation(activated_TF) * gate_TF)
            return narrowed_TH
        narrowed_TH = self.narrow(self.activation(wide))
        return narrowed_TH


class TransformerEncoder(nn.Module):
    """Transformer encoder. `layers` holds each set of weights once, even if several layers share it."""

    def __init__(self, shape: EncoderShape, embeds: bool = True) -> None:
        """Create the encoder.

        Args:
            shape: The sizes and constants of the encoder.
            embeds: False to create no embedding layer. The embeddings of another encoder must then be passed to
                `forward`.
        """
        super().__init__()
        self.shape = shape
        if embeds:
            self.embeddings = Embeddings(shape)
        projects = shape.projects or shape.embedding_size != shape.hidden_size
        self.projection = nn.Linear(shape.embedding_size, shape.hidden_size) if projects else None
        self.layers = nn.ModuleList(Layer(shape, number) for number in range(shape.layer_groups))
        self.final_norm = build_norm(shape.hidden_size, shape) if shape.norm_place == "before" else None

    @property
    def shares_layers(self) -> bool:
        """True if several layers use one set of weights."""
        return self.shape.layer_groups < self.shape.layers

    def forward(self, batch: Batch, embedded_TE: Tensor | None = None, states: list[Tensor] | None = None) -> Tensor:
        """Compute the hidden states of the last layer: [T, H].

        Args:
            batch: The sequences.
            embedded_TE: Embeddings to use instead of the encoder's; None to compute them from the batch.
            states: A list to which the input of the first layer and the output of each layer are appended: layers + 1
                tensors [T, H]. None if they are not needed.
        """
        hidden_TH: Tensor = self.embeddings(batch) if embedded_TE is None else embedded_TE
        if self.projection is not None:
            hidden_TH = self.projection(hidden_TH)
        rotations = self._compute_rotations(batch)
        for number in range(self.shape.layers):
            layer = self.layers[number * self.shape.layer_groups // self.shape.layers]
            turns = rotations.get(self.shape.get_window(number) is None)
            if states is not None:
                states.append(hidden_TH)
            hidden_TH = layer(hidden_TH, batch.boundaries, batch.longest, turns)
        if self.final_norm is not None:
            hidden_TH = self.final_norm(hidden_TH)
        if states is not None:
            states.append(hidden_TH)
        return hidden_TH

    def list_hidden_states(self, batch: Batch) -> list[Tensor]:
        """Compute the input of the first layer and the output of each layer, as a list of layers + 1 tensors [T, H].

        The last output is taken after the final norm, if there is one.
        """
        states = list[Tensor]()
        self(batch, states=states)
        return states

    def _compute_rotations(self, batch: Batch) -> Mapping[bool, Tensor]:
        """Compute the rotary embeddings of all tokens, for layers without a window (key True) and with one (key False).

        The mapping is empty unless positions are rotary.
        """
        if self.shape.position_kind != "rope":
            return {}
        positions_T, size = batch.compute_positions(), self.shape.hidden_size // self.shape.heads
        bases = dict(zip((True, False), self.shape.rope_bases, strict=True))
        return {everything: compute_rotation(positions_T, size, base) for everything, base in bases.items()}


@torch.no_grad()
def draw_truncated(weight: Tensor, deviation: float) -> None:
    """Fill a tensor, in place, from a normal distribution truncated at two standard deviations, as BERT's authors do.

    `nn.init.trunc_normal_` has the same distribution and takes seven times as long.
    """
    flat = nn.init.normal_(weight, std=deviation).view(-1)
    far = (flat.abs() > 2 * deviation).nonzero().squeeze(1)
    while len(far):
        flat[far] = drawn = torch.normal(0.0, deviation, far.shape, device=flat.device, dtype=flat.dtype)
        far = far[drawn.abs() > 2 * deviation]


def draw_normal(weight: Tensor, deviation: float) -> None:
    """Fill a tensor, in place, from a normal distribution that is not truncated, as fairseq does for RoBERTa."""
    nn.init.normal_(weight, std=deviation)


@torch.no_grad()
def fill_sinusoids(weight: Tensor, deviation: float) -> None:
    """Fill a table of positions with sinusoids, in place (Vaswani et al. 2017, section 3.5).

    Row p has sin(p / 10000^(2i/E)) in column 2i and the cosine in column 2i + 1, scaled so that the root of their mean
    square is `deviation`. So nearby rows are similar from the start, which random rows would have to learn.

    Args:
        weight: The table: [positions, E].
        deviation: The standard deviation of the model's other tables.
    """
    rows, size = weight.shape
    wavelengths = 10_000 ** (torch.arange(0, size, 2, device=weight.device) / size)
    angles = torch.arange(rows, device=weight.device)[:, None] / wavelengths
    sinusoids = torch.stack((angles.sin(), angles.cos()), -1).view(rows, -1)[:, :size]
    weight.copy_(sinusoids * deviation * 2**0.5)


FIRST_WEIGHTS: Mapping[str, Draw] = MappingProxyType({"truncated-normal": draw_truncated, "normal": draw_normal})


def init_weights(model: nn.Module, family: Family, layers: int, deviation: float = DEVIATION) -> None:
    """Initialize the weights of a whole model or of a head, using torch's generator.

    Matrices are drawn at random, biases are set to 0, and norms to weight 1 and bias 0. If the family scales by depth,
    heads and the matrices that add to the residual are divided by the square root of twice the number of layers:
    ModernBERT's authors call it Megatron initialization (Warner et al. 2024, appendix A.2).

    Args:
        model: The module to initialize, in place.
        family: The family of the model.
        layers: The number of layers of the encoder.
        deviation: The standard deviation of matrices.
    """
    draw = FIRST_WEIGHTS[family.first_weights]
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            draw(module.weight, deviation)
            if family.scales_by_depth and name.endswith(INTO_RESIDUAL):
                with torch.no_grad():
                    module.weight.mul_((2 * layers) ** -0.5)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        bias = getattr(module, "bias", None)
        if bias is not None:
            nn.init.zeros_(bias)
    for module in model.modules():
        if isinstance(module, Embeddings) and module.sinusoidal and module.position is not None:
            fill_sinusoids(module.position.weight, deviation)
        if isinstance(module, Embeddings) and family.position_from_pad:
            with torch.no_grad():
                for table in (module.word, module.position):
                    if table is not None:
                        table.weight[module.first_position - 1].zero_()
