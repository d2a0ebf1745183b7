"""Shards that are not what was written: every one is refused by name, and nothing wrong comes out."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from small_shards import put_shards

from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from shards.masks.masking import MaskSettings
from shards.reading.files.columns import ExampleColumns
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.settings import ShardSettings


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    """A store with shards that have static masks."""
    folder = tmp_path_factory.mktemp("written")
    settings = ShardSettings(length=32, masking=MaskSettings(kind="static"))
    return folder, put_shards(Place(str(folder)), settings).shards


@pytest.fixture
def opened(built: tuple[Path, Manifest], tmp_path: Path) -> ShardSet:
    """The same shards in a store of a test's own."""
    return ShardSet(Place(str(shutil.copytree(built[0], tmp_path / "store"))), built[1])


def shard_file(shard_set: ShardSet) -> Path:
    """The file of the first shard."""
    return Path(shard_set.place.to_full_path(shard_set.find_path(0)))


def with_number(column: str, buffer: int, kind: type[np.generic], place: int, value: int) -> Callable[[Path], None]:
    """Write a number into a buffer of the file's first record batch, without any other change."""

    def harm(path: Path) -> None:
        data = bytearray(path.read_bytes())
        source = pa.py_buffer(data)
        found = pa.ipc.open_file(source).get_batch(0).column(column).buffers()[buffer]
        first = found.address - source.address + place * np.dtype(kind).itemsize
        data[first : first + np.dtype(kind).itemsize] = np.array([value]).astype(kind).tobytes()
        path.write_bytes(data)

    return harm


WRONG = {
    "an id of no token": (with_number("ids", 3, np.uint16, 5, 60_000), "ids holds a number that is not below"),
    "a list that ends early": (with_number("ids", 1, np.int32, 1, -7), "a list of column ids is not among"),
    "a list that ends late": (with_number("ids", 1, np.int32, 2, 1 << 30), "a list of column ids is not among"),
    "a boundary past the end": (with_number("boundary", 1, np.uint16, 0, 400), "begins past its end"),
    "a mask past the end": (with_number("mask_positions", 3, np.uint16, 0, 400), "past the end of its example"),
    "a mask of no token": (with_number("mask_ids", 3, np.uint16, 0, 60_000), "mask_ids holds a number"),
    "a mask too many": (with_number("mask_ids", 1, np.int32, 1, 0), "other numbers of masked places"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused_where_it_is_read(
    opened: ShardSet, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Fails if a changed byte is read past its column, comes out, or the file is not named.

    Rows may be read before their record batch is checked; so nothing of it is checked here.
    """
    monkeypatch.setattr(ExampleColumns, "_note_read", lambda *_: None)
    harm, said = WRONG[case]
    path = opened.find_path(0)
    harm(shard_file(opened))
    with pytest.raises(Damaged, match=said) as raised:
        Loader(opened, 1).gather(range(len(opened)))
    assert raised.value.path == path and "cloze verify" in str(raised.value)
