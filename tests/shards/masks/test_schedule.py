"""Rates that change: by epoch and by step, constant and linear, and what is refused."""

import numpy as np
import pytest

from corpora.errors import InputError
from corpora.store.settings import bind_settings, to_settings_json
from shards.masks.masking import MaskSettings, RateSchedule, ShardVocabulary, build_mask_vocabulary, draw_masks
from shards.masks.plain import draw_masks_plain, with_rate_at


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("constant", [0.3, 0.3, 0.3, 0.3, 0.2, 0.2, 0.2, 0.2, 0.1, 0.1]),
        ("linear", [0.3, 0.275, 0.25, 0.225, 0.2, 0.175, 0.15, 0.125, 0.1, 0.1]),
    ],
)
def test_the_rate_goes_from_point_to_point(shape: str, expected: list[float]) -> None:
    """Fails if a rate begins an epoch or a step too early or too late, or epochs are taken for steps."""
    settings = MaskSettings(rate=0.3, schedule=RateSchedule(points=((4, 0.2), (8, 0.1)), shape=shape))
    epochs, slots = np.array([9, *range(10)]), np.full(11, 10**6)
    np.testing.assert_allclose(settings.compute_rates(epochs, slots), [0.1, *expected])
    steps = RateSchedule(points=((4, 0.2), (8, 0.1)), shape=shape, by="step", batch=7)
    by_step = MaskSettings(rate=0.3, schedule=steps).compute_rates(np.zeros(70, np.int64), np.arange(70))
    np.testing.assert_allclose(by_step, np.repeat(expected, 7))


def test_the_number_of_masks_follows_the_rate() -> None:
    """Fails if kernels and definition disagree about the rate of an example, or all have the same."""
    settings = MaskSettings(rate=0.4, schedule=RateSchedule(points=((1, 0.2), (3, 0.1))))
    facts = build_mask_vocabulary(ShardVocabulary(100, {"mask": 0}))
    ids, offsets = np.arange(1, 51, dtype=np.uint16).repeat(4), np.arange(5) * 50
    epochs, starts, names = np.arange(4), np.ones(200, np.uint8), np.arange(4, dtype=np.uint64)
    rates = settings.compute_rates(epochs, epochs)
    masks = draw_masks(ids, offsets, starts, names, epochs, settings, facts, rates)
    assert np.diff(masks.offsets).tolist() == [20, 10, 10, 5]
    for epoch in range(4):
        own = slice(epoch * 50, (epoch + 1) * 50)
        now = with_rate_at(settings, epoch, 0)
        plain = draw_masks_plain(ids[own], offsets[:2], starts[own], names[epoch : epoch + 1], epoch, now, facts)
        assert plain.positions.tolist() == masks.positions[masks.offsets[epoch] : masks.offsets[epoch + 1]].tolist()


def test_held_out_examples_are_read_at_the_last_rate() -> None:
    settings = MaskSettings(rate=0.3, unit="span", schedule=RateSchedule(points=((2, 0.2), (9, 0.15))))
    assert settings.held_out_settings == MaskSettings(rate=0.15, unit="span")
    assert MaskSettings(rate=0.3).held_out_settings == MaskSettings(rate=0.3)


def test_a_schedule_is_read_from_a_recipe_and_enters_fingerprints_only_where_there_is_one() -> None:
    table = {"rate": 0.3, "schedule": {"points": [[10, 0.15]], "by": "step", "batch": 32, "shape": "linear"}}
    settings = bind_settings(MaskSettings, table, "shards.masking")
    assert settings.schedule == RateSchedule(points=((10, 0.15),), by="step", batch=32, shape="linear")
    assert bind_settings(MaskSettings, to_settings_json(settings), "shards.masking") == settings
    assert {"schedule", "count", "longest"}.isdisjoint(to_settings_json(MaskSettings()))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"points": []}, r"points = \[\] must be points in ascending order, as in"),
        ({"points": [[4, 0.2], [4, 0.1]]}, "must be points in ascending order"),
        ({"points": [[0, 0.2]]}, r"points\[0\]\[0\] = 0 is out of range"),
        ({"points": [[1, 1.5]]}, r"points\[0\]\[1\] = 1.5 is out of range"),
        ({"points": [[1, 0.5, 3]]}, r"points\[0\] must be a list of 2 values"),
        ({"points": [["a", 0.5]]}, r"points\[0\]\[0\] = 'a' is of the wrong type"),
        ({"points": [[1, 0.5]], "by": "slot"}, r"schedule\.by = 'slot' is not known"),
        ({"points": [[1, 0.5]], "shape": "cosine"}, r"schedule\.shape = 'cosine' is not known"),
        ({"points": [[1, 0.5]], "by": "step"}, "needs the examples of a step"),
        ({"points": [[1, 0.5]], "batch": 8}, "one by the epoch has none"),
        ({"points": [[1, 0.5]], "steps": 8}, "has no key 'steps'"),
        ({}, "lacks the key 'points'"),
    ],
)
def test_what_makes_no_schedule_is_refused(table: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        bind_settings(MaskSettings, {"schedule": table}, "shards.masking")  # type: ignore[dict-item]


def test_static_masks_have_one_rate() -> None:
    with pytest.raises(InputError, match=r'shards\.masking\.schedule means nothing to kind = "static"'):
        MaskSettings(kind="static", schedule=RateSchedule(points=((1, 0.2),)))
