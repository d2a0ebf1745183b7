"""A recipe on a schedule: `cloze serve` from its start to its ends, its runs as they are on record, and who is told.

One story is told once, and each test looks at one side of it. What needs no server is in test_service.py,
test_timetables.py and test_scheduled_run.py.
"""

import hashlib
import json
import os
import signal
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest
from launched import PATIENCE, ask, cloze, new_home, workers
from served_command import Serving, free_port, serving
from small_recipe import RECIPE, World, fill, first_pages, new_world, stages_without

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from flows.orchestration.embedded_server import PASSWORD, get_database_path
from flows.recipes.lock import read_lock
from flows.run.record.run_record import RunRecord, list_run_ids, read_run

pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.long]


class Story(NamedTuple):
    """The story of a schedule.

    Its first service: a run, one whose process is killed, one of a broken recipe, one that finds a new raw file; then
    SIGTERM, and the second, of another recipe, starts a server, loses its runner, and is killed while a run works. A
    third begins that run again, and hears SIGINT while it works. runs: by what they are about; ends: exit code and
    processes left of each service
    """

    world: World
    other: World
    said: list[str]
    runs: dict[str, dict[str, Any]]
    all_runs: list[dict[str, Any]]
    tasks: dict[str, list[dict[str, Any]]]
    records: list[RunRecord]
    heard: list[dict[str, Any]]
    environments: str
    first: dict[str, tuple[int, int, str]]
    last: dict[str, tuple[int, int, str]]
    ui: bytes
    refused: str
    ends: list[tuple[int, list[Any]]]
    left_open: str
    interrupted: str


