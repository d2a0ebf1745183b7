"""Attention: every way of it equals the definition, and no sequence sees another."""

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples
from torch import Tensor

from trainer.model.attention import attend, attend_by_runs, attend_padded, attend_plainly

HEADS, SIZE = 2, 8
Way = Callable[[Tensor, Tensor, int, float], Tensor]

WAYS: dict[str, Way] = {
    "attend": attend,
    "by runs": lambda qkv, boundaries, longest, dropout, *sight: attend_by_runs(qkv, boundaries, dropout, *sight),
    "padded": attend_padded,
}


def tensors(
    lengths: Sequence[int], seed: int = 0, precision: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, int]:
    generator = torch.Generator().manual_seed(seed)
    qkv = torch.randn(sum(lengths), 3, HEADS, SIZE, generator=generator, dtype=precision, requires_grad=True)
    boundaries = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    return qkv, boundaries, max(lengths)


@pytest.mark.parametrize("way", WAYS)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any), seed=st.integers(0, 99))
@examples(40)
def test_every_way_equals_the_definition(way: str, lengths: list[int], seed: int) -> None:
    """In float64, whose rounding is far below the bound in whatever order a processor adds."""
    qkv, boundaries, longest = tensors(lengths, seed, torch.float64)
    wanted = attend_plainly(qkv, boundaries)
    made = WAYS[way](qkv, boundaries, longest, 0.0)
    assert made.shape == (sum(lengths), HEADS, SIZE)
    torch.testing.assert_close(made, wanted, atol=1e-11, rtol=1e-11)
    upstream = torch.randn(made.shape, generator=torch.Generator().manual_seed(seed), dtype=made.dtype)
    gradients = [torch.autograd.grad(out, qkv, upstream)[0] for out in (made, wanted)]
    torch.testing.assert_close(*gradients, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("way", WAYS)
def test_no_sequence_sees_another(way: str) -> None:
    qkv, boundaries, longest = tensors([4, 6, 6, 2])
    middle = WAYS[way](qkv, boundaries, longest, 0.0)[4:10]
    (gradient,) = torch.autograd.grad(middle.square().sum(), qkv)
    assert gradient[4:10].abs().amin(dim=(1, 2, 3)).gt(0).all(), "the test compares nothing"
    assert gradient[:4].eq(0).all() and gradient[10:].eq(0).all()


@pytest.mark.parametrize("lengths", [[5, 5, 5], [3, 9, 1]])
@pytest.mark.parametrize("way", WAYS)
def test_dropout_drops_weights_and_keeps_their_mean(way: str, lengths: list[int]) -> None:
    qkv, boundaries, longest = tensors(lengths)
    qkv = qkv.detach().clone()
    qkv[:, 2] = 1.0  # so a sum of weighted values is the sum of the weights that were kept
    torch.manual_seed(3)
    kept = torch.stack([WAYS[way](qkv, boundaries, longest, 0.25) for _ in range(500)])
    assert kept.var(0).amin() > 1e-3
    torch.testing.assert_close(kept.mean(0), torch.ones_like(kept[0]), atol=0.12, rtol=0)


def test_no_sequence_at_all() -> None:
    qkv = torch.randn(0, 3, HEADS, SIZE, requires_grad=True)
    made = attend(qkv, torch.zeros(1, dtype=torch.int32), 0, 0.0)
    assert made.shape == (0, HEADS, SIZE)
    made.sum().backward()
    assert qkv.grad is not None and qkv.grad.shape == qkv.shape


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_on_cuda(precision: torch.dtype, dropout: float) -> None:
    qkv, boundaries, longest = tensors([40, 64, 64, 17])
    made = attend(qkv.detach().cuda().to(precision), boundaries.cuda(), longest, dropout).float().cpu()
    if dropout == 0:
        tolerance = 1e-5 if precision == torch.float32 else 2e-2
        torch.testing.assert_close(made, attend_plainly(qkv.detach(), boundaries), atol=tolerance, rtol=tolerance)
    else:
        assert made.isfinite().all() and not torch.allclose(made, attend_plainly(qkv.detach(), boundaries), atol=2e-2)
