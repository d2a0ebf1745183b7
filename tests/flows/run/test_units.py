"""The unit that is said is the unit that is counted."""

from small_recipe import Run

from corpora.store.tables import read_table
from flows.orchestration.pages import summarize_manifest
from flows.report.page import build_page
from flows.run.record.counts_text import describe_rows


def test_a_table_of_tokens_says_documents_and_tokens(finished: Run) -> None:
    """Fails if rows, one a document, are said to be tokens."""
    tokens = finished.manifest("tokens")
    rows = [row for batch in read_table(finished.place, tokens, "tokens", ("ids",)) for row in batch.to_pylist()]
    counted = sum(len(row["ids"]) for row in rows)
    assert counted > len(rows) > 1
    assert summarize_manifest(tokens) == f"{len(rows):,} documents, {counted:,} tokens"
    assert "".join(f"{line}<br>" for line in describe_rows(tokens).values()) in build_page(
        finished.place, finished.record, "text"
    )
