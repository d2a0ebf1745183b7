"""What a schedule does beside its runs: it keeps the orchestrator's history at its size, and says what is due next.

The history is kept for so many days by the server itself, which has a service for that (`history.py`), and of a
schedule's runs so many, which are deleted here. Only a database of our own is touched: where a user's profile or
settings name another, nothing is. What is deleted leaves room in the database's file, which the next runs take; where
most of a large file is room, it is given back before a server starts (`database.shrink_database`).

What is due is said in a file of the recipe's store, where `cloze status` finds it from any machine.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterNextScheduledStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound

from corpora.errors import InputError
from corpora.store.places import Place
from corpora.store.presence import Presence

LOOK_SECONDS = 30.0  # between two looks at what is due
SCHEDULED_SECONDS = 150.0  # the server looks for schedules every 5 s and every 60 s
TRIM_SECONDS = 600.0  # between two looks at the history
PAGE = 200  # runs that the server answers with at once


@contextmanager
def said_in_store(
    place: Place, path: str, say: Callable[[], Mapping[str, Any]], what: str, tell: Callable[[str], None]
) -> Iterator[None]:
    """For the time of the block `cloze status` says of a store what `say` gives. what: it is, for a message"""
    with ExitStack() as stack:
        try:
            stack.enter_context(Presence(place, path, say))
        except InputError as error:
            tell(f"`cloze status` will not tell of this {what}: {error}")
        yield


class Tending:
    """A schedule on an API. due: what `cloze status` says of it

    keep: how many runs that are over stay; None for an API of the user's, whose history is not ours
    """

    def __init__(
        self,
        client: SyncPrefectClient,
        deployment_id: UUID,
        name: str,
        when: str,
        keep: int | None,
        tell: Callable[[str], None],
    ) -> None:
        self._client, self._deployment_id, self._keep, self._tell = client, deployment_id, keep, tell
        self.due: dict[str, object] = {"recipe": name, "when": when, "next": None, "waiting": 0}
        self._begun, self._looked, self._trimmed = time.monotonic(), float("-inf"), float("-inf")

    def look(self) -> None:
        """Ask what is due, and delete what is too much, when it is time to; the first time that is due is said."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS or not self.due["next"]:
            self._looked = now
            self._look()
        if self._keep is not None and now - self._trimmed >= TRIM_SECONDS:
            self._trimmed = now
            self.trim(self._keep)

    def _look(self) -> None:
        runs = read_runs(self._client, self._deployment_id, [StateType.SCHEDULED])
        times = [run.next_scheduled_start_time for run in runs if run.next_scheduled_start_time is not None]
        due = [moment for moment in times if moment > datetime.now(UTC)]
        first, self.due = (
            not self.due["next"],
            {
                **self.due,
                "next": due[0].isoformat(timespec="seconds") if due else None,
                "waiting": len(times) - len(due),
            },
        )
        if first and due:
            self._tell(f"Next run: {due[0].astimezone():%Y-%m-%d %H:%M:%S %Z}")
        elif first and time.monotonic() - self._begun > SCHEDULED_SECONDS:
            self._begun = float("inf")
            self._tell(f"The server has scheduled no run for {SCHEDULED_SECONDS:.0f} s: look into its log.")

    def trim(self, keep: int) -> int:
        """Delete the runs of the schedule that are over, but for the newest; how many."""
        number = 0
        order = FlowRunSort.END_TIME_DESC
        while runs := read_runs(self._client, self._deployment_id, [*TERMINAL_STATES], sort=order, offset=keep):
            for run in runs:
                with suppress(ObjectNotFound):  # the server's own service was faster
                    self._client.delete_flow_run(run.id)
                    number += 1
        return number


def read_runs(
    client: SyncPrefectClient,
    deployment_id: UUID,
    states: list[StateType],
    due: FlowRunFilterNextScheduledStartTime | None = None,
    sort: FlowRunSort = FlowRunSort.NEXT_SCHEDULED_START_TIME_ASC,
    offset: int = 0,
) -> list[FlowRun]:
    """Runs of a deployment in some states, those first that are due first; at most as many as the server answers."""
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=states))
    return client.read_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployment_id])),
        flow_run_filter=FlowRunFilter(state=state, next_scheduled_start_time=due),
        sort=sort,
        limit=PAGE,
        offset=offset,
    )
