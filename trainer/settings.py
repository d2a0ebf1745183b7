"""What a training run is asked to do: its phases, the optimiser. Standard library only, no torch.

Every field that decides the weights enters the fingerprint of the model; a field marked `limit()` (how many
processes, how a step is cut, how often a checkpoint is written) does not. Some of these change the weights by rounding,
and by what dropout draws.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType

from corpora.errors import InputError
from corpora.store.settings import added, check_choice, check_range, limit
from trainer.ramps import BatchRamp
from trainer.schedules import MOST_STEPS, Schedule, Stretch

MOST_TOKENS = 10**15
_TOKENS = re.compile(r"(\d{1,18}(?:\.\d{1,18})?) ?([kmbgt]?)", re.IGNORECASE | re.ASCII)
_SCALES: Mapping[str, int] = MappingProxyType({"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12})

PRECISIONS = ("float32", "bfloat16", "float16")
OPTIMIZERS = ("adamw", "lamb", "stable-adamw")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a phase reads of one component of its mixture.

    tokens: so many, those of specials included: a whole number, or a text as in "10B" (k, M, B, T)
    """

    tokens: int | str

    def __post_init__(self) -> None:
        _ = self.number

    @property
    def number(self) -> int:
        """How many tokens. Raises InputError."""
        return num_tokens("training.phase.mixture: tokens", self.tokens)


