"""Self-attention over concatenated sequences: every token attends to the tokens of its own sequence.

It attends to all of them, to those in a window around it (`window`), to itself and earlier tokens (`causal`), or both.

Promise: tokens of other sequences, padding, and tokens outside the window never have any weight, in each of these
implementations:

- On a CPU, a run of sequences of equal length is one dense product, without padding or masks.
- On CUDA in half precision without attention dropout, torch's `varlen_attn` (FlashAttention for packed sequences) is
  used.
- Otherwise rows are padded to the longest one inside the attention, and the padding is masked. This is the case on
  CUDA in float32, on a GPU before Ampere, with attention dropout in training (which `varlen_attn` does not support),
  and when compiled for a CPU, where runs would need another program for every batch.

If sequences are longer than a window, runs and rows are replaced by a band: blocks of queries and the keys near them,
across boundaries and without padding. So memory grows with tokens x window, and no matrix of tokens x tokens is
created. Causal rows are padded at the end and need no mask.

So `attention_dropout = 0` makes training on CUDA fast. Other values work, but are slower.

Rotary positions (Su et al. 2021, section 3.2.2) rotate queries and keys by angles that are proportional to their
positions. The product of a query and a key then depends only on their distance. Components c and c + D/2 of a head form
a point in the plane (the layout of transformers' ModernBERT), which is rotated by position / base ** (2c / D).
ModernBERT has a base of 160,000 in layers that attend to all tokens and of 10,000 in layers with a window. Angles are
float32, computed in the same steps as in transformers, so a model gives the same results in both. At position 8,191
they differ by up to 7e-4 from the exact ones, and a score may change by as much if both positions are shifted. In half
precision they would be wrong from position 256 on, so rotations are computed and applied in float32.

Cost: forward and backward of 32 sequences of 30-128 tokens, 4 heads of 64: 25 ms by runs, 53-61 ms padded; with
dropout 42-47 and 102-117 ms; 16 sequences that all have 128 tokens: 24 ms either way (one x86-64 core).
A batch sorted by length has the fewest runs. 8,192 tokens, 4 heads of 64, forward and backward: as one sequence 3.4 s,
1.9 s causal, 0.2 s with a window of 128; as 8 sequences 0.45, 0.36 and 0.2 s; as 64 of 128 tokens 0.07 to 0.1 s with or
without a window, which is a mask for runs of up to three windows (docs/performance.md, one x86-64 core).
Memory for that one sequence, in addition to the 24 MB of queries, keys and values: 90 MB if all tokens or all earlier
ones are attended to, 150 MB with the window, 290 MB if there is also dropout. Dropout without a window takes 4.2 GB,
because torch then keeps tokens x tokens. A rotation for 8,192 tokens and heads of 64, computed once per forward pass
and base, takes 1 ms; applying it, forward and backward, takes 40 ms, while the matrix that computes queries and keys
takes 115 ms.
"""

from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

HAS_CUDA = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
if HAS_CUDA:  # what is for cards alone brings the compiler, which takes a second to import
    from torch.nn.attention.varlen import varlen_attn

# Shapes: T tokens of all sequences, B sequences, S tokens of the longest, A heads, D size of a head, N sequences of
# a run, L tokens of each of them; in a band G blocks of Q queries and K keys.

HALF = (torch.bfloat16, torch.float16)
AMPERE = (8, 0)
MIN_BLOCK = 16  # queries of a band
MAX_DENSE_WINDOWS = 3  # a run of sequences up to so many windows long takes less time as a dense product than as a band


