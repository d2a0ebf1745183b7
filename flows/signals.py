"""Stopping: what every command does between a signal and its exit.

    SIGINT (Ctrl-C), SIGTERM, SIGHUP ─► a line at once ─► stop actions, in parallel ─► no process left ─► exit
    one more SIGINT or SIGTERM       ─► no process left ─► exit

Promise: whatever the program is doing, the first signal is answered with a line at once, and within STOP_SECONDS the
process and everything that it started are gone, with exit code 130, 143 or 129. Only a patient stop action may take
longer: a training that writes its checkpoint. A second signal waits for nothing. After the line only stop actions print
anything. A signal that was ignored when the process started (`nohup`, a shell's background) stays ignored.

Nothing is unwound. Whatever a process is doing survives a kill, so a signal is a kill after a few stop actions: code
that has something to report or to remove in that case registers it for the time of a block. A thread that reaches the
end of such a block meanwhile, because what it works with is being ended, waits there for the exit.

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

STOP_SECONDS = 10.0  # from the signal, or the end of the last patient action, until the process is gone
ACTION_SECONDS = 6.0  # from the signal until the actions are done, except for those that are patient
DISPLAY_SECONDS = 1.5  # to remove what is drawn on the terminal, and to write the line
TERM_SECONDS = 2.0  # for children to end by themselves, before they are killed
KILL_SECONDS = 1.0  # for killed children to be gone
ECHO_SECONDS = 0.25  # a signal repeated so soon is the same: `timeout` sends it to a process, and then to its group
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNAL_THREAD = "stopping"
SECOND_SIGNALS = (signal.SIGINT, signal.SIGTERM)  # a terminal that closes sends its signal twice

CAUSES = {
    signal.SIGINT: "by Ctrl-C",
    signal.SIGTERM: "by SIGTERM",
    signal.SIGHUP: "by SIGHUP, as its terminal is gone",
    signal.SIGPIPE: "as nobody reads what it prints",
}


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _StopAction:
    """An action to run before the process ends.

    Attributes:
        act: The function to call.
        message: Text to append to the line that explains why the process stops; "" for none.
        patient: True to wait until the action is done, False to wait at most ACTION_SECONDS.
        display: True if the action clears the terminal, so that it must run before that line is printed.
    """

    act: Callable[[], object]
    message: str
    patient: bool
    display: bool


class _StopState:
    """The stop actions registered in this process, and whether the process is stopping."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._lock = threading.Lock()
        self._actions: list[_StopAction] = []
        self._pipe: tuple[int, int] | None = None
        self._stderr = 2

    def answer(self) -> None:
        """Install the handlers for SIGINT, SIGTERM and SIGHUP, except for signals that the process ignores.

        Must be called on the main thread, and again after a library has replaced the handlers.
        """
        if self._pipe is None:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            threading.Thread(target=self._answer_signal, args=(self._pipe[0],), name=SIGNAL_THREAD, daemon=True).start()
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _on_signal)
        signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)

    def stop(self, number: signal.Signals) -> None:
        """Stop the process as if it had received the signal with this number. Does not return."""
        assert self._pipe is not None, "a command answers signals"
        os.write(self._pipe[1], bytes([number]))
        _wait_forever()

    def add(self, action: _StopAction) -> None:
        """Register a stop action. Does not return if the process is stopping."""
        self.wait_if_stopping()
        with self._lock:
            self._actions.append(action)

    def remove(self, action: _StopAction) -> None:
        """Unregister a stop action at the end of its block. Does not return if the process is stopping."""
        with self._lock:
            if not self.is_stopping:
                self._actions.remove(action)
        self.wait_if_stopping()

    def wait_if_stopping(self) -> None:
        """Block this thread until the process exits if it is stopping. Otherwise, return immediately."""
        if self.is_stopping:
            _wait_forever()

    def write_to_stderr(self, line: str) -> None:
        """Write a line to the original standard error, unbuffered and without locks. A closed terminal is ignored."""
        try:
            os.write(self._stderr, f"{line}\n".encode())
        except OSError:
            return  # a terminal that is gone receives nothing

    def _answer_signal(self, pipe: int) -> None:
        """Wait for a signal number from a pipe, then run the stop actions, terminate the child processes, and exit.

        This runs on a separate thread and does not return. The exit code is 128 plus the signal's number.

        Args:
            pipe: The file descriptor from which signal numbers are read, one byte each.
        """
        number = _read_signal(pipe, (*SIGNALS, signal.SIGPIPE))
        with self._lock:
            self.is_stopping = True
        try:
            _start_thread(lambda: _end_on_second_signal(pipe, 128 + number))
            deadline = time.monotonic() + ACTION_SECONDS
            self._clear_display()
            self._write_stop_line(number)
            self._run_actions(deadline)
            end_children(TERM_SECONDS)
        finally:
            os._exit(128 + number)

    def _clear_display(self) -> None:
        """Remove progress bars from the terminal. After that, only `write_to_stderr` prints anything."""
        _run_in_parallel([action.act for action in self._actions if action.display], DISPLAY_SECONDS)
        self._discard_output()

    def _write_stop_line(self, number: signal.Signals) -> None:
        messages = [*dict.fromkeys(action.message for action in self._actions if action.message)]
        if number != signal.SIGPIPE or messages:  # `cloze inspect store | head` got what it wanted
            after_echo = "\n" if number == signal.SIGINT and os.isatty(self._stderr) else ""  # which is `^C`
            line = after_echo + " ".join([f"cloze: stopped {CAUSES[number]}.", *messages])
            _run_in_parallel([lambda: self.write_to_stderr(line)], DISPLAY_SECONDS)

    def _run_actions(self, deadline: float) -> None:
        """Run all stop actions in parallel. Waits until patient actions are done, and until a deadline for the others.

        An action that saves a training checkpoint, for example, is registered as patient.

        Args:
            deadline: A point in time as returned by `time.monotonic()`.
        """
        running = [self._start_action(action) for action in self._actions if not action.display]
        for thread, action in running:
            if action.patient:
                thread.join()
        for thread, _ in running:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _discard_output(self) -> None:
        """Discard everything that this process prints from now on, except with `write_to_stderr`."""
        self._stderr = os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)

    def _start_action(self, action: _StopAction) -> tuple[threading.Thread, _StopAction]:
        def act() -> None:
            try:
                action.act()
            except InputError as error:
                self.write_to_stderr(f"cloze: {error}")

        return _start_thread(act), action


