"""What a schedule does beside its runs: it keeps the orchestrator's history at its size, and says what is due next.

The history is kept for so many days by the server itself, which has a service for that (`history.py`), and of a
schedule's runs so many, which are deleted here. Only a database of our own is touched: where a user's profile or
settings name another, nothing is. What is deleted leaves room in the database's file, which the next runs take; where
most of a large file is room, it is given back before a server starts (`database.shrink_database`).

What is due is said in a file of the recipe's store, where `cloze status` finds it from any machine.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound

from corpora.errors import InputError
from corpora.store.places import Place
from corpora.store.presence import Presence
from flows.recipes.retention import RetentionSettings
from flows.run.status import schedule_path

Tell = Callable[[str], None]

LOOK_SECONDS = 30.0  # between two looks at what is due
TRIM_SECONDS = 600.0  # between two looks at the history
PAGE = 200  # runs that the server answers with at once


class Tending:
    """A schedule on an API: what is due is said, and of an API of our own the history is kept at its size."""

    def __init__(
        self,
        client: PrefectClient,
        deployment_id: UUID,
        place: Place,
        name: str,
        when: str,
        tell: Callable[[str], None],
    ) -> None:
        self._client, self._deployment_id = client, deployment_id
        self._place, self._name, self._tell = place, name, tell
        self._said: dict[str, object] = {"recipe": name, "when": when, "next": None, "waiting": 0}

    async def go_on(self, retention: RetentionSettings | None) -> None:
        """Until it is cancelled. retention: None for an API of the user's, whose history is not ours."""
        with ExitStack() as stack:
            try:
                path = schedule_path(self._name)
                stack.enter_context(await asyncio.to_thread(Presence, self._place, path, lambda: dict(self._said)))
            except InputError as error:
                self._tell(f"`cloze status` will not tell of this schedule: {error}")
            trimmed = -TRIM_SECONDS
            while True:
                try:
                    await self._look()
                    if retention is not None and time.monotonic() - trimmed >= TRIM_SECONDS:
                        trimmed = time.monotonic()
                        await self.trim(retention.history_runs)
                except (httpx.TransportError, httpx.HTTPStatusError):
                    pass  # who waits for a server that is away is the service
                await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """Ask what is due."""
        runs = await self._runs([StateType.SCHEDULED], FlowRunSort.NEXT_SCHEDULED_START_TIME_ASC)
        times = [run.next_scheduled_start_time for run in runs if run.next_scheduled_start_time is not None]
        now = datetime.now(UTC)
        due = [moment for moment in times if moment > now]
        self._said = {
            **self._said,
            "next": due[0].isoformat(timespec="seconds") if due else None,
            "waiting": len(times) - len(due),
        }

    async def trim(self, keep: int) -> int:
        """Delete the runs of the schedule that are over, but for the newest; how many."""
        number, deleted = 0, 1
        while deleted:
            deleted = 0
            for run in await self._runs(list(TERMINAL_STATES), FlowRunSort.END_TIME_DESC, keep):
                with suppress(ObjectNotFound):  # the server's own service was faster
                    await self._client.delete_flow_run(run.id)
                    deleted += 1
            number += deleted
        return number

    async def _runs(self, states: list[StateType], sort: FlowRunSort, offset: int = 0) -> list[FlowRun]:
        return await self._client.read_flow_runs(
            deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[self._deployment_id])),
            flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=states))),
            sort=sort,
            limit=PAGE,
            offset=offset,
        )