def attend(
    qkv_T3AD: Tensor,
    boundaries: Tensor,
    longest: int,
    dropout: float,
    window: int | None = None,
    causal: bool = False,
) -> Tensor:
    """Compute softmax(Q K' / sqrt(D)) V within each sequence (Vaswani et al. 2017, section 3.2.1): [T, A, D].

    Args:
        qkv_T3AD: Queries, keys and values of all tokens: [T tokens, 3, A heads, D components].
        boundaries: int32 [B + 1], the index of the first token of each sequence; the last item is T. A sequence may be
            empty.
        longest: The number of tokens of the longest sequence.
        dropout: The probability that an attention weight is dropped; 0 outside training.
        window: A token attends to at most window // 2 tokens on each side, as in ModernBERT; None for all tokens.
        causal: True if a token attends only to itself and earlier tokens.
    """
    if len(qkv_T3AD) == 0:  # a process without a share of the step: no kernel need take it
        return qkv_T3AD[:, 0]
    if qkv_T3AD.device.type == "cpu" and not torch.compiler.is_compiling():
        return attend_by_runs(qkv_T3AD, boundaries, dropout, window, causal)
    if _can_use_varlen(qkv_T3AD, dropout):
        q_TAD, k_TAD, v_TAD = qkv_T3AD.unbind(1)
        sight = to_sight(-1 if window is None else window // 2, causal)  # -1: all of that side
        attended_TAD = varlen_attn(q_TAD, k_TAD, v_TAD, boundaries, boundaries, longest, longest, window_size=sight)
        assert isinstance(attended_TAD, Tensor)
        return attended_TAD
    return attend_padded(qkv_T3AD, boundaries, longest, dropout, window, causal)


def to_sight(reach: int, causal: bool) -> tuple[int, int]:
    """Return how many tokens to the left and how many to the right a token attends to.

    `reach` is their number on either side; -1 means all tokens. With `causal`, the number to the right is 0.
    """
    return (reach, 0 if causal else reach)


def attend_padded(
    qkv_T3AD: Tensor, boundaries: Tensor, longest: int, dropout: float, window: int | None, causal: bool
) -> Tensor:
    """Compute `attend` on sequences padded to the longest one, or in a band if the longest sequence exceeds the window.

    The arguments are those of `attend`. Lengths are never read back from the device.
    """
    num_tokens, _, heads, size = qkv_T3AD.shape
    num_sequences = len(boundaries) - 1
    if window is not None and window // 2 < longest - 1:
        return attend_in_band(qkv_T3AD, boundaries, to_sight(window // 2, causal), dropout)
    if num_tokens == num_sequences * longest:  # all of one length
        return _attend_dense(qkv_T3AD.view(num_sequences, longest, 3, heads, size), None, dropout, is_causal=causal)
    lengths = boundaries.diff()
    starts = torch.arange(num_sequences, device=boundaries.device) * longest
    shifts_T = torch.repeat_interleave(starts - boundaries[:-1], lengths, output_size=num_tokens)
    places_T = torch.arange(num_tokens, device=boundaries.device) + shifts_T
    padded = qkv_T3AD.new_zeros(num_sequences * longest, 3, heads, size).index_copy(0, places_T, qkv_T3AD)
    rows = padded.view(num_sequences, longest, 3, heads, size)
    if causal:  # the padding comes last, where no token looks
        return _attend_dense(rows, None, dropout, is_causal=True).index_select(0, places_T)
    attended_to = lengths.clamp(min=1)  # a row without any has no softmax
    present_BS = torch.arange(longest, device=boundaries.device) < attended_to[:, None]
    return _attend_dense(rows, present_BS[:, None, None, :], dropout).index_select(0, places_T)


def attend_by_runs(qkv_T3AD: Tensor, boundaries: Tensor, dropout: float, window: int | None, causal: bool) -> Tensor:
    """Compute `attend` with one dense product per run of equally long sequences, or in a band if that is cheaper.

    The arguments are those of `attend`.
    """
    _, _, heads, size = qkv_T3AD.shape
    runs = [(length, len(list(run))) for length, run in groupby(boundaries.diff().tolist()) if length]
    pieces = torch.split(qkv_T3AD, [length * number for length, number in runs])
    attended = []
    for piece, (length, number) in zip(pieces, runs, strict=True):
        rows = piece.view(number, length, 3, heads, size)
        if window is None or window // 2 >= length - 1:
            attended.append(_attend_dense(rows, None, dropout, is_causal=causal))
        elif length <= MAX_DENSE_WINDOWS * window:
            near_LL = _mask_near(length, length, to_sight(window // 2, causal), rows.device)
            attended.append(_attend_dense(rows, near_LL, dropout))
        else:
            starts = torch.arange(number + 1) * length
            attended.append(attend_in_band(piece, starts, to_sight(window // 2, causal), dropout))
    return torch.cat(attended)


def attend_in_band(qkv_T3AD: Tensor, boundaries: Tensor, sight: tuple[int, int], dropout: float) -> Tensor:
    """Compute `attend` if each token sees a limited number of neighbors, from blocks of queries and the keys near them.

    It computes T x (block + left + right) scores per head, instead of T x T.

    Args:
        qkv_T3AD: Queries, keys and values, as in `attend`.
        boundaries: The first token of each sequence, as in `attend`.
        sight: The number of tokens seen to the left, and the number seen to the right.
        dropout: The probability that an attention weight is dropped.
    """
    num_tokens = len(qkv_T3AD)
    left, right = sight
    block = max(MIN_BLOCK, left, right)
    num_blocks = -(-num_tokens // block)
    span, end = left + block + right, num_blocks * block - num_tokens + right
    queries_GQAD = F.pad(qkv_T3AD[:, 0], (0, 0, 0, 0, 0, end - right)).view(num_blocks, block, *qkv_T3AD.shape[2:])
    pairs_G2AKD = F.pad(qkv_T3AD[:, 1:], (0, 0, 0, 0, 0, 0, left, end)).unfold(0, span, block).transpose(-1, -2)
    keys_GAKD, values_GAKD = pairs_G2AKD.unbind(1)
    seen_GQK = _mask_band(num_tokens, boundaries, sight, block)
    attended_GAQD = F.scaled_dot_product_attention(
        queries_GQAD.transpose(1, 2), keys_GAKD, values_GAKD, attn_mask=seen_GQK[:, None], dropout_p=dropout
    )
    return attended_GAQD.transpose(1, 2).flatten(0, 1)[:num_tokens]


def _mask_band(num_tokens: int, boundaries: Tensor, sight: tuple[int, int], block: int) -> Tensor:
    """Mark the keys that the queries of each block see: bool [G blocks, Q queries, K keys].

    Padding at the end of the last block sees itself.

    Args:
        num_tokens: The number of tokens, T.
        boundaries: The first token of each sequence, as in `attend`.
        sight: The number of tokens seen to the left, and the number seen to the right.
        block: The number of queries per block.
    """
    left, right = sight
    num_blocks = -(-num_tokens // block)
    numbers = torch.arange(len(boundaries) - 1, device=boundaries.device)
    numbers_T = torch.repeat_interleave(numbers, boundaries.diff(), output_size=num_tokens)
    numbers_of_keys = F.pad(numbers_T, (left, num_blocks * block - num_tokens + right), value=-1)
    numbers_GK = numbers_of_keys.unfold(0, left + block + right, block)
    numbers_GQ = numbers_GK[:, left : left + block]
    near_QK = _mask_near(block, left + block + right, sight, boundaries.device, first=-left)
    return near_QK & (numbers_GQ[:, :, None] == numbers_GK[:, None, :])


def _mask_near(queries: int, keys: int, sight: tuple[int, int], device: torch.device, first: int = 0) -> Tensor:
    """Mark the keys that each query sees: bool [Q, K].

    Query positions start at 0, and key positions at `first`. `sight` contains the number of positions seen to the left
    and the number seen to the right.
    """
    left, right = sight
    places_K = torch.arange(first, first + keys, device=device)
    steps_QK = places_K - torch.arange(queries, device=device)[:, None]
    return (steps_QK >= -left) & (steps_QK <= right)


def _attend_dense(qkv_NL3AD: Tensor, mask: Tensor | None, dropout: float, is_causal: bool = False) -> Tensor:
    """Compute attention over N sequences that have the same length L or are padded to it: [N * L, A, D].

    Args:
        qkv_NL3AD: Queries, keys and values.
        mask: True for keys that are seen, of a shape that broadcasts to [N, A, L, L]; None if all are seen.
        dropout: The probability that an attention weight is dropped.
        is_causal: True if a token attends only to itself and earlier tokens.
    """
    q_NALD, k_NALD, v_NALD = qkv_NL3AD.permute(2, 0, 3, 1, 4).unbind(0)
    attended_NALD = F.scaled_dot_product_attention(
        q_NALD, k_NALD, v_NALD, attn_mask=mask, dropout_p=dropout, is_causal=is_causal
    )
    return attended_NALD.transpose(1, 2).flatten(0, 1)


def _can_use_varlen(qkv_T3AD: Tensor, dropout: float) -> bool:
    """Return True if FlashAttention supports the queries, keys and values.

    It needs half precision, no dropout, a head size of at most 256 that is a multiple of 8, and an Ampere GPU or later.
    """
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
    """Return True if the device is an Ampere GPU or later.

    In a compiled layer the result is a constant, so that torch can cache the compiled program.
    """
    return torch.cuda.get_device_capability(device) >= AMPERE


if HAS_CUDA:
    _is_ampere = torch.compiler.assume_constant_result(_is_ampere)  # type: ignore[no-untyped-call]


# Shapes: T tokens of all sequences, A heads, D size of a head, C = D / 2 points.


def compute_rotation(positions_T: Tensor, size: int, base: float) -> Tensor:
    """Compute the cosines and the sines of the rotary embedding angles of all tokens: float32 [2, T, C].

    C is half the size of a head.

    Args:
        positions_T: int64, the position of each token in its own sequence.
        size: The size of a head, which must be even.
        base: The base of the angles. Component c of a head is rotated by position / base ** (2c / size).
    """
    assert size % 2 == 0, f"a head of {size} numbers has no points of the plane"
    powers_C = torch.arange(0, size, 2, dtype=torch.float32, device=positions_T.device) / size
    angles_TC = positions_T.float()[:, None] * (1.0 / base**powers_C)
    return torch.stack([angles_TC.cos(), angles_TC.sin()])


def rotate(qkv_T3AD: Tensor, rotation_2TC: Tensor) -> Tensor:
    """Apply rotary embeddings to queries and keys, and return them together with the unchanged values.

    The result has the shape and precision of `qkv_T3AD`.

    Args:
        qkv_T3AD: Queries, keys and values of all tokens.
        rotation_2TC: The cosines and sines for all tokens, as `compute_rotation` returns them.
    """
    assert rotation_2TC.dtype == torch.float32, f"a rotation in {rotation_2TC.dtype} has lost the places of tokens"
    cosines_T11C, sines_T11C = rotation_2TC[:, :, None, None].unbind(0)
    firsts_T2AC, seconds_T2AC = to_float32_or_more(qkv_T3AD[:, :2]).chunk(2, -1)
    turned_T2AD = torch.cat(
        [
            firsts_T2AC * cosines_T11C - seconds_T2AC * sines_T11C,
            seconds_T2AC * cosines_T11C + firsts_T2AC * sines_T11C,
        ],
        -1,
    )
    return torch.cat([turned_T2AD.to(qkv_T3AD.dtype), qkv_T3AD[:, 2:]], 1)


def to_float32_or_more(tensor: Tensor) -> Tensor:
    """Convert a tensor to float32, unless it already has at least that precision."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
