"""Schedules: the learning rate as a function of the step alone, so that nothing of it is saved. No torch.

    warm-up ─► peak ─► decay ─► end rate         (a stretch: phases that follow each other under one schedule)

The rate rises linearly, and is at its peak at the step after the warm-up; the `Schedule` sets what follows. The end
rate is that of the step after the last one: where it is zero no step is lost.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from corpora.errors import InputError
from corpora.store.settings import check_choice, check_range

MOST_STEPS = 1 << 40
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The learning rate after the warm-up: `schedule = "cosine"`, or a table with more than the kind.

    kind:        "linear"; "polynomial": the share of the steps that is left, to a power; "cosine": half a wave;
                 "constant"; "wsd": constant, then a decay at the end (warm-up, stable, decay)
    power:       of "polynomial"
    decay_from:  where "linear", "polynomial" and "cosine" begin to fall: "warmup", at its end; "start", at step 0, as
                 in the code of BERT's authors: then the rate is below the peak when the warm-up ends
    decay_steps: last steps, in which "wsd" falls
    decay_share: the same as a share of the steps; 0.1 where neither is given
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
            check_range("schedule.decay_steps", self.decay_steps, 1, MOST_STEPS)
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
    def of(given: "str | Schedule") -> "Schedule":
        """Return the schedule of a recipe's kind or table."""
        return Schedule(kind=given) if isinstance(given, str) else given

    def decay_of(self, steps: int) -> int:
        """The last steps, of so many, in which "wsd" falls."""
        if self.decay_steps is not None:
            return self.decay_steps
        return max(1, round((DECAY_SHARE if self.decay_share is None else self.decay_share) * steps))

    def height(self, left: float) -> float:
        """Return the share left of the way from the peak to the end rate, where so much is left of the steps: 1 to 0.

        >>> Schedule(kind="wsd").height(0.75), Schedule(kind="polynomial", power=2).height(0.5)
        (0.5, 0.25)
        """
        if self.kind == "wsd" and self.decay == "1-sqrt":
            return 1 - math.sqrt(1 - left)
        if self.kind == "cosine":
            return (1 - math.cos(math.pi * left)) / 2
        return float(left**self.power)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Steps under one schedule.

    first:  step of the run at which it begins
    steps:  how many
    peak:   the highest rate
    warmup: steps in which the rate rises
    """

    first: int
    steps: int
    peak: float
    warmup: int
    schedule: Schedule

    def __post_init__(self) -> None:
        falling = self.schedule.decay_of(self.steps) if self.schedule.kind == "wsd" else 0
        if self.warmup + falling > self.steps:
            ends = f" and its decay (decay_steps = {falling})" if falling else ""
            raise InputError(
                f"The schedule that begins at step {self.first:,} of the training has {self.steps:,} steps, and its "
                f"warm-up (warmup_steps = {self.warmup}){ends} does not fit into them: make it shorter, in [training] "
                "or in the phase that sets it, or give the phases more steps."
            )

    def rate(self, step: int) -> float:
        """The rate of a step of the run."""
        done, schedule = step - self.first, self.schedule
        if done < self.warmup:
            return self.peak * (done + 1) / (self.warmup + 1)
        if schedule.kind == "constant":
            return self.peak
        left, falling = max(0, self.steps - done), self.falling
        if left >= falling and schedule.kind == "wsd":
            return self.peak
        if schedule.kind == "linear" and not schedule.final_share:
            return self.peak * left / falling
        return self.peak * (schedule.final_share + (1 - schedule.final_share) * schedule.height(left / falling))

    @property
    def falling(self) -> int:
        """Steps over which the rate falls, those of the warm-up included where it falls from step 0 on."""
        if self.schedule.kind == "wsd":
            return self.schedule.decay_of(self.steps)
        return self.steps if self.schedule.decay_from == "start" else max(1, self.steps - self.warmup)


def check_rate(where: str, rate: float, warmup_steps: int | None, warmup_share: float | None) -> None:
    """Raise InputError for a rate or a warm-up out of range."""
    check_range(f"{where}.learning_rate", rate, 0, 10)
    check_range(f"{where}.warmup_steps", warmup_steps or 0, 0, MOST_STEPS)
    check_range(f"{where}.warmup_share", warmup_share or 0, 0, 1)
    if warmup_steps and warmup_share:
        raise InputError(f"{where} has warmup_steps and warmup_share: leave out one of them.")
