"""Shards of the Python API: what a training reads, in the forms of other tools."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from small_recipe import prose

import cloze
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader


@pytest.fixture(scope="module")
def shards() -> cloze.Shards:
    """Pairs of a small corpus, with a held-out split."""
    docs = cloze.deduplicate(cloze.read([prose(n) for n in range(40)], progress=False), held_out=0.2)
    return cloze.build_shards(docs, cloze.train_vocabulary(docs, size=300), 64, masking="dynamic")


def test_a_notebook_may_call_everything(tmp_path: Path) -> None:
    """Fails if a call starts an event loop of its own: in a notebook one is running already."""

    async def cell() -> int:
        docs = cloze.read([prose(n) for n in range(5)], store=tmp_path / "store", progress=False)
        return len(cloze.build_shards(docs, cloze.train_vocabulary(docs, size=150), 64, input="single"))

    assert asyncio.run(cell()) > 0


def test_examples_are_those_of_a_training(shards: cloze.Shards) -> None:
    """Fails if an example, or its masks, are not what the trainer's loader gives for the epoch and the seed."""
    shard_set = ShardSet(shards._workspace.place, shards._set.manifest)
    for epoch in (0, 2):
        gathered = Loader(shard_set, 42).gather(range(epoch * len(shards), (epoch + 1) * len(shards)))
        rows = [*shards.epoch(epoch)]
        assert np.concatenate([row["input_ids"] for row in rows]).tolist() == gathered.ids.tolist()
        labels = np.concatenate([row["labels"] for row in rows])
        assert labels[labels != -100].tolist() == gathered.targets.tolist()
    assert "next_sentence_label" in shards[0]
    assert shards[-1]["input_ids"].tolist() == [*shards][-1]["input_ids"].tolist()
    with pytest.raises(IndexError):
        _ = shards[len(shards)]


def test_other_tools_get_the_same_examples(shards: cloze.Shards) -> None:
    """Fails if Arrow, pandas, datasets or torch hold other examples than the shards."""
    rows = [*shards]
    table = shards.to_arrow()
    assert table.column("ids").to_pylist() == [row["input_ids"].tolist() for row in rows]
    pytest.importorskip("pandas")
    assert shards.to_pandas()["ids"].map(len).sum() == sum(len(row["input_ids"]) for row in rows)
    pytest.importorskip("datasets")
    assert shards.to_hf(padded=False)["labels"] == [row["labels"].tolist() for row in rows]
    assert {len(ids) for ids in shards.to_hf()["input_ids"]} == {64}
    assert sum(sum(mask) for mask in shards.to_hf()["attention_mask"]) == sum(len(row["input_ids"]) for row in rows)
    pytest.importorskip("torch")
    dataset = shards.epoch(1).to_torch(padded=False)
    assert dataset[3]["input_ids"].tolist() == shards.epoch(1)[3]["input_ids"].tolist()


def test_opened_shards_are_the_built_ones(shards: cloze.Shards, tmp_path: Path) -> None:
    """Fails if an address opens others, or what is not there is not refused."""
    assert cloze.open_shards(shards.artifact, epoch=1).to_arrow().equals(shards.epoch(1).to_arrow())
    held_out = cloze.open_shards(shards.artifact, split="held-out")
    assert len(held_out) == len(shards.split("held-out")) > 0
    assert [*held_out.vocabulary] == [*shards.vocabulary]
    with pytest.raises(cloze.InputError, match="no shards artifact"):
        cloze.open_shards(tmp_path)
    with pytest.raises(cloze.InputError, match="split"):
        cloze.open_shards(shards.artifact, split="test")
    with pytest.raises(cloze.InputError, match="epoch"):
        shards.epoch(-1)


def test_shards_are_sliced_saved_and_traced(shards: cloze.Shards, tmp_path: Path) -> None:
    """Fails if a slice, a copy or a trace is of other examples than those that `shards[n]` gives."""
    assert [row["input_ids"].tolist() for row in shards[3:9:2]] == [
        shards[number]["input_ids"].tolist() for number in (3, 5, 7)
    ]
    assert shards[5:2] == []
    shards.save(tmp_path / "saved")
    again = cloze.open_shards(tmp_path / "saved", epoch=1)
    assert again.to_arrow().equals(shards.epoch(1).to_arrow()) and [*again.vocabulary] == [*shards.vocabulary]
    files = [*(tmp_path / "saved").rglob("examples/train/*.arrow")]
    assert files
    for path in files:
        told = json.loads(pa.ipc.open_file(path).schema.metadata[b"cloze"])["vocabulary"]
        assert (path.parent / told["tokenizer"]).resolve().is_relative_to((tmp_path / "saved").resolve())
        assert (path.parent / told["tokenizer"]).is_file()
    with pytest.raises(cloze.InputError, match="not empty"):
        shards.save(tmp_path / "saved")
    later, vocabulary = shards.epoch(1), shards.vocabulary
    for number in (0, -1):
        facts = cloze.trace(later, number)
        given = vocabulary.convert_ids_to_tokens(later[number]["input_ids"].tolist())
        pairs = [pair for pair in zip(given, facts["tokens"], strict=True) if pair[0] != pair[1]]
        assert len(pairs) < len(given) / 3, "all but the masks are the tokens that are traced"
        document = facts["documents"][0]
        assert facts["example"] in cloze.trace(later, document["id"])["examples"]["train"]
        assert cloze.trace(later, bytes.fromhex(document["id"]))["document"]["text"] == document["text"]
    with pytest.raises(cloze.InputError, match="numbered from 0"):
        cloze.trace(shards, len(shards))


def test_a_split_without_examples_is_empty() -> None:
    """Fails if shards of one document, which has no held-out part, cannot be looked at."""
    shards = cloze.build_shards([prose(1)], cloze.train_vocabulary([prose(1)], size=100), input="single")
    empty = shards.split("held-out")
    assert (len(empty), [*empty], len(empty.to_arrow())) == (0, [], 0)
    with pytest.raises(IndexError):
        _ = empty[0]
    pytest.importorskip("datasets")
    assert len(empty.to_hf()) == 0
    pytest.importorskip("torch")
    with pytest.raises(cloze.InputError, match="no example"):
        empty.to_torch()


def test_mistakes_are_named() -> None:
    """Fails if a setting that shards do not have, or a vocabulary without a mask token, is taken."""
    vocab = cloze.train_vocabulary([prose(1)], size=100)
    with pytest.raises(cloze.InputError, match="lenght"):
        cloze.build_shards([prose(1)], vocab, lenght=64)
    with pytest.raises(cloze.InputError, match="masking"):
        cloze.build_shards([prose(1)], vocab, masking="often")
