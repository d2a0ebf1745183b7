"""The console of the commands.

On a terminal tables are as wide as it is, or as COLUMNS says; output to a file or a pipe is as wide as it needs,
so that a row is a line and nothing of it is cut. With `--json` standard output has one JSON document and nothing else.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from rich.console import Console

from flows.signals import stop

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


def print_json(value: object) -> None:
    """Print one JSON document, for scripts."""
    print(json.dumps(value, indent=1))


def console_for(as_json: bool) -> Console:
    """Return where a command's lines go: to standard error where JSON has standard output to itself."""
    return StandardOutput(stderr=True, soft_wrap=True, highlight=False) if as_json else console


def teller(as_json: bool) -> Callable[[str], None]:
    """Return what prints a command's lines, in the same place."""
    return partial(print, file=sys.stderr, flush=True) if as_json else say
