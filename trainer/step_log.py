"""Copies the numbers of a step from the device, and reports them to watchers and in a line of the log.

    StepResult (tensors) ─► summed over all processes ─► copied to main memory ─► StepReport (numbers) ─► log

Promise: on a GPU no step waits for this. The numbers are copied while the next step is computed, and the line is
written after that step was started. On a CPU it is written at once. Cost: one small message between the processes per
line.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from corpora.kernels.arrays import Int64s
from trainer.learn import STEP_COUNTS, StepResult, TrainState
from trainer.metrics import MetricsLog
from trainer.objectives.contract import Term
from trainer.ranks import Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """The numbers of a step, summed over all processes.

    Attributes:
        result: The result of the step, with the tensors from which the numbers were computed.
        losses: Maps "loss" to the loss, `{name}_loss` to the mean loss of each term, and `{name}_accuracy` to its
            accuracy.
        norm: The norm of the whole gradient before clipping.
        extra: The sums of the numbers that watchers added to the result, by name.
        is_logged: True if a line for the step is written to the log. The first steps of a run are always reported.
        fields: Additional fields for the line, which watchers fill in.
    """

    result: StepResult
    losses: Mapping[str, float]
    norm: float
    extra: Mapping[str, float]
    is_logged: bool
    fields: dict[str, Any] = field(default_factory=dict)


class Watcher:
    """Base class of hooks that follow a training run without changing what the model learns.

    All processes call every hook. The hooks of the base class do nothing.
    """

    def on_step(self, result: StepResult, state: TrainState) -> None:
        """Called after each step, once the weights have been updated. It must not wait for the device."""

    def on_report(self, report: StepReport) -> None:
        """Called with the numbers of a step before they are written to the log. Not every step is logged."""

    def on_report_done(self, report: StepReport) -> None:
        """Called with the numbers of a step after they were written to the log. Not every step is logged."""

    def on_pause(self) -> None:
        """Called before an evaluation, a checkpoint or the export.

        It may raise an error if the state of the run must not be kept.
        """

    def on_pause_end(self) -> None:
        """Called after an evaluation, a checkpoint or the export."""


@contextmanager
def pause_training(watchers: Sequence[Watcher]) -> Iterator[None]:
    """Call `on_pause` of all watchers before the block, and `on_pause_end` after it."""
    for watcher in watchers:
        watcher.on_pause()
    yield
    for watcher in watchers:
        watcher.on_pause_end()


class StepReports:
    """Reports steps to the watchers and the log.

    At most one report is pending: the report of the newest step, while its numbers are being copied from the device.
    """

    def __init__(
        self,
        log: MetricsLog,
        ranks: Ranks,
        terms: Sequence[Term],
        watchers: Sequence[Watcher],
        describe: Callable[[StepReport], Mapping[str, Any]],
    ) -> None:
        """Create the reporter of a run.

        Args:
            log: Receives the lines.
            ranks: This process among all processes.
            terms: The terms of the loss.
            watchers: Called with each report, in this order.
            describe: Returns the fields of a report's line.
        """
        self._log, self._ranks, self._terms = log, ranks, terms
        self._watchers, self._describe = watchers, describe
        self._pending: tuple[StepResult, torch.Tensor, torch.cuda.Event | None, bool] | None = None

    def begin(self, result: StepResult, is_logged: bool) -> None:
        """Start copying the numbers of a step from the device. All processes must call it.

        On a CPU the report is finished when this returns; on a GPU, when the next `flush` returns.

        Args:
            result: The result of the step.
            is_logged: True to write a line for the step to the log.
        """
        sums_T2 = torch.zeros(len(self._terms), 2, dtype=torch.float64, device=self._ranks.device)
        for of_micro_batch in result.sums:
            sums_T2 += of_micro_batch
        own = torch.cat([sums_T2.flatten(), *(number.double().reshape(1) for number in result.extra.values())])
        numbers = torch.cat([self._ranks.sum(own), result.norm.double().reshape(1)])
        arriving, arrival = numbers.to("cpu", non_blocking=True), None  # from a GPU: to memory that torch has pinned
        if numbers.is_cuda:
            arrival = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch has no types for it
            arrival.record()
        self._pending = result, arriving, arrival, is_logged
        if not self._ranks.computes_ahead:
            self.flush()

    def flush(self) -> None:
        """Finish the report that is pending, if there is one: call the watchers, and write its line to the log.

        All processes must call it, because a watcher may raise an error.
        """
        if self._pending is None:
            return
        (result, arriving, arrival, is_logged), self._pending = self._pending, None
        if arrival is not None:
            arrival.synchronize()
        *numbers, norm = arriving.tolist()
        sums, extra = numbers[: 2 * len(self._terms)], numbers[2 * len(self._terms) :]
        report = StepReport(
            result=result,
            losses=compute_losses(sums[::2], sums[1::2], result.step.counts, self._terms),
            norm=norm,
            extra=dict(zip(result.extra, extra, strict=True)),
            is_logged=is_logged,
        )
        for watcher in self._watchers:
            watcher.on_report(report)
        if is_logged:
            self._log.write_event("step", result.step.number, **self._describe(report), **report.fields)
        for watcher in self._watchers:
            watcher.on_report_done(report)


def compute_losses(
    losses: Sequence[float], rights: Sequence[float], counts: Int64s, terms: Sequence[Term]
) -> dict[str, float]:
    """Compute the mean losses (in nats) and the accuracies of a step or an evaluation.

    Args:
        losses: The summed loss of each term.
        rights: The number of correct predictions of each term.
        counts: The STEP_COUNTS, followed by the number of targets of each term.
        terms: The terms of the loss.

    Returns:
        A dictionary with "loss", the weighted sum of the mean losses; `{name}_loss`, the mean loss of each term; and
        `{name}_accuracy` of each term whose predictions are correct or wrong.

    >>> import numpy as np
    >>> counts = np.array([0] * len(STEP_COUNTS) + [2, 4])
    >>> compute_losses([6.0, 2.0], [1.0, 1.0], counts, (Term("masked"), Term("pair", 2.0)))
    {'loss': 4.0, 'masked_loss': 3.0, 'masked_accuracy': 0.5, 'pair_loss': 0.5, 'pair_accuracy': 0.25}
    """
    means, loss = dict[str, float](), 0.0
    divisors = counts[len(STEP_COUNTS) :].tolist()
    for term, summed, right, divisor in zip(terms, losses, rights, divisors, strict=True):
        means[f"{term.name}_loss"] = summed / max(divisor, 1)
        if term.has_rights:
            means[f"{term.name}_accuracy"] = right / max(divisor, 1)
        loss += term.weight * means[f"{term.name}_loss"]
    return {"loss": loss, **means}


def name_counts(counts: Int64s) -> dict[str, int]:
    """Build a dictionary of all counts of a step, with the names in STEP_COUNTS as keys."""
    return dict(zip(STEP_COUNTS, counts.tolist(), strict=False))


def describe_counts(counts: Int64s) -> dict[str, int]:
    """Build a dictionary of the counts of a step that are written to the log, by name.

    These are masked tokens, tokens, sequences, deleted examples and, if there are any, dummy tokens.
    """
    named = dict(zip(STEP_COUNTS, counts.tolist(), strict=False))
    names = ("masked_tokens", "tokens", "sequences", "deleted", *(("dummy_tokens",) if named["dummy_tokens"] else ()))
    return {name: named[name] for name in names}
