"""Reading shards: examples by number over all shards of a split, and which of them may be read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_corpus import row
from small_shards import put_shards

from corpora.store.manifest import Part
from corpora.store.places.place import Place
from corpora.store.tables import read_part_table, read_table
from shards.masks.masking import MaskSettings
from shards.reading.files.shard_set import ShardSet
from shards.settings import ShardSettings


def build_set(folder: Path, split: str = "train", static: bool = False, gone: tuple[int, ...] = ()) -> ShardSet:
    """The examples of a split of `put_shards`."""
    settings = ShardSettings(length=32, copies=2, masking=MaskSettings(kind="static" if static else "dynamic"))
    place = Place(str(folder))
    return ShardSet(place, put_shards(place, settings, gone=gone).shards, split)


@pytest.mark.parametrize("split", ["train", "held-out"])
@pytest.mark.parametrize("static", [False, True])
def test_examples_by_number_are_the_rows_in_order(tmp_path: Path, split: str, static: bool) -> None:
    """Fails if a number leads to another row, another shard or another split's."""
    shard_set = build_set(tmp_path, split, static)
    manifest = shard_set.manifest
    chosen = tuple(part for part in manifest.parts if part.labels.get("split") == split)
    rows = [
        r for batch in read_table(shard_set.place, manifest.with_parts(chosen), "examples") for r in batch.to_pylist()
    ]
    assert len(chosen) == 2 and len(shard_set) == len(rows) > 20
    for index, expected in enumerate(rows):
        example = shard_set[index]
        for name in ("example_id", "boundary", "label", "copy", "ordinal"):
            assert getattr(example, name) == expected[name]
        for name in ("documents", "revisions"):
            assert list(getattr(example, name)) == expected[name]
        assert example.ids.tolist() == expected["ids"] and example.ids.dtype == np.uint16
        assert example.word_starts.tolist() == expected["word_starts"]
        assert example.mask_positions.tolist() == expected.get("mask_positions", [])
        assert example.mask_ids.tolist() == expected.get("mask_ids", [])
        part, at = shard_set.locate_row(index)
        assert sum(p.count_rows("examples") for p in chosen[: chosen.index(part)]) + at == index
    assert [example.example_id for example in shard_set.iter_live_examples()] == [row["example_id"] for row in rows]


@pytest.mark.parametrize("number", [-1, 10**6])
def test_a_number_out_of_range(tmp_path: Path, number: int) -> None:
    """Fails if a wrong number leads to an example, as -1 would by Python's custom."""
    with pytest.raises(IndexError, match=f"example {number} of"):
        build_set(tmp_path)[number]


def test_opening_reads_nothing_of_the_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the length or the live rows of a large set cost a look at every shard; with a delete list, where more
    of the shards is read than the columns that name documents."""
    plain, with_list = build_set(tmp_path / "a"), build_set(tmp_path / "b", gone=(1,))
    opened: list[tuple[str, tuple[str, ...]]] = []

    def noted(place: Place, folder: str, part: Part, table: str, columns: Sequence[str], *rest: Any) -> Any:
        if part.count_rows(table):
            opened.append((table, tuple(columns)))
        return read_part_table(place, folder, part, table, columns, *rest)

    monkeypatch.setattr("shards.reading.files.shard_set.read_part_table", noted)
    monkeypatch.setattr("corpora.store.tables.read_part_table", noted)
    assert len(plain) and plain.is_live.all() and plain.locate_row(3)
    assert opened == []
    assert not with_list.is_live.all()
    assert opened == [("deleted", ("id", "revision", "generation")), *[("examples", ("documents", "revisions"))] * 2]


def test_deleted_examples_keep_their_number_and_are_not_live(tmp_path: Path) -> None:
    """Fails if a forget moves other examples, or lets one be read that holds a deleted row, as anchor or
    neighbour."""
    gone = (1, 2, 30)
    before, after = build_set(tmp_path / "a"), build_set(tmp_path / "b", gone=gone)
    assert [e.example_id for e in before.iter_live_examples()] == [after[n].example_id for n in range(len(after))]
    ids = {row(n, "")["id"] for n in gone}
    expected = [not ids & set(after[n].documents) for n in range(len(after))]
    assert after.is_live.tolist() == expected
    assert 0 < sum(expected) < len(expected)
    assert any(
        after[n].document not in ids for n in np.flatnonzero(~after.is_live).tolist()
    )  # gone for its neighbour's sake
    assert [e.example_id for e in after.iter_live_examples()] == [
        after[n].example_id for n in np.flatnonzero(expected).tolist()
    ]
    assert before.is_live.all() and before.deleted_rows == frozenset()


def test_a_deletion_is_of_one_generation_s_row(tmp_path: Path) -> None:
    """Fails if a row of the same id and revision that came back later is not read either."""
    shard_set = build_set(tmp_path, gone=(1,))
    assert {generation for _, _, generation in shard_set.deleted_rows} == {1}
    anchor = row(1, "")["id"]
    held = shard_set.find_examples_with_document(anchor)
    assert held and not shard_set.is_live[held].any()


def test_examples_of_a_document(tmp_path: Path) -> None:
    """Fails if an example that holds a document as anchor or neighbour is missed, or another is named."""
    shard_set = build_set(tmp_path)
    documents = {shard_set[n].document for n in range(len(shard_set))}
    for document in documents:
        expected = [n for n in range(len(shard_set)) if document in shard_set[n].documents]
        assert shard_set.find_examples_with_document(document) == expected
    assert shard_set.find_examples_with_document(b"\0" * 16) == []


def test_a_split_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """Fails if nothing cannot be counted or walked."""
    shard_set = build_set(tmp_path, split="test")
    assert (len(shard_set), shard_set.is_live.tolist(), list(shard_set.iter_live_examples())) == (0, [], [])
