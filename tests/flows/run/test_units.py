"""The unit that is said is the unit that is counted."""

from small_recipe import Run

from corpora.store.tables import read_table
from flows.orchestration.pages.page_artifacts import summary
from flows.report.page import build_page
from flows.run.record.counts_text import rows_called, rows_in_words


def test_a_table_of_tokens_says_documents_and_tokens(finished: Run) -> None:
    """Fails where rows, one a document, are said to be tokens."""
    tokens = finished.manifest("tokens")
    rows = [row for batch in read_table(finished.place, tokens, "tokens", ("ids",)) for row in batch.to_pylist()]
    counted = sum(len(row["ids"]) for row in rows)
    assert counted > len(rows) > 1
    assert summary(tokens) == f"{len(rows):,} documents, {counted:,} tokens"
    assert "".join(f"{line}<br>" for line in rows_in_words(tokens).values()) in build_page(
        finished.place, finished.record, "text"
    )


def test_notes_of_dropped_records_are_no_revisions_of_documents(finished: Run) -> None:
    said = [summary(manifest) for manifest in finished.manifests if manifest.kind == "signatures"]
    assert any("of dropped record" in line or "revisions of dropped records" in line for line in said)


def test_every_table_of_a_run_has_a_unit(finished: Run) -> None:
    """Fails where a table is added and nobody says what a row of it is."""
    tables = {(manifest.kind, table) for manifest in finished.manifests for table in manifest.tables}
    assert len(tables) > 12
    assert [table for table in tables if rows_called(*table)[0].startswith("row of")] == []