def num_tokens(key: str, said: int | str) -> int:
    """A number of tokens, as a recipe writes it. Raises InputError.

    >>> num_tokens("tokens", "1.5k")
    1500
    """
    found = _TOKENS.fullmatch(str(said).strip())
    number = Fraction(found[1]) * _SCALES[found[2].lower()] if found else Fraction(0)
    if number.denominator != 1 or not 1 <= number <= MOST_TOKENS:
        raise InputError(
            f"{key} = {said!r} is no number of tokens: write a whole number from 1 to a quadrillion, as in "
            '10_000_000_000 or "10B" (k, M, B, T).'
        )
    return int(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSettings:
    """One `[[training.phase]]`: so many steps on one set of shards, or on a mixture of several.

    steps:      how many; 0 for as many as `tokens`, `epochs` or the quotas of its mixture take
    tokens:     in place of `steps`: tokens to be read, those of specials included, as in "10B"
    epochs:     in place of `steps`: how often its shards are read
    batch:      examples of a step, over all processes and micro-batches
    batch_ramp: how the batch grows to that in the first steps: `{ first = 32, steps = 1_000 }`
    mask_rate:  share of tokens to guess, in place of that of its shards, whose masks must be dynamic; held-out examples
                keep theirs, so that the losses of all phases compare
    shards:     name of the `[[shards]]` to read; None for the only one
    mixture:    names of several `[[shards]]`, each with its weight (`{ wiki = 0.7, books = 0.3 }`: parts of the
                examples) or with its quota (`{ wiki = { tokens = "10B" }, books = { tokens = "3B" } }`)
    max_epochs: how often any of its shards may have been read when it ends, earlier phases included; None: as often as
                it takes
    learning_rate: the peak of a schedule that begins with this phase and lasts until another phase begins one: a phase
                that has one of these four keys does
    schedule:   of the same, as in `[training]`; None: that of `[training]`
    warmup_steps: steps of the same in which the rate rises; None: it does not, but in the first phase as `[training]`
                says
    warmup_share: such steps as a share of the schedule's
    weight_decay, precision: as in `[training]`, for this phase
    """

    steps: int = 0
    batch: int = 32
    tokens: int | str | None = limit(None)  # what decides the weights is the steps that these two become
    epochs: float | None = limit(None)
    shards: str | None = limit(None)  # a name; what decides the weights is the content, which the model's stage adds
    mixture: Mapping[str, float | Quota] | None = limit(None)  # likewise; the stage adds contents and shares
    max_epochs: float | None = limit(None)
    learning_rate: float | None = added(None)
    schedule: str | Schedule | None = field(default=None, metadata={"neutral": None})
    warmup_steps: int | None = added(None)
    warmup_share: float | None = added(None)
    weight_decay: float | None = added(None)
    batch_ramp: BatchRamp | None = field(default=None, metadata={"neutral": None})
    mask_rate: float | None = added(None)
    precision: str | None = added(None)

    def __post_init__(self) -> None:
        check_range("training.phase.batch", self.batch, 1, 1 << 24)
        if self.precision is not None:
            check_choice("training.phase.precision", self.precision, PRECISIONS)
        if self.mask_rate is not None:
            check_range("training.phase.mask_rate", self.mask_rate, 1e-6, 1)
        if self.batch_ramp is not None:
            self.batch_ramp.check_batch(self.batch)
            if self.batch_ramp.tokens is not None:
                _ = num_tokens("training.phase.batch_ramp.tokens", self.batch_ramp.tokens)
        _check_rate("training.phase", self.learning_rate or 0, self.warmup_steps, self.warmup_share)
        _check_decay("training.phase", self.weight_decay or 0)
        _ = Schedule.of(self.schedule or "linear")
        if self.mixture is not None:
            self._check_mixture(self.mixture)
        if self.max_epochs is not None:
            check_range("training.phase.max_epochs", self.max_epochs, 1e-6, 1e9)
        self._check_length()

    def _check_length(self) -> None:
        """Raise InputError unless it is known, or will be, how many steps there are."""
        if self.steps or not (self.quotas or self.tokens is not None or self.epochs is not None):
            check_range(
                "training.phase.steps", self.steps, 1, MOST_STEPS,
                "" if self.steps else ": say how long the phase is, in `steps`, in `tokens` or in `epochs` of its "
                "shards; only a mixture of quotas in tokens knows it.",
            )  # fmt: skip
        said = {"tokens": self.tokens, "epochs": self.epochs, "steps": self.steps or None}
        given = [name for name, value in said.items() if value is not None]
        if self.quotas and given != ["steps"]:
            given.append("a mixture of quotas")
        if len(given) > 1:
            raise InputError(f"training.phase has {' and '.join(given)}: one of them says how long it is.")
        if self.tokens is not None:
            _ = num_tokens("training.phase.tokens", self.tokens)
        if self.epochs is not None:
            check_range("training.phase.epochs", self.epochs, 1e-6, 1e9)
            if self.mixture is not None:
                raise InputError(
                    "training.phase has `epochs` and a `mixture`, whose shards have epochs of their own: say its "
                    "length in `steps` or `tokens`, and with `max_epochs` how often any of them may be read."
                )

    def size(self, step: int) -> int:
        """Examples of a step of the phase, counted from 0."""
        return self.batch if self.batch_ramp is None else self.batch_ramp.size(step, self.batch)

    def slots_before(self, step: int) -> int:
        """Examples of the steps of the phase before one of them."""
        return self.batch * step if self.batch_ramp is None else self.batch_ramp.before(step, self.batch)

    def step_slots(self, step: int, first: int = 0) -> range:
        """The slots of a step of the phase, where those of the phase begin at `first`."""
        begin = first + self.slots_before(step)
        return range(begin, begin + self.size(step))

    @property
    def slots(self) -> int:
        """Of all steps."""
        return self.slots_before(self.steps)

    def steps_of(self, slots: int) -> int:
        """The steps that so many slots take."""
        rising = 0 if self.batch_ramp is None else self.batch_ramp.steps
        if slots >= self.slots_before(rising):
            return rising - (self.slots_before(rising) - slots) // self.batch
        return bisect_left(range(rising), slots, key=self.slots_before)

    def check_steps(self, where: str, shards: str, batch: int | None) -> None:
        """Raise InputError where masks go by other steps. batch: examples of a step of theirs; None: by the epoch"""
        if batch is None:
            return
        if self.batch_ramp is not None:
            raise InputError(
                f"{where} has a batch_ramp, but the masks of the shards {shards or 'that it reads'} change by steps of "
                'one size: let shards.masking.schedule go by = "epoch".'
            )
        if self.mixture is not None:
            raise InputError(
                f"{where} reads the shards {shards!r} in a mixture, but their masks change by the step, and a mixture "
                'reads another number of their examples in each: let shards.masking.schedule go by = "epoch".'
            )
        if batch != self.batch:
            raise InputError(
                f"{where}.batch = {self.batch}, but the masks of the shards {shards or 'that it reads'} change by "
                f"steps of shards.masking.schedule.batch = {batch} examples: make them equal."
            )

    def check_mask_rate(self, where: str, shards: str, kind: str, scheduled: bool) -> None:
        """Raise InputError where masks of shards cannot have the rate of the phase. kind: of the masks"""
        if self.mask_rate is None:
            return
        what = "change by shards.masking.schedule" if scheduled else f"are {kind}, as their shards.masking.kind says"
        if scheduled or kind != "dynamic":
            raise InputError(
                f"{where}.mask_rate = {self.mask_rate}, but the masks of the shards {shards or 'that it reads'} {what}"
                ": leave mask_rate out, or let them be dynamic, without a schedule."
            )

    @property
    def begins_schedule(self) -> bool:
        """Whether it says something of the learning rate."""
        said = (self.learning_rate, self.schedule, self.warmup_steps, self.warmup_share)
        return any(value is not None for value in said)

    def _check_mixture(self, mixture: Mapping[str, float | Quota]) -> None:
        """Raise InputError unless it says of every component how much of it is read."""
        if self.shards is not None:
            raise InputError(
                f"training.phase has `shards` = {self.shards!r} and a `mixture`: leave out the one or the other."
            )
        if not mixture:
            raise InputError("training.phase.mixture is empty: name [[shards]] with their weights, or leave it out.")
        if len({isinstance(part, Quota) for part in mixture.values()}) > 1:
            raise InputError(
                "training.phase.mixture has weights and quotas of tokens: give every component the one or the other."
            )
        for name, part in mixture.items():
            if not isinstance(part, Quota) and not 1e-6 <= part <= 1e6:
                raise InputError(
                    f"training.phase.mixture.{name} = {part}: a weight is between 1e-06 and 1e6; leave out a component "
                    "that is not to be read."
                )

    @property
    def quotas(self) -> tuple[int, ...]:
        """Tokens of each component, in the mixture's order; none where it has weights or is no mixture."""
        return tuple(part.number for part in (self.mixture or {}).values() if isinstance(part, Quota))

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """The weight of each component, in the mixture's order, exactly as it was written; none where it has quotas."""
        parts = (self.mixture or {}).values()
        return tuple(Fraction(repr(part)) for part in parts if not isinstance(part, Quota))


def _check_rate(where: str, rate: float, warmup_steps: int | None, warmup_share: float | None) -> None:
    """Raise InputError for a rate or a warm-up that is none."""
    check_range(f"{where}.learning_rate", rate, 0, 10)
    check_range(f"{where}.warmup_steps", warmup_steps or 0, 0, MOST_STEPS)
    check_range(f"{where}.warmup_share", warmup_share or 0, 0, 1)
    if warmup_steps and warmup_share:
        raise InputError(f"{where} has warmup_steps and warmup_share: leave out the one or the other.")


def _check_decay(where: str, weight_decay: float) -> None:
    check_range(f"{where}.weight_decay", weight_decay, 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """The `[training]` table: how the weights are learnt.

    As it comes, AdamW (Loshchilov, Hutter 2019) without decay of biases and LayerNorm; the rate rises linearly over
    `warmup_steps` and falls linearly to zero at the last step of the last phase (Devlin et al. 2018, A.2).

    optimizer:         "adamw", "lamb" (You et al. 2019) or "stable-adamw" (Wortsman et al. 2023)
    bias_correction:   whether the optimiser corrects its moments for their first steps; the code of BERT's, ALBERT's
                       and ELECTRA's authors does not
    learning_rate:     the peak
    schedule:          how the rate goes on from the peak: "linear", "polynomial", "cosine", "constant", "wsd", or a
                       table that says more, as in `{ kind = "wsd", decay_share = 0.2 }`
    warmup_steps:      steps in which the rate rises
    warmup_share:      steps in which the rate rises, as a share of the steps of all phases under the schedule
    continue_from:     a checkpoint that the phases go on from, with its optimiser: "models/NAME/FINGERPRINT@STEP" of
                       the store, or a folder; without a step the last one before a decay of the rate
    layer_decay:       factor on the rate from a layer to the one below it (ELECTRA's fine-tuning: 0.8); 1 for none
    beta1, beta2:      of the moments, the averages of gradients and of their squares
    epsilon:           what is added to the root of the second moment
    weight_decay:      what matrices lose of themselves in a step, times the rate
    clip_norm:         bound of the gradient's norm over all parameters; 0 for none
    precision:         "float32", "bfloat16" or "float16" (with loss scaling) for the matrices of forward and backward;
                       "auto": bfloat16 on cards that have it, with TF32 for what is left, else float32
    micro_batch:       most examples that a process holds at once; a step's share is accumulated over such; None: all
    micro_batch_tokens: the same in tokens, in place of `micro_batch`: examples are dealt out by their lengths, and what
                       a process holds is filled to one of few shapes, the budget or some eighths of it
    order:             "global" mixes all examples of an epoch; "windowed" takes shards in a random order and mixes
                       those of `window` neighbours of it
    window:            shards whose examples are mixed where the order is windowed
    cache_gb:          most GB (10^9 bytes) of shards of an object store that are kept on this machine
    compile:           torch.compile every layer, true or false; "auto": on GPUs where its compiler has what it needs
    activation_checkpointing: recompute layers in the backward pass
    gather:            how long a process holds all weights, where there are several: for a "step", or for one pass of
                       a "layer" at a time, which needs less memory; "auto" is a step where they take at most a
                       quarter of the device's memory
    device:            "cuda" or "cpu"; "auto": a GPU where there is one
    deterministic:     on GPUs, choose the algorithms that give the same sums in every run, which are slower; training
                       ends where there is none
    timeout_seconds:   after the first step, how long processes wait for one that does not answer before all end
    evaluate_every:    steps between evaluations on the held-out split; 0 for one at the end of each phase
    evaluate_examples: most held-out examples that an evaluation reads
    checkpoint_every:  steps between checkpoints; 0 for one at the end of each phase
    checkpoint_minutes: minutes after a checkpoint the next one is due at the latest; 0 for by steps alone
    async_checkpoints: training goes on while a checkpoint is written, from a copy in main memory: for each process its
                       share of weights and moments
    keep_checkpoints:  newest ones kept
    log_every:         steps between lines of the log
    health_checks:     stop a run that its first steps show to be doomed
    peak_tflops:       10^12 operations a second that a device can do at most, by which MFU is told; None: by its name
    tensorboard:       show steps and evaluations in TensorBoard as well (extra `tensorboard`)
    processes:         processes on this machine; 0 for one a GPU, one where there is none
    """

    phase: tuple[PhaseSettings, ...] = ()
    learning_rate: float = 1e-4
    warmup_steps: int = 0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    precision: str = "float32"
    seed: int = 42
    order: str = added("global")
    window: int = added(8)
    optimizer: str = added("adamw")
    bias_correction: bool = added(True)
    schedule: str | Schedule = field(default="linear", metadata={"neutral": "linear"})
    warmup_share: float = added(0.0)
    layer_decay: float = added(1.0)
    continue_from: str = limit("")  # a name; what decides the weights is the content, which the model's stage adds
    cache_gb: float = limit(100.0)
    micro_batch: int | None = limit(None)
    micro_batch_tokens: int | None = limit(None)
    compile: bool | str = limit("auto")
    activation_checkpointing: bool = limit(False)
    gather: str = limit("auto")
    device: str = limit("auto")
    deterministic: bool = limit(False)
    timeout_seconds: float = limit(120.0)
    evaluate_every: int = limit(0)
    evaluate_examples: int = limit(10_000)
    checkpoint_every: int = limit(1_000)
    checkpoint_minutes: float = limit(0.0)
    async_checkpoints: bool = limit(True)
    keep_checkpoints: int = limit(2)
    log_every: int = limit(1)
    health_checks: bool = limit(True)
    peak_tflops: float | None = limit(None)
    tensorboard: bool = limit(False)
    processes: int = limit(0)

    def __post_init__(self) -> None:
        if not self.phase:
            raise InputError("training has no phase: add [[training.phase]] with its `steps` and `batch`.")
        _check_rate("training", self.learning_rate, self.warmup_steps, self.warmup_share)
        check_choice("training.optimizer", self.optimizer, OPTIMIZERS)
        check_range("training.layer_decay", self.layer_decay, 1e-3, 1)
        _ = Schedule.of(self.schedule)
        if all(phase.steps for phase in self.phase):  # else it is checked when they are known
            _ = self.stretches
        for name in ("beta1", "beta2"):
            check_range(f"training.{name}", getattr(self, name), 0, 1 - 1e-9)
        check_range("training.epsilon", self.epsilon, 1e-16, 1)
        _check_decay("training", self.weight_decay)
        check_range("training.clip_norm", self.clip_norm, 0, 1e9)
        check_choice("training.precision", self.precision, ("auto", *PRECISIONS))
        if self.compile not in (True, False):
            check_choice("training.compile", str(self.compile), ("auto",))
        check_choice("training.gather", self.gather, ("auto", "step", "layer"))
        check_choice("training.device", self.device, ("auto", "cuda", "cpu"))
        check_range("training.checkpoint_minutes", self.checkpoint_minutes, 0, 1 << 20)
        check_range("training.timeout_seconds", self.timeout_seconds, 1, 86_400)
        check_range("training.seed", self.seed, 0, (1 << 63) - 1)
        check_choice("training.order", self.order, ("global", "windowed"))
        check_range("training.window", self.window, 1, 1 << 20)
        check_range("training.cache_gb", self.cache_gb, 1e-9, 1e9)
        if self.micro_batch is not None:
            check_range("training.micro_batch", self.micro_batch, 1, 1 << 24)
        if self.micro_batch_tokens is not None:
            check_range("training.micro_batch_tokens", self.micro_batch_tokens, 1, 1 << 40)
            if self.micro_batch is not None:
                raise InputError(
                    f"training.micro_batch = {self.micro_batch} and training.micro_batch_tokens = "
                    f"{self.micro_batch_tokens} both bound what a process holds at once: give one of them."
                )
        if self.peak_tflops is not None:
            check_range("training.peak_tflops", self.peak_tflops, 1e-6, 1e9)
        for name in ("evaluate_every", "checkpoint_every", "processes"):
            check_range(f"training.{name}", getattr(self, name), 0, 1 << 40)
        for name in ("evaluate_examples", "keep_checkpoints", "log_every"):
            check_range(f"training.{name}", getattr(self, name), 1, 1 << 40)

    @property
    def cache_bytes(self) -> int:
        """Bytes of an object store's shards that may be kept here."""
        return round(self.cache_gb * 10**9)

    @property
    def mixed_shards(self) -> int | None:
        """Shards whose examples are mixed; None: all."""
        return self.window if self.order == "windowed" else None

    def check_length(self, what: str, length: int) -> None:
        """Raise InputError where an example of so many tokens does not go into a micro-batch. what: holds it"""
        if self.micro_batch_tokens is not None and self.micro_batch_tokens < length:
            raise InputError(
                f"{what} hold examples of up to {length} tokens, and a process may hold "
                f"training.micro_batch_tokens = {self.micro_batch_tokens} at once: raise it to {length} at least, or "
                "make shorter examples (shards.length)."
            )

    @property
    def steps(self) -> int:
        """Steps of all phases together."""
        return sum(phase.steps for phase in self.phase)

    def in_phase(self, phase: int) -> "TrainingSettings":
        """The same with the precision and the decay of a phase as that of all."""
        own = self.phase[phase]
        precision = self.precision if own.precision is None else own.precision
        weight_decay = self.weight_decay if own.weight_decay is None else own.weight_decay
        return replace(self, precision=precision, weight_decay=weight_decay)

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The schedules, one after the other: the first phase begins one, and each that says something of the rate.

        Raises InputError where one has too few steps.
        """
        begins = [number for number, phase in enumerate(self.phase) if number == 0 or phase.begins_schedule]
        firsts = [sum(phase.steps for phase in self.phase[:begin]) for begin in begins]
        return tuple(
            self._stretch(self.phase[begin], first, last - first)
            for begin, first, last in zip(begins, firsts, [*firsts[1:], self.steps], strict=True)
        )

    def _stretch(self, phase: PhaseSettings, first: int, steps: int) -> Stretch:
        """The schedule that a phase begins."""
        warmup = phase if first or phase.warmup_steps is not None or phase.warmup_share is not None else self
        return Stretch(
            first=first,
            steps=steps,
            peak=self.learning_rate if phase.learning_rate is None else phase.learning_rate,
            warmup=warmup.warmup_steps or round((warmup.warmup_share or 0) * steps),
            schedule=Schedule.of(phase.schedule or self.schedule),
        )
