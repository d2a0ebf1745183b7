"""Windows and direction: every way equals the definition around every edge, nothing out of sight has any weight, and
nowhere is a matrix of tokens x tokens."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tiers import examples
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trainer.model.attention import (
    MAX_DENSE_WINDOWS,
    MIN_BLOCK,
    attend,
    attend_by_runs,
    attend_in_band,
    attend_padded,
    to_sight,
)

Way = Callable[[Tensor, Tensor, float, int | None, bool], Tensor]
SIDES = (False, True)


def longest(boundaries: Tensor) -> int:
    return int(boundaries.diff().max())


def in_band(qkv: Tensor, boundaries: Tensor, dropout: float, window: int | None, causal: bool) -> Tensor:
    """A window as wide as the longest sequence where there is none."""
    reach = longest(boundaries) if window is None else window // 2
    return attend_in_band(qkv, boundaries, to_sight(reach, causal), dropout)


def attend_plainly(qkv_T3AD: Tensor, boundaries: Tensor, window: int | None = None, causal: bool = False) -> Tensor:
    """The definition, one sequence after another, without dropout."""
    attended = []
    for first, end in zip(boundaries[:-1].tolist(), boundaries[1:].tolist(), strict=True):
        q_LAD, k_LAD, v_LAD = qkv_T3AD[first:end].unbind(1)
        scores_ALL = torch.einsum("qad,kad->aqk", q_LAD, k_LAD) * q_LAD.shape[-1] ** -0.5
        places_L = torch.arange(end - first, device=qkv_T3AD.device)
        steps_LL = places_L - places_L[:, None]  # from the query to the key
        hidden_LL = torch.zeros_like(steps_LL, dtype=torch.bool)
        if window is not None:
            hidden_LL |= steps_LL.abs() > window // 2
        if causal:
            hidden_LL |= steps_LL > 0
        weights_ALL = scores_ALL.masked_fill(hidden_LL, float("-inf")).softmax(-1)
        attended.append(torch.einsum("aqk,kad->qad", weights_ALL, v_LAD))
    return torch.cat([qkv_T3AD.new_empty(0, *qkv_T3AD.shape[2:]), *attended])


WAYS: dict[str, Way] = {
    "attend": lambda qkv, at, dropout, *sight: attend(qkv, at, longest(at), dropout, *sight),
    "by runs": attend_by_runs,
    "padded": lambda qkv, at, dropout, *sight: attend_padded(qkv, at, longest(at), dropout, *sight),
    "in a band": in_band,
}

lengths_of_sequences = st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any)
windows = st.none() | st.integers(1, 20)


def tensors(
    lengths: Sequence[int], seed: int = 0, precision: torch.dtype = torch.float64, heads: int = 2, size: int = 4
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    qkv = torch.randn(sum(lengths), 3, heads, size, generator=generator, dtype=precision, requires_grad=True)
    return qkv, torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)


def assert_as_defined(
    way: str, lengths: Sequence[int], window: int | None, causal: bool, precision: torch.dtype, seed: int = 0
) -> None:
    """Forward and gradients."""
    qkv, boundaries = tensors(lengths, seed, precision)
    wanted = attend_plainly(qkv, boundaries, window, causal)
    made = WAYS[way](qkv, boundaries, 0.0, window, causal)
    bound = 1e-11 if precision == torch.float64 else 2e-5
    torch.testing.assert_close(made, wanted, atol=bound, rtol=bound)
    upstream = torch.randn(made.shape, generator=torch.Generator().manual_seed(seed), dtype=precision)
    gradients = [torch.autograd.grad(out, qkv, upstream)[0] for out in (made, wanted)]
    torch.testing.assert_close(*gradients, atol=bound, rtol=bound)


@pytest.mark.parametrize("way", WAYS)
@given(lengths=lengths_of_sequences, window=windows, causal=st.sampled_from(SIDES), seed=st.integers(0, 99))
@examples(40)
def test_every_way_equals_the_definition_with_any_sight(
    way: str, lengths: list[int], window: int | None, causal: bool, seed: int
) -> None:
    assert_as_defined(way, lengths, window, causal, torch.float64, seed)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("window", [10, 128])
def test_lengths_around_every_edge(way: str, window: int) -> None:
    """Fails at an edge of what a token sees, of the window, of a block or of a band; alone and in one batch."""
    block = max(MIN_BLOCK, window // 2)
    edges = (window // 2, window, block, 2 * block, MAX_DENSE_WINDOWS * window)
    lengths = [1, *sorted({edge + step for edge, step in product(edges, (-1, 0, 1, 2))})]
    for causal in SIDES:
        assert_as_defined(way, [0, *lengths, 0], window, causal, torch.float32)
    for length in lengths:
        assert_as_defined(way, [length], window, False, torch.float64)


def test_no_sequence_at_all() -> None:
    """Fails if a process without a share of a step has no gradient."""
    qkv, boundaries = tensors([0])
    made = attend(qkv, boundaries, 0, 0.0)
    made.sum().backward()
    assert made.shape == (0, 2, 4) and qkv.grad is not None and qkv.grad.shape == qkv.shape


@pytest.mark.parametrize("way", WAYS)
@given(
    lengths=lengths_of_sequences, window=windows, causal=st.sampled_from(SIDES), place=st.floats(0, 1, exclude_max=True)
)
@example(lengths=[0, 1, 32, 0, 33], window=8, causal=False, place=0.5)
@examples(40)
def test_a_token_out_of_sight_changes_nothing(
    way: str, lengths: list[int], window: int | None, causal: bool, place: float
) -> None:
    """To the bit: other sequences, tokens outside the window and on the other side; and those in sight do change."""
    qkv, boundaries = tensors(lengths)
    before = WAYS[way](qkv.detach(), boundaries, 0.0, window, causal)
    token = int(place * len(qkv))
    changed = qkv.detach().clone()
    changed[token] += 3.0 * torch.randn(changed[token].shape, generator=torch.Generator().manual_seed(1)).sign()
    after = WAYS[way](changed, boundaries, 0.0, window, causal)
    sequence = int((boundaries[1:] <= token).sum())
    first, end = boundaries[sequence : sequence + 2].tolist()
    reach = end if window is None else window // 2
    earliest = token if causal else max(first, token - reach)  # of the tokens that see it
    latest = min(end - 1, token + reach)
    moved = (before != after).flatten(1).any(1).nonzero().squeeze(1).tolist()
    assert moved == list(range(earliest, latest + 1))


class Sizes(TorchDispatchMode):
    """The most numbers that a tensor held, of all that any operation took or made."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        held = [leaf.numel() for leaf in tree_leaves((args, kwargs, made)) if isinstance(leaf, Tensor)]
        self.largest = max(self.largest, *held, 0)
        return made


