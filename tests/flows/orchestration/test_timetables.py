"""When a recipe runs on its schedule, and what is said of it."""

import pytest

from corpora.errors import InputError
from flows.orchestration.scheduled_run import build_schedule, describe_schedule, find_time_zone


def test_a_timetable_is_one_of_two() -> None:
    """Fails if a schedule that means nothing is taken, or the message does not say what to write."""
    assert describe_schedule(build_schedule(None, 60)) == "every 60 s"
    assert describe_schedule(build_schedule("0 3 * * *", None)) == f"0 3 * * * ({find_time_zone()})"
    for cron, every in ((None, None), ("0 3 * * *", 60)):
        with pytest.raises(InputError, match=r'--cron "0 3 \* \* \*", or --every SECONDS'):
            build_schedule(cron, every)
    for cron in ("61 3 * * *", "0 3 * *", "never", ""):
        with pytest.raises(InputError, match=r"is not a cron expression: write minute, hour"):
            build_schedule(cron, None)
    for every in (0, -5):
        with pytest.raises(InputError, match="from 1 to"):
            build_schedule(None, every)


def test_a_time_zone_is_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if three at night is three somewhere else, or a zone that nobody knows stops the command."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert find_time_zone() == "Europe/Berlin"
    monkeypatch.setenv("TZ", "CET-1CEST")
    assert find_time_zone() == "UTC"
