"""A folder that appears whole, or not at all."""

import json
import resource
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pytest

from corpora.errors import InputError
from flows.dedup.run import DedupSettings, dedup
from flows.export.exported import open_new_folder, open_scratch_folder
from trainer import complete_folders
from trainer.tasks.vectors.embed import open_parts


def test_it_is_there_when_the_block_ends_well(tmp_path: Path) -> None:
    """Fails if it can be seen before, or files of it are missing."""
    target = tmp_path / "deep" / "data set*"
    with open_new_folder(target) as folder:
        (folder / "data").mkdir()
        (folder / "data" / "a").write_text("a")
        assert not target.exists()
    assert (target / "data" / "a").read_text() == "a"
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="in the middle"), open_new_folder(tmp_path / "a") as folder:
        (folder / "file").write_text("half")
        raise ValueError("in the middle")
    assert [*tmp_path.iterdir()] == []


def test_an_empty_folder_is_taken_and_a_full_one_refused(tmp_path: Path) -> None:
    """Fails if anything that somebody has is replaced."""
    (tmp_path / "a").mkdir()
    with open_new_folder(tmp_path / "a") as folder:
        (folder / "file").write_text("new")
    assert (tmp_path / "a" / "file").read_text() == "new"
    with pytest.raises(InputError, match="is not empty: name another"), open_new_folder(tmp_path / "a"):
        pytest.fail("it was begun")
    (tmp_path / "b").write_text("")
    with pytest.raises(InputError, match="is not a folder"), open_new_folder(tmp_path / "b"):
        pytest.fail("it was begun")


def test_a_folder_that_is_filled_meanwhile_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not empty"), open_new_folder(tmp_path / "a") as folder:
        (folder / "file").write_text("new")
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "other").write_text("old")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "other"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """Fails if it stays for ever, or where that of another export goes."""
    (tmp_path / ".a*.tmp" / "folder").mkdir(parents=True)
    (tmp_path / ".ab.tmp").mkdir()
    (tmp_path / ".a*.lock").write_text("")
    with open_new_folder(tmp_path / "a*"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ab.tmp", "a*"]


def _deduplicate(target: Path) -> None:
    source = target.with_name("in.jsonl")
    source.write_text("".join(json.dumps({"text": f"text {n}"}) + "\n" for n in range(3)))
    dedup([str(source)], target, DedupSettings(exact_only=True), 1)


def _enter(make: Callable[[Path], AbstractContextManager[object]]) -> Callable[[Path], None]:
    def enter(target: Path) -> None:
        with make(target):
            pass

    return enter


OWNERS: dict[str, Callable[[Path], AbstractContextManager[object]]] = {
    "export, release, card, adapt, materialise": open_new_folder,
    "dedup": open_scratch_folder,
    "a model for others": complete_folders.open_new_folder,
    "embed": lambda target: open_parts(target, {"asked": 1}, pa.schema([("v", pa.int8())])),
}
SECOND = {**{name: _enter(make) for name, make in OWNERS.items()}, "dedup": _deduplicate}


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("first", OWNERS)
def test_a_second_process_is_told_and_removes_nothing_of_the_first(first: str, second: str, tmp_path: Path) -> None:
    """Law: who clears up asks first whether the owner lives. Fails where two commands remove each other's scratch."""
    target = tmp_path / "out"
    with OWNERS[first](target):
        scratch = tmp_path / ".out.tmp"
        assert scratch.is_dir()
        (scratch / "mine").write_text("half")
        with pytest.raises(InputError, match=r"Another process is writing .*out: wait for it, or give another name"):
            SECOND[second](target)
        assert (scratch / "mine").read_text() == "half"
        (scratch / "mine").unlink()
    assert not scratch.exists()


def test_what_the_disk_refuses_is_a_paragraph(tmp_path: Path) -> None:
    """Fails if a full disk or a file in the way ends in a traceback, or leaves half a folder."""
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match="a file is where a folder is needed"),
        open_new_folder(tmp_path / "file" / "a"),
    ):
        pytest.fail("it was begun")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with (
            pytest.raises(InputError, match=r"larger than is allowed.*another folder"),
            open_new_folder(tmp_path / "a") as f,
        ):
            (f / "large").write_bytes(bytes(20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