def largest_tensor(lengths: Sequence[int], attended: Callable[[Tensor, Tensor], Tensor]) -> int:
    """Forward and backward, one head of 8."""
    qkv, boundaries = tensors(lengths, precision=torch.float32, heads=1, size=8)
    with Sizes() as sizes:
        attended(qkv, boundaries).sum().backward()
    return sizes.largest


@pytest.mark.parametrize("lengths", [[8192], [8192, 0, 5000, 100]], ids=["one", "many"])
@pytest.mark.parametrize("causal", SIDES)
@pytest.mark.parametrize("way", WAYS)
def test_a_window_makes_no_matrix_of_all_tokens(way: str, causal: bool, lengths: list[int]) -> None:
    """At 8,192 tokens no tensor is larger than tokens x twice the window, with dropout or without."""
    for dropout in (0.0, 0.1):
        most = largest_tensor(lengths, lambda qkv, at, p=dropout: WAYS[way](qkv, at, p, 128, causal))
        assert 8192 * 64 < most <= sum(lengths) * 2 * 128


@pytest.mark.parametrize("causal", SIDES)
@pytest.mark.parametrize("way", ["attend", "padded"])
def test_no_direction_needs_a_mask(way: str, causal: bool) -> None:
    """Without a window and without dropout, the processor's kernel keeps no matrix of scores either."""
    most = largest_tensor([1024, 900], lambda qkv, at: WAYS[way](qkv, at, 0.0, None, causal))
    assert most <= 2 * 1024 * 3 * 8
    assert largest_tensor([1024, 900], lambda qkv, at: attend_plainly(qkv, at, 128, causal)) >= 1024 * 1024


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("window", "causal"), [(4, False), (None, True), (4, True)])
def test_dropout_drops_weights_in_sight_alone(way: str, window: int | None, causal: bool) -> None:
    qkv, boundaries = tensors([3, 19, 16])
    qkv = qkv.detach().clone()
    qkv[:, 2] = 1.0  # so a sum of weighted values is the sum of the weights that were kept
    torch.manual_seed(3)
    kept = torch.stack([WAYS[way](qkv, boundaries, 0.25, window, causal) for _ in range(200)])
    torch.testing.assert_close(kept.mean(0), torch.ones_like(kept[0]), atol=0.2, rtol=0)
    assert kept.var(0).median() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("window", "causal"), [(8, False), pytest.param(None, True, marks=pytest.mark.long)])
