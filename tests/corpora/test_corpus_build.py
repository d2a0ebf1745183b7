"""The corpus and what it is judged by: marks on candidates, revisions, occurrences, and the live rows of generations.

Whole runs over generations are tested with the run; here are the single rules.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from corpus_builder import Builder, body, line
from hypothesis import given
from hypothesis import strategies as st

from corpora import build
from corpora.build import (
    DELETED,
    Corpus,
    held_rows,
    plan_corpus,
)
from corpora.duplicates.candidates import (
    Candidates,
    TextReader,
    mark_forgotten,
    mark_superseded,
    number_occurrences,
    order_key,
)
from corpora.schema import keyed_id, occurrence_id, record_id
from corpora.store import tables
from corpora.store.stage import build_stage
from corpora.tombstones import Tombstones
from corpora.views import DeleteList, without_deleted


@dataclass(frozen=True)
class Row:
    """A row of the marks' tests."""

    id: int
    revision: int
    generation: int
    text: int
    keyed: bool = True


def candidates(rows: Sequence[Row], dropped: Sequence[Row] = ()) -> Candidates:
    """Rows in the order of their generations, and revisions that were dropped on the way."""
    newest: dict[bytes, tuple[int, int]] = {}
    for row in [*(row for row in rows if row.keyed), *dropped]:
        id = bytes([row.id])
        newest[id] = max((row.revision, row.generation), newest.get(id, (row.revision, row.generation)))
    zeros = np.zeros(len(rows), np.int32)
    return Candidates(
        ids=[bytes([row.id]) for row in rows],
        keyed=[row.keyed for row in rows],
        revision=[row.revision for row in rows],
        since=[0] * len(rows),
        priority=zeros,
        quality=zeros,
        split_keys=zeros.astype(np.uint64),
        text_hash=[bytes([row.text]) for row in rows],
        set_hash=zeros.astype(np.uint64),
        num_shingles=zeros,
        signature=zeros.astype(np.uint32).reshape(-1, 1),
        newest=newest,
        generation=[row.generation for row in rows],
        reasons=[None] * len(rows),
        survivor=[-1] * len(rows),
        similarity=[None] * len(rows),
        missing=[None] * len(rows),
    )


def expected_marks(rows: Sequence[Row], dropped: Sequence[Row]) -> list[str | None]:
    """The rule of revisions by itself, id by id."""
    marks: list[str | None] = [None] * len(rows)
    for id in {row.id for row in rows if row.keyed}:
        mine = [place for place, row in enumerate(rows) if row.keyed and row.id == id]
        top = max((rows[place].revision, rows[place].generation) for place in mine)
        gone = max(((row.revision, row.generation) for row in dropped if row.id == id), default=(-1, -1))
        winners = [place for place in mine if (rows[place].revision, rows[place].generation) == top]
        text = rows[winners[-1]].text if top >= gone else None
        same = [place for place in mine if rows[place].text == text]
        for place in mine:
            marks[place] = "superseded" if place not in same else None if place == same[0] else "repeated"
    return marks


some_rows = st.lists(
    st.builds(Row, st.integers(0, 3), st.integers(0, 2), st.integers(1, 3), st.integers(0, 2), st.booleans()),
    max_size=9,
).map(lambda rows: sorted(rows, key=lambda row: row.generation))
some_drops = st.lists(st.builds(Row, st.integers(0, 3), st.integers(0, 2), st.integers(1, 3), st.just(9)), max_size=3)


@given(some_rows, some_drops)
def test_revisions_are_marked_by_the_rule(rows: list[Row], dropped: list[Row]) -> None:
    """Fails where another text than the newest stays, or it stays in another row than the oldest that has it."""
    found = candidates(rows, dropped)
    mark_superseded(found)
    assert found.reasons == expected_marks(rows, dropped)
    assert all(reason is None for reason, row in zip(found.reasons, rows, strict=True) if not row.keyed)


