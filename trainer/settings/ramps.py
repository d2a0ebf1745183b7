"""A batch that grows over the first steps of a phase: the slots of a step follow from the step alone. No torch.

Cost: the slots before any step take as many divisions as the numbers have digits, however long the ramp is.
"""

from dataclasses import dataclass

from corpora.errors import InputError
from corpora.store.settings import check_range, limit
from trainer.settings.schedules import MOST_STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRamp:
    """The growth of a phase's batch: `batch_ramp = { first = 768, tokens = "50B" }`.

    first:    examples of the first step
    steps:    the step from which on a step has the whole `batch` of the phase; until then it grows linearly
    tokens:   the same as tokens that are read until then, in place of `steps`: a whole number, or a text as in "50B"
    multiple: it grows by so many examples at a time, or by a multiple of them
    """

    first: int
    steps: int = 0
    tokens: int | str | None = limit(None)  # what decides the weights is the steps that it becomes
    multiple: int = 1

    def __post_init__(self) -> None:
        where = "training.phase.batch_ramp"
        check_range(f"{where}.first", self.first, 1, 1 << 24)
        check_range(f"{where}.multiple", self.multiple, 1, 1 << 24)
        check_range(f"{where}.steps", self.steps, 0, MOST_STEPS)
        if bool(self.steps) == (self.tokens is not None):
            raise InputError(f"{where} needs `steps` or `tokens` for how long the batch grows: give one of them.")

    def check_batch(self, batch: int) -> None:
        """Raise InputError unless the ramp leads to a batch."""
        if self.first > batch or (batch - self.first) % self.multiple:
            raise InputError(
                f"training.phase.batch_ramp.first = {self.first} does not lead to batch = {batch} by multiples of "
                f"{self.multiple} examples: the batch grows from `first` to `batch`, by a multiple of `multiple`."
            )

    def size(self, step: int, batch: int) -> int:
        """Examples of a step of the phase."""
        if step >= self.steps:
            return batch
        return self.first + self.multiple * ((batch - self.first) // self.multiple * step // self.steps)

    def before(self, step: int, batch: int) -> int:
        """Examples of all steps before a step of the phase."""
        rising = min(step, self.steps)
        levels = (batch - self.first) // self.multiple
        grown = self.multiple * floor_sum(rising, levels, self.steps) if rising else 0
        return self.first * rising + grown + batch * (step - rising)


def floor_sum(number: int, factor: int, divisor: int) -> int:
    """Return the sum of `i * factor // divisor` over i below a number, by Euclid's algorithm.

    >>> floor_sum(5, 3, 4), sum(i * 3 // 4 for i in range(5))
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
