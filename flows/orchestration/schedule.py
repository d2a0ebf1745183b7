"""Schedules of a recipe: when it is due, the overrides of every run, what is due next, and who serves it.

What is due is in a file of the recipe's store, where `cloze status` finds it from any machine.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID
from zoneinfo import available_timezones

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.schedules import Cron, Interval, Schedule

from corpora.errors import InputError
from corpora.store.leases import HeartbeatWriter
from corpora.store.places.place import Place
from corpora.store.settings import PROCESSES, SECONDS
from flows.recipes.recipe import Recipe
from flows.signals import last_word

FORBIDDEN = "%&<>"  # in the name of a deployment


def timetable(cron: str | None, every_seconds: int | None, since: datetime | None = None) -> Schedule:
    """Return the schedule that the command's options mean. Raises InputError.

    since: from when on the seconds are counted; None: from when the schedule is first applied
    """
    if (cron is None) == (every_seconds is None):
        raise InputError('Say when it is to run: --cron "0 3 * * *", or --every SECONDS (one of the two).')
    if every_seconds is not None:
        SECONDS.check("--every", every_seconds)
        return Interval(every_seconds, anchor_date=since)
    assert cron is not None
    try:
        return Cron(cron, timezone=local_zone())
    except ValueError as error:
        raise InputError(
            f"--cron {cron!r} is not a cron expression: write minute, hour, day of the month, month and day of the "
            'week, as in "0 3 * * *" for every night at three.'
        ) from error


def local_zone() -> str:
    """Return the name of this machine's time zone; UTC if it has none."""
    name = os.environ.get("TZ") or Path("/etc/localtime").resolve().as_posix().partition("/zoneinfo/")[2]
    return name if name in available_timezones() else "UTC"


def check_deployable(recipe: Recipe, workers: int | None) -> None:
    """Raise InputError if a recipe's name cannot be a deployment's, or there are no workers."""
    if set(recipe.name) & set(FORBIDDEN):
        raise InputError(f"name = {recipe.name!r}: a recipe on a schedule cannot have any of {FORBIDDEN} in its name.")
    if workers is not None:
        PROCESSES.check("--workers", workers)


def given_parameters(recipe: Recipe, store: str | None, workers: int | None) -> dict[str, Any]:
    """Return the overrides of the recipe in every run of its deployment, by the parameters of its flow."""
    pairs = [f"{key}={value}" for key, value in recipe.overrides.items()]
    pairs += [f"store={json.dumps(recipe.store)}"] if store else []
    every = {"set": pairs, "worker_processes": workers}
    return {key: value for key, value in every.items() if value}


def when(schedule: Schedule) -> str:
    """Describe a schedule in words.

    >>> when(Interval(60)), when(Cron("0 3 * * *", timezone="Europe/Berlin"))
    ('every 60 s', '0 3 * * * (Europe/Berlin)')
    """
    if schedule.interval is not None:
        return f"every {schedule.interval.total_seconds():g} s"
    return f"{schedule.cron} ({schedule.timezone})"


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
            presence = stack.enter_context(HeartbeatWriter(place, path, facts))
            stack.enter_context(last_word(presence.stop))
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
