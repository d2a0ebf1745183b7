"""What a step takes, what it comes to, and what it changes: a sharded model with its optimizer.

FSDP2 shards every layer, and then the rest of the model, over all processes. A single process has all of it in one
group, unless it gathers by layers. Gradients are summed, not averaged: the loss divides by counts of the whole step.

Weights are gathered once a step if there is memory for it (`should_gather_once`), however many micro-batches a step
has: what is gathered for the first forward pass stays until the last backward pass has used it. Otherwise each layer is
gathered for every forward and every backward pass.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.tensor import DTensor

from corpora.errors import InputError
from corpora.kernels.arrays import Bools, Int64s
from trainer.compute import PRECISIONS, compile_parts
from trainer.model.batches import Batch
from trainer.model.masked import MaskedHead
from trainer.model.objective import Objective, count_parameters
from trainer.optimizers import build_optimizer
from trainer.ranks import Ranks
from trainer.settings.training import TrainingSettings

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

STEP_COUNTS = ("masked_tokens", "pairs", "tokens", "sequences", "deleted", "slots", "dummy_tokens")
FIRST_SCALE = 2.0**16
GROWTH_STEPS = 2_000  # good steps after which the scale is doubled, as in Micikevicius et al. 2018, section 3.2
GATHERED_SHARE = 0.25  # of a device's memory, that gathered weights may take by default


# What a step takes.


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Examples that a process holds at once.

    guessed: the tokens that are to be guessed, in main memory
    rarer:   bool [M], which of them are words apart from the commonest; None if nobody asks
    counts:  int64 [STEP_COUNTS + terms]; the sums of the terms are divided by the last ones
    tallies: of each component
    """

    batch: Batch
    guessed: npt.NDArray[Any]
    counts: Int64s
    tallies: Int64s
    rarer: Bools | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The part of a step that this process reads, with totals of the whole step.

    number:   of the run, from 1
    counts:   as of a micro-batch, over all processes
    divisors: int64 [terms], by which the sums of the terms are divided; on the processor
    """

    number: int
    micro_batches: Sequence[MicroBatch]
    counts: Int64s
    divisors: Tensor


def make_step(number: int, micro_batches: Sequence[MicroBatch], ranks: Ranks) -> Step:
    """Return a step of micro-batches. All processes call it, each in the same order of steps and on one thread."""
    counts = ranks.count_up(np.sum([micro_batch.counts for micro_batch in micro_batches], axis=0))
    divisors = torch.from_numpy(counts[len(STEP_COUNTS) :]).clamp(min=1)
    return Step(
        number=number,
        micro_batches=micro_batches,
        counts=counts,
        divisors=divisors.pin_memory() if ranks.device.type == "cuda" else divisors,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step came to, on the device. Nobody has waited for it yet.

    phase:      number of the phase that the step is of
    sums:       float32 [terms, 2] of each micro-batch of this process: for each term the sum of its losses, and how
                many answers are right
    norm:       float32 [], of the whole gradient before it was clipped
    loss_scale: the factor on the loss after the step; None unless the precision is float16
    extra:      numbers that watchers add, by name; they are added up over the processes together with the sums
    """

    step: Step
    phase: int
    rate: float
    sums: Sequence[Tensor]
    norm: Tensor
    loss_scale: float | None
    extra: dict[str, Tensor] = field(default_factory=dict)


# What a step changes.


