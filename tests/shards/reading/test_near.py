"""Shards of an object store: windows near by in bounded room, shared by processes, sound whatever was left there."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from small_shards import put_shards

from corpora.errors import InputError
from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest
from corpora.store.places.files import to_unfinished_path
from corpora.store.places.place import Place
from shards.reading.files import shard_cache as near
from shards.reading.files.shard_cache import ShardCache, check_room, compute_bytes_needed, list_example_files
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.reading.order import step_slots
from shards.settings import ShardSettings

SETTINGS = ShardSettings(length=32, copies=2)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Manifest]:
    """Shards in two generations, with deleted documents. (A folder stands for the object store.)"""
    place = Place(str(tmp_path_factory.mktemp("store")))
    return place, put_shards(place, SETTINGS, gone=(1, 30)).shards


def shard_sizes(shard_set: ShardSet) -> list[int]:
    return [sum(file.size_bytes for file in list_example_files(part)) for part in shard_set.parts]


def kept(folder: Path) -> list[Path]:
    """The files of shards in a cache."""
    return sorted(folder.rglob("*.arrow"))


def read_through(loader: Loader, epochs: int) -> list[np.ndarray]:
    """The ids of every step of some epochs."""
    return [loader.gather(step_slots(step, 16)).ids for step in range(-(-epochs * len(loader) // 16))]


def test_windows_are_read_as_if_all_were_here(built: tuple[Place, Manifest], tmp_path: Path) -> None:
    """Fails if what is read depends on the cache, or the cache holds more than it may at any time."""
    shard_set = ShardSet(*built)
    records = 100_000  # bytes for records, which stay
    most = sum(shard_sizes(shard_set)) + records
    loader = Loader(shard_set, 3, window=1, shard_cache=ShardCache(built[0], tmp_path, most))
    whole = Loader(shard_set, 3, window=1)
    for one, other in zip(read_through(loader, 3), read_through(whole, 3), strict=True):
        assert one.tobytes() == other.tobytes()
        assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= most
    slots = np.arange(40, 90)
    assert np.array_equal(loader.find_lengths(slots), whole.find_lengths(slots))
    assert np.array_equal(loader.sample_token_counts(10**9), whole.sample_token_counts(10**9))


def test_what_nobody_reads_makes_room(built: tuple[Place, Manifest], tmp_path: Path) -> None:
    """Fails if a file in use is removed, or one that is not stays in the way."""
    shard_set = ShardSet(*built)
    folder, parts, sizes = shard_set.manifest.stage_folder, shard_set.parts, shard_sizes(shard_set)
    files = ShardCache(built[0], tmp_path, max(sizes) + sum(_record_sizes(shard_set)))
    with files.hold(folder, parts[:1]):
        [first] = kept(tmp_path)
    with files.hold(folder, parts[1:]):
        assert first not in kept(tmp_path) and len(kept(tmp_path)) == 1


def _record_sizes(shard_set: ShardSet) -> list[int]:
    records = (part.record for part in shard_set.parts)
    return [
        shard_set.place.find_size(f"{shard_set.manifest.stage_folder}/{record.path}") or 0
        for record in records
        if record
    ]


def test_files_in_use_stay_and_the_error_says_what_would_do(
    built: tuple[Place, Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if another process' files are taken away, or who finds no room waits without an end."""
    monkeypatch.setattr(near, "MAX_WAIT_SECONDS", 0.0)
    shard_set = ShardSet(*built)
    folder, parts, sizes = shard_set.manifest.stage_folder, shard_set.parts, shard_sizes(shard_set)
    files = ShardCache(built[0], tmp_path, max(sizes) + sum(_record_sizes(shard_set)))
    with files.hold(folder, parts[:1]), pytest.raises(InputError, match=r"raise training\.cache_gb"):
        ShardCache(built[0], tmp_path, max(sizes)).hold(folder, parts[1:])
    assert len(kept(tmp_path)) == 1


