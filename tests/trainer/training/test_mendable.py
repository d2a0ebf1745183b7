"""Errors of torch that a setting can fix."""

import os

import pytest
import torch

from corpora.errors import InputError
from trainer.compute import compute_reproducibly, explain_torch_errors
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings

PHASES = (PhaseSettings(steps=1, batch=256), PhaseSettings(steps=1, batch=32))


def settings(**training: object) -> TrainingSettings:
    return TrainingSettings(phase=PHASES, **training)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "training, processes, remedy",
    [
        ({}, 1, "set training.micro_batch = 128 (a process now takes its whole share of a step, 256 examples)"),
        ({}, 3, "set training.micro_batch = 43 (a process now takes its whole share of a step, 86 examples)"),
        ({"micro_batch": 1024}, 8, "set training.micro_batch = 16 (a process now"),
        ({"micro_batch": 32}, 2, "lower training.micro_batch, now 32, to 16;"),
        ({"micro_batch_tokens": 16384}, 2, "lower training.micro_batch_tokens, now 16384, to 8192;"),
    ],
)
def test_no_memory_left_says_what_to_lower(training: dict[str, object], processes: int, remedy: str) -> None:
    """Fails if the setting, its present value or a smaller one is not named, or what torch said is lost."""
    with pytest.raises(InputError) as told, explain_torch_errors(settings(**training), processes, "cuda"):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
    assert remedy in str(told.value) and "activation_checkpointing = true" in str(told.value)
    assert ('gather = "layer"' in str(told.value)) == (processes > 1)
    assert isinstance(told.value.__cause__, torch.OutOfMemoryError)


def test_no_main_memory_is_told_alike_and_nothing_else_is_taken_for_it() -> None:
    """Fails if torch's allocator says it in other words than are looked for, or another error is hidden."""
    with pytest.raises(InputError, match="The machine has no memory left"), explain_torch_errors(settings(), 1, "cpu"):
        torch.empty(1 << 60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), explain_torch_errors(settings(), 1, "cpu"):
        torch.ones(2, 3) @ torch.ones(2, 3)


def test_an_operation_without_one_order_is_named() -> None:
    """Fails if the paragraph does not say which operation it is, or how to train without the promise."""
    said = "put_ does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'."
    with pytest.raises(InputError, match=r"put_ has no algorithm .* Leave training\.deterministic out"):
        with explain_torch_errors(settings(deterministic=True), 1, "cuda"):
            raise RuntimeError(said)


@pytest.mark.parametrize(
    "deterministic, device, mode", [(False, "cpu", 1), (True, "cpu", 1), (False, "cuda", 0), (True, "cuda", 2)]
)
def test_algorithms_are_those_of_the_promise(
    monkeypatch: pytest.MonkeyPatch, deterministic: bool, device: str, mode: int
) -> None:
    """Fails if a GPU is slowed down for half a promise, or keeps it by half: with `warn_only` attention's backward
    pass adds up in any order."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # so that it is put back
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    before = torch.get_deterministic_debug_mode()
    try:
        compute_reproducibly(settings(deterministic=deterministic), torch.device(device))
        assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == (":4096:8" if mode == 2 else None)
        assert torch.get_deterministic_debug_mode() == mode  # 0: any, 1: warns, 2: raises
    finally:
        torch.set_deterministic_debug_mode(before)
