"""Runs that no server recorded while they went: each becomes a flow run with its tasks, log and artifacts later.

    send_late_run(api, ended)    makes the flow run; if no API answers, keeps it in a file of a Prefect home
    send_kept_runs(home, api)    sends what is kept: when a UI of that home is opened, or the API of a profile is back

Promise: a run appears once, however often it is sent. Its tasks and log have their own times. The flow run itself has
the time at which it was sent, since Prefect's interface takes no other: its name says when it began.
Cost: a file a run; then a request for the run, for its log and for all its tasks, and one for each artifact.
"""

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.places.address import without_password
from corpora.store.places.files import replace_file
from corpora.store.places.place import Place
from corpora.store.settings import bind_settings
from flows.orchestration.embedded_server import ask, find_own_password, is_answering
from flows.orchestration.pages import build_artifact, render_report_link
from flows.orchestration.recording import LateTask, find_profile_api
from flows.recipes.privacy import to_one_line

FOLDER = "late-runs"  # of a Prefect home
MAX_KEPT_RUNS = 500
ANSWER_SECONDS = 60.0  # a server that has just started takes ten for its first run, on a busy machine
LINES_PER_REQUEST = 200
TASK = "cloze.work"  # what Prefect knows the function of a task by
ERROR_CHARACTERS = 2_000
STOPPED = {"type": "CANCELLED", "name": "Cancelled", "message": "Stopped by a signal; what is finished is kept."}


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRun:
    """A run that ended without a Prefect server, and is stored until it can be reported to one.

    Attributes:
        store: The path or URL of the store with the run's record.
        run_id: The id of the run.
        recipe: The name of the recipe.
        flow: The name of the Prefect flow.
        run: A dict with the "name", "parameters" and "tags" of the flow run to create.
        state: The final state as a dict with the keys "type", "name" and "message".
        tasks: The tasks, in the order in which they ended.
        artifacts: The Prefect artifacts (tables and Markdown in the UI), in the form that Prefect's API accepts.
        lines: The log lines, in the form that Prefect's API accepts.
        api: The API URL of the user's Prefect profile, without its password; "" to send the run to the next UI server.
    """

    store: str
    run_id: str
    recipe: str
    flow: str
    run: Mapping[str, Any]
    state: Mapping[str, str]
    tasks: tuple[LateTask, ...] = ()
    artifacts: tuple[Mapping[str, Any], ...] = ()
    lines: tuple[Mapping[str, Any], ...] = ()
    api: str = ""


def describe_failure(error: BaseException) -> Mapping[str, str]:
    """Describe the final state of a run that ended with an exception, for `LateRun.state`.

    Returns:
        A dict with the keys "type" ("FAILED"), "name" ("Failed") and "message" (the exception's text as one line).
    """
    message = to_one_line(str(error) or type(error).__name__, ERROR_CHARACTERS)
    return {"type": "FAILED", "name": "Failed", "message": message}


def send_late_run(api: str, late: LateRun, tell: Tell) -> str | None:
    """Report a run that has ended to a Prefect API, or store it in a file if the API does not accept it.

    If it is the API of the user's Prefect profile, runs that were stored for it earlier are reported as well.

    Args:
        api: The URL of the API; "" if none answers.
        late: The run to report.
        tell: Called with a message if a run cannot be reported or stored.

    Returns:
        The id of the flow run, or None if the run was stored.
    """
    id = send_run(api, late, tell) if api else None
    if id is None:
        keep_run(late, tell)
    elif api == find_profile_api(own_server=False):
        send_kept_runs(Path(os.environ["PREFECT_HOME"]), api, tell, without_password(api))
    return id


def send_run(api: str, late: LateRun, tell: Tell) -> str | None:
    """Create a Prefect flow run for a run that has ended, with its tasks, log and artifacts.

    If part of the run was sent before, adds only what is missing.

    Args:
        api: The URL of the API.
        late: The run to send.
        tell: Called with a message if the flow run cannot be linked to the run's report.

    Returns:
        The id of the flow run, or None if the API did not accept everything.
    """

    def post(path: str, body: object) -> Any:
        return ask(f"{api}/{path}", body, ANSWER_SECONDS)

    flow = post("flows/", {"name": late.flow})
    new_run = {**late.run, "idempotency_key": late.run_id, "state": late.state}
    created = flow and post("flow_runs/", {**new_run, "flow_id": flow["id"]})
    if not created:
        return None
    id = str(created["id"])
    run_filter = {"flow_runs": {"id": {"any_": [id]}}}
    keys_there = {shown["key"] for shown in post("artifacts/filter", {**run_filter, "limit": 200}) or ()}
    page = render_report_link(Place(late.store), late.run_id, id, bool(find_own_password(api)), tell)
    report = build_artifact(f"report-{late.recipe}", page, f"{late.recipe}: the report of this run")
    if report["key"] in keys_there:  # it is sent last, so nothing is missing
        return id
    post("events", [event for task in enumerate(late.tasks) for event in _iter_events(id, *task)])
    for shown in late.artifacts:
        if shown["key"] not in keys_there:
            post("artifacts/", {**shown, "flow_run_id": id})
    if not post("logs/filter", {"logs": {"flow_run_id": {"any_": [id]}}, "limit": 1}):
        for first in range(0, len(late.lines), LINES_PER_REQUEST):
            lines = late.lines[first : first + LINES_PER_REQUEST]
            post("logs/", [{**line, "flow_run_id": id} for line in lines])
    return id if post("artifacts/", {**report, "flow_run_id": id}) else None


