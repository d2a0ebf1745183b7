"""A rate that changes: the share of tokens to guess as a function of the epoch, or of the step.

An epoch is the example's own. A step is the slot's number divided by the examples of a step, so what a slot holds is a
function of the slot alone, for any reader, with any number of processes. Held-out examples are always read at the last
rate, so that losses of two steps compare.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from corpora.errors import InputError
from corpora.kernels.arrays import Float64s, Int64s
from corpora.store.settings import check_choice, check_range

Point = tuple[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSchedule:
    """Settings for a rate that changes from `rate` on.

    points: `[[4, 0.15]]`: from epoch or step 4 on the rate is 0.15; ascending
    by:     `epoch`, or `step`: slots of these shards, `batch` at a time
    shape:  `constant` up to the next point, or `linear` towards it
    batch:  examples of a step, as in the phase of the training that reads these shards
    """

    points: tuple[Point, ...]
    by: str = "epoch"
    shape: str = "constant"
    batch: int | None = None

    def __post_init__(self) -> None:
        where = "shards.masking.schedule"
        check_choice(f"{where}.by", self.by, ("epoch", "step"))
        check_choice(f"{where}.shape", self.shape, ("constant", "linear"))
        for number, (at, rate) in enumerate(self.points):
            check_range(f"{where}.points[{number}][0]", at, 1, 1 << 62)
            check_range(f"{where}.points[{number}][1]", rate, 1e-6, 1)
        if not self.points or any(at >= later for (at, _), (later, _) in pairwise(self.points)):
            raise InputError(
                f"{where}.points = {[list(point) for point in self.points]} must be points in ascending order, "
                "as in [[4, 0.15]]."
            )
        if (self.by == "step") != (self.batch is not None):
            raise InputError(
                f"{where}.batch = {self.batch} does not go with by = {self.by!r}: a rate by the step needs the "
                "examples of a step, and one by the epoch has none."
            )
        check_range(f"{where}.batch", self.batch or 1, 1, 1 << 32)

    def rate_at(self, first: float, place: int) -> float:
        """The rate at an epoch or step. first: the rate at 0"""
        before, rate = 0, first
        for at, later in self.points:
            if place < at:
                towards = (place - before) / (at - before) if self.shape == "linear" else 0.0
                return rate + (later - rate) * towards
            before, rate = at, later
        return rate

    def rates(self, first: float, epochs: Int64s, slots: Int64s) -> Float64s:
        """The rate of each example."""
        places = epochs if self.batch is None else slots // self.batch
        unique, inverse = np.unique(places, return_inverse=True)
        return np.array([self.rate_at(first, place) for place in unique.tolist()])[inverse]