def test_compiled_without_a_break_for_lengths_that_vary(window: int | None, causal: bool) -> None:
    """`fullgraph` fails at a break, and where batches ask for more programs than the limit of 4 here (8 as torch
    comes): one within the window, one longer, one for sequences of one length."""
    torch._dynamo.reset()
    compiled = torch.compile(attend, backend="eager", fullgraph=True, dynamic=True)
    with torch._dynamo.config.patch(recompile_limit=4):
        for lengths in ([5, 3, 4, 5], [9, 30, 0, 2], [50, 3], [16, 1, 40], [12, 12, 12], [2, 2, 5, 5, 5]):
            qkv, boundaries = tensors(lengths)
            wanted = attend_plainly(qkv, boundaries, window, causal)
            made = compiled(qkv, boundaries, max(lengths), 0.0, window, causal)
            torch.testing.assert_close(made, wanted, atol=1e-11, rtol=1e-11)
            gradients = [torch.autograd.grad(out.square().sum(), qkv)[0] for out in (made, wanted)]
            torch.testing.assert_close(*gradients, atol=1e-11, rtol=1e-11)


CARD = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))


@pytest.mark.parametrize("causal", SIDES)
@pytest.mark.parametrize("window", [None, 1, 16, 128])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", ["cpu", CARD])
def test_sight_by_device_and_precision(device: str, precision: torch.dtype, window: int | None, causal: bool) -> None:
    """On a card: `varlen_attn` in bfloat16, padded rows or the band in float32. Bounds are shares of the largest."""
    lengths = [40, 1, 300, 64, 129]
    qkv, boundaries = tensors(lengths, precision=torch.float32, size=32)
    placed = qkv.detach().to(device, precision).requires_grad_()
    rounded = placed.detach().cpu().float().requires_grad_()
    made = attend(placed, boundaries.to(device), max(lengths), 0.0, window, causal)
    wanted = attend_plainly(rounded, boundaries, window, causal)
    (gradient,) = torch.autograd.grad(made.float().square().sum(), placed)
    (exact,) = torch.autograd.grad(wanted.square().sum(), rounded)
    bound = 1e-5 if precision == torch.float32 else 2e-2
    assert made.dtype == precision
    for found, right in ((made, wanted), (gradient, exact)):
        most = right.detach().abs().max().item()
        torch.testing.assert_close(found.float().cpu(), right, atol=bound * most, rtol=bound)
