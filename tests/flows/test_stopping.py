"""A process that is told to stop: what it says, does and leaves. Each case is a small program of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from launched import PATIENCE, ROOT, left

BEGIN = """
import os, signal, subprocess, sys, threading, time
from functools import partial
from corpora.errors import InputError
from flows import signals as stopping
from flows.signals import answer_signals, call_on_stop, open_scratch_folder, stop, write_to_stderr
stopping.WORDS_SECONDS = 1.5
answer_signals()
def ready(*words):
    print("ready", *words, flush=True)
"""
ORDINARY = dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_DFL)


class Program(NamedTuple):
    """A program that has said that it is ready, and what it said with it."""

    process: "subprocess.Popen[bytes]"
    words: list[str]

    def tell(self, *numbers: int, pause: float = 0.0) -> None:
        for number in numbers:
            self.process.send_signal(number)
            time.sleep(pause)

    def end(self) -> tuple[int, str]:
        """Exit code, and what it said after it was ready."""
        said, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said.decode()


@contextmanager
def program(text: str, ignored: tuple[signal.Signals, ...] = ()) -> Iterator[Program]:
    """A program for the time of the block, which begins with BEGIN."""

    def dispositions() -> None:
        for number, handler in ORDINARY.items():
            signal.signal(number, signal.SIG_IGN if number in ignored else handler)

    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,  # nothing that is said later is read with the first line
        start_new_session=True,
        preexec_fn=dispositions,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    try:
        word, *words = process.stdout.readline().decode().split()
        assert word == "ready"
        yield Program(process, words)
    finally:
        for survivor in left(process.pid, 0):
            os.kill(survivor.pid, signal.SIGKILL)
        process.communicate()


SLEEPS = "ready(); time.sleep(600)"


MUTEX = "import ctypes; lock = ctypes.CDLL(None).pthread_mutex_lock; mutex = ctypes.create_string_buffer(64)"


@pytest.mark.parametrize(
    "text, number, code, cause",
    [
        (SLEEPS, signal.SIGINT, 130, "by Ctrl-C"),
        (SLEEPS, signal.SIGTERM, 143, "by SIGTERM"),
        (SLEEPS, signal.SIGHUP, 129, "by SIGHUP, as its terminal is gone"),
        (f"{MUTEX}; lock(mutex); ready(); lock(mutex)", signal.SIGINT, 130, "by Ctrl-C"),
        (
            f'with call_on_stop(partial(write_to_stderr, "a last word"), "Promised."): pass\n{SLEEPS}',
            signal.SIGINT,
            130,
            "by Ctrl-C",
        ),
    ],
    ids=["ctrl-c", "term", "hup", "a library that does not return to Python", "a block that has ended"],
)
def test_a_signal_is_answered_with_a_line_and_a_code(text: str, number: int, code: int, cause: str) -> None:
    """Fails if a signal is not obeyed, or is told in a traceback, or what is over is still undone."""
    with program(text) as told:
        told.tell(number)
        assert told.end() == (code, f"cloze: stopped {cause}.\n")


def test_what_is_ignored_from_the_start_stays_ignored() -> None:
    """Fails if `nohup` does not keep a run from ending with its terminal."""
    with program(SLEEPS, ignored=(signal.SIGHUP, signal.SIGINT)) as told:
        told.tell(signal.SIGHUP, signal.SIGINT, pause=0.3)
        assert told.process.poll() is None
        told.tell(signal.SIGTERM)
        assert told.end()[0] == 143


LAST_WORDS = """
def refused():
    raise InputError("The disk is full.")
with call_on_stop(partial(write_to_stderr, "a last word"), "Promised."), call_on_stop(refused):
    with call_on_stop(lambda: 1 / 0), call_on_stop(partial(time.sleep, 600)), call_on_stop(partial(print, "not heard")):
        ready()
        while os.readlink("/proc/self/fd/2") != os.devnull:
            time.sleep(0.01)
        print("not heard either", flush=True)
        raise ZeroDivisionError("of no interest")
