"""Finished folders: every flipped bit is found, in the files and in the document that lists them."""

from pathlib import Path

import pytest

from corpora.store.checked_folder import (
    COMPLETE_FILE,
    check_files,
    describe_bytes,
    describe_files,
    list_files,
    read_complete_file,
    write_complete_file,
)
from corpora.store.damage import Damaged

FACTS = {"step": 3, "rate": 0.1, "name": "für alle"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files and their document."""
    (tmp_path / "in").mkdir()
    (tmp_path / "weights").write_bytes(b"some weights")
    (tmp_path / "in" / "empty").write_bytes(b"")
    write_complete_file(tmp_path, FACTS, describe_files(tmp_path, list_files(tmp_path)))
    return tmp_path


def check(folder: Path) -> None:
    check_files(folder, read_complete_file(folder)["files"])


def test_a_finished_folder_says_what_it_is(folder: Path) -> None:
    """Fails if facts or files differ from what was written."""
    facts = read_complete_file(folder)
    files = {"in/empty": describe_bytes(b""), "weights": describe_bytes(b"some weights")}
    assert facts == {**FACTS, "files": files}
    check(folder)


@pytest.mark.parametrize("name", [COMPLETE_FILE, "weights"])
def test_every_flipped_bit_is_found(folder: Path, name: str) -> None:
    """Fails if a file or the document can be another than was written."""
    path, data = folder / name, (folder / name).read_bytes()
    for bit in range(8 * len(data)):
        harmed = bytearray(data)
        harmed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(harmed)
        with pytest.raises(Damaged, match=name):
            check(folder)
    path.write_bytes(data)
    check(folder)


@pytest.mark.parametrize("data", [b"", b"[]", b"3", b"null", b"{}", b'{"files": 3}', b'{"files": [3]}', b"\xff"])
def test_what_is_no_document_is_damage(folder: Path, data: bytes) -> None:
    """Fails if a document of another form ends in another error, or is taken for one without files."""
    (folder / COMPLETE_FILE).write_bytes(data)
    with pytest.raises(Damaged, match=r"^complete\.json is damaged"):
        check(folder)


def test_a_file_that_is_gone_or_cut(folder: Path) -> None:
    """Fails if a message does not name the file."""
    (folder / "weights").write_bytes(b"some")
    with pytest.raises(Damaged, match="weights is damaged: it has 4 bytes instead of 12"):
        check(folder)
    (folder / "weights").unlink()
    with pytest.raises(Damaged, match="weights is damaged: it is gone"):
        check(folder)
    (folder / COMPLETE_FILE).unlink()
    with pytest.raises(Damaged, match=r"complete\.json is damaged: it is gone"):
        check(folder)
