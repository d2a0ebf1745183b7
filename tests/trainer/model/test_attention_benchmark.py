"""The benchmark of attention on few tokens: it holds the sides to one another, and measures each."""

import pytest

from benchmarks import attention, measuring


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call repeated, and no memory searched, for the clock's sake."""
    monkeypatch.setattr(measuring, "LEAST_SECONDS", 1e-9)
    monkeypatch.setattr(measuring.gc, "collect", lambda: 0)
    for name, value in {"TOKENS": 60, "NUMBERS": (1, 4), "HEADS": 1, "SIZE": 4, "WINDOW": 6}.items():
        monkeypatch.setattr(attention, name, value)


def test_every_side_is_measured() -> None:
    reports = attention.benchmark([], 2)
    assert [report.amounts for report in reports] == [{"tokens": 60}, {"tokens": 60}]
    for report in reports:
        assert len(report.rows) == 5 and report.rows[0].name == "window of 6"
        assert all(len(row.seconds) == 2 and min(row.seconds) > 0 for row in report.rows)


def test_another_output_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = attention.masked
    monkeypatch.setattr(attention, "masked", lambda qkv, number, seen: masked(qkv, number, seen.roll(1, 1)))
    with pytest.raises(AssertionError, match="not close"):
        attention.benchmark([], 1)
