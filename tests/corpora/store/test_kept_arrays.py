"""Arrays that take a while to make are made once for each name, whatever becomes of their files."""

from pathlib import Path

import numpy as np
import pytest

import corpora.kernels.array_cache as kept_arrays_module
from corpora.kernels.array_cache import read_or_make_arrays
from corpora.kernels.arrays import Int64s


class Maker:
    """Makes arrays, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> dict[str, Int64s]:
        self.times += 1
        return {"small": np.arange(5), "none": np.zeros(0, np.int64)}


def assert_whole(arrays: dict[str, Int64s]) -> None:
    assert list(arrays) == ["small", "none"]
    assert arrays["small"].tolist() == [0, 1, 2, 3, 4] and len(arrays["none"]) == 0
    assert not arrays["small"].flags.writeable


def test_arrays_are_made_once_and_then_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_arrays_module, "make_kernel_folder", lambda: tmp_path)
    make = Maker()
    for _ in range(3):
        assert_whole(read_or_make_arrays("a", __file__, make))
    assert make.times == 1
    assert_whole(read_or_make_arrays("b", __file__, make))
    assert make.times == 2
    assert len(list(tmp_path.iterdir())) == 2, "a half-written file was left"


def test_a_damaged_file_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if an archive's own checks are trusted: some flips in it name other arrays, or are refused oddly."""
    monkeypatch.setattr(kept_arrays_module, "make_kernel_folder", lambda: tmp_path)
    make = Maker()
    read_or_make_arrays("a", __file__, make)
    [path] = tmp_path.iterdir()
    whole = path.read_bytes()
    flipped = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 3)]
    damages = [b"", b"PK\x03\x04 and then nothing", b"neither an archive nor an array", *flipped]
    for damage in damages:
        path.write_bytes(damage)
        assert_whole(read_or_make_arrays("a", __file__, make))
    assert make.times == 1 + len(damages)
    assert path.read_bytes() == whole
