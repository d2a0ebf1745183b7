"""A record that hangs, explodes or crashes ends its worker, and the pool says which record it was.

A worker that stands still is replaced, and nobody is to blame. The functions here run on workers.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from corpora.errors import InputError
from corpora.kernels import compiling
from corpora.store.current_record import NO_ACTIVITY, Activity, report_part, report_record, run_batch
from corpora.store.worker_pool import MAX_STALLS, WorkerDied, WorkerLimits, WorkerPool, _Watch, _WorkerEnded

TIGHT = WorkerLimits(record_cpu_seconds=0.5, memory_bytes=400_000_000)
BRISK = WorkerLimits(stall_seconds=1.0)


@pytest.fixture(scope="module")
def tight() -> Iterator[WorkerPool]:
    """A worker with narrow limits, which some tests share: another takes its place where it ends."""
    with WorkerPool(1, TIGHT) as pool:
        yield pool


@pytest.fixture(scope="module")
def brisk() -> Iterator[WorkerPool]:
    """A worker that may stand still for a second."""
    with WorkerPool(1, BRISK) as pool:
        yield pool


def use_processor(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def spin(record: str, seconds: float) -> str:
    report_record(record)
    use_processor(seconds)
    report_record("")
    return record


def hoard(record: str) -> None:
    report_record(record)
    held = [bytearray(b"x" * 20_000_000) for _ in range(50)]
    time.sleep(600)
    del held


def hoard_and_read(before: str, record: str) -> None:
    """Take much memory before a record is read, and little for that."""
    report_record(before)
    held = [bytearray(b"x" * 20_000_000) for _ in range(15)]
    report_record("")
    time.sleep(2)
    held += [bytearray(b"x" * 20_000_000) for _ in range(5)]
    report_record(record)
    held += [bytearray(b"x" * 1_000_000) for _ in range(50)]
    time.sleep(600)


def crash(record: str) -> None:
    report_record(record)
    os.kill(os.getpid(), signal.SIGSEGV)


def judge(records: Sequence[str]) -> list[str]:
    """Records in upper case; "slow" takes a quarter of a second, "hang" does not end and "crash" ends the process."""
    for record in records:
        if record == "slow":
            use_processor(0.25)
        if record == "hang":
            use_processor(600)
        if record == "crash":
            os.abort()
    return [record.upper() for record in records]


def judge_watched(batches: list[list[str]]) -> list[str]:
    report_part("documents/words: part 00001")
    pieces = [piece for batch in batches for piece in run_batch(batch, lambda record: f"the {record}", judge)]
    return [word for piece in pieces for word in piece]


def stop_at_first(folder: Path, times: int, record: str) -> int:
    """Stop this process, as often as this is called for the first `times` times."""
    report_record(record)
    done = len([*folder.iterdir()])
    if done < times:
        (folder / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGSTOP)
    return done


def wait_for_child(seconds: float, record: str = "") -> int:
    """Let a process of its own do the work."""
    report_record(record)
    program = f"import time\nwhile time.process_time() < {seconds}: pass"
    return subprocess.run([sys.executable, "-S", "-c", program], check=True).returncode


def length(data: bytes) -> int:
    return len(data)


def test_a_record_that_takes_too_long_ends_its_worker(tight: WorkerPool) -> None:
    with pytest.raises(WorkerDied, match="processor time") as caught:
        tight.run(spin, "abc 0 17", 30.0)
    assert caught.value.record == "abc 0 17"
    assert tight.run(spin, "abc 0 18", 0.1) == "abc 0 18", "another worker takes its place"


def test_time_counts_for_each_record_and_only_while_one_is_read(tight: WorkerPool) -> None:
    assert tight.run(spin_through, 4, 0.2) == 4
    assert tight.run(spin, "", 0.8) == ""


def spin_through(records: int, seconds: float) -> int:
    for number in range(records):
        spin(str(number), seconds)
    return records


def test_a_record_that_takes_too_much_memory_ends_its_worker() -> None:
    patient = replace(TIGHT, record_cpu_seconds=60.0)  # a slow machine takes a while to fill the memory
    with WorkerPool(1, patient) as pool, pytest.raises(WorkerDied, match="bytes of memory") as caught:
        pool.run(hoard, "abc 0 17")
    assert caught.value.record == "abc 0 17"


def test_a_record_that_crashes_its_worker_is_named(tight: WorkerPool) -> None:
    with pytest.raises(WorkerDied, match="a crash: SIGSEGV") as caught:
        tight.run(crash, "abc -1 3")
    assert caught.value.record == "abc -1 3"


def test_a_record_of_an_earlier_call_is_not_held_against_the_next(tight: WorkerPool) -> None:
    tight.run(report_record, "abc 0 17")
    with pytest.raises(WorkerDied) as caught:
        tight.run(end_itself)
    assert caught.value.record == ""


def end_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_memory_that_a_worker_held_before_is_not_the_fault_of_the_record_it_has_come_to() -> None:
    """Fails if whatever is read when a worker is full is blamed: innocent records would go into quarantine."""
    patient = replace(TIGHT, record_cpu_seconds=60.0)
    with WorkerPool(1, patient) as pool, pytest.raises(WorkerDied, match="bytes of memory") as caught:
        pool.run(hoard_and_read, "", "abc 0 18")
    assert caught.value.record == ""


@pytest.mark.parametrize(
    ("fault", "why"), [pytest.param("hang", "processor time", marks=pytest.mark.long), ("crash", "SIGABRT")]
)
def test_of_a_batch_that_ends_its_worker_the_record_is_named(fault: str, why: str) -> None:
    """Fails if the death of a batch names none of its records, or the wrong one."""
    told: list[str] = []
    with WorkerPool(1, TIGHT, told.append) as pool:
        for _ in range(2):
            with pytest.raises(WorkerDied, match=why) as caught:
                pool.run(judge_watched, [["a", "b"], ["c", fault, "d"]])
            assert caught.value.record == f"the {fault}"
            assert "documents/words: part 00001" in str(caught.value)
    [line] = told  # the second call knows which batch it is
    assert "of 3 records, the c to the d" in line and line.endswith("Its records are taken one by one.")


@pytest.mark.parametrize("letters", [300, 1_000])
def test_a_batch_with_a_name_that_is_cut_is_known_again(letters: int) -> None:
    """Fails if the cut name that the watching process reads is compared with the whole one."""
    batch = ["é" * letters, "crash", "é" * letters]
    with WorkerPool(1, TIGHT, lambda line: None) as pool, pytest.raises(WorkerDied) as caught:
        pool.run(judge_watched, [batch])
    assert caught.value.record == "the crash"


def test_a_batch_that_takes_long_ends_as_its_records_do_one_by_one() -> None:
    """Fails if the limit for a record is held against a batch of records that are each within it."""
    told: list[str] = []
    with WorkerPool(1, TIGHT, told.append) as pool:
        assert pool.run(judge_watched, [["a", *["slow"] * 8, "b"]]) == ["A", *["SLOW"] * 8, "B"]
    assert len(told) == 1


def test_a_worker_that_stands_still_is_replaced(tmp_path: Path) -> None:
    """Fails if the call waits for good, or the record that was read is blamed."""
    told: list[str] = []
    with WorkerPool(1, BRISK, told.append) as pool:
        assert pool.run(stop_at_first, tmp_path, 1, "abc 0 17") == 1
    [line] = told
    assert "hung" in line and "abc 0 17" in line and "workers.stall_seconds" in line


def test_workers_that_stand_still_one_after_the_other_end_the_call(tmp_path: Path, brisk: WorkerPool) -> None:
    """Fails if it is tried for ever, or ends as the fault of a record."""
    with pytest.raises(InputError, match=rf"That was {MAX_STALLS} times\. Does the disk"):
        brisk.run(stop_at_first, tmp_path, MAX_STALLS, "abc 0 17")


def test_an_idle_worker_that_was_stopped_is_replaced(brisk: WorkerPool) -> None:
    """Fails if sending a call waits for a worker that does not take it."""
    os.kill(brisk.run(os.getpid), signal.SIGSTOP)
    assert brisk.run(length, bytes(10_000_000)) == 10_000_000


def test_a_worker_whose_child_works_does_not_stand_still() -> None:
    """Fails if a step that has a program of its own do the work is taken for one that hangs, or is without limit."""
    limits = WorkerLimits(record_cpu_seconds=0.5, stall_seconds=1.0)
    with WorkerPool(1, limits) as pool:
        assert pool.run(wait_for_child, 1.5) == 0
        with pytest.raises(WorkerDied, match="processor time") as caught:
            pool.run(wait_for_child, 600.0, "abc 0 17")
    assert caught.value.record == "abc 0 17"


@contextmanager
def stopped_process() -> Iterator[int]:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            yield process.pid
        finally:
            process.kill()


def looks_until_it_ends(look: Callable[[Activity, float], None], said: Callable[[int], Activity], every: float) -> int:
    """How often a process can be looked at, `every` so many seconds, before it is said to stand still."""
    now = time.monotonic()
    for number in range(100):
        try:
            look(said(number), now + every * number)
        except _WorkerEnded as end:
            assert end.is_stalled
            return number
    return 100


def test_time_in_which_we_were_stopped_ourselves_does_not_count() -> None:
    """Fails if a driver that wakes after an hour, or a clock that jumps, ends workers that were stopped with it."""
    limits = WorkerLimits(stall_seconds=10.0)
    with stopped_process() as pid:
        watch = partial(_Watch, limits, pid)
        assert 38 <= looks_until_it_ends(watch().check, lambda _: NO_ACTIVITY, 0.25) <= 42
        assert 9 <= looks_until_it_ends(watch().check, lambda _: NO_ACTIVITY, 3_600.0) <= 12
        progress = looks_until_it_ends(watch().check, lambda number: Activity(changes=number), 3_600.0)
        assert progress == 100


def compile_long(record: str) -> int:
    """Compile for longer than a record may take, while one is read: told as a kernel tells it."""
    report_record(record)
    compiling._on_compiling(1)
    use_processor(0.8)
    compiling._on_compiling(-1)
    return 2


def test_compiling_a_kernel_is_not_time_of_the_record_that_needs_it_first(tight: WorkerPool) -> None:
    """Fails if a fresh machine puts into quarantine what is read while kernels are compiled."""
    assert tight.run(compile_long, "abc 0 17") == 2
    with pytest.raises(WorkerDied, match="processor time"):
        tight.run(spin, "abc 0 18", 600.0)
