"""The corpus: the live rows of its generations, and what is read to make it.

Whole runs over generations are tested with the run; here are the single rules.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from corpus_builder import Builder, body, line
from hypothesis import given
from hypothesis import strategies as st

from corpora import build
from corpora.build import (
    DELETED,
    Corpus,
    compute_holders,
    plan_corpus,
)
from corpora.schema import compute_keyed_id, compute_occurrence_id, compute_record_id
from corpora.store import tables
from corpora.store.stage import build_stage
from corpora.views import DeleteList, without_deleted


def test_a_corpus_of_one_generation(tmp_path: Path) -> None:
    """Fails if a kept row is not the document's, or a removed one does not say why."""
    builder = Builder(tmp_path)
    corpus = builder.add(line(1, body(1)), line(2, body(2)), line(3, body(2)), line(1, body(3), rev=2), files=3)
    documents = {document.id: document.text for document in corpus.iter_documents()}
    survivor, copy = sorted((compute_keyed_id("own", "2"), compute_keyed_id("own", "3")))
    assert documents == {compute_keyed_id("own", "1"): body(3), survivor: body(2)}
    removed = {
        (row["id"], row["step"], row["reason"], row["survivor"], row["similarity"])
        for b in corpus.iter_removed()
        for row in b.to_pylist()
    }
    assert removed == {
        (compute_keyed_id("own", "1"), "revisions", "superseded", None, None),
        (copy, "duplicates", "exact duplicate", survivor, 1.0),
    }


def test_a_corpus_of_two_generations(tmp_path: Path) -> None:
    """Fails if the live rows are not those that the verdicts keep, replayed from the beginning."""
    builder = Builder(tmp_path)
    builder.add(line(1, body(1)), line(2, body(2)), line(3, body(2)))
    survivor = min(2, 3, key=lambda n: compute_keyed_id("own", str(n)))
    corpus = builder.add(line(survivor, body(4), rev=2), line(9, body(9)))
    assert sorted(d.text for d in corpus.iter_documents()) == sorted([body(1), body(4), body(2), body(9)])
    [gone] = builder.rows(corpus.manifest, "deleted")
    assert (gone["id"], gone["revision"], gone["generation"]) == (compute_keyed_id("own", str(survivor)), 1, 1)
    verdicts = builder.rows(builder.generations[-1].verdicts, "verdicts")
    held = compute_holders(builder.place, {g.number: g.verdicts for g in builder.generations}).tolist()
    live = {(verdicts[row]["id"], verdicts[row]["revision"], number) for row, number in enumerate(held) if number}
    stand = [b.select(["id", "revision", "generation"]).to_pylist() for b in corpus.iter_batches()]
    assert {tuple(row.values()) for rows in stand for row in rows} == live
    assert sorted(generation for _, _, generation in live) == [1, 2, 2, 2]


def test_records_without_a_key_keep_their_ids_over_generations(tmp_path: Path) -> None:
    """Fails if a later record of the same bytes takes an id that is given, or supersedes its twin."""
    builder = Builder(tmp_path)
    builder.add({"text": body(1)}, {"text": body(1)})
    corpus = builder.add({"text": body(1)}, {"text": body(2)})
    raw = compute_record_id("own", json.dumps({"text": body(1)}).encode())
    ids = [row["id"] for row in builder.rows(builder.generations[-1].verdicts, "verdicts")]
    assert ids[:3] == [raw, compute_occurrence_id(raw, 1), compute_occurrence_id(raw, 2)]
    reasons = [row["reason"] for row in builder.rows(builder.generations[-1].verdicts, "verdicts")]
    assert reasons[:3].count("exact duplicate") == 2 and reasons[:3].count(None) == 1
    assert sorted(d.text for d in corpus.iter_documents()) == sorted([body(1), body(2)])


def test_each_verdict_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if planning reads verdicts, or a part reads those of others, or documents of which all stay; where a
    kept text is made an excerpt of.
    """
    builder = Builder(tmp_path)
    builder.add(*(line(n, body(n % 5)) for n in range(7)), files=3)
    [generation] = builder.generations
    assert [file.content.rows for part in generation.verdicts.parts for file in part.files] == [7]
    decoded, excerpts = Counter[str](), list[str]()
    read, shorten = tables._MappedFile.read_batch, build.cut_excerpt

    def reading(image: Any, number: int) -> Any:
        batch = read(image, number)
        decoded[image._table.file.table] += batch.num_rows
        return batch

    monkeypatch.setattr(tables._MappedFile, "read_batch", reading)
    monkeypatch.setattr(build, "cut_excerpt", lambda text: (excerpts.append(text), shorten(text))[1])
    stage = plan_corpus(builder.place, "again", builder.generations)
    assert len(stage.parts) == 3 and not decoded
    corpus = Corpus(builder.place, build_stage(builder.place, stage))
    assert decoded == {"verdicts": 7, "documents": 4}
    assert sorted(excerpts) == [body(0), body(1)]
    assert corpus.manifest.count_rows("removed") == 2


DELETABLE = st.tuples(
    st.sampled_from([bytes(8), b"other id"]), st.sampled_from([b"the rest", b"no other"]), st.integers(0, 1)
)


@given(st.lists(st.tuples(DELETABLE, st.integers(1, 2)), max_size=9), st.lists(st.tuples(DELETABLE, st.integers(1, 2))))
def test_the_delete_list_holds_whole_keys(deleted: list[Any], rows: list[Any]) -> None:
    """Fails if a row goes whose id alone, or half of it, is on the list, or one of several entries is missed."""
    schema = pa.schema([DELETED.field(name) for name in ("id", "revision", "generation")])

    def table(keys: list[Any]) -> pa.Table:
        columns = [[a + b for (a, b, _), _ in keys], [revision for (_, _, revision), _ in keys], [g for _, g in keys]]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    [batch] = [*table(rows).to_batches(), pa.RecordBatch.from_pylist([], schema)][:1]
    found = DeleteList(table(deleted))
    assert found.find_deleted(batch).tolist() == [row in deleted for row in rows]
    assert without_deleted(batch, found).to_pylist() == [
        row for row, key in zip(batch.to_pylist(), rows, strict=True) if key not in deleted
    ]
    assert len(found) == len(deleted)
