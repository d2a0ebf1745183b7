"""What `cloze dedup` says."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from corpora.schema import cut_excerpt
from flows.run.record.counts_text import format_count
from flows.run.record.ledger_balance import format_bytes

if TYPE_CHECKING:
    from flows.dedup.run import DedupOutcome
    from flows.dedup.similar import SimilarDocument


def summary(outcome: "DedupOutcome", output: str) -> Iterator[str]:
    """The lines for people."""
    rows, files = format_count(outcome.rows, "row"), format_count(outcome.files, "file")
    read = f"{rows} of {files}, {format_bytes(outcome.text_bytes)}"
    removed = ", ".join(f"{number:,} {reason}" for reason, number in outcome.removed.items())
    yield f"{read}: {outcome.kept:,} kept, {outcome.rows - outcome.kept:,} removed{f' ({removed})' if removed else ''}"
    if outcome.without_text:
        yield f"{format_count(outcome.without_text, 'row')} without text: kept, and compared with nothing"
    if outcome.missing is not None:
        median, most = (f"{100 * share:.1f}%" for share in outcome.missing)
        yield f"near-duplicates: their survivors lack {median} of their shingles (median), {most} (99 of 100 below)"
    if outcome.parts_cut:
        yield f"{format_count(outcome.parts_cut, 'part')} of earlier rows cut out of texts; the removed rows have them"
    if outcome.comparisons_cut_off:
        yield f"{format_count(outcome.comparisons_cut_off, 'comparison')} cut off in crowded buckets"
    if outcome.recall is not None and outcome.recall.pairs:
        found, theory = (f"{100 * share:.1f}%" for share in (outcome.recall.found, outcome.recall.theory))
        yield f"recall on {format_count(outcome.recall.pairs, 'planted pair')}: {found}; the curve promises {theory}"
    if outcome.not_read:
        from flows.run.inputs.unread_files import describe_groups  # it knows recipes, .6 s of a process

        yield f"not read: {describe_groups(outcome.not_read, True)}"
    yield f"{output} has the rows that stay, and the removed ones next to them"


def similar_facts(found: "SimilarDocument") -> dict[str, Any]:
    """A similar document for scripts."""
    document = found.document
    return {
        "id": document.id.hex(),
        "source": document.source,
        "title": document.title,
        "place": str(document.locator),
        "similarity": found.similarity,
        "missing": found.missing,
        "is_exact": found.is_exact,
        "excerpt": cut_excerpt(document.text),
    }


def similar_lines(found: Sequence["SimilarDocument"], threshold: float) -> Iterator[str]:
    """Similar documents for people."""
    if not found:
        yield f"No document is as similar as {threshold}."
    for each in found:
        document = each.document
        alike = "the same text" if each.is_exact else f"similarity {each.similarity:.3f}, missing {each.missing:.1%}"
        yield f"{document.id.hex()}  {alike}; {document.source}, {document.locator}"
        yield f"  {document.title or cut_excerpt(document.text)}"
