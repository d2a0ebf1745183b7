"""Some steps of every optimiser on one process or more, with a checkpoint in the middle.

main(FOLDER, RANK, RANKS)        writes FOLDER/RANKS/KIND (a checkpoint) and FOLDER/RANKS/KIND.pt
"""

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.optim import Optimizer

from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings
from trainer.training.optimizers import build_optimizer, set_learning_rate

KINDS = {
    "adamw": TrainingSettings(phase=(PhaseSettings(steps=9),)),
    "uncorrected": TrainingSettings(phase=(PhaseSettings(steps=9),), bias_correction=False),
    "lamb": TrainingSettings(phase=(PhaseSettings(steps=9),), optimizer="lamb", layer_decay=0.5),
    "stable-adamw": TrainingSettings(phase=(PhaseSettings(steps=9),), optimizer="stable-adamw", epsilon=1e-8),
}
STEPS = 6
BATCH = 12


class Net(nn.Module):
    """Layers of sizes that two processes cannot share evenly, one of them with a single row."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(5, 7), nn.Linear(7, 3)])
        self.head = nn.Linear(3, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """A number for each row."""
        hidden = inputs
        for layer in self.layers:
            hidden = layer(hidden).tanh()
        found: Tensor = self.head(hidden)
        return found


def made(kind: str) -> tuple[Net, Optimizer]:
    """The same first weights on every process, in parts."""
    torch.manual_seed(1)
    model = (
        Net().double()
    )  # in which the order of a sum, another one on each processor, changes nothing that is compared
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for module in (*model.layers, model):
        fully_shard(module, mesh=mesh).set_gradient_divide_factor(1.0)
    for module in (*model.layers, model):
        module.set_force_sum_reduction_for_comms(True)
    return model, build_optimizer(model, KINDS[kind])


def learn(model: Net, optimizer: Optimizer, steps: range) -> None:
    """Steps, each on its own numbers, of which every process has its share."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for step in steps:
        torch.manual_seed(100 + step)
        inputs = torch.randn(BATCH, 5, dtype=torch.float64) * (20 if step == 4 else 1)
        own = inputs[BATCH * rank // ranks : BATCH * (rank + 1) // ranks]
        set_learning_rate(optimizer, 0.05 / (step + 1))
        torch.autograd.backward((model(own) - own.sum(1, keepdim=True)).square().sum() / BATCH)
        optimizer.step()
        optimizer.zero_grad()


def kept(model: Net, optimizer: Optimizer) -> dict[str, Any]:
    """Return what a checkpoint has of a model and its optimizer."""
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments}


def restored(kind: str, checkpoint: Path) -> tuple[Net, Optimizer]:
    """New ones, as a checkpoint has them."""
    model, optimizer = made(kind)
    state = kept(model, optimizer)
    load(state, checkpoint_id=str(checkpoint))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return model, optimizer


def whole(model: Net) -> dict[str, Tensor]:
    """All weights, on the first process."""
    found: dict[str, Tensor] = get_model_state_dict(
        model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    return found


def main(folder: Path, rank: int, ranks: int) -> None:
    """All kinds: the weights of a run without a halt, and of one that goes on from its checkpoint."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store-{ranks}", rank=rank, world_size=ranks)
    for kind in KINDS:
        model, optimizer = made(kind)
        learn(model, optimizer, range(3))
        checkpoint = folder / str(ranks) / kind
        save(kept(model, optimizer), checkpoint_id=str(checkpoint))
        learn(model, optimizer, range(3, STEPS))
        resumed = restored(kind, checkpoint)
        learn(*resumed, range(3, STEPS))
        found = {"straight": whole(model), "resumed": whole(resumed[0])}
        if rank == 0:
            torch.save(found, checkpoint.with_suffix(".pt"))
    dist.destroy_process_group()


def as_rank(folder: Path) -> None:
    """One of several processes, which its environment numbers."""
    main(folder, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
