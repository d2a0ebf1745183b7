"""The parts of a training step: its micro-batches, its result, and the sharded model with its optimizer.

FSDP2 shards every layer, and then the rest of the model, over all processes. A single process has everything in one
group, unless it gathers by layers. Gradients are summed, not averaged, because the loss is divided by counts of the
whole step.

If there is enough memory (`should_gather_once`), weights are gathered once per step, no matter how many micro-batches
it has: they stay gathered from the first forward pass to the last backward pass. Otherwise each layer is gathered for
every forward and every backward pass.
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
    """The examples that a process runs through the model at once.

    Attributes:
        batch: The examples as tensors, in main memory.
        guessed: The ids of the tokens to predict, in main memory.
        counts: int64, the STEP_COUNTS followed by the number of targets of each loss term. A term's summed loss is
            divided by the total of this number over the step.
        tallies: int64, one row per shard set of the phase, with the columns of `TALLY_NAMES`.
        rarer: bool [M], True for masked tokens that begin a word and are not among the most common tokens; None if it
            is not needed.
    """

    batch: Batch
    guessed: npt.NDArray[Any]
    counts: Int64s
    tallies: Int64s
    rarer: Bools | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """This process's share of a training step, with totals over all processes.

    Attributes:
        number: The one-based number of the step within the run.
        micro_batches: The micro-batches of this process.
        counts: The counts of all micro-batches of all processes, in the order of `MicroBatch.counts`.
        divisors: int64 [terms], the number by which the summed loss of each term is divided, at least 1. On the CPU.
    """

    number: int
    micro_batches: Sequence[MicroBatch]
    counts: Int64s
    divisors: Tensor


def make_step(number: int, micro_batches: Sequence[MicroBatch], ranks: Ranks) -> Step:
    """Build a step from this process's micro-batches, with the counts of all processes.

    All processes must call it for the same steps in the same order, each from one thread only.

    Args:
        number: The one-based number of the step within the run.
        micro_batches: The micro-batches of this process, at least one.
        ranks: This process among all processes.
    """
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
    """The result of a step. Its tensors are on the device, which may still be computing them.

    Attributes:
        step: The step.
        phase: The zero-based index of the step's phase.
        rate: The learning rate of the step.
        sums: One float32 tensor [terms, 2] per micro-batch of this process: the summed loss and the number of correct
            predictions of each term.
        norm: float32 [], the norm of the whole gradient before clipping.
        loss_scale: The loss scale after the step; None unless the precision is float16.
        extra: Scalar tensors added by watchers, by name. They are summed over the processes.
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
    """The loss scale, a factor on the loss that prevents underflow of float16 gradients; 1 in other precisions.

    If a gradient overflows, the step is skipped and the factor is halved. The overflow is detected in the norm over all
    processes, so all processes skip the same steps.

    Attributes:
        factor: The current factor.
        good_steps: The number of steps since the last overflow.
    """

    factor: float = 1.0
    good_steps: int = 0

    def unscale(self, parameters: Sequence[nn.Parameter]) -> None:
        """Divide the gradients of the given parameters by the loss scale, in place."""
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.div_(self.factor)

    def update(self, finite: bool) -> None:
        """Adapt the loss scale after a step: halve it after an overflow, and double it after enough steps without one.

        Args:
            finite: True if the gradient of the step was finite.

        Raises:
            InputError: If the gradient overflows even with the smallest loss scale.
        """
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
    """A model with parameters that are sharded over all processes.

    Attributes:
        root: The model.
        once: True if all weights stay gathered during a step; False if each layer is gathered separately for each pass.
    """

    root: "FSDPModule"
    once: bool

    def begin_micro_batch(self, is_last: bool) -> None:
        """Prepare the model for a micro-batch.

        If it is the last one of a step, gradients are summed over the processes and gathered weights are freed.
        """
        self.root.set_requires_gradient_sync(is_last)
        self.root.set_is_last_backward(is_last)
        if self.once:
            self.root.set_reshard_after_backward(is_last)


@dataclass(slots=True, kw_only=True)
class TrainState:
    """A model, its optimizer, and the number of completed steps. A checkpoint stores its tensors.

    Attributes:
        model: The encoder and heads, sharded over all processes. Called with a batch, it returns loss sums.
        sharded: The sharded model, which must be told which micro-batch of a step is the last one.
        parameters: The trainable parameters of the model.
        num_parameters: The number of values in these parameters, over all processes.
        optimizer: The optimizer of these parameters.
        scale: The loss scale.
        scales_loss: True in float16, where gradients would underflow without the loss scale.
        steps_done: The number of completed steps, over all phases.
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
    """Shard a model over all processes and build its optimizer. All processes must call it.

    Args:
        model: The model with its full weights, on the CPU and identical on each process. It is sharded in place.
        settings: The settings, with each "auto" resolved.
        ranks: This process among all processes.
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
    """Compute the Euclidean norm of the gradients of all parameters together, over all processes: float32 []."""
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
    """Divide the parameters of a model among all processes, in place, and compile layers if the settings say so.

    In the forward and backward pass, matrices have the precision of the settings. Gradient sums and the optimizer's
    copy of the weights are in float32.

    Args:
        model: The full model, on the CPU.
        groups: Modules that are compiled, recomputed, gathered and sharded individually. If there is a single process
            that keeps all weights gathered, they are sharded together with the root.
        shared: Modules that are compiled and recomputed individually, but sharded with the root, because they are
            called several times in each pass.
        ranks: This process among all processes.
        settings: The settings, with each "auto" resolved.
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
    """Replace a submodule of a model by a wrapper that recomputes it in the backward pass, and return the wrapper."""
    name = next(name for name, module in model.named_modules() if module is part)
    wrapped = checkpoint_wrapper(part)
    model.set_submodule(name, wrapped)
    return wrapped


def should_gather_once(model: nn.Module, ranks: Ranks, settings: TrainingSettings) -> bool:
    """Return True if each process should hold all weights from the first forward to the last backward pass of a step.

    The process then holds two sets of weights: its shard in float32, and all weights in the precision of the settings.
    With "auto", it does so if it is the only process, or if the weights take at most a quarter of the device's memory.
    """
    if settings.gather != "auto":
        return settings.gather == "step"
    dtype = PRECISIONS[settings.precision] or torch.float32
    size_bytes = sum(parameter.numel() for parameter in model.parameters()) * dtype.itemsize
    return ranks.count == 1 or size_bytes <= GATHERED_SHARE * _find_memory_bytes(ranks)


def _find_memory_bytes(ranks: Ranks) -> int:
    """Return the memory of the GPU in bytes or, on a CPU, this process's share of the main memory."""
    if ranks.device.type == "cuda":
        return int(torch.cuda.get_device_properties(ranks.device).total_memory)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // ranks.host_count
