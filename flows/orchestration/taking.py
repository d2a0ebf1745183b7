"""What a server of this home does with the journal: it takes the runs that were done without it into its database.

An entry is there whole, once, under the ids that it tells, or not at all, however the server ends in the middle, and
whichever of two servers comes first. Then its file goes. One that is damaged, or that the database does not take, is
put aside under another name, and told of once, in the server's log.

A request to the orchestrator reads before it writes, in one transaction. SQLite does not let such a one wait: it fails
at once, with 503, where another process or thread writes at that moment, or has written since it read. So what is taken
is put together before the transaction begins, a table at a time and for many entries at once, and after each
transaction there is several times as long in which nothing is taken.

Cost: a look at a folder every two seconds; some milliseconds an entry.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from prefect.server import models as server_models
from prefect.server import schemas
from prefect.server.database import PrefectDBInterface, provide_database_interface
from prefect.server.schemas.states import StateDetails, StateType
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from corpora.store.damage import Damaged
from corpora.store.locks import held
from flows.orchestration.journal import Page, RunEntry, TaskEntry, flow_called, journal_of, kept

Row = dict[str, Any]

models: Any = server_models  # whose functions get the database injected, which mypy cannot follow
LOOK_SECONDS = 2.0
AT_ONCE = 25  # entries in one transaction
PAUSE_SECONDS = 0.5  # between two of them, at least
PAUSES = 5  # a pause is so many times as long as what was before it
TICK = timedelta(microseconds=1)  # the database has one state of a run at a moment
TASK = "reuse_stage"
INFO = 20
TABLES = (
    "FlowRunState",
    "TaskRun",
    "TaskRunState",
    "Artifact",
    "Log",
)  # of what a run has; each after what it points to


async def take_until(prefect_home: Path, is_over: Callable[[], bool]) -> None:
    """Take what is in the journal and what comes into it, until it is over."""
    while not is_over():
        if kept(prefect_home):
            await take(prefect_home, is_over)
        await asyncio.sleep(LOOK_SECONDS)


async def take(prefect_home: Path, is_over: Callable[[], bool] = lambda: False) -> None:
    """Take what is in the journal, the oldest first."""
    db = provide_database_interface()
    with held(journal_of(prefect_home) / "taking.lock"):
        paths = kept(prefect_home)
        for first in range(0, len(paths), AT_ONCE):
            if is_over():
                break
            begun = time.monotonic()
            try:
                await _take_files(db, paths[first : first + AT_ONCE])
            except OperationalError as error:
                say(f"The journal is taken later: {error}")  # another process has the database for long
                break
            await asyncio.sleep(max(PAUSE_SECONDS, PAUSES * (time.monotonic() - begun)))
    await (await db.engine()).dispose()  # its threads would keep the process


async def _take_files(db: PrefectDBInterface, paths: Sequence[Path]) -> None:
    """Take some entries; where the database refuses them, each by itself."""
    found = {path: rows for path in paths if (rows := _read(path)) is not None}
    try:
        await _put(db, list(found.values()))
    except OperationalError:
        raise
    except SQLAlchemyError as error:
        if len(paths) == 1:
            _put_aside(paths[0], error)
            return
        for path in found:
            await _take_files(db, [path])
        return
    for path in found:
        path.unlink(missing_ok=True)


def _read(path: Path) -> "RunRows | None":
    """What an entry comes to; None for one that is damaged, which is put aside, or gone."""
    try:
        return RunRows.of(RunEntry.from_bytes(path.read_bytes(), str(path)))
    except FileNotFoundError:
        return None
    except (Damaged, OSError, TypeError, ValueError) as error:
        _put_aside(path, error)
        return None


def _put_aside(path: Path, why: Exception) -> None:
    say(f"{path} cannot be taken, and is put aside: {why}")
    path.rename(path.with_suffix(".aside"))


def say(line: str) -> None:
    """A line for the server's log."""
    print(line, file=sys.stderr, flush=True)


async def _put(db: PrefectDBInterface, found: Sequence["RunRows"]) -> None:
    """Put runs on record that are not there yet, in one transaction. Raises SQLAlchemyError."""
    flows = {name: await _flow_id(db, name) for name in dict.fromkeys(rows.flow for rows in found)}
    async with db.session_context(begin_transaction=True, with_for_update=True) as session:
        connection = await session.connection()
        ids = sa.select(db.FlowRun.id).where(db.FlowRun.id.in_([rows.run["id"] for rows in found]))
        known = set((await connection.execute(ids)).scalars())
        if not (new := [rows for rows in found if rows.run["id"] not in known]):
            return
        await connection.execute(_insert(db, "FlowRun"), [{**rows.run, "flow_id": flows[rows.flow]} for rows in new])
        for table in TABLES:
            if rows := [row for each in new for row in each.tables[table]]:
                await connection.execute(_insert(db, table), rows)
        await connection.execute(_ended(db), [{"run": rows.run["id"], "state": rows.state_id} for rows in new])
        if latest := [row for each in new for row in each.latest]:
            await connection.execute(_latest(db), latest)


