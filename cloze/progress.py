"""Bars for notebooks and terminals: those of the command, on standard error.

In a notebook a bar needs ipywidgets; there, and where standard error is a file, a line every ten seconds replaces it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from rich.console import Console

from flows.command.progress import RunProgress


class _Console(Console):
    """A console on which bars are drawn in notebooks, too."""

    @property
    def is_terminal(self) -> bool:
        """True if a bar can be drawn."""
        return find_spec("ipywidgets") is not None if self.is_jupyter else super().is_terminal


class Bars:
    """Shows how far some work is, or nothing. shown: whether anything is shown"""

    def __init__(self, shown: bool) -> None:
        self._shown = shown

    def tell(self, line: str) -> None:
        """Print a line."""
        if self._shown:
            print(line, file=sys.stderr)

    @contextmanager
    def of(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar for the time of the block; yields what says how much of it is done.

        what: a stage, by its folder; where it ends with "steps", they are counted
        """
        if not self._shown:
            yield lambda done: None
            return
        with RunProgress(_Console(file=sys.stderr, soft_wrap=True)) as progress:
            yield lambda done: progress.advance(what, done, total)
