"""Records of examples: what the loader gathers under other names, each live example of an epoch by one number."""

import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_shards import put_shards

from corpora.errors import InputError
from corpora.store.places.place import Place
from shards.masks.masking import MaskSettings
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.reading.records import IGNORED, ExampleRecords, pad_examples, to_records
from shards.settings import ShardSettings

SEED = 5


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ShardSet]:
    """Examples of 32 tokens: all live, and some deleted."""
    folder = tmp_path_factory.mktemp("records")
    made = {}
    for name, gone in (("whole", ()), ("gaps", (1, 2, 3, 7, 30))):
        place = Place(str(folder / name))
        made[name] = ShardSet(place, put_shards(place, ShardSettings(length=32, copies=2), gone=gone).shards)
    return made


@pytest.mark.parametrize("name", ["whole", "gaps"])
def test_numbers_are_the_live_slots_in_their_order(name: str, sets: dict[str, ShardSet]) -> None:
    """Three epochs from the third on: each has each live example once."""
    shard_set = sets[name]
    source = ExampleRecords(shard_set, seed=SEED, epochs=3, first=2)
    live, size = int(shard_set.is_live.sum()), len(shard_set)
    assert len(source) == 3 * live and (live < size) == (name == "gaps")
    slots = source.to_slots(np.arange(len(source)))
    assert np.all(np.diff(slots) > 0) and slots[0] >= 2 * size
    for epoch in range(3):
        numbers = np.arange(epoch * live, (epoch + 1) * live)
        gathered = source.gather(numbers)
        everything = Loader(shard_set, SEED).gather(range((epoch + 2) * size, (epoch + 3) * size))
        np.testing.assert_array_equal(gathered.example_ids, everything.example_ids)
        np.testing.assert_array_equal(gathered.ids, everything.ids)
        assert set(Counter(gathered.example_ids.tolist()).values()) == {1}


@pytest.mark.parametrize("wide", [False, True])
def test_records_are_what_the_loader_gathers(wide: bool, sets: dict[str, ShardSet]) -> None:
    """Ids under masks, segments, labels of the masked tokens alone, the label of the pair; padding says nothing."""
    source = ExampleRecords(sets["whole"], seed=SEED, padded=wide)
    gathered = Loader(sets["whole"], SEED).gather(range(len(source)))
    assert gathered.labels is not None and len({*np.diff(gathered.offsets).tolist()}) > 1
    for number in range(len(source)):
        record, start, end = source[number], gathered.offsets[number], gathered.offsets[number + 1]
        size, width = end - start, 32 if wide else end - start
        assert {len(record[key]) for key in ("input_ids", "attention_mask", "token_type_ids", "labels")} == {width}
        np.testing.assert_array_equal(record["input_ids"][:size], gathered.ids[start:end])
        assert record["attention_mask"].sum() == size and record["attention_mask"][:size].all()
        assert record["token_type_ids"].tolist() == [int(gathered.boundary[number] <= k < size) for k in range(width)]
        guessed = np.flatnonzero(record["labels"] != IGNORED)
        here = (gathered.masked >= start) & (gathered.masked < end)
        assert len(guessed) and (guessed + start).tolist() == gathered.masked[here].tolist()
        assert record["labels"][guessed].tolist() == gathered.targets[here].tolist()
        assert record["next_sentence_label"] == gathered.labels[number]
        assert set(record["input_ids"][size:].tolist()) <= {source.format.pad_id}


def test_examples_without_masks_guess_every_token(tmp_path: Path) -> None:
    """Next words: the label of each token is itself, which models shift; padding is left out."""
    place = Place(str(tmp_path))
    chosen = ShardSettings(length=32, input="full-sentences", masking=MaskSettings(kind="none"))
    source = ExampleRecords(ShardSet(place, put_shards(place, chosen).shards))
    gathered = source.gather(np.arange(5))
    rows = pad_examples(gathered, source.format, 40)
    assert "next_sentence_label" not in rows and rows["labels"].shape == (5, 40)
    for row, label in zip(rows["input_ids"].tolist(), rows["labels"].tolist(), strict=True):
        assert [a if b else IGNORED for a, b in zip(row, np.array(label) != IGNORED, strict=True)] == label
    assert (rows["labels"] != IGNORED).sum() == len(gathered.ids)


def test_no_width_cuts_an_example(sets: dict[str, ShardSet]) -> None:
    """Fails if a record loses tokens, and with them a label, because it is wider than was asked for."""
    source = ExampleRecords(sets["whole"], seed=SEED)
    gathered = source.gather(np.arange(len(source)))
    longest = gathered.max_length
    for width in (longest - 1, 1, -1):
        with pytest.raises(InputError, match=rf"{longest} tokens.*width = {width}"):
            to_records(gathered, source.format, width)
        with pytest.raises(InputError, match=rf"width = {width}"):
            pad_examples(gathered, source.format, width)
    for width in (0, longest, longest + 1):
        records = to_records(gathered, source.format, width)
        assert sum(int((record["labels"] != IGNORED).sum()) for record in records) == len(gathered.masked) > 0
        assert sum(int(record["attention_mask"].sum()) for record in records) == len(gathered.ids)


def test_a_source_is_pickled_without_what_it_has_opened(sets: dict[str, ShardSet]) -> None:
    """Workers that are started anew read the same; what is pickled is no larger for having been read."""
    source = ExampleRecords(sets["gaps"], seed=SEED, epochs=2)
    fresh = len(pickle.dumps(source))
    record = source[3]
    assert len(pickle.dumps(source)) < fresh + 1000
    again: dict[str, Any] = pickle.loads(pickle.dumps(source))[3]
    assert {name: column.tolist() for name, column in again.items()} == {n: c.tolist() for n, c in record.items()}


def test_numbers_end(sets: dict[str, ShardSet]) -> None:
    source = ExampleRecords(sets["whole"], epochs=2)
    for number in (-1, len(source)):
        with pytest.raises(IndexError):
            source[number]
    assert source[0]["input_ids"].tolist() != source[len(source) // 2]["input_ids"].tolist()


def test_a_split_without_examples_is_the_readers_to_mend(sets: dict[str, ShardSet]) -> None:
    with pytest.raises(InputError, match="no example in the split 'test'"):
        ExampleRecords(replace(sets["whole"], split="test"))
