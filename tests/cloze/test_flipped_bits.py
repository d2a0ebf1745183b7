"""Shards with a flipped bit are refused by every door that gives their examples, and the file is named."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_shards import put_shards
from tiers import LONG

import cloze
import corpora.store.tables as tables
import shards.reading.files.columns as columns
from corpora.store.damage import Damaged
from corpora.store.places.place import Place
from shards.masks.masking import MaskSettings
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.reading.mixture import Mixture
from shards.reading.order import Interleave, step_slots, take_rank_share
from shards.reading.records import ExampleRecords
from shards.settings import ShardSettings

BATCH = 8


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> ShardSet:
    """Shards of two generations, so that there are record batches of several files."""
    place = Place(str(tmp_path_factory.mktemp("written")))
    settings = ShardSettings(length=32, masking=MaskSettings(kind="static"))
    return ShardSet(place, put_shards(place, settings).shards)


def flip(shard_set: ShardSet, column: str) -> str:
    """Flip the lowest bit of the first value of a column in the first file; the path of the file in the store."""
    path = Path(shard_set.place.to_full_path(shard_set.find_path(0)))
    data = bytearray(path.read_bytes())
    source = pa.py_buffer(data)
    array = pa.ipc.open_file(source).get_batch(0).column(column)
    buffers = [each for each in array.buffers() if each is not None and each.size]
    data[buffers[-1].address - source.address] ^= 1
    path.write_bytes(data)
    return shard_set.find_path(0)


def opened(shard_set: ShardSet) -> cloze.Shards:
    return cloze.open_shards(shard_set.place.address, progress=False)


def own_loop(shard_set: ShardSet) -> None:
    """The loop of docs/guide-own-loop.md, through an epoch."""
    loader = Loader(shard_set, seed=1)
    for step in range(-(-len(loader) // BATCH)):
        loader.gather(step_slots(step, BATCH))


def on_ranks(shard_set: ShardSet) -> None:
    """The first of two ranks, which never reads the last slot of an epoch: it is told when the next one begins."""
    loader = Loader(shard_set, seed=1)
    for step in range(-(-len(loader) // BATCH) + 1):
        loader.gather(take_rank_share(step_slots(step, BATCH), 0, 2))


def with_workers(shard_set: ShardSet) -> None:
    """A worker is forked when the parent has read already, and so has no thread of the parent's."""
    data = pytest.importorskip("torch.utils.data")
    dataset = opened(shard_set).to_torch()
    [*data.DataLoader(dataset, batch_size=BATCH, num_workers=1, multiprocessing_context="fork")]


def mixed(shard_set: ShardSet) -> None:
    mixture = Mixture([Loader(shard_set, 1), Loader(shard_set, 2)], Interleave((1, 1)), (0, 0))
    mixture.gather(range(len(shard_set)))
    mixture.check_read()


def torch_rows(shard_set: ShardSet) -> None:
    pytest.importorskip("torch")
    dataset = opened(shard_set).to_torch()
    _ = [dataset[number] for number in range(len(dataset))]


def frame(shard_set: ShardSet) -> None:
    pytest.importorskip("pandas")
    opened(shard_set).to_pandas()


def hugging_face(shard_set: ShardSet) -> None:
    pytest.importorskip("datasets")
    opened(shard_set).to_hf()


def grain_rows(shard_set: ShardSet) -> None:
    grain: Any = pytest.importorskip("grain")
    [*grain.MapDataset.source(ExampleRecords(shard_set, seed=1, padded=True)).batch(BATCH)]


def lengths(shard_set: ShardSet) -> None:
    loader = Loader(shard_set, 1)
    loader.find_lengths(range(len(shard_set)))
    loader.check_read()


DOORS: dict[str, Callable[[ShardSet], object]] = {
    "shards[i]": lambda shard_set: [opened(shard_set)[n] for n in range(len(shard_set))],
    "for each in shards": lambda shard_set: [*opened(shard_set)],
    "to_arrow": lambda shard_set: opened(shard_set).to_arrow(),
    "to_pandas": frame,
    "to_hf": hugging_face,
    "to_torch": torch_rows,
    "to_torch, workers": with_workers,
    "Grain": grain_rows,
    "Loader, own loop": own_loop,
    "Loader, a rank": on_ranks,
    "Loader, lengths": lengths,
    "Loader, token counts": lambda shard_set: Loader(shard_set, 1).sample_token_counts(1_000_000),
    "Mixture": mixed,
    "ShardSet[i]": lambda shard_set: [shard_set[n] for n in range(len(shard_set))],
}
COLUMNS = ("ids", "word_starts", "example_id", "boundary", "label", "mask_positions", "mask_ids")
QUICK = ("shards[i]", "to_arrow", "to_torch", "Loader, own loop", "Loader, a rank", "Mixture", "ShardSet[i]")


@pytest.mark.parametrize("few", [columns.MAX_BATCHES_AT_ONCE, 0], ids=["at once", "on a thread"])
@pytest.mark.parametrize("door", DOORS if LONG else QUICK)
def test_every_door_refuses_a_flipped_bit(
    written: ShardSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str, few: int
) -> None:
    """Fails if an example of a damaged shard comes out and an epoch ends without a word, or a sound one is refused."""
    monkeypatch.setattr(columns, "MAX_BATCHES_AT_ONCE", few)
    DOORS[door](written)
    for column in COLUMNS if LONG else COLUMNS[:1]:
        place = Place(str(shutil.copytree(written.place.address, tmp_path / column)))
        shard_set = ShardSet(place, written.manifest)
        path = flip(shard_set, column)
        with pytest.raises(Exception, match=f"{path} is damaged: the bytes of column {column}") as told:
            DOORS[door](shard_set)
        assert isinstance(told.value, Damaged) or door == "to_torch, workers"


def test_what_was_read_is_checked_once(written: ShardSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if bytes are compared again in a later epoch, or those of a record batch that nobody reads at all."""
    checked: list[str] = []
    check = tables._TableFile.check_columns
    monkeypatch.setattr(
        tables._TableFile, "check_columns", lambda self, *of: (checked.append(self.path), check(self, *of))[1]
    )
    loader = Loader(written, 1)
    first = int(np.argmin(loader.locate_examples(range(len(loader)))[1]))
    loader.gather(range(first, first + 1))
    assert checked == [written.find_path(0)]
    for epoch in range(3):
        loader.gather(range(epoch * len(loader), (epoch + 1) * len(loader)))
    assert len(checked) == len(written.parts) == len({*checked}) > 1
