"""The settings of a training run: its phases, the optimizer, the learning rate of every step. No torch.

Every field that decides the weights enters the fingerprint of the model; a field marked `limit()` (how many
processes, how a step is cut, how often a checkpoint is written) does not. Some of these change the weights by rounding,
and by what dropout draws.
"""

from dataclasses import dataclass, field

from corpora.errors import InputError
from corpora.store.settings import check_choice, check_range, later_field, limit_field
from trainer.settings.phases import PhaseSettings, Schedule, Stretch, check_rate

OPTIMIZERS = ("adamw", "lamb", "stable-adamw")
PRECISIONS = ("float32", "bfloat16", "float16")


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
    max_epochs:        how often any shard set may have been read when a phase ends that does not set its own; without
                       one, 1,000 passes over its text
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
    window:            number of shards with examples that are mixed if the order is windowed
    cache_gb:          most GB (10^9 bytes) of shards of an object store that are kept on this machine
    compile:           torch.compile every layer, true or false; "auto": on GPUs if its compiler has what it needs
    activation_checkpointing: recompute layers in the backward pass
    gather:            how long a process holds all weights if there are several: for a "step", or for one pass of
                       a "layer" at a time, which needs less memory; "auto" is a step if they take at most a
                       quarter of the device's memory
    device:            "cuda" or "cpu"; "auto": a GPU if there is one
    deterministic:     on GPUs, choose the algorithms that give the same sums in every run, which are slower; training
                       ends if there is none
    timeout_seconds:   after the first ten steps, how long processes wait for one that does not answer before all end
    evaluate_every:    steps between evaluations on the held-out split; 0 for one at the end of each phase
    evaluate_examples: most held-out examples that an evaluation reads
    checkpoint_every:  steps between checkpoints; 0 for one at the end of each phase
    checkpoint_minutes: minutes after a checkpoint the next one is due at the latest; 0 for only by steps
    async_checkpoints: on GPUs, training continues while a checkpoint is written, from a copy in main memory: for each
                       process its share of weights and moments
    keep_checkpoints:  newest ones kept
    log_every:         steps between lines of the log
    health_checks:     stop a run that its first steps show to be doomed
    peak_tflops:       10^12 operations a second that a device can do at most, by which MFU is told; None: by its name
    tensorboard:       show steps and evaluations in TensorBoard as well (extra `tensorboard`)
    processes:         processes on this machine; 0 for one a GPU, or one if there is none
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
    order: str = later_field("global")
    window: int = later_field(8)
    optimizer: str = later_field("adamw")
    bias_correction: bool = later_field(True)
    schedule: str | Schedule = field(default="linear", metadata={"neutral": "linear"})
    warmup_share: float = later_field(0.0)
    layer_decay: float = later_field(1.0)
    max_epochs: float | None = limit_field(None)
    continue_from: str = limit_field(
        ""
    )  # a name; what decides the weights is the content, which the model's stage adds
    cache_gb: float = limit_field(100.0)
    micro_batch: int | None = limit_field(None)
    micro_batch_tokens: int | None = limit_field(None)
    compile: bool | str = limit_field("auto")
    activation_checkpointing: bool = limit_field(False)
    gather: str = limit_field("auto")
    device: str = limit_field("auto")
    deterministic: bool = limit_field(False)
    timeout_seconds: float = limit_field(50.0)
    evaluate_every: int = limit_field(0)
    evaluate_examples: int = limit_field(10_000)
    checkpoint_every: int = limit_field(1_000)
    checkpoint_minutes: float = limit_field(0.0)
    async_checkpoints: bool = limit_field(True)
    keep_checkpoints: int = limit_field(2)
    log_every: int = limit_field(1)
    health_checks: bool = limit_field(True)
    peak_tflops: float | None = limit_field(None)
    tensorboard: bool = limit_field(False)
    processes: int = limit_field(0)

    def __post_init__(self) -> None:
        if not self.phase:
            raise InputError("training has no phase: add [[training.phase]] with its `steps` and `batch`.")
        check_rate("training", self.learning_rate, self.warmup_steps, self.warmup_share)
        check_choice("training.optimizer", self.optimizer, OPTIMIZERS)
        if self.max_epochs is not None:
            check_range("training.max_epochs", self.max_epochs, 1e-6, 1e12)
        check_range("training.layer_decay", self.layer_decay, 1e-3, 1)
        _ = Schedule.from_recipe(self.schedule)
        if all(phase.steps for phase in self.phase):  # else it is checked once they are set
            _ = self.stretches
        for name in ("beta1", "beta2"):
            check_range(f"training.{name}", getattr(self, name), 0, 1 - 1e-9)
        check_range("training.epsilon", self.epsilon, 1e-16, 1)
        check_range("training.weight_decay", self.weight_decay, 0, 1)
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
        """The maximum number of bytes that are cached on this machine from an object store's shards."""
        return round(self.cache_gb * 10**9)

    @property
    def mixed_shards(self) -> int | None:
        """The number of shards whose examples are mixed, or None for all shards."""
        return self.window if self.order == "windowed" else None

    def check_length(self, what: str, length: int) -> None:
        """Raise InputError if an example is too long for a micro-batch.

        Args:
            what: The name of the data in the message.
            length: The number of tokens of the example.
        """
        if self.micro_batch_tokens is not None and self.micro_batch_tokens < length:
            raise InputError(
                f"{what} hold examples of up to {length} tokens, and a process may hold training.micro_batch_tokens = "
                f"{self.micro_batch_tokens} at once: raise it to at least {length}, or make shorter examples "
                "(shards.length)."
            )

    @property
    def steps(self) -> int:
        """The total number of steps of all phases."""
        return sum(phase.steps for phase in self.phase)

    def get_weight_decay(self, phase: int) -> float:
        """Return the weight decay of a phase, or that of the whole training run if the phase sets none.

        `phase` is zero-based.
        """
        own = self.phase[phase].weight_decay
        return self.weight_decay if own is None else own

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The learning-rate schedules in order.

        The first phase starts a schedule, and so does each phase that sets a value of the schedule.

        Raises:
            InputError: If a schedule has too few steps.
        """
        begins = [number for number, phase in enumerate(self.phase) if number == 0 or phase.begins_schedule]
        firsts = [sum(phase.steps for phase in self.phase[:begin]) for begin in begins]
        return tuple(
            self._build_stretch(self.phase[begin], first, last - first)
            for begin, first, last in zip(begins, firsts, [*firsts[1:], self.steps], strict=True)
        )

    def _build_stretch(self, phase: PhaseSettings, first: int, steps: int) -> Stretch:
        """Build the schedule that a phase starts.

        Args:
            phase: The settings of the phase.
            first: The zero-based number of the schedule's first step within the run.
            steps: The number of steps of the schedule.
        """
        warmup = phase if first or phase.warmup_steps is not None or phase.warmup_share is not None else self
        return Stretch(
            first=first,
            steps=steps,
            peak=self.learning_rate if phase.learning_rate is None else phase.learning_rate,
            warmup=warmup.warmup_steps or round((warmup.warmup_share or 0) * steps),
            schedule=Schedule.from_recipe(phase.schedule or self.schedule),
        )


def find_decay_starts(settings: TrainingSettings) -> frozenset[int]:
    """Return the steps at which a "wsd" schedule starts to decay.

    Other runs can continue from the checkpoints of these steps.
    """
    stretches = [stretch for stretch in settings.stretches if stretch.schedule.kind == "wsd"]
    return frozenset(stretch.first + stretch.steps - stretch.num_falling for stretch in stretches) - {0}
