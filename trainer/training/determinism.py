"""What is computed in the same order each time, and where.

    processor           always: the same number of processes of the same kind of machine, with the same torch, give the
                        same weights to the bit
    GPU                 no promise, by default: attention's backward pass and sums over places add up in the order in
                        which blocks of the card happen to end, and weights differ by rounding from run to run
    GPU, deterministic  the algorithms of torch that add up in one order, attention's backward pass included: the same
                        number of GPUs of the same kind, with the same torch and driver, give the same weights; an
                        operation that has no such algorithm ends training, with its name

torch's own `warn_only` is no half of the last: with it attention's backward pass keeps its usual order.
cuBLAS adds up in one order only with a workspace of a fixed size, which the environment must say before the first
product: the launcher does.

On a GPU this is held by `tests/trainer/training/test_on_gpus.py`, for one process without compiled layers.
"""

import os

import torch

from trainer.launching.commands import CUBLAS_WORKSPACE
from trainer.settings.training import TrainingSettings


def compute_reproducibly(settings: TrainingSettings, device: torch.device) -> None:
    """Choose the algorithms of torch that give the same sums in every run, where that is promised."""
    strict = device.type == "cuda" and settings.deterministic
    if strict:
        os.environ.setdefault(*CUBLAS_WORKSPACE)  # where no launcher started this process
    torch.use_deterministic_algorithms(strict or device.type == "cpu", warn_only=not strict)
    # a check that costs time and is no part of the promise; torch tells type checkers nothing of it
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
