"""The documents of a shard: those of the definition, in its order, and no more of the parts unpacked than it takes."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.schema import ID_BYTES
from corpora.store.ledger import Ledger
from corpora.store.manifest import Manifest
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_stage
from corpora.store.tables import read_part_table
from shards.documents import (
    DocumentSelection,
    ShardDocuments,
    build_empty_rows,
    join_rows,
    read_documents,
    select_documents_plain,
    sort_documents,
    unpack_batch,
)
from shards.schema import build_token_schema
from shards.tokens import sort_rows

IDS = pa.uint16()
SCHEMA = build_token_schema(IDS)
LAST = (1 << 64) - 1

words = st.lists(st.tuples(st.integers(0, 65_535), st.booleans()), min_size=1, max_size=5)  # of a sentence
documents = st.fixed_dictionaries(
    {
        "shuffle": st.integers(0, 5) | st.integers(LAST - 5, LAST),  # few, so that ids decide
        "id": st.binary(min_size=ID_BYTES, max_size=ID_BYTES),
        "revision": st.integers(0, 3),
        "source": st.sampled_from("ab"),
        "held_out": st.booleans(),
        "sentences": st.lists(words, min_size=1, max_size=4),
    }
)
batches = st.lists(st.lists(documents, max_size=6), max_size=4)
shard_ranges = st.builds(
    DocumentSelection,
    first=st.integers(0, 3),
    last=st.integers(3, 5) | st.integers(LAST - 3, LAST),
    held_out=st.booleans(),
    sources=st.sampled_from([(), ("a",), ("a", "b"), ("c",)]),
)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Documents as a record batch of tokens, sorted as the tokens stage sorts them."""
    found = []
    for row in sorted(rows, key=lambda row: (row["shuffle"], row["id"])):
        sentences = row["sentences"]
        flat = [word for sentence in sentences for word in sentence]
        lists = {"ids": [id for id, _ in flat], "word_starts": [start for _, start in flat]}
        found.append({**row, **lists, "sentence_lengths": [len(sentence) for sentence in sentences]})
    return pa.RecordBatch.from_pylist([{name: row[name] for name in SCHEMA.names} for row in found], SCHEMA)


def assert_equal(found: ShardDocuments, wanted: ShardDocuments) -> None:
    columns = zip((*found.tokens, *found[1:]), (*wanted.tokens, *wanted[1:]), strict=True)
    for one, other in columns:
        assert one.dtype == other.dtype and np.array_equal(one, other)


@given(batches, shard_ranges, st.data())
def test_documents_are_those_of_the_definition(
    rows: list[list[dict[str, Any]]], shard: DocumentSelection, data: Any
) -> None:
    """Fails if a row, a token, a bit or an order differs, also in batches that are cut out of larger ones."""
    whole = [batch_of(group) for group in rows]
    table = pa.Table.from_batches(whole, SCHEMA)
    cuts = [data.draw(st.integers(0, len(batch))) for batch in whole]
    pieces = [part for batch, cut in zip(whole, cuts, strict=True) for part in (batch.slice(0, cut), batch.slice(cut))]
    chosen = (unpack_batch(piece, shard).select_between(shard.first, shard.last) for piece in pieces)
    found = sort_documents(join_rows([build_empty_rows(IDS), *chosen]))
    assert_equal(found, select_documents_plain(table, shard))


@given(batches, st.integers(0, 2))
def test_rows_are_sorted_as_arrow_sorts_them(rows: list[list[dict[str, Any]]], empty: int) -> None:
    """Fails if a list goes to another document, a bit is lost, or a document without tokens stays."""
    table = pa.Table.from_batches([batch_of(group) for group in rows], SCHEMA)
    none = [{**row, "ids": [], "word_starts": [], "sentence_lengths": []} for row in table.slice(0, empty).to_pylist()]
    found = sort_rows(pa.concat_tables([pa.Table.from_pylist(none, SCHEMA), table]))
    assert found.equals(
        table.sort_by([("shuffle", "ascending"), ("id", "ascending")]).combine_chunks().to_batches()[0]
        if len(table)
        else found[:0]
    )


