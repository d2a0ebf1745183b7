"""Checkpoints that are written while training goes on: of the state as it was, one at a time, and told when there."""

import errno
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.tensor import DTensor, distribute_tensor

from corpora.errors import InputError
from trainer.auto_settings import ComputeChoice
from trainer.checkpoints import folders
from trainer.checkpoints.folders import CheckpointFacts, Checkpoints, Cursor, Staging, count_held_bytes
from trainer.learn import TrainState
from trainer.ranks import Ranks, join_process_group

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it

CHOICE = ComputeChoice(device="cpu", precision="float32", compile=False, tf32=False)


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    """One process."""
    with join_process_group("cpu") as ranks:
        yield ranks


class Trained:
    """A model of one matrix and its optimiser, with checkpoints in a folder."""

    def __init__(self, folder: Path, ranks: Ranks) -> None:
        self.model = torch.nn.Linear(3, 2)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.state = cast(TrainState, SimpleNamespace(model=self.model, optimizer=self.optimizer))
        self.checkpoints = Checkpoints(folder, 2, ranks)
        self.folder = folder / "checkpoints"
        self.steps_done = 0

    def learn(self) -> None:
        self.model(torch.ones(1, 3)).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps_done += 1

    def saved(self) -> CheckpointFacts:
        cursor = Cursor(phase=0, step=self.steps_done, slot=0)
        return CheckpointFacts(cursor=cursor, loss_scale=(1.0, 0), ranks=1, identity={}, choice=CHOICE, progress={})

    def begin(self) -> None:
        self.checkpoints.begin(self.state, self.saved())

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*"))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Nothing is written until it is set."""
    opened, save = threading.Event(), folders.save
    monkeypatch.setattr(folders, "save", lambda *given, **named: opened.wait(60) and save(*given, **named))
    return opened


def test_what_is_written_is_the_state_as_it_was(tmp_path: Path, ranks: Ranks, gate: threading.Event) -> None:
    """Fails if a step that is done meanwhile gets into the files: a weight, a moment or the count of steps."""
    trained = Trained(tmp_path, ranks)
    trained.learn()
    weight = trained.model.weight.detach().clone()
    moment = trained.optimizer.state[trained.model.weight]["exp_avg"].clone()
    trained.begin()
    assert trained.checkpoints.take_written(wait=False) is None
    trained.learn()
    assert not any(name.startswith("step-") for name in trained.names())
    gate.set()
    written = trained.checkpoints.take_written(wait=True)
    assert written is not None and (written.name, written.step) == ("step-00000001", 1)
    assert written.wait_seconds > 0 and written.seconds > 0
    found = {"model": {"weight": torch.zeros(2, 3)}, "optimizer": {"state": {"weight": {
        "exp_avg": torch.zeros(2, 3), "step": torch.zeros(())}}}}  # fmt: skip
    load(found, storage_reader=FileSystemReader(trained.folder / "step-00000001"))
    state: Any = found["optimizer"]["state"]
    assert torch.equal(found["model"]["weight"], weight) and not torch.equal(trained.model.weight, weight)
    assert torch.equal(state["weight"]["exp_avg"], moment) and state["weight"]["step"] == 1


def test_one_is_written_at_a_time(
    tmp_path: Path, ranks: Ranks, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a second one writes over the copy of the first, is told twice, or more than are kept stay; or if
    waiting for it does not count. Each look at the clock is a second after the one before."""
    monkeypatch.setattr(folders, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    trained = Trained(tmp_path, ranks)
    trained.learn()
    trained.begin()
    with pytest.raises(AssertionError, match="one is written at a time"):
        trained.begin()
    threading.Timer(0.2, gate.set).start()
    first = trained.checkpoints.take_written(wait=True)
    assert first is not None and first.name == "step-00000001"
    assert first.wait_seconds >= 2  # to copy, and here
    assert trained.checkpoints.take_written(wait=True) is None
    for _ in range(2):
        trained.learn()
        trained.begin()
        assert trained.checkpoints.take_written(wait=True) is not None
    assert trained.names() == ["step-00000002", "step-00000003"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_room_is_told_and_leaves_nothing(
    tmp_path: Path, ranks: Ranks, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Fails if a full disk ends in a traceback, half a checkpoint keeps it full, or the whole ones go with it."""
    trained = Trained(tmp_path, ranks)
    trained.learn()
    trained.begin()
    trained.learn()

    def full(writer: Any, *given: Any) -> Any:
        raise OSError(number, "full")

    trained.checkpoints.take_written(wait=True)
    monkeypatch.setattr(folders.FileSystemWriter, "write_data", full)
    trained.begin()
    with pytest.raises(InputError, match=r"no room for the checkpoint step-00000002 .*of the 2 that are kept"):
        trained.checkpoints.take_written(wait=True)
    assert trained.names() == ["step-00000001"]


def test_another_fault_is_no_lack_of_room(tmp_path: Path, ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if what ended the thread is hidden, or told as something that the user can mend."""
    trained = Trained(tmp_path, ranks)
    trained.learn()
    monkeypatch.setattr(folders, "save", lambda *given, **named: [][0])
    trained.begin()
    with pytest.raises(IndexError):
        trained.checkpoints.take_written(wait=True)


def test_a_copy_has_memory_of_its_own(ranks: Ranks) -> None:
    """Fails if a tensor of a processor is not copied, a sharded one loses its place, or memory is taken twice."""
    staging = Staging(ranks.mesh)
    plain, sharded = torch.arange(4.0), distribute_tensor(torch.arange(6.0).view(3, 2), ranks.mesh)
    state = {"a": {"b": plain}, "c": [{"lr": 0.1, "d": sharded}], "e": "name"}
    copy = staging.copy(state)
    plain += 1
    sharded += 1
    inner = copy["c"][0]["d"]
    assert copy["a"]["b"].tolist() == [0, 1, 2, 3] and copy["c"][0]["lr"] == 0.1 and copy["e"] == "name"
    assert isinstance(inner, DTensor) and inner.placements == sharded.placements
    assert inner.shape == sharded.shape and inner.stride() == sharded.stride()
    assert inner.to_local().tolist() == [[0, 1], [2, 3], [4, 5]]
    again = staging.copy(state)
    assert again["a"]["b"].data_ptr() == copy["a"]["b"].data_ptr() and again["a"]["b"].tolist() == [1, 2, 3, 4]
    assert count_held_bytes(state) == count_held_bytes(copy) == 4 * (4 + 6)
