"""A record that hangs, explodes or crashes ends its worker, and the pool says which record it was."""

import os
import signal
import time
from dataclasses import replace

import pytest

from corpora.store.current_record import reading
from corpora.store.pool import Limits, WorkerDied, WorkerPool

TIGHT = Limits(record_cpu_seconds=0.5, memory_bytes=400_000_000)


def spin(record: str, seconds: float) -> str:
    reading(record)
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    reading("")
    return record


def hoard(record: str) -> None:
    reading(record)
    held = [bytearray(b"x" * 20_000_000) for _ in range(50)]
    time.sleep(600)
    del held


def crash(record: str) -> None:
    reading(record)
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_record_that_takes_too_long_ends_its_worker() -> None:
    with WorkerPool(1, TIGHT) as pool:
        with pytest.raises(WorkerDied, match="processor time") as caught:
            pool.run(spin, "abc 0 17", 30.0)
        assert caught.value.reading == "abc 0 17"
        assert pool.run(spin, "abc 0 18", 0.1) == "abc 0 18", "another worker takes its place"


def test_time_counts_for_each_record_and_only_while_one_is_read() -> None:
    with WorkerPool(1, TIGHT) as pool:
        assert pool.run(spin_through, 8, 0.2) == 8
        assert pool.run(spin, "", 1.2) == ""


def spin_through(records: int, seconds: float) -> int:
    for number in range(records):
        spin(str(number), seconds)
    return records


def test_a_record_that_takes_too_much_memory_ends_its_worker() -> None:
    patient = replace(TIGHT, record_cpu_seconds=60.0)  # a slow machine takes a while to fill the memory
    with WorkerPool(1, patient) as pool, pytest.raises(WorkerDied, match="bytes of memory") as caught:
        pool.run(hoard, "abc 0 17")
    assert caught.value.reading == "abc 0 17"


def test_a_record_that_crashes_its_worker_is_named() -> None:
    with WorkerPool(1) as pool, pytest.raises(WorkerDied) as caught:
        pool.run(crash, "abc -1 3")
    assert caught.value.reading == "abc -1 3"


def test_a_record_of_an_earlier_call_is_not_held_against_the_next() -> None:
    with WorkerPool(1, TIGHT) as pool:
        pool.run(reading, "abc 0 17")
        with pytest.raises(WorkerDied) as caught:
            pool.run(end_itself)
    assert caught.value.reading == ""


def end_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
