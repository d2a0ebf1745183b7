"""The worker pool: results and errors come back as they are, and no process is ever left behind."""

import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corpora.errors import InputError
from corpora.store.ledger import LedgerError
from corpora.store.worker_pool import PoolClosed, WorkerDied, WorkerPool

PATIENCE = 120.0  # seconds; what is waited for comes within a tenth of one, or on a busy machine some time later
FOREVER = 3_600.0


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """A pool of two workers, which the tests of this file share."""
    with WorkerPool(2) as pool:
        yield pool


def double(number: int, *, plus: int = 0) -> int:
    return 2 * number + plus


def refuse(message: str) -> None:
    raise InputError(message)


def lose() -> None:
    raise LedgerError("3 documents came in and 2 are accounted for")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def note_and_wait(folder: Path, seconds: float) -> int:
    (folder / str(os.getpid())).touch()
    time.sleep(seconds)
    return os.getpid()


def note_and_wait_for(folder: Path, sign: Path) -> int:
    (folder / str(os.getpid())).touch()
    assert wait_until(sign.exists)
    return os.getpid()


def note_and_wait_for_company(folder: Path) -> int:
    (folder / str(os.getpid())).touch()
    assert wait_until(lambda: len(noted(folder)) == 2)
    return os.getpid()


def die_in_company(folder: Path) -> None:
    """Die once another call is under way."""
    while not any(folder.iterdir()):
        time.sleep(0.01)
    die()


