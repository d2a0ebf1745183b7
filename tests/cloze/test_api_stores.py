"""`cloze.read` of a store has the rows of its corpus as they are: those of a trace, a report and an export."""

from pathlib import Path

import pyarrow as pa
import pytest
from recorded_run import of_recipe
from small_recipe import Run, new_world, note, page, prose

import cloze
from corpora.schema import DOCUMENTS
from corpora.store.tables import read_table
from corpora.views import CORPUS
from flows.run.record.run_record import write_run


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two generations of two sources; in the second a page is superseded, a note repeated, and one text a duplicate."""
    world = new_world(tmp_path_factory.mktemp("stored") / "world")
    world.put("pages", "a", [page(str(n), prose(n)) for n in range(6)])
    world.put("notes", "n", [note(n, prose(100 + n)) for n in range(3)])
    world.run()
    world.put("pages", "b", [page("2", prose(300), revision=2), page("9", prose(301)), page("10", prose(301))])
    run = world.run()
    write_run(run.place, of_recipe("20260101T000000000000-small", world.recipe()), run.lock)
    return run


def test_the_rows_of_a_store_are_those_of_its_corpus(stored: Run) -> None:
    """Fails if an id, a source, a locator, a revision or a generation is not that of the corpus, or a row is lost."""
    docs = cloze.read(stored.place.to_address(stored.outcome.corpus.folder), progress=False)
    rows = pa.Table.from_batches(stored.corpus.iter_batches(), CORPUS)
    assert docs.to_arrow().equals(rows)
    assert len(docs) == len(rows) == 10
    assert set(docs["source"]) == {"pages", "notes"} and set(docs["since"]) == {1, 2}
    frame = docs.to_pandas()
    assert [*frame[frame.since == frame.since.max()].text] == [prose(301)]
    assert docs.dropped == {"exact duplicate": 1}
    [removed] = docs.dropped_rows().to_pylist()
    assert (removed["reason"], removed["survivor"] in docs["id"]) == ("exact duplicate", True)
    assert all(row["text"] for row in docs[:2])


def test_an_id_of_a_store_can_be_traced(stored: Run) -> None:
    """Fails if `cloze.trace` refuses the id of a row, or finds another document."""
    shards = stored.place.to_address(stored.outcome.shards.folder)
    for row in cloze.read(stored.place.to_address(stored.outcome.corpus.folder), progress=False):
        assert cloze.trace(shards, row["id"])["document"]["text"] == row["text"]


def test_what_is_made_of_a_store_is_made_of_its_texts(stored: Run, tmp_path: Path) -> None:
    """Fails if a step works on other texts than those of the corpus, or settings of a source are passed over."""
    docs = cloze.read(stored.place.to_address(stored.outcome.corpus.folder), store=tmp_path, progress=False)
    cleaned = cloze.clean(docs, quotes="straight")
    assert sorted(cleaned["text"]) == sorted(docs["text"])
    assert set(cleaned["source"]) == {"texts"} and not set(cleaned["id"]) & set(docs["id"])
    assert len(cloze.deduplicate(docs)) == len(docs)
    asked = {"fields": {"text": "title"}}
    titles = cloze.read(stored.place.to_address(stored.outcome.corpus.folder), progress=False, **asked)
    assert set(titles["text"]) == set(docs["title"])


def test_stored_documents_are_read_as_they_are(stored: Run) -> None:
    """Fails if documents before deduplication, given by their folder, get other ids or lose what was dropped."""
    manifest = stored.outcome.documents[-1]
    docs = cloze.read(stored.place.to_address(manifest.folder), progress=False)
    rows = pa.Table.from_batches(read_table(stored.place, manifest, "documents", DOCUMENTS.names), DOCUMENTS)
    assert docs.to_arrow().equals(rows)
    assert docs.dropped_rows().column_names[:2] == ["id", "keyed"]
