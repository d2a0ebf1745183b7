"""How a run goes, on the terminal: one line for each finished stage, and a bar for the one that is being built.

The bar shows parts, their rate and the time that is left at that rate. Where output is not a terminal, a line
every ten seconds takes its place.
"""

import time
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

QUIET_SECONDS = 10.0


class RunProgress:
    """Lines and a bar. Safe to call from the run's own thread only."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, int] = {}
        self._said = time.monotonic()

    def __enter__(self) -> "RunProgress":
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def tell(self, line: str) -> None:
        """A line that stays."""
        self._console.print(escape(line))
        self._said = time.monotonic()

    def advance(self, stage: str, built: int, parts: int) -> None:
        """`built` of the `parts` of a stage that are missing are there now; all of them: its bar goes."""
        if not self._console.is_terminal:
            if built < parts and time.monotonic() - self._said > QUIET_SECONDS:
                self.tell(f"{stage:32} {built}/{parts}")
            return
        if stage not in self._tasks:
            self._tasks[stage] = int(self._bar.add_task(escape(f"{stage:32}"), total=parts))
        self._bar.update(self._tasks[stage], completed=built, total=parts)  # type: ignore[arg-type]  # a TaskID is an int
        if built >= parts:
            self._bar.remove_task(self._tasks.pop(stage))  # type: ignore[arg-type]
