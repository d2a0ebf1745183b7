"""Batches that grow, and the length of a phase in steps, tokens or epochs."""

from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.store.settings import bind_settings, to_settings_json
from flows.run.estimates.work import count_phase_tokens
from trainer.settings.phases import BatchRamp, PhaseSettings, sum_floors

RAMPS = st.builds(
    lambda first, levels, multiple, steps, more: PhaseSettings(
        steps=steps + more, batch=first + levels * multiple,
        batch_ramp=BatchRamp(first=first, steps=steps, multiple=multiple),
    ),
    st.integers(1, 50), st.integers(0, 40), st.integers(1, 9), st.integers(1, 60), st.integers(0, 20),
)  # fmt: skip


@given(st.integers(0, 200), st.integers(0, 500), st.integers(1, 300))
def test_sums_of_floors(number: int, factor: int, divisor: int) -> None:
    assert sum_floors(number, factor, divisor) == sum(i * factor // divisor for i in range(number))


@given(RAMPS, st.integers(0, 1000), st.data())
def test_every_slot_is_read_once_in_order_from_any_step_on(
    phase: PhaseSettings, first: int, data: st.DataObject
) -> None:
    """Fails if a slot is left out or read twice, where a run that goes on reads others, or a batch shrinks."""
    begin = data.draw(st.integers(0, phase.steps))
    read = [slot for step in range(begin, phase.steps) for slot in phase.get_step_slots(step, first)]
    assert read == list(range(first + phase.count_slots_before(begin), first + phase.slots))
    sizes = [phase.compute_size(step) for step in range(phase.steps)]
    ramp = phase.batch_ramp
    assert ramp is not None
    assert list(accumulate(sizes, initial=0)) == [phase.count_slots_before(step) for step in range(phase.steps + 1)]
    assert sizes == sorted(sizes) and sizes[0] == ramp.first
    assert sizes[ramp.steps :] == [phase.batch] * (phase.steps - ramp.steps)
    assert all((after - before) % ramp.multiple == 0 for before, after in pairwise(sizes))


@given(RAMPS, st.integers(0, 20_000))
def test_steps_of_slots_are_the_least_that_hold_them(phase: PhaseSettings, slots: int) -> None:
    steps = phase.count_steps(slots)
    assert phase.count_slots_before(steps) >= slots and (steps == 0 or phase.count_slots_before(steps - 1) < slots)
    flat = replace(phase, batch_ramp=None)
    assert flat.count_steps(slots) == ceil(Fraction(slots, flat.batch))


def test_a_long_ramp_costs_nothing() -> None:
    """Fails if the slots of a step are counted step by step: this one would take years."""
    ramp = BatchRamp(first=1, steps=1 << 40)
    assert ramp.count_examples_before(1 << 39, 1 + (1 << 20)) == sum(
        (1 << 20) * (1 + level) for level in range(1 << 19)
    )  # a level lasts 2^20 steps


def test_what_a_phase_reads_at_most() -> None:
    assert count_phase_tokens(PhaseSettings(tokens="1.5k", batch=8), [10]) == 1500
    assert count_phase_tokens(PhaseSettings(epochs=2.5, batch=8), [10], 1000) == 2500
    ramp = BatchRamp(first=2, steps=6)
    assert count_phase_tokens(PhaseSettings(steps=6, batch=8, batch_ramp=ramp), [10]) == 10 * (2 + 3 + 4 + 5 + 6 + 7)


def test_what_names_a_phase_is_its_steps() -> None:
    """Fails if the words in which a length was said make another model."""
    ramp = BatchRamp(first=8, steps=3)
    assert to_settings_json(PhaseSettings(steps=5, batch=32, batch_ramp=ramp)) == {
        "steps": 5, "batch": 32, "batch_ramp": {"first": 8, "steps": 3, "multiple": 1},
    }  # fmt: skip
    assert to_settings_json(PhaseSettings(tokens="10B")) == {"steps": 0, "batch": 32}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "set the length of the phase, in `steps`, in `tokens` or in `epochs`"),
        ({"steps": 3, "tokens": "1M"}, "training.phase has tokens and steps: only one of them"),
        ({"epochs": 3.0, "mixture": {"a": 1.0}}, "`epochs` and a `mixture`"),
        ({"tokens": "1M", "mixture": {"a": {"tokens": 3}}}, "tokens and a mixture of quotas"),
        ({"tokens": "many"}, "training.phase.tokens = 'many' is not a number of tokens"),
        ({"epochs": 0.0}, "training.phase.epochs = 0.0 is out of range"),
        ({"steps": 3, "batch_ramp": {"first": 8}}, "needs `steps` or `tokens` for how long"),
        ({"steps": 3, "batch_ramp": {"first": 8, "steps": 2, "tokens": 9}}, "give one of them"),
        ({"steps": 3, "batch_ramp": {"first": 64, "steps": 2}}, "first = 64 does not lead to batch = 32"),
        ({"steps": 3, "batch_ramp": {"first": 8, "steps": 2, "multiple": 5}}, "by multiples of 5 examples"),
        ({"steps": 3, "batch_ramp": {"first": 8, "tokens": "x"}}, "batch_ramp.tokens = 'x' is not a number of tokens"),
        ({"steps": 3, "mask_rate": 1.5}, "training.phase.mask_rate = 1.5 is out of range"),
    ],
)
def test_phases_that_cannot_be(said: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bind_settings(PhaseSettings, said, "training.phase[0]")


@pytest.mark.parametrize(
    ("kind", "scheduled", "message"),
    [
        ("static", False, "are static"),
        ("none", False, "are none"),
        ("dynamic", True, "change by shards.masking.schedule"),
    ],
)
def test_masks_whose_rate_is_their_own(kind: str, scheduled: bool, message: str) -> None:
    phase = PhaseSettings(steps=1, mask_rate=0.3)
    with pytest.raises(InputError, match=message):
        phase.check_mask_rate("training.phase 1", "wiki", kind, scheduled)
    replace(phase, mask_rate=None).check_mask_rate("training.phase 1", "wiki", kind, scheduled)
    phase.check_mask_rate("training.phase 1", "wiki", "dynamic", False)
