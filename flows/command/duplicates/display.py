"""What `cloze dedup` says when it is done."""

from collections.abc import Iterator

from flows.dedup.run import Outcome
from flows.run.record.counts_text import counted
from flows.run.record.ledger_balance import readable_bytes


def summary(outcome: Outcome, output: str) -> Iterator[str]:
    """The lines for people."""
    read = f"{counted(outcome.rows, 'row')} of {counted(outcome.files, 'file')}, {readable_bytes(outcome.text_bytes)}"
    removed = ", ".join(f"{number:,} {reason}" for reason, number in outcome.removed.items())
    yield f"{read}: {outcome.kept:,} kept, {outcome.rows - outcome.kept:,} removed{f' ({removed})' if removed else ''}"
    if outcome.without_text:
        yield f"{counted(outcome.without_text, 'row')} without text: kept, and compared with nothing"
    if outcome.missing is not None:
        median, most = (f"{100 * share:.1f}%" for share in outcome.missing)
        yield f"near-duplicates: their survivors lack {median} of their shingles (median), {most} (99 of 100 below)"
    if outcome.comparisons_cut_off:
        yield f"{counted(outcome.comparisons_cut_off, 'comparison')} cut off in crowded buckets"
    if outcome.recall is not None and outcome.recall.pairs:
        found, theory = (f"{100 * share:.1f}%" for share in (outcome.recall.found, outcome.recall.theory))
        yield f"recall on {counted(outcome.recall.pairs, 'planted pair')}: {found}; the curve promises {theory}"
    yield f"{output} has the rows that stay, and the removed ones next to them"