def put_tokens(place: Place, parts: int, rows: int, batch_rows: int) -> Manifest:
    """Parts of random documents, every fifth held out, in batches of so many rows."""

    def build(writer: PartWriter, plan: PartPlan) -> Ledger:
        draw = np.random.default_rng(plan.key)
        table = pa.Table.from_batches([batch_of([_document(draw, row) for row in range(rows)])])
        with writer.create_table("tokens", SCHEMA, sorted_by="shuffle") as sink:
            for batch in table.to_batches(max_chunksize=batch_rows):
                sink.write(batch)
        return Ledger()

    stage = Stage(
        kind="tokens",
        name="small",
        build_version=1,
        settings={"parts": parts, "rows": rows},
        parents=(),
        libraries={},
        parts=tuple(PartPlan(name=f"{number:05d}", key=number) for number in range(parts)),
        build=build,
    )
    return build_stage(place, stage)


def _document(draw: np.random.Generator, row: int) -> dict[str, Any]:
    words = [(int(id), bool(id % 2)) for id in draw.integers(0, 1_000, 7)]
    shuffle, id = int(draw.integers(0, 1 << 64, dtype=np.uint64)), draw.bytes(ID_BYTES)
    sentences = [words[:3], words[3:]]
    return {
        **{"shuffle": shuffle, "id": id, "revision": 1, "source": "a", "held_out": row % 5 == 0},
        "sentences": sentences,
    }


def ranges(number: int) -> list[DocumentSelection]:
    """So many shards."""
    bounds = [(shard << 64) // number for shard in range(number + 1)]
    return [DocumentSelection(first=first, last=last - 1) for first, last in pairwise(bounds)]


@pytest.fixture
def tokens(tmp_path: Path) -> tuple[Place, Manifest]:
    """Three parts of 400 documents in batches of 20."""
    place = Place(str(tmp_path))
    return place, put_tokens(place, parts=3, rows=400, batch_rows=20)


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every record batch that is read."""
    rows: list[int] = []

    def counted(*arguments: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        for batch in read_part_table(*arguments, **named):
            rows.append(batch.num_rows)
            yield batch

    monkeypatch.setattr("shards.documents.read_part_table", counted)
    return rows


def read(place: Place, tokens: Manifest, shard: DocumentSelection) -> ShardDocuments:
    return read_documents(place, tokens.stage_folder, tokens.parts, shard, IDS)


@pytest.mark.parametrize("number", [1, 7, 60, 500])
def test_any_number_of_shards_unpacks_every_batch_once(
    tokens: tuple[Place, Manifest], rows_read: list[int], number: int
) -> None:
    """Fails if the work grows with the number of shards."""
    documents = sum(len(read(*tokens, shard).ids) for shard in ranges(number))
    assert documents == 3 * 320
    assert sum(rows_read) == 3 * 400 and set(rows_read) == {20}


def test_one_shard_of_many_unpacks_what_it_touches(tokens: tuple[Place, Manifest], rows_read: list[int]) -> None:
    """Fails if a shard reads the parts from their beginnings."""
    read(*tokens, ranges(500)[250])
    assert 1 <= len(rows_read) <= 6


@pytest.mark.parametrize("kept_bytes", [0, 1, 5_000, 1 << 20])
def test_what_was_read_before_changes_nothing(
    tokens: tuple[Place, Manifest], monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    """Fails if rows that an earlier shard left are another part's, other rows, or another shard's columns."""
    monkeypatch.setattr("shards.documents.MAX_CACHED_BYTES", kept_bytes)
    place, manifest = tokens
    table = pa.Table.from_batches(
        batch for part in manifest.parts for batch in read_part_table(place, manifest.stage_folder, part, "tokens")
    )
    alternating = [each for pair in zip(ranges(30), ranges(17), strict=False) for each in pair]
    for_one_source = [DocumentSelection(first=c.first, last=c.last, sources=("a",)) for c in ranges(9)]
    for shard in [*ranges(30), *alternating, *ranges(30)[::-1], *ranges(9), *for_one_source]:
        assert_equal(read(place, manifest, shard), select_documents_plain(table, shard))


def test_no_more_is_kept_than_there_is_room_for(
    tokens: tuple[Place, Manifest], rows_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if the memory of a shard grows with the number of parts."""
    monkeypatch.setattr("shards.documents.MAX_CACHED_BYTES", 0)
    for shard in ranges(30):
        read(*tokens, shard)
    assert sum(rows_read) > 1.2 * 3 * 400
