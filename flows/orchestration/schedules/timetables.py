"""Schedules of a recipe: a cron expression or a number of seconds; and the overrides of every run."""

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

from prefect.schedules import Cron, Interval, Schedule

from corpora.errors import InputError
from corpora.store.settings import PROCESSES, SECONDS
from flows.recipes.recipe import Recipe

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
