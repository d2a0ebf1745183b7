"""A phase of a training run: its length, its batch sizes, the shards it reads, and its learning rate. No torch.

    warm-up ─► peak ─► decay ─► end rate         (a stretch: consecutive phases that share one schedule)

The learning rate and the slots of a step depend only on its index, so they need not be saved. The rate rises linearly,
and reaches its peak at the step after the warm-up. The `Schedule` determines what follows. The end rate would apply to
the step after the last one, so no step is wasted even if it is zero.

Cost: counting the slots before a step takes as many divisions as the numbers have digits, however long a batch grows.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from types import MappingProxyType

from corpora.errors import InputError
from corpora.store.settings import check_choice, check_range, later_field, limit_field

MAX_STEPS = 1 << 40
DECAY_SHARE = 0.1  # of a "wsd" that does not set how long it falls

# which kinds a key means something to
_KINDS_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kind": ("linear", "polynomial", "cosine", "constant", "wsd"),
        "power": ("polynomial",),
        "decay_from": ("linear", "polynomial", "cosine"),
        "decay_steps": ("wsd",),
        "decay_share": ("wsd",),
        "decay": ("wsd",),
        "final_share": ("linear", "polynomial", "cosine", "wsd"),
    }
)
KINDS = _KINDS_OF["kind"]
MAX_TOKENS = 10**15
_TOKENS = re.compile(r"(\d{1,18}(?:\.\d{1,18})?) ?([kmbgt]?)", re.IGNORECASE | re.ASCII)
_SCALES: Mapping[str, int] = MappingProxyType({"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12})


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The learning rate after the warm-up, written as `schedule = "cosine"` or as a table with more settings.

    kind:        "linear"; "polynomial": the remaining share of the steps to a power; "cosine": half a wave; "constant";
                 "wsd": constant, then a decay at the end (warm-up, stable, decay)
    power:       the exponent of "polynomial"
    decay_from:  when "linear", "polynomial" and "cosine" begin to fall: "warmup", at its end; "start", at step 0, as
                 in the code of BERT's authors: then the rate is below the peak when the warm-up ends
    decay_steps: number of steps at the end in which "wsd" falls
    decay_share: the length of this decay as a share of the steps; 0.1 if neither is given
    decay:       how "wsd" falls: "1-sqrt" (Hägele et al. 2024) or "linear"
    final_share: the rate at the end, as a share of the peak
    """

    kind: str = "linear"
    power: float = 1.0
    decay_from: str = "warmup"
    decay_steps: int | None = None
    decay_share: float | None = None
    decay: str = "1-sqrt"
    final_share: float = 0.0

    def __post_init__(self) -> None:
        check_choice("schedule.kind", self.kind, KINDS)
        check_choice("schedule.decay_from", self.decay_from, ("warmup", "start"))
        check_choice("schedule.decay", self.decay, ("1-sqrt", "linear"))
        check_range("schedule.power", self.power, 1e-3, 1e3)
        check_range("schedule.final_share", self.final_share, 0, 1)
        if self.decay_steps is not None:
            check_range("schedule.decay_steps", self.decay_steps, 1, MAX_STEPS)
        if self.decay_share is not None:
            check_range("schedule.decay_share", self.decay_share, 1e-9, 1)
        if self.decay_steps is not None and self.decay_share is not None:
            raise InputError("schedule has decay_steps and decay_share: leave out one of them.")
        for each in fields(self):
            if getattr(self, each.name) != each.default and self.kind not in _KINDS_OF[each.name]:
                raise InputError(
                    f"schedule.{each.name} has no meaning for the kind {self.kind!r}: leave it out, or choose "
                    f"{' or '.join(map(repr, _KINDS_OF[each.name]))}."
                )

    @staticmethod
    def from_recipe(given: "str | Schedule") -> "Schedule":
        """Build the schedule for a recipe's value: a kind such as "cosine", or a schedule, which is returned as is.

        Raises:
            InputError: If the kind is unknown.
        """
        return Schedule(kind=given) if isinstance(given, str) else given

    def count_decay_steps(self, steps: int) -> int:
        """Return the number of steps at the end in which "wsd" decays. `steps` is the total number of steps."""
        if self.decay_steps is not None:
            return self.decay_steps
        return max(1, round((DECAY_SHARE if self.decay_share is None else self.decay_share) * steps))

    def compute_height(self, left: float) -> float:
        """Compute the learning rate during its decay on a scale from 1 (the peak) to 0 (the end rate).

        `left` is the remaining fraction of the decay's steps: 1 at its first step, 0 after the last.

        >>> Schedule(kind="wsd").compute_height(0.75), Schedule(kind="polynomial", power=2).compute_height(0.5)
        (0.5, 0.25)
        """
        if self.kind == "wsd" and self.decay == "1-sqrt":
            return 1 - math.sqrt(1 - left)
        if self.kind == "cosine":
            return (1 - math.cos(math.pi * left)) / 2
        return float(left**self.power)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Consecutive steps of a run that share one learning-rate schedule.

    Attributes:
        first: Zero-based index of the first step within the run.
        steps: The number of steps.
        peak: The maximum learning rate.
        warmup: The number of steps in which the learning rate rises.
        schedule: The schedule of the learning rate after the warm-up.
    """

    first: int
    steps: int
    peak: float
    warmup: int
    schedule: Schedule

    def __post_init__(self) -> None:
        falling = self.schedule.count_decay_steps(self.steps) if self.schedule.kind == "wsd" else 0
        if self.warmup + falling > self.steps:
            ends = f" and its decay (decay_steps = {falling})" if falling else ""
            raise InputError(
                f"The schedule that begins at step {self.first:,} of the training has {self.steps:,} steps, and its "
                f"warm-up (warmup_steps = {self.warmup}){ends} does not fit into them: make it shorter, in [training] "
                "or in the phase that sets it, or give the phases more steps."
            )

    def compute_rate(self, step: int) -> float:
        """Compute the learning rate of a step, in the warm-up or after it. `step` is zero-based within the run."""
        done, schedule = step - self.first, self.schedule
        if done < self.warmup:
            return self.peak * (done + 1) / (self.warmup + 1)
        if schedule.kind == "constant":
            return self.peak
        left, falling = max(0, self.steps - done), self.num_falling
        if left >= falling and schedule.kind == "wsd":
            return self.peak
        if schedule.kind == "linear" and not schedule.final_share:
            return self.peak * left / falling
        return self.peak * (schedule.final_share + (1 - schedule.final_share) * schedule.compute_height(left / falling))

    @property
    def num_falling(self) -> int:
        """The number of steps over which the learning rate decreases.

        If the decrease starts at step 0, the warm-up is included.
        """
        if self.schedule.kind == "wsd":
            return self.schedule.count_decay_steps(self.steps)
        return self.steps if self.schedule.decay_from == "start" else max(1, self.steps - self.warmup)


def check_rate(table: str, rate: float, warmup_steps: int | None, warmup_share: float | None) -> None:
    """Check the learning rate and the warm-up of a recipe's table.

    Args:
        table: The name of the table, for messages.
        rate: The peak learning rate.
        warmup_steps: The number of warm-up steps; None if not set.
        warmup_share: The warm-up as a share of the steps; None if not set.

    Raises:
        InputError: If a value is out of range, or if both forms of the warm-up are set and not 0.
    """
    check_range(f"{table}.learning_rate", rate, 0, 10)
    check_range(f"{table}.warmup_steps", warmup_steps or 0, 0, MAX_STEPS)
    check_range(f"{table}.warmup_share", warmup_share or 0, 0, 1)
    if warmup_steps and warmup_share:
        raise InputError(f"{table} has warmup_steps and warmup_share: leave out one of them.")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRamp:
    """The growth of a phase's batch: `batch_ramp = { first = 768, tokens = "50B" }`.

    first:    number of examples in the first step
    steps:    number of steps until the batch reaches the phase's `batch`; until then it grows linearly
    tokens:   instead of `steps`, the number of tokens that are read until then: a whole number, or a text as in "50B"
    multiple: the batch grows by multiples of this number of examples
    """

    first: int
    steps: int = 0
    tokens: int | str | None = limit_field(None)  # what decides the weights is the steps that it becomes
    multiple: int = 1

    def __post_init__(self) -> None:
        where = "training.phase.batch_ramp"
        check_range(f"{where}.first", self.first, 1, 1 << 24)
        check_range(f"{where}.multiple", self.multiple, 1, 1 << 24)
        check_range(f"{where}.steps", self.steps, 0, MAX_STEPS)
        if bool(self.steps) == (self.tokens is not None):
            raise InputError(f"{where} needs `steps` or `tokens` for how long the batch grows: give one of them.")

    def check_batch(self, batch: int) -> None:
        """Raise InputError if the batch cannot grow from `first` to this size in multiples of `multiple`."""
        if self.first > batch or (batch - self.first) % self.multiple:
            raise InputError(
                f"training.phase.batch_ramp.first = {self.first} does not lead to batch = {batch} by multiples of "
                f"{self.multiple} examples: the batch grows from `first` to `batch`, by a multiple of `multiple`."
            )

    def compute_size(self, step: int, batch: int) -> int:
        """Compute the number of examples of a step, which grows from `first` to `batch`.

        `step` is zero-based within the phase, and `batch` is the final batch size.
        """
        if step >= self.steps:
            return batch
        return self.first + self.multiple * ((batch - self.first) // self.multiple * step // self.steps)

    def count_examples_before(self, step: int, batch: int) -> int:
        """Count the examples in all steps before a given one.

        `step` is zero-based within the phase, and `batch` is the final batch size.
        """
        rising = min(step, self.steps)
        levels = (batch - self.first) // self.multiple
        grown = self.multiple * sum_floors(rising, levels, self.steps) if rising else 0
        return self.first * rising + grown + batch * (step - rising)


def sum_floors(number: int, factor: int, divisor: int) -> int:
    """Compute the sum of `i * factor // divisor` for i from 0 to number - 1, in logarithmic time.

    >>> sum_floors(5, 3, 4), sum(i * 3 // 4 for i in range(5))
    (6, 6)
    """
    total, offset = 0, 0
    while True:
        total += number * (number - 1) // 2 * (factor // divisor) + number * (offset // divisor)
        factor, offset = factor % divisor, offset % divisor
        top = factor * number + offset
        if top < divisor:
            return total
        number, offset = divmod(top, divisor)
        factor, divisor = divisor, factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The amount that a phase reads of one component of its mixture.

    tokens: number of tokens, including special tokens: a whole number, or a text as in "10B" (k, M, B, T)
    """

    tokens: int | str

    def __post_init__(self) -> None:
        _ = self.number

    @property
    def number(self) -> int:
        """The quota as a number of tokens. Raises InputError if the value cannot be parsed."""
        return parse_tokens("training.phase.mixture: tokens", self.tokens)


def parse_tokens(key: str, value: int | str) -> int:
    """Parse a number of tokens in a recipe: a whole number, or a text with the unit k, M, B or T (G is the same as B).

    Raises:
        InputError: If the value is not a whole number of tokens from 1 to 10^15. The message names `key`.

    >>> parse_tokens("tokens", "1.5k")
    1500
    """
    match = _TOKENS.fullmatch(str(value).strip())
    number = Fraction(match[1]) * _SCALES[match[2].lower()] if match else Fraction(0)
    if number.denominator != 1 or not 1 <= number <= MAX_TOKENS:
        raise InputError(
            f"{key} = {value!r} is not a number of tokens: write a whole number from 1 to a quadrillion, as in "
            '10_000_000_000 or "10B" (k, M, B, T).'
        )
    return int(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSettings:
    """One `[[training.phase]]`: a number of steps on one set of shards, or on a mixture of several.

    steps:      number of steps; 0 if `tokens`, `epochs` or the quotas of the mixture determine it
    tokens:     instead of `steps`: number of tokens to read, including special tokens, as in "10B"
    epochs:     instead of `steps`: number of passes over the shards
    batch:      number of examples of a step, over all processes and micro-batches
    batch_ramp: how the batch grows to `batch` in the first steps: `{ first = 32, steps = 1_000 }`
    mask_rate:  share of tokens to mask, instead of the share set for the shards. Their masks must be dynamic. Held-out
                examples keep theirs, so that the losses of all phases can be compared
    shards:     name of the `[[shards]]` to read; None if there is only one
    mixture:    names of several `[[shards]]`, each with its weight (`{ wiki = 0.7, books = 0.3 }`: shares of the
                examples) or with its quota (`{ wiki = { tokens = "10B" }, books = { tokens = "3B" } }`)
    max_epochs: maximum number of passes over any of its shards until the phase ends, including those of earlier phases;
                None: as in `[training]`
    learning_rate: peak learning rate. If a phase sets this or one of the next three keys, a new learning-rate schedule
                starts with it, and lasts until the next phase that sets one. None: as in `[training]`
    schedule:   how that learning rate changes after the peak; None: as in `[training]`
    warmup_steps: number of steps in which that learning rate rises to the peak; None: none, or as in `[training]` in
                the first phase
    warmup_share: length of that warm-up as a share of the schedule's steps, instead of `warmup_steps`
    weight_decay: as in `[training]`, for this phase
    """

    steps: int = 0
    batch: int = 32
    tokens: int | str | None = limit_field(None)  # what decides the weights is the steps that these two become
    epochs: float | None = limit_field(None)
    shards: str | None = limit_field(
        None
    )  # a name; what decides the weights is the content, which the model's stage adds
    mixture: Mapping[str, float | Quota] | None = limit_field(None)  # likewise; the stage adds contents and shares
    max_epochs: float | None = limit_field(None)
    learning_rate: float | None = later_field(None)
    schedule: str | Schedule | None = field(default=None, metadata={"neutral": None})
    warmup_steps: int | None = later_field(None)
    warmup_share: float | None = later_field(None)
    weight_decay: float | None = later_field(None)
    batch_ramp: BatchRamp | None = field(default=None, metadata={"neutral": None})
    mask_rate: float | None = later_field(None)

    def __post_init__(self) -> None:
        check_range("training.phase.batch", self.batch, 1, 1 << 24)
        if self.mask_rate is not None:
            check_range("training.phase.mask_rate", self.mask_rate, 1e-6, 1)
        if self.batch_ramp is not None:
            self.batch_ramp.check_batch(self.batch)
            if self.batch_ramp.tokens is not None:
                _ = parse_tokens("training.phase.batch_ramp.tokens", self.batch_ramp.tokens)
        check_rate("training.phase", self.learning_rate or 0, self.warmup_steps, self.warmup_share)
        check_range("training.phase.weight_decay", self.weight_decay or 0, 0, 1)
        _ = Schedule.from_recipe(self.schedule or "linear")
        if self.mixture is not None:
            self._check_mixture(self.mixture)
        if self.max_epochs is not None:
            check_range("training.phase.max_epochs", self.max_epochs, 1e-6, 1e12)
        self._check_length()

    def _check_length(self) -> None:
        """Raise InputError unless exactly one of `steps`, `tokens`, `epochs` and quotas determines the number of steps.

        Quotas and `steps` may both be set, because the steps of a phase with quotas are computed later.
        """
        if self.steps or not (self.quotas or self.tokens is not None or self.epochs is not None):
            check_range(
                "training.phase.steps", self.steps, 1, MAX_STEPS,
                "" if self.steps else ": set the length of the phase, in `steps`, in `tokens` or in `epochs` of "
                "its shards; only a mixture of quotas in tokens sets it itself.",
            )  # fmt: skip
        lengths = {"tokens": self.tokens, "epochs": self.epochs, "steps": self.steps or None}
        given = [name for name, value in lengths.items() if value is not None]
        if self.quotas and given != ["steps"]:
            given.append("a mixture of quotas")
        if len(given) > 1:
            raise InputError(f"training.phase has {' and '.join(given)}: only one of them may set its length.")
        if self.tokens is not None:
            _ = parse_tokens("training.phase.tokens", self.tokens)
        if self.epochs is not None:
            check_range("training.phase.epochs", self.epochs, 1e-6, 1e9)
            if self.mixture is not None:
                raise InputError(
                    "training.phase has `epochs` and a `mixture`, whose shards have epochs of their own: give its "
                    "length in `steps` or `tokens`, and with `max_epochs` how often any of them may be read."
                )

    def compute_size(self, step: int) -> int:
        """Return the number of examples of a step, including the effect of `batch_ramp`.

        `step` is zero-based within the phase.
        """
        return self.batch if self.batch_ramp is None else self.batch_ramp.compute_size(step, self.batch)

    def count_slots_before(self, step: int) -> int:
        """Count the slots (positions in the training order) of all steps before `step`, zero-based within the phase."""
        return self.batch * step if self.batch_ramp is None else self.batch_ramp.count_examples_before(step, self.batch)

    def get_step_slots(self, step: int, first: int = 0) -> range:
        """Return the slots (positions in the training order) of a step.

        Args:
            step: The zero-based index of the step within the phase.
            first: The first slot of the phase.
        """
        begin = first + self.count_slots_before(step)
        return range(begin, begin + self.compute_size(step))

    @property
    def slots(self) -> int:
        """The total number of slots (positions in the training order) of the phase."""
        return self.count_slots_before(self.steps)

    def count_steps(self, slots: int) -> int:
        """Count the steps that read a number of slots (positions in the training order), rounded up."""
        rising = 0 if self.batch_ramp is None else self.batch_ramp.steps
        if slots >= self.count_slots_before(rising):
            return rising - (self.count_slots_before(rising) - slots) // self.batch
        return bisect_left(range(rising), slots, key=self.count_slots_before)

    def check_steps(self, table: str, shards: str, batch: int | None) -> None:
        """Raise InputError if the schedule of the masks was made for steps of another size than the phase has.

        Args:
            table: The recipe table's name, for messages.
            shards: The name of the shard set, for messages.
            batch: The number of examples per step in the schedule of the masks; None if the masks do not change by
                steps.
        """
        if batch is None:
            return
        if self.batch_ramp is not None:
            raise InputError(
                f"{table} has a batch_ramp, but the masks of the shards {shards or 'that it reads'} change by steps of "
                'one size: let shards.masking.schedule go by = "epoch".'
            )
        if self.mixture is not None:
            raise InputError(
                f"{table} reads the shards {shards!r} in a mixture, but their masks change by the step, and a mixture "
                'reads another number of their examples in each: let shards.masking.schedule go by = "epoch".'
            )
        if batch != self.batch:
            raise InputError(
                f"{table}.batch = {self.batch}, but the masks of the shards {shards or 'that it reads'} change by "
                f"steps of shards.masking.schedule.batch = {batch} examples: make them equal."
            )

    def check_mask_rate(self, table: str, shards: str, kind: str, scheduled: bool) -> None:
        """Raise InputError if the mask rate of the phase cannot be applied to the shards.

        Args:
            table: The recipe table's name, for messages.
            shards: The name of the shard set, for messages.
            kind: The kind of masks. Only the rate of "dynamic" masks can be changed.
            scheduled: True if the masks follow a schedule.
        """
        if self.mask_rate is None:
            return
        what = "change by shards.masking.schedule" if scheduled else f"are {kind}, as their shards.masking.kind says"
        if scheduled or kind != "dynamic":
            raise InputError(
                f"{table}.mask_rate = {self.mask_rate}, but the masks of the shards {shards or 'that it reads'} {what}"
                ": leave mask_rate out, or let them be dynamic, without a schedule."
            )

    @property
    def begins_schedule(self) -> bool:
        """True if the phase starts a new learning-rate schedule, because it sets a value of the schedule."""
        values = (self.learning_rate, self.schedule, self.warmup_steps, self.warmup_share)
        return any(value is not None for value in values)

    def _check_mixture(self, mixture: Mapping[str, float | Quota]) -> None:
        """Check a phase's mixture, which maps names of shard sets to weights or quotas.

        Raises:
            InputError: If the mixture is empty, mixes weights and quotas, has a weight out of range, or if `shards` is
                also set.
        """
        if self.shards is not None:
            raise InputError(f"training.phase has `shards` = {self.shards!r} and a `mixture`: leave out one of them.")
        if not mixture:
            raise InputError("training.phase.mixture is empty: name [[shards]] with their weights, or leave it out.")
        if len({isinstance(part, Quota) for part in mixture.values()}) > 1:
            raise InputError("training.phase.mixture has weights and quotas of tokens: give every component one kind.")
        for name, part in mixture.items():
            if not isinstance(part, Quota) and not 1e-6 <= part <= 1e6:
                raise InputError(
                    f"training.phase.mixture.{name} = {part}: a weight is between 1e-06 and 1e6; leave out a "
                    "component that should not be read."
                )

    @property
    def quotas(self) -> tuple[int, ...]:
        """The quota of each component in tokens, in the mixture's order; empty without quotas."""
        return tuple(part.number for part in (self.mixture or {}).values() if isinstance(part, Quota))

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """The weight of each component as an exact fraction, in the mixture's order; empty without weights."""
        parts = (self.mixture or {}).values()
        return tuple(Fraction(repr(part)) for part in parts if not isinstance(part, Quota))
