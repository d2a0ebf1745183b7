"""Watchers observe a training run. A run has a list of them, and calls them in order.

    NonFinite   stops a run if its loss or gradient is no longer finite, and names the examples
    Speed       adds the speed since the last log line to a line
    FirstSteps  stops or warns if the first steps show that a run cannot succeed

Pre-training has two more (`pretrain.py`), which verify the shards and count what was read.

    tokens_per_second  without padding, over all processes; evaluations and checkpoints are excluded
    wait_seconds       time spent waiting for examples; `wait_share` is its fraction of the total time
    mfu                model FLOPs as a fraction of the devices' peak, if that is known
    memory_bytes       of the first process: peak allocated memory on a GPU, or resident memory on a CPU

The first step of a phase determines the FLOPs per token and per position that a head reads (`Macs`). They are
multiplied by the counts of each step. So the cost of attention is computed for the sequence lengths of that first step.

    stops     random weights with a loss far from chance, or with a gradient that is zero or enormous; pair labels that
              are all the same; texts with mostly [UNK] tokens
    warns     probably unintended: pre-trained weights that are worse than chance, unbalanced labels, many [UNK] tokens,
              a loss that has not decreased after the first hundreds of steps

With random weights, all V tokens are about equally probable: the loss is ln V, or ln 2 for two classes. Initial logits
have a standard deviation of at most 0.02 times the square root of the width, which adds half its square: 0.15 nats at
768, 0.8 at 4,096. `MAX_LOSS_FROM_CHANCE` is larger than all of these. For weights from another model, there is only a
warning, because they may be confident and wrong about new text for a while. Trained weights start with a low loss,
which is not an error.

An error is raised before any warning of the same step is logged. Cost: for each of the first steps, two numbers are
read at once, and there is one sum over all processes.
"""

import math
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import NoReturn

import numpy as np
import torch

from corpora.errors import InputError
from corpora.generic_types import Item
from corpora.kernels.arrays import Int64s
from corpora.store.processes import read_resident_bytes
from trainer.families.contract import ModelInputs, SpecialIds
from trainer.learn import STEP_COUNTS, Step, StepResult, TrainState
from trainer.metrics import MetricsLog
from trainer.model.objective import Objective, find_peak_flops
from trainer.ranks import Ranks
from trainer.settings.training import TrainingSettings
from trainer.step_log import StepReport, Watcher

TOKEN_TERM, PAIR_TERMS = "masked", ("pair", "replaced")  # with V answers, and with two
MAX_LOSS_FROM_CHANCE = 3.0  # nats from chance; e^3: twenty times worse than guessing
MIN_ANSWERS = 16  # answers of a step, for its mean to be near what is expected
MAX_NORM = 1e4  # first gradients have a norm between 1 and 100
MIN_PAIRS, MIN_TOKENS = 128, 1_000
BALANCED_SHARES = (0.1, 0.9)  # labels are drawn evenly; one document alone can bend that
WARN_UNKNOWN_SHARE, MAX_UNKNOWN_SHARE = 0.05, 0.5  # an English WordPiece vocabulary of 30,522 has 0.1 % on English text
FLAT_STEPS, MIN_FALL = 300, 0.1  # nats: BERT at its published rates falls by more than 2 in as many steps
PAIR = "pair"
NUM_RECENT = 5  # steps that were looked at, over which a loss is averaged
OFF_HINT = "If this is intended, set training.health_checks = false."


