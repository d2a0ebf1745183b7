"""The orchestrator's history keeps its size, by days and in the file that it is in; and what is due is told."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect.settings import Settings

from corpora.store.places.place import Place
from flows.command.operations.display import status_lines
from flows.orchestration.schedules import housekeeping as tending
from flows.orchestration.schedules.housekeeping import Tending, said_in_store
from flows.orchestration.server import database as databases
from flows.orchestration.server.database import OF_THE_USER, shrink_database
from flows.orchestration.server.history import keep_history
from flows.run.record.listed_runs import schedule_path, store_status


def test_the_server_deletes_what_is_older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where Prefect does not understand what it is told, or where what the user has set is overruled."""
    for name in (*OF_THE_USER, *tending_settings(30.0)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_SERVER_EVENTS_RETENTION_PERIOD", "PT2H")
    keep_history(30.0)
    server = Settings().server
    assert server.services.db_vacuum.enabled_vacuum_types == {"events", "flow_runs", "orphans"}
    assert server.services.db_vacuum.retention_period == timedelta(days=30)
    assert server.events.retention_period == timedelta(hours=2)


def test_a_database_of_the_user_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OF_THE_USER[0], "postgresql+asyncpg://somewhere/prefect")
    assert tending_settings(30.0) == {}


def tending_settings(days: float) -> dict[str, str]:
    """The settings of a server that keeps so many days."""
    from flows.orchestration.server.history import history_settings

    return history_settings(days)


@dataclass
class Runs:
    """An API with runs that are scheduled."""

    due: list[datetime] = field(default_factory=list)

    def read_flow_runs(self, **_: Any) -> list[Any]:
        return [SimpleNamespace(next_scheduled_start_time=moment) for moment in self.due]


def test_what_is_due_is_told_in_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where `cloze status` does not know of a schedule, or still does when it is over; or nobody is told when."""
    now = datetime.now(UTC)
    later = now.replace(microsecond=0) + timedelta(hours=1)
    runs, place, said = Runs(), Place(str(tmp_path)), list[str]()
    monkeypatch.setattr(tending, "SCHEDULED_SECONDS", -1.0)
    api: Any = runs
    tend = Tending(api, uuid4(), "small", "every 60 s", said.append)
    tend.look()
    assert said == ["The server has scheduled no run for -1 s: look into its log."]
    runs.due = [now - timedelta(seconds=5), later]
    for _ in range(2):
        tend.look()
    due = f"{later.astimezone():%Y-%m-%d %H:%M:%S}"
    assert len(said) == 2 and said[1].startswith(f"Next run: {due}")
    with said_in_store(place, schedule_path("small"), lambda: tend.due, "schedule", said.append):
        line = list(status_lines(store_status(place)))[-1]
    assert line == f"small: on its schedule, every 60 s; next {due}, 1 run waiting for the turn"
    assert store_status(place).schedules == ()
    (tmp_path / "schedules").write_bytes(b"no folder")
    with said_in_store(place, schedule_path("small"), lambda: tend.due, "schedule", said.append):
        assert said[-1].startswith("`cloze status` will not show this schedule: ")


def test_a_database_that_is_mostly_free_becomes_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where the file stays as large as it ever was, or is written anew for little, or anything is lost."""
    monkeypatch.setattr(databases, "SHRINK_BYTES", 1_000_000)
    for name in OF_THE_USER:
        monkeypatch.delenv(name, raising=False)
    path, told = tmp_path / "prefect.db", list[str]()
    shrink_database(tmp_path, told.append)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode = WAL")  # as the server has it
        database.execute("CREATE TABLE history (text)")
        database.executemany("INSERT INTO history VALUES (?)", [("x" * 10_000,)] * 300)
    shrink_database(tmp_path, told.append)
    assert told == [] and path.stat().st_size > 3_000_000
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM history WHERE rowid > 10")
    with closing(sqlite3.connect(path)) as held:  # as by a server that has nothing to do
        held.execute("SELECT count(*) FROM history").fetchone()
        size = path.stat().st_size
        shrink_database(tmp_path, told.append)
        assert told == [] and path.stat().st_size == size
    shrink_database(tmp_path, told.append)
    assert len(told) == 1 and path.stat().st_size < 200_000
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute("SELECT count(*) FROM history").fetchone() == (10,)
