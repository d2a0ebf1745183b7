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
        """Whether progress bars can be drawn: in a notebook if ipywidgets is installed, otherwise in a terminal."""
        return find_spec("ipywidgets") is not None if self.is_jupyter else super().is_terminal


class Bars:
    """Shows progress bars and messages on standard error, or nothing if `is_shown` is False."""

    def __init__(self, is_shown: bool) -> None:
        self._shown = is_shown

    def tell(self, line: str) -> None:
        """Print a line to standard error, unless messages are switched off."""
        if self._shown:
            print(line, file=sys.stderr)

    @contextmanager
    def show_bar(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a progress bar during the block, on standard error.

        Args:
            what: Label of the bar: the folder of a stage, or a word such as "rows". If it ends in "steps", the unit is
                training steps, otherwise parts.
            total: Total number of steps or parts.

        Yields:
            A function to call with the number of steps or parts that are done so far.
        """
        if not self._shown:
            yield lambda done: None
            return
        with RunProgress(_Console(file=sys.stderr, soft_wrap=True)) as progress:
            yield lambda done: progress.advance(what, done, total)
