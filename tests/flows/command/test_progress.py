"""A run and a fetch show their progress."""

from io import StringIO

import pytest
from rich.console import Console

from flows.command.progress import FetchProgress, RunProgress


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, lines = StringIO(), StringIO()
    with FetchProgress(Console(file=shown, force_terminal=True, width=120)) as progress:
        progress.advance("a", 5, 10)
        progress.advance("b", 20, 20)
        progress.advance("a", 10, 10)
    assert "2 of 2 files so far" in shown.getvalue() and "30/30 bytes" in shown.getvalue()
    with FetchProgress(Console(file=lines, width=120)) as progress:
        progress.advance("a", 5_000_000, None)
        assert lines.getvalue() == ""
        monkeypatch.setattr("flows.command.progress.LINE_SECONDS", -1.0)
        progress.advance("a", 6_000_000, None)
    assert lines.getvalue() == "fetching: 0 of 1 files so far, 6.0 MB\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_parts_and_steps_are_called_what_they_are(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    """Fails if the steps of a training are shown as parts."""
    monkeypatch.setattr("flows.command.progress.LINE_SECONDS", -1.0)
    shown = StringIO()
    with RunProgress(Console(file=shown, force_terminal=terminal, width=120)) as progress:
        progress.advance("models/small steps", 3, 9)
        assert "parts" not in shown.getvalue()
        progress.advance("tokens/small", 1, 4)
    words = " ".join(shown.getvalue().split())
    assert terminal or words == "models/small 3/9 steps tokens/small 1/4 parts"
