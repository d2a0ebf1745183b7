"""Starts the training processes, reads their output, and makes sure that they end when this process does. No torch.

    this process ─► torchrun's agent ─► one rank per GPU          (a single rank is started without the agent)

Promise: if a process in this chain ends, for whatever reason, those that it started end within a moment. Each of them
asks the kernel to kill it when its parent dies, before it imports anything slow. Only one run at a time uses a work
folder; a second caller waits for the first, and then finds the model finished. A model with a complete export is
finished, no matter how the processes end afterwards.

A signal to the first of these processes reaches every rank. Ranks that are training finish their step, write a
checkpoint and exit. The agent waits for that as long as it takes; torchrun itself would kill them after 30 seconds.

For several machines, run the same command on each, with the index of the machine:

    cloze train JOB --nodes 2 --node-rank 0 --rendezvous first-host:29500
    cloze train JOB --nodes 2 --node-rank 1 --rendezvous first-host:29500

Every machine has the same number of processes and accesses the job's `work` folder at the same path, because each
process writes its share of a checkpoint there. The first machine reports progress. If one of them ends, all do. The
same commands then continue from the newest checkpoint.

Events are read from the output of the processes. Everything else is written to a log. Its last lines explain a failure.
Shards in an object store are first copied to this machine (`with_local_shards`). Another thread can stop the run
(`Stop`).
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Protocol

from corpora.errors import InputError
from corpora.lean_process import OWN_CODE
from corpora.store.checked_folder import check_files
from corpora.store.damage import Damaged
from corpora.store.file_check import copy_checked_file, open_checked_bytes
from corpora.store.places.files import explain_write_errors, hold_lock
from corpora.store.places.place import Place
from corpora.store.settings import PROCESSES
from corpora.store.stage import MANIFEST, read_manifest
from shards.reading.files.shard_cache import check_room, compute_bytes_needed
from shards.reading.files.shard_set import ShardSet
from trainer.job import CACHE, JOB, SettledTraining, TrainingJob, check_repeats, describe_repeats
from trainer.metrics import Event
from trainer.settings.training import TrainingSettings

_ADDRESS = re.compile(r"([^\s:/]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
CUBLAS_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # with which cuBLAS adds up in one order
LOG_LINES = 20  # of the end of the log, reported if training failed
RESUME_HINT = "The same command continues from the newest checkpoint."
FIRST_TO_END = "First to end: rank "
PREFIX = "trainer: "  # before the paragraph that the trainer ends with
USER_ERROR_CODE = 2  # its exit code then
_OF_AGENT = re.compile(r"[A-Z]\d{4} [\d:.]+ \d+ \S*torch/distributed/")
_OF_RANK = re.compile(r"\[rank(\d+)\]:")  # as torch begins the lines of a traceback
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The machines of a training run.

    Attributes:
        count: The number of machines.
        rank: The zero-based index of this machine.
        rendezvous: HOST:PORT of the first machine, which the others connect to; empty for training on a single machine.
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
        """The suffix that distinguishes this machine's files in the work folder; empty on the first machine.

        >>> Nodes().suffix, Nodes(count=2, rank=1, rendezvous="first:29500").suffix
        ('', '-node-1')
        """
        return f"-node-{self.rank}" if self.rank else ""

    def to_torchrun_arguments(self, processes: int) -> list[str]:
        """Build torchrun's command-line arguments for this machine. `processes` is the number per machine.

        >>> Nodes(count=2, rank=1, rendezvous="first:29500").to_torchrun_arguments(8)[:5]
        ['--nproc-per-node', '8', '--nnodes', '2', '--node-rank']
        """
        if self.count == 1:
            return ["--standalone", "--nproc-per-node", str(processes)]
        host, _, port = self.rendezvous.rpartition(":")
        each = ["--nproc-per-node", str(processes), "--nnodes", str(self.count), "--node-rank", str(self.rank)]
        return [*each, "--master-addr", host.strip("[]"), "--master-port", port]


ONE_NODE = Nodes()


def count_processes(training: TrainingSettings) -> int:
    """Return the number of training processes on this machine: the number in the settings, or one per GPU, or one."""
    return training.processes or (count_gpus() if training.device != "cpu" else 0) or 1


def build_environment(training: TrainingSettings, processes: int) -> dict[str, str]:
    """Build the environment variables for the trainer. Variables that the user has set are left unchanged.

    The cores are divided among the processes, because torch's default of one thread per core in each process would slow
    them all down. If a container has a CPU quota, only whole cores count.

    Args:
        training: The settings, which may require deterministic algorithms.
        processes: The number of processes on this machine.
    """
    threads = max(1, count_usable_cores() // processes)
    chosen = {"OMP_NUM_THREADS": str(threads)}
    if training.deterministic:
        chosen |= [CUBLAS_WORKSPACE]
    return {**chosen, **os.environ, **OWN_CODE}


def count_usable_cores(quota: Path = CPU_QUOTA) -> int:
    """Count the cores that this process may use.

    A container's CPU quota, which Linux writes to the file `quota`, is rounded down to whole cores, but to at least
    one.
    """
    cores = len(os.sched_getaffinity(0))
    granted, period = quota.read_text(encoding="ascii").split() if quota.exists() else ("max", "1")
    return cores if granted == "max" else max(1, min(cores, int(granted) // int(period)))


def count_gpus() -> int:
    """Count the GPUs that torch can use on this machine.

    If there is a GPU, a separate process asks torch. A keyboard interrupt does not reach that process, because it would
    print a traceback.
    """
    if not any(re.fullmatch(r"nvidia\d+", path.name) for path in Path("/dev").glob("nvidia*")):
        return 0
    ask = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    own = {**os.environ, **OWN_CODE}
    return int(subprocess.run(ask, stdout=subprocess.PIPE, check=True, process_group=0, env=own).stdout)


def build_command(job: Path, processes: int, nodes: Nodes = ONE_NODE, does: str = "train") -> list[str]:
    """Build the command line that starts the trainer, through torchrun if there are several processes.

    Args:
        job: Path of the job's JSON file.
        processes: The number of processes on this machine.
        nodes: The machines of the training run.
        does: The command of the trainer, such as "train".
    """
    if processes == nodes.count == 1:
        return [sys.executable, "-m", "trainer", "--die-with", str(os.getpid()), does, str(job)]
    agent = [sys.executable, "-m", "trainer.torchrun_agent", str(os.getpid()), str(processes), does, str(job)]
    return [*agent, *nodes.to_torchrun_arguments(processes)]


# The output.


def iter_events(output: IO[bytes], log: IO[bytes]) -> Iterator[Event]:
    """Yield the events (JSON objects with the key `event`) in the trainer's output.

    All other lines are written to the log.
    """
    for line in output:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict) and "event" in event:
            yield event
        else:
            log.write(line)


def read_lines_after(log: Path, begin: int) -> list[str]:
    """Read the lines of a log that follow a byte offset, without line ends."""
    with log.open("rb") as file:
        file.seek(begin)
        return file.read().decode("utf-8", errors="replace").splitlines()


def parse_input_error(code: int, lines: Sequence[str]) -> InputError | None:
    """Return the InputError with which the trainer exited, or None if it exited for another reason.

    Args:
        code: The exit code.
        lines: The last lines of the log.
    """
    if code == USER_ERROR_CODE and lines and lines[-1].startswith(PREFIX):
        return InputError(lines[-1].removeprefix(PREFIX))
    return None


def describe_failure(log: Path, begin: int, code: int) -> str:
    """Describe how the trainer exited and how to resume, with the last lines of its log.

    Args:
        log: The log.
        begin: The byte offset at which the trainer's lines begin in the log.
        code: The exit code; negative for a signal.
    """
    lines = read_lines_after(log, begin)
    report = [f"The trainer {describe_exit(code)}; the end of its log {log}:", *select_last_lines(lines)]
    killed = any(describe_exit(-signal.SIGKILL) in each for each in (report[0], report[-1]))
    no_memory = " The system also sends signal 9 where main memory runs out." if killed else ""
    return "\n".join([*report, f"{RESUME_HINT}{no_memory}"])


def select_last_lines(lines: Sequence[str]) -> list[str]:
    """Select the last lines of a log that explain why training failed, at most LOG_LINES.

    Messages of torchrun's agent are omitted, and so are tracebacks of processes that failed only because another one
    had exited.
    """
    first = next((line.removeprefix(FIRST_TO_END).split()[0] for line in lines if line.startswith(FIRST_TO_END)), None)
    kept = []
    for line in lines:
        of_rank = _OF_RANK.match(line)
        if not _OF_AGENT.match(line) and (of_rank is None or first in (None, of_rank[1])):
            kept.append(line)
    return kept[-LOG_LINES:]


def describe_exit(code: int) -> str:
    """Describe an exit code as the end of a sentence. A negative code stands for a signal.

    >>> describe_exit(-6)
    'was killed by signal 6'
    """
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def with_local_shards(job: TrainingJob, folder: Path) -> TrainingJob:
    """Copy the shards of a job to a local folder, to be memory-mapped, and return a job that reads the copies.

    Existing copies are reused. In windowed order, training shards are not copied now, but fetched when they are read.

    Args:
        job: The job.
        folder: The folder for the copies.

    Raises:
        Damaged: If a file in the store differs from what was written.
        InputError: If the cache is too small for the shards that are read at the same time.
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
                if copy.find_size(path) != file.size_bytes:
                    copy_checked_file(store, path, file, copy, path)
        copy.write(f"{shards.folder}/{MANIFEST}", manifest.to_bytes())
    return replace(job, store=str(folder), source="" if window is None else job.store)