def test_what_a_killed_process_left_is_no_file(built: tuple[Place, Manifest], tmp_path: Path) -> None:
    """Fails if half a file is read, or stays for ever."""
    shard_set = ShardSet(*built)
    folder, parts = shard_set.manifest.stage_folder, shard_set.parts
    path = tmp_path / folder / list_example_files(parts[0])[0].path
    path.parent.mkdir(parents=True)
    half = to_unfinished_path(path)
    half.write_bytes(b"half a shard")
    path.write_bytes(b"a shard that was cut, or of other bytes")
    with ShardCache(built[0], tmp_path, 10**9).hold(folder, parts):
        assert (
            path.read_bytes()
            == Path(built[0].to_full_path(f"{folder}/{list_example_files(parts[0])[0].path}")).read_bytes()
        )
        assert not half.exists() and len(kept(tmp_path)) == len(parts)


def test_a_damaged_file_of_the_store_is_not_kept(built: tuple[Place, Manifest], tmp_path: Path) -> None:
    """Fails if bytes that are not those of the manifest get into the cache."""
    shard_set = ShardSet(*built)
    name = f"{shard_set.manifest.stage_folder}/{list_example_files(shard_set.parts[0])[0].path}"
    path = Path(built[0].to_full_path(name))
    data = path.read_bytes()
    try:
        path.write_bytes(data[:-9] + b"x" + data[-8:])
        with pytest.raises(Damaged, match="not those that were written"):
            ShardCache(built[0], tmp_path, 10**9).hold(shard_set.manifest.stage_folder, shard_set.parts)
        path.unlink()
        with pytest.raises(Damaged, match="it is gone"):
            ShardCache(built[0], tmp_path, 10**9).hold(shard_set.manifest.stage_folder, shard_set.parts)
    finally:
        path.write_bytes(data)
    assert kept(tmp_path) == []


def test_readers_share_a_cache(built: tuple[Place, Manifest], tmp_path: Path) -> None:
    """Fails if two readers of one folder get in each other's way, or one removes what the other reads.

    A lock is an open file's, so two threads with files of their own are to each other what two processes are.
    """
    shard_set = ShardSet(*built)
    most = sum(shard_sizes(shard_set)) + sum(_record_sizes(shard_set))
    wanted = b"".join(ids.tobytes() for ids in read_through(Loader(shard_set, 3, window=1), 3))

    def read(_: int) -> bytes:
        loader = Loader(shard_set, 3, window=1, shard_cache=ShardCache(built[0], tmp_path, most))
        return b"".join(ids.tobytes() for ids in read_through(loader, 3))

    with ThreadPoolExecutor(2) as readers:
        assert list(readers.map(read, range(2))) == [wanted] * 2


def test_a_cache_too_small_is_refused_before_anything_is_read(built: tuple[Place, Manifest]) -> None:
    """Fails if a training would begin that cannot go on, or the error does not name both sizes and what would do."""
    shard_set = ShardSet(*built)
    sizes = shard_sizes(shard_set)
    assert compute_bytes_needed(shard_set, None, 8) == compute_bytes_needed(shard_set, 1, 8) == sum(sizes) > 2_000
    check_room("They", sum(sizes), None, sum(sizes))
    with pytest.raises(InputError, match=r'have [\d,]+ bytes.*"global".*may hold 1,000: raise training\.cache_gb to'):
        check_room("They", sum(sizes), None, 1_000)
    with pytest.raises(InputError, match=r"up to [\d,]+ bytes.*may hold 1,000: .*lower training\.window"):
        check_room("They", sum(sizes), 1, 1_000)


@pytest.mark.server
def test_windows_of_an_object_store(s3_store: Place, tmp_path: Path) -> None:
    """Fails if shards of a real object store are not read as those of a folder are."""
    shards = put_shards(s3_store, SETTINGS, documents=24).shards
    shard_set = ShardSet(s3_store, shards)
    loader = Loader(shard_set, 3, window=1, shard_cache=ShardCache(s3_store, tmp_path, 10**7))
    found = loader.gather(range(len(shard_set)))
    assert sorted(found.example_ids.tolist()) == sorted(
        example.example_id for example in shard_set.iter_live_examples()
    )
    assert len(kept(tmp_path)) == len(shard_set.parts) == 2
