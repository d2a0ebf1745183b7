"""Training as processes of its own: started, listened to, and ended with this one. No torch.

    this process ─► torchrun's agent ─► one rank a GPU          (a single rank is started without the agent)

Promise: when a process of this chain is gone, however it went, those it started are gone within a moment: each has the
kernel kill it when its parent dies, before it imports anything that takes time. One work folder trains once at a time;
a second caller waits for the first, and finds the model finished. A model whose export is whole is finished, however
the processes end after it.

A signal to the first of these processes reaches every rank. Ranks that train end their step, write a checkpoint and
leave; the agent waits for that as long as it takes, where torchrun by itself kills them after 30 seconds.
"""

import ctypes
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn, Protocol

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.locks import held
from corpora.store.places import Place
from corpora.store.processes import children, send
from corpora.store.stage import MANIFEST, read_manifest
from shards.reading.near import check_room, room_wanted
from shards.reading.shard_set import ShardSet
from shards.reading.verification import files_of, first_damage
from trainer.finished import check_files
from trainer.job import CACHE, JOB, TrainingJob
from trainer.nodes import Nodes
from trainer.settings import TrainingSettings

TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOG = "train.log"
EVENTS_SECONDS = 2.0  # for what a trainer that is gone said last to be heard
LOG_LINES = 20  # of the end of the log, told where training failed
GO_ON = "The same command again goes on from the newest checkpoint."
ENDED = "First to end: rank "
CUBLAS_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # with which cuBLAS adds up in one order
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_OF_AGENT = re.compile(r"[A-Z]\d{4} [\d:.]+ \d+ \S*torch/distributed/")
_OF_RANK = re.compile(r"\[rank(\d+)\]:")  # as torch begins the lines of a traceback

ALONE = Nodes()

Event = Mapping[str, Any]


class TrainingFailed(Exception):
    """The trainer ended for a reason that is not the user's to mend; the end of its log says which."""


class TrainerProcess(Protocol):
    """A trainer that runs, on this machine or another."""

    def terminate(self) -> None:
        """Tell it to write a checkpoint and leave."""
        ...

    def kill(self) -> None:
        """End it."""
        ...

    def wait(self) -> int:
        """Wait until it is gone."""
        ...


class Stop:
    """Stops a training of this process from another thread: the trainer is told to, and writes a checkpoint first."""

    def __init__(self) -> None:
        self.asked = False
        self._lock = threading.Lock()
        self._process: TrainerProcess | None = None
        self._ended = threading.Event()

    def __call__(self) -> None:
        """Tell the trainer, and wait until it is gone."""
        with self._lock:
            self.asked = True
            if self._process is None:
                return
            self._process.terminate()
        self._process.wait()
        self._ended.wait(EVENTS_SECONDS)

    def started(self, process: TrainerProcess) -> None:
        """The trainer runs; where it is to stop already, it is told."""
        with self._lock:
            self._process = process
            if self.asked:
                process.terminate()

    def end(self) -> None:
        """The trainer is of no more use: it is killed, unless it was told to stop. Wait until it is gone."""
        assert self._process is not None
        if not self.asked:
            self._process.kill()
        self._process.wait()
        self._ended.set()


def train(
    job: TrainingJob,
    on_event: Callable[[Event], None] = lambda event: None,
    stop: Stop | None = None,
    nodes: Nodes = ALONE,
) -> None:
    """Train until the export is finished; where it is already, and every byte of it as it was written, do nothing.

    A damaged export is told as an event, and written again from the newest checkpoint.
    on_event: called with every event of `trainer.metrics`, on this thread
    stop:     stops it from another thread; then this raises TrainingFailed
    nodes:    the machines that train it together, each of which calls this; the first one hears the events
    Raises InputError with the trainer's own words where the user can mend what is wrong (Damaged where a shard is not
    what was written), else TrainingFailed.
    """
    work = Path(job.work)
    work.mkdir(parents=True, exist_ok=True)
    with held(work / f"lock{nodes.suffix}"):  # of several processes that are to train this model, one does
        if not _finished(job, on_event):
            here = job if Place(job.store).is_local else with_local_shards(job, CACHE.expanduser() / "shards")
            path = work / JOB.replace(".", f"{nodes.suffix}.")
            path.write_text(here.to_json(), encoding="utf-8")
            try:
                _run(path, job, on_event, stop or Stop(), nodes)
            except (Damaged, TrainingFailed) as failed:
                damage = failed if isinstance(failed, Damaged) else _damaged_shard(here)
                if damage is not None and here is not job:
                    raise without_copy(Place(here.store), damage) from failed
                if damage is not None and damage is not failed:
                    raise damage from failed
                raise


