"""A step of several processes, seen in one: the others of its group do not exist and answer nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from trainer.learn import shard_model
from trainer.ranks import Ranks, join_process_group
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings

MICRO_BATCHES, LAYERS = 3, 2
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of features that are new to it


class Counted(TorchDispatchMode):
    """Counts collectives by their operation."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if func.namespace == "c10d":
            self.calls[name] = self.calls.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


class Stack(nn.Module):
    """Layers, and a head of the root's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(LAYERS))
        self.head = nn.Linear(8, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            rows = layer(rows)
        summed: torch.Tensor = self.head(rows).sum()
        return summed


@pytest.fixture
def one_of_two() -> Iterator[Ranks]:
    """The first of two processes."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield Ranks(rank=0, count=2, device=torch.device("cpu"), mesh=init_device_mesh("cpu", (2,)))
    dist.destroy_process_group()


@pytest.mark.parametrize("gather, groups", [("auto", 1), ("step", 1), ("layer", LAYERS + 1)])
def test_a_single_process_has_one_group(gather: str, groups: int) -> None:
    """Fails if each layer of a single process costs calls of its own, or where that is asked for and not done."""
    settings, model = TrainingSettings(phase=(PhaseSettings(steps=1),), gather=gather), Stack()
    with join_process_group("cpu") as ranks:
        shard_model(model, [*model.layers], [], ranks, settings)
    assert sum(isinstance(module, FSDPModule) for module in model.modules()) == groups


@pytest.mark.parametrize("recomputed", [False, True])
@pytest.mark.parametrize(
    "gather, gathers", [("auto", LAYERS + 1), ("step", LAYERS + 1), ("layer", MICRO_BATCHES * (2 * LAYERS + 1))]
)
def test_weights_are_gathered_once_a_step(one_of_two: Ranks, gather: str, gathers: int, recomputed: bool) -> None:
    """Fails if a second micro-batch, or a backward pass, gathers weights that are there, or gradients are summed
    with every micro-batch."""
    phase = (PhaseSettings(steps=1),)
    settings = TrainingSettings(phase=phase, gather=gather, activation_checkpointing=recomputed)
    model = Stack()
    sharded = shard_model(model, [*model.layers], [], one_of_two, settings)
    for _ in range(2):  # the second step must gather anew what the optimiser has changed
        with Counted() as counted:
            for number in range(1, MICRO_BATCHES + 1):
                sharded.begin_micro_batch(is_last=number == MICRO_BATCHES)
                torch.autograd.backward(model(torch.ones(4, 8)))
        assert counted.calls == {"_allgather_base_": gathers, "_reduce_scatter_base_": LAYERS + 1}