def keep_run(late: LateRun, tell: Tell) -> None:
    """Write a run that has ended to a file, so that the next server with the UI receives it.

    If there are more than MAX_KEPT_RUNS such files, the oldest are removed.

    Args:
        late: The run to store.
        tell: Called with a message if the file cannot be written.
    """
    folder = Path(os.environ["PREFECT_HOME"]) / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        with replace_file(folder / f"{late.run_id}.json") as new:
            new.write_text(json.dumps(asdict(late)), encoding="utf-8")
        for path in sorted(folder.glob("*.json"))[:-MAX_KEPT_RUNS]:
            path.unlink(missing_ok=True)
    except OSError as error:
        tell(f"The UI will not show this run: {error}. `cloze runs` lists it.")


def send_kept_runs(prefect_home: Path, api: str, tell: Tell, profile: str = "") -> None:
    """Report the runs that `keep_run` stored to a Prefect API, oldest first, and remove the files of accepted runs.

    A file that cannot be read is reported and removed.

    Args:
        prefect_home: The folder of Prefect's files, which contains the stored runs.
        api: The URL of the API.
        tell: Called with a message for each run that is not sent.
        profile: API URL of a Prefect profile, without its password. Only the runs stored for that API are sent; ""
            sends all.
    """
    for path in sorted((prefect_home / FOLDER).glob("*.json")):
        try:
            late = bind_settings(LateRun, json.loads(path.read_text(encoding="utf-8")), str(path))
        except (ValueError, InputError, RecursionError) as error:
            tell(f"{path} cannot be read, so the UI lacks that run; `cloze runs` lists it ({error}).")
            path.unlink(missing_ok=True)
            continue
        except FileNotFoundError:  # another process has sent it
            continue
        if profile and late.api != profile:
            continue
        if send_run(api, late, tell) is None:
            tell(f"The API {without_password(api)} does not take the run {late.run_id}; it is kept.")
            if is_answering(api):  # it refuses this one, and may take the others
                continue
            return
        path.unlink(missing_ok=True)


def _iter_events(flow_run_id: str, number: int, task: LateTask) -> Iterator[Mapping[str, Any]]:
    """Yield two Prefect events that record the beginning and the end of a task, in the form of Prefect's API.

    Args:
        flow_run_id: The id of the flow run.
        number: The index of the task in its run.
        task: The task.
    """
    id = uuid.uuid5(uuid.UUID(flow_run_id), str(number))
    run = {"name": task.name, "task_key": TASK, "dynamic_key": str(number), "run_count": task.attempts}
    run["tags"] = [task.group] if task.group else []
    began = {**run, "start_time": task.began, "expected_start_time": task.began}
    yield _build_event(id, flow_run_id, task.began, began, ("RUNNING", "Running", ""))
    seconds = (datetime.fromisoformat(task.ended) - datetime.fromisoformat(task.began)).total_seconds()
    ended = {**began, "end_time": task.ended, "total_run_time": seconds}
    yield _build_event(id, flow_run_id, task.ended, ended, (task.type, task.state, task.message))


def _build_event(
    id: uuid.UUID, flow_run_id: str, moment: str, run: Mapping[str, Any], state: Sequence[str]
) -> Mapping[str, Any]:
    """Build a Prefect event that records the state change of a task run, in the form of Prefect's API.

    Args:
        id: The id of the task run.
        flow_run_id: The id of its flow run.
        moment: When the task run entered the state, in ISO 8601.
        run: The task run as a dict, in the form of Prefect's API.
        state: The tuple (type, name, message) of the state.
    """
    type, name, message = state
    return {
        "id": str(uuid.uuid5(id, name)),
        "occurred": moment,
        "event": f"prefect.task-run.{name}",
        "resource": {
            "prefect.resource.id": f"prefect.task-run.{id}",
            "prefect.resource.name": run["name"],
            "prefect.state-type": type,
            "prefect.state-name": name,
            "prefect.state-message": message,
            "prefect.state-timestamp": moment,
            "prefect.orchestration": "client",
        },
        "related": [
            {"prefect.resource.id": f"prefect.flow-run.{flow_run_id}", "prefect.resource.role": "flow-run"},
        ],
        "payload": {
            "intended": {"from": None, "to": type},
            "initial_state": None,
            "validated_state": {"type": type, "name": name, "message": message, "state_details": {}, "data": None},
            "task_run": run,
        },
    }