def test_what_was_forgotten_is_marked_first() -> None:
    """Fails where a forgotten newest revision lets the older text stay in its place."""
    rows = [Row(1, 1, 1, 5), Row(1, 2, 2, 6), Row(2, 1, 1, 7), Row(3, 1, 1, 6)]
    found = candidates(rows)
    mark_forgotten(found, Tombstones().with_documents([(b"none", bytes([6]))]))
    mark_superseded(found)
    assert found.reasons == ["superseded", "forgotten", None, "forgotten"]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12))
def test_occurrences_are_numbered_in_order(rows: list[tuple[int, bool]]) -> None:
    """Fails where two records of the same bytes share an id, or a key is numbered."""
    ids, keyed = [bytes([id]) * 16 for id, _ in rows], [key for _, key in rows]
    found = number_occurrences(ids, keyed)
    for place, (id, key) in enumerate(zip(ids, keyed, strict=True)):
        before = sum(other == id and not k for other, k in zip(ids[:place], keyed[:place], strict=True))
        assert found[place] == (id if key else occurrence_id(id, before))


def test_the_total_order() -> None:
    """Fails where age does not go before priority, priority before length where asked for, and these before the id."""
    found = candidates([Row(id, 0, 1, 0) for id in (4, 3, 2, 1)])
    found.since = [1, 1, 1, 2]
    found.priority = np.array([2, 1, 1, 0], np.int32)
    found.quality = np.array([9, 5, 5, 9], np.int32)
    assert sorted(range(4), key=lambda row: order_key(found, row, "quality")) == [2, 1, 0, 3]
    found.quality[1] = 6
    assert sorted(range(4), key=lambda row: order_key(found, row, "quality")) == [1, 2, 0, 3]
    found.num_shingles = np.array([9, 5, 7, 9], np.int32)
    assert sorted(range(4), key=lambda row: order_key(found, row, "longest")) == [2, 1, 0, 3]


def test_a_corpus_of_one_generation(tmp_path: Path) -> None:
    """Fails where a kept row is not the document's, or a removed one does not say why."""
    builder = Builder(tmp_path)
    corpus = builder.add(line(1, body(1)), line(2, body(2)), line(3, body(2)), line(1, body(3), rev=2), files=3)
    documents = {document.id: document.text for document in corpus.documents()}
    survivor, copy = sorted((keyed_id("own", "2"), keyed_id("own", "3")))
    assert documents == {keyed_id("own", "1"): body(3), survivor: body(2)}
    removed = {
        (row["id"], row["step"], row["reason"], row["survivor"], row["similarity"])
        for b in corpus.removed()
        for row in b.to_pylist()
    }
    assert removed == {
        (keyed_id("own", "1"), "revisions", "superseded", None, None),
        (copy, "duplicates", "exact duplicate", survivor, 1.0),
    }


def test_a_corpus_of_two_generations(tmp_path: Path) -> None:
    """Fails where the live rows are not those that the verdicts keep, replayed from the beginning."""
    builder = Builder(tmp_path)
    builder.add(line(1, body(1)), line(2, body(2)), line(3, body(2)))
    survivor = min(2, 3, key=lambda n: keyed_id("own", str(n)))
    corpus = builder.add(line(survivor, body(4), rev=2), line(9, body(9)))
    assert sorted(d.text for d in corpus.documents()) == sorted([body(1), body(4), body(2), body(9)])
    [gone] = builder.rows(corpus.manifest, "deleted")
    assert (gone["id"], gone["revision"], gone["generation"]) == (keyed_id("own", str(survivor)), 1, 1)
    verdicts = builder.rows(builder.generations[-1].verdicts, "verdicts")
    held = held_rows(builder.place, {g.number: g.verdicts for g in builder.generations}).tolist()
    live = {(verdicts[row]["id"], verdicts[row]["revision"], number) for row, number in enumerate(held) if number}
    stand = [b.select(["id", "revision", "generation"]).to_pylist() for b in corpus.batches()]
    assert {tuple(row.values()) for rows in stand for row in rows} == live
    assert sorted(generation for _, _, generation in live) == [1, 2, 2, 2]


