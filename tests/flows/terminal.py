"""The command on a terminal of its own, as a person starts it: keys go in, what is shown comes out.

with terminal(home, "run", str(recipe)) as shown:
    shown.wait_for("verdicts/small")
    shown.press(CTRL_C)
    assert shown.code() == 130 and not left(shown.pid)
"""

import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from launched import LONG, environment, session_processes, with_watch

CTRL_C = b"\x03"
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A command on a terminal. `shown`: all that was written to it so far, without controls."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int) -> None:
        self.process = process
        self.pid = process.pid
        self.raw = b""
        self._master = master

    @property
    def shown(self) -> str:
        return CONTROLS.sub("", self.raw.decode(errors="replace")).replace("\r\n", "\n")

    def press(self, key: bytes) -> None:
        os.write(self._master, key)

    def hang_up(self) -> None:
        """Close the terminal, as its window does."""
        os.close(self._master)
        self._master = -1

    def wait_for(self, words: str, since: int = 0) -> None:
        """Until these words are shown, after the first so many bytes."""
        deadline = time.monotonic() + LONG
        while words.encode() not in self.raw[since:]:
            assert self._read(1.0) and time.monotonic() < deadline, f"never: {words}\n{self.shown}"

    def code(self, seconds: float = LONG) -> int:
        """The exit code, once the process has ended and all it wrote is read."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read(0.05)
        while self._read(0.0):
            pass
        assert self.process.poll() is not None, f"it lives after {seconds} s\n{self.shown}"
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        """Take in what was written; whether more may come."""
        if self._master < 0:
            time.sleep(seconds)
            return False
        if not select.select([self._master], [], [], seconds)[0]:
            return bool(seconds)
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # everyone who could write is gone
            time.sleep(seconds)
            return False
        self.raw += data
        return bool(data)

    def end(self) -> None:
        for process in session_processes(self.pid):
            os.kill(process.pid, signal.SIGKILL)
        self.process.wait()
        if self._master >= 0:
            os.close(self._master)


@contextmanager
def terminal(home: Path, *arguments: str, api: str | None = None) -> Iterator[Terminal]:
    """The command for the time of the block; its session is killed at the end."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (40, 200))

    def own_terminal() -> None:
        """A session of its own that the terminal controls; signals as a shell's foreground has them."""
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTSTP):
            signal.signal(number, signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, "-m", "flows.main", *with_watch(arguments, api)],
        cwd=home,
        env={**environment(home, api), "TERM": "xterm"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=own_terminal,
    )
    os.close(slave)
    shown = Terminal(process, master)
    try:
        yield shown
    finally:
        shown.end()
