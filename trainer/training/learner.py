"""The learner: a sharded model and its optimizer, and what one step does to them, in pre-training and fine-tuning.

The loss of a step is the weighted sum of its terms, each the sum of losses over all processes and micro-batches divided
by the number of what was judged: so neither the number of processes nor how a step was cut changes it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from corpora.kernels.arrays import Int64s
from trainer.model.objective import JudgedBatch, Objective, count_parameters
from trainer.objectives.contract import Term
from trainer.settings.training import TrainingSettings
from trainer.training.feed import STEP_COUNTS, MicroBatch, Step, count_right
from trainer.training.optimizers import (
    LossScale,
    build_optimizer,
    clip_gradients,
    gradient_norm,
    set_learning_rate,
)
from trainer.training.parallel import PRECISIONS, Ranks, Sharded, shard_model


class StepOutcome(NamedTuple):
    """The result of a step or an evaluation.

    sums: float64 [terms, 2], what `Objective.sums` returns for this process's micro-batches
    norm: float32 [], of the whole gradient before it was clipped
    """

    sums: Tensor
    norm: Tensor


class NonFinite:
    """The first step whose loss or gradient was not finite: noted on the device, where no step waits for it.

    A loss is of one micro-batch of one process, so it leads to the examples; a gradient is of all of them.
    place: int64 [2] on the device: that step, and the micro-batch of this process whose loss it was; -1 where none is
    """

    def __init__(self, device: torch.device) -> None:
        self.place = torch.full((2,), -1, dtype=torch.int64, device=device)

    @property
    def noted(self) -> Tensor:
        """bool []: whether there was one."""
        return self.place[0] >= 0

    def look_at_loss(self, sums: Tensor, step: int, micro_batch: int) -> None:
        """Note a micro-batch whose loss is not finite."""
        first = self._first(sums)
        self.place[0].masked_fill_(first, step)
        self.place[1].masked_fill_(first, micro_batch)

    def look_at_gradient(self, norm: Tensor, step: int) -> None:
        """Note a step whose gradient is not finite."""
        self.place[0].masked_fill_(self._first(norm), step)

    def _first(self, numbers: Tensor) -> Tensor:
        """bool []: whether these are the first that are not finite."""
        return (self.place[0] < 0) & ~numbers.isfinite().all()


@dataclass(slots=True, kw_only=True)
class Learner:
    """A model, its optimizer and the scale of its loss: what a step changes.

    nonfinite: what was not finite, unless float16 left that step out
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
    nonfinite: NonFinite
    weights: Tensor

    @staticmethod
    def of(model: Objective, settings: TrainingSettings, ranks: Ranks) -> "Learner":
        """A model that has its weights, whole ones on the processor: the same for any number of processes."""
        num_parameters = count_parameters(model)
        sharded = shard_model(model, model.shard_groups(), model.shared_parts(), ranks, settings)
        model.place(ranks.device, PRECISIONS[settings.precision], settings.compile is True)
        return Learner(
            model=model,
            sharded=sharded,
            parameters=[parameter for parameter in model.parameters() if parameter.requires_grad],
            num_parameters=num_parameters,
            optimizer=build_optimizer(model, settings),
            scale=LossScale.of(settings),
            settings=settings,
            ranks=ranks,
            nonfinite=NonFinite(ranks.device),
            weights=torch.tensor([term.weight for term in model.terms], device=ranks.device),
        )

    def moved(self, model: Objective, settings: TrainingSettings) -> "Learner":
        """Move the weights and moments to another learner; this one is not used afterwards.

        model: another one of the same kind, whose weights are written over
        """
        weights, moments = get_state_dict(self.model, self.optimizer)
        other = Learner.of(model, settings, self.ranks)
        set_state_dict(other.model, other.optimizer, model_state_dict=weights, optim_state_dict=moments)
        other.nonfinite = self.nonfinite
        return other

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary."""
        return next(iter(self.model.encoders())).shape.vocab_size

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the loss."""
        return self.model.terms

    def flops(self, lengths: Int64s, places: int) -> int:
        """Return the FLOPs of learning from sequences of these lengths, of which heads read `places`; 0: unknown."""
        return self.model.macs(lengths, places).flops

    def learn(self, step: Step, rate: float) -> StepOutcome:
        """Learn from a step. Gradients of all micro-batches but the last stay in place; with the last all are summed.

        Only float16 waits for the device: it must know whether the gradient overflowed.
        """
        sums, last = self._no_sums(), len(step.micro_batches) - 1
        divisors = step.divisors.to(self.ranks.device, non_blocking=True)
        for number, micro_batch in enumerate(step.micro_batches):
            self.sharded.begin_micro_batch(is_last=number == last)
            batch_sums = self.model(micro_batch.batch.to(self.ranks.device))
            torch.autograd.backward((batch_sums[:, 0] * self.weights / divisors).sum() * self.scale.factor)
            sums += batch_sums.detach()
            if not self._scaled:
                self.nonfinite.look_at_loss(batch_sums.detach(), step.number, number)
        return StepOutcome(sums=sums, norm=self._update(step.number, rate))

    @property
    def _scaled(self) -> bool:
        return self.settings.precision == "float16"

    def _no_sums(self) -> Tensor:
        return torch.zeros(len(self.terms), 2, dtype=torch.float64, device=self.ranks.device)

    def _no_counts(self) -> Int64s:
        return np.zeros(len(STEP_COUNTS) + len(self.terms), np.int64)

    def _update(self, step: int, rate: float) -> Tensor:
        """Move the weights against the gradient; the gradient's norm."""
        if self._scaled:
            self.scale.unscale(self.parameters)
        norm = gradient_norm(self.parameters)
        clip_gradients(self.parameters, norm, self.settings)
        set_learning_rate(self.optimizer, rate)
        if not self._scaled:
            self.nonfinite.look_at_gradient(norm, step)
        finite = not self._scaled or bool(norm.isfinite())
        if finite:
            self.optimizer.step()
        if self._scaled:
            self.scale.update(finite)
        self.optimizer.zero_grad()
        return norm

    @torch.no_grad()
    def judge(self, micro_batches: Iterable[MicroBatch]) -> tuple[Tensor, ...]:
        """Over all processes: sums of the terms, counts, how often each token was to be guessed, words, and measures.

        words:    int64 [2], how many of those apart from the commonest are guessed, and how many there are
        measures: float64, what else the objective adds up
        """
        measures = torch.zeros(self.model.num_measures, dtype=torch.float64, device=self.ranks.device)
        sums, counts = self._no_sums(), self._no_counts()
        guessed, words = np.zeros(self.vocab_size, np.int64), np.zeros(2, np.int64)
        self.model.eval()
        for micro_batch in micro_batches:
            judged: JudgedBatch = self.model(micro_batch.batch.to(self.ranks.device), judging=True)
            sums += judged.sums
            if judged.guesses is not None and micro_batch.rarer is not None:
                guesses = judged.guesses[: len(micro_batch.rarer)].cpu().numpy()  # what fills a batch is at its end
                words += count_right(micro_batch.rarer, micro_batch.guessed, guesses)
            if judged.measures is not None:
                measures += judged.measures
            counts += micro_batch.counts
            guessed += np.bincount(micro_batch.guessed, minlength=len(guessed))
        self.model.train()
        device, ranks = self.ranks.device, self.ranks
        return (
            ranks.sum(sums),
            ranks.sum(torch.from_numpy(counts).to(device)),
            ranks.sum(torch.from_numpy(guessed).to(device)),
            ranks.sum(torch.from_numpy(words).to(device)),
            ranks.sum(measures) if len(measures) else measures,
        )
