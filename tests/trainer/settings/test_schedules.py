"""Schedules: the rate of every step, as the papers and the code of others have it."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.store.settings import bind_settings, to_settings_json
from trainer.settings.phases import KINDS, PhaseSettings, Schedule
from trainer.settings.training import TrainingSettings, find_decay_starts
from trainer.train import split_phases


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """The rate of a step, as the loop of a training takes it."""
    phases = split_phases(settings)
    return next((phase for phase in phases if step < phase.end), phases[-1]).schedule.compute_rate(step)


def rates_of(*phases: Mapping[str, Any], **training: Any) -> list[float]:
    """The rates of all steps of a training with a peak of 1."""
    settings = bind_settings(TrainingSettings, {"learning_rate": 1.0, "phase": [*phases], **training}, "training")
    return [learning_rate(step, settings) for step in range(settings.steps)]


@given(st.integers(1, 10**6), st.data())
def test_the_first_schedule_is_as_it_was_to_the_last_bit(steps: int, data: st.DataObject) -> None:
    """Fails if the rates of models that are published would change by rounding."""
    warmup = data.draw(st.integers(0, steps - 1))
    step = data.draw(st.integers(0, steps - 1))
    peak = data.draw(st.floats(1e-6, 1))
    settings = TrainingSettings(phase=(PhaseSettings(steps=steps),), learning_rate=peak, warmup_steps=warmup)
    rising, falling = peak * (step + 1) / (warmup + 1), peak * (steps - step) / (steps - warmup)
    assert learning_rate(step, settings) == (rising if step < warmup else falling)


def test_polynomials_fall_from_the_end_of_the_warm_up_or_from_the_beginning() -> None:
    """Fails if one convention is taken for the other, or the power is left out."""
    from_warmup = rates_of({"steps": 8}, warmup_steps=4, schedule={"kind": "polynomial", "power": 2})
    assert from_warmup[4:] == pytest.approx([1, 0.75**2, 0.5**2, 0.25**2])
    schedule = {"kind": "polynomial", "power": 0.5, "decay_from": "start"}
    assert rates_of({"steps": 8}, warmup_steps=4, schedule=schedule)[4:] == pytest.approx(
        [math.sqrt(1 - step / 8) for step in range(4, 8)]
    )
    google = rates_of({"steps": 8}, warmup_steps=2, schedule={"kind": "linear", "decay_from": "start"})
    assert google == pytest.approx([1 / 3, 2 / 3, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])


def test_cosine_and_constant() -> None:
    assert rates_of({"steps": 4}, schedule="cosine") == pytest.approx(
        [(1 + math.cos(math.pi * step / 4)) / 2 for step in range(4)]
    )
    assert rates_of({"steps": 4}, schedule="constant", warmup_share=0.5) == pytest.approx([1 / 3, 2 / 3, 1, 1])


def test_wsd_stays_and_then_falls_as_the_root_does() -> None:
    """Fails if the decay begins at another step than said, or has another shape or end."""
    for said in ({"decay_steps": 4}, {"decay_share": 0.4}):
        found = rates_of({"steps": 10}, warmup_steps=1, schedule={"kind": "wsd", **said})
        assert found == pytest.approx([0.5, *[1.0] * 5, *[1 - math.sqrt(step / 4) for step in range(4)]])
    linear = {"kind": "wsd", "decay": "linear", "decay_steps": 2, "final_share": 0.5}
    assert rates_of({"steps": 4}, schedule=linear) == pytest.approx([1, 1, 1, 0.75])
    assert rates_of({"steps": 4}, schedule={"kind": "linear", "final_share": 0.02})[3] == pytest.approx(0.02 + 0.98 / 4)


def test_a_phase_begins_a_schedule_of_its_own_until_the_next_that_does() -> None:
    found = rates_of(
        {"steps": 2}, {"steps": 2}, {"steps": 4, "learning_rate": 0.5, "warmup_steps": 1}, {"steps": 4},
        {"steps": 2, "schedule": {"kind": "wsd", "decay_share": 1.0}}, warmup_steps=1, schedule="constant",
    )  # fmt: skip
    assert found == pytest.approx([0.5, 1, 1, 1, 0.25, *[0.5] * 7, 1, 1 - math.sqrt(0.5)])


def test_where_another_run_can_go_on_is_before_each_decay() -> None:
    """Fails if the checkpoint before a decay would not be kept, or another one."""
    settings = bind_settings(
        TrainingSettings,
        {"phase": [{"steps": 90}, {"steps": 10}, {"steps": 5, "schedule": {"kind": "wsd", "decay_share": 1.0}}],
         "schedule": {"kind": "wsd", "decay_steps": 20}},
        "training",
    )  # fmt: skip
    assert find_decay_starts(settings) == {80, 100}
    assert find_decay_starts(replace(settings, phase=settings.phase[:1], schedule="cosine")) == frozenset()


@given(st.sampled_from(KINDS), st.integers(1, 300), st.integers(0, 300), st.floats(0, 1))
def test_rates_rise_to_the_peak_and_never_after_it(kind: str, steps: int, warmup: int, final: float) -> None:
    """Fails if a rate is above the peak or below the end rate, or rises after the warm-up."""
    schedule = Schedule(kind=kind) if kind == "constant" else Schedule(kind=kind, final_share=final)
    if warmup + (schedule.count_decay_steps(steps) if kind == "wsd" else 0) > steps:
        return
    settings = TrainingSettings(
        phase=(PhaseSettings(steps=steps),), learning_rate=1.0, warmup_steps=warmup, schedule=schedule
    )
    rates = [learning_rate(step, settings) for step in range(steps + 1)]
    rising = rates[: min(warmup + 1, steps)]
    assert rising == sorted(rising)
    assert rates[warmup:] == sorted(rates[warmup:], reverse=True)
    assert 0 <= min(rates) and max(rates) <= 1
    assert rates[steps] == pytest.approx(1.0 if kind == "constant" else schedule.final_share)


def test_what_says_nothing_new_has_the_fingerprint_of_before() -> None:
    """Fails if a new setting would train a published model again."""
    settings = to_settings_json(bind_settings(TrainingSettings, {"phase": [{"steps": 2}]}, "training"))
    assert set(settings) == {
        "phase", "learning_rate", "warmup_steps", "beta1", "beta2", "epsilon", "weight_decay", "clip_norm", "precision",
        "seed",
    }  # fmt: skip
    assert settings["phase"] == [{"steps": 2, "batch": 32}]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"schedule": "wds"}, "schedule.kind = 'wds' is not known"),
        ({"schedule": {"kind": "cosine", "power": 2.0}}, "schedule.power has no meaning for the kind 'cosine'"),
        ({"schedule": {"kind": "wsd", "decay_steps": 2, "decay_share": 0.1}}, "leave out one of them"),
        ({"schedule": {"kind": "wsd", "decay_steps": 8}, "warmup_steps": 3}, r"decay \(decay_steps = 8\) does not fit"),
        ({"schedule": {"kind": "wsd", "decay": "steep"}}, "schedule.decay = 'steep' is not known"),
        ({"schedule": {"knd": "wsd"}}, "did you mean 'kind'"),
        ({"warmup_steps": 11}, "warmup_steps = 11"),
        ({"warmup_steps": 1, "warmup_share": 0.5}, "warmup_steps and warmup_share"),
        ({"warmup_share": 1.5}, "training.warmup_share = 1.5 is out of range"),
        ({"phase": [{"steps": 5, "warmup_steps": 6}]}, "warmup_steps = 6"),
        ({"phase": [{"steps": 5, "learning_rate": 11.0}]}, "training.phase.learning_rate = 11.0"),
        ({"optimizer": "sgd"}, "training.optimizer = 'sgd' is not known"),
        ({"layer_decay": 0.0}, "training.layer_decay = 0.0 is out of range"),
    ],
)
def test_settings_that_cannot_be(said: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bind_settings(TrainingSettings, {"phase": [{"steps": 10}], **said}, "training")
