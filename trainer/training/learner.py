"""The learner: a sharded model and its optimizer, and what one step does to them, in pre-training and fine-tuning.

The loss of a step is the weighted sum of its terms, each the sum of losses over all processes and micro-batches divided
by the number of what was judged: so neither the number of processes nor how a step was cut changes it. Norms are those
of whole gradients, over all processes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from corpora.errors import InputError
from corpora.kernels.arrays import Bools, Int64s
from trainer.model.batches import Batch
from trainer.model.objective import JudgedBatch, Objective, count_parameters
from trainer.objectives.contract import Term
from trainer.settings.training import TrainingSettings
from trainer.training.optimizer_algorithms import AdamW, Lamb, StableAdamW
from trainer.training.parallel import PRECISIONS, Ranks, Sharded, shard_model

STEP_COUNTS = ("masked_tokens", "pairs", "tokens", "sequences", "deleted", "slots", "dummy_tokens")
FIRST_SCALE = 2.0**16
_LAYER = re.compile(r"(?P<encoder>(?:.*\.)?)layers\.(?P<number>\d+)\.")
GROWTH_STEPS = 2_000  # good steps after which the scale is doubled, as in Micikevicius et al. 2018, section 3.2


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """A micro-batch.

    guessed: the tokens that are to be guessed, in main memory
    rarer:   bool [M], which of them are words apart from the commonest; None where it is not needed
    counts:  int64 [STEP_COUNTS + terms], by what the sums of the terms are divided last
    tallies: of each component
    flops:   of learning from it; 0 where the objective does not say
    """

    batch: Batch
    guessed: npt.NDArray[Any]
    counts: Int64s
    tallies: Int64s
    rarer: Bools | None = None
    flops: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The part of a step that this process reads, with totals of the whole step.

    number: of the run, from 1
    counts, flops: as of a micro-batch, over all processes
    divisors: int64 [terms], by what the sums of the terms are divided; on the processor
    """

    number: int
    micro_batches: Sequence[MicroBatch]
    counts: Int64s
    flops: int
    divisors: Tensor


def counted(number: int, micro_batches: Sequence[MicroBatch], ranks: Ranks) -> Step:
    """A step of micro-batches. All processes must call it, each in the same order of steps and on one thread."""
    counts = np.sum([micro_batch.counts for micro_batch in micro_batches], axis=0)
    own = np.append(counts, sum(micro_batch.flops for micro_batch in micro_batches))
    *whole, flops = ranks.count_up(own).tolist()
    divisors = torch.tensor(whole[len(STEP_COUNTS) :], dtype=torch.int64).clamp(min=1)
    return Step(
        number=number,
        micro_batches=micro_batches,
        counts=np.array(whole, np.int64),
        flops=flops,
        divisors=divisors.pin_memory() if ranks.device.type == "cuda" else divisors,
    )


# What changes the weights.


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Return the optimizer that the settings name, for all parameters that learn; `set_rates` sets its rates."""
    groups = parameter_groups(model, settings)
    betas = settings.beta1, settings.beta2
    if settings.optimizer == "adamw" and settings.bias_correction:
        return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=betas, eps=settings.epsilon, fused=True)
    kind = {"adamw": AdamW, "lamb": Lamb, "stable-adamw": StableAdamW}[settings.optimizer]
    correction = settings.bias_correction
    return kind(groups, lr=settings.learning_rate, betas=betas, eps=settings.epsilon, bias_correction=correction)


def parameter_groups(model: nn.Module, settings: TrainingSettings) -> list[dict[str, Any]]:
    """The parameters that learn, by depth where the rate goes by it, with decay on matrices only.

    Vectors are biases and LayerNorm's weights.
    """
    learning = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    scales = rate_scales(list(learning), settings.layer_decay)
    groups = list[dict[str, Any]]()
    for scale in sorted(set(scales.values()), reverse=True):
        own = [parameter for name, parameter in learning.items() if scales[name] == scale]
        scaled = {} if scale == 1 else {"rate_scale": scale}
        groups += [
            {"params": [p for p in own if p.ndim > 1], "weight_decay": settings.weight_decay, **scaled},
            {"params": [p for p in own if p.ndim <= 1], "weight_decay": 0.0, **scaled},
        ]
    return [group for group in groups if group["params"]]


def rate_scales(names: Sequence[str], layer_decay: float) -> dict[str, float]:
    """Return the factor on each parameter's rate: d^(n + 2 - depth) as in ELECTRA's code, of an encoder of n layers.

    Embeddings have depth 0, the layers 1 to n, what else an encoder has n + 1, heads n + 2. Layers that are the same
    parameters (ALBERT) are one.

    >>> rate_scales(["encoder.embeddings.word.weight", "encoder.layers.0.bias", "head.bias"], 0.5)
    {'encoder.embeddings.word.weight': 0.125, 'encoder.layers.0.bias': 0.25, 'head.bias': 1.0}
    """
    layers = [match for match in map(_LAYER.match, names) if match]
    depths = {match["encoder"]: 0 for match in layers}
    for match in layers:
        depths[match["encoder"]] = max(depths[match["encoder"]], int(match["number"]) + 1)
    return {name: layer_decay ** _above(name, depths) for name in names}


def _above(name: str, layers: Mapping[str, int]) -> int:
    """Return how many depths are above that of a parameter. layers: of each encoder"""
    encoder = max((each for each in layers if name.startswith(each)), key=len, default=None)
    if encoder is None:
        return 0
    match = _LAYER.match(name)
    if match:
        return layers[encoder] + 1 - int(match["number"])
    return layers[encoder] + 2 if name.removeprefix(encoder).startswith("embedding") else 1


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the next step, for all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("rate_scale", 1.0)


def set_weight_decay(optimizer: torch.optim.Optimizer, weight_decay: float) -> None:
    """Set the weight decay of matrices for the steps to come."""
    for group in optimizer.param_groups:
        group["weight_decay"] = weight_decay if group["params"][0].ndim > 1 else 0.0


def gradient_norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    """float32 []: the Euclidean norm of all gradients together, whole ones, the same on every process."""
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def clip_gradients(parameters: Sequence[nn.Parameter], norm: Tensor, settings: TrainingSettings) -> None:
    """Shorten the gradient to `clip_norm` where it is longer (Pascanu et al. 2013)."""
    if settings.clip_norm:
        torch.nn.utils.clip_grads_with_norm_(parameters, settings.clip_norm, norm)


@dataclass(slots=True)
class LossScale:
    """The factor on the loss that keeps float16 gradients above the smallest number; 1 in other precisions.

    A step whose gradient overflowed is left out and halves the factor; it is seen in the norm over all processes, so
    all of them leave out the same steps.
    """

    factor: float = 1.0
    good_steps: int = 0

    @staticmethod
    def of(settings: TrainingSettings) -> "LossScale":
        """At the beginning of a run."""
        return LossScale(FIRST_SCALE if settings.precision == "float16" else 1.0)

    def unscale(self, parameters: Sequence[nn.Parameter]) -> None:
        """The gradients as if the loss had not been scaled."""
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.div_(self.factor)

    def update(self, finite: bool) -> None:
        """After a step. Raises InputError where no factor is small enough."""
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


def count_right(counted: Bools, targets: npt.NDArray[np.integer], guesses: Int64s) -> Int64s:
    """Return how many of those that count are guessed, and how many count: int64 [2]. guesses: token ids [M]"""
    return np.array([np.count_nonzero(counted & (targets == guesses)), np.count_nonzero(counted)], np.int64)
