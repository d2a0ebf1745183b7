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
    """A console that can draw progress bars in notebooks as well."""

    @property
    def is_terminal(self) -> bool:
        """True if progress bars can be drawn."""
        return find_spec("ipywidgets") is not None if self.is_jupyter else super().is_terminal


class Bars:
    """Shows progress bars and messages on standard error, or nothing if `is_shown` is False."""

    def __init__(self, is_shown: bool) -> None:
        self._shown = is_shown

    def tell(self, line: str) -> None:
        """Print a line to standard error."""
        if self._shown:
            print(line, file=sys.stderr)

    @contextmanager
    def show_bar(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a progress bar during the block. Yields a function to call with the number of steps that are done.

        Args:
            what: The folder of a stage. If it ends in "steps", training steps are counted, otherwise parts.
            total: Total number of steps or parts.
        """
        if not self._shown:
            yield lambda done: None
            return
        with RunProgress(_Console(file=sys.stderr, soft_wrap=True)) as progress:
            yield lambda done: progress.advance(what, done, total)