def stored(world: World) -> dict[str, tuple[int, int, str]]:
    """Size, modification time and digest of every file of the store, but for what is said of runs and schedules."""
    root = Path(world.recipe().store)
    said = ("runs", "schedules", "notices")
    files = [path for path in root.rglob("*") if path.is_file() and path.relative_to(root).parts[0] not in said]
    return {
        path.relative_to(root).as_posix(): (
            path.stat().st_size,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in files
    }


def records(world: World) -> list[RunRecord]:
    """The records of all runs that have ended, oldest first."""
    place = Place(world.recipe().store)
    return [read_run(place, run_id) for run_id in list_run_ids(place)]


def of_state(database: Path, run_id: str) -> str:
    """The state of a flow run as the database has it, when no server is there."""
    with closing(sqlite3.connect(database)) as connection:
        return str(connection.execute("SELECT state_name FROM flow_run WHERE id = ?", (run_id,)).fetchone()[0])


@pytest.fixture(scope="module")
def story(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("story")
    home, port, hears = new_home(folder, database), free_port(), folder / "heard"
    hook = json.dumps(["sh", "-c", 'cat >> "$0"; echo >> "$0"; env >> "$0.env"', str(hears)])
    recipe = f"{RECIPE}\n[bounds]\ndocuments = {{ rise = 0.01 }}\n[notify]\ncommand = {hook}\n"
    world = fill(new_world(folder / "world", recipe))
    runs: dict[str, dict[str, Any]] = {}
    hourly = ("--every", "3600")

    def heard() -> list[dict[str, Any]]:
        return [json.loads(line) for line in hears.read_text().splitlines() if line] if hears.exists() else []

    with serving(home, world, *hourly, "--run-now", port=port) as first:
        first.wait_for_line("Report: ")
        first.wait_for(lambda: bool(first.runs("Completed")), "a run that completes")
        runs["first"], first_files = first.runs("Completed")[0], stored(world)
        runs["killed"] = killed_run(first)
        first.wait_for(lambda: bool(heard()), "a notice of the run whose process was killed")
        world.recipe_path.write_text(world.text.replace("[shards]", "[shards"))
        runs["broken"] = first.wait_for_run(first.run_now(), "Failed")
        world.recipe_path.write_text(world.text)
        given = {"set": [f'notify.command=["touch", "{folder / "owned"}"]']}
        runs["refused"] = first.wait_for_run(first.run_now(parameters=given), "Failed")
        assert not (folder / "owned").exists()
        world.put("pages", "later", first_pages(9))
        runs["later"] = first.wait_for_run(first.run_now(), "Drifted", "Completed")
        last_files, recorded = stored(world), records(world)
        all_runs = ask(first.api, "flow_runs")
        tasks = {name: ask(first.api, "task_runs", flow_runs={"id": {"any_": [runs[name]["id"]]}}) for name in runs}
        ui = urlopen(f"http://127.0.0.1:{port}/ui-settings", timeout=PATIENCE).read()
        namesake = fill(new_world(folder / "namesake"))
        refused = cloze(home, "serve", str(namesake.recipe_path), *hourly, "--port", str(port)).stdout
        other = fill(new_world(folder / "other", RECIPE.replace('"small"', '"other"')))
        with serving(home, other, *hourly, port=port) as second:
            second.wait_for_line("is on its schedule")
            ends = [ended(first, signal.SIGTERM)]
            second.wait_for_line("is on its schedule", times=2)
            os.kill(second.runner(), signal.SIGKILL)
            second.wait_for_line("runner has ended")
            runs["lost"] = {"id": second.run_now()}
            second.wait_for(lambda: bool(workers(second.process.pid)), "a worker")
            ends.append(ended(second, signal.SIGKILL))
    with serving(home, other, *hourly, "--run-now", port=port) as third:
        third.wait_for(lambda: bool(workers(third.process.pid)), "a worker")
        left_open = third.wait_for_run(runs["lost"]["id"], "Crashed")["state"]["message"]
        [going] = third.runs("Running")
        ends.append(ended(third, signal.SIGINT))
    return Story(
        world=world,
        other=other,
        said=[service.said for service in (first, second, third)],
        runs=runs,
        all_runs=all_runs,
        tasks=tasks,
        records=recorded,
        heard=heard(),
        environments=hears.with_suffix(".env").read_text(),
        first=first_files,
        last=last_files,
        ui=ui,
        refused=refused,
        ends=ends,
        left_open=left_open,
        interrupted=of_state(get_database_path(home / "prefect"), going["id"]),
    )


def killed_run(service: Serving) -> dict[str, Any]:
    """A run whose process is killed."""
    run_id = service.run_now()
    service.wait_for_run(run_id, "Running")
    engine = service.engine()
    assert engine is not None
    os.kill(engine, signal.SIGKILL)
    return service.wait_for_run(run_id, "Crashed")


def ended(service: Serving, number: signal.Signals) -> tuple[int, list[Any]]:
    """How a service ends that is sent a signal: its exit code, and what is left of it."""
    survivors = service.stop(number)
    return service.process.returncode, survivors


def test_it_says_where_and_when(story: Story) -> None:
    """Fails if a user does not learn where the UI is, when the next run is, or what a run does."""
    said = story.said[0]
    stamp, shown = said.splitlines()[1].split(" The UI: ")
    api, _, how = shown.partition("  ")
    assert datetime.fromisoformat(stamp) and how.startswith("(`cloze ui --port ")
    run = story.records[0].run_id.partition("-")[0][-6:]
    assert f"[{run}] documents/pages" in said
    assert f'"api_url":"{api}/api"'.encode() in story.ui
    assert "small is on its schedule, every 3600 s" in said
    assert said.count("Next run: 20") == 1
    assert "5 raw files: " in said
    assert "6 raw files; new, as generation 2: 1 of pages." in said


def test_each_run_builds_what_is_new(story: Story) -> None:
    """Fails if a scheduled run rebuilds what is there, leaves out what is new, or touches an old file."""
    first, later = (
        {stage.kind for stage in record.stages if stage.state == "built"}
        for record in story.records
        if record.state == "completed"
    )
    everything = {*stages_without("fits", "models")}
    assert first == everything
    assert later == everything - {"counts", "vocabularies", "measures"}
    assert len(read_lock(story.world.recipe().lock_path).generations) == 2
    assert set(story.first) < set(story.last)
    assert {path: story.last[path] for path in story.first} == story.first
    new = set(story.last) - set(story.first)
    assert {path.split("/")[0] for path in new} == later
    shards = Manifest.from_bytes(newest(story, "shards"), "shards")
    assert {dict(part.labels).get("generation") for part in shards.parts} == {"1", "2"}


def newest(story: Story, kind: str) -> bytes:
    """The manifest of a kind that the last run left."""
    [folder] = {stage.folder for stage in story.records[-1].stages if stage.kind == kind}
    return Place(story.world.recipe().store).read(f"{folder}/manifest.json")


def test_runs_are_on_record_under_the_flow_of_their_recipe(story: Story) -> None:
    """Fails if the UI cannot group runs by recipe, or the stages of a run are not on its own page."""
    first = story.runs["first"]
    assert {run["flow_id"] for run in story.all_runs if run["name"].startswith("small 20")} == {first["flow_id"]}
    assert first["name"].startswith("small 20")
    assert " examples; 1 set aside; the next run is due at " in first["state"]["message"]
    assert {"recipe: small", "source: pages", "source: notes"} <= set(first["tags"])
    assert first["parameters"] == {"worker_processes": 1}
    names = {task["name"] for task in story.tasks["first"]}
    assert {"documents/pages", "shards/small"} <= names
    assert "Reused" in {task["state"]["name"] for task in story.tasks["later"]}


def test_bounds_mark_a_run_and_tell(story: Story) -> None:
    """Fails if drift fails a run, is not on its page, its record and in its notice."""
    drifted = story.runs["later"]
    assert (drifted["state"]["name"], drifted["state"]["type"]) == ("Drifted", "COMPLETED")
    [record] = [record for record in story.records if record.crossed]
    [crossed] = record.crossed
    assert record.state == "completed"
    assert crossed.startswith("documents is ") and crossed.endswith(": the bound is rise = 0.01")
    assert crossed in drifted["state"]["message"] and f"A bound is crossed: {crossed}." in story.said[0]
    [bounds] = [notice for notice in story.heard if notice["event"] == "bounds"]
    assert bounds["bounds"] == [crossed] and bounds["run"] == record.run_id
    assert bounds["report"].endswith(f"{record.run_id}/report.html") and drifted["id"] in bounds["url"]


def test_failures_are_told_once_each(story: Story) -> None:
    """Fails if a killed process or a recipe that is no TOML tells nobody, or one who stops a service is told."""
    crashed, broken = [notice["text"] for notice in story.heard if notice["event"] == "failure"]
    assert crashed.startswith("The run of small failed. Process exited with status code: -9")
    message = story.runs["broken"]["state"]["message"]
    assert broken == f"The run of small failed. {message}"
    assert message.startswith(f"The recipe {story.world.recipe_path} is not TOML")
    assert story.environments.count("PREFECT_API_URL=http://127.0.0.1") >= len(story.heard)
    assert PASSWORD not in story.environments, "the command of a notice inherits the password of the server"
    refused = story.runs["refused"]["state"]["message"]
    assert refused.startswith("set notify.command=") and "is not given this setting" in refused
    assert story.tasks["refused"] == [] and f"cloze: {refused}\n" in story.said[0]
    assert story.tasks["broken"] == [] and f"cloze: {message}\n" in story.said[0]
    assert "Traceback" not in "".join(story.said)


def test_a_server_and_a_runner_that_go_are_started_again(story: Story) -> None:
    """Fails if a namesake can be served, or the end of the service that has the server is the end of another."""
    assert f"is on a schedule already: {story.world.recipe_path}" in story.refused
    assert "The Prefect server is gone; the schedule continues with the next one." in story.said[1]
    assert "The orchestrator's runner has ended (its log is " in story.said[1]


def test_every_end_is_an_end_of_all(story: Story) -> None:
    """Fails if a service ends badly, leaves a process running, or a run that was left open keeps its place."""
    assert story.ends == [(0, []), (-signal.SIGKILL, []), (0, [])], story.said
    assert all("cloze: stopped by " in story.said[number] for number in (0, 2))
    assert story.left_open == "The process that ran it was gone before it could say so."
    assert story.interrupted == "Cancelled"
    assert records(story.other)[-1].state == "interrupted"
