"""Each machine resolves "auto", a checkpoint keeps the choice, and slow settings are reported."""

from pathlib import Path
from typing import Any

import pytest

from corpora.errors import InputError
from trainer.auto_settings import (
    ComputeChoice,
    Hardware,
    choose,
    describe_choice,
    explain_padding,
    find_missing_compiler,
    find_weakest,
    list_slow_settings,
)
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings

H100 = Hardware(device="cuda", name="H100", capability=(9, 0))
T4 = Hardware(device="cuda", name="T4", capability=(7, 5))
BARE = Hardware(device="cuda", name="H100", capability=(9, 0), lacks="a C compiler (gcc)")
PROCESSOR = Hardware(device="cpu")


def settings(**training: Any) -> TrainingSettings:
    return TrainingSettings(phase=(PhaseSettings(steps=1),), **training)


def choice(device: str, precision: str, compiles: bool, tf32: bool) -> ComputeChoice:
    return ComputeChoice(device=device, precision=precision, compile=compiles, tf32=tf32)


@pytest.mark.parametrize(
    "precision, machine, expected",
    [
        ("auto", H100, choice("cuda", "bfloat16", True, True)),
        ("auto", T4, choice("cuda", "float32", True, False)),
        ("auto", BARE, choice("cuda", "bfloat16", False, True)),
        ("auto", PROCESSOR, choice("cpu", "float32", False, False)),
        ("float32", H100, choice("cuda", "float32", True, False)),
        ("bfloat16", PROCESSOR, choice("cpu", "bfloat16", False, False)),
    ],
)
def test_the_choice_is_that_of_the_machine(precision: str, machine: Hardware, expected: ComputeChoice) -> None:
    """Fails if a card's bfloat16 is left aside, or a precision that is named is not exactly that."""
    assert choose(settings(precision=precision), machine) == expected


@pytest.mark.parametrize(
    "before, machine, expected",
    [
        (choice("cuda", "float32", False, False), H100, choice("cuda", "float32", False, False)),
        (choice("cuda", "bfloat16", True, True), PROCESSOR, choice("cpu", "bfloat16", False, False)),
        (choice("cpu", "float32", False, False), H100, choice("cuda", "float32", True, False)),
        (choice("cuda", "bfloat16", True, True), BARE, choice("cuda", "bfloat16", False, True)),
    ],
)
def test_what_was_chosen_is_kept(before: ComputeChoice, machine: Hardware, expected: ComputeChoice) -> None:
    """Fails if a training that goes on elsewhere goes on in another precision, and so as another model."""
    assert choose(settings(precision="auto"), machine, before) == expected


def test_a_card_that_cannot_go_on_is_refused() -> None:
    """Fails if a training in bfloat16 goes on in another precision on a card that has none."""
    with pytest.raises(InputError, match=r"trained in bfloat16, .* the T4 of this machine has no bfloat16"):
        choose(settings(precision="auto"), T4, choice("cuda", "bfloat16", True, True))
    assert choose(settings(precision="bfloat16"), T4).precision == "bfloat16"


def test_a_compiler_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    """Fails if torch ends with pages of words in the first step, for want of a compiler."""
    with pytest.raises(InputError, match=r"training.compile = true, and torch's compiler lacks a C compiler \(gcc\)"):
        choose(settings(compile=True), BARE)
    assert find_missing_compiler("cuda", {"PATH": str(tmp_path)}) == "a C compiler (gcc or clang or cc)"
    assert find_missing_compiler("cpu", {"PATH": str(tmp_path), "CXX": "icpx -O3"}) == "a C++ compiler (icpx)"
    (tmp_path / "gcc").touch(0o755)
    assert not find_missing_compiler("cuda", {"PATH": str(tmp_path)}).startswith("a C")
    for wrong in ("yes", 1.5):
        with pytest.raises(InputError, match=r"training\.compile = "):
            settings(compile=wrong)


def test_all_processes_choose_alike() -> None:
    """Fails if one process computes in a precision, or compiles, as another one cannot."""
    assert find_weakest([H100, T4, BARE]) == Hardware(device="cuda", name="T4", capability=(7, 5), lacks=BARE.lacks)
    assert find_weakest([H100, PROCESSOR]) == PROCESSOR


@pytest.mark.parametrize(
    "precision, machine, dropout, size, reason",
    [
        ("bfloat16", H100, 0.0, 64, ""),
        ("bfloat16", H100, 0.1, 64, "model.attention_dropout = 0.1"),
        ("float32", H100, 0.0, 64, "only takes half precision"),
        ("float16", T4, 0.0, 64, "older than Ampere"),
        ("bfloat16", H100, 0.0, 60, "heads of 60 are no multiple of 8"),
    ],
)
def test_padding_says_why(precision: str, machine: Hardware, dropout: float, size: int, reason: str) -> None:
    """Fails if the reason is not the one for which attention takes the padded path."""
    found = explain_padding(precision, machine, dropout, size)
    assert reason in found and bool(found) == bool(reason)


def test_the_line_says_what_was_chosen() -> None:
    """Fails if a line hides why something slow is done."""
    auto = settings(precision="auto")
    line = describe_choice(auto, choose(auto, H100), H100, "")
    assert line == "H100: bfloat16 with TF32, chosen; layers compiled; attention without padding."
    assert describe_choice(auto, choose(auto, PROCESSOR), PROCESSOR, "") == "processor: float32, chosen."
    exact = settings(compile=False)
    line = describe_choice(exact, choose(exact, H100), H100, "heads")
    assert "float32, as training.precision says: bfloat16 is several times as fast" in line
    assert "layers not compiled (training.compile); attention padded to the longest row (heads)" in line


def test_slow_settings_are_told() -> None:
    """Fails if a setting that costs most of a card's speed is not named, or one is named that costs nothing."""
    fast = settings(precision="auto", micro_batch_tokens=16384)
    assert list_slow_settings(fast, H100, 0.0, 64) == [] == list_slow_settings(settings(), PROCESSOR, 0.1, 64)
    assert list_slow_settings(settings(device="cpu"), H100, 0.1, 64) == []
    [precision, shapes] = list_slow_settings(settings(), H100, 0.0, 64)
    assert 'precision = "float32": the H100 has bfloat16' in precision and "micro_batch_tokens" in shapes
    slow = settings(precision="auto", compile=False, micro_batch=8)
    [padded, eager] = list_slow_settings(slow, H100, 0.1, 64)
    assert "model.attention_dropout = 0.1" in padded and "training.compile = false" in eager
    assert "lacks a C compiler" in list_slow_settings(fast, BARE, 0.0, 64)[0]
