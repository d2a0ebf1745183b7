"""Resolves "auto" for the machine that a training run uses, and lists settings that are slow there. No torch.

    precision   bfloat16 if the GPU supports it, with TF32 for the remaining float32 products; otherwise float32
    compile     on a GPU, if torch's compiler finds what it needs: a C compiler and Python's headers
    padding     none inside attention if FlashAttention for packed sequences supports the heads, else up to the longest

An explicit precision is taken literally: "float32" is without TF32. All processes of a run make the choice together at
its start (`find_weakest`). It is recorded in checkpoints, and kept when a run is resumed.
"""

import os
import shutil
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import InputError
from trainer.settings.training import TrainingSettings

AMPERE = (8, 0)  # the first cards with bfloat16 and TF32
MAX_HEAD_SIZE = 256
HALF = ("bfloat16", "float16")
C_COMPILERS = {"cuda": ("CC", "gcc", "clang", "cc"), "cpu": ("CXX", "g++", "clang++", "c++")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The hardware that a process runs on.

    Attributes:
        device: "cuda" or "cpu".
        name: The name of the GPU; empty on a CPU.
        capability: The compute capability of the GPU.
        lacks: A description of what torch's compiler needs but cannot find; empty if nothing is missing.
    """

    device: str
    name: str = ""
    capability: tuple[int, int] = (0, 0)
    lacks: str = ""

    @property
    def has_bfloat16(self) -> bool:
        """True if the GPU supports bfloat16 natively, without emulation."""
        return self.device == "cuda" and self.capability >= AMPERE


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeChoice:
    """The precision and compilation that a training run uses.

    Attributes:
        device: "cuda" or "cpu".
        precision: "float32", "bfloat16" or "float16".
        compile: True if layers are compiled.
        tf32: True if float32 matrix products are computed in TF32 (10 bits of mantissa).
    """

    device: str
    precision: str
    compile: bool
    tf32: bool


def find_weakest(machines: Iterable[Hardware]) -> Hardware:
    """Return the hardware of the least capable machine.

    A CPU is less capable than any GPU; GPUs are compared by compute capability. `lacks` is set if torch's compiler is
    incomplete on any machine. `machines` must not be empty.
    """
    every = list(machines)
    lacking = next((machine.lacks for machine in every if machine.lacks), "")
    least = min(every, key=lambda machine: (machine.device == "cuda", machine.capability))
    return Hardware(device=least.device, name=least.name, capability=least.capability, lacks=lacking)


def choose(training: TrainingSettings, machine: Hardware, before: ComputeChoice | None = None) -> ComputeChoice:
    """Choose device, precision and compilation for a training run, resolving each "auto" in its settings.

    Args:
        training: The settings.
        machine: The hardware of the least capable process.
        before: The choice in the checkpoint to resume from; None if the run is not resumed.

    Raises:
        InputError: If the checkpoint was trained in bfloat16 and this GPU lacks it, or if compilation is required and
            torch's compiler is incomplete.
    """
    precision, tf32 = training.precision, False
    if precision == "auto":
        precision = "bfloat16" if machine.has_bfloat16 else "float32"
        tf32 = machine.has_bfloat16
        if before is not None:
            if before.precision == "bfloat16" and machine.device == "cuda" and not machine.has_bfloat16:
                raise InputError(
                    'The checkpoint was trained in bfloat16, as training.precision = "auto" chose at the start, and '
                    f"the {machine.name} of this machine has no bfloat16. Continue on a card that has it (Ampere or "
                    'later), or set training.precision = "float32", which trains a different model from the beginning.'
                )
            precision, tf32 = before.precision, before.tf32 and machine.has_bfloat16
    compiles = training.compile is True
    if training.compile == "auto":
        compiles = machine.device == "cuda" and not machine.lacks
        if before is not None and before.device == machine.device:
            compiles = before.compile and not machine.lacks
    if compiles and machine.lacks:
        raise InputError(
            f"training.compile = true, and torch's compiler lacks {machine.lacks} on this machine. Install that, or "
            'leave training.compile out ("auto"): layers then run uncompiled.'
        )
    return ComputeChoice(device=machine.device, precision=precision, compile=compiles, tf32=tf32)


def describe_choice(training: TrainingSettings, choice: ComputeChoice, machine: Hardware, padded: str) -> str:
    """Describe the chosen precision, compilation and padding in one line for the log.

    Args:
        training: The settings.
        choice: The choice.
        machine: The hardware of the least capable process.
        padded: The reason why attention pads sequences; empty if it does not.

    Returns:
        A line such as "NVIDIA H200: bfloat16 with TF32, chosen; layers compiled; attention without padding."
    """
    parts = [_describe_precision(training, choice, machine)]
    if choice.compile:
        parts.append("layers compiled")
    elif choice.device == "cuda":
        parts.append(f"layers not compiled ({f'it lacks {machine.lacks}' if machine.lacks else 'training.compile'})")
    if choice.device == "cuda":
        parts.append(f"attention padded to the longest row ({padded})" if padded else "attention without padding")
    return f"{machine.name or 'processor'}: {'; '.join(parts)}."


def _describe_precision(training: TrainingSettings, choice: ComputeChoice, machine: Hardware) -> str:
    by = "chosen" if training.precision == "auto" else "as training.precision says"
    if choice.device == "cpu" and choice.precision in HALF:
        return f"{choice.precision}, {by}: on processors without units for it ten times as slow as float32"
    if choice.precision == "float32" and machine.has_bfloat16:
        return f"float32, {by}: bfloat16 is several times as fast on this card"
    return f"{choice.precision}{' with TF32' if choice.tf32 else ''}, {by}"


def explain_padding(precision: str, machine: Hardware, attention_dropout: float, head_size: int) -> str:
    """Return the reason why attention must pad sequences when training on a GPU, or "" if it need not.

    Args:
        precision: "float32", "bfloat16" or "float16".
        machine: The hardware of the GPU.
        attention_dropout: The dropout probability of attention weights.
        head_size: The hidden size divided by the number of attention heads.
    """
    if attention_dropout:
        return f"model.attention_dropout = {attention_dropout}, which FlashAttention over boundaries does not have"
    if precision not in HALF:
        return "FlashAttention only takes half precision"
    if machine.capability < AMPERE:
        return "the card is older than Ampere"
    if head_size % 8 or head_size > MAX_HEAD_SIZE:
        return f"heads of {head_size} are no multiple of 8 up to {MAX_HEAD_SIZE}"
    return ""


def list_slow_settings(
    training: TrainingSettings, machine: Hardware, attention_dropout: float, head_size: int
) -> list[str]:
    """List the settings that slow down training on a GPU, as one line of text each, with a faster alternative.

    The list is empty if training runs on a CPU.

    Args:
        training: The settings. Values may still be "auto".
        machine: The hardware to train on.
        attention_dropout: The dropout probability of attention.
        head_size: The hidden size divided by the number of attention heads.
    """
    if machine.device != "cuda" or training.device == "cpu":
        return []
    lines = []
    if training.precision == "float32" and machine.has_bfloat16:
        lines.append(
            f'training.precision = "float32": the {machine.name} has bfloat16, which is several times as fast. "auto" '
            "uses it; that trains a different model from scratch."
        )
    fast = training.precision if training.precision in HALF else "bfloat16"  # as it could be
    padded = explain_padding(fast, machine, attention_dropout, head_size) if machine.has_bfloat16 else ""
    if padded:
        remedy = " 0 is fast, but trains a different model." if attention_dropout else ""
        lines.append(f"attention pads rows to the longest: {padded}.{remedy}")
    if training.compile is False:
        lines.append('training.compile = false: layers are computed operation by operation. "auto" compiles them.')
    elif machine.lacks:
        lines.append(f"layers are not compiled: torch's compiler lacks {machine.lacks} on this machine.")
    elif training.micro_batch_tokens is None:
        lines.append(
            "layers are compiled, and every micro-batch has a different shape: training.micro_batch_tokens keeps the "
            "shapes few, so that kernels are compiled once for each."
        )
    return lines


def find_missing_compiler(device: str, environ: Mapping[str, str] | None = None) -> str:
    """Describe what torch's compiler needs but cannot find on this machine, such as "Python's headers (Python.h)".

    The text is empty if nothing is missing.

    Args:
        device: "cuda", for which a C compiler is needed, or "cpu", for which a C++ compiler is needed.
        environ: Environment variables; None to use this process's.
    """
    environ = os.environ if environ is None else environ
    variable, *usual = C_COMPILERS[device]
    named = [environ[variable].split()[0]] if environ.get(variable, "").split() else usual
    if not any(shutil.which(name, path=environ.get("PATH", os.defpath)) for name in named):
        return f"a {'C' if device == 'cuda' else 'C++'} compiler ({' or '.join(named)})"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "Python's headers (Python.h)"
    return ""
