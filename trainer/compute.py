"""Precision, threads, compilation and determinism of a training run.

If the settings say "auto", the choice depends on the machine (`resolve_auto`). Results are reproducible as follows:

    CPU                 always: the same number of processes on the same kind of machine, with the same torch version,
                        give bit-identical weights
    GPU                 not by default: attention's backward pass and scattered sums add up in the order in which thread
                        blocks happen to finish, so weights differ by rounding from run to run
    GPU, deterministic  torch uses algorithms with a fixed order of summation, also in attention's backward pass: the
                        same number of GPUs of the same kind, with the same torch and driver, give the same weights. An
                        operation without such an algorithm ends training with an error that names it

torch's `warn_only` is not enough on a GPU, because attention's backward pass then keeps its default order. cuBLAS sums
in a fixed order only with a workspace of a fixed size, which must be set in the environment before the first product.
The launcher does that. `tests/trainer/training/test_on_gpus.py` tests this on a GPU, for one process without compiled
layers.

Torch errors that the user can fix are converted to a paragraph that names the setting to change.
"""

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from corpora.errors import InputError
from trainer.auto_settings import (
    ComputeChoice,
    Hardware,
    choose,
    describe_choice,
    explain_padding,
    find_missing_compiler,
    find_weakest,
)
from trainer.launch import CUBLAS_WORKSPACE
from trainer.ranks import Ranks
from trainer.settings.model import ModelSettings
from trainer.settings.training import TrainingSettings

# A model computes on one thread if the square of its hidden size times the most tokens that a step can have on one
# process is less: threads would wait for each other longer than they compute. With 2 layers of 96, 24 rows of 64, a
# step took 3 s by the clock on two threads, 0.05 s on one (two busy x86-64 cores, 2026-11-27).
MIN_THREADED_WORK = 1 << 25
MAX_PROGRAMS = 64  # that all parts of a model may be compiled to

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
NO_MEMORY = "can't allocate memory"  # how torch's allocator of main memory reports that none is left
NOT_DETERMINISTIC = "does not have a deterministic implementation"


