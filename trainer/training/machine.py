"""The machine that a process trains on: what `trainer.choices` must know of it, and the choice put into effect."""

import time
from dataclasses import replace

import torch

from trainer.choices import Computing, Hardware, choose, compiler_lacks, padding_reason, told, weakest
from trainer.settings.model import ModelSettings
from trainer.settings.training import TrainingSettings
from trainer.training.parallel import Ranks

SIZE = 4096  # of the square matrices that are multiplied to measure a precision
PRODUCTS = 10


def settle(
    training: TrainingSettings, model: ModelSettings, ranks: Ranks, before: Computing | None = None
) -> tuple[TrainingSettings, Computing, str]:
    """The settings without "auto", what was chosen, and a line for people. All processes must call it.

    before: what the checkpoint says that training goes on from
    Raises InputError as `choose` does.
    """
    machine = weakest(ranks.collect(machine_of(ranks.device)))
    choice = choose(training, machine, before)
    torch.set_float32_matmul_precision("high" if choice.tf32 else "highest")
    measured = choice.device == "cuda" and choice.precision == "bfloat16"
    gain = speed_of(torch.bfloat16, ranks.device) / speed_of(torch.float32, ranks.device) if measured else None
    _, hidden_size, heads, _ = model.shape
    padded = padding_reason(choice.precision, machine, model.attention_dropout or 0.0, hidden_size // heads)
    line = told(training, choice, machine, padded, gain)
    return replace(training, precision=choice.precision, compile=choice.compile), choice, line


def machine_of(device: torch.device) -> Hardware:
    """What a process has."""
    lacks = compiler_lacks(device.type)
    if device.type == "cpu":
        return Hardware(device="cpu", lacks=lacks)
    name, capability = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
    return Hardware(device=device.type, name=name, capability=capability, lacks=lacks)


def speed_of(dtype: torch.dtype, device: torch.device, size: int = SIZE) -> float:
    """Products of square matrices a second, measured: some tens of milliseconds of a GPU."""
    one, other = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    for _ in range(2):  # the first ones choose their kernels
        one @ other
    _wait(device)
    began = time.perf_counter()
    for _ in range(PRODUCTS):
        one @ other
    _wait(device)
    return PRODUCTS / (time.perf_counter() - began)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
