"""The learner: a sharded model and its optimiser, and what one step does to them.

The loss of a step is the sum over all its masked tokens divided by their number, over all processes and
micro-batches, plus the same for pairs: so neither the number of processes nor how a step was cut changes it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from trainer.job import TrainingJob
from trainer.model.families import Losses, PretrainingModel, build_model, count_parameters
from trainer.settings import TrainingSettings
from trainer.training.feed import STEP_COUNTS, MicroBatch
from trainer.training.optimizers import (
    LossScale,
    build_optimizer,
    clip_gradients,
    gradient_norm,
    set_learning_rate,
)
from trainer.training.parallel import Ranks, Sharded, shard_model

_MASKED_TOKENS, _PAIRS = STEP_COUNTS.index("masked_tokens"), STEP_COUNTS.index("pairs")


class StepOutcome(NamedTuple):
    """What a step or an evaluation came to.

    sums:   float64 [4], the fields of `Losses` over this process's micro-batches
    counts: int64 [STEP_COUNTS], over all processes
    norm:   float32 [], of the whole gradient before it was clipped
    """

    sums: Tensor
    counts: Tensor
    norm: Tensor


@dataclass(slots=True, kw_only=True)
class Learner:
    """What learns. `sick` is true on the device once a gradient was not finite, unless float16 left that step out."""

    model: PretrainingModel
    sharded: Sharded
    parameters: Sequence[nn.Parameter]
    num_parameters: int
    optimizer: torch.optim.Optimizer
    scale: LossScale
    settings: TrainingSettings
    ranks: Ranks
    sick: Tensor

    @staticmethod
    def of(job: TrainingJob, ranks: Ranks) -> "Learner":
        """The model with its first weights, which are made on the processor: the same for any number of processes."""
        torch.manual_seed(job.training.seed)
        with torch.device("cpu"):
            model = build_model(job.model, job.inputs)
            model.init_weights()
        num_parameters = count_parameters(model)
        sharded = shard_model(model, [*model.encoder.layers], ranks, job.training)
        return Learner(
            model=model,
            sharded=sharded,
            parameters=[parameter for parameter in model.parameters() if parameter.requires_grad],
            num_parameters=num_parameters,
            optimizer=build_optimizer(model, job.training),
            scale=LossScale.of(job.training),
            settings=job.training,
            ranks=ranks,
            sick=torch.zeros((), dtype=torch.bool, device=ranks.device),
        )

    @property
    def has_pairs(self) -> bool:
        """Whether pairs are learnt too: a family without a pair head leaves their labels aside."""
        return self.model.pair_head is not None

    def learn(self, micro_batches: Sequence[MicroBatch], rate: float) -> StepOutcome:
        """One step. Gradients of all micro-batches but the last stay where they are; with the last all are summed."""
        counts = self.total_counts(micro_batches)
        sums = torch.zeros(len(Losses._fields), dtype=torch.float64, device=self.ranks.device)
        for number, micro_batch in enumerate(micro_batches, 1):
            self.sharded.begin_micro_batch(is_last=number == len(micro_batches))
            losses = self.model(micro_batch.batch.to(self.ranks.device))
            torch.autograd.backward(_mean(losses, counts) * self.scale.factor)
            sums += _summed(losses)
        return StepOutcome(sums=sums, counts=counts, norm=self._update(rate))

    def total_counts(self, micro_batches: Iterable[MicroBatch]) -> Tensor:
        """STEP_COUNTS of these micro-batches, over all processes."""
        counts = sum((micro_batch.counts for micro_batch in micro_batches), np.zeros(len(STEP_COUNTS), np.int64))
        return self.ranks.sum(on_device(torch.from_numpy(counts), self.ranks.device))

    def _update(self, rate: float) -> Tensor:
        """Move the weights against the gradient; the gradient's norm."""
        scaled = self.settings.precision == "float16"
        if scaled:
            self.scale.unscale(self.parameters)
        norm = gradient_norm(self.parameters)
        clip_gradients(self.parameters, norm, self.settings)
        set_learning_rate(self.optimizer, rate)
        if not scaled:
            self.sick |= ~norm.isfinite()
        finite = not scaled or bool(norm.isfinite())
        if finite:
            self.optimizer.step()
        if scaled:
            self.scale.update(finite)
        self.optimizer.zero_grad()
        return norm

    @torch.no_grad()
    def judge(self, micro_batches: Iterable[MicroBatch]) -> tuple[Tensor, Tensor, Tensor]:
        """The sums of the losses, STEP_COUNTS, and how often each token was a target, over all processes."""
        sums = torch.zeros(len(Losses._fields), dtype=torch.float64, device=self.ranks.device)
        counts = np.zeros(len(STEP_COUNTS), np.int64)
        targets = np.zeros(self.model.encoder.shape.vocab_size, np.int64)
        self.model.eval()
        for micro_batch in micro_batches:
            sums += _summed(self.model(micro_batch.batch.to(self.ranks.device)))
            counts += micro_batch.counts
            targets += np.bincount(micro_batch.targets, minlength=len(targets))
        self.model.train()
        device, ranks = self.ranks.device, self.ranks
        return (
            ranks.sum(sums),
            ranks.sum(torch.from_numpy(counts).to(device)),
            ranks.sum(torch.from_numpy(targets).to(device)),
        )


def on_device(numbers: Tensor, device: torch.device) -> Tensor:
    """The same numbers on a device, without waiting for what that device still has to do."""
    if device.type != "cuda":
        return numbers.to(device)
    return numbers.pin_memory().to(device, non_blocking=True)


def _mean(losses: Losses, counts: Tensor) -> Tensor:
    """The part of the step's loss that these sums make."""
    loss = losses.masked_sum / counts[_MASKED_TOKENS].clamp(min=1)
    return loss if losses.pair_sum is None else loss + losses.pair_sum / counts[_PAIRS].clamp(min=1)


def _summed(losses: Losses) -> Tensor:
    """float64 [4]; zeros where the model has no pairs."""
    zero = torch.zeros((), dtype=torch.float64, device=losses.masked_sum.device)
    return torch.stack([zero if part is None else part.detach().double() for part in losses])
