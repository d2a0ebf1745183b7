"""The loop: one process and many alike, a step cut as one likes, phases, precisions, and what it says."""

import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_training import (
    PHASES,
    SmallStore,
    as_rank,
    exported,
    exported_bytes,
    of,
    put_store,
    read_by,
    said,
    small_job,
    train_here,
    train_on_ranks,
    with_training,
)
from torch import Tensor
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from corpora.errors import InputError
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from trainer import feed, learn
from trainer.feed import Feed, find_commonest
from trainer.job import TrainingJob
from trainer.learn import FIRST_SCALE, GROWTH_STEPS, LossScale
from trainer.model.masked import MaskedModel
from trainer.ranks import Ranks
from trainer.settings.phases import PhaseSettings

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it

ROUNDING = 1e-4  # of losses of about 5 and of norms: float32 holds 7 digits, a sum in other pieces some 5 of them


@pytest.fixture(scope="module")
def exact(store: SmallStore, tmp_path_factory: pytest.TempPathFactory) -> TrainingJob:
    """A run of six steps in float32, without dropout, that others are compared with."""
    job = small_job(store, tmp_path_factory.mktemp("exact") / "work", dropout=0.0)
    train_here(job)
    return job


def close(one: dict[str, Tensor], other: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    """Every weight alike up to a tolerance."""
    assert one.keys() == other.keys() and len(one) > 20
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=tolerance, msg=name)


def losses(events: list[dict[str, Any]]) -> list[float]:
    return [event["loss"] for event in of(events, "step")]