def test_records_without_a_key_keep_their_ids_over_generations(tmp_path: Path) -> None:
    """Fails where a later record of the same bytes takes an id that is given, or supersedes its twin."""
    builder = Builder(tmp_path)
    builder.add({"text": body(1)}, {"text": body(1)})
    corpus = builder.add({"text": body(1)}, {"text": body(2)})
    raw = record_id("own", json.dumps({"text": body(1)}).encode())
    ids = [row["id"] for row in builder.rows(builder.generations[-1].verdicts, "verdicts")]
    assert ids[:3] == [raw, occurrence_id(raw, 1), occurrence_id(raw, 2)]
    reasons = [row["reason"] for row in builder.rows(builder.generations[-1].verdicts, "verdicts")]
    assert reasons[:3].count("exact duplicate") == 2 and reasons[:3].count(None) == 1
    assert sorted(d.text for d in corpus.documents()) == sorted([body(1), body(2)])


def test_texts_are_read_by_their_place_in_the_order(tmp_path: Path) -> None:
    """Fails where a text of another part, or in another order than asked for, comes back."""
    builder = Builder(tmp_path)
    builder.add(*(line(n, body(n)) for n in range(7)), files=3)
    builder.add(line(20, body(20)), line(21, body(21)))
    texts = [row["text"] for item in builder.inputs for row in builder.rows(item.documents, "documents")]
    assert len(texts) == 9
    order = [8, 0, 3, 3, 7, 1]
    reader = TextReader(builder.place, builder.inputs, order)
    assert reader([0, 5, 1, 4, 2, 3, 0]).to_pylist() == [texts[order[place]] for place in (0, 5, 1, 4, 2, 3, 0)]


def test_each_verdict_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where planning reads verdicts, or a part reads those of others, or documents of which all stay; where a
    kept text is made an excerpt of.
    """
    builder = Builder(tmp_path)
    builder.add(*(line(n, body(n % 5)) for n in range(7)), files=3)
    [generation] = builder.generations
    assert [file.content.rows for part in generation.verdicts.parts for file in part.files] == [7]
    decoded, excerpts = Counter[str](), list[str]()
    read, shorten = tables._Mapped.batch, build.excerpt

    def reading(image: Any, number: int) -> Any:
        batch = read(image, number)
        decoded[image._table.file.table] += batch.num_rows
        return batch

    monkeypatch.setattr(tables._Mapped, "batch", reading)
    monkeypatch.setattr(build, "excerpt", lambda text: (excerpts.append(text), shorten(text))[1])
    stage = plan_corpus(builder.place, "again", builder.generations)
    assert len(stage.parts) == 3 and not decoded
    corpus = Corpus(builder.place, build_stage(builder.place, stage))
    assert decoded == {"verdicts": 7, "documents": 4}
    assert sorted(excerpts) == [body(0), body(1)]
    assert corpus.manifest.rows("removed") == 2


DELETABLE = st.tuples(
    st.sampled_from([bytes(8), b"other id"]), st.sampled_from([b"the rest", b"no other"]), st.integers(0, 1)
)


@given(st.lists(st.tuples(DELETABLE, st.integers(1, 2)), max_size=9), st.lists(st.tuples(DELETABLE, st.integers(1, 2))))
def test_the_delete_list_holds_whole_keys(deleted: list[Any], rows: list[Any]) -> None:
    """Fails where a row goes whose id alone, or half of it, is on the list, or one of several entries is missed."""
    schema = pa.schema([DELETED.field(name) for name in ("id", "revision", "generation")])

    def table(keys: list[Any]) -> pa.Table:
        columns = [[a + b for (a, b, _), _ in keys], [revision for (_, _, revision), _ in keys], [g for _, g in keys]]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    [batch] = [*table(rows).to_batches(), pa.RecordBatch.from_pylist([], schema)][:1]
    found = DeleteList(table(deleted))
    assert found.holds(batch).tolist() == [row in deleted for row in rows]
    assert without_deleted(batch, found).to_pylist() == [
        row for row, key in zip(batch.to_pylist(), rows, strict=True) if key not in deleted
    ]
    assert len(found) == len(deleted)
