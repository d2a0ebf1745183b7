"""Feeds with a token budget: examples and gradient are those without, in few shapes, on any number of processes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_training import SmallStore, as_rank, put_store, read_by, small_job
from torch import Tensor

from corpora.errors import InputError
from trainer.feed import Feed
from trainer.job import TrainingJob
from trainer.learn import STEP_COUNTS, MicroBatch
from trainer.model.batches import Batch
from trainer.model.objective import build_model
from trainer.objectives.contract import IGNORED
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings

PHASES = (PhaseSettings(steps=3, batch=20),)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SmallStore:
    """Shards with pairs, in which every fifth document is deleted."""
    return put_store(tmp_path_factory.mktemp("budgets"), gone=range(1, 40, 5))


def steps_of(job: TrainingJob, ranks: int) -> list[list[list[MicroBatch]]]:
    """Return what every process reads, step by step."""
    feeds = [Feed(job, 0, as_rank(rank, ranks)) for rank in range(ranks)]
    return [list(step) for step in zip(*map(read_by, feeds), strict=True)]


def examples_of(batch: Batch) -> list[tuple[Any, ...]]:
    """Each example of a batch as the model sees it: ids, segments, masks and targets, label."""
    found = []
    ends = batch.boundaries.tolist()
    labels = batch.targets["pair"].tolist() if "pair" in batch.targets else [0] * batch.num_sequences
    for first, end, label in zip(ends[:-1], ends[1:], labels, strict=True):
        if label != IGNORED:
            points, targets = batch.points, batch.targets["masked"]
            own = (points >= first) & (points < end) & (targets != IGNORED)
            masks = tuple((points[own] - first).tolist()), tuple(targets[own].tolist())
            found.append(
                (tuple(batch.ids[first:end].tolist()), tuple(batch.segment_ids[first:end].tolist()), masks, label)
            )
    return found


def gradient_of(job: TrainingJob, step: list[list[MicroBatch]]) -> tuple[float, Tensor]:
    """The loss of a step, divided as `Learner` does it, and its gradient: sums over all processes and micro-batches."""
    torch.manual_seed(1)
    model = build_model(job.model, job.inputs).double()
    model.init_weights()
    micro_batches = [micro_batch for own in step for micro_batch in own]
    masked, pairs = sum(micro_batch.counts for micro_batch in micro_batches)[-2:]
    loss = torch.zeros((), dtype=torch.float64)
    for micro_batch in micro_batches:
        losses = model(micro_batch.batch)
        part = losses[0, 0].double() / masked + losses[1, 0].double() / pairs
        part.backward()
        loss += part.detach()
    return float(loss), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("budget", [32, 100, 100_000])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_budget_changes_no_step(store: SmallStore, tmp_path: Path, ranks: int, budget: int) -> None:
    """Fails if examples, masks, counts, loss or gradient of a step are others than without a budget."""
    whole = small_job(store, tmp_path, PHASES, dropout=0.0)
    cut = small_job(store, tmp_path, PHASES, dropout=0.0, micro_batch_tokens=budget)
    for expected, found in zip(steps_of(whole, 1), steps_of(cut, ranks), strict=True):
        [[one]] = expected
        pieces = [piece for own in found for piece in own]
        assert len({len(own) for own in found}) == 1
        assert sorted(e for piece in pieces for e in examples_of(piece.batch)) == sorted(examples_of(one.batch))
        counts = sum(piece.counts for piece in pieces)
        dummies = STEP_COUNTS.index("dummy_tokens")
        others = np.arange(len(counts)) != dummies
        assert counts[others].tolist() == one.counts[others].tolist() and counts[STEP_COUNTS.index("deleted")] > 0
        assert counts[dummies] == sum(len(piece.batch.ids) for piece in pieces) - len(one.batch.ids)
        assert all(len(piece.batch.ids) <= budget for piece in pieces)
        (loss, gradient), (wanted, exact) = gradient_of(cut, found), gradient_of(whole, expected)
        assert loss == pytest.approx(wanted, rel=1e-6)
        torch.testing.assert_close(gradient, exact, rtol=1e-4, atol=1e-7)


def test_micro_batches_of_one_number_have_one_size(store: SmallStore, tmp_path: Path) -> None:
    """Fails if processes of one moment have unlike numbers of tokens, or shapes are many."""
    job = small_job(store, tmp_path, (PhaseSettings(steps=12, batch=20),), micro_batch_tokens=64)
    steps = steps_of(job, 3)
    for step in steps:
        for pieces in zip(*step, strict=True):
            assert len({len(piece.batch.ids) for piece in pieces}) == 1
    batches = [piece.batch for step in steps for own in step for piece in own]
    shapes = {batch.shape for batch in batches}
    assert len(shapes) <= 16 < len(batches) and {shape.max_length for shape in shapes} == {32}


def test_a_budget_larger_than_a_step_is_the_steps(store: SmallStore, tmp_path: Path) -> None:
    """Fails if a generous budget is filled with nothing: a share has at most 20 examples of 32 tokens."""
    generous, fitting = (
        steps_of(small_job(store, tmp_path, PHASES, micro_batch_tokens=budget), 1) for budget in (1 << 40, 20 * 32)
    )
    for one, other in zip(generous, fitting, strict=True):
        assert [len(piece.batch.ids) for piece in one[0]] == [len(piece.batch.ids) for piece in other[0]]
        assert len(one[0]) == 1 and len(one[0][0].batch.ids) <= 640


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_evaluation_is_the_same_under_a_budget(store: SmallStore, tmp_path: Path, ranks: int) -> None:
    """Fails if held-out examples are left out or read twice, or processes differ in their number of pieces."""
    [alone] = [list(Feed(small_job(store, tmp_path), 0, as_rank(0, 1)).iter_held_out(0))]
    job = small_job(store, tmp_path, micro_batch_tokens=48)
    shares = [list(Feed(job, 0, as_rank(rank, ranks)).iter_held_out(0)) for rank in range(ranks)]
    assert len({len(own) for own in shares}) == 1
    found = [example for own in shares for piece in own for example in examples_of(piece.batch)]
    assert sorted(found) == sorted(e for piece in alone for e in examples_of(piece.batch)) and len(found) > 20
    targets = np.concatenate([piece.guessed for own in shares for piece in own])
    assert sorted(targets.tolist()) == sorted(t for piece in alone for t in piece.guessed.tolist())
    tiny = Feed(small_job(store, tmp_path, (PhaseSettings(steps=1, batch=1),), micro_batch_tokens=48), 0, as_rank(0, 1))
    assert len(list(tiny.iter_held_out(0))) < len(found), "steps of one example make a pass of each"


def test_bad_budgets(store: SmallStore, tmp_path: Path) -> None:
    """Fails if a budget of nothing, one with `micro_batch`, or one below an example is found out while training."""
    with pytest.raises(InputError, match=r"training.micro_batch_tokens = 0 is out of range"):
        TrainingSettings(phase=PHASES, micro_batch_tokens=0)
    with pytest.raises(InputError, match=r"micro_batch = 8 and training.micro_batch_tokens = 512 both bound"):
        TrainingSettings(phase=PHASES, micro_batch=8, micro_batch_tokens=512)
    with pytest.raises(InputError, match=r"shards/small/.* up to 32 tokens, .* raise it to at least 32"):
        Feed(small_job(store, tmp_path, micro_batch_tokens=31), 0, as_rank(0, 1))
