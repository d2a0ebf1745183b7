"""Output fits the terminal, is whole in a pipe, and ends quietly where nobody reads it."""

import fcntl
import json
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

from flows.main import replace_unprintable

CELLS = ["word-" * 30, "x" * 90, "the end"]
TABLE = f"""
from flows.command.terminal import console
from flows.command.terminal import build_table
table = build_table("first", "second", "third")
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
    """Fails if a table is cut, overflows the terminal, or is folded to 80 columns in a pipe."""
    head, row = printed(None)
    assert all(cell in row for cell in CELLS)
    whole = letters([head, row])
    for lines, columns in ((printed("60"), 60), (on_terminal(100), 100)):
        assert columns - 20 < max(map(len, lines)) <= columns
        assert letters(lines) == whole


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_a_character_that_an_encoding_lacks_ends_no_command(encoding: str, errors: str) -> None:
    """Fails if a run that is done ends with code 1, for its summary has an arrow, or the name of a file."""
    written = BytesIO()
    with TextIOWrapper(written, encoding=encoding, errors=errors) as stream:
        replace_unprintable(stream)
        print("raw → trained \udcff \ud800", file=stream, flush=True)
        assert written.getvalue().decode().replace("→", "?") == "raw ? trained ? ?\n"


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
        pytest.param({"LC_ALL": "POSIX"}, marks=pytest.mark.long),
        pytest.param({"LC_ALL": "C.UTF-8"}, marks=pytest.mark.long),
    ],
)
def test_a_name_means_the_same_file_in_every_locale(locale: dict[str, str], tmp_path: Path) -> None:
    """Law: the last line fails no finished work. Names in Chinese, names that are no text, a folder too deep."""
    folder = tmp_path / "资料"
    folder.mkdir()
    line = json.dumps({"text": "The committee of the town said that the bridge would be closed."}) + "\n"
    (folder / "文.jsonl").write_text(line, encoding="utf-8")
    Path(os.fsdecode(bytes(folder) + b"/\xff.jsonl")).write_text(line, encoding="utf-8")
    here = os.open(folder, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    known = {**environment(new_home(tmp_path)), **locale}
    called = [sys.executable, "-m", "flows.main", "dedup", "资料", "出.jsonl"]
    done = subprocess.run(called, cwd=tmp_path, env=known, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert b"2 rows of 2 files" in done.stdout and b"not read: 1 unreadable folder" in done.stdout
    [removed] = (tmp_path / "出.removed.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(removed)["file"], json.loads(removed)["survivor"]} == {"资料/文.jsonl", "资料/\\xff.jsonl:1"}


@pytest.mark.parametrize(
    "arguments", ["--help", "plan --help", "--version", "doctor --json", "doctor", "rum", "inspect /nowhere"]
)
def test_a_pipe_that_nobody_reads_ends_a_command_quietly(arguments: str, tmp_path: Path) -> None:
    """Fails if a command into `head` ends with a traceback, a line, or another code than a signal's."""
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
