"""Figures as ranges: the results of each call of a benchmark, kept on record, and the tables made of all calls.

    python -m benchmarks.encode --text books --megabytes 32 --record     one more line in benchmarks/figures.jsonl
    python -m benchmarks.figures                                         writes the tables of docs/performance.md again

One call shows what a machine did on one day: with the same command ratios came out a third apart on another processor
or next to other work. So a figure is the range over all calls on record, from the lowest to the highest, next to the
days and the share of the machine that others used meanwhile. To quote one number, take the lower end.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import read_calls

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- tables of `python -m benchmarks.figures` -->", "<!-- end of the tables -->"

Key = tuple[str, str, str, float]  # benchmark, what it compared, text, MB asked for


def tables(calls: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the tables, in the order in which comparisons came on record.

    A table has the comparisons of one benchmark that were made of the same text by the same calls.
    """
    above = ""
    for key in dict.fromkeys(key for call in calls for key in keys(call)):
        benchmark, what, text, megabytes = key
        compared = [call for call in calls if key in keys(call)]
        days, unit = "; ".join(dict.fromkeys(_told(call) for call in compared)), compared[0]["reports"][0]["unit"]
        header = f"| `{benchmark}`: {text}, {megabytes:g} MB; {days} | side | {unit}/CPU s | times the first's |"
        if header != above:
            yield from ("", header, "|---|---|---|---|")
        above = header
        yield from _rows(what, compared)


def keys(call: Mapping[str, Any]) -> list[Key]:
    """Return what a call measured; calls that share a key can be compared."""
    return [(call["benchmark"], report["what"], call["text"], call["megabytes"]) for report in call["reports"]]


def _rows(what: str, calls: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the sides of one comparison, each with its ranges; our own definition is there to be equal to, not fast."""
    rows = [row for call in calls for report in call["reports"] if report["what"] == what for row in report["rows"]]
    names = dict.fromkeys(row["name"] for row in rows if not row["name"].startswith("definition"))
    for number, name in enumerate(names):
        speeds = extent(row["speed"] for row in rows if row["name"] == name and row.get("speed") is not None)
        times = extent(row["times"] for row in rows if row["name"] == name and row.get("times") is not None)
        yield " ".join(f"| {cell}".rstrip() for cell in ("" if number else what, name, speeds, times)) + " |"


def _told(call: Mapping[str, Any]) -> str:
    """Return when a call was, and what else ran."""
    beside = call.get("noted") or f"others {call['others']:.0%}"
    return f"{call['date']} ({beside})"


def extent(values: Iterable[float]) -> str:
    """Return the range of some numbers.

    >>> extent([102, 61.04, 87]), extent([5]), extent([])
    ('61.04 to 102', '5', '')
    """
    ordered = sorted(values)
    if not ordered:
        return ""
    low, high = f"{ordered[0]:g}", f"{ordered[-1]:g}"
    return low if low == high else f"{low} to {high}"


def page_with(page: str, lines: Iterable[str], begin: str = BEGIN, end: str = END) -> str:
    """Return a page that has these lines between two marks."""
    before, rest = page.split(begin)
    return "\n".join([f"{before}{begin}", *lines, "", f"{end}{rest.split(end)[1]}"])


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), tables(read_calls())), encoding="utf-8")
