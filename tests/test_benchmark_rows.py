"""The benchmark of rows on a tiny text: both ways are compared, and a difference ends it; nothing is timed."""

from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import measuring, rows
from shards.rows import read_rows

TEXTS = [f"The keeper of light {number} has seen {number * 7} boats, “all of them” in winter." for number in range(40)]
OURS = ["write_rows", "  of it, its encoder", "  each half by itself", "  the halves in two threads"]


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is repeated for the clock's sake, and one length tells as much as two."""
    monkeypatch.setattr(measuring, "LEAST_SECONDS", 1e-9)
    monkeypatch.setattr(rows, "LENGTHS", (32,))


@pytest.fixture
def no_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if datasets were not installed."""

    def absent(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(rows, "find_spec", absent)


@pytest.mark.usefixtures("no_datasets")
def test_without_datasets_rows_are_held_to_their_definition() -> None:
    reports = rows.benchmark(TEXTS, 1)
    assert len(reports) == 2
    for report in reports:
        assert [row.name for row in report.rows] == OURS
        assert min(report.amounts.values()) > 0
        assert any("equal" in note and "not installed" in note for note in report.notes)


@pytest.mark.usefixtures("no_datasets")
def test_a_difference_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(path: Path) -> Any:
        return read_rows(path) + np.uint16(1)

    monkeypatch.setattr(rows, "read_rows", spoilt)
    with pytest.raises(AssertionError, match="differ"):
        rows.benchmark(TEXTS, 1)


def test_the_halves_are_all_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Sequence[Any]] = []

    def kept(texts: Sequence[str], work: rows.Work, rounds: int) -> Any:
        found.append([rows.write_halves(work, threads) for threads in (1, 2)])

    monkeypatch.setattr(rows, "compare", kept)
    rows.benchmark(TEXTS, 1)
    for one, two in found:
        assert one == two and [half.num_documents for half in one] == [20, 20]


@pytest.mark.skipif(find_spec("datasets") is None, reason="datasets is not installed")
def test_the_other_way_is_measured_where_it_is_installed() -> None:
    for report in rows.benchmark(TEXTS, 1):
        assert report.rows[-1].name == rows.OTHER_WAY
        assert any("equal those of the other way" in note for note in report.notes)