def wait_until(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def is_running(pid: int) -> bool:
    """True if any thread of a process runs; a dead one that is not yet collected has its first thread left."""
    folder = Path(f"/proc/{pid}/task")
    try:
        states = [(task / "stat").read_text().rsplit(")", 1)[1].split()[0] for task in folder.iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return folder.exists()  # a thread ended as it was looked at
    return states != ["Z"]


def noted(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir()]


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """A thread that makes a call, and the list where its result or its error will be."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(call())
        except (WorkerDied, InputError) as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


def test_calls_run_on_other_processes_and_return(pool: WorkerPool) -> None:
    assert pool.run(double, 4) == 8
    assert pool.run(double, 4, plus=1) == 9
    pid = pool.run(os.getpid)
    assert pid != os.getpid() and is_running(pid)


def test_as_many_calls_run_at_once_as_there_are_workers(pool: WorkerPool, tmp_path: Path) -> None:
    """Fails if one waits for the other: each ends only when both have begun."""
    calls = [in_thread(functools.partial(pool.run, note_and_wait_for_company, tmp_path)) for _ in range(2)]
    for thread, _ in calls:
        thread.join()
    assert sorted(result for _, results in calls for result in results) == sorted(noted(tmp_path))


def test_errors_come_back_as_themselves(pool: WorkerPool) -> None:
    with pytest.raises(InputError) as raised:
        pool.run(refuse, "mend this")
    assert str(raised.value) == "mend this"
    assert "On a worker process" in raised.value.__notes__[0] and "in refuse" in raised.value.__notes__[0]
    with pytest.raises(LedgerError, match="3 documents came in"):
        pool.run(lose)
    assert pool.run(double, 1) == 2


def test_a_killed_worker_fails_its_own_call_only_and_at_once(pool: WorkerPool, tmp_path: Path) -> None:
    notes, sign = tmp_path / "notes", tmp_path / "sign"
    notes.mkdir()
    other, results = in_thread(functools.partial(pool.run, note_and_wait_for, notes, sign))
    with pytest.raises(WorkerDied):
        pool.run(die_in_company, notes)
    assert results == []  # the other one is still at work
    assert pool.run(double, 5) == 10
    sign.touch()
    other.join()
    assert results == noted(notes)


def test_a_worker_that_died_while_it_was_idle_fails_no_call(tmp_path: Path) -> None:
    with WorkerPool(1) as pool:
        idle = pool.run(os.getpid)
        os.kill(idle, signal.SIGKILL)
        assert wait_until(lambda: not is_running(idle))
        assert pool.run(double, 5) == 10


def test_more_callers_than_workers_take_turns(pool: WorkerPool, tmp_path: Path) -> None:
    calls = [in_thread(functools.partial(pool.run, note_and_wait, tmp_path, 0.05)) for _ in range(12)]
    for thread, _ in calls:
        thread.join(PATIENCE)
    assert {result for _, results in calls for result in results} == {*noted(tmp_path)}
    assert len(noted(tmp_path)) <= 2 and all(len(results) == 1 for _, results in calls)


def test_what_cannot_travel_is_an_error_of_its_call_alone(pool: WorkerPool) -> None:
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pool.run(lambda: 1)
    with pytest.raises(TypeError, match="cannot pickle"):
        pool.run(threading.Lock)  # its result stays where it was made
    assert pool.run(double, 1) == 2


def test_an_interrupted_call_leaves_a_pool_that_answers_the_next_one(tmp_path: Path) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)

    def alarm() -> None:
        assert wait_until(lambda: len(noted(tmp_path)) == 1)
        os.kill(os.getpid(), signal.SIGALRM)

    clock = threading.Thread(target=alarm)
    with WorkerPool(1) as pool:
        try:
            clock.start()
            with pytest.raises(KeyboardInterrupt):
                pool.run(note_and_wait, tmp_path, FOREVER)
        finally:
            clock.join()
            signal.signal(signal.SIGALRM, before)
        assert not any(map(is_running, noted(tmp_path)))
        assert pool.run(double, 5) == 10  # never the answer of the call before


def test_results_may_be_large(pool: WorkerPool) -> None:
    assert pool.run(bytes, 20_000_000) == bytes(20_000_000)


def test_closing_ends_the_workers_whatever_they_do(tmp_path: Path) -> None:
    pool = WorkerPool(2)
    calls = [in_thread(functools.partial(pool.run, note_and_wait, tmp_path, FOREVER)) for _ in range(8)]
    assert wait_until(lambda: len(noted(tmp_path)) == 2)

    def ended() -> bool:
        pool.close()  # again for a call that comes to it after it was closed, and is taken
        return not any(thread.is_alive() for thread, _ in calls)

    assert wait_until(ended)
    assert [type(result) for _, results in calls for result in results] == [PoolClosed] * 8
    assert wait_until(lambda: not any(map(is_running, noted(tmp_path))))


def test_a_closed_pool_can_be_closed_again_and_used_again() -> None:
    pool = WorkerPool(1)
    pool.close()
    first = pool.run(os.getpid)
    pool.close()
    pool.close()
    assert wait_until(lambda: not is_running(first))
    assert pool.run(double, 2) == 4
    pool.close()


PARENT = """
import sys, threading, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from corpora.store.worker_pool import WorkerPool
from test_pool import FOREVER, note_and_wait

if __name__ == "__main__":
    pool = WorkerPool(2)
    for _ in range(2):
        threading.Thread(target=pool.run, args=(note_and_wait, Path(sys.argv[2]), FOREVER)).start()
    time.sleep(FOREVER)
"""


@pytest.mark.parametrize("killed_by", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_no_worker_outlives_a_killed_parent(tmp_path: Path, killed_by: signal.Signals) -> None:
    program = tmp_path / "parent.py"
    program.write_text(PARENT)
    notes = tmp_path / "notes"
    notes.mkdir()
    command = [sys.executable, "-B", str(program), str(Path(__file__).parent), str(notes)]
    with subprocess.Popen(command, start_new_session=True) as parent:
        try:
            assert wait_until(lambda: len(noted(notes)) == 2)
            workers = noted(notes)
            assert all(map(is_running, workers))
        finally:
            parent.send_signal(killed_by)
    assert wait_until(lambda: not any(map(is_running, workers)))


FORKED = """
import os, signal, sys, threading
import test_pool
from corpora.store.worker_pool import WorkerPool
from flows.signals import answer_signals
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
answer_signals()
test_pool.loaded = "here"
with WorkerPool(2) as pool:
    pool.fork_workers(5)
    print(pool.run(test_pool.read_loaded), end=" ")
    try:
        pool.run(test_pool.die)
    except test_pool.WorkerDied:
        print("died", end=" ")
    print({pool.run(test_pool.read_loaded), pool.run(test_pool.double, 4)} - {"here"}, end=" ")
    pool.limit_workers(1)
    print(len(pool._workers), pool.run(test_pool.tell_handlers))
"""
loaded = ""


def read_loaded() -> str:
    return loaded


def tell_handlers() -> list[str]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [signal.Handlers(signal.getsignal(number)).name for number in numbers]


def test_forks_have_what_was_loaded_and_not_the_signals_of_their_parent() -> None:
    """Fails if a fork loads again, keeps its parent's handlers, or is not replaced when it dies."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command, environment = [sys.executable, "-c", FORKED], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "here died {8} 1 ['SIG_IGN', 'SIG_DFL', 'SIG_DFL']\n", done.stdout + done.stderr
