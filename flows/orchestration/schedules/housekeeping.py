"""Housekeeping of a schedule: it reports what is due next, on the terminal, and in a file of the recipe's store, where
`cloze status` finds it from any machine.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
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
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort

from corpora.errors import InputError
from corpora.store.leases.active_runs import Presence
from corpora.store.places.place import Place
from flows.signals import last_word

LOOK_SECONDS = 30.0  # between two looks at what is due
SCHEDULED_SECONDS = 150.0  # the server looks for schedules every 5 s and every 60 s


@contextmanager
def said_in_store(
    place: Place, path: str, say: Callable[[], Mapping[str, Any]], what: str, tell: Callable[[str], None]
) -> Iterator[None]:
    """Let `cloze status` report what `say` returns during the block. what: the name of it, for a message"""
    with ExitStack() as stack:
        try:
            presence = stack.enter_context(Presence(place, path, say))
            stack.enter_context(last_word(presence.end))
        except InputError as error:
            tell(f"`cloze status` will not show this {what}: {error}")
        yield


class Tending:
    """Watches a schedule on an API. due: what `cloze status` reports of it"""

    def __init__(
        self, client: SyncPrefectClient, deployment_id: UUID, name: str, when: str, tell: Callable[[str], None]
    ) -> None:
        self._client, self._deployment_id, self._tell = client, deployment_id, tell
        self.due: dict[str, object] = {"recipe": name, "when": when, "next": None, "waiting": 0}
        self._begun, self._looked = time.monotonic(), float("-inf")

    def look(self) -> None:
        """Ask what is due, if it is time to; the first due time is printed."""
        first, now = self.due["next"] is None, time.monotonic()
        if not first and now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        runs = read_runs(self._client, self._deployment_id, [StateType.SCHEDULED])
        times = [run.next_scheduled_start_time for run in runs if run.next_scheduled_start_time is not None]
        due = [moment for moment in times if moment > datetime.now(UTC)]
        then = due[0].isoformat(timespec="seconds") if due else None
        self.due = {**self.due, "next": then, "waiting": len(times) - len(due)}
        if first and due:
            self._tell(f"Next run: {due[0].astimezone():%Y-%m-%d %H:%M:%S %Z}")
        elif first and now - self._begun > SCHEDULED_SECONDS:
            self._begun = float("inf")
            self._tell(f"The server has scheduled no run for {SCHEDULED_SECONDS:.0f} s: look into its log.")


def read_runs(
    client: SyncPrefectClient,
    deployment_id: UUID,
    states: list[StateType],
    due: FlowRunFilterNextScheduledStartTime | None = None,
) -> list[FlowRun]:
    """Return runs of a deployment in some states, the earliest due first; at most as many as the server returns."""
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=states))
    return client.read_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployment_id])),
        flow_run_filter=FlowRunFilter(state=state, next_scheduled_start_time=due),
        sort=FlowRunSort.NEXT_SCHEDULED_START_TIME_ASC,
    )