"""


def test_last_words_are_said_and_nothing_else() -> None:
    """Fails if one that fails or takes too long keeps others or the end, or noise comes after the line."""
    with program(LAST_WORDS) as told:
        told.tell(signal.SIGTERM)
        code, said = told.end()
    first, *others = said.splitlines()
    assert (code, first) == (143, "cloze: stopped by SIGTERM. Promised.")
    assert sorted(others) == ["a last word", "cloze: The disk is full."]


PATIENT = """
def save():
    ready_file = sys.argv
    time.sleep(600)
with call_on_stop(save, "It saves.", patient=True):
    ready(); time.sleep(600)
"""


def test_a_patient_word_is_waited_for_and_a_second_signal_is_not() -> None:
    """Fails if a save is cut off, or a second Ctrl-C has to wait. A terminal that goes says so twice."""
    with program(PATIENT) as told:
        told.tell(signal.SIGHUP, signal.SIGHUP, signal.SIGHUP, pause=0.5)
        with pytest.raises(subprocess.TimeoutExpired):
            told.process.wait(3)
        told.tell(signal.SIGINT)
        assert told.end() == (129, "cloze: stopped by SIGHUP, as its terminal is gone. It saves.\n")


CHILDREN = r"""
ignoring = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
trapping = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: 0); print(flush=True)\nwhile 1: time.sleep(9)"
plain = "import time; print(flush=True); time.sleep(600)"
def start(program, **how):
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, **how)
    child.stdout.readline()
    return child
found = [start(ignoring), start(trapping), start(plain, process_group=0), start(plain)]
thread = threading.Thread(target=lambda: found.append(start(plain)))
thread.start(); thread.join()
os.kill(found[3].pid, signal.SIGSTOP)
ready(*(child.pid for child in found))
time.sleep(600)
"""


@pytest.mark.parametrize("times", [1, 2])
def test_no_child_is_left(times: int) -> None:
    """Fails if a child that ignores signals, is stopped, or is in a group of its own outlives the process."""
    with program(CHILDREN) as told:
        told.tell(*[signal.SIGINT] * times, pause=0.4)
        assert told.end()[0] == 130
        assert len(told.words) == 5 and not [pid for pid in told.words if Path(f"/proc/{pid}").exists()]


def test_a_process_can_stop_itself() -> None:
    """Fails if a broken pipe, found on any thread, does not stop the process as a signal does."""
    text = "ready(); threading.Thread(target=stop, args=(signal.SIGPIPE,)).start(); time.sleep(600)"
    with program(text) as told:
        assert told.end() == (141, "")
    with program(f'with call_on_stop(partial(write_to_stderr, "a last word"), "Promised."): {text}') as told:
        assert told.end() == (141, "cloze: stopped as nobody reads what it prints. Promised.\na last word\n")


def test_an_echo_is_no_second_signal() -> None:
    """Fails if `timeout`, which tells a process and then its group, cuts off what is saved."""
    with program(PATIENT.replace("time.sleep(600)\nwith", 'time.sleep(1); write_to_stderr("saved")\nwith')) as told:
        told.tell(signal.SIGTERM, signal.SIGTERM, pause=0.05)
        assert told.end()[1].endswith("saved\n")


def test_a_scratch_folder_goes(tmp_path: Path) -> None:
    """Fails if what is of no use to anybody stays on the disk."""
    text = f"with open_scratch_folder(__import__('pathlib').Path({str(tmp_path)!r})) as folder:\n"
    with program(text + "    (folder / 'large').write_text('text'); ready(); time.sleep(600)") as told:
        assert len(list(tmp_path.glob("*/large"))) == 1
        told.tell(signal.SIGINT)
        assert told.end()[0] == 130 and not list(tmp_path.iterdir())
