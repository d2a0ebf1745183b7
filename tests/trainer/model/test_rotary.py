"""Rotary positions: as transformers' ModernBERT makes them, of distances alone, right at the last place."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples
from torch import Tensor

from trainer.model.attention import compute_rotation, rotate

BASES = (160_000.0, 10_000.0)
PLACES = torch.tensor([0, 1, 2, 63, 64, 257, 4095, 8190, 8191])


def random_qkv(tokens: int, heads: int = 2, size: int = 64, seed: int = 0) -> Tensor:
    return torch.randn(tokens, 3, heads, size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("base", BASES)
def test_angles_at_the_last_place(base: float) -> None:
    """Against float64: places in half precision, or frequencies, would be off by whole turns."""
    frequencies = base ** -(torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    exact = PLACES.double()[:, None] * frequencies
    made = compute_rotation(PLACES, 64, base).double()
    torch.testing.assert_close(made, torch.stack([exact.cos(), exact.sin()]), atol=5e-4, rtol=0)
    for wrong in (PLACES.bfloat16().double()[:, None] * frequencies, exact.float().bfloat16().double()):
        assert (wrong.cos() - exact.cos()).abs().max() > 0.1, "the bound would let half precision pass"


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16, torch.float64])
def test_turned_in_float32_whatever_the_precision(precision: torch.dtype) -> None:
    """Fails if the result is rounded more than once, or float64 loses anything, or the input changes."""
    qkv = random_qkv(len(PLACES)).to(precision)
    angles = compute_rotation(PLACES, 64, 10_000.0)
    turned = rotate(qkv, angles)
    assert turned.dtype == precision and turned.shape == qkv.shape
    assert torch.equal(turned[:, 2], qkv[:, 2])
    torch.testing.assert_close(
        turned, rotate(qkv.double(), angles).to(precision), rtol=torch.finfo(precision).eps, atol=1e-6
    )
    with pytest.raises(AssertionError, match="bfloat16 has lost the places"):
        rotate(qkv, angles.bfloat16())


@given(
    first=st.integers(0, 8191),
    second=st.integers(0, 8191),
    shifted=st.integers(0, 8191),
    size=st.sampled_from([2, 16, 64]),
    base=st.sampled_from(BASES),
)
@examples(60)
def test_scores_depend_on_the_distance_alone(first: int, second: int, shifted: int, size: int, base: float) -> None:
    """Scores of unit vectors, within what float32 angles at place 8,191 allow."""
    pairs = torch.tensor([first, second])
    moved = pairs - pairs.min()
    moved += min(shifted, 8191 - int(moved.max()))
    qkv = torch.nn.functional.normalize(random_qkv(2, 3, size), dim=-1)
    there, here = (rotate(qkv, compute_rotation(places, size, base)) for places in (pairs, moved))
    scores = [torch.einsum("ad,ad->a", turned[0, 0], turned[1, 1]) for turned in (there, here)]
    torch.testing.assert_close(*scores, atol=2e-3, rtol=0)
    torch.testing.assert_close(there.norm(dim=-1), qkv.norm(dim=-1), atol=1e-5, rtol=0)
