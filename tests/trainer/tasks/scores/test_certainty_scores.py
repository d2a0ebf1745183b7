"""Perplexity and calibration: by hand and by their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from trainer.tasks.scores.calibration import calibration_error
from trainer.tasks.scores.language import bits_per_byte, perplexity


def test_perplexity_by_hand() -> None:
    assert perplexity(0, 3) == 1
    assert perplexity(math.log(4) + math.log(16), 2) == pytest.approx(8)
    assert perplexity(1e6, 1) == math.inf
    assert bits_per_byte(math.log(2) * 5, 2) == pytest.approx(2.5)


@pytest.mark.parametrize(("nats", "tokens", "said"), [(1, 0, "no tokens"), (math.nan, 1, "is nan"), (-1, 1, "is -1")])
def test_what_is_no_cost_is_refused(nats: float, tokens: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        perplexity(nats, tokens)


def test_calibration_by_hand() -> None:
    """Two bins: .5 is in the first, right: .5 off; .9 and .7 in the second, one right of two: .3 off."""
    rows = [[0.5, 0.5], [0.9, 0.1], [0.3, 0.7]]
    assert calibration_error([0, 0, 0], rows, num_bins=2) == pytest.approx((0.5 + 2 * 0.3) / 3)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=30), st.integers(1, 20))
def test_calibration_equals_its_definition(rows: list[tuple[float, int]], num_bins: int) -> None:
    table = np.array([[1 - share, share] for share, _ in rows])
    labels = [label for _, label in rows]
    bins: dict[int, list[tuple[float, bool]]] = {}
    for shares, label in zip(table, labels, strict=True):
        number = max(1, math.ceil(shares.max() * num_bins))
        bins.setdefault(number, []).append((shares.max(), int(shares.argmax()) == label))
    error = sum(len(b) * abs(np.mean([r for _, r in b]) - np.mean([c for c, _ in b])) for b in bins.values())
    assert calibration_error(labels, table, num_bins=num_bins) == pytest.approx(error / len(rows))


def test_what_are_no_probabilities_is_refused() -> None:
    for said, labels, table in (
        ("no table of shares", [0], [[-0.1, 1.1]]),
        ("no table of shares", [0], [0.5]),
        ("1 of 2 probabilities are no finite numbers", [0], [[math.nan, 1.0]]),
        ("2 gold rows and 1 answers", [0, 1], [[0.5, 0.5]]),
        ("1 of 1 labels are none of the 2 classes", [2], [[0.5, 0.5]]),
    ):
        with pytest.raises(InputError, match=said):
            calibration_error(labels, table)
