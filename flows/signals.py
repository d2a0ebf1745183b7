"""Stopping: what every command does between a signal and its end.

    SIGINT (Ctrl-C), SIGTERM, SIGHUP ─► a line at once ─► last words, side by side ─► no process left ─► exit
    one more SIGINT or SIGTERM       ─► no process left ─► exit

Promise: whatever the program is doing, the first signal is answered with a line at once, and within SECONDS the process
and everything that it started are gone, with exit code 130, 143 or 129. Only a patient last word may take longer:
a training that writes its checkpoint. A second signal waits for nothing. After the line only last words print
anything. A signal that was ignored when the process started (`nohup`, a shell's background) stays ignored.

Nothing is unwound. Whatever a process is doing survives a kill, so a signal is a kill after a few last words: code that
has something to report or to remove in that case registers it for the time of a block. A thread that reaches the end of
such a block meanwhile, because what it works with is being ended, waits there for the end.

A separate thread is woken by the system itself: it need not wait for the main thread, which may be inside a library.
"""

import os
import select
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from corpora.errors import InputError
from corpora.store.processes import is_alive, is_signal_ignored, list_children, send_signal

SECONDS = 10.0  # from the signal, or the end of the last patient word, until the process is gone: more than follows
WORDS_SECONDS = 6.0  # from the signal until the last words are done, except for those that are patient
DISPLAY_SECONDS = 1.5  # to remove what is drawn on the terminal, and to write the line
TERM_SECONDS = 2.0  # for children to end by themselves, before they are killed
KILL_SECONDS = 1.0  # for killed children to be gone
ECHO_SECONDS = 0.25  # a signal repeated so soon is the same: `timeout` sends it to a process, and then to its group
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNAL_THREAD = "stopping"
AGAIN = (signal.SIGINT, signal.SIGTERM)  # a terminal that closes sends its signal twice

CAUSES = {
    signal.SIGINT: "by Ctrl-C",
    signal.SIGTERM: "by SIGTERM",
    signal.SIGHUP: "by SIGHUP, as its terminal is gone",
    signal.SIGPIPE: "as nobody reads what it prints",
}


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _LastWord:
    """An action before the process ends. `display`: before the first line is written."""

    act: Callable[[], object]
    message: str
    patient: bool
    display: bool


class _Stopping:
    """The state of this process: the blocks that it is in, and whether it is being stopped."""

    def __init__(self) -> None:
        self.begun = False
        self._lock = threading.Lock()
        self._words: list[_LastWord] = []
        self._pipe: tuple[int, int] | None = None
        self._voice = 2

    def answer(self) -> None:
        """Take over the signals of this process. Called again, it takes them back from whatever took them meanwhile."""
        if self._pipe is None:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            threading.Thread(target=self._attend, args=(self._pipe[0],), name=SIGNAL_THREAD, daemon=True).start()
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _heard)
        signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)

    def stop(self, number: signal.Signals) -> None:
        """Stop as if by a signal. Does not return."""
        assert self._pipe is not None, "a command answers signals"
        os.write(self._pipe[1], bytes([number]))
        _wait_for_the_end()

    def add(self, word: _LastWord) -> None:
        """Register an action for when the process is stopped."""
        self.give_way()
        with self._lock:
            self._words.append(word)

    def remove(self, word: _LastWord) -> None:
        """Unregister an action. Does not return where the process is being stopped."""
        with self._lock:
            if not self.begun:
                self._words.remove(word)
        self.give_way()

    def give_way(self) -> None:
        """Return, unless the process is being stopped."""
        if self.begun:
            _wait_for_the_end()

    def say(self, line: str) -> None:
        """Write a line to standard error, past what is buffered or locked."""
        try:
            os.write(self._voice, f"{line}\n".encode())
        except OSError:
            return  # a terminal that is gone receives nothing

    def _attend(self, pipe: int) -> None:
        """Wait for a signal, and answer it."""
        number = _next_signal(pipe, (*SIGNALS, signal.SIGPIPE))
        with self._lock:
            self.begun = True
        try:
            _started(lambda: _end_at_once(pipe, 128 + number))
            deadline = time.monotonic() + WORDS_SECONDS
            self._begin_to_stop()
            self._write_line(number)
            self._last_words(deadline)
            end_children(TERM_SECONDS)
        finally:
            os._exit(128 + number)

    def _begin_to_stop(self) -> None:
        """Remove what is drawn on the terminal; from then on only `say` prints."""
        _side_by_side([word.act for word in self._words if word.display], DISPLAY_SECONDS)
        self._hush()

    def _write_line(self, number: signal.Signals) -> None:
        promised = [*dict.fromkeys(word.message for word in self._words if word.message)]
        if number != signal.SIGPIPE or promised:  # `cloze inspect store | head` got what it wanted
            after_echo = "\n" if number == signal.SIGINT and os.isatty(self._voice) else ""  # which is `^C`
            line = after_echo + " ".join([f"cloze: stopped {CAUSES[number]}.", *promised])
            _side_by_side([lambda: self.say(line)], DISPLAY_SECONDS)

    def _last_words(self, deadline: float) -> None:
        """Run all of them at once: the patient ones to their end, the others as long as there is time."""
        speaking = [self._speaking(word) for word in self._words if not word.display]
        for thread, word in speaking:
            if word.patient:
                thread.join()
        for thread, _ in speaking:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _hush(self) -> None:
        """Discard what this process prints from now on, except `say`: it is about things that are being ended."""
        self._voice = os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)

    def _speaking(self, word: _LastWord) -> tuple[threading.Thread, _LastWord]:
        def act() -> None:
            try:
                word.act()
            except InputError as error:
                self.say(f"cloze: {error}")

        return _started(act), word


