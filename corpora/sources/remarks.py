"""What a source remarks about its records that drops none, such as a template that it does not know.

Promise: of each kind the `MOST_KEPT` remarks made most often are figures of a ledger, each with its first example; sums
of parts are at most too low, by remarks that are rarer than so many others in some of them.
"""

from collections.abc import Mapping
from typing import NamedTuple

MOST_KEPT = 50
UNKNOWN_TEMPLATE = "unknown template: "
_BEFORE_EXAMPLE = " | "  # no name of a template has a bar


class Remark(NamedTuple):
    """What was remarked, how often, and the first example."""

    name: str
    number: int
    example: str


class Remarks:
    """Counts remarks of one kind. kind: what their figures begin with."""

    def __init__(self, kind: str = UNKNOWN_TEMPLATE) -> None:
        self.kind = kind
        self._remarks: dict[str, Remark] = {}

    def add(self, name: str, example: str, count: int = 1) -> None:
        """Count a remark."""
        before = self._remarks.get(name, Remark(name, 0, example))
        self._remarks[name] = before._replace(number=before.number + count)

    def most_frequent(self) -> list[Remark]:
        """Return those made most often, by their number and then by name."""
        return sorted(self._remarks.values(), key=lambda remark: (-remark.number, remark.name))[:MOST_KEPT]

    def figures(self) -> dict[str, int]:
        """Return them as figures of a ledger."""
        return {f"{self.kind}{name}{_BEFORE_EXAMPLE}{example}": n for name, n, example in self.most_frequent()}


def figures_without_remarks(figures: Mapping[str, int]) -> dict[str, int]:
    """Return a ledger's figures without those whose names have examples in them: these may hold text of documents."""
    return {name: count for name, count in figures.items() if not name.startswith(UNKNOWN_TEMPLATE)}


def frequent_remarks(figures: Mapping[str, int], kind: str = UNKNOWN_TEMPLATE) -> list[Remark]:
    """Return the remarks of a kind that a ledger's figures tell of.

    >>> frequent_remarks({"unknown template: a | {{a}}": 2, "unknown template: a | {{a|b}}": 3, "text bytes": 9})
    [Remark(name='a', number=5, example='{{a}}')]
    """
    remarks = Remarks(kind)
    for figure, count in figures.items():
        if figure.startswith(kind):
            name, _, example = figure.removeprefix(kind).partition(_BEFORE_EXAMPLE)
            remarks.add(name, example, count)
    return remarks.most_frequent()