def _check_room(job: TrainingJob) -> None:
    """Raise InputError if the shards that are read at the same time exceed the size of the local cache."""
    window, most, store = job.training.mixed_shards, job.training.cache_bytes, Place(job.store)
    for phase, settings in enumerate(job.training.phase):
        sets = [ShardSet(store, job.read_shard_set(shards)) for shards in job.get_inputs(phase)]
        wanted = sum(compute_bytes_needed(shard_set, window, settings.batch) for shard_set in sets)
        check_room(f"The shards of {store.address} that phase {phase + 1} trains on", wanted, window, most)


def remove_damaged_copy(copies: Place, damage: Damaged) -> InputError:
    """Remove a damaged local copy of a shard, and return the error to raise, which tells the user to run again.

    Args:
        copies: The folder of the local copies.
        damage: The error that reports the damage.
    """
    if copies.find_size(damage.path) is not None:
        copies.delete(damage.path)
    return InputError(
        f"The copy {copies.to_full_path(damage.path)} of a shard was damaged and has been removed: {damage.what}. Run "
        "the same command again: it fetches the shard again and continues from the newest checkpoint."
    )


EVENTS_SECONDS = 2.0  # to hear the last events of a trainer that has ended


class TrainerProcess(Protocol):
    """Protocol for a running trainer, on this machine or another."""

    def terminate(self) -> None:
        """Ask the trainer to write a checkpoint and exit."""

    def kill(self) -> None:
        """Kill the trainer immediately, without a checkpoint."""

    def wait(self) -> int:
        """Wait until the trainer exits, and return its exit code."""


