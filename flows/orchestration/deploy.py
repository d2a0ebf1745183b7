"""`cloze deploy`: a prefect.yaml, from which `prefect deploy --all` puts recipes on a server for the workers of a pool.

    render_prefect_yaml    returns the text of the file
    write_prefect_yaml     writes it as a new file, or replaces an existing one if asked to
    check_not_served       refuses the name of a deployment that a running `cloze serve` holds

The file is for people: every line may be edited. Its entrypoints are flows of the installed program
(`scheduled_run.py`), so the file holds only names.
"""

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from prefect import __version__ as prefect_version
from prefect.schedules import Schedule

from corpora.errors import InputError
from corpora.store.places.files import is_locked
from flows.orchestration.embedded_server import ask
from flows.orchestration.pages import run_tags, to_flow_name
from flows.orchestration.recording import find_answering_api
from flows.orchestration.scheduled_run import (
    GIVEN_VARIABLE,
    build_entrypoint,
    build_run_parameters,
    check_deployable,
    get_serving_lock,
)
from flows.recipes.recipe import Recipe

MAX_POLL_AGE = timedelta(minutes=2)  # since a runner last asked for runs, every 10 s by default: it lives


def render_prefect_yaml(
    recipes: Sequence[Recipe],
    pool: str,
    schedule: Schedule | None,
    folder: Path,
    home: Path,
    store: str | None = None,
    workers: int | None = None,
) -> str:
    """Render the text of a prefect.yaml that deploys recipes to a Prefect work pool.

    Args:
        recipes: The recipes. Each becomes a deployment with its name.
        pool: The name of the work pool.
        schedule: When to run each recipe; None for deployments without a schedule.
        folder: The folder of the file. It is the workers' working directory, and recipe paths are relative to it.
        home: The CLOZE_HOME folder of a worker.
        store: A store to use instead of the recipes' stores, or None.
        workers: The number of worker processes of each run. If None, it depends on the amount of raw files.

    Raises:
        InputError: If two recipes have the same name, or a name cannot be used for a deployment.
    """
    names = [recipe.name for recipe in recipes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"Two recipes are named {twice!r}, and deployments are named after them: give each its own.")
    deployments = []
    for recipe in recipes:
        check_deployable(recipe, workers)
        given = build_run_parameters(recipe, store, workers)
        work_pool = {
            "name": pool,
            "job_variables": {"env": {"CLOZE_HOME": str(home), GIVEN_VARIABLE: json.dumps(given.get("set", []))}},
        }
        deployments.append({**describe_deployment(recipe, given, schedule, folder), "work_pool": work_pool})
    body = {
        "name": folder.name or "cloze",
        "prefect-version": prefect_version,
        "pull": [{"prefect.deployments.steps.set_working_directory": {"directory": str(folder)}}],
        "deployments": deployments,
    }
    head = (
        "# Written by `cloze deploy`; yours to edit. `prefect --no-prompt deploy --all` puts it on the server;\n"
        f"# `{format_worker_command(pool)}` runs it: both with the Python that has cloze.\n"
    )
    text: str = yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=1000)
    return head + text


def describe_deployment(
    recipe: Recipe, given: dict[str, Any], schedule: Schedule | None, folder: Path
) -> dict[str, Any]:
    """Build a recipe's entry in the `deployments` list of prefect.yaml, as a dict without the work pool.

    Args:
        recipe: The recipe, which must have been read from a file.
        given: The parameters of every run, from `build_run_parameters`.
        schedule: When to run the recipe; None for no schedule.
        folder: The folder of the prefect.yaml.
    """
    assert recipe.path is not None
    path = os.path.relpath(recipe.path.resolve(), folder)
    return {
        "name": recipe.name,
        "description": f"Builds what is new of {path}, and reuses everything else.",
        "tags": [tag for tag in run_tags(recipe, "") if tag],
        "entrypoint": build_entrypoint(path),
        "enforce_parameter_schema": True,
        "parameters": given,  # what is not here is as the recipe says when it runs
        "schedules": render_schedules(schedule),
        "concurrency_limit": {"limit": 1, "collision_strategy": "ENQUEUE"},  # one of those that wait runs for all
    }


def render_schedules(schedule: Schedule | None) -> list[dict[str, Any]]:
    """Build the `schedules` list of a deployment in prefect.yaml. It is empty if `schedule` is None.

    An entry has the key "interval" (in seconds), or the keys "cron" and "timezone".
    """
    if schedule is None:
        return []
    if schedule.interval is not None:
        return [{"interval": schedule.interval.total_seconds()}]
    return [{"cron": schedule.cron, "timezone": schedule.timezone}]


def write_prefect_yaml(path: Path, text: str, force: bool) -> None:
    """Write the text of a prefect.yaml to a file.

    Args:
        path: The path of the file.
        text: The contents.
        force: True to replace an existing file.

    Raises:
        InputError: If the file exists and `force` is False, or if it cannot be written.
    """
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InputError(
            f"{path} exists: --force replaces it, and --output writes another (then `prefect --no-prompt deploy "
            "--all --prefect-file` with its name)."
        ) from error
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}. Name another place with --output.") from error


def check_not_served(names: Sequence[str], home: Path, tell: Callable[[str], None]) -> None:
    """Check that no running `cloze serve` uses one of the deployment names.

    Checks this machine and, through the Prefect API, others.

    Args:
        names: The names of the deployments.
        home: CLOZE_HOME, the folder of this installation's caches and server.
        tell: Called with a message if no API answers, so that other machines cannot be checked.

    Raises:
        InputError: If a name is in use.
    """
    api = find_answering_api(home, own_server=False)
    for name in names:
        if is_locked(get_serving_lock(home, name)) or (api and _is_served(api, name)):
            raise InputError(
                f"A running `cloze serve` holds the deployment {name!r}: `prefect deploy` would take it over, and both "
                "would start its runs. Stop that `cloze serve`, or give the recipe another `name`."
            )
    if not api:
        tell("No Prefect API answers, so it is not known whether a `cloze serve` on another machine holds such a name.")


def _is_served(api: str, name: str) -> bool:
    """Return True if a process that is not a work pool's worker has recently polled for runs of a deployment.

    Args:
        api: The URL of the Prefect API.
        name: The name of the deployment, which is also the name of the recipe.
    """
    deployment = ask(f"{api}/deployments/name/{quote(to_flow_name(name), safe='')}/{quote(name, safe='')}")
    if not isinstance(deployment, dict) or deployment.get("work_pool_name") or deployment.get("paused"):
        return False
    polled = deployment.get("last_polled")
    return isinstance(polled, str) and datetime.now(UTC) - datetime.fromisoformat(polled) < MAX_POLL_AGE


def format_worker_command(pool: str) -> str:
    """Return the shell command that starts a worker of a Prefect work pool.

    The command sets TMPDIR to a new folder. Otherwise, workers of different users would share a folder that only the
    first user can write to.

    >>> format_worker_command("main")
    'TMPDIR=$(mktemp -d) prefect worker start --pool main --type process'
    """
    return f"TMPDIR=$(mktemp -d) prefect worker start --pool {pool} --type process"
