"""The input that scores refuse: other rows than the gold ones, no rows at all, values that are not finite."""

from collections.abc import Sized

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Float64s, Int64s


def same_rows(gold: Sized, answers: Sized, rows: str = "rows") -> int:
    """Return the number of rows, the same for both, and one at least. rows: their name in the message

    >>> same_rows([1, 0, 1], [1, 1, 1])
    3
    """
    if len(gold) != len(answers):
        raise InputError(
            f"There are {len(gold):,} gold {rows} and {len(answers):,} answers: give one answer for each, "
            f"in the same order. One side has no {rows} after the first {min(len(gold), len(answers)):,}."
        )
    if not len(gold):
        raise InputError(f"There are no {rows} to score: give one at least.")
    return len(gold)


def finite(values: npt.ArrayLike, name: str) -> Float64s:
    """The values as float64, each a finite number; `name` is what the message calls them."""
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"The {name} are not all numbers ({error}).") from error
    strange = np.flatnonzero(~np.isfinite(numbers))
    if len(strange):
        raise InputError(
            f"{len(strange):,} of {numbers.size:,} {name} are not finite numbers, first number {strange[0] + 1:,}, "
            f"which is {numbers.flat[strange[0]]}: a model that diverged gives such answers."
        )
    return numbers


def numbered(values: npt.ArrayLike, num_classes: int, name: str) -> Int64s:
    """The values as int64, each the number of a class from 0 to below `num_classes`."""
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iub" and numbers.size:
        raise InputError(f"The {name} are not class numbers: give each class as its number from 0.")
    strange = np.flatnonzero((numbers < 0) | (numbers >= num_classes))
    if len(strange):
        raise InputError(
            f"{len(strange):,} of {numbers.size:,} {name} are not among the {num_classes:,} classes, first number "
            f"{strange[0] + 1:,}, which is {numbers.flat[strange[0]]}: classes are numbered from 0."
        )
    return numbers.astype(np.int64)
