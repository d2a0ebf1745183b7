"""Self-attention over sequences that lie end to end: every token attends to the tokens of its own sequence.

Promise: no token of another sequence and no padding has any weight, whatever way is taken:

- on a processor, a run of sequences of equal length is one dense product, so nothing is padded and nothing masked;
- on CUDA in half precision without dropout of the probabilities, torch's `varlen_attn` (FlashAttention over
  boundaries);
- else (CUDA in float32, on a card before Ampere, or with attention dropout in training, which `varlen_attn` does
  not have; and compiled for a processor, where runs would be another program for every batch), rows are padded to
  the longest inside the attention alone, and the padding is masked.

So `attention_dropout = 0` is what makes training on CUDA fast; another value is honoured, and paid for.

Cost: forward and backward of 32 sequences of 30-128 tokens, 4 heads of 64: 25 ms by runs, 53-61 ms padded; with
dropout 42-47 and 102-117 ms; 16 sequences that are all of 128 tokens: 24 ms either way (one x86-64 core).
A batch sorted by length has the fewest runs.
"""

from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

# Shapes: T tokens of all sequences, B sequences, S tokens of the longest, A heads, D size of a head, N sequences of
# a run, L tokens of each of them.

HALF = (torch.bfloat16, torch.float16)
AMPERE = (8, 0)


def attend(qkv_T3AD: Tensor, boundaries: Tensor, longest: int, dropout: float) -> Tensor:
    """softmax(Q K' / sqrt(D)) V within each sequence (Vaswani et al. 2017, section 3.2.1): [T, A, D].

    qkv_T3AD:   queries, keys and values of every token
    boundaries: int32 [B + 1], where each sequence begins; the last is T; a sequence may be empty
    longest:    tokens of the longest sequence
    dropout:    probability that a weight is dropped; 0 outside training
    """
    if len(qkv_T3AD) == 0:  # a process without a share of the step: no kernel need take it
        return qkv_T3AD[:, 0]
    if qkv_T3AD.device.type == "cpu" and not torch.compiler.is_compiling():
        return attend_by_runs(qkv_T3AD, boundaries, dropout)
    if _fits_varlen(qkv_T3AD, dropout):
        q_TAD, k_TAD, v_TAD = qkv_T3AD.unbind(1)
        attended_TAD = varlen_attn(q_TAD, k_TAD, v_TAD, boundaries, boundaries, longest, longest)
        assert isinstance(attended_TAD, Tensor)
        return attended_TAD
    return attend_padded(qkv_T3AD, boundaries, longest, dropout)


def attend_plainly(qkv_T3AD: Tensor, boundaries: Tensor) -> Tensor:
    """The definition, one sequence after another, without dropout."""
    attended = []
    for first, end in zip(boundaries[:-1].tolist(), boundaries[1:].tolist(), strict=True):
        q_LAD, k_LAD, v_LAD = qkv_T3AD[first:end].unbind(1)
        scores_ALL = torch.einsum("qad,kad->aqk", q_LAD, k_LAD) * q_LAD.shape[-1] ** -0.5
        attended.append(torch.einsum("aqk,kad->qad", scores_ALL.softmax(-1), v_LAD))
    return torch.cat([qkv_T3AD.new_empty(0, *qkv_T3AD.shape[2:]), *attended])


def attend_padded(qkv_T3AD: Tensor, boundaries: Tensor, longest: int, dropout: float) -> Tensor:
    """`attend` in dense rows of the longest length; it never waits for the device to learn a length."""
    num_tokens, _, heads, size = qkv_T3AD.shape
    num_sequences = len(boundaries) - 1
    if num_tokens == num_sequences * longest:  # all of one length
        return _attend_dense(qkv_T3AD.view(num_sequences, longest, 3, heads, size), None, dropout)
    lengths = boundaries.diff()
    starts = torch.arange(num_sequences, device=boundaries.device) * longest
    shifts = torch.repeat_interleave(starts - boundaries[:-1], lengths, output_size=num_tokens)
    places_T = torch.arange(num_tokens, device=boundaries.device) + shifts
    padded = qkv_T3AD.new_zeros(num_sequences * longest, 3, heads, size).index_copy(0, places_T, qkv_T3AD)
    attended_to = lengths.clamp(min=1)  # a row without any has no softmax
    present_BS = torch.arange(longest, device=boundaries.device) < attended_to[:, None]
    attended = _attend_dense(padded.view(num_sequences, longest, 3, heads, size), present_BS[:, None, None, :], dropout)
    return attended.index_select(0, places_T)


def attend_by_runs(qkv_T3AD: Tensor, boundaries: Tensor, dropout: float) -> Tensor:
    """`attend` in one dense product for each run of sequences of one length."""
    _, _, heads, size = qkv_T3AD.shape
    runs = [(length, len(list(run))) for length, run in groupby(boundaries.diff().tolist()) if length]
    pieces = torch.split(qkv_T3AD, [length * number for length, number in runs])
    attended = [
        _attend_dense(piece.view(number, length, 3, heads, size), None, dropout)
        for piece, (length, number) in zip(pieces, runs, strict=True)
    ]
    return torch.cat(attended)


def _attend_dense(qkv_NL3AD: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """Sequences of one length, or padded to it: [N * L, A, D]."""
    q_NALD, k_NALD, v_NALD = qkv_NL3AD.permute(2, 0, 3, 1, 4).unbind(0)
    attended_NALD = F.scaled_dot_product_attention(q_NALD, k_NALD, v_NALD, attn_mask=mask, dropout_p=dropout)
    return attended_NALD.transpose(1, 2).flatten(0, 1)


def _fits_varlen(qkv_T3AD: Tensor, dropout: float) -> bool:
    """Whether FlashAttention takes these: half precision, heads of a multiple of 8 up to 256, Ampere or later."""
    size = qkv_T3AD.shape[-1]
    return (
        qkv_T3AD.is_cuda
        and qkv_T3AD.dtype in HALF
        and dropout == 0
        and size % 8 == 0
        and size <= 256
        and torch.cuda.get_device_capability(qkv_T3AD.device) >= AMPERE
    )
