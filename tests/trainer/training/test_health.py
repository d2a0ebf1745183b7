"""Health: runs that can become nothing stop with a reason, the others go on; each threshold from both sides."""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from corpora.errors import InputError
from trainer.families.contract import ModelInputs, SpecialIds
from trainer.watch import FLAT_STEPS, FirstSteps, count_texts, judge_texts

CHANCE = math.log(30_000)
IDS = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)
WARNS, STOPS = "warns", "stops"


def new_checks(**settings: Any) -> FirstSteps:
    """Return the checks of a model that guesses masked tokens of 30,000, and pairs."""
    nobody = cast(Any, None)
    inputs = ModelInputs(vocab_size=30_000, special_ids=IDS, pair_labels=True)
    given = {"new_weights": True, "warmup": 0, "last": 8, **settings}
    return FirstSteps(nobody, nobody, inputs, ("masked", "pair", "cosine"), **given)


def outcome_of(judge: Callable[[], list[str]]) -> list[str]:
    """Return what becomes of a run: a word for each warning, or that it stops."""
    try:
        return [WARNS for _ in judge()]
    except InputError:
        return [STOPS]


def first(
    checks: FirstSteps, masked: float = CHANCE, pair: float = 0.69, norm: float = 5.0, count: int = 100
) -> list[str]:
    """Return what becomes of a run after its first step."""
    losses, counts = {"masked": masked, "pair": pair, "cosine": 9.0}, {"masked": count, "pair": count, "cosine": count}
    return outcome_of(lambda: checks.judge_step(1, losses, counts, norm))


def test_first_weights_guess_by_chance() -> None:
    """Fails if a loss far from ln V or ln 2 passes with new weights, or what drawn weights really cost stops."""
    assert first(new_checks()) == first(new_checks(), masked=CHANCE + 0.8, pair=1.0) == []
    assert first(new_checks(), masked=CHANCE + 3.5) == first(new_checks(), masked=CHANCE - 3.5) == [STOPS]
    assert first(new_checks(), pair=5.0) == [STOPS]
    assert first(new_checks(), masked=0.0, pair=0.0, count=0) == []  # a step without answers has no loss


def test_weights_of_elsewhere_begin_low_and_are_told_where_they_are_sure_and_wrong() -> None:
    """Fails if a start from a checkpoint is stopped, or one with another vocabulary is not told."""
    assert first(new_checks(new_weights=False), masked=1.5, pair=0.02) == []
    assert first(new_checks(new_weights=False), masked=CHANCE + 4) == [WARNS]


def test_gradients_of_the_first_step() -> None:
    """Fails if no gradient or an enormous one passes; what overflows float16 is left out by the step itself."""
    assert first(new_checks(), norm=0.0) == first(new_checks(), norm=1e6) == [STOPS]
    assert first(new_checks(new_weights=False), norm=1e6) == [WARNS]
    assert first(new_checks(), norm=math.inf) == first(new_checks(), norm=100.0) == []


def test_a_loss_that_does_not_fall_is_told_once() -> None:
    """Fails if it is told while the rate still rises, told again, or told of one that falls."""
    for fall, warmup, told in ((0.0, 0, [FLAT_STEPS]), (0.0, 2 * FLAT_STEPS, [2 * FLAT_STEPS]), (0.5, 0, [])):
        checks = new_checks(warmup=warmup)
        first(checks)
        losses = {"masked": CHANCE - fall, "pair": 0.69, "cosine": 1.0}
        steps = range(2, 3 * FLAT_STEPS)
        found = {step: checks.judge_step(step, losses, dict.fromkeys(losses, 9), 1.0) for step in steps}
        assert [step for step, warnings in found.items() if warnings] == told


@pytest.mark.parametrize(
    ("counts", "outcome"),
    [
        ((128, 64, 0, 0), []),
        ((128, 128, 0, 0), [STOPS]),
        ((128, 0, 0, 0), [STOPS]),
        ((128, 120, 0, 0), [WARNS]),
        ((100, 100, 0, 0), []),  # too few to tell
        ((0, 0, 1000, 10), []),
        ((0, 0, 1000, 100), [WARNS]),
        ((0, 0, 1000, 900), [STOPS]),
        ((0, 0, 10, 10), []),
    ],
)
def test_labels_and_unknown_tokens(counts: tuple[int, int, int, int], outcome: list[str]) -> None:
    """Fails if labels that are all alike or texts of [UNK] pass, or few examples are taken for proof."""
    assert outcome_of(lambda: judge_texts(counts)) == outcome


def test_texts_are_counted_without_special_tokens_and_missing_labels() -> None:
    """Fails if [CLS] and masks count as words, or the label of a sequence that only fills as one."""
    assert count_texts(IDS, np.array([2, 7, 1, 4, 9, 3, 0]), np.array([1, 0, -100])).tolist() == [2, 1, 3, 1]
    assert count_texts(IDS, np.array([7, 1]), None).tolist() == [0, 0, 2, 1]


def test_what_stops_a_run_is_raised_before_anything_is_told() -> None:
    """Fails if a doomed run goes on, or a warning is lost."""
    [warning] = judge_texts((128, 120, 0, 0))
    assert "have the label 1: half of them are expected" in warning
    with pytest.raises(InputError, match=r"90% are \[UNK\]"):
        judge_texts((128, 120, 1000, 900))
