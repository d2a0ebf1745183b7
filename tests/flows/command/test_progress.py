"""What a fetch shows while it goes on."""

from io import StringIO

import pytest
from rich.console import Console

from flows.command.progress import FetchProgress


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
        monkeypatch.setattr("flows.command.progress.QUIET_SECONDS", -1.0)
        progress.advance("a", 6_000_000, None)
    assert lines.getvalue() == "fetching: 0 of 1 files so far, 6.0 MB\n"
