"""Output fits the terminal, is whole in a pipe, and ends quietly where nobody reads it."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from forking import Forked
from launched import PATIENCE, ROOT, environment, new_home
from terminal import CONTROLS

from flows.main import print_anything

CELLS = ["word-" * 30, "x" * 90, "the end"]
TABLE = f"""
from flows.command.terminal.output import console
from flows.command.terminal.tables import plain_table
table = plain_table("first", "second", "third")
table.add_row(*{CELLS!r})
console.print(table)
"""


def printed(columns: str | None) -> list[str]:
    """The lines of a wide table in a pipe, with this COLUMNS."""
    ambient = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    known = {**ambient, **({} if columns is None else {"COLUMNS": columns})}
    done = subprocess.run(
        [sys.executable, "-c", TABLE], cwd=ROOT, env=known, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def on_terminal(columns: int) -> list[str]:
    """The lines of a wide table on a terminal so wide."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    ambient = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-c", TABLE], cwd=ROOT, env={**ambient, "TERM": "xterm"}, stdout=slave
    ) as run:
        os.close(slave)
        data = b""
        while piece := _read(master):
            data += piece
    os.close(master)
    assert run.returncode == 0
    return CONTROLS.sub("", data.decode()).splitlines()


def _read(master: int) -> bytes:
    try:
        return os.read(master, 1 << 16)
    except OSError:  # who wrote is gone
        return b""


def letters(lines: list[str]) -> int:
    return sum(not character.isspace() for line in lines for character in line)


def test_a_wide_table_is_as_wide_as_its_terminal_and_whole_in_a_pipe() -> None:
    """Fails where a table is cut, overflows the terminal, or is folded to 80 columns in a pipe."""
    head, row = printed(None)
    assert all(cell in row for cell in CELLS)
    whole = letters([head, row])
    for lines, columns in ((printed("60"), 60), (on_terminal(100), 100)):
        assert columns - 20 < max(map(len, lines)) <= columns
        assert letters(lines) == whole


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_character_that_an_encoding_lacks_ends_no_command(encoding: str) -> None:
    """Fails where a run that is done ends with code 1, for its summary has an arrow."""
    written = BytesIO()
    with TextIOWrapper(written, encoding=encoding) as stream:
        print_anything(stream)
        print("raw → trained", file=stream, flush=True)
        assert written.getvalue() == b"raw ? trained\n"


@pytest.mark.parametrize(
    "arguments", ["--help", "plan --help", "--version", "doctor --json", "doctor", "rum", "inspect /nowhere"]
)
def test_a_pipe_that_nobody_reads_ends_a_command_quietly(arguments: str, tmp_path: Path) -> None:
    """Fails where a command into `head` ends with a traceback, a line, or another code than a signal's."""
    reader, writer = os.pipe()
    os.close(reader)
    wrong = arguments in ("rum", "inspect /nowhere")  # whose one paragraph goes to standard error
    error = subprocess.STDOUT if wrong else subprocess.PIPE
    known = environment(new_home(tmp_path))
    with Forked(arguments.split(), cwd=tmp_path, env=known, stdout=writer, stderr=error) as command:
        os.close(writer)
        _, said = command.communicate(timeout=PATIENCE)
    assert command.returncode == 141
    assert not said