def _damaged_shard(job: TrainingJob) -> Damaged | None:
    """A shard that explains why ranks failed, whatever they said. Reads the files that were not verified yet."""
    return first_damage(Place(job.store), files_of(job.shard_sets, job.elsewhere), job.stamps)


def without_copy(copies: Place, damage: Damaged) -> InputError:
    """Remove a damaged copy; what to tell of it."""
    if copies.size(damage.path) is not None:
        copies.delete(damage.path)
    return InputError(
        f"The copy {copies.full_path(damage.path)} of a shard was damaged and is removed: {damage.what}. Run the same "
        "command again, which fetches it again and goes on from the newest checkpoint."
    )


def _finished(job: TrainingJob, on_event: Callable[[Event], None]) -> bool:
    """Whether the export is there and whole. Reads all of it, at 10 GB a second where the system has it in memory."""
    try:
        facts = job.read_export()
        if facts is not None:
            check_files(job.export, facts["files"])
    except Damaged as damage:
        fault = f"The export {job.export} is damaged: {damage.path}: {damage.what}."
        message = f"{fault} It is written again from the newest checkpoint."
        on_event({"event": "damaged", "step": job.training.steps, "message": message})
        return False
    return facts is not None


def _run(path: Path, job: TrainingJob, on_event: Callable[[Event], None], stop: Stop, nodes: Nodes) -> None:
    """Start the processes and listen to them until they end. Nothing of them outlives this call."""
    log_path = path.with_name(LOG.replace(".", f"{nodes.suffix}."))
    processes = processes_of(job.training)
    failures: list[InputError] = []
    with log_path.open("ab", buffering=0) as log:
        begin = log.tell()
        process = subprocess.Popen(
            command(path, processes, nodes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment(job.training, processes),
            start_new_session=True,  # an interrupt from the keyboard is ours to answer
        )
        assert process.stdout is not None
        try:
            stop.started(process)
            for event in events(process.stdout, log):
                if event["event"] == "failure":
                    failures.append(_told(event))
                else:
                    on_event(event)
            code = process.wait()
        finally:
            stop.end()
            process.stdout.close()
        if failures:
            raise failures[0]
        if code and not _finished(job, on_event):
            raise TrainingFailed(failure(log_path, begin, code))
        if code:
            log.write(f"The trainer {how_ended(code)} after the export was whole: the model is finished.\n".encode())


def processes_of(training: TrainingSettings) -> int:
    """Processes of this machine: as many as are asked for, else one a GPU, else one."""
    return training.processes or (num_gpus() if training.device != "cpu" else 0) or 1


def environment(training: TrainingSettings, processes: int) -> dict[str, str]:
    """The variables that the trainer is started with; what the user has set of them stays.

    Its processes share the cores: with a thread a core each, as torch would have it, they would stand in each other's
    way. Of a container's share of the processor whole cores count.
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


def _told(event: Event) -> InputError:
    """What a rank raised that the user can mend."""
    if "path" in event:
        return Damaged(str(event["path"]), str(event["what"]))
    return InputError(str(event["message"]))


def with_local_shards(job: TrainingJob, folder: Path) -> TrainingJob:
    """The job with copies of its shards in a folder, to be mapped into memory; what is there is not fetched again.

    Where the order is windowed, the shards to train on are left where they are: they are fetched as they are read.
    Raises Damaged where the store does not hold what was written, InputError where the cache is too small for it.
    """
    store, copy, window = Place(job.store), Place(str(folder)), job.training.mixed_shards
    _check_room(job)
    for shards in job.shards:
        manifest = read_manifest(store, shards.folder)
        assert manifest is not None, f"{shards.folder} was planned for and is gone"
        for part in manifest.parts:
            assert part.record is not None, "the part of a manifest has a record"
            record = f"{manifest.stage_folder}/{part.record.path}"
            copy.write(record, store.read(record))
            if window is not None and part.labels.get("split") == "train":
                continue
            for file in part.files:
                path = f"{manifest.stage_folder}/{file.path}"
                if copy.size(path) != file.size_bytes:
                    with copy.create(path) as sink, store.open(path) as source:
                        shutil.copyfileobj(source, sink)
                        if sink.sha256() != file.sha256:
                            raise Damaged(path, "its bytes are not those that were written")
        copy.write(f"{shards.folder}/{MANIFEST}", manifest.to_bytes())
    return replace(job, store=str(folder), source="" if window is None else job.store)


def _check_room(job: TrainingJob) -> None:
    """Raise InputError where the shards that are read at once do not go into the cache."""
    window, most, store = job.training.mixed_shards, job.training.cache_bytes, Place(job.store)
    for phase, settings in enumerate(job.training.phase):
        sets = [ShardSet(store, job.shard_set(shards)) for shards in job.inputs_of(phase)]
        wanted = sum(room_wanted(shard_set, window, settings.batch) for shard_set in sets)
        check_room(f"The shards of {store.address} that phase {phase + 1} trains on", wanted, window, most)


def command(job: Path, processes: int, nodes: Nodes = ALONE, does: str = "train") -> list[str]:
    """How the trainer is started: by itself, or as several ranks under torchrun's agent. does: its command"""
    if processes == nodes.count == 1:
        return [sys.executable, "-m", "trainer", "--die-with", str(os.getpid()), does, str(job)]
    agent = [sys.executable, "-m", "trainer.launch", str(os.getpid()), str(processes), does, str(job)]
    return agent if nodes == ALONE else [*agent, nodes.to_text()]


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


def failure(log: Path, begin: int, code: int) -> str:
    """How the trainer ended, what was last said from a byte of its log on, and how to go on."""
    with log.open("rb") as file:
        file.seek(begin)
        said = file.read().decode("utf-8", errors="replace").splitlines()
    told = [f"The trainer {how_ended(code)}; the end of its log {log}:", *last_words(said)]
    killed = any(how_ended(-signal.SIGKILL) in each for each in (told[0], told[-1]))
    no_memory = " Signal 9 is what the system sends, too, where main memory runs out." if killed else ""
    return "\n".join([*told, f"{GO_ON}{no_memory}"])


def last_words(said: Sequence[str]) -> list[str]:
    """The last lines of a log that tell why training failed.

    Left out: what torchrun's agent notes, and the tracebacks of the ranks that failed because another one had ended.
    """
    first = next((line.removeprefix(ENDED).split()[0] for line in said if line.startswith(ENDED)), None)
    kept = []
    for line in said:
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


def num_gpus() -> int:
    """GPUs that torch can use here; it is asked, in a process of its own, only where there is a device at all.

    An interrupt from the keyboard does not reach that process, which would answer it with a traceback.
    """
    if not any(re.fullmatch(r"nvidia\d+", path.name) for path in Path("/dev").glob("nvidia*")):
        return 0
    ask = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    return int(subprocess.run(ask, stdout=subprocess.PIPE, check=True, process_group=0).stdout)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent is gone. Where it is gone already, end at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def leave(code: int) -> NoReturn:
    """End this process now, without the interpreter's finalisation.

    A thread of torch may still hold the tensor of a collective that is over. Where it lets go of it while the
    interpreter is finalised, the process aborts, although its work is done.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_agent(parent: int, processes: int, does: str, job: str, nodes: Nodes = ALONE) -> int:
    """Be torchrun's agent: start the ranks on this machine, and end them all when one fails; an exit code.

    A signal to stop is passed to the ranks, which leave by themselves; a second one ends all at once. torchrun is on a
    thread of its own: it takes signals only on the main thread, and would kill the ranks some time after one.
    """
    die_with(parent)
    pass_signals_on()
    with ThreadPoolExecutor(1) as torchrun:
        return torchrun.submit(_run_ranks, does, job, nodes.arguments(processes)).result()


def pass_signals_on() -> None:
    """Have the signals that stop a process told to its children, once; without a child it ends."""
    told: list[int] = []

    def tell(number: int, frame: FrameType | None) -> None:
        ranks = children(os.getpid())
        if told or not ranks:
            os._exit(128 + number)  # ranks that are left go with this process
        told.append(number)
        for pid in ranks:
            send(pid, signal.SIGTERM)

    take_signals(tell)


def take_signals(handler: Callable[[int, FrameType | None], None]) -> Mapping[signal.Signals, Any]:
    """Have the signals that stop a process handled, but for those that it ignores; who handled them before."""
    taken = [number for number in TO_STOP if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in taken}


def _run_ranks(does: str, job: str, arguments: Sequence[str]) -> int:
    agent = importlib.import_module("torch.distributed.run")
    errors = importlib.import_module("torch.distributed.elastic.multiprocessing.errors")
    ranks = ["-m", "trainer", "--die-with", str(os.getpid()), does, job]
    try:
        agent.main([*arguments, *ranks])
    except errors.ChildFailedError as error:
        rank, failed = error.get_first_failure()
        print(f"{ENDED}{rank} {how_ended(failed.exitcode)}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    leave(run_agent(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], *map(Nodes.of, sys.argv[5:])))