def _insert(db: PrefectDBInterface, table: str) -> Any:
    return sa.insert(getattr(db, table).__table__)


async def _flow_id(db: PrefectDBInterface, name: str) -> UUID:
    """The flow of a recipe, made where it is missing."""
    async with db.session_context(begin_transaction=True, with_for_update=True) as session:
        flow = await models.flows.create_flow(session=session, flow=schemas.core.Flow(name=name))
        return UUID(str(flow.id))


def _ended(db: PrefectDBInterface) -> Any:
    """The statement that gives runs their last states, which point to the runs themselves."""
    runs: Any = db.FlowRun.__table__
    return sa.update(runs).where(runs.c.id == sa.bindparam("run")).values(state_id=sa.bindparam("state"))


def _latest(db: PrefectDBInterface) -> Any:
    """The statement that makes pages the latest of their keys."""
    collection: Any = db.ArtifactCollection.__table__
    put = db.queries.insert(collection)
    fields = ("latest_id", "type", "data", "description", "flow_run_id", "task_run_id")
    newer = {field: put.excluded[field] for field in fields}
    return put.on_conflict_do_update(index_elements=["key"], set_=newer)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows:
    """What the database is given of an entry.

    flow:     the name of its flow
    run:      its row, without its flow and its last state, which come later
    state_id: of its last state
    tables:   rows of `TABLES`
    latest:   its pages, each as the latest of its key
    """

    flow: str
    run: Row
    state_id: UUID
    tables: Mapping[str, list[Row]]
    latest: list[Row]

    @staticmethod
    def of(entry: RunEntry) -> "RunRows":
        """A run with its times, tasks, pages and log, as if it had been told while it went on. Raises ValueError."""
        run_id = UUID(entry.id)
        states = _states(entry, "Completed", {"flow_run_id": run_id})
        mine = {"id": run_id, "name": entry.name, "parameters": entry.parameters, "tags": list(entry.tags)}
        tables: dict[str, list[Row]] = {table: [] for table in TABLES}
        tables["FlowRunState"] += states
        for number, task in enumerate(entry.tasks):
            _add_task(tables, run_id, number, task)
        tables["Artifact"] += _pages(entry, run_id)
        tables["Log"] += [_log(run_id, when, said) for when, said in entry.lines]
        return RunRows(
            flow=flow_called(entry.parameters.get("recipe_name", "cloze")),
            run={**mine, **_ran(states)},
            state_id=states[-1]["id"],
            tables=tables,
            latest=[{**page, "id": uuid4(), "latest_id": page["id"]} for page in tables["Artifact"]],
        )


def _log(run_id: UUID, when: str, said: str) -> Row:
    return {
        "name": "prefect.flow_runs",
        "level": INFO,
        "message": said,
        "timestamp": _time(when),
        "flow_run_id": run_id,
    }


def _add_task(tables: Mapping[str, list[Row]], run_id: UUID, number: int, entry: TaskEntry) -> None:
    task_id = UUID(entry.id)
    states = _states(entry, entry.state, {"task_run_id": task_id}, {"flow_run_id": run_id})
    mine = {"flow_run_id": run_id, "task_key": TASK, "dynamic_key": f"{TASK}-{number}", "flow_run_run_count": 1}
    ended = {"id": task_id, "name": entry.name, "state_id": states[-1]["id"], **mine, **_ran(states)}
    tables["TaskRun"].append(ended)
    tables["TaskRunState"] += states


def _pages(entry: RunEntry, run_id: UUID) -> Iterator[Row]:
    for page in entry.pages:
        yield _page(page, run_id, None)
    for task in entry.tasks:
        for page in task.pages:
            yield _page(page, run_id, UUID(task.id))


def _page(page: Page, run_id: UUID, task_id: UUID | None) -> Row:
    return {
        "id": UUID(page.id),
        "key": page.key,
        "type": page.kind,
        "data": page.data,
        "description": page.description,
        "flow_run_id": run_id,
        "task_run_id": task_id,
    }


def _states(entry: RunEntry | TaskEntry, name: str, of: Row, within: Row | None = None) -> list[Row]:
    """The states that something went through, one after the other whatever a clock said of it."""
    details = StateDetails(**of, **(within or {}))
    began = _time(entry.began)
    ended = max(_time(entry.ended), began + TICK)
    running = {"type": StateType.RUNNING, "name": "Running", "message": None, "timestamp": began}
    completed = {"type": StateType.COMPLETED, "name": name, "message": entry.message, "timestamp": ended}
    return [{"id": uuid4(), "state_details": details, **of, **state} for state in (running, completed)]


def _ran(states: Sequence[Row]) -> Row:
    """What is on record of something that began and ended."""
    began, ended = states[0], states[-1]
    return {
        "expected_start_time": began["timestamp"],
        "start_time": began["timestamp"],
        "end_time": ended["timestamp"],
        "total_run_time": ended["timestamp"] - began["timestamp"],
        "run_count": 1,
        "state_type": ended["type"],
        "state_name": ended["name"],
        "state_timestamp": ended["timestamp"],
    }


def _time(text: str) -> Any:
    return datetime.fromisoformat(text)
