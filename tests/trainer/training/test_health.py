"""Health: runs that can become nothing stop with a reason, the others go on; each threshold from both sides."""

import math
from typing import Any

import numpy as np
import pytest

from corpora.errors import InputError
from trainer.families.contract import SpecialIds
from trainer.training.reports import FLAT_STEPS, Health, counted_texts, judged_texts, stop_or_tell

CHANCE = math.log(30_000)
IDS = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)


def health(**settings: Any) -> Health:
    """Return the health of a model that guesses masked tokens of 30,000, and pairs."""
    return Health(
        **{
            "vocab_size": 30_000,
            "special_ids": IDS,
            "terms": ("masked", "pair", "cosine"),
            "new_weights": True,
            **settings,
        }
    )


def first(
    health: Health, masked: float = CHANCE, pair: float = 0.69, norm: float = 5.0, count: int = 100
) -> list[bool]:
    """Return whether each finding of a first step dooms the run."""
    losses, counts = {"masked": masked, "pair": pair, "cosine": 9.0}, {"masked": count, "pair": count, "cosine": count}
    return [finding.doomed for finding in health.look(1, losses, counts, norm)]


def test_first_weights_guess_by_chance() -> None:
    """Fails where a loss far from ln V or ln 2 passes with new weights, or what drawn weights really cost stops."""
    assert first(health()) == first(health(), masked=CHANCE + 0.8, pair=1.0) == []
    assert first(health(), masked=CHANCE + 3.5) == first(health(), masked=CHANCE - 3.5) == [True]
    assert first(health(), pair=5.0) == [True]
    assert first(health(), masked=0.0, pair=0.0, count=0) == []  # a step without answers has no loss


def test_weights_of_elsewhere_begin_low_and_are_told_where_they_are_sure_and_wrong() -> None:
    """Fails where a start from a checkpoint is stopped, or one with another vocabulary is not told."""
    assert first(health(new_weights=False), masked=1.5, pair=0.02) == []
    assert first(health(new_weights=False), masked=CHANCE + 4) == [False]


def test_gradients_of_the_first_step() -> None:
    """Fails where no gradient or an enormous one passes; what overflows float16 is left out by the step itself."""
    assert first(health(), norm=0.0) == first(health(), norm=1e6) == [True]
    assert first(health(new_weights=False), norm=1e6) == [False]
    assert first(health(), norm=math.inf) == first(health(), norm=100.0) == []


def test_a_loss_that_does_not_fall_is_told_once() -> None:
    """Fails where it is told while the rate still rises, told again, or told of one that falls."""
    for fall, warmup, told in ((0.0, 0, [FLAT_STEPS]), (0.0, 2 * FLAT_STEPS, [2 * FLAT_STEPS]), (0.5, 0, [])):
        looked = health(warmup=warmup)
        first(looked)
        losses = {"masked": CHANCE - fall, "pair": 0.69, "cosine": 1.0}
        steps = range(2, 3 * FLAT_STEPS)
        found = {step: looked.look(step, losses, dict.fromkeys(losses, 9), 1.0) for step in steps}
        assert [step for step, findings in found.items() if findings] == told
        assert not any(finding.doomed for findings in found.values() for finding in findings)


@pytest.mark.parametrize(
    ("counts", "doomed"),
    [
        ((128, 64, 0, 0), []),
        ((128, 128, 0, 0), [True]),
        ((128, 0, 0, 0), [True]),
        ((128, 120, 0, 0), [False]),
        ((100, 100, 0, 0), []),  # too few to tell
        ((0, 0, 1000, 10), []),
        ((0, 0, 1000, 100), [False]),
        ((0, 0, 1000, 900), [True]),
        ((0, 0, 10, 10), []),
    ],
)
def test_labels_and_unknown_tokens(counts: tuple[int, int, int, int], doomed: list[bool]) -> None:
    """Fails where labels that are all alike or texts of [UNK] pass, or few examples are taken for proof."""
    assert [finding.doomed for finding in judged_texts(counts)] == doomed


def test_texts_are_counted_without_special_tokens_and_missing_labels() -> None:
    """Fails where [CLS] and masks count as words, or the label of a sequence that only fills as one."""
    assert counted_texts(IDS, np.array([2, 7, 1, 4, 9, 3, 0]), np.array([1, 0, -100])).tolist() == [2, 1, 3, 1]
    assert counted_texts(IDS, np.array([7, 1]), None).tolist() == [0, 0, 2, 1]


def test_what_dooms_is_raised_before_anything_is_told() -> None:
    """Fails where a doomed run goes on, or a warning is lost."""
    told, doomed = judged_texts((128, 120, 0, 0)), judged_texts((0, 0, 1000, 900))
    assert [*stop_or_tell(told)] == [told[0].message]
    with pytest.raises(InputError, match=r"90% are \[UNK\]"):
        [*stop_or_tell([*told, *doomed])]
