"""When a recipe runs on its schedule, and what is said of it."""

from pathlib import Path

import pytest
from small_recipe import World

from corpora.errors import InputError
from flows.orchestration.timetables import local_zone, served, timetable, when


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
        with pytest.raises(InputError, match="from 1 up"):
            timetable(None, every)


def test_a_time_zone_is_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where three at night is three somewhere else, or a zone that nobody knows stops the command."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert local_zone() == "Europe/Berlin"
    monkeypatch.setenv("TZ", "CET-1CEST")
    assert local_zone() == "UTC"


def test_a_recipe_is_served_by_its_file(world: World, tmp_path: Path) -> None:
    """Fails where a run of the schedule would read another recipe, or the store of the day it began."""
    what = served(world.recipe(documents__max_damaged_share="0.5"), None, 2, timetable(None, 60))
    assert (what.path, what.store, what.workers) == (world.recipe_path, None, 2)
    assert what.overrides == {"documents.max_damaged_share": "0.5"}
    named = served(world.recipe(), "elsewhere", None, timetable(None, 60))
    assert named.store == world.recipe().store
    with pytest.raises(InputError, match="--workers 0 must be"):
        served(world.recipe(), None, 0, timetable(None, 60))
    with pytest.raises(InputError, match="cannot have any of %&<> in its name"):
        served(world.recipe(name="50%"), None, None, timetable(None, 60))