@dataclass(slots=True)
class LossScale:
    """The factor on the loss that keeps float16 gradients above the smallest number; 1 in other precisions.

    A step whose gradient overflowed is left out and halves the factor; it is seen in the norm over all processes, so
    all of them leave out the same steps.
    """

    factor: float = 1.0
    good_steps: int = 0

    def unscale(self, parameters: Sequence[nn.Parameter]) -> None:
        """Make the gradients what they would be if the loss had not been scaled."""
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.div_(self.factor)

    def update(self, finite: bool) -> None:
        """Adapt the factor after a step. Raises InputError if no factor is small enough."""
        self.good_steps = self.good_steps + 1 if finite else 0
        if not finite:
            self.factor /= 2
        elif self.good_steps % GROWTH_STEPS == 0:
            self.factor *= 2
        if self.factor < 2.0**-14:
            raise InputError(
                'With training.precision = "float16" the gradient overflows however the loss is scaled: training has '
                'diverged. Lower training.learning_rate, or use "bfloat16" or "float32".'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedModel:
    """A model whose parameters are sharded. once: all its weights stay gathered for the time of a step"""

    root: "FSDPModule"
    once: bool

    def begin_micro_batch(self, is_last: bool) -> None:
        """Prepare for each micro-batch of a step: with the last one gradients are summed, and weights given back."""
        self.root.set_requires_gradient_sync(is_last)
        self.root.set_is_last_backward(is_last)
        if self.once:
            self.root.set_reshard_after_backward(is_last)


@dataclass(slots=True, kw_only=True)
class TrainState:
    """A model, its optimizer, and how far they have come. A checkpoint holds its tensors.

    model:          encoder and heads, sharded over all processes; called with a batch, it returns sums of losses
    sharded:        tells the sharded model which micro-batch of a step is the last one
    parameters:     of the model, those that learn
    num_parameters: how many numbers these are, over all processes
    scale:          the factor on the loss
    scales_loss:    whether gradients would underflow without such a factor: in float16
    steps_done:     in all phases
    """

    model: Objective
    sharded: ShardedModel
    parameters: Sequence[nn.Parameter]
    num_parameters: int
    optimizer: torch.optim.Optimizer
    scale: LossScale
    scales_loss: bool
    steps_done: int = 0


def build_state(model: Objective, settings: TrainingSettings, ranks: Ranks) -> TrainState:
    """Shard a model over all processes and make its optimizer.

    model: with its weights, whole ones on the processor: the same for any number of processes
    settings: without "auto"
    """
    num_parameters = count_parameters(model)  # before they are cut into shards
    sharded = shard_model(model, model.list_shard_groups(), model.list_shared_parts(), ranks, settings)
    model.place(ranks.device, PRECISIONS[settings.precision], settings.compile is True)
    scales_loss = settings.precision == "float16"
    return TrainState(
        model=model,
        sharded=sharded,
        parameters=[parameter for parameter in model.parameters() if parameter.requires_grad],
        num_parameters=num_parameters,
        optimizer=build_optimizer(model, settings),
        scale=LossScale(FIRST_SCALE if scales_loss else 1.0),
        scales_loss=scales_loss,
    )


def compute_gradient_norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Return float32 []: the Euclidean norm of all whole gradients together, the same on every process."""
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


# The model over all processes.


def shard_model(
    model: nn.Module,
    groups: Sequence[nn.Module],
    shared: Sequence[nn.Module],
    ranks: Ranks,
    settings: TrainingSettings,
) -> ShardedModel:
    """Shard the parameters of a model over all processes.

    groups: its parts, by calls, that are compiled, recomputed, gathered and sharded one by one; the root has what is in
            none of them, and all of them if a single process gathers once a step
    shared: parts that are compiled and recomputed one by one, but belong to the root, since they are called repeatedly
    Matrices of forward and backward are in the precision of the settings, sums of gradients and the weights that the
    optimizer keeps in float32. The settings are without "auto".
    """
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard  # a second, for what trains alone

    recomputes = settings.activation_checkpointing
    parts, others = (
        [_wrap_recomputed(model, each) if recomputes else each for each in some] for some in (groups, shared)
    )
    if settings.compile is True:
        heads = [each for each in model.modules() if isinstance(each, MaskedHead)]
        compile_parts([*parts, *others, *heads])
    policy = MixedPrecisionPolicy(
        param_dtype=PRECISIONS[settings.precision], reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    once = should_gather_once(model, ranks, settings)
    by_parts = ranks.count > 1 or not once  # each part costs calls in every pass, and a GPU waits for them
    for module in (*parts, model) if by_parts else (model,):
        fully_shard(module, mesh=ranks.mesh, mp_policy=policy, reshard_after_forward=not once and module is not model)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return ShardedModel(root=cast(FSDPModule, model), once=once)


def _wrap_recomputed(model: nn.Module, part: nn.Module) -> nn.Module:
    """Replace a part by a wrapper that recomputes it in the backward pass, and return the wrapper."""
    name = next(name for name, module in model.named_modules() if module is part)
    wrapped = checkpoint_wrapper(part)
    model.set_submodule(name, wrapped)
    return wrapped


def should_gather_once(model: nn.Module, ranks: Ranks, settings: TrainingSettings) -> bool:
    """Return whether all weights stay gathered from a step's first forward to its last backward pass.

    They are then held twice by this process: its share in float32, and all of them in the precision of the settings.
    """
    if settings.gather != "auto":
        return settings.gather == "step"
    dtype = PRECISIONS[settings.precision] or torch.float32
    size_bytes = sum(parameter.numel() for parameter in model.parameters()) * dtype.itemsize
    return ranks.count == 1 or size_bytes <= GATHERED_SHARE * _find_memory_bytes(ranks)


def _find_memory_bytes(ranks: Ranks) -> int:
    """Return the memory of the GPU, or this process's part of the machine's."""
    if ranks.device.type == "cuda":
        return int(torch.cuda.get_device_properties(ranks.device).total_memory)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // ranks.host_count