class NonFinite(Watcher):
    """Stops a run after the first loss or gradient that is not finite, before a checkpoint stores the weights.

    The step is recorded on the device and read together with the numbers of the next report, so that no step has to
    wait. Float16 is excluded, because overflows are expected there and handled by the loss scale. A loss belongs to a
    micro-batch of one process, and so identifies the examples. A gradient belongs to all examples of the step.
    """

    def __init__(self, ranks: Ranks, explain: Callable[[int, int], InputError]) -> None:
        """Create the watcher. All processes must call it.

        Args:
            ranks: This process among all processes.
            explain: Returns the error to raise. It is called on all processes with the number of the step, and with the
                index of this process's micro-batch with a loss that is not finite, or -1 if there is none.
        """
        self._ranks, self._explain = ranks, explain
        self.step = torch.full((), -1, dtype=torch.int64, device=ranks.device)  # the first such step; -1: none yet
        self.micro_batch = self.step.clone()  # whose loss it was; -1: only a gradient, or not of this process

    def on_step(self, result: StepResult, state: TrainState) -> None:
        """Record the step on the device if it is the first one with a loss or gradient that is not finite."""
        if not state.scales_loss:
            is_bad_N = ~torch.stack([*result.sums]).isfinite().flatten(1).all(1)  # bool [micro-batches]
            is_first = (self.step < 0) & (is_bad_N.any() | ~result.norm.isfinite())
            self.step = torch.where(is_first, result.step.number, self.step)
            self.micro_batch = torch.where(is_first & is_bad_N.any(), is_bad_N.int().argmax(), self.micro_batch)
        result.extra["nonfinite"] = self.step >= 0

    def on_report(self, report: StepReport) -> None:
        """If any process has recorded a step that is not finite, raise the error from `explain` on all processes."""
        if report.extra["nonfinite"]:
            self._refuse()

    def on_pause(self) -> None:
        """Raise that error before an evaluation or a checkpoint, even for steps that have not been reported."""
        if self._ranks.reduce_any(bool(self.step >= 0)):
            self._refuse()

    def _refuse(self) -> NoReturn:
        step = int(self.step)
        first = min(noted for noted in self._ranks.collect(step) if noted >= 0)
        raise self._explain(first, int(self.micro_batch) if step == first else -1)


class Speed(Watcher):
    """Measures the throughput of a run between two reports, excluding evaluations and checkpoints."""

    def __init__(self, settings: TrainingSettings, ranks: Ranks) -> None:
        self._ranks, self._peak = ranks, find_peak(settings, ranks.device)
        self._phase, self._flops_of = -1, (0.0, 0.0)  # of a token, and of a place that a head reads
        self._tokens, self._flops = 0, 0.0
        self._wait_seconds = 0.0
        self._since = self._paused_at = time.monotonic()

    def count_waiting(self, steps: Iterator[Item]) -> Iterator[Item]:
        """Yield the items of an iterator unchanged, and add up the time that training waits for them."""
        while True:
            began = time.monotonic()
            step = next(steps, None)
            self._wait_seconds += time.monotonic() - began
            if step is None:
                return
            yield step

    def on_step(self, result: StepResult, state: TrainState) -> None:
        """Add the tokens and FLOPs of a step to the totals since the last report."""
        if result.phase != self._phase and (measured := measure_flops(state.model, result.step)) is not None:
            self._phase, self._flops_of = result.phase, measured
        places, _, tokens, *_ = result.step.counts.tolist()
        self._tokens += tokens
        self._flops += tokens * self._flops_of[0] + places * self._flops_of[1]

    def on_pause(self) -> None:
        """Stop the clock during an evaluation or a checkpoint."""
        self._paused_at = time.monotonic()

    def on_pause_end(self) -> None:
        """Restart the clock after an evaluation or a checkpoint."""
        self._since += time.monotonic() - self._paused_at

    def on_report(self, report: StepReport) -> None:
        """Add the throughput since the previous line to this one, if it is logged, and reset the counters.

        The fields are `tokens_per_second`, `wait_seconds`, `wait_share`, `memory_bytes` and, if the peak is known,
        `mfu`.
        """
        if not report.is_logged:
            return
        seconds, device = max(time.monotonic() - self._since, 1e-9), self._ranks.device
        report.fields["tokens_per_second"] = round(self._tokens / seconds, 1)
        report.fields["wait_seconds"] = round(self._wait_seconds, 4)
        report.fields["wait_share"] = round(min(self._wait_seconds / seconds, 1.0), 4)
        if self._peak is not None and self._flops:
            report.fields["mfu"] = round(self._flops / seconds / (self._peak * self._ranks.count), 4)
        is_gpu = device.type == "cuda"
        report.fields["memory_bytes"] = (
            torch.cuda.max_memory_allocated(device) if is_gpu else read_resident_bytes(os.getpid())
        )
        self._tokens, self._flops, self._wait_seconds, self._since = 0, 0.0, 0.0, time.monotonic()


