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
from flows.orchestration.embedded_server import answers, ask, own_password
from flows.orchestration.pages import artifact, report_shown
from flows.orchestration.recording import EndedTask, api_of_profile
from flows.recipes.privacy import to_one_line

FOLDER = "late-runs"  # of a Prefect home
MAX_KEPT = 500
ANSWER_SECONDS = 60.0  # a server that has just started takes ten for its first run, on a busy machine
LINES_PER_REQUEST = 200
TASK = "cloze.work"  # what Prefect knows the function of a task by
ERROR_CHARACTERS = 2_000
STOPPED = {"type": "CANCELLED", "name": "Cancelled", "message": "Stopped by a signal; what is finished is kept."}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A run that ended, as it is to be recorded.

    store, run_id: where its record is
    recipe:        the recipe's name
    flow:          the flow's name
    run:           name, parameters and tags of the flow run
    state:         its final state: type, name and message
    artifacts, lines: as an API takes them
    api:           of the profile, without its password; "" for a UI of the home
    """

    store: str
    run_id: str
    recipe: str
    flow: str
    run: Mapping[str, Any]
    state: Mapping[str, str]
    tasks: tuple[EndedTask, ...] = ()
    artifacts: tuple[Mapping[str, Any], ...] = ()
    lines: tuple[Mapping[str, Any], ...] = ()
    api: str = ""


def describe_failure(error: BaseException) -> Mapping[str, str]:
    """Return the final state of a run that an error ended."""
    message = to_one_line(str(error) or type(error).__name__, ERROR_CHARACTERS)
    return {"type": "FAILED", "name": "Failed", "message": message}


def send_late_run(api: str, ended: EndedRun, tell: Tell) -> str | None:
    """Send a run that ended to an API, and return its id there; if none takes it, keep it for one, and return None."""
    id = send_run(api, ended, tell) if api else None
    if id is None:
        keep_run(ended, tell)
    elif api == api_of_profile(own_server=False):
        send_kept_runs(Path(os.environ["PREFECT_HOME"]), api, tell, without_password(api))
    return id


def send_run(api: str, ended: EndedRun, tell: Tell) -> str | None:
    """Make the flow run of a run that ended; return its id, or None if the API does not take all of it."""

    def post(path: str, body: object) -> Any:
        return ask(f"{api}/{path}", body, ANSWER_SECONDS)

    flow = post("flows/", {"name": ended.flow})
    asked = {**ended.run, "idempotency_key": ended.run_id, "state": ended.state}
    made = flow and post("flow_runs/", {**asked, "flow_id": flow["id"]})
    if not made:
        return None
    id = str(made["id"])
    mine = {"flow_runs": {"id": {"any_": [id]}}}
    there = {shown["key"] for shown in post("artifacts/filter", {**mine, "limit": 200}) or ()}
    page = report_shown(Place(ended.store), ended.run_id, id, bool(own_password(api)), tell)
    report = artifact(f"report-{ended.recipe}", page, f"{ended.recipe}: the report of this run")
    if report["key"] in there:  # it is sent last, so nothing is missing
        return id
    post("events", [event for task in enumerate(ended.tasks) for event in _events(id, *task)])
    for shown in ended.artifacts:
        if shown["key"] not in there:
            post("artifacts/", {**shown, "flow_run_id": id})
    if not post("logs/filter", {"logs": {"flow_run_id": {"any_": [id]}}, "limit": 1}):
        for first in range(0, len(ended.lines), LINES_PER_REQUEST):
            lines = ended.lines[first : first + LINES_PER_REQUEST]
            post("logs/", [{**line, "flow_run_id": id} for line in lines])
    return id if post("artifacts/", {**report, "flow_run_id": id}) else None


def keep_run(ended: EndedRun, tell: Tell) -> None:
    """Keep a run that ended for the next UI of this home; if there are many, the oldest go."""
    folder = Path(os.environ["PREFECT_HOME"]) / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        with replace_file(folder / f"{ended.run_id}.json") as new:
            new.write_text(json.dumps(asdict(ended)), encoding="utf-8")
        for path in sorted(folder.glob("*.json"))[:-MAX_KEPT]:
            path.unlink(missing_ok=True)
    except OSError as error:
        tell(f"The UI will not show this run: {error}. `cloze runs` lists it.")


def send_kept_runs(prefect_home: Path, api: str, tell: Tell, profile: str = "") -> None:
    """Send the runs that are kept in a home, the oldest first; a file that cannot be read is named, and goes.

    profile: the API of the profile, without its password, if only runs that were to be recorded there are sent
    """
    for path in sorted((prefect_home / FOLDER).glob("*.json")):
        try:
            ended = bind_settings(EndedRun, json.loads(path.read_text(encoding="utf-8")), str(path))
        except (ValueError, InputError, RecursionError) as error:
            tell(f"{path} cannot be read, so the UI lacks that run; `cloze runs` lists it ({error}).")
            path.unlink(missing_ok=True)
            continue
        except FileNotFoundError:  # another process has sent it
            continue
        if profile and ended.api != profile:
            continue
        if send_run(api, ended, tell) is None:
            tell(f"The API {without_password(api)} does not take the run {ended.run_id}; it is kept.")
            if answers(api):  # it refuses this one, and may take the others
                continue
            return
        path.unlink(missing_ok=True)


def _events(flow_run_id: str, number: int, task: EndedTask) -> Iterator[Mapping[str, Any]]:
    """Yield the events by which Prefect learns of a task that began and ended."""
    id = uuid.uuid5(uuid.UUID(flow_run_id), str(number))
    run = {"name": task.name, "task_key": TASK, "dynamic_key": str(number), "run_count": task.attempts}
    run["tags"] = [task.group] if task.group else []
    began = {**run, "start_time": task.began, "expected_start_time": task.began}
    yield _event(id, flow_run_id, task.began, began, ("RUNNING", "Running", ""))
    seconds = (datetime.fromisoformat(task.ended) - datetime.fromisoformat(task.began)).total_seconds()
    ended = {**began, "end_time": task.ended, "total_run_time": seconds}
    yield _event(id, flow_run_id, task.ended, ended, (task.type, task.state, task.message))


def _event(
    id: uuid.UUID, flow_run_id: str, moment: str, run: Mapping[str, Any], state: Sequence[str]
) -> Mapping[str, Any]:
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