_state = _StopState()


def answer_signals() -> None:
    """Make this process stop on SIGINT, SIGTERM and SIGHUP.

    The first signal runs the actions registered with `call_on_stop`, terminates the child processes, and exits with
    code 128 plus the signal's number. A second SIGINT or SIGTERM exits at once. Call this function on the main thread,
    and again after a library has replaced the signal handlers.
    """
    _state.answer()


@contextmanager
def call_on_stop(
    act: Callable[[], object], message: str = "", patient: bool = False, display: bool = False
) -> Iterator[None]:
    """Register an action that is called if the process is stopped during the block.

    The action runs on a separate thread. If the process is stopping at the end of the block, the block never returns.

    Args:
        act: The action. An InputError that it raises is printed.
        message: Text to append to the line that explains why the process stops.
        patient: True to wait until the action is done, False to wait at most ACTION_SECONDS.
        display: True if the action clears the terminal. Such an action is called before the line is printed.
    """
    action = _StopAction(act=act, message=message, patient=patient, display=display)
    _state.add(action)
    try:
        yield
    finally:
        _state.remove(action)


@contextmanager
def open_scratch_folder(parent: Path | None = None, prefix: str = "cloze-") -> Iterator[Path]:
    """Create an empty temporary folder. It is removed at the end of the block, or when the process is stopped.

    Args:
        parent: The existing folder in which it is created. If None, the system's folder for temporary files.
        prefix: The prefix of the folder's name.

    Yields:
        The path of the folder.
    """
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as name:
        with call_on_stop(lambda: shutil.rmtree(name, ignore_errors=True)):
            yield Path(name)


def wait_if_stopping() -> None:
    """Block until the process exits if a signal is stopping it. Otherwise, return immediately."""
    _state.wait_if_stopping()


def is_stopping() -> bool:
    """Return True if a signal has arrived that stops this process."""
    return _state.is_stopping


def stop(number: signal.Signals) -> None:
    """Stop the process as if it had received the signal `number`. Call `answer_signals` first. Does not return."""
    _state.stop(number)


def write_to_stderr(line: str) -> None:
    """Print a line on standard error, even while the process is stopping and other output is discarded."""
    _state.write_to_stderr(line)


def end_children(seconds: float) -> None:
    """Terminate the children of this process with SIGTERM, and kill those that are left after a grace period.

    Args:
        seconds: The grace period before SIGKILL; 0 kills the children immediately.
    """
    left = list_children(os.getpid())
    for pid in left:
        send_signal(pid, signal.SIGTERM if seconds and not is_signal_ignored(pid, signal.SIGTERM) else signal.SIGKILL)
    for pid in _wait_for_children(left, seconds):
        send_signal(pid, signal.SIGKILL)
    _wait_for_children(left, KILL_SECONDS)


def _wait_for_children(pids: list[int], seconds: float) -> list[int]:
    """Wait for child processes to end, and return the ids of those that are still alive after the given seconds.

    Args:
        pids: The ids of the processes.
        seconds: The maximum time to wait.
    """
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    with suppress(ChildProcessError):  # all children were waited for
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return left


def _on_signal(number: int, frame: FrameType | None) -> None:
    """Handle a signal in Python: mark the process as stopping.

    Python also writes the signal's number to a pipe, which wakes the thread that stops the process.
    """
    _state.is_stopping = True


def _read_signal(pipe: int, numbers: tuple[signal.Signals, ...]) -> signal.Signals:
    """Wait for one of the given signal numbers from a pipe, and return it. All other numbers are ignored.

    Args:
        pipe: The file descriptor from which signal numbers are read, one byte each.
        numbers: The signals to wait for.
    """
    while True:
        for number in os.read(pipe, 64):
            if number in numbers:
                return signal.Signals(number)


def _end_on_second_signal(pipe: int, code: int) -> None:
    """Wait for a second signal, then kill the child processes and exit.

    Repetitions of the first signal within ECHO_SECONDS are ignored.

    Args:
        pipe: The file descriptor from which signal numbers are read.
        code: The exit code.
    """
    echo = time.monotonic() + ECHO_SECONDS
    while (left := echo - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            os.read(pipe, 64)
    _read_signal(pipe, SECOND_SIGNALS)
    end_children(0)
    os._exit(code)


def _wait_forever() -> None:
    while True:
        time.sleep(STOP_SECONDS)


def _run_in_parallel(acts: list[Callable[[], object]], seconds: float) -> None:
    """Run functions in parallel threads, and wait for them to finish, but no longer than the given seconds."""
    deadline = time.monotonic() + seconds
    for thread in [_start_thread(act) for act in acts]:
        thread.join(max(0.0, deadline - time.monotonic()))


def _start_thread(act: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread
