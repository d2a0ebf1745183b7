"""Arrays that take a while to make are made once for each name, whatever becomes of their files."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from corpora.kept_arrays import kept_arrays


class Maker:
    """Makes arrays, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> dict[str, npt.NDArray[np.int64]]:
        self.times += 1
        return {"small": np.arange(5), "none": np.zeros(0, np.int64)}


def assert_whole(arrays: dict[str, npt.NDArray[np.int64]]) -> None:
    assert list(arrays) == ["small", "none"]
    assert arrays["small"].tolist() == [0, 1, 2, 3, 4] and len(arrays["none"]) == 0
    assert not arrays["small"].flags.writeable


def test_arrays_are_made_once_and_then_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "machine code"))
    make = Maker()
    for _ in range(3):
        assert_whole(kept_arrays("a", make))
    assert make.times == 1
    assert_whole(kept_arrays("b", make))
    assert make.times == 2
    assert len(list((tmp_path / "machine code").iterdir())) == 2, "a half-written file was left"


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 and then nothing", b"neither an archive nor an array"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    make = Maker()
    kept_arrays("a", make)
    [path] = tmp_path.iterdir()
    path.write_bytes(damage)
    assert_whole(kept_arrays("a", make))
    assert make.times == 2
    assert_whole(kept_arrays("a", make))
    assert make.times == 2


def test_without_a_folder_they_are_made_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    make = Maker()
    assert_whole(kept_arrays("a", make))
    assert_whole(kept_arrays("a", make))
    assert make.times == 2