def test_a_model_learns_and_says_so(store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the loss does not fall, or a line lacks what the curves are drawn from."""
    monkeypatch.setattr(feed, "find_commonest", partial(find_commonest, number=10))  # there are few words in all
    job = small_job(
        store, tmp_path, (PhaseSettings(steps=30, batch=16),), learning_rate=1e-2, evaluate_every=15,
        checkpoint_every=0, warmup_steps=5,
    )  # fmt: skip
    events = train_here(job)
    assert [event["event"] for event in events if event["event"] != "step"] == [
        "start", "evaluation", "evaluation", "checkpoint", "done",
    ]  # fmt: skip
    steps, evaluations = of(events, "step"), of(events, "evaluation")
    assert [event["step"] for event in steps] == list(range(1, 31))
    assert steps[0]["masked_loss"] > 4.5 and np.mean([e["masked_loss"] for e in steps[-5:]]) < 3.4
    assert all(event["masked_loss"] < steps[0]["masked_loss"] - 1 for event in evaluations)
    for event in (*steps, *evaluations):
        assert event["loss"] == event["masked_loss"] + event["pair_loss"]
        assert 0 <= event["masked_accuracy"] <= 1 and 0 <= event["pair_accuracy"] <= 1
    for event in evaluations:
        assert 0 < event["rare_words"] < event["masked_tokens"] and 0 <= event["rare_word_accuracy"] <= 1
    assert all(event["gradient_norm"] > 0 and event["sequences"] == 16 for event in steps)
    done = events[-1]
    for count in ("masked_tokens", "tokens", "sequences", "deleted"):
        assert done[count] == sum(event[count] for event in steps)
    assert done["slots"] == done["sequences"] == 480


def test_every_phase_ends_with_an_evaluation(store: SmallStore, tmp_path: Path) -> None:
    """Fails if what a phase came to on its own held-out split is not told before the next one begins."""
    phases = (PhaseSettings(steps=3, batch=8), PhaseSettings(steps=2, batch=8))
    events = train_here(small_job(store, tmp_path, phases, log_every=100, checkpoint_every=0))
    for kind in ("step", "evaluation", "checkpoint"):
        assert [event["step"] for event in of(events, kind)] == [3, 5]
    assert [event["phase"] for event in of(events, "evaluation")] == [0, 1]


def test_an_evaluation_is_of_the_whole_held_out_split(store: SmallStore, tmp_path: Path) -> None:
    """Fails if examples are left out or masks differ from those of epoch 0, and where guessing is counted wrong."""
    [event] = of(train_here(small_job(store, tmp_path, micro_batch=5)), "evaluation")
    loader = Loader(ShardSet(store.place, store.shards, "held-out"), 42)
    found = loader.gather(range(len(loader)))
    assert event["sequences"] == len(loader) > 30 and event["masked_tokens"] == len(found.targets)
    shares = np.unique(found.targets, return_counts=True)[1] / len(found.targets)
    assert event["unigram_entropy"] == pytest.approx(-(shares * np.log(shares)).sum(), abs=1e-9)
    assert event["unigram_entropy"] < event["unigram_loss"] < event["unigram_entropy"] + 0.5
    some = of(train_here(small_job(store, tmp_path / "b", evaluate_examples=7)), "evaluation")
    assert [e["sequences"] for e in some] == [7]


def test_micro_batches_are_one_batch(store: SmallStore, tmp_path: Path, exact: TrainingJob) -> None:
    """Fails if a step's loss or gradient depends on how it is cut: sizes that divide it or not, and tokens."""
    expected = said(exact)
    for bound, size in (("micro_batch", 3), ("micro_batch", 4), ("micro_batch_tokens", 50)):
        cut = small_job(store, tmp_path / str(size), dropout=0.0, **{bound: size})
        found = train_here(cut)
        assert losses(found) == pytest.approx(losses(expected), abs=ROUNDING) and len(losses(found)) == 6
        norms = [[event["gradient_norm"] for event in of(events, "step")] for events in (found, expected)]
        assert norms[0] == pytest.approx(norms[1], abs=ROUNDING)
        close(exported(cut), exported(exact))


@pytest.mark.slow
def test_two_processes_are_one(store: SmallStore, tmp_path: Path) -> None:
    """Fails if sharding changes losses, norms, counts or weights; in the last phase one rank has no example."""
    phases = (PhaseSettings(steps=4, batch=7), PhaseSettings(steps=2, batch=1))
    one = small_job(store, tmp_path / "one", phases, dropout=0.0, checkpoint_every=0, evaluate_every=3)
    two = replace(with_training(one, processes=2), work=str(tmp_path / "two"))
    mine, theirs = train_here(one), train_on_ranks(two)
    assert [event["processes"] for events in (mine, theirs) for event in of(events, "start")] == [1, 2]
    for kind, number in (("step", 6), ("evaluation", 3)):
        pairs = list(zip(of(mine, kind), of(theirs, kind), strict=True))
        assert len(pairs) == number
        for expected, found in pairs:
            assert found == pytest.approx(expected, abs=ROUNDING) and found["tokens"] == expected["tokens"]
    assert [event["sequences"] for event in of(theirs, "step")] == [7, 7, 7, 7, 1, 1]
    close(exported(one), exported(two))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_processes_share_the_examples_and_masks_of_one(store: SmallStore, tmp_path: Path, count: int) -> None:
    """Fails if an example or mask depends on the number of processes, or they differ in their number of pieces."""
    job = small_job(store, tmp_path, (PhaseSettings(steps=3, batch=4),), micro_batch=2)
    alone = read_by(Feed(job, 0, as_rank(0, 1)))
    shared = [read_by(Feed(job, 0, as_rank(rank, count))) for rank in range(count)]
    for step, pieces in enumerate(alone):
        parts = [piece for rank in shared for piece in rank[step]]
        for read in (lambda batch: batch.ids, lambda batch: batch.targets["masked"], lambda b: b.targets["pair"]):
            mine, theirs = (torch.cat([read(p.batch) for p in of_one]) for of_one in (pieces, parts))
            assert torch.equal(mine, theirs) and len(mine)
        assert len({len(rank[step]) for rank in shared}) == 1
        assert np.array_equal(sum(p.counts for p in pieces), sum(p.counts for p in parts))
    if count == 5:
        assert any(not piece.batch.num_sequences for rank in shared for piece in rank[0])


def test_deleted_examples_are_counted(tmp_path: Path) -> None:
    """Fails if a deleted example is read or its slot forgotten, in training and in evaluation."""
    store = put_store(tmp_path, gone=range(1, 30, 2))
    events = train_here(small_job(store, tmp_path / "work", (PhaseSettings(steps=6, batch=4),), micro_batch=1))
    done = events[-1]
    assert done["deleted"] > 5 and done["sequences"] > 5 and done["deleted"] + done["sequences"] == 24
    assert all(math.isfinite(event["loss"]) for event in of(events, "step"))


def test_phases_on_the_same_shards_read_on(store: SmallStore, tmp_path: Path) -> None:
    """Fails if a second phase repeats the first one's examples: two phases are one of as many steps."""
    whole = small_job(store, tmp_path / "one", (PhaseSettings(steps=6, batch=8),))
    cut = small_job(store, tmp_path / "two", (PhaseSettings(steps=2, batch=8), PhaseSettings(steps=4, batch=8)))
    first, second = train_here(whole), train_here(cut)
    assert [event["phase"] for event in of(second, "step")] == [0, 0, 1, 1, 1, 1]
    assert losses(first) == losses(second)
    assert exported_bytes(whole) == exported_bytes(cut)


def test_the_loss_scale_falls_at_overflows_and_rises_after_good_steps() -> None:
    """Fails if float16 training could stall: no way down, or none up."""
    scale = LossScale(FIRST_SCALE)
    scale.update(finite=False)
    assert scale == LossScale(FIRST_SCALE / 2, 0)
    for _ in range(GROWTH_STEPS):
        scale.update(finite=True)
    assert scale == LossScale(FIRST_SCALE, GROWTH_STEPS)
    with pytest.raises(InputError, match="overflows however the loss is scaled"):
        for _ in range(100):
            scale.update(finite=False)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_lower_precisions(store: SmallStore, tmp_path: Path, exact: TrainingJob, precision: str) -> None:
    """Fails if a precision does not train, strays far from float32, or writes weights of another type."""
    job = small_job(store, tmp_path / precision, dropout=0.0, precision=precision)
    events = train_here(job)
    wanted = losses(said(exact))
    assert losses(events) == pytest.approx(wanted, abs=0.05) and losses(events) != wanted
    assert {tensor.dtype for tensor in exported(job).values()} == {torch.float32}
    assert ("loss_scale" in of(events, "step")[0]) == (precision == "float16")


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_recomputed_layers_change_nothing(
    store: SmallStore, tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if activation checkpointing draws other dropout, its wrapper's name gets into the export, or layers that
    share their weights are left out.
    """
    wrapped_parts = list[torch.nn.Module]()

    def wrapping(part: torch.nn.Module) -> torch.nn.Module:
        wrapped_parts.append(part)
        return checkpoint_wrapper(part)

    monkeypatch.setattr(learn, "checkpoint_wrapper", wrapping)
    small = small_job(store, tmp_path / "plain")
    plain = replace(small, model=replace(small.model, family=family, activation=""))
    wrapped = replace(
        plain, training=replace(plain.training, activation_checkpointing=True), work=str(tmp_path / "wrapped")
    )
    assert losses(train_here(plain)) == losses(train_here(wrapped))
    assert exported_bytes(plain) == exported_bytes(wrapped)
    assert len(wrapped_parts) == (1 if family == "albert" else 2)


def test_a_gradient_that_is_not_finite_stops_the_run(
    store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a diverged run goes on, or writes a checkpoint of it."""
    job = small_job(store, tmp_path, checkpoint_every=1)
    sums = MaskedModel.sum_losses
    monkeypatch.setattr(MaskedModel, "sum_losses", lambda model, batch: sums(model, batch) * math.nan)
    stopped = r"no longer finite at step 1 .*lower\s+training.learning_rate.* Its loss was of the examples (\d+),.*"
    trace = rf"{stopped}: cloze trace '?{re.escape(store.place.address)}"
    with pytest.raises(InputError, match=rf"{trace}/shards/\S+ \d+$") as error:
        train_here(job)
    named = re.search(r"examples ([\d, ]+) of", str(error.value))
    assert named is not None and len(set(named[1].split(", "))) == PHASES[0].batch
    assert not list(tmp_path.glob("checkpoints/step-*"))
    assert [event["event"] for event in said(job)] == ["start"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_no_step_waits_for_the_device(store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a step asks the device for a value, or copies to it from memory that has to be waited for."""
    modes, record = list[str](), Ranks.record_position

    def watch(ranks: Ranks, place: str) -> None:
        modes.append("error" if place == "in step 3" else "default")  # no line was written since the first steps
        torch.cuda.set_sync_debug_mode(modes[-1])
        record(ranks, place)

    monkeypatch.setattr(Ranks, "record_position", watch)
    phases = (PhaseSettings(steps=4, batch=8),)
    train_here(
        small_job(store, tmp_path, phases, dropout=0.0, precision="bfloat16", log_every=100, health_checks=False)
    )
    assert "error" in modes


def test_lines_that_wait_for_their_numbers_are_the_same(
    store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a line that is said a step later tells of another step, comes after what follows it, or is lost."""
    phases = (PhaseSettings(steps=3, batch=4), PhaseSettings(steps=4, batch=3))
    at_once, later = (
        small_job(store, tmp_path / name, phases, checkpoint_every=3, evaluate_every=2) for name in ("once", "later")
    )
    events = train_here(at_once)
    monkeypatch.setattr(Ranks, "computes_ahead", True)
    assert train_here(later) == events and [event["step"] for event in of(events, "step")] == [*range(1, 8)]


def test_gradients_are_clipped(store: SmallStore, tmp_path: Path) -> None:
    """Fails if the bound has no effect, or changes gradients below it."""
    free, wide, tight = (
        small_job(store, tmp_path / str(bound), clip_norm=bound, dropout=0.0) for bound in (0.0, 1e6, 1e-3)
    )
    for job in (free, wide, tight):
        train_here(job)
    assert exported_bytes(free) == exported_bytes(wide) != exported_bytes(tight)


@pytest.mark.parametrize("family, input", [("bert", "full-sentences"), ("roberta", "segment-pair")])
def test_models_without_pairs(tmp_path: Path, family: str, input: str) -> None:
    """Fails if shards without pair labels cannot be trained on, or a family without a pair head on any."""
    job = small_job(put_store(tmp_path, input=input), tmp_path / "work")
    events = train_here(replace(job, model=replace(job.model, family=family)))
    assert "pair_loss" not in of(events, "step")[0] and "pair_loss" not in of(events, "evaluation")[0]
    assert events[-1]["masked_tokens"] > 50
