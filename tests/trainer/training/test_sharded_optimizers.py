"""Every optimiser on two processes is that of one, and goes on from a checkpoint as if nothing had happened."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_training import (
    SmallStore,
    exported,
    exported_bytes,
    of,
    small_job,
    train_here,
    train_on_ranks,
    with_training,
)
from tiers import mostly_long
from torch.testing import assert_close

from trainer.job import TrainingJob

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it

OPTIMIZERS = {
    "uncorrected": {"bias_correction": False},
    "lamb": {"optimizer": "lamb", "layer_decay": 0.5},
    "stable-adamw": {"optimizer": "stable-adamw"},
}


def from_the_middle(job: TrainingJob, work: Path) -> TrainingJob:
    """The same run on one process, from its checkpoint before the last."""
    again = with_training(replace(job, work=str(shutil.copytree(job.work, work))), processes=1)
    shutil.rmtree(again.export)
    shutil.rmtree(work / "checkpoints" / "step-00000006")
    assert [event["step"] for event in of(train_here(again), "resume")] == [4]
    return again


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_long(OPTIMIZERS, 1))
def test_two_processes_are_one_and_a_checkpoint_is_of_all_moments(store: SmallStore, tmp_path: Path, kind: str) -> None:
    """Fails if a norm or a mean is of what one process holds, or a moment or the number of steps is not kept.

    Epsilon is large: else a first step turns the rounding of small gradients into whole steps.
    """
    settings: dict[str, Any] = {"epsilon": 0.01, **OPTIMIZERS[kind]}
    one = small_job(store, tmp_path / "one", dropout=0.0, **settings)
    two = with_training(replace(one, work=str(tmp_path / "two")), processes=2)
    train_here(one)
    train_on_ranks(two)
    assert exported_bytes(from_the_middle(one, tmp_path / "again")) == exported_bytes(one)
    for other in (exported(two), exported(from_the_middle(two, tmp_path / "alone"))):
        for name, tensor in exported(one).items():
            assert_close(other[name], tensor, rtol=1e-4, atol=1e-5, msg=name)
