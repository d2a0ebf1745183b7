"""A trainer that runs, here or elsewhere, and its stop from another thread. No torch."""

import threading
from typing import Protocol

EVENTS_SECONDS = 2.0  # to hear the last events of a trainer that has ended


class TrainerProcess(Protocol):
    """A trainer that runs, on this machine or another."""

    def terminate(self) -> None:
        """Tell it to write a checkpoint and leave."""

    def kill(self) -> None:
        """End it."""

    def wait(self) -> int:
        """Wait until it is gone."""


class Stop:
    """Stops a training of this process from another thread: the trainer gets a signal and writes a checkpoint."""

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
        """Record that the trainer runs; stop it if a stop was already requested."""
        with self._lock:
            self._process = process
            if self.asked:
                process.terminate()

    def end(self) -> None:
        """Kill the trainer, unless it was asked to stop. Wait until it is gone."""
        assert self._process is not None
        if not self.asked:
            self._process.kill()
        self._process.wait()
        self._ended.set()
