"""A Dask cluster as an engine, with real processes: what a call gives, costs and raises, and who may not take part."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from launched import PATIENCE, wait_until
from small_cluster import PATHS, DaskCluster, await_gone, die_over, own_pid, raise_one, sleep_in, spin_over, started_in

from corpora.errors import InputError, UnreadableFile
from corpora.sources.contract import RawFile
from corpora.store.damage import Damaged
from corpora.store.places.place import Place
from corpora.store.worker_pool import PoolClosed, WorkerDied, WorkerLimits
from flows.command.doctor import check_engine, describe_engine
from flows.engines import connect as connecting
from flows.engines.dask_cluster import Cluster
from flows.engines.open_engine import inspect_engine, open_engine
from flows.engines.worker_checks import SharedPaths

pytestmark = pytest.mark.server

TIGHT = WorkerLimits(record_cpu_seconds=1.0, memory_bytes=400_000_000)


def sight_of(folder: Path) -> SharedPaths:
    """Return what a worker of this machine sees."""
    place = Place(str(folder / "store"))
    place.write("runs/1/recipe.toml", b"name = 'one'")
    return SharedPaths.from_sources(place, "runs/1/recipe.toml", {})


@contextmanager
def connected(
    address: str, folder: Path, limits: WorkerLimits = TIGHT, told: list[str] | None = None
) -> Iterator[Cluster]:
    """A client of a cluster."""
    tell = (told if told is not None else []).append
    with open_engine(address, 1, limits, tell, lambda: sight_of(folder)) as found:
        assert isinstance(found, Cluster)
        yield found


@pytest.fixture
def client(cluster: DaskCluster, tmp_path: Path) -> Iterator[Cluster]:
    """A client of the tests' cluster."""
    with connected(cluster.address, tmp_path) as found:
        yield found


def side_by_side(
    client: Cluster, folder: Path, number: int, seconds: float
) -> tuple[list[threading.Thread], list[object]]:
    """Threads that wait for calls of `sleep_in`, and what became of each."""
    ends: list[object] = []

    def call() -> None:
        try:
            ends.append(client.run(sleep_in, folder, seconds))
        except (WorkerDied, InputError) as error:
            ends.append(error)

    threads = [threading.Thread(target=call) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads, ends


def test_calls_run_on_the_processes_of_workers(client: Cluster, cluster: DaskCluster) -> None:
    """A call that ran in the worker itself would have neither limits nor a pulse."""
    workers = [pid for name in ("worker-0", "worker-1") for pid in cluster.processes_of(name)]
    assert client.num_workers == 2
    assert client.run(own_pid) not in workers and client.run(own_pid) != os.getpid()


def test_errors_come_back_as_themselves(client: Cluster) -> None:
    """Mending, leaving files out and the command's exit code go by the class and the fields of what was raised."""
    with pytest.raises(Damaged) as damaged:
        client.run(raise_one, "damaged")
    assert damaged.value.path == "documents/x.arrow"
    with pytest.raises(UnreadableFile) as unreadable:
        client.run(raise_one, "unreadable")
    assert (unreadable.value.source, unreadable.value.sha256) == ("notes", "ab" * 32)
    with pytest.raises(InputError, match=r"^mend this\n"):
        client.run(raise_one, "input")
    with pytest.raises(KeyError, match="other") as other:
        client.run(raise_one, "other")
    assert "On the worker tcp://" in str(other.value.__notes__)


@pytest.mark.parametrize(("function", "said"), [(die_over, "SIGSEGV"), (spin_over, "1 s of processor time")])
@pytest.mark.long
def test_limits_hold_on_a_worker_and_name_the_record(client: Cluster, function: Any, said: str) -> None:
    """Quarantine counts deaths by the record; without its name one bad record ends every run."""
    with pytest.raises(WorkerDied, match=said) as died:
        client.run(function, "ab12 -1 300")
    assert died.value.record == "ab12 -1 300"


@pytest.mark.long
def test_a_worker_that_stands_still_is_the_fault_of_no_record(cluster: DaskCluster, tmp_path: Path) -> None:
    told: list[str] = []
    with (
        connected(cluster.address, tmp_path, WorkerLimits(stall_seconds=1.0), told) as client,
        pytest.raises(InputError, match=r"hung while it ran sleep_in: .*That was 3 times"),
    ):
        client.run(sleep_in, tmp_path, 600.0)
    assert len(started_in(tmp_path, 3)) == 3


@pytest.mark.long
def test_who_leaves_takes_the_calls_along(cluster: DaskCluster, tmp_path: Path) -> None:
    """Ctrl-C closes the engine: what goes on at the workers would be in the way of the next run."""
    with connected(cluster.address, tmp_path) as client:
        threads, ends = side_by_side(client, tmp_path, 3, 600.0)
        pids = started_in(tmp_path, 2)
        client.close()
        await_gone(pids)
        for thread in threads:
            thread.join(PATIENCE)
    assert [type(end) for end in ends] == [PoolClosed] * 3
    with connected(cluster.address, tmp_path) as again:
        assert again.run(own_pid) not in pids


KILLED = """
import sys
from pathlib import Path
from small_cluster import sleep_in
from test_cluster import TIGHT, sight_of
from flows.engines.dask_cluster import Cluster

folder = Path(sys.argv[2])
client = Cluster(sys.argv[1], TIGHT, print)
client.connect(sight_of(folder))
client.run(sleep_in, folder, 600.0)
"""


@pytest.mark.long
def test_a_client_that_is_killed_takes_its_calls_along(cluster: DaskCluster, tmp_path: Path) -> None:
    paths = os.pathsep.join(map(str, [*PATHS, Path(__file__).parent]))
    command = [sys.executable, "-c", KILLED, cluster.address, str(tmp_path)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}) as process:
        pids = started_in(tmp_path, 1)
        process.send_signal(signal.SIGKILL)
    await_gone(pids)