_stopping = _Stopping()


def answer_signals() -> None:
    """Make this process stop on signals, as this module says. On the main thread; call again after others took them."""
    _stopping.answer()


@contextmanager
def last_word(
    act: Callable[[], object], message: str = "", patient: bool = False, display: bool = False
) -> Iterator[None]:
    """Register for the time of the block what to do when the process is stopped, on a thread of its own.

    message: added to the line
    patient: it is waited for, however long it takes
    display: it removes what is drawn on the terminal, before the line
    Where the process is being stopped, the block does not end.
    """
    word = _LastWord(act=act, message=message, patient=patient, display=display)
    _stopping.add(word)
    try:
        yield
    finally:
        _stopping.remove(word)


@contextmanager
def scratch_folder(parent: Path | None = None, prefix: str = "cloze-") -> Iterator[Path]:
    """Yield an empty folder for the time of the block; it is removed also when the process is stopped."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as name:
        with last_word(lambda: shutil.rmtree(name, ignore_errors=True)):
            yield Path(name)


def give_way() -> None:
    """Return, unless the process is being stopped: then only its end is left to wait for."""
    _stopping.give_way()


def being_stopped() -> bool:
    """Return whether the process is being stopped."""
    return _stopping.begun


def stop(number: signal.Signals) -> None:
    """Stop as if by a signal. Does not return."""
    _stopping.stop(number)


def say(line: str) -> None:
    """Print the message of a last word on standard error."""
    _stopping.say(line)


def end_children(seconds: float) -> None:
    """End the processes that this one started: terminated first, killed after some seconds; with 0 killed at once."""
    left = list_children(os.getpid())
    for pid in left:
        send_signal(pid, signal.SIGTERM if seconds and not is_signal_ignored(pid, signal.SIGTERM) else signal.SIGKILL)
    for pid in _still_living(left, seconds):
        send_signal(pid, signal.SIGKILL)
    _still_living(left, KILL_SECONDS)


def _still_living(pids: list[int], seconds: float) -> list[int]:
    """Return those of our children that are alive after so many seconds; nothing is left of the others."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    with suppress(ChildProcessError):  # all children were waited for
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return left


def _heard(number: int, frame: FrameType | None) -> None:
    """Let the main thread continue, to the end of a block: the waiting thread is already awake."""
    _stopping.begun = True


def _next_signal(pipe: int, numbers: tuple[signal.Signals, ...]) -> signal.Signals:
    """Wait until one of these signals comes out of the pipe, into which the system puts every one."""
    while True:
        for number in os.read(pipe, 64):
            if number in numbers:
                return signal.Signals(number)


def _end_at_once(pipe: int, code: int) -> None:
    """Wait for a second signal, and end."""
    echo = time.monotonic() + ECHO_SECONDS
    while (left := echo - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            os.read(pipe, 64)
    _next_signal(pipe, AGAIN)
    end_children(0)
    os._exit(code)


def _wait_for_the_end() -> None:
    while True:
        time.sleep(SECONDS)


def _side_by_side(acts: list[Callable[[], object]], seconds: float) -> None:
    """Run some functions at once, and wait at most so long for them."""
    deadline = time.monotonic() + seconds
    for thread in [_started(act) for act in acts]:
        thread.join(max(0.0, deadline - time.monotonic()))


def _started(act: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread
