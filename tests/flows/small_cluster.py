"""A Dask cluster of real processes on the loopback, and functions for its workers to call.

with dask_cluster(folder) as cluster:
    cluster.address
    cluster.start_worker("third")    a worker more, in the environment of this process
    cluster.kill_worker("first")     as a machine goes: nanny and worker at once
    cluster.restart_scheduler()      killed, and started again under the same address; its workers went with it
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from corpora.errors import InputError, UnreadableFile
from corpora.store.current_record import begin_call, report_record
from corpora.store.damage import Damaged
from corpora.store.processes import is_alive, list_process_tree

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0  # only ends a hang
WITH_NANNY, WITH_GPU = "worker-0", "worker-1"
# Dask's command, which the kernel kills when the tests are gone, however they went.
DASK = "import ctypes, runpy; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); runpy.run_module('dask', run_name='__main__')"
# Dask's watching of itself, by which an idle cluster takes a tenth of a core all the time.
QUIET = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "2s",
}
PATHS = [ROOT / "tests" / "started", ROOT, ROOT / "tests" / "flows", ROOT / "tests"]


@dataclass(kw_only=True)
class DaskCluster:
    """Processes of a cluster, by name; the scheduler is one of them."""

    folder: Path
    address: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start_scheduler(self) -> None:
        """On a free port, or again on the one it had."""
        told = self.folder / "scheduler.json"
        told.unlink(missing_ok=True)
        port = self.address.rpartition(":")[2] or "0"
        where = ("--host", "127.0.0.1", "--port", port, "--no-dashboard", "--scheduler-file", str(told))
        self._start("scheduler", "scheduler", *where)
        await_file(told)
        self.address = json.loads(told.read_text())["address"]

    def start_worker(self, name: str, *options: str) -> None:
        """A worker of one thread; it has joined when this returns.

        The one named WITH_NANNY has one, which makes it a daemon of Python's; the others start in half the time.
        """
        ready = self.folder / f"{name}-{time.monotonic_ns()}.ready"
        preload = self.folder / "say_ready.py"
        preload.write_text("import os, pathlib\ndef dask_setup(worker):\n"
                           "    worker.loop.call_later(0.2, pathlib.Path(os.environ['READY']).touch)\n")  # fmt: skip
        small = ("--nthreads", "1", "--no-dashboard", "--local-directory", str(self.folder), "--preload", str(preload))
        tags = () if name == WITH_NANNY else ("--no-nanny",)
        tags = (*tags, "--resources", "GPU=1") if name == WITH_GPU else tags
        self._start(name, "worker", self.address, "--name", name, *small, *tags, *options, READY=str(ready))
        await_file(ready)

    def kill(self, name: str) -> None:
        """Kill a process and all that it started, at once."""
        process = self.processes.pop(name)
        pids = list_process_tree(process.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)  # so that no nanny sees its worker go
        for pid in reversed(pids):
            os.kill(pid, signal.SIGKILL)
        process.wait()

    def restart_scheduler(self) -> None:
        """Its workers leave when it goes, as Dask's do, and a supervisor starts them again."""
        workers = [name for name in self.processes if name != "scheduler"]
        if "scheduler" in self.processes:
            self.kill("scheduler")
        for name in workers:
            self.processes.pop(name).wait(START_SECONDS)
        self.start_scheduler()
        for name in workers:
            self.start_worker(name)

    def processes_of(self, name: str) -> list[int]:
        """The nanny of a worker, the worker, and what that started."""
        return list_process_tree(self.processes[name].pid)

    def _start(self, name: str, *arguments: str, **more: str) -> None:
        environment = {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(map(str, PATHS)), **more}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-W", "default", "-c", DASK, *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip


@contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[DaskCluster]:
    """A scheduler and some workers, gone at the end with all that they started."""
    cluster = DaskCluster(folder=folder)
    try:
        cluster.start_scheduler()
        for number in range(workers):
            cluster.start_worker(f"worker-{number}")
        yield cluster
    finally:
        for name in list(cluster.processes):
            cluster.kill(name)


def await_file(path: Path, seconds: float = START_SECONDS) -> None:
    """Wait until a file is there and not empty, or was touched."""
    deadline = time.monotonic() + seconds
    while not path.exists() or (path.suffix == ".json" and not path.read_text().endswith("}")):
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.05)


def await_gone(pids: list[int], seconds: float = START_SECONDS) -> None:
    """Wait until none of some processes lives."""
    deadline = time.monotonic() + seconds
    while left := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < deadline, f"{left} still live"
        time.sleep(0.05)


def own_pid(_: object = None) -> int:
    """The process that this is called in."""
    return os.getpid()


def raise_one(kind: str) -> None:
    """One of the errors that a run treats by what it is."""
    if kind == "damaged":
        raise Damaged("documents/x.arrow", "its digest is of other bytes")
    if kind == "unreadable":
        raise UnreadableFile("a.gz is cut off.", "notes", "a.gz", "ab" * 32, "/raw/a.gz")
    raise InputError("mend this") if kind == "input" else KeyError(kind)


def spin_over(record: str) -> None:
    """Take processor time over a record for ever."""
    begin_call(())
    report_record(record)
    while True:
        pass


def die_over(record: str) -> None:
    """End as in a crash, over a record."""
    report_record(record)
    os.kill(os.getpid(), signal.SIGSEGV)


def sleep_in(folder: Path, seconds: float) -> int:
    """Leave a file named after this process and call, and sleep; at most until `over` is in the folder."""
    (folder / f"{os.getpid()}.{time.monotonic_ns()}.pid").touch()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (folder / "over").exists():
        time.sleep(0.05)
    return os.getpid()


def started_in(folder: Path, number: int, seconds: float = START_SECONDS) -> list[int]:
    """The process of each call of `sleep_in`, when there are so many."""
    deadline = time.monotonic() + seconds
    while len(found := [int(path.name.partition(".")[0]) for path in sorted(folder.glob("*.pid"))]) < number:
        assert time.monotonic() < deadline, f"{len(found)} of {number} calls began"
        time.sleep(0.05)
    return found
