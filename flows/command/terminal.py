"""The console of the commands, and tables that fit it.

On a terminal tables are as wide as it is, or as COLUMNS says; if the columns do not fit side by side, each row is a
block of lines, a name and a value each, and no number and no id is broken. Output to a file or a pipe is as wide as it
needs, so that a row is a line and nothing of it is cut. With `--json` standard output has one JSON document and nothing
else.

Promises of what commands show: text from documents is shown as text (no markup or control character of it acts on the
terminal), every output is bounded and names what it leaves out, and what color shows is also shown by words or signs.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from flows.signals import stop

TITLE_WIDTH, EXCERPT_WIDTH, VALUE_WIDTH = 60, 240, 100  # characters of texts that are shown


MAX_COLUMNS = 1 << 16  # columns, if no terminal limits them


class StandardOutput(Console):
    """A console on standard output that stops the command when nobody reads its output any more (a broken pipe)."""

    def on_broken_pipe(self) -> None:
        """Stop the process as SIGPIPE would. Does not return.

        Rich calls this if the reader of the output has closed the pipe.
        """
        stop(signal.SIGPIPE)


def _find_width() -> int | None:
    """Return the width of output in columns, or None to use the width of the terminal or COLUMNS."""
    bounded = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return None if bounded else MAX_COLUMNS


console = StandardOutput(soft_wrap=True, highlight=False, width=_find_width())


def print_lines(*lines: str) -> None:
    """Print lines on standard output unchanged. Square brackets are not treated as markup."""
    for line in lines:
        console.print(line, markup=False)


def print_json(value: object) -> None:
    """Print a value on standard output as one JSON document."""
    print(json.dumps(value, indent=1))


def choose_console(as_json: bool) -> Console:
    """Return the console for a command's messages: standard output, or standard error if JSON goes to standard output.

    Args:
        as_json: True if the command prints JSON.
    """
    return StandardOutput(stderr=True, soft_wrap=True, highlight=False) if as_json else console


def choose_printer(as_json: bool) -> Callable[[str], None]:
    """Return a function that prints a line of a command's messages.

    It prints to standard output, or to standard error if JSON goes to standard output.

    Args:
        as_json: True if the command prints JSON.
    """
    return partial(print, file=sys.stderr, flush=True) if as_json else print_lines


COLUMN_GAP = 2  # characters between two columns
MAX_WORD_COLUMNS = 16  # longer words may be broken in a column of texts


class FittingTable(Table):
    """A table that is shown as one block of lines per row if its columns do not fit the terminal."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what rich prints: the table itself if it fits, otherwise one block of lines for each row."""
        if self._measure_width(console, options) <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        for cells in zip(*([*column.cells] for column in self.columns), strict=True):
            block = Table.grid(padding=(0, COLUMN_GAP, 0, 0))
            block.add_column(style="dim", no_wrap=True)
            block.add_column(overflow="fold")
            for column, cell in zip(self.columns, cells, strict=True):
                block.add_row(column.header, cell)
            yield block
            yield Text()

    def _measure_width(self, console: Console, options: ConsoleOptions) -> int:
        """Return the smallest width of the table, in characters, at which no number, id or short word is broken.

        Args:
            console: The console on which the table would be printed.
            options: The options with which rich would print it.
        """
        wide = options.update(width=1 << 16)
        needed = COLUMN_GAP * (len(self.columns) - 1)
        for column in self.columns:
            cells = [Measurement.get(console, wide, cell) for cell in (column.header, *column.cells)]
            least = (size.maximum if column.no_wrap else min(size.minimum, MAX_WORD_COLUMNS) for size in cells)
            needed += max(least)
        return needed


def build_table(*names: str, texts: Collection[str] | None = None) -> Table:
    """Build a table for the terminal, without borders and without rows.

    Columns of text are left-aligned and may wrap; other columns are right-aligned and do not wrap.

    Args:
        names: The column headers.
        texts: The headers of the text columns. If None, only the first column is a text column.
    """
    table = FittingTable(box=None, pad_edge=False, header_style="dim", padding=(0, COLUMN_GAP, 0, 0))
    for name in names:
        if name in (names[:1] if texts is None else texts):
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True, overflow="fold")
    return table


def fit_table(lines: Sequence[str], begin: int, end: int, rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Lay out lines that contain a table for a terminal, replacing the table if it is too wide.

    Args:
        lines: All lines.
        begin: The index of the table's first line.
        end: The index after the table's last line.
        rows: The cells of the table, the header row first; used only if the table is too wide.
        width: The width of the terminal in characters.

    Returns:
        The lines, with the table as one block of lines per row if it was too wide.
    """
    if max(map(cell_len, lines[begin:end]), default=0) <= width:
        return [*lines]
    table = build_table(*rows[0])
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    terminal = Console(width=width, color_system=None)
    with terminal.capture() as captured:
        terminal.print(table)
    return [*lines[:begin], *captured.get().splitlines(), *lines[end:]]


def format_left_out(number: int, shown: int, what: str) -> list[Text]:
    """Format a line stating how many items are not shown.

    Args:
        number: The total number of items.
        shown: The maximum number of items that are shown.
        what: The plural noun for the items.

    Returns:
        A list with that line, or an empty list if all items are shown.
    """
    return [Text(f"  … {number - shown:,} more {what}", "dim")] if number > shown else []
