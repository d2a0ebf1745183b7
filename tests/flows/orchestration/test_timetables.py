"""When a recipe runs on its schedule, and what is said of it."""

import pytest

from corpora.errors import InputError
from flows.orchestration.scheduled_run import local_zone, timetable, when


def test_a_timetable_is_one_of_two() -> None:
    """Fails where a schedule that means nothing is taken, or the message does not say what to write."""
    assert when(timetable(None, 60)) == "every 60 s"
    assert when(timetable("0 3 * * *", None)) == f"0 3 * * * ({local_zone()})"
    for cron, every in ((None, None), ("0 3 * * *", 60)):
        with pytest.raises(InputError, match=r'--cron "0 3 \* \* \*", or --every SECONDS'):
            timetable(cron, every)
    for cron in ("61 3 * * *", "0 3 * *", "never", ""):
        with pytest.raises(InputError, match=r"is not a cron expression: write minute, hour"):
            timetable(cron, None)
    for every in (0, -5):
        with pytest.raises(InputError, match="from 1 to"):
            timetable(None, every)


def test_a_time_zone_is_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where three at night is three somewhere else, or a zone that nobody knows stops the command."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert local_zone() == "Europe/Berlin"
    monkeypatch.setenv("TZ", "CET-1CEST")
    assert local_zone() == "UTC"
