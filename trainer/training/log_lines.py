"""A line of the log: a step's results, speed and memory, read without making a step wait.

    tokens_per_second  real ones, over all processes; evaluations and checkpoints do not count
    wait_seconds       for examples, and `wait_share`: the part of the time that this was
    mfu                model FLOPs (`trainer.flops`) as a share of what the devices could do; if their peak is known
    memory_bytes       of the first process: on a GPU the most that was allocated, on a processor what is resident

On a GPU the numbers are copied while the next step is computed, and the line is written when they arrive.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from corpora.store.workers.processes import resident_bytes
from trainer.flops import peak_flops, utilisation
from trainer.objectives.contract import Term
from trainer.settings.training import TrainingSettings
from trainer.training.feed import STEP_COUNTS, Step
from trainer.training.learner import NonFinite, StepOutcome
from trainer.training.parallel import Ranks

Item = TypeVar("Item")


class Arriving:
    """Numbers of a device on their way to main memory; of a processor they are there."""

    def __init__(self, numbers: Tensor) -> None:
        self._here, self._event = numbers, None
        if numbers.is_cuda:
            self._here = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
            self._here.copy_(numbers, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch has no types for it
            self._event.record()

    def read(self) -> list[float]:
        """The numbers, when they are there."""
        if self._event is not None:
            self._event.synchronize()
        numbers: list[float] = self._here.tolist()
        return numbers


class Totals(NamedTuple):
    """Totals of what was learned from since this trainer was started."""

    tokens: int
    flops: int

    def after(self, step: Step) -> "Totals":
        """And of one more step."""
        return Totals(self.tokens + int(step.counts[STEP_COUNTS.index("tokens")]), self.flops + step.flops)


class Numbers(NamedTuple):
    """A step's results over all processes. nonfinite: whether one of them has met such a number by now"""

    sums: list[list[float]]
    norm: float
    nonfinite: bool


def on_their_way(outcome: StepOutcome, nonfinite: NonFinite, ranks: Ranks) -> Arriving:
    """Add up a step's results over all processes. All of them must call it."""
    mine = torch.cat([outcome.sums.flatten(), nonfinite.noted.double().reshape(1)])
    return Arriving(torch.cat([ranks.sum(mine), outcome.norm.double().reshape(1)]))


class Noted(NamedTuple):
    """A step to report.

    numbers:  of `on_their_way`
    totals:   up to its end
    has_line: whether it has a line in the log; else it is only looked at
    """

    rate: float
    step: Step
    numbers: Arriving
    totals: Totals
    has_line: bool

    def read(self) -> Numbers:
        """Its numbers, when they are there."""
        *sums, nonfinite, norm = self.numbers.read()
        return Numbers([list(pair) for pair in zip(sums[::2], sums[1::2], strict=True)], norm, nonfinite > 0)

    def losses(self, numbers: Numbers, terms: Sequence[Term]) -> dict[str, float]:
        """As `losses_of`."""
        return losses_of(numbers.sums, self.step.counts[len(STEP_COUNTS) :].tolist(), terms)


class Speed:
    """Measures how fast a run is between two lines of its log."""

    def __init__(self, settings: TrainingSettings, ranks: Ranks) -> None:
        self.totals = Totals(0, 0)
        self._ranks = ranks
        self._peak = known_peak(settings, ranks.device)
        self._reported = self.totals
        self._waited = 0.0
        self._since = time.monotonic()

    def waiting(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yield the same items, and count the time until each arrives as waiting."""
        while True:
            began = time.monotonic()
            item = next(items, None)
            self._waited += time.monotonic() - began
            if item is None:
                return
            yield item

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the time of the block out of the speed, for work that is not training."""
        began = time.monotonic()
        yield
        self._since += time.monotonic() - began

    def figures(self, totals: Totals) -> dict[str, float]:
        """Return the speed since the last line, up to a step that is done."""
        seconds = max(time.monotonic() - self._since, 1e-9)
        tokens, flops = totals.tokens - self._reported.tokens, totals.flops - self._reported.flops
        figures: dict[str, float] = {
            "tokens_per_second": round(tokens / seconds, 1),
            "wait_seconds": round(self._waited, 4),
            "wait_share": round(min(self._waited / seconds, 1.0), 4),
        }
        if self._peak is not None and flops:
            figures["mfu"] = round(utilisation(flops, seconds, [self._peak] * self._ranks.count), 4)
        self._reported, self._waited, self._since = totals, 0.0, time.monotonic()
        return {**figures, "memory_bytes": memory_bytes(self._ranks.device)}


def known_peak(settings: TrainingSettings, device: torch.device) -> float | None:
    """Return a device's peak FLOPs a second, from the settings or by its name; None if unknown."""
    if settings.peak_tflops is not None:
        return settings.peak_tflops * 1e12
    return peak_flops(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


def memory_bytes(device: torch.device) -> int:
    """Return the memory this process takes: the most until now on a GPU, the present amount on a processor."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else resident_bytes(os.getpid())


def named(counts: list[int]) -> dict[str, int]:
    """STEP_COUNTS by name; what follows them is left out."""
    return dict(zip(STEP_COUNTS, counts, strict=False))


def line_counts(counts: dict[str, int]) -> dict[str, int]:
    """The counts that a line of the log holds."""
    names = ("masked_tokens", "tokens", "sequences", "deleted", *(("dummy_tokens",) if counts["dummy_tokens"] else ()))
    return {name: counts[name] for name in names}


def losses_of(sums: list[list[float]], divisors: list[int], terms: Sequence[Term]) -> dict[str, float]:
    """Return the means of a step or an evaluation, natural logarithms; `loss` is what is minimized.

    >>> losses_of([[6.0, 1.0], [2.0, 1.0]], [2, 4], (Term("masked"), Term("pair", 2.0)))
    {'loss': 4.0, 'masked_loss': 3.0, 'masked_accuracy': 0.5, 'pair_loss': 0.5, 'pair_accuracy': 0.25}
    """
    means, loss = dict[str, float](), 0.0
    for term, (summed, right), divisor in zip(terms, sums, divisors, strict=True):
        means[f"{term.name}_loss"] = summed / max(divisor, 1)
        if term.has_rights:
            means[f"{term.name}_accuracy"] = right / max(divisor, 1)
        loss += term.weight * means[f"{term.name}_loss"]
    return {"loss": loss, **means}
