"""Compares what `cloze plan` estimated for a run with the outcome: rows for a table."""

from typing import Any

from flows.report.run import RunView
from flows.run.estimates.kept import compare_with_facts, estimates_of
from flows.run.record.counts_text import readable_seconds
from flows.run.record.ledger_balance import readable_bytes

NAMED = {
    "documents": "documents",
    "tokens": "tokens",
    "disk_bytes": "disk",
    "seconds": "time by the clock",
    "cpu_seconds": "processor time",
    "memory_bytes": "memory",
}


def estimate_rows(run: RunView) -> list[dict[str, Any]]:
    """Return a row for each figure estimated for a stage that the run built; none where it kept no estimates."""
    estimates = estimates_of(run.place, run.record.run_id)
    if estimates is None:
        return []
    return [
        {
            "stage": pair.stage,
            "measure": NAMED[pair.measure],
            "estimated": _said(pair.measure, pair.estimated),
            "came": _said(pair.measure, pair.came),
            "error": f"{100 * pair.error:+.0f}%" if pair.came or not pair.estimated else "nothing came",
        }
        for pair in compare_with_facts(run.place, run.record, estimates)
    ]


def _said(measure: str, value: float) -> str:
    if measure.endswith("_bytes"):
        return readable_bytes(round(value))
    return readable_seconds(value) if measure.endswith("seconds") else f"{round(value):,}"
