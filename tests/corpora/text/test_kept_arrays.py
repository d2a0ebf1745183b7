"""Arrays kept for other processes: what is read is what was made, and a file that is not what was kept is no answer."""

from pathlib import Path

import numpy as np
import pytest

from corpora.text import kept_arrays, words
from corpora.text.kept_arrays import Arrays
from corpora.text.kept_arrays import kept_arrays as kept

MADE = {"codes": np.arange(70_000, dtype=np.int32), "pairs": np.array([[1, 2**63], [3, 4]], np.uint64)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where they are kept."""
    monkeypatch.setattr(kept_arrays, "kernel_folder", lambda: tmp_path)
    return tmp_path


def make() -> Arrays:
    return MADE


def never() -> Arrays:
    raise AssertionError("they are kept")


def equal(one: Arrays, other: Arrays) -> bool:
    return list(one) == list(other) and all(
        one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name]) for name in one
    )


def test_what_is_kept_is_read_and_not_made_again(folder: Path) -> None:
    assert equal(kept("tables", make), MADE)
    assert equal(kept("tables", never), MADE) and [path.name for path in folder.iterdir()] == ["tables.npz"]


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "else"])
def test_what_is_damaged_is_made_again(folder: Path, damage: str) -> None:
    """Fails where a bit of a table may flip unseen, or a file that a full disk cut off ends a run."""
    kept("tables", make)
    path = folder / "tables.npz"
    whole = path.read_bytes()
    flipped = whole[:5_000] + bytes([whole[5_000] ^ 4]) + whole[5_001:]
    path.write_bytes({"flipped": flipped, "short": whole[:-200], "empty": b"", "else": b"{}"}[damage])
    assert equal(kept("tables", make), MADE)
    assert path.read_bytes() == whole


def test_where_none_can_be_written_each_process_makes_its_own(folder: Path) -> None:
    """Fails where a process cannot work without the file: here its name is taken by a folder."""
    (folder / "tables.npz").mkdir()
    assert equal(kept("tables", make), MADE)


def test_the_tables_of_words_are_those_that_are_made(folder: Path) -> None:
    """Fails where what is read differs from what is made, or a code point has the entry of another one."""
    made, read = words.word_tables.__wrapped__(), words.word_tables.__wrapped__()
    assert (folder / "word_tables.npz").stat().st_size < 2_000_000
    assert all(map(np.array_equal, made, read))
    for code in [*range(0x3000), *range(0x33480 - 99, 0x33480 + 99), *range(0xDFFFF, 0x110000, 7)]:
        assert read.entries[code] & 7 == words.character_kind(chr(code)), hex(code)
