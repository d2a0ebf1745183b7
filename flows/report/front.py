"""The head of the page: what came in, what was lost, whether anything is wrong, and a comparison with the run before.

Promise: about two screens of a desktop, whatever the run: of long tables the first rows, and a link to all of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.recipes.settings.privacy import visible
from flows.report.compared import Compared, by_source, change_text, figure_text
from flows.report.run import RunView
from flows.run.record.figures import COUNT, MEAN, Change, compare, figures_before

FIRST_LOSSES, FIRST_SOURCES = 10, 8
NAME_CHARACTERS = 80
NEW = "new"

View = dict[str, Any]  # what the template reads, by name


def compared_with(run: RunView) -> tuple[Compared | None, str]:
    """Return a run next to the completed one before it; else why there is nothing to compare with."""
    if run.record.state != "completed":
        return None, "A run that did not come to its end is not compared."
    if run.figures is None:
        return None, "The artifacts of this run are not all in the store any more."
    heard: list[str] = []
    before = figures_before(run.place, run.record, heard.append)
    if before is None:
        said_why = " ".join(visible(line, 300) for line in heard)
        return None, said_why or "There is no older run of this recipe in this store that came to its end."
    return Compared.of(*before, run.figures), ""


def loss_rows(losses: Sequence[tuple[str, int]], compared: Compared | None) -> list[View]:
    """Return reasons with their counts, each bar's length as a share of the longest in percent, and the change."""
    most = max((count for _, count in losses), default=1)
    rows = []
    for name, count in losses:
        change = compared.named.get(name) if compared is not None else None
        moves = {"change": change_text(change) if change else "-", "moved": change is not None and bool(change.change)}
        rows.append({"name": name, "count": count, "bar": round(100 * count / most, 2), **moves})
    return rows


def source_table(run: RunView, compared: Compared | None) -> list[View]:
    """Return a row for each source, the one with the most documents first, with its outcome and the change.

    A source of the run before that is gone has a row as well.
    """
    if run.figures is None:
        return []
    changes = compared.changes if compared is not None else compare({}, run.figures)
    rows = by_source(changes, ("raw files", "raw records", "documents", "tokens", "mean tokens a document"))
    ordered = sorted(rows.items(), key=lambda row: -_now(row[1], "documents"))
    return [_source_row(name, changes_of_source) for name, changes_of_source in ordered]


def _now(changes: Mapping[str, Change], what: str) -> float:
    return (changes[what].after or 0) if what in changes else 0


def _source_row(name: str, changes: Mapping[str, Change]) -> View:
    records, documents = _now(changes, "raw records"), _now(changes, "documents")
    tokens, length = changes.get("tokens"), changes.get("mean tokens a document")
    return {
        "name": visible(name, NAME_CHARACTERS),
        "files": figure_text(_now(changes, "raw files"), COUNT, "files"),
        "records": figure_text(records, COUNT, "records"),
        "dropped": figure_text(records - documents, COUNT, "records"),
        "documents": figure_text(documents, COUNT, "documents"),
        "documents_change": change_text(changes["documents"]) if "documents" in changes else NEW,
        "tokens": figure_text(tokens.after if tokens else None, COUNT, "tokens"),
        "tokens_change": change_text(tokens) if tokens else "-",
        "length": figure_text(length.after if length else None, MEAN, ""),
    }