def resolve_auto(
    training: TrainingSettings, model: ModelSettings, ranks: Ranks, before: ComputeChoice | None = None
) -> tuple[TrainingSettings, ComputeChoice, str]:
    """Resolve each "auto" in the settings for this machine, and set torch's precision of float32 matrix products.

    All processes must call it.

    Args:
        training: The settings as given.
        model: The settings of the model to train.
        ranks: This process among all processes.
        before: The choice in the checkpoint to resume from; None if the run is not resumed.

    Returns:
        The settings without "auto", the choice, and a line of text that describes the choice.

    Raises:
        InputError: If the run cannot be resumed on this machine as it was started, or if a setting is not supported
            here.
    """
    machine = find_weakest(ranks.collect(describe_machine(ranks.device)))
    choice = choose(training, machine, before)
    torch.set_float32_matmul_precision("high" if choice.tf32 else "highest")
    _, hidden_size, heads, _ = model.shape
    padded = explain_padding(choice.precision, machine, model.attention_dropout or 0.0, hidden_size // heads)
    line = describe_choice(training, choice, machine, padded)
    return replace(training, precision=choice.precision, compile=choice.compile), choice, line


@contextmanager
def hold_num_threads(training: TrainingSettings, model: ModelSettings, longest: int, ranks: Ranks) -> Iterator[None]:
    """Limit torch to one thread during the block if a small model is trained on a CPU.

    Args:
        training: The settings, for the number of examples in a step.
        model: The settings of the model, for its hidden size.
        longest: Number of tokens of the longest example.
        ranks: The processes that share a step.
    """
    tokens = max(phase.batch for phase in training.phase) * longest / ranks.count
    before = torch.get_num_threads()
    if ranks.device.type == "cpu" and model.shape[1] ** 2 * tokens < MIN_THREADED_WORK:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def describe_machine(device: torch.device) -> Hardware:
    """Describe the hardware behind a torch device, and what torch's compiler lacks on this machine."""
    lacks = find_missing_compiler(device.type)
    if device.type == "cpu":
        return Hardware(device="cpu", lacks=lacks)
    name, capability = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
    return Hardware(device=device.type, name=name, capability=capability, lacks=lacks)


def compute_reproducibly(settings: TrainingSettings, device: torch.device) -> None:
    """Make torch use deterministic algorithms: on a GPU if the settings require it, on a CPU always.

    On a CPU, an operation without a deterministic algorithm only causes a warning. On a GPU it raises RuntimeError.
    """
    strict = device.type == "cuda" and settings.deterministic
    if strict:
        os.environ.setdefault(*CUBLAS_WORKSPACE)  # if no launcher started this process
    torch.use_deterministic_algorithms(strict or device.type == "cpu", warn_only=not strict)
    # a check that costs time and is no part of the promise; torch does not declare it to type checkers
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


@contextmanager
def explain_torch_errors(settings: TrainingSettings, processes: int, device: str) -> Iterator[None]:
    """Convert torch errors that the user can fix by changing a setting to InputError.

    These are running out of memory, and operations without a deterministic implementation. Other errors are raised
    unchanged.

    Args:
        settings: The settings of the run, for the advice.
        processes: The number of processes of the run.
        device: "cuda" or "cpu".
    """
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        message = str(error)
        if isinstance(error, torch.OutOfMemoryError) or NO_MEMORY in message:
            raise explain_no_memory(settings, processes, device) from error
        if NOT_DETERMINISTIC in message:
            operation = message[: message.index(NOT_DETERMINISTIC)].split()[-1]
            raise InputError(
                f"training.deterministic = true, and {operation} has no algorithm on this GPU that adds in a fixed "
                "order. Leave training.deterministic out: weights then differ by rounding from run to run."
            ) from error
        raise


def explain_no_memory(settings: TrainingSettings, processes: int, device: str) -> InputError:
    """Build the error for running out of memory. It lists the settings to change, beginning with the least costly one.

    Args:
        settings: The settings of the run.
        processes: The number of processes of the run.
        device: "cuda" or "cpu".
    """
    remedies = [suggest_smaller_batch(settings, processes)]
    if not settings.activation_checkpointing:
        remedies.append("set training.activation_checkpointing = true, for a third more time")
    if processes > 1 and settings.gather != "layer":
        remedies.append('set training.gather = "layer"')
    return InputError(
        f"The {'GPU' if device == 'cuda' else 'machine'} has no memory left for what a process holds at once: "
        f"{'; or '.join(remedies)}. The trained model stays the same, up to rounding, and the same command resumes "
        "from the newest checkpoint."
    )


def suggest_smaller_batch(settings: TrainingSettings, processes: int) -> str:
    """Return advice to halve the micro-batch size. `processes` is the number of processes of the run.

    >>> from trainer.settings.phases import PhaseSettings
    >>> suggest_smaller_batch(TrainingSettings(phase=(PhaseSettings(steps=1, batch=256),)), 2)
    'set training.micro_batch = 64 (a process now takes its whole share of a step, 128 examples)'
    """
    if settings.micro_batch_tokens is not None:
        now = settings.micro_batch_tokens
        return f"lower training.micro_batch_tokens, now {now}, to {max(now // 2, 1)}"
    share = max(-(-phase.batch // processes) for phase in settings.phase)
    if settings.micro_batch is not None and settings.micro_batch <= share:
        now = settings.micro_batch
        return f"lower training.micro_batch, now {now}, to {max(now // 2, 1)}"
    half = max(share // 2, 1)
    return f"set training.micro_batch = {half} (a process now takes its whole share of a step, {share} examples)"


def compile_parts(parts: Sequence[nn.Module]) -> None:
    """Mark modules so that torch compiles each one at its first call.

    Modules of the same structure share compiled programs. torch counts the programs of all modules together, and after
    eight it silently runs uncompiled code. ModernBERT has three kinds of layers (first, global, windowed), each
    compiled for one shape and for any shape, in training and in evaluation. A masked-token head is compiled together
    with its loss, because otherwise each operation would copy the logits.
    """
    config: Any = importlib.import_module("torch._dynamo.config")
    config.recompile_limit = MAX_PROGRAMS
    for part in parts:
        part.compile()
