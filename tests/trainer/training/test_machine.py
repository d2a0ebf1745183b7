"""A whole training with what is chosen for it by the machine, and with checkpoints beside it."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import SmallStore, exported_bytes, of, said, small_job, stopped_after, train_here, with_training

from trainer.auto_settings import ComputeChoice
from trainer.checkpoints import folders
from trainer.checkpoints.folders import read_saved
from trainer.job import TrainingJob
from trainer.ranks import Ranks
from trainer.settings.phases import PhaseSettings

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it

PHASES = (PhaseSettings(steps=4, batch=8),)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU can be had here")
def test_the_choice_is_told_and_kept_in_the_checkpoint(store: SmallStore, tmp_path: Path) -> None:
    """Fails if "auto" is not float32 on a processor, to the bit, or the checkpoint does not say what was chosen."""
    named = small_job(store, tmp_path / "named", PHASES)
    chosen = with_training(replace(named, work=str(tmp_path / "auto")), precision="auto")
    train_here(named)
    [start] = of(train_here(chosen), "start")
    assert start["computes"] == "processor: float32, chosen."
    assert exported_bytes(named) == exported_bytes(chosen)
    saved = read_saved(Path(chosen.work, "checkpoints", "step-00000004"))
    assert saved.choice == ComputeChoice(device="cpu", precision="float32", compile=False, tf32=False)


def train_beside(job: TrainingJob) -> list[dict[str, Any]]:
    """Train in this process, and write checkpoints meanwhile as on a GPU; what was said."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Ranks, "computes_ahead", True)
        return train_here(job)


def test_checkpoints_beside_training_change_nothing(
    store: SmallStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if one is lost or told twice, a weight differs, or a stop leaves before its checkpoint is there."""
    save = folders.save
    monkeypatch.setattr(folders, "save", lambda *given, **named: time.sleep(0.05) or save(*given, **named))
    waited = small_job(store, tmp_path / "waited", PHASES, checkpoint_every=1)
    beside = with_training(replace(waited, work=str(tmp_path / "beside")), async_checkpoints=True)
    train_here(waited)
    with stopped_after(2):
        assert [event["step"] for event in of(train_beside(beside), "checkpoint")] == [1, 2]
    events = train_beside(beside)
    assert [event["step"] for event in of(events, "resume")] == [2]
    assert [event["step"] for event in of(events, "checkpoint")] == [1, 2, 3, 4]
    assert [event["event"] for event in events][-1] == "done"
    assert exported_bytes(waited) == exported_bytes(beside)
    assert sorted(path.name for path in Path(beside.work, "checkpoints").iterdir()) == [
        "step-00000003",
        "step-00000004",
    ]


def test_checkpoints_by_the_clock(store: SmallStore, tmp_path: Path) -> None:
    """Fails if minutes are of no effect beside steps, or steps beside minutes."""
    clock = small_job(store, tmp_path / "clock", PHASES, checkpoint_every=0, checkpoint_minutes=1e-9)
    rare = small_job(store, tmp_path / "rare", PHASES, checkpoint_every=0, checkpoint_minutes=60.0)
    assert [event["step"] for event in of(train_here(clock), "checkpoint")] == [1, 2, 3, 4]
    assert [event["step"] for event in of(train_here(rare), "checkpoint")] == [4]
    assert said(clock)[-1]["event"] == "done"
