"""No step waits for the device. There is none here: what would wait for one is watched for on the processor.

Attention takes the padded way, as on a GPU; what a GPU copies from is held to have been pinned.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_training import SmallStore, as_rank, small_job
from torch.utils._python_dispatch import TorchDispatchMode

from trainer.model import attention, encoder
from trainer.settings.phases import PhaseSettings
from trainer.training.feed import Feed
from trainer.training.initial_weights import first_model
from trainer.training.learner import Learner, NonFinite
from trainer.training.parallel import Ranks, joined
from trainer.training.reports import on_their_way

aten = torch.ops.aten
WAITING = (
    aten._local_scalar_dense,  # item(), bool(), int(), float()
    aten.nonzero,
    aten.masked_select,
    aten._unique2,
    aten.unique_dim,
    aten.equal,
    aten.lift_fresh,  # torch.tensor() of numbers: a copy from memory that is not pinned
)


class Watch(TorchDispatchMode):
    """Records calls that would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        packet = func.overloadpacket
        by_mask = packet in (aten.index, aten.index_put, aten.index_put_) and any(
            place is not None and place.dtype in (torch.bool, torch.uint8) for place in args[1]
        )
        sizes = packet is aten.repeat_interleave and (kwargs or {}).get("output_size") is None
        if packet in WAITING or by_mask or sizes:
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    """This process alone."""
    with joined() as ranks:
        yield ranks


def padded(qkv: Any, boundaries: Any, longest: int, *rest: Any) -> Any:
    """As on a GPU."""
    return attention.attend_padded(qkv, boundaries, longest, *rest)


@pytest.mark.parametrize(
    ("family", "training"),
    [
        ("bert", {}),
        ("bert", {"micro_batch": 2}),
        ("roberta", {"micro_batch_tokens": 64, "precision": "bfloat16"}),
        ("roberta", {"optimizer": "lamb"}),
        ("albert", {}),
        ("modernbert", {}),
    ],
)
@pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it
def test_no_step_asks_the_device_for_a_value(
    store: SmallStore, tmp_path: Path, ranks: Ranks, monkeypatch: pytest.MonkeyPatch, family: str, training: Any
) -> None:
    """Fails where a step reads a number, indexes by a mask or makes a tensor of numbers in main memory."""
    monkeypatch.setattr(encoder, "attend", padded)
    job = small_job(store, tmp_path, dropout=0.1, **training)
    job = replace(job, model=replace(job.model, family=family))
    learner = Learner.of(first_model(job), job.training, ranks)
    first, second, *_ = Feed(job, 0, ranks, learner.flops).steps(0, 0, 0)
    learner.learn(first, 1e-4)  # makes the optimiser's state
    with Watch() as watch:
        outcome = learner.learn(second, 1e-4)
        on_their_way(outcome, learner.nonfinite, ranks)
    assert watch.found == [] and watch.seen > 100


def test_the_watch_sees_what_waits() -> None:
    """Fails where the test above could not fail."""
    numbers, longer = torch.arange(4), torch.tensor([1, 2, 0, 1])
    waiting = (
        lambda: numbers.sum().item(),
        lambda: bool(numbers.any()),
        lambda: numbers.nonzero(),
        lambda: numbers[numbers > 1],
        lambda: torch.tensor([1]),
        lambda: numbers.repeat_interleave(longer),
    )
    for each in waiting:
        with Watch() as watch:
            each()
        assert len(watch.found) >= 1


def test_what_a_gpu_copies_from_is_pinned(store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a tensor that a step takes to a GPU would be copied from memory that has to be waited for."""
    pinned = list[torch.Tensor]()

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(tensor)
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    job = small_job(store, tmp_path, (PhaseSettings(steps=1, batch=4),), micro_batch=2)
    [step] = Feed(job, 0, as_rank(0, 1, "cuda")).steps(0, 0, 0)
    batches = [micro_batch.batch for micro_batch in step.micro_batches]
    tensors = [getattr(batch, name) for batch in batches for name in ("ids", "segment_ids", "boundaries", "points")]
    tensors += [target for batch in batches for target in batch.targets.values()]
    assert {*map(id, [*tensors, step.divisors])} <= {*map(id, pinned)} and len(tensors) == 12


def test_a_step_is_counted_over_all_processes(store: SmallStore, tmp_path: Path) -> None:
    """Fails where divisors or FLOPs are those of one process, or numbers of steps do not go on."""
    job = small_job(store, tmp_path, (PhaseSettings(steps=2, batch=4),))
    feed = Feed(job, 0, as_rank(0, 1, times=2), lambda lengths, places: int(lengths.sum()) + places)
    steps = [*feed.steps(0, 0, 7)]
    assert [step.number for step in steps] == [8, 9]
    for step in steps:
        [own] = step.micro_batches
        masked = len(own.batch.points)
        assert step.divisors.tolist() == [2 * masked, 8]
        assert step.flops == 2 * (len(own.batch.ids) + masked) and np.array_equal(step.counts, 2 * own.counts)


def test_what_is_not_finite_first_is_kept() -> None:
    """Fails where a later step takes the place of the first, a finite one is kept, or the micro-batch is lost."""
    sick, sound = NonFinite(torch.device("cpu")), torch.ones(2, 2)
    sick.look_at_loss(sound, 3, 0)
    sick.look_at_gradient(torch.tensor(1.0), 3)
    assert sick.place.tolist() == [-1, -1] and not sick.noted
    sick.look_at_loss(sound * torch.nan, 4, 2)
    sick.look_at_gradient(torch.tensor(torch.inf), 4)
    sick.look_at_loss(sound * torch.nan, 5, 1)
    assert sick.place.tolist() == [4, 2] and sick.noted
    of_gradient = NonFinite(torch.device("cpu"))
    of_gradient.look_at_gradient(torch.tensor(torch.nan), 6)
    assert of_gradient.place.tolist() == [6, -1]
