"""Files that appear whole: the old contents or the new ones, and nothing left next to them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corpora.store.places import files
from corpora.store.places.files import (
    UNFINISHED_SUFFIX,
    open_unfinished,
    remove_abandoned,
    replace_file,
    to_unfinished_path,
)
from corpora.store.places.place import Place


@pytest.mark.parametrize("alone", [False, True])
def test_a_file_is_replaced_when_the_block_ends(tmp_path: Path, alone: bool) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with replace_file(path, alone) as new:
        new.write_text("new")
        assert path.read_text() == "old" and new.parent == tmp_path
        assert new.name.startswith(".") and new.name.endswith(UNFINISHED_SUFFIX)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("alone", [False, True])
def test_a_block_that_raises_changes_nothing(tmp_path: Path, alone: bool) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replace_file(path, alone) as new:
        new.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_path_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replace_file(path) as one, replace_file(path) as other:
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"  # its block ended last


def test_who_is_alone_finds_what_a_killed_process_left(tmp_path: Path) -> None:
    assert to_unfinished_path(tmp_path / "file", is_only_writer=True) == to_unfinished_path(
        tmp_path / "file", is_only_writer=True
    )
    assert to_unfinished_path(tmp_path / "file") != to_unfinished_path(tmp_path / "file")
    to_unfinished_path(tmp_path / "file", is_only_writer=True).write_text("half of a longer text")
    with replace_file(tmp_path / "file", is_only_writer=True) as new:
        new.write_text("whole")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["whole"]


WRITERS = """
import sys
from pathlib import Path
from corpora.store.places.files import replace_file
from corpora.store.places.place import Place

with Place(sys.argv[1]).create("deep/table.arrow") as sink, replace_file(Path(sys.argv[1]) / "lock") as new:
    sink.write(b"half")
    new.write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextmanager
def writing(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that writes two files of a folder, and does not get on."""
    command = [sys.executable, "-c", WRITERS, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process


def test_what_a_killed_process_left_is_removed_and_what_another_writes_is_not(tmp_path: Path) -> None:
    """Fails if unfinished files stay for ever, or a living run loses the file that it writes."""
    with writing(tmp_path) as stopped, writing(tmp_path) as killed:
        os.kill(stopped.pid, signal.SIGSTOP)  # it says nothing, and lives
        assert len(list(tmp_path.rglob("*.tmp"))) == 4
        killed.kill()
        killed.wait()
        assert Place(str(tmp_path)).list_files("") == {}, "what is half written is seen"
        assert remove_abandoned(tmp_path.rglob("*")) == 2
        assert remove_abandoned(tmp_path.rglob("*")) == 0
        os.kill(stopped.pid, signal.SIGCONT)
        stopped.communicate(timeout=120)
        assert stopped.returncode == 0
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"table.arrow", "lock"}


def test_a_foreign_file_is_left_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a machine whose locks are not known here loses what it writes, or leaves something for ever."""
    monkeypatch.setattr(files, "read_machine_id", lambda: "00000000")
    foreign = to_unfinished_path(tmp_path / "file")
    foreign.touch()
    monkeypatch.undo()
    assert remove_abandoned([foreign]) == 0
    old = foreign.stat().st_mtime - files.FOREIGN_FILE_SECONDS - 60
    os.utime(foreign, (old, old))
    assert remove_abandoned([foreign]) == 1 and not foreign.exists()


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    """Fails if a user's own file, a folder, or one that is written by who is alone is taken for abandoned."""
    others = [tmp_path / "notes.tmp", tmp_path / ".notes.tmp", to_unfinished_path(tmp_path / "x", is_only_writer=True)]
    for path in others:
        path.touch()
    others.append(to_unfinished_path(tmp_path / "folder"))
    others[-1].mkdir()
    assert remove_abandoned([*others, tmp_path / "gone.tmp", to_unfinished_path(tmp_path / "gone")]) == 0
    assert set(tmp_path.iterdir()) == {*others}


def test_a_file_that_is_taken_for_abandoned_as_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if a run that clears up takes the file of a writer that has not locked it yet."""
    new, removed = to_unfinished_path(tmp_path / "file"), []

    def remove_first(file: object) -> None:
        if not removed:
            removed.append(remove_abandoned([new]))

    monkeypatch.setattr(files, "lock", remove_first)
    with open_unfinished(new) as file:
        file.write(b"whole")
    assert removed == [1] and new.read_bytes() == b"whole"


@pytest.mark.parametrize("number", files.NO_LOCK_ERRORS)
def test_a_file_system_without_locks_is_written_and_not_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Fails if a store cannot be on such a file system, or a run removes there what another writes."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("corpora.store.places.files.fcntl.flock", refuse)
    with open_unfinished(to_unfinished_path(tmp_path / "file")) as file:
        assert remove_abandoned([Path(file.name)]) == 0
        assert Path(file.name).exists()
