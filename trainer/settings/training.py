"""The settings of a training run: its phases, the optimizer, the learning rate of every step. No torch.

Every field that determines the weights is part of the model's fingerprint. Fields marked `limit()` (such as the number
of processes, the size of micro-batches or the number of steps between checkpoints) are not. Some of them change the
weights by rounding and by the random numbers of dropout.
"""

from dataclasses import dataclass, field

from corpora.errors import InputError
from corpora.store.settings import check_choice, check_range, later_field, limit_field
from trainer.settings.phases import PhaseSettings, Schedule, Stretch, check_rate

OPTIMIZERS = ("adamw", "lamb", "stable-adamw")
PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """The `[training]` table: how the model is trained.

    The defaults are AdamW (Loshchilov, Hutter 2019) without weight decay of biases and LayerNorm. The learning rate
    rises linearly over `warmup_steps` and falls linearly to zero at the last step of the last phase (Devlin et al.
    2018, A.2).

    optimizer:         "adamw", "lamb" (You et al. 2019) or "stable-adamw" (Wortsman et al. 2023)
    bias_correction:   whether the optimizer corrects its moments in the first steps; the code of BERT's, ALBERT's and
                       ELECTRA's authors does not
    learning_rate:     the peak learning rate
    schedule:          how the learning rate changes after the peak: "linear", "polynomial", "cosine", "constant",
                       "wsd", or a table with more settings, as in `{ kind = "wsd", decay_share = 0.2 }`
    warmup_steps:      number of steps in which the learning rate rises
    warmup_share:      length of the warm-up as a share of the steps of all phases under the schedule, instead of
                       `warmup_steps`
    continue_from:     a checkpoint that training continues from, with its optimizer: "models/NAME/FINGERPRINT@STEP" of
                       the store, or a folder; without a step: the last checkpoint before the learning rate decays
    max_epochs:        maximum number of passes over any shard set until the end of a phase that does not set its own
                       maximum; None: 1,000 passes
    layer_decay:       factor between the learning rate of a layer and that of the layer below it (ELECTRA's
                       fine-tuning: 0.8); 1 for equal rates
    beta1, beta2:      decay rates of the moments, which are running averages of the gradients and of their squares
    epsilon:           number added to the square root of the second moment
    weight_decay:      a step multiplies matrices by one minus this number times the learning rate
    clip_norm:         maximum norm of the gradient of all parameters; 0 for none
    precision:         number type of matrix products: "float32", "bfloat16" or "float16" (with loss scaling); "auto":
                       bfloat16 (with TF32 for the remaining products) on GPUs that support it, else float32
    micro_batch:       maximum number of examples that a process holds at once; the gradient of a step is accumulated
                       over such micro-batches; None: the process's whole share of a step
    micro_batch_tokens: maximum number of tokens that a process holds at once, instead of `micro_batch`. Examples are
                       distributed by their lengths, and each micro-batch is padded to one of a few sizes: this number
                       or some eighths of it
    order:             "global" mixes all examples of an epoch; "windowed" reads shards in a random order, and mixes the
                       examples of `window` consecutive ones
    window:            number of shards whose examples are mixed if the order is "windowed"
    cache_gb:          maximum size, in GB (10^9 bytes), of an object store's shards that are cached on this machine
    compile:           whether to compile every layer with torch.compile: true or false; "auto": on GPUs, if the
                       compiler has everything it needs
    activation_checkpointing: recompute layers in the backward pass to save memory
    gather:            how long each of several processes holds all weights: for a "step", or for one pass through a
                       "layer" at a time, which needs less memory; "auto": a step if the weights need at most a quarter
                       of the device's memory
    device:            "cuda" or "cpu"; "auto": a GPU if there is one
    deterministic:     use algorithms on GPUs that compute the same sums in every run, but are slower; training fails if
                       there is none for an operation
    timeout_seconds:   after the first ten steps, how long processes wait for one that does not respond before all exit
    evaluate_every:    number of steps between evaluations on the held-out split; 0: only at the end of each phase
    evaluate_examples: maximum number of held-out examples of an evaluation
    checkpoint_every:  number of steps between checkpoints; 0: only at the end of each phase
    checkpoint_minutes: maximum number of minutes between checkpoints; 0: only steps count
    async_checkpoints: on GPUs, continue training while a checkpoint is written from a copy in main memory. The copy
                       needs memory for each process's share of weights and moments
    keep_checkpoints:  number of newest checkpoints to keep
    log_every:         number of steps between lines of the log
    health_checks:     stop a run if its first steps show that it cannot succeed
    peak_tflops:       peak speed of a device in 10^12 operations per second, from which MFU is computed; None: looked
                       up by the device's name
    tensorboard:       also show steps and evaluations in TensorBoard (extra `tensorboard`)
    processes:         number of processes on this machine; 0: one per GPU, or one if there is none
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
        """The maximum size of an object store's shards that are cached on this machine, in bytes."""
        return round(self.cache_gb * 10**9)

    @property
    def mixed_shards(self) -> int | None:
        """The number of neighboring shards that are mixed, or None if all examples of an epoch are mixed."""
        return self.window if self.order == "windowed" else None

    def check_length(self, what: str, length: int) -> None:
        """Raise InputError if an example is longer than `micro_batch_tokens`, if that is set.

        Args:
            what: The name of the data in the message, a plural such as "the shards wiki".
            length: The number of tokens of the longest example.
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
        """Return the weight decay of a phase. If the phase sets none, it is the weight decay of the whole run.

        `phase` is zero-based.
        """
        own = self.phase[phase].weight_decay
        return self.weight_decay if own is None else own

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The learning-rate schedules of the run in order, each with its steps, peak and warm-up.

        The first phase starts a schedule, and so does each phase that sets a value of the schedule.

        Raises:
            InputError: If a schedule has fewer steps than its warm-up and decay need.
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
            first: The zero-based index of the schedule's first step within the run.
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
    """Return the steps at which "wsd" schedules start to decay, as numbers of completed steps. 0 is left out.

    Other runs can continue from the checkpoints of these steps.
    """
    stretches = [stretch for stretch in settings.stretches if stretch.schedule.kind == "wsd"]
    return frozenset(stretch.first + stretch.steps - stretch.num_falling for stretch in stretches) - {0}