def find_peak(settings: TrainingSettings, device: torch.device) -> float | None:
    """Find the peak FLOPs per second of a device, from the settings or by its name, or return None if it is unknown."""
    if settings.peak_tflops is not None:
        return settings.peak_tflops * 1e12
    return find_peak_flops(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


def measure_flops(model: Objective, step: Step) -> tuple[float, float] | None:
    """Estimate the training FLOPs per token, and per token position that a head reads.

    Args:
        model: The model.
        step: A step. The estimate uses the lengths of this process's sequences in the step.

    Returns:
        The two numbers, which are zero if the objective does not count FLOPs; None if this process has no sequence in
        the step.
    """
    real = STEP_COUNTS.index("sequences")  # what fills a batch follows them
    own = [np.diff(each.batch.boundaries.numpy())[: each.counts[real]] for each in step.micro_batches]
    lengths = np.concatenate(own).astype(np.int64)
    if not len(lengths):
        return None
    of_tokens = model.count_macs(lengths, 0).flops
    return of_tokens / lengths.sum(), model.count_macs(lengths, 1).flops - of_tokens


class FirstSteps(Watcher):
    """Checks the first steps of a run for signs that it cannot succeed.

    All processes check the same numbers, so that all reach the same result.
    """

    def __init__(
        self,
        ranks: Ranks,
        log: MetricsLog,
        inputs: ModelInputs,
        terms: Sequence[str],
        new_weights: bool,
        warmup: int,
        last: int,
    ) -> None:
        """Create the watcher.

        Args:
            ranks: This process among all processes.
            log: Receives the warnings.
            inputs: The vocabulary size and special ids of the model.
            terms: The names of the loss terms.
            new_weights: True if the model starts with random weights.
            warmup: The number of steps until the learning rate reaches its peak.
            last: The number of the last step for which labels and tokens are counted.
        """
        self._ranks, self._log, self._inputs = ranks, log, inputs
        self._terms, self._new_weights, self._last = terms, new_weights, last
        self._counts: Int64s = np.zeros(4, np.int64)  # of this process's examples, as `count_texts` returns them
        self._flat_at = max(FLAT_STEPS, warmup)  # a loss that has not fallen by then is told
        self._first: dict[str, float] = {}
        self._recent = defaultdict[str, deque[float]](lambda: deque(maxlen=NUM_RECENT))

    def on_step(self, result: StepResult, state: TrainState) -> None:
        """Count the pair labels and unknown tokens of a step, if it is one of the first steps."""
        for micro_batch in result.step.micro_batches if result.step.number <= self._last else ():
            labels = micro_batch.batch.targets.get(PAIR)
            ids = micro_batch.batch.ids.numpy()
            self._counts += count_texts(self._inputs.special_ids, ids, None if labels is None else labels.numpy())

    def on_report_done(self, report: StepReport) -> None:
        """Log warnings about the losses, labels and tokens of a step. Raises InputError if the run cannot succeed."""
        number, counts = report.result.step.number, report.result.step.counts[len(STEP_COUNTS) :].tolist()
        losses = {name: report.losses[f"{name}_loss"] for name in self._terms}
        warnings = self.judge_step(number, losses, dict(zip(losses, counts, strict=True)), report.norm)
        if number == self._last:
            warnings += judge_texts(self._ranks.sum_ints(self._counts.tolist()))
        for message in warnings:
            self._log.write_event("warning", number, message=message)

    def judge_step(self, step: int, losses: Mapping[str, float], counts: Mapping[str, int], norm: float) -> list[str]:
        """Judge the losses and the gradient of a step, and return warnings as sentences.

        Args:
            step: The one-based number of the step.
            losses: The mean loss of each term, by name.
            counts: The number of predictions of each term, by name.
            norm: The norm of the gradient.

        Raises:
            InputError: If the run cannot succeed.
        """
        warnings = [*self._judge_first(losses, counts, norm)] if step == 1 else []
        if step == 1:
            self._first = {name: losses[name] for name in self._terms if name == TOKEN_TERM and counts[name]}
        for name in self._first:
            self._recent[name].append(losses[name])
        if self._first and step >= self._flat_at:
            warnings += self._find_flat(step)
            self._first = {}  # it is told once
        return warnings

    def _judge_first(self, losses: Mapping[str, float], counts: Mapping[str, int], norm: float) -> Iterator[str]:
        """Yield warnings about the losses and the gradient of the first step.

        The arguments are those of `judge_step`. Raises InputError if the run cannot succeed.
        """
        for name in self._terms:
            chance = math.log(self._inputs.vocab_size) if name == TOKEN_TERM else math.log(2)
            if name in (TOKEN_TERM, *PAIR_TERMS) and counts[name] >= MIN_ANSWERS:
                yield from self._compare_with_chance(name, losses[name], chance)
        if norm == 0 and any(counts.values()):
            raise InputError(
                "The gradient of the first step is zero: nothing would be learned. Check the weights of the "
                f"objective's terms and at what is frozen. {OFF_HINT}"
            )
        if math.isfinite(norm) and norm > MAX_NORM:
            yield refuse_or_warn(
                f"The gradient of the first step has the norm {norm:,.0f}, where 1 to 100 is usual: something is "
                f"wrong with the weights that training begins with. {OFF_HINT}",
                self._new_weights,
            )

    def _compare_with_chance(self, name: str, loss: float, chance: float) -> Iterator[str]:
        """Yield a warning if the loss of pre-trained weights is far above the loss of random guessing.

        If the weights are random and the loss is far from chance, raise InputError instead.

        Args:
            name: The name of the loss term.
            loss: The mean loss, in nats.
            chance: The loss of random guessing, in nats.
        """
        comparison = f"The {name} loss of the first step is {loss:.2f}, and guessing by chance costs {chance:.2f}"
        if not self._new_weights and loss > chance + MAX_LOSS_FROM_CHANCE:
            yield (
                f"{comparison}: the weights that training begins with are sure of wrong answers. Do they belong to "
                "this vocabulary, with every token at its own row? If the text only differs from what they were "
                "trained on, the loss falls soon."
            )
        if self._new_weights and abs(loss - chance) > MAX_LOSS_FROM_CHANCE:
            raise InputError(
                f"{comparison}: new weights are near that. Either they are not drawn as the family draws them, or the "
                f"loss is not divided by what it is summed over. {OFF_HINT}"
            )

    def _find_flat(self, step: int) -> Iterator[str]:
        """Yield a warning for each loss that has hardly decreased since the first step.

        `step` is the number of steps so far.
        """
        for name, first in self._first.items():
            now = fmean(self._recent[name])
            if now > first - MIN_FALL:
                yield (
                    f"The {name} loss was {first:.2f} at the first step and is {now:.2f} after {step:,}: nothing has "
                    "been learned so far. Check training.learning_rate (published ones are between 1e-4 and 1e-3 for "
                    "new weights), the warm-up, and some examples: cloze inspect shows the shards' masks."
                )


def refuse_or_warn(message: str, is_fatal: bool) -> str:
    """Return the message, to be used as a warning, or raise it as an InputError if it is fatal."""
    if is_fatal:
        raise InputError(message)
    return message


def count_texts(special: SpecialIds, ids: Int64s, labels: Int64s | None) -> Int64s:
    """Count pair labels and tokens in a batch of examples.

    Args:
        special: The ids of the special tokens.
        ids: int64 [T], the token ids after masking.
        labels: int64 [B], the pair labels; None if there are none. Negative labels are ignored.

    Returns:
        int64 [4]: the number of pairs, of pairs with label 1, of tokens that are not special, and of [UNK] tokens among
        the latter.
    """
    ordinary = np.isin(ids, [special.pad, special.cls, special.sep, special.mask], invert=True).sum()
    some = labels[labels >= 0] if labels is not None else np.zeros(0, np.int64)
    return np.array([len(some), (some == 1).sum(), ordinary, (ids == special.unk).sum()])


def judge_texts(counts: Sequence[int]) -> list[str]:
    """Judge the labels and tokens of the first steps, and return warnings as sentences.

    Args:
        counts: The results of `count_texts`, summed over all processes.

    Raises:
        InputError: If the run cannot succeed.
    """
    pairs, ones, tokens, unknown = counts
    warnings = []
    share = ones / max(1, pairs)
    if pairs >= MIN_PAIRS and not BALANCED_SHARES[0] <= share <= BALANCED_SHARES[1]:
        same = share in (0.0, 1.0)
        tells = "there is nothing to distinguish" if same else "half of them are expected"
        warnings.append(
            refuse_or_warn(
                f"Of the first {pairs:,} pairs of segments {share:.0%} have the label 1: {tells}. Documents of a "
                "single segment have no second one that follows: give longer documents, or shards without pairs "
                f'(shards.input = "full-sentences"). {OFF_HINT}',
                same,
            )
        )
    share = unknown / max(1, tokens)
    if tokens >= MIN_TOKENS and share > WARN_UNKNOWN_SHARE:
        warnings.append(
            refuse_or_warn(
                f"Of the first {tokens:,} tokens {share:.0%} are [UNK]: the vocabulary lacks the characters of the "
                "text. Train one on this text (cloze vocabulary), with an alphabet that covers its script, and build "
                f"the shards again. {OFF_HINT}",
                share > MAX_UNKNOWN_SHARE,
            )
        )
    return warnings
