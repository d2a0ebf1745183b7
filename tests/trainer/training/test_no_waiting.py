"""No step waits for the device. There is none here: what would wait for one is watched for on the processor.

Attention takes the padded way, as on a GPU; what a GPU copies from is held to have been pinned.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from small_training import SmallStore, as_rank, small_job, train_here
from torch.utils._python_dispatch import TorchDispatchMode

from corpora.errors import InputError
from trainer.feed import Feed
from trainer.learn import StepResult
from trainer.model import attention, encoder
from trainer.ranks import Ranks
from trainer.settings.phases import PhaseSettings
from trainer.step_log import StepReports
from trainer.watch import NonFinite

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
    store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, training: Any
) -> None:
    """Fails if a step reads a number, indexes by a mask or makes a tensor of numbers in main memory.

    Watched are the steps 2 and 3 of a run: the first one makes the optimiser's state. As on a GPU a line is written a
    step later, and reading numbers that have arrived is no waiting.
    """
    watch, at = Watch(), [0]
    record, flush = Ranks.record_position, StepReports.flush

    def begin_or_end(ranks: Ranks, place: str) -> None:
        if place in ("in step 2", "in step 4"):
            at[0] = place == "in step 2"
            watch.__enter__() if at[0] else watch.__exit__(None, None, None)
        record(ranks, place)

    def flush_arrived(lines: StepReports) -> None:
        found = [*watch.found]
        flush(lines)
        watch.found[:] = found

    monkeypatch.setattr(encoder, "attend", padded)
    monkeypatch.setattr(Ranks, "record_position", begin_or_end)
    monkeypatch.setattr(StepReports, "flush", flush_arrived)
    monkeypatch.setattr(Ranks, "computes_ahead", True)
    job = small_job(store, tmp_path, (PhaseSettings(steps=5, batch=8),), checkpoint_every=0, **training)
    train_here(replace(job, model=replace(job.model, family=family)))
    assert watch.found == [] and watch.seen > 200 and not at[0]


def test_the_watch_sees_what_waits() -> None:
    """Fails if the test above could not fail."""
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
    """Fails if a tensor that a step takes to a GPU would be copied from memory that has to be waited for."""
    pinned = list[torch.Tensor]()

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(tensor)
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    job = small_job(store, tmp_path, (PhaseSettings(steps=1, batch=4),), micro_batch=2)
    [step] = Feed(job, 0, as_rank(0, 1, "cuda")).iter_steps(0, 0, 0)
    batches = [micro_batch.batch for micro_batch in step.micro_batches]
    tensors = [getattr(batch, name) for batch in batches for name in ("ids", "segment_ids", "boundaries", "points")]
    tensors += [target for batch in batches for target in batch.targets.values()]
    assert {*map(id, [*tensors, step.divisors])} <= {*map(id, pinned)} and len(tensors) == 12


def test_a_step_is_counted_over_all_processes(store: SmallStore, tmp_path: Path) -> None:
    """Fails if divisors are those of one process, or numbers of steps do not go on."""
    job = small_job(store, tmp_path, (PhaseSettings(steps=2, batch=4),))
    steps = [*Feed(job, 0, as_rank(0, 1, times=2)).iter_steps(0, 0, 7)]
    assert [step.number for step in steps] == [8, 9]
    for step in steps:
        [own] = step.micro_batches
        assert step.divisors.tolist() == [2 * len(own.batch.points), 8]
        assert np.array_equal(step.counts, 2 * own.counts)


def test_what_is_not_finite_first_is_kept() -> None:
    """Fails if a later step takes the place of the first, a finite one is kept, or the micro-batch is lost."""
    sound, ranks = torch.ones(2, 2), as_rank(0, 1)

    def see(watcher: NonFinite, number: int, sums: list[torch.Tensor], norm: float, scales: bool = False) -> bool:
        step = cast(Any, SimpleNamespace(number=number))
        result = StepResult(step=step, phase=0, rate=0.1, sums=sums, norm=torch.tensor(norm), loss_scale=None)
        watcher.on_step(result, cast(Any, SimpleNamespace(scales_loss=scales)))
        return bool(result.extra["nonfinite"])

    sick = NonFinite(ranks, lambda step, micro_batch: InputError(f"{step} {micro_batch}"))
    assert not see(sick, 2, [sound * torch.nan], torch.inf, scales=True)  # float16 leaves such a step out
    assert not see(sick, 3, [sound, sound], 1.0)
    assert see(sick, 4, [sound, sound, sound * torch.nan], torch.inf)
    assert see(sick, 5, [sound, sound * torch.nan], 1.0) and see(sick, 6, [sound], 1.0)
    assert (int(sick.step), int(sick.micro_batch)) == (4, 2)
    of_gradient = NonFinite(ranks, lambda step, micro_batch: InputError(""))
    assert see(of_gradient, 6, [sound], torch.nan)
    assert (int(of_gradient.step), int(of_gradient.micro_batch)) == (6, -1)
