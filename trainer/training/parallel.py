"""Many processes as one: the process group, the sharded model, sums over all of it.

One code path for one process and for many, on processors (gloo) and on GPUs (nccl): FSDP2 shards every layer and
then the rest of the model over all processes, also over a single one. Gradients are summed, not averaged: the loss
divides by counts of the whole step.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import HashStore, PrefixStore, Store
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.rendezvous import rendezvous

from corpora.errors import InputError
from trainer.settings import TrainingSettings

Item = TypeVar("Item")

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process among all of them. host_rank: among those of this machine"""

    rank: int
    count: int
    device: torch.device
    mesh: DeviceMesh
    host_rank: int = 0

    def sum(self, numbers: Tensor) -> Tensor:
        """The numbers of all processes added up, in place."""
        dist.all_reduce(numbers)
        return numbers

    def total(self, numbers: Sequence[int]) -> list[int]:
        """Whole numbers of all processes added up."""
        summed: list[int] = self.sum(torch.tensor(numbers, dtype=torch.int64, device=self.device)).tolist()
        return summed

    def collect(self, mine: Item) -> list[Item]:
        """A small value of every process, in order of rank."""
        every = [mine] * self.count
        dist.all_gather_object(every, mine)
        return every

    def any_says(self, mine: bool) -> bool:
        """Whether any process says so. Nothing waits for a device: processors ask each other."""
        if self.count == 1:
            return mine
        return bool(self.sum(torch.tensor(int(mine))))

    def wait(self) -> None:
        """Until every process is here."""
        self.total([0])


@contextmanager
def joined() -> Iterator[Ranks]:
    """The process group of torchrun, or one of this process alone where it was started by itself.

    Where the block ends well, no process closes its connections before every one is there: gloo takes a connection
    that a peer closes for a fault of what is still sent or received over it.
    Raises InputError where there are more processes than GPUs.
    """
    host_rank = int(os.environ.get("LOCAL_RANK", 0))
    device = _own_device(host_rank)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    store, rank, count = next(rendezvous("env://")) if "RANK" in os.environ else (HashStore(), 0, 1)
    dist.init_process_group(backend, store=PrefixStore("ranks", store), rank=rank, world_size=count)
    try:
        mesh = init_device_mesh(device.type, (count,), mesh_dim_names=("shard",))
        yield Ranks(rank=rank, count=count, device=device, mesh=mesh, host_rank=host_rank)
        meet(store, count)
    finally:
        dist.destroy_process_group()


def meet(store: Store, count: int) -> None:
    """Wait until every process is here, without a connection between them: the store is the agent's."""
    if store.add("here", 1) == count:
        store.set("all here", "")
    store.wait(["all here"])


def _own_device(number: int) -> torch.device:
    """The GPU of this process, or the processor where there is none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if number >= torch.cuda.device_count():
        raise InputError(
            f"training.processes asks for more than the {torch.cuda.device_count()} GPUs of this machine: every "
            "process takes one. Lower it, or leave it out for one process a GPU."
        )
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return device


def shard_model(model: nn.Module, layers: nn.ModuleList, ranks: Ranks, settings: TrainingSettings) -> FSDPModule:
    """The same model, its parameters sharded over all processes.

    Matrices of forward and backward are in the precision of the settings, sums of gradients and the weights that the
    optimiser keeps in float32.
    """
    for number, layer in enumerate(layers):
        if settings.activation_checkpointing:
            layers[number] = checkpoint_wrapper(layer)
        if settings.compile:
            layers[number].compile()
    policy = MixedPrecisionPolicy(param_dtype=PRECISIONS[settings.precision], reduce_dtype=torch.float32)
    alone = ranks.count == 1  # then there is no memory to be saved by gathering weights twice
    for module in (*layers, model):
        fully_shard(module, mesh=ranks.mesh, mp_policy=policy, reshard_after_forward=not alone and module is not model)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return cast(FSDPModule, model)
