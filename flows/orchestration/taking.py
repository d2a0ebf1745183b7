"""What a server of this home does with the journal: it takes the runs that were done without it into its database.

An entry is one transaction, under the ids that it tells: it is there whole, once, or not at all, however the server
ends in the middle, and whichever of two servers comes first. Then its file goes. One that is damaged, or that the
database does not take, is put aside under another name, and told of once, in the server's log.

Cost: a look at a folder every two seconds; some hundredths of a second an entry, with a pause after each in which
others write.
"""

import asyncio
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.server import models as server_models
from prefect.server import schemas
from prefect.server.database import PrefectDBInterface, provide_database_interface
from prefect.server.schemas.states import State, StateType
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from corpora.store.damage import Damaged
from corpora.store.locks import held
from flows.orchestration.journal import Page, RunEntry, TaskEntry, flow_called, journal_of, kept

models: Any = server_models  # whose functions get the database injected, which mypy cannot follow
LOOK_SECONDS = 2.0
PAUSE_SECONDS = 0.25  # from one entry to the next: who waits for the database looks every tenth of a second
TASK = "reuse_stage"
INFO = 20


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
        for path in kept(prefect_home):
            if is_over():
                break
            try:
                await _take_file(db, path)
                await asyncio.sleep(PAUSE_SECONDS)
            except OperationalError as error:
                say(f"The journal is taken later: {error}")  # another process has the database for long
                break
            except (Damaged, SQLAlchemyError, ValueError) as error:
                say(f"{path} cannot be taken, and is put aside: {error}")
                path.rename(path.with_suffix(".aside"))
    await (await db.engine()).dispose()  # its threads would keep the process


async def _take_file(db: PrefectDBInterface, path: Path) -> None:
    entry = RunEntry.from_bytes(path.read_bytes(), str(path))
    async with db.session_context(begin_transaction=True, with_for_update=True) as session:
        if await models.flow_runs.read_flow_run(session, UUID(entry.id)) is None:
            await _put_run(db, session, entry)
    path.unlink()


def say(line: str) -> None:
    """A line for the server's log."""
    print(line, file=sys.stderr, flush=True)


async def _put_run(db: PrefectDBInterface, session: AsyncSession, entry: RunEntry) -> None:
    """A run with its times, tasks, pages and log, as if it had been told while it went on."""
    run_id = UUID(entry.id)
    of_recipe = schemas.core.Flow(name=flow_called(entry.parameters["recipe_name"]))
    flow = await models.flows.create_flow(session=session, flow=of_recipe)
    run = schemas.core.FlowRun(
        id=run_id, flow_id=flow.id, name=entry.name, parameters=entry.parameters, tags=list(entry.tags)
    )
    await models.flow_runs.create_flow_run(session=session, flow_run=run)
    for state in _states(entry, "Completed"):
        await models.flow_runs.set_flow_run_state(session=session, flow_run_id=run_id, state=state, force=True)
    for number, task in enumerate(entry.tasks):
        await _put_task(session, run_id, number, task)
    for page in entry.pages:
        await _put_page(session, page, run_id)
    session.add_all(
        db.Log(name="prefect.flow_runs", level=INFO, message=said, timestamp=_time(when), flow_run_id=run_id)
        for when, said in entry.lines
    )


async def _put_task(session: AsyncSession, run_id: UUID, number: int, entry: TaskEntry) -> None:
    task_id = UUID(entry.id)
    task = schemas.core.TaskRun(
        id=task_id, flow_run_id=run_id, task_key=TASK, dynamic_key=f"{TASK}-{number}", name=entry.name
    )
    await models.task_runs.create_task_run(session=session, task_run=task)
    for state in _states(entry, "Reused"):
        await models.task_runs.set_task_run_state(session=session, task_run_id=task_id, state=state, force=True)
    for page in entry.pages:
        await _put_page(session, page, run_id, task_id)


async def _put_page(session: AsyncSession, page: Page, run_id: UUID, task_id: UUID | None = None) -> None:
    artifact = schemas.core.Artifact(
        id=UUID(page.id),
        key=page.key,
        type=page.kind,
        data=page.data,
        description=page.description,
        flow_run_id=run_id,
        task_run_id=task_id,
    )
    await models.artifacts.create_artifact(session=session, artifact=artifact)


def _states(entry: RunEntry | TaskEntry, name: str) -> tuple[State, State]:
    """The states that something went through."""
    return (
        State(type=StateType.RUNNING, name="Running", timestamp=_time(entry.began)),
        State(type=StateType.COMPLETED, name=name, message=entry.message, timestamp=_time(entry.ended)),
    )


def _time(text: str) -> Any:
    return datetime.fromisoformat(text)
