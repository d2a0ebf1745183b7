"""Shows the progress of a run, a fetch and a check of a store, on the terminal.

A run: one line for each finished stage, and a bar for the one that is being built, with its parts and the time
left at their rate. A fetch and a check of a store: one bar of bytes for all files. If output is not a terminal, a
line every ten seconds replaces the bar.
"""

import threading
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from flows.signals import call_on_stop

LINE_SECONDS = 10.0


class _ProgressDisplay:
    """A progress bar that is shown during a `with` block, and removed if the process is stopped."""

    _draws_at_once = True

    def __init__(self, console: Console, bar: Progress) -> None:
        self._console, self._bar = console, bar
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        self._open = ExitStack()
        if self._console.is_terminal and self._draws_at_once:
            self._draw()
        return self

    def _draw(self) -> None:
        """Start drawing the bar from a background thread."""
        self._open.enter_context(call_on_stop(self._bar.stop, display=True))
        self._open.enter_context(self._bar)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def tell(self, line: str) -> None:
        """Print a line above the progress bar. Square brackets in it are not treated as markup."""
        self._console.print(escape(line), highlight=False)
        self._last = time.monotonic()

    def _tell_seldom(self, line: str) -> None:
        """Print a line instead of the bar if the output is not a terminal and nothing was printed for LINE_SECONDS."""
        if not self._console.is_terminal and time.monotonic() - self._last > LINE_SECONDS:
            self.tell(line)


class RunProgress(_ProgressDisplay):
    """The progress of a run. The bar appears when the first stage starts building.

    Call its methods only from the run's thread.
    """

    _draws_at_once = False  # workers are forked before there are threads

    def __init__(self, console: Console) -> None:
        counts = (MofNCompleteColumn(), TextColumn("{task.fields[unit]}"), TimeElapsedColumn())
        super().__init__(console, _build_bar(console, *counts))
        self._tasks: dict[str, TaskID] = {}

    def advance(self, stage: str, built: int, parts: int) -> None:
        """Show how many parts (output files) of a pipeline stage are done. Removes the stage's bar when all are done.

        Args:
            stage: The stage's folder, `KIND/NAME`. For training steps, " steps" is appended.
            built: The number of parts or training steps done so far.
            parts: The total number of parts or steps.
        """
        what, unit = (stage.removesuffix(" steps"), "steps") if stage.endswith(" steps") else (stage, "parts")
        if not self._console.is_terminal:
            if built < parts:
                self._tell_seldom(f"{what:32} {built}/{parts} {unit}")
            return
        if not self._bar.live.is_started:
            self._draw()
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(escape(f"{what:32}"), total=parts, unit=unit)
        self._bar.update(self._tasks[stage], completed=built, total=parts)
        if built >= parts:
            self._bar.remove_task(self._tasks.pop(stage))


def _build_bar(console: Console, *counts: ProgressColumn) -> Progress:
    """Build a progress bar with the given columns and the time left. It disappears when it stops.

    Args:
        console: Where to draw the bar.
        counts: The columns between the bar and the time left.
    """
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), *counts, TextColumn("left"))
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True)


def _build_byte_bar(console: Console) -> Progress:
    """Build a progress bar that counts bytes and shows their rate."""
    return _build_bar(console, DownloadColumn(), TransferSpeedColumn())


class FetchProgress(_ProgressDisplay):
    """The progress of a download: one bar that counts the bytes of all files. Thread-safe."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, _build_byte_bar(console))
        self._lock = threading.Lock()
        self._task = self._bar.add_task("fetching", total=None)
        self._files: dict[str, tuple[int, int | None]] = {}
        self._here = self._whole = self._num_done = self._num_open = 0

    def advance(self, name: str, num_bytes: int, whole: int | None) -> None:
        """Show the progress of one downloaded file, as part of the total.

        Args:
            name: The name of the file.
            num_bytes: The number of bytes downloaded so far.
            whole: The size of the file in bytes, or None if unknown.
        """
        with self._lock:
            self._count(-1, self._files.get(name))
            self._files[name] = (num_bytes, whole)
            self._count(1, self._files[name])
            text = f"fetching: {self._num_done} of {len(self._files)} files so far"
            total = None if self._num_open else self._whole
            self._bar.update(self._task, completed=self._here, total=total, description=text)
            self._tell_seldom(f"{text}, {self._here / 1e6:,.1f} MB")

    def _count(self, sign: int, file: tuple[int, int | None] | None) -> None:
        """Add a file's byte count and size to the totals (sign 1), or subtract them (sign -1). None changes nothing."""
        if file is not None:
            num_bytes, whole = file
            self._here += sign * num_bytes
            self._whole += sign * (whole or 0)
            self._num_open += sign * (whole is None)
            self._num_done += sign * (num_bytes == whole)


class CheckProgress(_ProgressDisplay):
    """The progress of a store check: a bar that counts bytes.

    Args:
        console: Where to draw the bar.
        what: The label of the bar.
    """

    def __init__(self, console: Console, what: str) -> None:
        super().__init__(console, _build_byte_bar(console))
        self._what = what
        self._task = self._bar.add_task(what, total=None)

    def advance(self, done: int, total: int) -> None:
        """Show the number of bytes checked so far, and the total number of bytes to check."""
        self._bar.update(self._task, completed=done, total=total)
        if done < total:
            self._tell_seldom(f"{self._what}: {done / 1e6:,.1f} of {total / 1e6:,.1f} MB")