@pytest.mark.long
def test_a_worker_that_goes_in_the_middle_costs_its_calls_alone(cluster: DaskCluster, tmp_path: Path) -> None:
    """Its nanny goes as well, as with a machine; the scheduler gives the call to another worker."""
    with connected(cluster.address, tmp_path) as client:
        threads, ends = side_by_side(client, tmp_path, 2, 600.0)
        lost = started_in(tmp_path, 2)
        cluster.kill("worker-1")
        (tmp_path / "over").touch()
        for thread in threads:
            thread.join(PATIENCE)
        cluster.start_worker("worker-1")
        assert len(started_in(tmp_path, 3)) == 3, "one of two calls was made again"
        assert len(ends) == 2 and len(set(ends)) == 1 and set(ends) < set(lost)
    await_gone([pid for pid in lost if pid not in ends])


@pytest.mark.long
def test_a_scheduler_that_comes_again_goes_on(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a client that has waited for it too long does not end with a message."""
    told: list[str] = []
    with connected(cluster.address, tmp_path, told=told) as client, connected(cluster.address, tmp_path) as hasty:
        threads, ends = side_by_side(client, tmp_path, 1, 600.0)
        lost = started_in(tmp_path, 1)
        cluster.kill("scheduler")
        assert wait_until(lambda: len(told) == 2)
        with monkeypatch.context() as short:
            short.setattr(connecting, "RECONNECT_SECONDS", 1.0)
            short.setattr(connecting, "CONNECT_SECONDS", 1.0)
            with pytest.raises(InputError, match="went away in the middle of the run"):
                hasty.run(own_pid)
            with pytest.raises(InputError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1"):
                Cluster(cluster.address, TIGHT, print).connect(sight_of(tmp_path))
        await_gone(lost)
        cluster.restart_scheduler()
        (tmp_path / "over").touch()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(ends) == 1 and ends != lost and isinstance(ends[0], int)
    assert [line.partition(" is ")[2][:4] for line in told[1:]] == ["gone", "back"]


@pytest.mark.long
def test_workers_of_another_kind_build_nothing(cluster: DaskCluster, tmp_path: Path) -> None:
    """One that joins is skipped and reported; one that is there already ends the run before it begins."""
    unlike = tmp_path / "unlike.py"
    unlike.write_text("import platform\nplatform.machine = lambda: 'riscv64'\n")
    told: list[str] = []
    with connected(cluster.address, tmp_path, told=told) as client:
        cluster.start_worker("other", "--preload", str(unlike))
        try:
            threads, ends = side_by_side(client, tmp_path, 6, 0.5)
            for thread in threads:
                thread.join(PATIENCE)
            others = set(cluster.processes_of("other"))
            assert len(ends) == 6 and all(isinstance(end, int) and end not in others for end in ends)
            with pytest.raises(InputError, match=r"is not like this machine.*has processor riscv64 instead of"):
                with connected(cluster.address, tmp_path):
                    raise AssertionError
            assert re.fullmatch(
                r"1 of 3 workers are not like .* has processor riscv64 .*", inspect_engine(cluster.address)[1]
            )
        finally:
            cluster.kill("other")
    assert [line for line in told if "is skipped" in line and "it has processor riscv64" in line]


def test_a_plan_and_the_doctor_say_what_the_cluster_is(cluster: DaskCluster) -> None:
    """Before a run, with the remedy where there must be one."""
    [line] = describe_engine(cluster.address)
    said = r"Engine tcp://[\d.:]+: 2 workers \(1 with GPUs\) with 2 threads on 1 machine with \d+\.\d GB of memory\."
    assert re.fullmatch(said, line)
    [found] = check_engine(cluster.address)
    assert (found.ok, found.remedy) == ("ok", "") and found.fact in line
    [missing] = check_engine("tcp://127.0.0.1:1")
    assert missing.ok == "fail" and missing.remedy.startswith("No Dask scheduler answers at tcp://127.0.0.1:1")
    assert describe_engine("tcp://127.0.0.1:1") == ["Engine tcp://127.0.0.1:1.", f"Before a run: {missing.remedy}."]
    assert describe_engine("local") == [] == check_engine(None)


def test_what_workers_cannot_see_is_said_at_the_start(cluster: DaskCluster, tmp_path: Path) -> None:
    here = tmp_path / "notes.jsonl"
    here.write_text("{}\n")
    raw = RawFile(name="notes.jsonl", sha256="ab" * 32, size_bytes=3, path=str(here))
    place = Place(str(tmp_path / "store"))
    place.write("runs/1/recipe.toml", b"name = 'one'")
    sight = SharedPaths.from_sources(place, "runs/1/recipe.toml", {"notes": [raw]})
    here.write_text("{} {}\n")  # another machine has another file there
    with pytest.raises(InputError, match=r"2 of 2 workers .* the raw file .*notes.jsonl \(6 bytes there, 3 here\)"):
        Cluster(cluster.address, TIGHT, print).connect(sight)
    here.unlink()
    with pytest.raises(InputError, match=r"not see the raw file .*notes.jsonl \(No such file"):
        Cluster(cluster.address, TIGHT, print).connect(sight)
    place.delete("runs/1/recipe.toml")
    with pytest.raises(InputError, match=r"not see the store .*store \(it has nothing there\)"):
        Cluster(cluster.address, TIGHT, print).connect(sight)
