"""Files that appear whole: the old contents or the new ones, and nothing left next to them."""

from pathlib import Path

import pytest

from corpora.store.files import UNFINISHED, replaced_file, unfinished


@pytest.mark.parametrize("alone", [False, True])
def test_a_file_is_replaced_when_the_block_ends(tmp_path: Path, alone: bool) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with replaced_file(path, alone) as new:
        new.write_text("new")
        assert path.read_text() == "old" and new.parent == tmp_path
        assert new.name.startswith(".") and new.name.endswith(UNFINISHED)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("alone", [False, True])
def test_a_block_that_raises_changes_nothing(tmp_path: Path, alone: bool) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replaced_file(path, alone) as new:
        new.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_path_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replaced_file(path) as one, replaced_file(path) as other:
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"  # its block ended last


def test_who_is_alone_finds_what_a_killed_process_left(tmp_path: Path) -> None:
    assert unfinished(tmp_path / "file", alone=True) == unfinished(tmp_path / "file", alone=True)
    assert unfinished(tmp_path / "file") != unfinished(tmp_path / "file")
    unfinished(tmp_path / "file", alone=True).write_text("half of a longer text")
    with replaced_file(tmp_path / "file", alone=True) as new:
        new.write_text("whole")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["whole"]
