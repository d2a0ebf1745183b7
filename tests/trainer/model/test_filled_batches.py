"""Batches filled to a shape: what fills them changes no loss, no count and no gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_batches import TARGETS, small_batch, small_inputs, small_model, small_settings
from tiers import examples
from torch import Tensor

from shards.reading.budgets import BatchShape
from trainer.model import attention
from trainer.model.batches import Batch, fill_batch
from trainer.model.masked import MaskedModel

PAD = 1
# five sequences of 54 tokens, 18 of them masked; more of everything, and exactly as much as there is
WIDE = BatchShape(num_tokens=128, num_sequences=14, num_masked=24, max_length=24)
EXACT = BatchShape(num_tokens=54, num_sequences=5, num_masked=18, max_length=20)
EMPTIES = BatchShape(num_tokens=54, num_sequences=8, num_masked=19, max_length=40)


def learnt(model: MaskedModel, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses of a batch and the gradients of their sum."""
    model.zero_grad()
    losses = model(batch)
    losses[:, 0].sum().backward()
    return losses, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("way", ["by runs", "padded"])
@pytest.mark.parametrize("shape", [WIDE, EXACT, EMPTIES])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_dummies_are_outside_losses_counts_and_gradients(
    monkeypatch: pytest.MonkeyPatch, family: str, shape: BatchShape, way: str
) -> None:
    """In float64. Fails where a dummy is seen by an example, guessed, counted, or moves a weight."""
    if way == "padded":
        monkeypatch.setattr(
            attention,
            "attend_by_runs",
            lambda qkv, at, p, *sight: attention.attend_padded(qkv, at, int(at.diff().max()), p, *sight),
        )
    model = small_model(small_settings(family=family), small_inputs(family, pair_labels=True)).double()
    batch = small_batch()
    more = fill_batch(batch, shape, PAD, TARGETS)
    assert more.shape == shape and int(more.boundaries[-1]) == shape.num_tokens
    assert len(more.targets["masked"]) == shape.num_masked and len(more.targets["pair"]) == shape.num_sequences
    assert (
        int(more.boundaries.diff().max()) <= shape.max_length and int(more.compute_positions().max()) < shape.max_length
    )
    (losses, gradients), (wanted, expected) = learnt(model, more), learnt(model, batch)
    assert len(losses) == (1 if family == "roberta" else 2)
    torch.testing.assert_close(losses, wanted, rtol=1e-6, atol=0)
    assert gradients.keys() == expected.keys() and len(gradients) > 20
    for name in expected:
        assert gradients[name].isfinite().all()
        torch.testing.assert_close(gradients[name], expected[name], rtol=1e-5, atol=1e-6, msg=name)


def test_a_batch_without_an_example_is_dummies_alone() -> None:
    """Fails if a process without a share has losses, or gradients that are not zeros."""
    model = small_model(small_settings(), small_inputs("bert", pair_labels=True))
    empty = fill_batch(
        small_batch(()), BatchShape(num_tokens=16, num_sequences=8, num_masked=8, max_length=10), PAD, TARGETS
    )
    losses, gradients = learnt(model, empty)
    assert losses.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert gradients and all(gradient.eq(0).all() for gradient in gradients.values())


@given(
    st.lists(st.integers(1, 12), max_size=6), st.integers(0, 40), st.integers(0, 4), st.integers(0, 9), st.booleans()
)
@examples(60)
def test_what_was_there_stays(lengths: list[int], tokens: int, empties: int, masked: int, pairs: bool) -> None:
    """Fails if filling moves or changes what a batch held, or a dummy is no padding."""
    batch = small_batch(lengths, pairs=pairs)
    longest = max([8, *lengths])
    num_tokens, num_masked = max(1, sum(lengths) + tokens), len(batch.points)
    sequences = len(lengths) - (sum(lengths) - num_tokens) // longest + empties
    made = fill_batch(batch, BatchShape(num_tokens, sequences, num_masked + masked, longest), PAD, TARGETS)
    endings = {"ids": PAD, "segment_ids": 0, "points": num_tokens - 1}
    pieces = [(getattr(batch, name), getattr(made, name), ending) for name, ending in endings.items()]
    pieces += [(batch.targets[name], made.targets[name], -100) for name in batch.targets]
    for old, new, ending in pieces:
        assert torch.equal(new[: len(old)], old) and new.dtype == old.dtype and new[len(old) :].eq(ending).all()
    assert torch.equal(made.boundaries[: len(lengths) + 1], batch.boundaries) and made.boundaries.dtype == torch.int32
    assert int(made.boundaries.diff().min()) >= 0 and int(made.locate_first_tokens().max()) < num_tokens
    assert len(made.targets["masked"]) == num_masked + masked and len(made.targets.get("pair", ())) in (0, sequences)
