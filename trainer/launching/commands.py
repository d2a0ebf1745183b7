"""How many machines and processes train, by which command, in which environment, and what they print. No torch.

The machines of one training are given by hand, the same command on each, with the number of the machine:

    cloze train JOB --nodes 2 --node-rank 0 --rendezvous first-host:29500
    cloze train JOB --nodes 2 --node-rank 1 --rendezvous first-host:29500

Every machine has the same number of processes and reads the job's `work` folder at the same path, because each process
writes its share of a checkpoint there. The first one reports progress. Where one of them ends, all do; the same
commands again continue from the newest checkpoint.

Their output is events, and a log of the rest, whose end explains a failure.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from corpora.errors import InputError
from corpora.lean_process import OWN_CODE
from corpora.store.settings import PROCESSES
from trainer.metrics import Event
from trainer.settings.training import TrainingSettings

_ADDRESS = re.compile(r"([^\s:/]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
CUBLAS_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # with which cuBLAS adds up in one order
LOG_LINES = 20  # of the end of the log, reported where training failed
GO_ON = "The same command continues from the newest checkpoint."
ENDED = "First to end: rank "
PREFIX = "trainer: "  # before the paragraph that the trainer ends with
MENDABLE = 2  # its exit code then
_OF_AGENT = re.compile(r"[A-Z]\d{4} [\d:.]+ \d+ \S*torch/distributed/")
_OF_RANK = re.compile(r"\[rank(\d+)\]:")  # as torch begins the lines of a traceback
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The machines of a training.

    count:      of machines
    rank:       the number of this one, from 0
    rendezvous: HOST:PORT of the first one, at which they find each other; empty for a training of one machine
    """

    count: int = 1
    rank: int = 0
    rendezvous: str = ""

    def __post_init__(self) -> None:
        PROCESSES.check("--nodes", self.count)
        if not 0 <= self.rank < self.count:
            raise InputError(
                f"--node-rank {self.rank} is not the number of one of {self.count} machines: the first is 0, the last "
                f"{self.count - 1}."
            )
        if self.count > 1 and not _ADDRESS.fullmatch(self.rendezvous):
            raise InputError(
                f"--rendezvous {self.rendezvous!r} is not an address: give HOST:PORT of the first of the {self.count} "
                "machines, with a port that is free there, and give the same on all of them."
            )

    @property
    def suffix(self) -> str:
        """The suffix of the files that each machine but the first has of its own in the work folder.

        >>> Nodes().suffix, Nodes(count=2, rank=1, rendezvous="first:29500").suffix
        ('', '-node-1')
        """
        return f"-node-{self.rank}" if self.rank else ""

    def arguments(self, processes: int) -> list[str]:
        """Those of torchrun.

        >>> Nodes(count=2, rank=1, rendezvous="first:29500").arguments(8)[:5]
        ['--nproc-per-node', '8', '--nnodes', '2', '--node-rank']
        """
        if self.count == 1:
            return ["--standalone", "--nproc-per-node", str(processes)]
        host, _, port = self.rendezvous.rpartition(":")
        each = ["--nproc-per-node", str(processes), "--nnodes", str(self.count), "--node-rank", str(self.rank)]
        return [*each, "--master-addr", host.strip("[]"), "--master-port", port]

    def to_text(self) -> str:
        """Return the machines as one word, for a command line."""
        return f"{self.count},{self.rank},{self.rendezvous}"

    @staticmethod
    def of(text: str) -> "Nodes":
        """Parse what `to_text` wrote.

        >>> Nodes.of(Nodes(count=2, rank=1, rendezvous="first:29500").to_text())
        Nodes(count=2, rank=1, rendezvous='first:29500')
        """
        count, rank, rendezvous = text.split(",", 2)
        return Nodes(count=int(count), rank=int(rank), rendezvous=rendezvous)


ALONE = Nodes()


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
    return {**chosen, **os.environ, **OWN_CODE}


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
    own = {**os.environ, **OWN_CODE}
    return int(subprocess.run(ask, stdout=subprocess.PIPE, check=True, process_group=0, env=own).stdout)


def command(job: Path, processes: int, nodes: Nodes = ALONE, does: str = "train") -> list[str]:
    """Return the command line of the trainer: alone, or as several ranks under torchrun's agent. does: its command"""
    if processes == nodes.count == 1:
        return [sys.executable, "-m", "trainer", "--die-with", str(os.getpid()), does, str(job)]
    agent = [sys.executable, "-m", "trainer.launching.agent", str(os.getpid()), str(processes), does, str(job)]
    return agent if nodes == ALONE else [*agent, nodes.to_text()]


# The output.


def events(output: IO[bytes], log: IO[bytes]) -> Iterator[Event]:
    """Yield the events of an output; every other line goes to the log."""
    for line in output:
        event = _event(line)
        if event is None:
            log.write(line)
        else:
            yield event


def _event(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def lines_after(log: Path, begin: int) -> list[str]:
    """Return the lines of a log after a byte."""
    with log.open("rb") as file:
        file.seek(begin)
        return file.read().decode("utf-8", errors="replace").splitlines()


def mendable(code: int, lines: Sequence[str]) -> InputError | None:
    """Return the paragraph that a trainer ended with, whose exit code and last lines these are; None if it has none."""
    if code == MENDABLE and lines and lines[-1].startswith(PREFIX):
        return InputError(lines[-1].removeprefix(PREFIX))
    return None


def failure(log: Path, begin: int, code: int) -> str:
    """Return how the trainer ended, the last lines of its log after a byte, and how to continue."""
    lines = lines_after(log, begin)
    report = [f"The trainer {how_ended(code)}; the end of its log {log}:", *last_words(lines)]
    killed = any(how_ended(-signal.SIGKILL) in each for each in (report[0], report[-1]))
    no_memory = " The system also sends signal 9 where main memory runs out." if killed else ""
    return "\n".join([*report, f"{GO_ON}{no_memory}"])


def last_words(lines: Sequence[str]) -> list[str]:
    """Return the last lines of a log that explain why training failed.

    Left out: what torchrun's agent notes, and the tracebacks of the ranks that failed because another one had ended.
    """
    first = next((line.removeprefix(ENDED).split()[0] for line in lines if line.startswith(ENDED)), None)
    kept = []
    for line in lines:
        of_rank = _OF_RANK.match(line)
        if not _OF_AGENT.match(line) and (of_rank is None or first in (None, of_rank[1])):
            kept.append(line)
    return kept[-LOG_LINES:]


def how_ended(code: int) -> str:
    """An exit code in words.

    >>> how_ended(-6)
    'was killed by signal 6'
    """
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
