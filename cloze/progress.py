"""Bars for notebooks and terminals: those of the command, on standard error.

In a notebook a bar needs ipywidgets. Without it, and if standard error is a file, a line every ten seconds replaces it.
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
    """Progress bars on standard error, or nothing. shown: True to show anything"""

    def __init__(self, shown: bool) -> None:
        self._shown = shown

    def tell(self, line: str) -> None:
        """Print a line on standard error, if anything is shown."""
        if self._shown:
            print(line, file=sys.stderr)

    @contextmanager
    def show(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar for the time of the block, and yield a function that takes the number of items that are done.

        Args:
            what: The name of the bar; a name that ends with " steps" counts steps instead of parts.
            total: The number of all items.
        """
        if not self._shown:
            yield lambda done: None
            return
        with RunProgress(_Console(file=sys.stderr, soft_wrap=True)) as progress:
            yield lambda done: progress.advance(what, done, total)
