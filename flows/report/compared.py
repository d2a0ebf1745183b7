"""Compares a run with the run before it, in words and numbers, for the page and for the terminal.

Promise: every number is one of `flows.run.record.figures`. A number that one of the runs lacks is a dash, never a zero.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flows.run.record.counts_text import format_count
from flows.run.record.figures import COUNT, SHARE, Change, Figures, compare_figures
from flows.run.record.ledger_balance import format_bytes
from flows.run.record.run_record import RunRecord

MIN_WHOLE = 100  # a mean from here on is shown in whole numbers

# Shown first, in this order; of several vocabularies the lengths and tokens a word of the first.
_HEADLINES = ("raw files", "raw records", "documents", "kept", "dropped share", "duplicate share", "text bytes")
_OF_ARTIFACTS = ("tokens", "examples", "held-out loss", "held-out accuracy")
_OF_FIRST = ("median tokens a document", "mean tokens a document", "tokens a word", "unknown token share")
_NAME = re.compile(r"(?P<what>[^:(]+?)(?: \((?P<of>.*?)\))?(?:: (?P<detail>.*))?", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """A comparison of the metrics (counts, shares and means) of two runs.

    Attributes:
        before: Record (stored description) of the earlier run.
        changes: All metrics that at least one of the runs has, each with the values of both runs.
    """

    before: RunRecord
    changes: Sequence[Change]

    @staticmethod
    def from_figures(before: RunRecord, figures_before: Figures, figures: Figures) -> "RunComparison":
        """Build a comparison from the metrics of two runs, given by name.

        Args:
            before: Record (stored description) of the earlier run.
            figures_before: Metrics of the earlier run.
            figures: Metrics of the later run.
        """
        return RunComparison(before=before, changes=compare_figures(figures_before, figures))

    @property
    def differences(self) -> list[Change]:
        """The changes of all metrics that differ between the runs."""
        return [change for change in self.changes if change.before != change.after]

    @property
    def summary(self) -> str:
        """A sentence that states how many metrics differ, such as "3 of 120 figures differ." """
        total = format_count(len(self.changes), "figure")
        return f"{len(self.differences):,} of {total} differ." if self.differences else f"all {total} are the same."

    @property
    def changes_by_name(self) -> Mapping[str, Change]:
        """The change of each metric by name, such as "dropped: parse: empty"."""
        return {change.name: change for change in self.changes}

    @property
    def headlines(self) -> list[Change]:
        """The changes of the most important metrics, in display order.

        These are the numbers of files, records, documents and tokens, the shares of dropped records and duplicates,
        document lengths, the first language, and the held-out loss and accuracy.
        """
        first: dict[str, Change] = {}
        for change in self.changes:
            what, of, detail = parse_figure_name(change.name)
            if detail:
                if (what, of) == ("language share", ""):
                    first.setdefault(what, change)
            elif what in _OF_ARTIFACTS or (what in _HEADLINES and not of):
                first[change.name] = change
            elif what in _OF_FIRST:
                first.setdefault(what, change)
        order = [*_HEADLINES, *_OF_ARTIFACTS[:2], *_OF_FIRST, "language share", *_OF_ARTIFACTS[2:]]
        return sorted(first.values(), key=lambda change: order.index(parse_figure_name(change.name)[0]))


def parse_figure_name(name: str) -> tuple[str, str, str]:
    """Split the name of a run's metric, `WHAT (OF): DETAIL`, into the three strings WHAT, OF and DETAIL.

    WHAT is the quantity, OF is the vocabulary, shard set or source that it belongs to, and DETAIL narrows it down, such
    as a language or a reason. Missing components are returned as "". The names of sources may contain any character.

    >>> parse_figure_name("tokens (bytes): notes"), parse_figure_name("dropped: rules: gopher.min_words")
    (('tokens', 'bytes', 'notes'), ('dropped', '', 'rules: gopher.min_words'))
    >>> parse_figure_name("dropped share (notes (2024))"), parse_figure_name("meets (")
    (('dropped share', 'notes (2024)', ''), ('meets (', '', ''))
    """
    match = _NAME.fullmatch(name)
    return (match["what"], match["of"] or "", match["detail"] or "") if match is not None else (name, "", "")


def group_by_source(changes: Iterable[Change], what: Collection[str]) -> dict[str, dict[str, Change]]:
    """Group the changes of a run's metrics (counts, shares and means) by source.

    Args:
        changes: Changes of metrics. Metrics that do not belong to a source are ignored.
        what: The quantities to include, such as "documents". If several vocabularies have a quantity with the same
            name, the first vocabulary is used.

    Returns:
        The changes by source, then by quantity.
    """
    rows: dict[str, dict[str, Change]] = {}
    for change in changes:
        name, _, source = parse_figure_name(change.name)
        if source and name in what:
            rows.setdefault(source, {}).setdefault(name, change)
    return rows


def format_figure(value: float | None, kind: str, unit: str) -> str:
    """Format the value of a metric (a count, share or mean). Returns "-" for None.

    Args:
        value: The value.
        kind: "count", "share" or "mean".
        unit: Unit of a count. Counts of "bytes" are written as a file size.

    >>> format_figure(1234, "count", "documents"), format_figure(0.0412, "share", ""), format_figure(1.2345, "mean", "")
    ('1,234', '4.1%', '1.234')
    """
    if value is None:
        return "-"
    if kind == COUNT:
        return format_bytes(int(value)) if unit == "bytes" else f"{value:,.0f}"
    if kind == SHARE:
        return f"{100 * value:.{_count_decimals(100 * value)}f}%"
    return f"{value:,.0f}" if abs(value) >= MIN_WHOLE else f"{value:,.3f}"


def format_change(change: Change) -> str:
    """Format the change of a metric (a count, share or mean) between two runs.

    Changes of shares are given in percentage points. "new", "gone" or "-" is returned if the earlier run, the later run
    or both lack the metric, and "same" if it did not change.

    >>> format_change(Change(name="a", unit="documents", kind="count", before=4, after=5))
    '+1 (+25%)'
    >>> format_change(Change(name="a", unit="records", kind="share", before=0.5, after=0.25))
    '-25.0 points'
    """
    if change.change is None:
        return "-" if change.before is None and change.after is None else "new" if change.before is None else "gone"
    if not change.change:
        return "same"
    if change.kind == SHARE:
        points = 100 * change.change
        return f"{points:+.{_count_decimals(points)}f} points"
    relative = f"{100 * change.relative:+,.{_count_decimals(100 * change.relative, 0)}f}%" if change.relative else ""
    if change.unit == "bytes":
        return relative or "new"
    size = f"{change.change:+,.0f}" if change.kind == COUNT else _format_step(change)
    return f"{size} ({relative})" if relative else size


def _format_step(change: Change) -> str:
    """Format the difference of a mean between two runs, with at most one decimal more than the mean itself.

    Args:
        change: The change of the mean, which both runs have.
    """
    assert change.change is not None and change.after is not None
    return f"{change.change:+,.1f}".removesuffix(".0") if abs(change.after) >= MIN_WHOLE else f"{change.change:+,.3f}"


def _count_decimals(number: float, fewest: int = 1) -> int:
    """Return the smallest number of decimals at which a nonzero number is not displayed as zero.

    The result is at least `fewest` and at most four, so that a very small number may still be shown as zero.
    """
    return next((digits for digits in range(fewest, 4) if not number or round(number, digits)), 4)
