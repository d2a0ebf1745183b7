"""The orchestrator's history keeps its size; what is due and what waits for a person is told in the store."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect.settings import Settings

from corpora.store.places.place import Place
from flows.command.runs import iter_status_lines
from flows.orchestration.approval import describe_waiting_release
from flows.orchestration.embedded_server import USER_DATABASE_SETTINGS, keep_history
from flows.orchestration.scheduled_run import find_next_due, show_in_status
from flows.run.record.run_status import get_schedule_path, get_waiting_path, read_store_status


def test_the_server_deletes_what_is_older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if Prefect does not understand what it is told, or where what the user has set is overruled."""
    monkeypatch.delenv(USER_DATABASE_SETTINGS[0], raising=False)
    names = ("DB_VACUUM_ENABLED", "DB_VACUUM_RETENTION_PERIOD", "DB_VACUUM_ORPHAN_CLEANUP_LOOP_SECONDS")
    for name in names:
        monkeypatch.setenv(f"PREFECT_SERVER_SERVICES_{name}", "")  # to be as it was after this test
        monkeypatch.delenv(f"PREFECT_SERVER_SERVICES_{name}")
    monkeypatch.setenv("PREFECT_SERVER_EVENTS_RETENTION_PERIOD", "PT2H")
    keep_history(30.0)
    server = Settings().server
    assert server.services.db_vacuum.enabled_vacuum_types == {"events", "flow_runs", "orphans"}
    assert server.services.db_vacuum.retention_period == timedelta(days=30)
    assert server.events.retention_period == timedelta(hours=2)
    monkeypatch.delenv(f"PREFECT_SERVER_SERVICES_{names[1]}")
    monkeypatch.setenv(USER_DATABASE_SETTINGS[0], "postgresql+asyncpg://somewhere/prefect")
    keep_history(30.0)
    assert f"PREFECT_SERVER_SERVICES_{names[1]}" not in os.environ, "a database of the user is theirs"


def test_what_is_due_is_told_in_the_store(tmp_path: Path) -> None:
    """Fails if `cloze status` does not know of a schedule, or still does when it is over."""
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    times = [later - timedelta(hours=2), later]
    api: Any = SimpleNamespace(
        read_flow_runs=lambda **_: [SimpleNamespace(next_scheduled_start_time=moment) for moment in times]
    )
    due, waiting = find_next_due(api, uuid4())
    assert (due, waiting) == (later, 1)
    facts = {"recipe": "small", "when": "every 60 s", "next": later.isoformat(), "waiting": waiting}
    place, said = Place(str(tmp_path)), list[str]()
    with show_in_status(place, get_schedule_path("small"), lambda: facts, "schedule", said.append):
        line = list(iter_status_lines(read_store_status(place)))[-1]
    shown = f"{later.astimezone():%Y-%m-%d %H:%M:%S}"
    assert line == f"small: on its schedule, every 60 s; next {shown}, 1 run waiting for the turn"
    assert read_store_status(place).schedules == () and said == []
    (tmp_path / "schedules").write_bytes(b"no folder")
    with show_in_status(place, get_schedule_path("small"), lambda: facts, "schedule", said.append):
        assert said[-1].startswith("`cloze status` will not show this schedule: ")


def test_a_release_that_waits_is_in_the_status(tmp_path: Path) -> None:
    """Fails if nobody is told which release waits and where to answer, or is told of one that is answered."""
    place, said = Place(str(tmp_path / "store")), list[str]()
    record = SimpleNamespace(recipe="news", run_id="20260102T0304-news")
    promotion: Any = SimpleNamespace(place=place, name="prod", record=record)
    waiting = describe_waiting_release(promotion, "http://127.0.0.1:4200/runs/1")
    with show_in_status(place, get_waiting_path("prod"), lambda: waiting, "release", said.append):
        line = list(iter_status_lines(read_store_status(place)))[-1]
    assert line.startswith("news: the release prod of the run 20260102T0304-news waits for approval since 20")
    assert line.endswith(": http://127.0.0.1:4200/runs/1")
    assert read_store_status(place).waiting == () and said == []
