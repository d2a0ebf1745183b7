"""The learner: a sharded model and its optimiser, and what one step does to them, in pre-training and fine-tuning.

The loss of a step is the weighted sum of its terms, each the sum of losses over all processes and micro-batches divided
by the number of what was judged: so neither the number of processes nor how a step was cut changes it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from corpora.kernels.arrays import Int64s
from trainer.model.objective import JudgedBatch, Objective, count_parameters
from trainer.objectives.contract import Term
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
from trainer.training.word_accuracy import count_right


class StepOutcome(NamedTuple):
    """What a step or an evaluation came to.

    sums:   float64 [terms, 2], what `Objective.sums` says of this process's micro-batches
    counts: int64 [STEP_COUNTS + terms], over all processes
    norm:   float32 [], of the whole gradient before it was clipped
    """

    sums: Tensor
    counts: Tensor
    norm: Tensor


@dataclass(slots=True, kw_only=True)
class Learner:
    """What learns.

    sick:    true on the device once a gradient was not finite, unless float16 left that step out
    weights: float32 [terms]
    """

    model: Objective
    sharded: Sharded
    parameters: Sequence[nn.Parameter]
    num_parameters: int
    optimizer: torch.optim.Optimizer
    scale: LossScale
    settings: TrainingSettings
    ranks: Ranks
    sick: Tensor
    weights: Tensor

    @staticmethod
    def of(model: Objective, settings: TrainingSettings, ranks: Ranks) -> "Learner":
        """A model that has its weights, whole ones on the processor: the same for any number of processes."""
        num_parameters = count_parameters(model)
        sharded = shard_model(model, model.shard_groups(), ranks, settings)
        return Learner(
            model=model,
            sharded=sharded,
            parameters=[parameter for parameter in model.parameters() if parameter.requires_grad],
            num_parameters=num_parameters,
            optimizer=build_optimizer(model, settings),
            scale=LossScale.of(settings),
            settings=settings,
            ranks=ranks,
            sick=torch.zeros((), dtype=torch.bool, device=ranks.device),
            weights=torch.tensor([term.weight for term in model.terms], device=ranks.device),
        )

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary."""
        return next(iter(self.model.encoders())).shape.vocab_size

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the loss."""
        return self.model.terms

    def learn(self, micro_batches: Sequence[MicroBatch], rate: float) -> StepOutcome:
        """One step. Gradients of all micro-batches but the last stay where they are; with the last all are summed."""
        counts = self.total_counts(micro_batches)
        sums = self._no_sums()
        divisors = counts[len(STEP_COUNTS) :].clamp(min=1)
        for number, micro_batch in enumerate(micro_batches, 1):
            self.sharded.begin_micro_batch(is_last=number == len(micro_batches))
            found = self.model(micro_batch.batch.to(self.ranks.device))
            torch.autograd.backward((found[:, 0] * self.weights / divisors).sum() * self.scale.factor)
            sums += found.detach()
        return StepOutcome(sums=sums, counts=counts, norm=self._update(rate))

    def total_counts(self, micro_batches: Iterable[MicroBatch]) -> Tensor:
        """Those of these micro-batches, over all processes."""
        counts = sum((micro_batch.counts for micro_batch in micro_batches), self._no_counts())
        return self.ranks.sum(on_device(torch.from_numpy(counts), self.ranks.device))

    def _no_sums(self) -> Tensor:
        return torch.zeros(len(self.terms), 2, dtype=torch.float64, device=self.ranks.device)

    def _no_counts(self) -> Int64s:
        return np.zeros(len(STEP_COUNTS) + len(self.terms), np.int64)

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
    def judge(self, micro_batches: Iterable[MicroBatch]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Over all processes: the sums of the terms, the counts, how often each token was to be guessed, and words.

        words: int64 [2], how many of those apart from the commonest are guessed, and how many there are
        """
        sums, counts = self._no_sums(), self._no_counts()
        guessed, words = np.zeros(self.vocab_size, np.int64), np.zeros(2, np.int64)
        self.model.eval()
        for micro_batch in micro_batches:
            judged: JudgedBatch = self.model(micro_batch.batch.to(self.ranks.device), judging=True)
            sums += judged.sums
            if judged.guesses is not None and micro_batch.rarer is not None:
                guesses = judged.guesses[: len(micro_batch.rarer)].cpu().numpy()  # what fills a batch is at its end
                words += count_right(micro_batch.rarer, micro_batch.guessed, guesses)
            counts += micro_batch.counts
            guessed += np.bincount(micro_batch.guessed, minlength=len(guessed))
        self.model.train()
        device, ranks = self.ranks.device, self.ranks
        return (
            ranks.sum(sums),
            ranks.sum(torch.from_numpy(counts).to(device)),
            ranks.sum(torch.from_numpy(guessed).to(device)),
            ranks.sum(torch.from_numpy(words).to(device)),
        )


def on_device(numbers: Tensor, device: torch.device) -> Tensor:
    """The same numbers on a device, without waiting for what that device still has to do."""
    if device.type != "cuda":
        return numbers.to(device)
    return numbers.pin_memory().to(device, non_blocking=True)
