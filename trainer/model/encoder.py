"""The encoder: ids of many sequences end to end in, one vector for every token out; no padding anywhere.

Embeddings of word, position and segment, then layers of self-attention and feed-forward, each with its residual and
LayerNorm after it (Vaswani et al. 2017, section 3.1; Devlin et al. 2018, section 3) or before it. What differs between
families is in the `EncoderShape`; the code asks for no name.

A layer is called with (hidden, boundaries, longest, turns) and can be compiled, checkpointed and sharded alone; layers
that share their weights are one module, called as often as there are layers. Modules can be made on the meta device;
weights come from `init_weights` or a checkpoint. First weights of BERT-base take 1.0 s: matrices begin as the family
draws them, biases as 0, norms as 1 and 0.

**Self-attention** is over sequences that lie end to end: every token attends to the tokens of its own sequence, to all
of them, or those of a window around it (`window`), or itself and those to one side (`causal`), or both.

Promise: no token of another sequence, no padding and no token out of sight has any weight, whichever way is taken:

- on a processor, a run of sequences of equal length is one dense product, so nothing is padded and nothing masked;
- on CUDA in half precision without dropout of the probabilities, torch's `varlen_attn` (FlashAttention over
  boundaries);
- else (CUDA in float32, on a card before Ampere, or with attention dropout in training, which `varlen_attn` does
  not have; and compiled for a processor, where runs would be another program for every batch), rows are padded to
  the longest inside the attention alone, and the padding is masked.

Where sequences are longer than a window, runs and rows become a band: blocks of queries next to the keys that they may
see, over the boundaries and without padding. So memory grows with tokens x window; no matrix of tokens x tokens is
made. Causal rows are dense products without a mask; to the right they are turned round.

So `attention_dropout = 0` makes training on CUDA fast; another value works, at a cost.

Rotary positions (Su et al. 2021, section 3.2.2) turn queries and keys by angles that grow with their places: the
product of a query and a key then depends on how far apart they are and not on where. Number c of a head and number
c + D/2 are a point of the plane (the layout of transformers' ModernBERT), which is turned by place / base ** (2c / D).
ModernBERT has a base of 160,000 where a layer attends to all tokens and of 10,000 where to a window. Angles are
float32, step by step as transformers makes them, so a model gives the same there and here: at place 8,191 they are up
to 7e-4 from the exact ones, and a score may change by as much where both places are shifted. In half precision they
would be wrong from place 256 on; so a rotation is float32, and what is turned is float32 until it is turned.

Cost: forward and backward of 32 sequences of 30-128 tokens, 4 heads of 64: 25 ms by runs, 53-61 ms padded; with
dropout 42-47 and 102-117 ms; 16 sequences that are all of 128 tokens: 24 ms either way (one x86-64 core).
A batch sorted by length has the fewest runs. 8,192 tokens, 4 heads of 64, forward and backward: as one sequence 3.4 s,
1.9 s causal, 0.2 s with a window of 128; as 8 sequences 0.45, 0.36 and 0.2 s; as 64 of 128 tokens 0.07 to 0.1 s with or
without a window, which is a mask for runs of up to three windows (docs/performance.md, one x86-64 core).
Memory of the one sequence, next to the 24 MB of queries, keys and values: 90 MB to all tokens or to one side, 150 MB
with the window, 290 MB with dropout as well. Dropout without a window takes 4.2 GB: torch then keeps tokens x tokens.
A rotation of 8,192 tokens and heads of 64, made once a forward for each base, takes 1 ms; to turn them by it, forward
and backward, 40 ms, where the matrix that makes them takes 115.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import groupby
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.families.contract import DEVIATION, EncoderShape, Family, Side
from trainer.model.batches import Batch

CARDS = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
if CARDS:  # what is for cards alone brings the compiler, which takes a second to import
    from torch.nn.attention.varlen import varlen_attn

# Shapes: T tokens of all sequences, B sequences, S tokens of the longest, H hidden size, E embedding size, F
# feed-forward size, A heads, D size of a head, C = D / 2 points, N sequences of a run, L tokens of each; in a band G
# blocks of Q queries and K keys.

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {"gelu": F.gelu, "gelu-tanh": partial(F.gelu, approximate="tanh"), "relu": F.relu, "tanh": torch.tanh}
)
Draw = Callable[[Tensor, float], None]
INTO_RESIDUAL = ("attention.output", "narrow", "masked_head.dense", "pooler.dense")
HALF = (torch.bfloat16, torch.float16)
AMPERE = (8, 0)
SMALLEST_BLOCK = 16  # queries of a band
DENSE_WINDOWS = 3  # a run of sequences up to so many windows long takes less time as a dense product than as a band


def attend(
    qkv_T3AD: Tensor,
    boundaries: Tensor,
    longest: int,
    dropout: float,
    window: int | None = None,
    causal: Side | None = None,
) -> Tensor:
    """softmax(Q K' / sqrt(D)) V within each sequence (Vaswani et al. 2017, section 3.2.1): [T, A, D].

    qkv_T3AD:   queries, keys and values of every token
    boundaries: int32 [B + 1], where each sequence begins; the last is T; a sequence may be empty
    longest:    tokens of the longest sequence
    dropout:    probability that a weight is dropped; 0 outside training
    window:     a token sees those at most window // 2 before and after it, as ModernBERT counts; None: all
    causal:     "left": a token sees itself and those before it, "right": itself and those after it; None: both sides
    """
    if len(qkv_T3AD) == 0:  # a process without a share of the step: no kernel need take it
        return qkv_T3AD[:, 0]
    if qkv_T3AD.device.type == "cpu" and not torch.compiler.is_compiling():
        return attend_by_runs(qkv_T3AD, boundaries, dropout, window, causal)
    if _fits_varlen(qkv_T3AD, dropout):
        q_TAD, k_TAD, v_TAD = qkv_T3AD.unbind(1)
        sight = sides(-1 if window is None else window // 2, causal)  # -1: all of that side
        attended_TAD = varlen_attn(q_TAD, k_TAD, v_TAD, boundaries, boundaries, longest, longest, window_size=sight)
        assert isinstance(attended_TAD, Tensor)
        return attended_TAD
    return attend_padded(qkv_T3AD, boundaries, longest, dropout, window, causal)


def sides(reach: int, causal: Side | None) -> tuple[int, int]:
    """Return how far a token sees to the left and to the right, from a reach that is the same on both sides."""
    return (0 if causal == "right" else reach, 0 if causal == "left" else reach)


def attend_padded(
    qkv_T3AD: Tensor,
    boundaries: Tensor,
    longest: int,
    dropout: float,
    window: int | None = None,
    causal: Side | None = None,
) -> Tensor:
    """`attend` in dense rows of the longest length, or in a band where the longest is longer than the window.

    It never waits for the device to learn a length.
    """
    num_tokens, _, heads, size = qkv_T3AD.shape
    num_sequences = len(boundaries) - 1
    if window is not None and window // 2 < longest - 1:
        return attend_in_band(qkv_T3AD, boundaries, sides(window // 2, causal), dropout)
    if num_tokens == num_sequences * longest:  # all of one length
        return _attend_rows(qkv_T3AD.view(num_sequences, longest, 3, heads, size), causal, dropout)
    lengths = boundaries.diff()
    starts = torch.arange(num_sequences, device=boundaries.device) * longest
    shifts = starts + boundaries[1:] - 1 if causal == "right" else starts - boundaries[:-1]
    shifts_T = torch.repeat_interleave(shifts, lengths, output_size=num_tokens)
    tokens_T = torch.arange(num_tokens, device=boundaries.device)
    places_T = shifts_T - tokens_T if causal == "right" else tokens_T + shifts_T
    padded = qkv_T3AD.new_zeros(num_sequences * longest, 3, heads, size).index_copy(0, places_T, qkv_T3AD)
    rows = padded.view(num_sequences, longest, 3, heads, size)
    if causal is not None:  # to the right, rows are turned round: the padding comes last, where no token looks
        return _attend_rows(rows, "left", dropout).index_select(0, places_T)
    attended_to = lengths.clamp(min=1)  # a row without any has no softmax
    present_BS = torch.arange(longest, device=boundaries.device) < attended_to[:, None]
    return _attend_dense(rows, present_BS[:, None, None, :], dropout).index_select(0, places_T)


def attend_by_runs(
    qkv_T3AD: Tensor, boundaries: Tensor, dropout: float, window: int | None = None, causal: Side | None = None
) -> Tensor:
    """`attend` in one dense product for each run of sequences of one length, or a band where that is less."""
    _, _, heads, size = qkv_T3AD.shape
    runs = [(length, len(list(run))) for length, run in groupby(boundaries.diff().tolist()) if length]
    pieces = torch.split(qkv_T3AD, [length * number for length, number in runs])
    attended = []
    for piece, (length, number) in zip(pieces, runs, strict=True):
        rows = piece.view(number, length, 3, heads, size)
        if window is None or window // 2 >= length - 1:
            attended.append(_attend_rows(rows, causal, dropout))
        elif length <= DENSE_WINDOWS * window:
            near_LL = _near(length, length, sides(window // 2, causal), rows.device)
            attended.append(_attend_dense(rows, near_LL, dropout))
        else:
            starts = torch.arange(number + 1) * length
            attended.append(attend_in_band(piece, starts, sides(window // 2, causal), dropout))
    return torch.cat(attended)


def attend_in_band(qkv_T3AD: Tensor, boundaries: Tensor, sight: tuple[int, int], dropout: float) -> Tensor:
    """`attend` for tokens that see as many to the left and to the right: T x (block and sight) scores a head."""
    num_tokens = len(qkv_T3AD)
    left, right = sight
    block = max(SMALLEST_BLOCK, left, right)
    num_blocks = -(-num_tokens // block)
    span, end = left + block + right, num_blocks * block - num_tokens + right
    queries_GQAD = F.pad(qkv_T3AD[:, 0], (0, 0, 0, 0, 0, end - right)).view(num_blocks, block, *qkv_T3AD.shape[2:])
    pairs_G2AKD = F.pad(qkv_T3AD[:, 1:], (0, 0, 0, 0, 0, 0, left, end)).unfold(0, span, block).transpose(-1, -2)
    keys_GAKD, values_GAKD = pairs_G2AKD.unbind(1)
    seen_GQK = _seen_in_band(num_tokens, boundaries, sight, block)
    attended_GAQD = F.scaled_dot_product_attention(
        queries_GQAD.transpose(1, 2), keys_GAKD, values_GAKD, attn_mask=seen_GQK[:, None], dropout_p=dropout
    )
    return attended_GAQD.transpose(1, 2).flatten(0, 1)[:num_tokens]


def _seen_in_band(num_tokens: int, boundaries: Tensor, sight: tuple[int, int], block: int) -> Tensor:
    """Which keys of its block's a query sees: bool [G, Q, K]. What fills the last block sees itself."""
    left, right = sight
    num_blocks = -(-num_tokens // block)
    numbers = torch.arange(len(boundaries) - 1, device=boundaries.device)
    numbers_T = torch.repeat_interleave(numbers, boundaries.diff(), output_size=num_tokens)
    numbers_of_keys = F.pad(numbers_T, (left, num_blocks * block - num_tokens + right), value=-1)
    numbers_GK = numbers_of_keys.unfold(0, left + block + right, block)
    numbers_GQ = numbers_GK[:, left : left + block]
    near_QK = _near(block, left + block + right, sight, boundaries.device, first=-left)
    return near_QK & (numbers_GQ[:, :, None] == numbers_GK[:, None, :])


def _near(queries: int, keys: int, sight: tuple[int, int], device: torch.device, first: int = 0) -> Tensor:
    """Which keys, from a first place on, are in sight of the queries from place 0 on: bool [Q, K]."""
    left, right = sight
    places_K = torch.arange(first, first + keys, device=device)
    steps_QK = places_K - torch.arange(queries, device=device)[:, None]
    return (steps_QK >= -left) & (steps_QK <= right)


def _attend_rows(qkv_NL3AD: Tensor, causal: Side | None, dropout: float) -> Tensor:
    """Sequences of one length: [N * L, A, D]."""
    if causal != "right":
        return _attend_dense(qkv_NL3AD, None, dropout, is_causal=causal == "left")
    number, length, _, heads, size = qkv_NL3AD.shape
    turned = _attend_dense(qkv_NL3AD.flip(1), None, dropout, is_causal=True)
    return turned.view(number, length, heads, size).flip(1).flatten(0, 1)


def _attend_dense(qkv_NL3AD: Tensor, mask: Tensor | None, dropout: float, is_causal: bool = False) -> Tensor:
    """Sequences of one length, or padded to it: [N * L, A, D]."""
    q_NALD, k_NALD, v_NALD = qkv_NL3AD.permute(2, 0, 3, 1, 4).unbind(0)
    attended_NALD = F.scaled_dot_product_attention(
        q_NALD, k_NALD, v_NALD, attn_mask=mask, dropout_p=dropout, is_causal=is_causal
    )
    return attended_NALD.transpose(1, 2).flatten(0, 1)


def _fits_varlen(qkv_T3AD: Tensor, dropout: float) -> bool:
    """Tells whether FlashAttention takes these: half precision, heads of a multiple of 8 up to 256, Ampere or later."""
    size = qkv_T3AD.shape[-1]
    return (
        qkv_T3AD.is_cuda
        and qkv_T3AD.dtype in HALF
        and dropout == 0
        and size % 8 == 0
        and size <= 256
        and _is_ampere(qkv_T3AD.device)
    )


def _is_ampere(device: torch.device) -> bool:
    """Or later. A compiled layer has the answer in it; the question would keep its program out of torch's cache."""
    return torch.cuda.get_device_capability(device) >= AMPERE


if CARDS:
    _is_ampere = torch.compiler.assume_constant_result(_is_ampere)  # type: ignore[no-untyped-call]


def rotation(positions_T: Tensor, size: int, base: float) -> Tensor:
    """Cosines and sines of the angles of every token: float32 [2, T, C].

    positions_T: int64, the place of each token in its own sequence
    size:        of a head
    """
    assert size % 2 == 0, f"a head of {size} numbers has no points of the plane"
    powers_C = torch.arange(0, size, 2, dtype=torch.float32, device=positions_T.device) / size
    angles_TC = positions_T.float()[:, None] * (1.0 / base**powers_C)
    return torch.stack([angles_TC.cos(), angles_TC.sin()])


def rotate(qkv_T3AD: Tensor, rotation_2TC: Tensor) -> Tensor:
    """The same queries, keys and values, the first two turned; in the precision they came in."""
    assert rotation_2TC.dtype == torch.float32, f"a rotation in {rotation_2TC.dtype} has lost the places of tokens"
    cosines_T11C, sines_T11C = rotation_2TC[:, :, None, None].unbind(0)
    firsts_T2AC, seconds_T2AC = _at_least_float32(qkv_T3AD[:, :2]).chunk(2, -1)
    turned_T2AD = torch.cat(
        [
            firsts_T2AC * cosines_T11C - seconds_T2AC * sines_T11C,
            seconds_T2AC * cosines_T11C + firsts_T2AC * sines_T11C,
        ],
        -1,
    )
    return torch.cat([turned_T2AD.to(qkv_T3AD.dtype), qkv_T3AD[:, 2:]], 1)


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


# The encoder.


def norm_of(size: int, shape: EncoderShape) -> nn.LayerNorm:
    """A LayerNorm as the encoder has it."""
    return nn.LayerNorm(size, eps=shape.norm_epsilon, bias=shape.biases)


class Embeddings(nn.Module):
    """Word of every token, with its position and segment where there are tables of them, summed."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        size = shape.embedding_size
        self.first_position = shape.first_position
        self.word = nn.Embedding(shape.vocab_size, size)
        self.position = nn.Embedding(shape.positions, size) if shape.position_kind == "learned" else None
        self.segment = nn.Embedding(shape.segment_types, size) if shape.segment_types else None
        self.norm = norm_of(size, shape)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, batch: Batch) -> Tensor:
        """[T, E]."""
        summed_TE = self.word(batch.ids)
        if self.position is not None:
            summed_TE = summed_TE + self.position(batch.positions() + self.first_position)
        if self.segment is not None:
            single = self.segment.num_embeddings == 1
            summed_TE = summed_TE + (self.segment.weight[0] if single else self.segment(batch.segment_ids))
        embedded_TE: Tensor = self.dropout(self.norm(summed_TE))
        return embedded_TE


class SelfAttention(nn.Module):
    """Queries, keys and values of every head by one matrix, attention within sequences, and a matrix after it."""

    def __init__(self, shape: EncoderShape, number: int) -> None:
        super().__init__()
        self.heads = shape.heads
        self.dropout = shape.attention_dropout
        self.window, self.causal = shape.window(number), shape.causal
        self.query_key_value = nn.Linear(shape.hidden_size, 3 * shape.hidden_size, bias=shape.biases)
        self.output = nn.Linear(shape.hidden_size, shape.hidden_size, bias=shape.biases)

    def forward(self, hidden_TH: Tensor, boundaries: Tensor, longest: int, turns: Tensor | None = None) -> Tensor:
        """Return [T, H]. turns: the rotation of every token, where positions are rotations"""
        num_tokens, hidden_size = hidden_TH.shape
        qkv_T3AD = self.query_key_value(hidden_TH).view(num_tokens, 3, self.heads, hidden_size // self.heads)
        if turns is not None:
            qkv_T3AD = rotate(qkv_T3AD, turns)
        dropout = self.dropout if self.training else 0.0
        attended_TAD = attend(qkv_T3AD, boundaries, longest, dropout, self.window, self.causal)
        mixed_TH: Tensor = self.output(attended_TAD.flatten(1))
        return mixed_TH


class Layer(nn.Module):
    """Attention, then feed-forward; after each dropout and the residual; LayerNorm after that, or before all of it."""

    def __init__(self, shape: EncoderShape, number: int) -> None:
        super().__init__()
        gated, before = shape.feed_forward == "glu", shape.norm_place == "before"
        self.gated, self.norms_before = gated, before
        self.attention = SelfAttention(shape, number)
        # what enters the first layer comes from a norm
        self.attention_norm = nn.Identity() if before and not number else norm_of(shape.hidden_size, shape)
        self.widen = nn.Linear(shape.hidden_size, shape.feed_forward_size * (2 if gated else 1), bias=shape.biases)
        self.activation = ACTIVATIONS[shape.activation]
        self.narrow = nn.Linear(shape.feed_forward_size, shape.hidden_size, bias=shape.biases)
        self.feed_forward_norm = norm_of(shape.hidden_size, shape)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, hidden_TH: Tensor, boundaries: Tensor, longest: int, turns: Tensor | None = None) -> Tensor:
        """[T, H]; boundaries int32 [B + 1], longest as in `Batch`, turns as in `SelfAttention`."""
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
        """[T, H]."""
        wide = self.widen(hidden_TH)
        if self.gated:
            activated_TF, gate_TF = wide.chunk(2, -1)
            narrowed_TH: Tensor = self.narrow(self.activation(activated_TF) * gate_TF)
            return narrowed_TH
        narrowed_TH = self.narrow(self.activation(wide))
        return narrowed_TH


class TransformerEncoder(nn.Module):
    """Embeddings and layers. `layers` holds each set of weights once.

    embeds: whether it has embeddings; else it is called with those of another
    """

    def __init__(self, shape: EncoderShape, embeds: bool = True) -> None:
        super().__init__()
        self.shape = shape
        if embeds:
            self.embeddings = Embeddings(shape)
        projects = shape.projects or shape.embedding_size != shape.hidden_size
        self.projection = nn.Linear(shape.embedding_size, shape.hidden_size) if projects else None
        self.layers = nn.ModuleList(Layer(shape, number) for number in range(shape.layer_groups))
        self.final_norm = norm_of(shape.hidden_size, shape) if shape.norm_place == "before" else None

    @property
    def shares_layers(self) -> bool:
        """True if several layers use one set of weights."""
        return self.shape.layer_groups < self.shape.layers

    def forward(self, batch: Batch, embedded_TE: Tensor | None = None, states: list[Tensor] | None = None) -> Tensor:
        """Return [T, H]. embedded_TE: in place of its own embeddings; states: takes what `hidden_states` returns"""
        hidden_TH: Tensor = self.embeddings(batch) if embedded_TE is None else embedded_TE
        if self.projection is not None:
            hidden_TH = self.projection(hidden_TH)
        rotations = self._rotations(batch)
        for number in range(self.shape.layers):
            layer = self.layers[number * self.shape.layer_groups // self.shape.layers]
            turns = rotations.get(self.shape.window(number) is None)
            if states is not None:
                states.append(hidden_TH)
            hidden_TH = layer(hidden_TH, batch.boundaries, batch.longest, turns)
        if self.final_norm is not None:
            hidden_TH = self.final_norm(hidden_TH)
        if states is not None:
            states.append(hidden_TH)
        return hidden_TH

    def hidden_states(self, batch: Batch) -> list[Tensor]:
        """Return the first layer's input and each layer's output, the last one after the norm: layers + 1 of [T, H]."""
        states = list[Tensor]()
        self(batch, states=states)
        return states

    def _rotations(self, batch: Batch) -> Mapping[bool, Tensor]:
        """The rotation of every token in layers that see everything (True) and in those with a window."""
        if self.shape.position_kind != "rope":
            return {}
        positions_T, size = batch.positions(), self.shape.hidden_size // self.shape.heads
        bases = dict(zip((True, False), self.shape.rope_bases, strict=True))
        return {everything: rotation(positions_T, size, base) for everything, base in bases.items()}


@torch.no_grad()
def draw_truncated(weight: Tensor, deviation: float) -> None:
    """Normal, drawn again beyond two deviations, as the authors of BERT start their matrices.

    `nn.init.trunc_normal_` has the same distribution and takes seven times as long.
    """
    flat = nn.init.normal_(weight, std=deviation).view(-1)
    far = (flat.abs() > 2 * deviation).nonzero().squeeze(1)
    while len(far):
        flat[far] = drawn = torch.normal(0.0, deviation, far.shape, device=flat.device, dtype=flat.dtype)
        far = far[drawn.abs() > 2 * deviation]


def draw_normal(weight: Tensor, deviation: float) -> None:
    """Normal, as fairseq starts RoBERTa's matrices."""
    nn.init.normal_(weight, std=deviation)


FIRST_WEIGHTS: Mapping[str, Draw] = MappingProxyType({"truncated-normal": draw_truncated, "normal": draw_normal})


def init_weights(model: nn.Module, family: Family, layers: int, deviation: float = DEVIATION) -> None:
    """Draw the matrices of a whole model, or of a head alone, from torch's generator.

    layers: of its encoder

    Of a family that scales by depth, what adds to the residual is smaller by the root of twice the layers, and so are
    heads: ModernBERT's authors call it Megatron's initialisation (Warner et al. 2024, appendix A.2).
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
        if isinstance(module, Embeddings) and family.position_from_pad:
            with torch.no_grad():
                for table in (module.word, module.position):
                    if table is not None:
                        table.weight[module.first_position - 1].zero_()
