"""Reports of steps: a line of the log, and what the first steps show. A run that cannot succeed stops, and says why.

    tokens_per_second  real ones, over all processes; evaluations and checkpoints do not count
    wait_seconds       for examples, and `wait_share`: the part of the time that this was
    mfu                model FLOPs (`Macs`) as a share of what the devices could do; if their peak is known
    memory_bytes       of the first process: on a GPU the most that was allocated, on a processor what is resident

On a GPU the numbers are copied while the next step is computed, and the line is written when they arrive.

    stops     first weights whose loss is far from guessing by chance, or whose gradient is nothing or enormous; labels
              of pairs that are all the same; texts of which most tokens are [UNK]; shards of another vocabulary
    warns     what is rarely meant: weights of elsewhere that guess worse than by chance, labels far out of balance,
              many [UNK], a loss that has not fallen by the end of the first hundreds of steps

New weights know nothing, so they guess all of V tokens alike: a loss of ln V, or of ln 2 where there are two answers.
Logits of first weights deviate by 0.02 times the square root of the width at most, which adds half its square: 0.15 nat
at 768, 0.8 at 4,096. `FAR` is beyond all of them, and for weights that come from elsewhere only a warning: such may be
sure and wrong about new text for a while. Trained ones begin low, which is no fault of theirs.

Cost: two numbers of each of the first `FIRST_STEPS` steps are read at once, and one sum over all processes.
"""

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from shlex import quote
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from corpora.errors import InputError
from corpora.generic_types import Item
from corpora.kernels.arrays import Int64s
from corpora.store.workers.processes import resident_bytes
from trainer.families.contract import SpecialIds
from trainer.jobs.job import TrainingJob
from trainer.model.objective import peak_flops
from trainer.objectives.contract import Term
from trainer.settings.training import TrainingSettings
from trainer.training.learner import STEP_COUNTS, NonFinite, Step, StepOutcome
from trainer.training.parallel import Ranks

FIRST_STEPS = 8
TOKEN_TERM, PAIR_TERMS = "masked", ("pair", "replaced")  # with V answers, and with two
FAR = 3.0  # nats from chance; e^3: twenty times worse than guessing
ENOUGH = 16  # answers of a step, for its mean to be near what is expected
MOST_NORM = 1e4  # first gradients have a norm between 1 and 100
ENOUGH_PAIRS, ENOUGH_TOKENS = 128, 1_000
BALANCED = (0.1, 0.9)  # labels are drawn evenly; one document alone can bend that
MANY_UNKNOWN, MOST_UNKNOWN = 0.05, 0.5  # an English WordPiece vocabulary of 30,522 has 0.1 % on English text
FLAT_STEPS, FLAT = 300, 0.1  # nats: BERT at its published rates falls by more than 2 in as many steps
NAMED = 16  # examples of a shard set
PAIR = "pair"
OF_TEACHER = {"soft", "cosine"}
RECENT = 5  # lines of the log that a loss is averaged over
OFF = "If this is intended, set training.health_checks = false."


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
            figures["mfu"] = round(flops / seconds / (self._peak * self._ranks.count), 4)
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


class Symptom(NamedTuple):
    """A fault, in a paragraph. doomed: the run cannot succeed"""

    message: str
    doomed: bool


def stop_or_tell(findings: Sequence[Symptom]) -> Iterator[str]:
    """The warnings among findings. Raises InputError for the first that dooms the run, before any."""
    for finding in findings:
        if finding.doomed:
            raise InputError(finding.message)
    yield from (finding.message for finding in findings)


