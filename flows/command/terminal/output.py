"""The console of the commands.

On a terminal tables are as wide as it is, or as COLUMNS says; output to a file or a pipe is as wide as it needs,
so that a row is a line and nothing of it is cut.
"""

import os
import signal
import sys
from typing import TYPE_CHECKING

from rich.console import Console

from flows.signals import stop

if TYPE_CHECKING:
    from rich.table import Table

WIDEST = 1 << 16  # columns, where no terminal limits them


class StandardOutput(Console):
    """Standard output. Where nobody reads it any more, the command is stopped, without waiting for its work."""

    def on_broken_pipe(self) -> None:
        """Stop."""
        stop(signal.SIGPIPE)


def _columns() -> int | None:
    """Return how wide output may be; None where the terminal says so."""
    bounded = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return None if bounded else WIDEST


console = StandardOutput(soft_wrap=True, highlight=False, width=_columns())


def say(*lines: str) -> None:
    """Print lines as they are: nothing in them is markup."""
    for line in lines:
        console.print(line, markup=False)


def plain_table(first: str, *others: str) -> "Table":
    """Return a table without lines: names on the left, numbers on the right."""
    from rich.table import Table  # which few commands need

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table
