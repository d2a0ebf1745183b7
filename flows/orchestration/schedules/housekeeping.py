"""Housekeeping of a schedule: the form of its log, what is due next, and the lock of who serves a recipe.

What is due is in a file of the recipe's store, where `cloze status` finds it from any machine.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort

from corpora.errors import InputError
from corpora.store.leases.active_runs import Presence
from corpora.store.places.place import Place
from flows.signals import last_word


def stamped(text: str, run: str = "") -> str:
    """Return lines for the log of `cloze serve`, each with the time in this machine's zone. run: before each"""
    now = f"{datetime.now():%Y-%m-%d %H:%M:%S}"
    return "\n".join(f"{now} {run}{line}" for line in text.split("\n"))


def serving_lock(home: Path, name: str) -> Path:
    """Return the file that a `cloze serve` of a home locks for a recipe of this name."""
    return home / "prefect" / f"serving-{quote(name, safe='')}.lock"


@contextmanager
def shown_in_status(
    place: Place, path: str, facts: Callable[[], Mapping[str, Any]], what: str, tell: Callable[[str], None]
) -> Iterator[None]:
    """Let `cloze status` report what `facts` returns during the block. what: the name of it, for a message"""
    with ExitStack() as stack:
        try:
            presence = stack.enter_context(Presence(place, path, facts))
            stack.enter_context(last_word(presence.end))
        except InputError as error:
            tell(f"`cloze status` will not show this {what}: {error}")
        yield


def due_runs(client: SyncPrefectClient, deployment_id: UUID) -> tuple[datetime | None, int]:
    """Return when the next run of a schedule is due, and how many that were due before still wait."""
    runs = read_runs(client, deployment_id, [StateType.SCHEDULED])
    times = [run.next_scheduled_start_time for run in runs if run.next_scheduled_start_time is not None]
    to_come = [moment for moment in times if moment > datetime.now(UTC)]
    return (to_come[0] if to_come else None), len(times) - len(to_come)


def read_runs(client: SyncPrefectClient, deployment_id: UUID, states: list[StateType], **due: Any) -> list[FlowRun]:
    """Return runs of a deployment in some states, the earliest due first; at most as many as the server returns.

    due: other filters, by their names
    """
    return client.read_flow_runs(
        deployment_filter=DeploymentFilter.model_validate({"id": {"any_": [deployment_id]}}),
        flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": states}}, **due}),
        sort=FlowRunSort.NEXT_SCHEDULED_START_TIME_ASC,
    )
