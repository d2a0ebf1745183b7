"""Tracing at its lowest: which row of a corpus an example's document is. (From the raw file on: the run's tests.)"""

from pathlib import Path

import pyarrow as pa
import pytest
from small_corpus import put_corpus, row, words
from small_shards import shards_of

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.store.manifest import Parent
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage
from corpora.store.tables import _MappedFile
from shards.reading.epoch_rows import find_document, open_corpus, trace_example
from shards.reading.files.shard_set import ShardSet
from shards.settings import ShardSettings


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """Document 1 in three rows: revision 1 of generation 1 (deleted), revision 2 of generation 2, and revision 1
    again in generation 3."""
    first = [row(n, words(n)) for n in range(6)]
    second = [row(1, words(101), generation=2, revision=2), *(row(n, words(n), generation=2) for n in (10, 11))]
    third = [row(1, words(1), generation=3), row(12, words(12), generation=3)]
    parts = {"g001-a-00000": first, "g002-a-00000": second, "g003-a-00000": third}
    return put_corpus(Place(str(tmp_path)), parts, deleted=[first[1]])


ID = row(1, "")["id"]


def test_the_row_asked_for_is_found(corpus: Corpus) -> None:
    """Fails if a revision or generation is not looked at, or the newest row is not the last one."""
    texts = {
        (None, None): words(1),
        (1, None): words(1),
        (2, None): words(101),
        (1, 1): words(1),
        (2, 2): words(101),
    }
    for (revision, generation), text in texts.items():
        document = find_document(corpus, ID, revision, generation)
        assert document is not None and document.text == text
    assert find_document(corpus, ID, 2, 1) is None
    assert find_document(corpus, ID, 1, 2) is None
    assert find_document(corpus, b"\0" * 16) is None


def test_an_example_is_of_the_rows_of_its_shard_s_generation(corpus: Corpus) -> None:
    """Fails if an old example is traced to a newer text of the same document."""
    shard_set = ShardSet(corpus.place, shards_of(corpus, ShardSettings(length=16)).shards)
    found = set()
    for index in range(len(shard_set)):
        example = shard_set[index]
        traces = trace_example(shard_set, index)
        assert [trace.role for trace in traces] == ["anchor", "neighbour"][: len(example.documents)]
        assert [trace.document.id for trace in traces] == list(example.documents)
        found |= {(t.generation, t.document.revision, t.document.text) for t in traces if t.document.id == ID}
    assert found == {(1, 1, words(1)), (2, 2, words(101)), (3, 1, words(1))}


def test_a_trace_unpacks_the_record_batches_of_one_example(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if all rows of a shard, or the texts of a whole corpus, are read for one example."""
    monkeypatch.setattr("shards.build.BATCH_ROWS", 4)
    shard_set = ShardSet(corpus.place, shards_of(corpus, ShardSettings(length=16)).shards)
    unpacked: list[tuple[str, tuple[str, ...], int]] = []
    batch_of = _MappedFile.read_batch

    def counted(mapped: _MappedFile, number: int) -> pa.RecordBatch:
        batch = batch_of(mapped, number)
        unpacked.append((mapped._table.file.table, tuple(batch.schema.names), batch.num_rows))
        return batch

    monkeypatch.setattr(_MappedFile, "read_batch", counted)
    [first, *_] = shard_set.parts
    assert first.count_rows("examples") > 2 * 4
    traces = trace_example(shard_set, 5)
    assert [rows for table, _, rows in unpacked if table == "examples"] == [4]
    whole = [names for table, names, _ in unpacked if table == "documents" and "text" in names]
    assert len(whole) == len(traces)
    others = [names for table, names, _ in unpacked if table == "documents" and "text" not in names]
    assert set(others) == {("id", "revision")}


def test_a_corpus_that_is_gone_is_said(corpus: Corpus) -> None:
    """Fails if shards whose corpus was removed end in a traceback."""
    parent = Parent(role="corpora", name="small", fingerprint="0" * 24)
    fields = {"kind": "shards", "name": "small", "build_version": 1, "settings": {}, "libraries": {}, "parts": ()}
    stage = Stage(**fields, parents=(parent,), build=lambda writer, plan: None)  # type: ignore[arg-type, return-value]
    shards = build_stage(corpus.place, stage)
    with pytest.raises(
        InputError, match=r"The corpus small/0{24} of these shards is not in the store .*: run the recipe"
    ):
        open_corpus(corpus.place, shards)
