"""How a run that had no server is described to one, once it has ended."""

import os
from collections.abc import Mapping
from pathlib import Path

from corpora.store.places.address import without_password
from corpora.store.places.place import Place
from flows.orchestration.pages.late_runs import EndedRun, keep_run, send_kept_runs, send_run
from flows.orchestration.pages.page_artifacts import flow_called, name_run, parameters_of, run_tags
from flows.orchestration.runs.run_state import RunState
from flows.orchestration.server.api_recorder import api_of_profile
from flows.recipes.settings.privacy import visible

ERROR_CHARACTERS = 2_000
STOPPED = {"type": "CANCELLED", "name": "Cancelled", "message": "Stopped by a signal; what is finished is kept."}


def end_of_failed(error: BaseException) -> Mapping[str, str]:
    """Return the final state of a run that an error ended."""
    message = visible(str(error) or type(error).__name__, ERROR_CHARACTERS)
    return {"type": "FAILED", "name": "Failed", "message": message}


def describe_late_run(run: RunState, end: Mapping[str, str], kind: str = "builds") -> EndedRun:
    """Return a run that ended, as an API takes it. end: its final state; kind: builds, or nothing new"""
    recipe = run.recipe
    return EndedRun(
        store=Place(recipe.store).at(""),
        run_id=run.run_id,
        recipe=recipe.name,
        flow=flow_called(recipe.name),
        run={
            "name": name_run(recipe.name, run.started),
            "parameters": parameters_of(recipe),
            "tags": run_tags(recipe, kind),
        },
        state=end,
        tasks=tuple(run.tasks),
        artifacts=tuple(run.pages.artifacts.values()),
        lines=tuple(run.pages.lines),
        api=without_password(api_of_profile(own_server=False) or ""),
    )


def send_late_run(run: RunState, api: str, end: Mapping[str, str], kind: str = "builds") -> str | None:
    """Send a run that ended to an API, and return its id there; if none takes it, keep it for one, and return None."""
    id = send_run(api, describe_late_run(run, end, kind), run.tell) if api else None
    if id is None:
        keep_late_run(run, end, kind)
    elif api == api_of_profile(own_server=False):
        send_kept_runs(prefect_home(), api, run.tell, without_password(api))
    return id


def keep_late_run(run: RunState, end: Mapping[str, str], kind: str = "builds") -> None:
    """Keep a run that ended for the next UI of this home."""
    try:
        keep_run(prefect_home(), describe_late_run(run, end, kind))
    except OSError as error:
        run.tell(f"The UI will not show this run: {error}. `cloze runs` lists it.")


def prefect_home() -> Path:
    """Return the folder in which runs wait, with the database of the embedded server."""
    return Path(os.environ["PREFECT_HOME"])
