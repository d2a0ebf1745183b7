"""Precision, recall and F1 from three counts."""

from typing import NamedTuple


class Rates(NamedTuple):
    """precision: of what was answered, the share that is right; recall: of what is gold; f1: their harmonic mean."""

    precision: float
    recall: float
    f1: float


def rates(right: int, answered: int, gold: int) -> Rates:
    """0 where there is nothing to be a share of: no answer has precision 0, no gold has recall 0, neither has F1 0.

    >>> rates(2, 4, 2)
    Rates(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    return Rates(
        right / answered if answered else 0.0,
        right / gold if gold else 0.0,
        2 * right / (answered + gold) if answered + gold else 0.0,
    )
