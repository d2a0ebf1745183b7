"""Attention with a window next to the same with a mask of tokens x tokens, to all tokens, and to one side.

Forward and backward of 4 heads of 64 in float32 on one thread, 8,192 tokens: as one sequence, as 8 and as 64. The
window is ModernBERT's of 128. What is measured with a window is held to torch's dense product under a mask first, and
what is causal to that under a triangle. Texts are of no matter here. Needs the extra `trainer`.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measuring import Report, Side, main, take_turns
from trainer.model.attention import attend

TOKENS, NUMBERS = 8192, (1, 8, 64)
HEADS, SIZE, WINDOW = 4, 64, 128


def benchmark(texts: Sequence[str], rounds: int) -> list[Report]:
    """One report for each number of sequences that the tokens are."""
    torch.set_num_threads(1)
    return [compare(number, rounds) for number in NUMBERS]


def compare(number: int, rounds: int) -> Report:
    """All sides on so many sequences of one length."""
    length = TOKENS // number
    qkv = torch.randn(number * length, 3, HEADS, SIZE, generator=torch.Generator().manual_seed(0), requires_grad=True)
    boundaries = torch.arange(number + 1, dtype=torch.int32) * length
    steps = torch.arange(length) - torch.arange(length)[:, None]
    with_window = partial(attend, qkv, boundaries, length, 0.0, WINDOW)
    with_mask = partial(masked, qkv, number, steps.abs() <= WINDOW // 2)
    causal = partial(attend, qkv, boundaries, length, 0.0, None, "left")
    for one, other in ((with_window, with_mask), (causal, partial(masked, qkv, number, steps <= 0))):
        with torch.no_grad():
            torch.testing.assert_close(one(), other(), atol=1e-5, rtol=1e-5)
    sides = {
        f"window of {WINDOW}": with_window,
        "the same under a mask": with_mask,
        "all tokens": partial(attend, qkv, boundaries, length, 0.0),
        "causal": causal,
        "causal, window": partial(attend, qkv, boundaries, length, 0.0, WINDOW, "left"),
    }
    return Report(
        title=f"attention, {number} x {length} tokens, {HEADS} heads of {SIZE}, medians of {rounds} rounds",
        amounts={"tokens": number * length},
        rows=take_turns([Side(name=name, call=stepper(qkv, call)) for name, call in sides.items()], rounds),
        notes=("outputs equal: the window to a mask, causal to a triangle",),
    )


def masked(qkv: Tensor, number: int, seen: Tensor) -> Tensor:
    """Torch's dense product of sequences of one length, under a mask of tokens x tokens."""
    q, k, v = qkv.view(number, -1, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4).unbind(0)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(0, 1)


def stepper(qkv: Tensor, attended: Callable[[], Tensor]) -> Callable[[int], None]:
    """A call of forward and backward."""

    def call(seed: int) -> None:
        out = attended()
        out.backward(out.detach())
        qkv.grad = None

    call(0)
    return call


if __name__ == "__main__":
    main(benchmark)