@dataclass(kw_only=True)
class Health:
    """Judges a run's first steps. Every process reads the same numbers, so all come to the same result.

    new_weights: the model begins with weights that were drawn
    terms:       names of the loss's terms
    warmup:      steps until the learning rate is at its highest
    """

    vocab_size: int
    special_ids: SpecialIds
    terms: Sequence[str]
    new_weights: bool
    warmup: int = 0
    _first: dict[str, float] = field(default_factory=dict)
    _recent: dict[str, list[float]] = field(default_factory=dict)
    _judged: bool = False

    def look(self, step: int, losses: Mapping[str, float], counts: Mapping[str, int], norm: float) -> list[Symptom]:
        """Return a step's symptoms. losses, counts: of each term, its mean and of how many; norm: of the gradient"""
        findings = [*self._at_first(losses, counts, norm)] if step == 1 else []
        if step == 1:
            self._first = {name: losses[name] for name in self.terms if name == TOKEN_TERM and counts[name]}
        for name in self._first:
            self._recent[name] = [*self._recent.get(name, []), losses[name]][-RECENT:]
        return [*findings, *self._flat(step)]

    def _at_first(self, losses: Mapping[str, float], counts: Mapping[str, int], norm: float) -> Iterator[Symptom]:
        for name in self.terms:
            chance = math.log(self.vocab_size) if name == TOKEN_TERM else math.log(2)
            if name in (TOKEN_TERM, *PAIR_TERMS) and counts[name] >= ENOUGH:
                yield from self._of_chance(name, losses[name], chance)
        if norm == 0 and any(counts.values()):
            yield Symptom(
                "The gradient of the first step is zero: nothing would be learned. Check the weights of the "
                f"objective's terms and at what is frozen. {OFF}",
                True,
            )
        if math.isfinite(norm) and norm > MOST_NORM:
            yield Symptom(
                f"The gradient of the first step has the norm {norm:,.0f}, where 1 to 100 is usual: something is "
                f"wrong with the weights that training begins with. {OFF}",
                self.new_weights,
            )

    def _of_chance(self, name: str, loss: float, chance: float) -> Iterator[Symptom]:
        """Compare a first loss with guessing by chance."""
        comparison = f"The {name} loss of the first step is {loss:.2f}, and guessing by chance costs {chance:.2f}"
        if not self.new_weights and loss > chance + FAR:
            yield Symptom(
                f"{comparison}: the weights that training begins with are sure of wrong answers. Do they belong to "
                "this vocabulary, with every token at its own row? If the text only differs from what they were "
                "trained on, the loss falls soon.",
                False,
            )
        if self.new_weights and abs(loss - chance) > FAR:
            yield Symptom(
                f"{comparison}: new weights are near that. Either they are not drawn as the family draws them, or the "
                f"loss is not divided by what it is summed over. {OFF}",
                True,
            )

    def _flat(self, step: int) -> Iterator[Symptom]:
        """Yield a symptom for each loss that has not fallen by now; judged once, when the rate is at its highest."""
        if self._judged or not self._first or step < max(FLAT_STEPS, self.warmup):
            return
        self._judged = True
        for name, first in self._first.items():
            now = fmean(self._recent[name])
            if now > first - FLAT:
                yield Symptom(
                    f"The {name} loss was {first:.2f} at the first step and is {now:.2f} after {step:,}: nothing has "
                    "been learned so far. Check training.learning_rate (published ones are between 1e-4 and 1e-3 for "
                    "new weights), the warm-up, and some examples: cloze inspect shows the shards' masks.",
                    False,
                )


def counted_texts(special: SpecialIds, ids: Int64s, labels: Int64s | None) -> Int64s:
    """Return the counts of examples as the model reads them: masked tokens are left out, and so are labels below 0."""
    ordinary = np.isin(ids, [special.pad, special.cls, special.sep, special.mask], invert=True).sum()
    some = labels[labels >= 0] if labels is not None else np.zeros(0, np.int64)
    return np.array([len(some), (some == 1).sum(), ordinary, (ids == special.unk).sum()])


def judged_texts(counts: Sequence[int]) -> list[Symptom]:
    """Return the symptoms that the counts of all processes, added up, show."""
    pairs, ones, tokens, unknown = counts
    return [*_balance(pairs, ones), *_unknown(tokens, unknown)]


def _balance(pairs: int, ones: int) -> Iterator[Symptom]:
    share = ones / max(1, pairs)
    if pairs >= ENOUGH_PAIRS and not BALANCED[0] <= share <= BALANCED[1]:
        same = share in (0.0, 1.0)
        tells = "there is nothing to distinguish" if same else "half of them are expected"
        yield Symptom(
            f"Of the first {pairs:,} pairs of segments {share:.0%} have the label 1: {tells}. Documents of a single "
            "segment have no second one that follows: give longer documents, or shards without pairs (shards.input = "
            f'"full-sentences"). {OFF}',
            same,
        )


def _unknown(tokens: int, unknown: int) -> Iterator[Symptom]:
    share = unknown / max(1, tokens)
    if tokens >= ENOUGH_TOKENS and share > MANY_UNKNOWN:
        yield Symptom(
            f"Of the first {tokens:,} tokens {share:.0%} are [UNK]: the vocabulary lacks the characters of the text. "
            "Train one on this text (cloze vocabulary), with an alphabet that covers its script, and build the "
            f"shards again. {OFF}",
            share > MOST_UNKNOWN,
        )