class Stop:
    """Stops a training run from another thread. Calling it makes the trainer write a checkpoint and exit.

    Attributes:
        asked: True if a stop was requested.
    """

    def __init__(self) -> None:
        self.asked = False
        self._lock = threading.Lock()
        self._process: TrainerProcess | None = None
        self._ended = threading.Event()

    def __call__(self) -> None:
        """Request a stop, and wait until the trainer has exited."""
        with self._lock:
            self.asked = True
            if self._process is None:
                return
            self._process.terminate()
        self._process.wait()
        self._ended.wait(EVENTS_SECONDS)

    def set_process(self, process: TrainerProcess) -> None:
        """Set the trainer process that a stop should end. If a stop was already requested, ask it to exit at once."""
        with self._lock:
            self._process = process
            if self.asked:
                process.terminate()

    def end(self) -> None:
        """Wait until the trainer has exited. Kill it first, unless a stop was requested.

        The process must have been set with `set_process`.
        """
        assert self._process is not None
        if not self.asked:
            self._process.kill()
        self._process.wait()
        self._ended.set()


LOG_FILE = "train.log"


class TrainingFailed(Exception):
    """Raised if the trainer exits for a reason that the user cannot fix. The message contains the end of the log."""


def train(
    job: TrainingJob,
    on_event: Callable[[Event], None] = lambda event: None,
    stop: Stop | None = None,
    nodes: Nodes = ONE_NODE,
) -> None:
    """Run training until the export is complete. Return immediately if an undamaged export already exists.

    A damaged export is reported as an event, and written again from the newest checkpoint.

    Args:
        job: The job.
        on_event: Called on this thread with each event of `trainer.metrics`.
        stop: Stops the run from another thread; `train` then raises TrainingFailed.
        nodes: The machines that train together. Each of them calls `train`; only the first one receives the events.

    Raises:
        InputError: If the user can fix the problem, with the trainer's message.
        Damaged: If a shard is damaged.
        TrainingFailed: If the trainer exited for another reason.
    """
    work = Path(job.work)
    with ExitStack() as alone:
        with explain_write_errors(job.work):
            work.mkdir(parents=True, exist_ok=True)
            alone.enter_context(
                hold_lock(work / f"lock{nodes.suffix}")
            )  # of several that are to train this model, one does
        if not _is_finished(job, on_event):
            settled = SettledTraining(training=job.training, shards=tuple(job.shard_sets), shares=job.phase_shares)
            reads = [*settled.iter_reads({} if job.origin is None else job.origin.read)]
            check_repeats(reads, job.training)
            if warning := describe_repeats(reads):
                on_event({"event": "warning", "step": 0, "message": warning})
            here = job if Place(job.store).is_local else with_local_shards(job, CACHE.expanduser() / "shards")
            path = work / JOB.replace(".", f"{nodes.suffix}.")
            with explain_write_errors(str(path)):
                path.write_text(here.to_json(), encoding="utf-8")
            try:
                _run(path, job, on_event, stop or Stop(), nodes)
            except (Damaged, TrainingFailed) as failed:
                damage = failed if isinstance(failed, Damaged) else _find_damaged_shard(here)
                if damage is not None and here is not job:
                    raise remove_damaged_copy(Place(here.store), damage) from failed
                if damage is not None and damage is not failed:
                    raise damage from failed
                raise


