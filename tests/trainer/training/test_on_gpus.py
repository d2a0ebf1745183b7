"""Promises that hold on a GPU: skipped where there is none.

.venv/bin/python -m pytest tests/trainer/training/test_on_gpus.py
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_training import SmallStore, exported_bytes, of, small_job, train_here, with_training

from trainer.checkpoints.folders import read_saved

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # torch's own, of features that are new to it
]


@pytest.mark.parametrize("precision, dropout", [("float32", 0.1), ("bfloat16", 0.0), ("bfloat16", 0.1)])
def test_deterministic_is_the_same_to_the_bit(
    store: SmallStore, tmp_path: Path, precision: str, dropout: float
) -> None:
    """Fails if a sum of the step, attention's backward pass included, is added up in another order each time."""
    first = small_job(
        store, tmp_path / "first", dropout=dropout, precision=precision, compile=False, deterministic=True
    )
    second = replace(first, work=str(tmp_path / "second"))
    train_here(first)
    train_here(second)
    assert exported_bytes(first) == exported_bytes(second)


def test_the_choice_is_that_of_the_card(store: SmallStore, tmp_path: Path) -> None:
    """Fails if bfloat16 is not chosen on a card that has it, or that is not told."""
    job = small_job(store, tmp_path, dropout=0.0, precision="auto")
    [start] = of(train_here(job), "start")
    saved = read_saved(tmp_path / "checkpoints" / "step-00000006")
    assert saved.choice is not None
    if torch.cuda.get_device_capability() >= (8, 0):
        assert saved.choice.precision == "bfloat16" and saved.choice.tf32
        assert "bfloat16 with TF32, chosen" in start["computes"]


def test_checkpoints_beside_training_hold_the_same(store: SmallStore, tmp_path: Path) -> None:
    """Fails if a copy from the card is written before it is there, or after the next step has changed it."""
    waited = small_job(store, tmp_path / "waited", checkpoint_every=1, compile=False, deterministic=True)
    beside = with_training(replace(waited, work=str(tmp_path / "beside")), async_checkpoints=True)
    train_here(waited)
    train_here(beside)
    for job in (waited, beside):  # the model is written again from the checkpoint before the last
        for folder in (Path(job.work, "export"), Path(job.work, "checkpoints", "step-00000006")):
            folder.rename(folder.with_name(f"damaged-{folder.name}"))
        assert [event["step"] for event in of(train_here(job), "resume")] == [5]
    assert exported_bytes(waited) == exported_bytes(beside)