def check_vocabulary(job: TrainingJob) -> None:
    """Raise InputError where shards are of another vocabulary than the model. Reads their manifests."""
    for manifest in job.shard_sets:
        made_with = {parent.fingerprint for parent in manifest.parents if parent.role == "vocabularies"}
        ids = SpecialIds.of(manifest.facts["special_ids"])
        of_another = made_with and job.vocabulary.folder.rsplit("/", 1)[-1] not in made_with
        if of_another or manifest.facts["vocab_size"] != job.inputs.vocab_size or ids != job.inputs.special_ids:
            raise InputError(
                f"The shards {manifest.folder} have a different vocabulary ({manifest.facts['vocab_size']:,} tokens) "
                f"from the model ({job.inputs.vocab_size:,} tokens, {job.vocabulary.name!r}): build shards with the "
                "model's, or plan the training again."
            )


def joined_examples(by_process: Sequence[Mapping[str, Sequence[int]]]) -> dict[str, list[int]]:
    """Join the examples that processes name, by the folder of their shards."""
    folders = dict.fromkeys(folder for named in by_process for folder in named)
    return {folder: sorted(number for named in by_process for number in named.get(folder, ())) for folder in folders}


def examples_said(store: str, examples: Mapping[str, Sequence[int]], of_loss: bool) -> str:
    """Which examples a step read, and how to look at one. of_loss: it is of these alone that a loss was not finite

    >>> examples_said("store", {"shards/small/0f": [3, 14]}, True)
    'Its loss was of the examples 3, 14 of shards/small/0f: cloze trace store/shards/small/0f 3'
    >>> examples_said("my store", {"shards/small/0f": [3]}, True)
    "Its loss was of the examples 3 of shards/small/0f: cloze trace 'my store/shards/small/0f' 3"
    """
    listed = [
        f"{', '.join(map(str, numbers[:NAMED]))}{f' and {len(numbers) - NAMED} more' if len(numbers) > NAMED else ''} "
        f"of {folder}: cloze trace {quote(f'{store}/{folder}')} {numbers[0]}"
        for folder, numbers in examples.items()
    ]
    return f"{'Its loss was of' if of_loss else 'Its losses were finite; it read'} the examples {'; '.join(listed)}"


class FirstSteps:
    """The first steps of a run, looked at by all processes together; nothing without `health`.

    counts: int64, of the examples that this process read: pairs, those of label 1, ordinary tokens, [UNK] among them
    """

    def __init__(self, ranks: Ranks, health: Health | None = None, judged_at: int = 0) -> None:
        self._ranks, self._health, self._judged_at = ranks, health, judged_at
        self.counts: Int64s = np.zeros(4, np.int64)

    @staticmethod
    def of(job: TrainingJob, terms: Sequence[Term], ranks: Ranks) -> "FirstSteps":
        """Make the checks of a job's run."""
        if not job.training.health_checks:
            return FirstSteps(ranks)
        health = Health(
            vocab_size=job.inputs.vocab_size,
            special_ids=job.inputs.special_ids,
            terms=[term.name for term in terms],
            new_weights=has_new_weights(job, terms),
            warmup=job.training.warmup_steps,
        )
        return FirstSteps(ranks, health, min(FIRST_STEPS, job.training.steps))

    def wants(self, step: int) -> bool:
        """True if a step is to be checked, whether or not it has a line in the log."""
        return step <= self._judged_at

    def read(self, step: Step) -> None:
        """Count the examples of a step, if it is one of the first."""
        if self._health is not None and self.wants(step.number):
            for micro_batch in step.micro_batches:
                labels = micro_batch.batch.targets.get(PAIR)
                ids = micro_batch.batch.ids.numpy()
                self.counts += counted_texts(self._health.special_ids, ids, None if labels is None else labels.numpy())

    def look(self, noted: Noted, losses: Mapping[str, float], norm: float) -> Iterator[str]:
        """Yield warnings about a step. Raises InputError where the run cannot succeed. All must call it.

        losses: as `losses_of`; norm: of the gradient
        """
        if self._health is None:
            return
        number, counts = noted.step.number, noted.step.counts[len(STEP_COUNTS) :].tolist()
        of_terms = {name: losses[f"{name}_loss"] for name in self._health.terms}
        findings = self._health.look(number, of_terms, dict(zip(of_terms, counts, strict=True)), norm)
        if number == self._judged_at:
            findings += judged_texts(self._ranks.total(self.counts.tolist()))
        yield from stop_or_tell(findings)


def has_new_weights(job: TrainingJob, terms: Sequence[Term]) -> bool:
    """True if a run begins with untrained weights: not those of another model, and not a teacher's layers."""
    return job.start is None and not OF_TEACHER & {term.name for term in terms}
