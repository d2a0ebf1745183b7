"""Starts the processes of a trainer: how many, by which command, in which environment. No torch."""

import os
import re
import subprocess
import sys
from pathlib import Path

from trainer.launching.nodes import ALONE, Nodes
from trainer.settings.training import TrainingSettings

CUBLAS_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # with which cuBLAS adds up in one order
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def processes_of(training: TrainingSettings) -> int:
    """Return the number of processes on this machine: as many as the settings give, else one a GPU, else one."""
    return training.processes or (num_gpus() if training.device != "cpu" else 0) or 1


def environment(training: TrainingSettings, processes: int) -> dict[str, str]:
    """Return the variables that the trainer is started with; those that the user has set stay.

    Its processes share the cores: with a thread per core each, torch's default, they would get in each other's way.
    Of a container's share of the processor whole cores count.
    """
    threads = max(1, usable_cores() // processes)
    chosen = {"OMP_NUM_THREADS": str(threads)}
    if training.deterministic:
        chosen |= [CUBLAS_WORKSPACE]
    return {**chosen, **os.environ, "PYTHONSAFEPATH": "1"}


def usable_cores(quota: Path = CPU_QUOTA) -> int:
    """Cores that this process may run on, or fewer where its container is given less time than they have."""
    cores = len(os.sched_getaffinity(0))
    granted, period = quota.read_text(encoding="ascii").split() if quota.exists() else ("max", "1")
    return cores if granted == "max" else max(1, min(cores, int(granted) // int(period)))


def num_gpus() -> int:
    """Return the number of GPUs that torch can use here; a separate process asks it, only where there is a device.

    An interrupt from the keyboard does not reach that process, which would answer it with a traceback.
    """
    if not any(re.fullmatch(r"nvidia\d+", path.name) for path in Path("/dev").glob("nvidia*")):
        return 0
    ask = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    return int(subprocess.run(ask, stdout=subprocess.PIPE, check=True, process_group=0).stdout)


def command(job: Path, processes: int, nodes: Nodes = ALONE, does: str = "train") -> list[str]:
    """Return the command line of the trainer: alone, or as several ranks under torchrun's agent. does: its command"""
    if processes == nodes.count == 1:
        return [sys.executable, "-m", "trainer", "--die-with", str(os.getpid()), does, str(job)]
    agent = [sys.executable, "-m", "trainer.launching.agent", str(os.getpid()), str(processes), does, str(job)]
    return agent if nodes == ALONE else [*agent, nodes.to_text()]
