"""Whether the ranks were told to stop: each hears its own signals, and all leave after the same step."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from trainer.launching.ending import take_signals
from trainer.training.parallel import Ranks


class Told:
    """What this process has heard, and what all have agreed on. `number`: the signal."""

    def __init__(self, ranks: Ranks) -> None:
        self.number = signal.SIGTERM
        self.agreed = False
        self._ranks = ranks
        self._heard = False

    def agree(self) -> bool:
        """Whether any process was told to stop by now; all must call it, and all are told the same.

        Cost: on one process nothing; else a message to every other, between processors: no device is waited for.
        """
        self.agreed = self.agreed or self._ranks.any_says(self._heard)
        return self.agreed

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """For the time of the block a signal ends this process no more. Off the main thread none is heard."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = take_signals(self._hear)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._heard, self.number = True, signal.Signals(number)
