"""Verification: what is not what was written is found, and what was found sound is not read again."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_shards import put_shards

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from shards.reading.files.shard_set import Verification, files_of, first_damage, read_stamps
from shards.settings import ShardSettings


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    """A store with shards."""
    folder = tmp_path_factory.mktemp("verified")
    return folder, put_shards(Place(str(folder)), ShardSettings(length=32)).shards


@pytest.fixture
def small(built: tuple[Path, Manifest], tmp_path: Path) -> tuple[Place, Manifest]:
    """A store of a test's own."""
    return Place(str(shutil.copytree(built[0], tmp_path / "store"))), built[1]


def reads(small: tuple[Place, Manifest], stamps: Path) -> int:
    """How many pieces are read until all files are known to be sound."""
    pieces: list[int] = []
    place, manifest = small
    assert first_damage(place, files_of([manifest]), stamps, lambda: bool(pieces.append(1))) is None
    return len(pieces)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit": (flip, "its bytes are not those that were written"),
    "cut": (lambda path: os.truncate(path, 7), "it has 7 bytes instead of"),
    "gone": (lambda path: path.unlink(), "it is gone"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_damage_to_any_file_is_found(small: tuple[Place, Manifest], tmp_path: Path, harm: str) -> None:
    """Fails where a file is not read, or the wrong one is named."""
    place, manifest = small
    files = files_of([manifest, manifest])
    assert len(files) > 3
    for number, name in enumerate(files):
        path = Path(place.full_path(name))
        data = path.read_bytes()
        HARMS[harm][0](path)
        damage = first_damage(place, files, tmp_path / f"stamps-{number}")
        assert damage is not None and (damage.path, damage.what.startswith(HARMS[harm][1])) == (name, True)
        assert name not in read_stamps(tmp_path / f"stamps-{number}")
        path.write_bytes(data)


def test_what_was_sound_is_not_read_again(small: tuple[Place, Manifest], tmp_path: Path) -> None:
    """Fails where a second verification reads, or a file that was touched, replaced or grew is not read again."""
    place, manifest = small
    names = list(files_of([manifest]))
    stamps = tmp_path / "stamps"
    assert reads(small, stamps) >= len(names)
    assert reads(small, stamps) == 0
    first, second = (Path(place.full_path(name)) for name in names[:2])
    os.utime(first, ns=(time.time_ns(), first.stat().st_mtime_ns + 1))
    shutil.copy2(second, tmp_path / "copy")
    (tmp_path / "copy").rename(second)
    assert reads(small, stamps) == 2
    assert reads(small, stamps) == 0
    flip(first)
    damage = first_damage(place, files_of([manifest]), stamps)
    assert damage is not None and damage.path == names[0]


def test_a_damaged_stamp_has_its_file_read_again(small: tuple[Place, Manifest], tmp_path: Path) -> None:
    """Fails where a line that is no stamp stops a verification, or is taken for one."""
    stamps = tmp_path / "stamps"
    reads(small, stamps)
    lines = stamps.read_bytes().splitlines()
    name = lines[1].replace(b'"shards', b'"shardz')
    digest = lines[2][:-3] + b'x"]'
    stamps.write_bytes(b"\n".join([lines[0][:-9], name, digest, b"\xff", b"[]", b"3", *lines[3:]]) + b"\n")
    assert reads(small, stamps) == 3
    assert reads(small, stamps) == 0


def test_a_verification_that_is_left_says_nothing(small: tuple[Place, Manifest], tmp_path: Path) -> None:
    """Fails where files are read on after their reader has left, or a file that was half read gets a stamp."""
    place, manifest = small
    assert first_damage(place, files_of([manifest]), tmp_path / "stamps", lambda: True) is None
    assert read_stamps(tmp_path / "stamps") == {}


def test_files_are_verified_on_a_thread(small: tuple[Place, Manifest], tmp_path: Path) -> None:
    """Fails where the verdict is lost, or the priority of the whole process is lowered."""
    place, manifest = small
    with Verification(place, [manifest], tmp_path / "stamps") as verification:
        assert verification.damage(60) is None
    assert len(read_stamps(tmp_path / "stamps")) == len(files_of([manifest]))
    name = list(files_of([manifest]))[-1]
    flip(Path(place.full_path(name)))
    with Verification(place, [manifest], tmp_path / "stamps") as verification:
        damage = verification.damage(60)
    assert damage is not None and damage.path == name
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with Verification(place, [], tmp_path / "stamps") as verification:
        verification.damage(60)
        assert os.getpriority(os.PRIO_PROCESS, 0) == before
