"""Training as processes of its own: started, listened to, and ended with this one. No torch.

    this process ─► torchrun's agent ─► one rank a GPU          (a single rank is started without the agent)

Promise: when a process of this chain is gone, however it went, those it started are gone within a moment: each has the
kernel kill it when its parent dies, before it imports anything that takes time. One work folder trains once at a time;
a second caller waits for the first, and finds the model finished.
"""

import ctypes
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from corpora.errors import InputError
from corpora.store.locks import held
from corpora.store.places import Place
from corpora.store.stage import MANIFEST, read_manifest
from trainer.job import CACHE, TrainingJob

LOG = "train.log"
LOG_LINES = 20  # of the end of the log, told where training failed
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

Event = Mapping[str, Any]


class TrainingFailed(Exception):
    """The trainer ended for a reason that is not the user's to mend; the end of its log says which."""


def train(job: TrainingJob, on_event: Callable[[Event], None] = lambda event: None) -> None:
    """Train until the export is finished; where it is already, do nothing.

    on_event: called with every event of `trainer.metrics`, on this thread
    Raises InputError with the trainer's own words where the user can mend what is wrong, else TrainingFailed.
    """
    work = Path(job.work)
    work.mkdir(parents=True, exist_ok=True)
    with held(work / "lock"):  # of several processes that are to train this model, one does
        if job.read_export() is None:
            here = job if Place(job.store).is_local else with_local_shards(job, CACHE.expanduser() / "shards")
            (work / "job.json").write_text(here.to_json(), encoding="utf-8")
            _run(work, job.training.processes or num_gpus() or 1, on_event)


def _run(work: Path, processes: int, on_event: Callable[[Event], None]) -> None:
    """Start the processes and listen to them until they end. Nothing of them outlives this call."""
    threads = max(1, len(os.sched_getaffinity(0)) // processes)
    failures: list[str] = []
    with (work / LOG).open("ab", buffering=0) as log:
        process = subprocess.Popen(
            command(work / "job.json", processes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env={"OMP_NUM_THREADS": str(threads), **os.environ, "PYTHONSAFEPATH": "1"},
            start_new_session=True,  # an interrupt from the keyboard is ours to answer
        )
        assert process.stdout is not None
        try:
            for event in events(process.stdout, log):
                if event["event"] == "failure":
                    failures.append(str(event["message"]))
                else:
                    on_event(event)
            code = process.wait()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    if failures:
        raise InputError(failures[0])
    if code:
        raise TrainingFailed(_failure(work / LOG, code))


def with_local_shards(job: TrainingJob, folder: Path) -> TrainingJob:
    """The job with copies of its shards in a folder, to be mapped into memory; what is there is not fetched again."""
    store, copy = Place(job.store), Place(str(folder))
    for shards in job.shards:
        manifest = read_manifest(store, shards.folder)
        assert manifest is not None, f"{shards.folder} was planned for and is gone"
        for part in manifest.parts:
            for file in part.files:
                path = f"{manifest.stage_folder}/{file.path}"
                if copy.size(path) != file.size_bytes:
                    with copy.create(path) as sink, store.open(path) as source:
                        shutil.copyfileobj(source, sink)
        copy.write(f"{shards.folder}/{MANIFEST}", manifest.to_bytes())
    return replace(job, store=str(folder))


def command(job: Path, processes: int) -> list[str]:
    """How the trainer is started: by itself, or as several ranks under torchrun's agent."""
    if processes == 1:
        return [sys.executable, "-m", "trainer", "--die-with", str(os.getpid()), "train", str(job)]
    return [sys.executable, "-m", "trainer.launch", str(os.getpid()), str(processes), str(job)]


def events(output: IO[bytes], log: IO[bytes]) -> Iterator[Event]:
    """The events of an output; every other line goes to the log."""
    for said in output:
        event = _event(said)
        if event is None:
            log.write(said)
        else:
            yield event


def _event(said: bytes) -> Event | None:
    try:
        event = json.loads(said)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def _failure(log: Path, code: int) -> str:
    end = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return "\n".join([f"The trainer {how}; the end of its log {log}:", *end])


def num_gpus() -> int:
    """GPUs that torch can use here; it is asked, in a process of its own, only where there is a device at all."""
    if not any(re.fullmatch(r"nvidia\d+", path.name) for path in Path("/dev").glob("nvidia*")):
        return 0
    ask = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    return int(subprocess.run(ask, stdout=subprocess.PIPE, check=True).stdout)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent is gone. Where it is gone already, end at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def run_agent(parent: int, processes: int, job: str) -> None:
    """Be torchrun's agent: start the ranks on this machine, and end them all when one fails."""
    die_with(parent)
    ranks = ["-m", "trainer", "--die-with", str(os.getpid()), "train", job]
    sys.argv = ["torchrun", "--standalone", "--nproc-per-node", str(processes), *ranks]
    runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=False)


if __name__ == "__main__":
    run_agent(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