def _find_damaged_shard(job: TrainingJob) -> Damaged | None:
    """Read the shards of a job, and return the error for the first damaged file, or None if there is none.

    Shards that are fetched later are not read.
    """
    for shards in job.shard_sets:
        parts = [
            part for part in shards.parts if not job.fetched_split or part.labels.get("split") != job.fetched_split
        ]
        for path, file in ((f"{shards.stage_folder}/{file.path}", file) for part in parts for file in part.files):
            try:
                with open_checked_bytes(Place(job.store), path, file):
                    pass
            except Damaged as damage:
                return damage
    return None


def _is_finished(job: TrainingJob, on_event: Callable[[Event], None]) -> bool:
    """Return True if the export is complete and undamaged. A damaged export is reported as an event.

    The whole export is read, at 10 GB per second if it is in the page cache. Raises InputError if it belongs to another
    model.

    Args:
        job: The job.
        on_event: Called with the event.
    """
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
    """Start the trainer, and follow it until it exits. No process of the trainer outlives this call.

    Args:
        path: The job's JSON file. The log is in the same folder.
        job: The job.
        on_event: Called on this thread with each event.
        stop: Stops the run from another thread.
        nodes: The machines of the run.

    Raises:
        InputError: If the user can fix the problem, with the trainer's message.
        TrainingFailed: If the trainer exited with an error before the export was complete.
    """
    log_path = path.with_name(LOG_FILE.replace(".", f"{nodes.suffix}."))
    with explain_write_errors(str(log_path)):
        log_path.touch()
    begin = log_path.stat().st_size
    code = run_trainer(path, log_path, job.training, on_event, stop, nodes)
    if code and not _is_finished(job, on_event):
        raise TrainingFailed(describe_failure(log_path, begin, code))
    if code:
        with log_path.open("a", encoding="utf-8") as log:
            log.write(f"The trainer {describe_exit(code)} after the export was complete: the model is finished.\n")


def run_trainer(
    path: Path,
    log_path: Path,
    training: TrainingSettings,
    on_event: Callable[[Event], None],
    stop: Stop,
    nodes: Nodes = ONE_NODE,
    does: Sequence[str] = ("train",),
) -> int:
    """Run a command of the trainer on a job file in separate processes, wait until they exit, and return the exit code.

    Args:
        path: The job's JSON file.
        log_path: Receives all output that is not an event. It is appended to.
        training: The settings, which determine the number of processes and the environment.
        on_event: Called on this thread with each event.
        stop: Stops the command from another thread.
        nodes: The machines that run the command together.
        does: The command, followed by the arguments that come after the job file.

    Raises:
        InputError: If the user can fix the problem, with the trainer's message; Damaged if a file is damaged.
    """
    processes = count_processes(training)
    failures: list[InputError] = []
    with explain_write_errors(str(log_path)):
        opened = log_path.open("ab", buffering=0)
    with opened as log:
        process = subprocess.Popen(
            [*build_command(path, processes, nodes, does[0]), *does[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=build_environment(training, processes),
            start_new_session=True,  # an interrupt from the keyboard is ours to answer
        )
        assert process.stdout is not None
        try:
            stop.set_process(process)
            for event in iter_events(process.stdout, log):
                if event["event"] == "failure":
                    damage = Damaged(str(event["path"]), str(event["what"])) if "path" in event else None
                    failures.append(damage or InputError(str(event["message"])))
                else:
                    on_event(event)
            code = process.wait()
        finally:
            stop.end()
            process.stdout.close()
    if failures:
        raise failures[0]
    return code


def build_exit_error(log_path: Path, begin: int, code: int) -> Exception:
    """Build the error for a trainer that exited with an error code: InputError with its message, or TrainingFailed.

    Args:
        log_path: The log.
        begin: The byte offset at which this trainer's lines begin in the log.
        code: The exit code; negative for a signal.
    """
    return parse_input_error(code, read_lines_after(log_path, begin)) or TrainingFailed(
        describe_failure(log_path, begin, code)
    )
