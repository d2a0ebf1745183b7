"""A recipe on a schedule: `cloze serve` as a user starts it, its runs as Prefect has them on record, and its end.

The command is a process in a session of its own, so that what it leaves behind can be seen. Where a test is not about
what a run builds, it begins with a store in which everything is built.
"""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from launched import (
    LONG,
    PATIENCE,
    ask,
    cloze,
    environment,
    left,
    new_home,
    server,
    session_processes,
    start,
    wait_until,
    workers,
)
from small_recipe import RECIPE, World, fill, first_pages, new_world

from corpora.errors import InputError
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from flows.integrity.faults import faults_of
from flows.orchestration.server import keeps_runs_of
from flows.orchestration.serving import check_server_port
from flows.orchestration.timetables import local_zone, served, timetable, when
from flows.recipes.lock import read_lock, write_lock
from flows.run.addresses import find_artifacts
from flows.run.pipeline import stages_without
from flows.run.records import RunRecord, list_runs, read_run

# The server looks for new schedules, and the runner for runs that are due, every second.
FAST = {"PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "1", "PREFECT_RUNNER_POLL_FREQUENCY": "1"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A `cloze serve` that has been started."""

    process: "subprocess.Popen[bytes]"
    output: Path
    api: str

    @property
    def said(self) -> str:
        """All that it and its runs have said so far."""
        return self.output.read_text(encoding="utf-8")

    def wait_for(self, true: Callable[[], bool], what: str) -> None:
        """Wait until something is true, while it lives."""
        ended = self.process.poll
        seen = wait_until(lambda: true() or ended() is not None, LONG, pause=0.25)  # each look is work for the server
        assert seen, f"{what}: never\n{self.said}"
        assert ended() is None, self.said

    def wait_for_line(self, line: str, times: int = 1) -> None:
        self.wait_for(lambda: self.said.count(line) >= times, line)

    def runs(self, *states: str) -> list[dict[str, Any]]:
        """The flow runs in these states, in the order in which they began."""
        found = ask(self.api, "flow_runs", flow_runs={"state": {"name": {"any_": list(states)}}})
        return sorted(found, key=lambda run: str(run["start_time"]))

    def stop(self, number: signal.Signals) -> list[Any]:
        """Send it a signal; its processes that still live some time after."""
        os.kill(self.process.pid, number)
        self.process.wait(PATIENCE)
        return left(self.process.pid)


@contextmanager
def serving(home: Path, world: World, *arguments: str, port: int, api: str | None = None) -> Iterator[Serving]:
    """A `cloze serve` of a recipe for the time of the block; its session is killed at the end."""
    output = home / f"serve-{world.folder.name}-{time.monotonic_ns()}.log"
    command = [sys.executable, "-m", "flows.launch", "serve", str(world.recipe_path), "--workers", "1"]
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--port", str(port), *arguments],
            cwd=home,
            env={**environment(home, api), **FAST},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Serving(process=process, output=output, api=api or f"http://127.0.0.1:{port}/api")
    finally:
        for survivor in left(process.pid, 0):
            os.kill(survivor.pid, signal.SIGKILL)
        process.wait()


# What is said before anything starts


def test_a_timetable_is_one_of_two() -> None:
    """Fails where a schedule that means nothing is taken, or the message does not say what to write."""
    assert when(timetable(None, 60)) == "every 60 s"
    assert when(timetable("0 3 * * *", None)) == f"0 3 * * * ({local_zone()})"
    for cron, every in ((None, None), ("0 3 * * *", 60)):
        with pytest.raises(InputError, match=r'--cron "0 3 \* \* \*", or --every SECONDS'):
            timetable(cron, every)
    for cron in ("61 3 * * *", "0 3 * *", "never", ""):
        with pytest.raises(InputError, match=r"is not a cron expression: write minute, hour"):
            timetable(cron, None)
    for every in (0, -5):
        with pytest.raises(InputError, match="from 1 up"):
            timetable(None, every)


def test_a_time_zone_is_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where three at night is three somewhere else, or a zone that nobody knows stops the command."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert local_zone() == "Europe/Berlin"
    monkeypatch.setenv("TZ", "CET-1CEST")
    assert local_zone() == "UTC"


def test_a_recipe_is_served_by_its_file(world: World, tmp_path: Path) -> None:
    """Fails where a run of the schedule would read another recipe, or the store of the day it began."""
    what = served(world.recipe(documents__max_damaged_share="0.5"), None, 2, timetable(None, 60))
    assert (what.path, what.store, what.workers) == (world.recipe_path, None, 2)
    assert what.overrides == {"documents.max_damaged_share": "0.5"}
    named = served(world.recipe(), "elsewhere", None, timetable(None, 60))
    assert named.store == world.recipe().store
    with pytest.raises(InputError, match="--workers 0 must be"):
        served(world.recipe(), None, 0, timetable(None, 60))
    with pytest.raises(InputError, match="cannot have any of %&<> in its name"):
        served(world.recipe(name="50%"), None, None, timetable(None, 60))


def test_a_port_is_a_port(tmp_path: Path) -> None:
    """Fails where a number that is none ends in a traceback."""
    for port in (0, -1, 70000):
        with pytest.raises(InputError, match=f"--port {port} must be a whole number from 1 to 65535"):
            check_server_port(tmp_path, port)


def test_another_server_is_not_ours(tmp_path: Path) -> None:
    """Fails where whatever listens on the port counts as a Prefect server of this home."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        answer = b"HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>"

        def serve() -> None:
            client, _ = listener.accept()
            client.recv(4096)
            client.sendall(answer)
            client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        assert not keeps_runs_of(tmp_path, port)
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.slow
def test_mistakes_are_said_before_anything_starts(tmp_path: Path) -> None:
    """Fails where a mistake costs the start of a server, a traceback, or more than a paragraph."""
    home, world = new_home(tmp_path), fill(new_world(tmp_path / "world"))
    recipe = str(world.recipe_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        cases = {
            ("serve", recipe, "--cron", "61 * * * *"): "--cron '61 * * * *' is not a cron expression",
            ("serve", recipe, "--every", "60", "--port", port): f"Port {port} is in use",
            ("serve", "absent.toml", "--every", "60"): "Cannot read the recipe absent.toml",
        }
        for arguments, words in cases.items():
            done = cloze(home, *arguments)
            assert (done.returncode, done.stdout.count("\n")) == (2, 1), done.stdout
            assert done.stdout.startswith("cloze: ") and words in done.stdout
    assert not (home / "prefect" / "prefect.db").exists()


# A schedule from its start to its end


class Story(NamedTuple):
    """What a schedule did: run, a new raw file, run, a broken recipe, run, the mended one, run, SIGTERM."""

    heard: list[dict[str, Any]]
    merged: list[dict[str, Any]]
    world: World
    said: str
    records: list[RunRecord]
    flow_runs: list[dict[str, Any]]
    tasks: dict[str, list[dict[str, Any]]]
    first: dict[str, tuple[int, int, str]]
    last: dict[str, tuple[int, int, str]]
    ui: bytes
    code: int
    survivors: list[Any]

    def built(self, folder: Path) -> World:
        """A copy of the world in which everything is built, and no run is on record."""
        shutil.copytree(self.world.folder, folder)
        shutil.rmtree(folder / "store" / "runs")
        return World(folder=folder, text=self.world.text)


def stored(world: World) -> dict[str, tuple[int, int, str]]:
    """Size, modification time and digest of every file of the store, but for what is said of runs and schedules."""
    root = Path(world.recipe().store)
    said = ("runs", "schedules")
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
    return [read_run(place, run_id) for run_id in list_runs(place)]


def generations(world: World) -> int:
    return len(read_lock(world.recipe().lock_path).generations)


@pytest.fixture(scope="module")
def story(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("story")
    home, port = new_home(folder, database), free_port()
    # Runs take longer than from one to the next; what crosses a bound, and what fails, goes to a file.
    hook = json.dumps(["sh", "-c", f"cat >> {folder}/heard; echo >> {folder}/heard"])
    recipe = f"{RECIPE}\n[bounds]\ndocuments = {{ rise = 0.01 }}\n[notify]\ncommand = {hook}\n"
    world = fill(new_world(folder / "world", recipe))
    with serving(home, world, "--every", "2", port=port) as service:
        service.wait_for_line("Report: ")
        first = stored(world)
        world.put("pages", "later", first_pages(9))
        service.wait_for(lambda: generations(world) == 2, "a second generation")
        before = len(records(world))
        service.wait_for(lambda: len(records(world)) > before, "the end of the run that found it")
        world.recipe_path.write_text(world.text.replace("[shards]", "[shrads]"))
        service.wait_for(lambda: bool(service.runs("Failed")), "a failed run")
        world.recipe_path.write_text(world.text)
        failed = service.runs("Failed")[-1]["start_time"]
        service.wait_for(lambda: service.runs("Completed")[-1]["start_time"] > failed, "a run of the mended recipe")
        ui = urllib.request.urlopen(f"http://127.0.0.1:{port}/ui-settings", timeout=PATIENCE).read()
        flow_runs, merged = service.runs("Completed", "Failed", "Drifted"), service.runs("Merged")
        tasks = {run["id"]: ask(service.api, "task_runs", flow_runs={"id": {"any_": [run["id"]]}}) for run in flow_runs}
        survivors = service.stop(signal.SIGTERM)
        code = service.process.returncode
        heard = [json.loads(line) for line in (folder / "heard").read_text().splitlines() if line]
        return Story(
            heard,
            merged,
            world,
            service.said,
            records(world),
            flow_runs,
            tasks,
            first,
            stored(world),
            ui,
            code,
            survivors,
        )


@pytest.mark.slow
@pytest.mark.server
def test_it_says_where_and_when(story: Story) -> None:
    """Fails where a user does not learn where the UI is, when the next run is, or what a run does."""
    api = story.said.splitlines()[0].removeprefix("The UI: ")
    assert f'"api_url":"{api}/api"'.encode() in story.ui
    assert "small is on its schedule, every 2 s" in story.said
    assert "Next run: 20" in story.said
    assert "5 raw files in 1 generation; new in generation 1" in story.said
    assert "6 raw files in 2 generations; new in generation 2: 1 of pages." in story.said


@pytest.mark.slow
@pytest.mark.server
def test_each_run_builds_what_is_new(story: Story) -> None:
    """Fails where a scheduled run rebuilds what is there, leaves out what is new, or touches an old file."""
    built = {
        index: {stage.kind: stage.parts_built for stage in record.stages if stage.state == "built"}
        for index, record in enumerate(story.records)
    }
    number = next(index for index in built if index and built[index])  # the first run after the first that built
    everything = {*stages_without("fits", "models")}
    assert set(built[0]) == everything
    assert set(built[number]) == everything - {"counts", "vocabularies", "measures"}
    assert [index for index in built if built[index]] == [0, number]
    assert len(built) > number + 1, "no run has reused everything of the second generation"
    assert generations(story.world) == 2
    assert set(story.first) < set(story.last)
    assert {path: story.last[path] for path in story.first} == story.first
    new = set(story.last) - set(story.first)
    assert {path.split("/")[0] for path in new} == everything - {"counts", "vocabularies", "measures"}
    shards = Manifest.from_bytes(newest(story, "shards"), "shards")
    labels = [dict(part.labels) for part in shards.parts]
    assert {label.get("generation") for label in labels} == {"1", "2"}, labels


def newest(story: Story, kind: str) -> bytes:
    """The manifest of a kind that the last run left."""
    [folder] = {stage.folder for stage in story.records[-1].stages if stage.kind == kind}
    return Place(story.world.recipe().store).read(f"{folder}/manifest.json")


@pytest.mark.slow
@pytest.mark.server
def test_runs_are_on_record_one_after_another(story: Story) -> None:
    """Fails where two runs overlap, or the stages of a run are not on its own page."""
    assert len(story.flow_runs) >= 4
    for before, after in zip(story.flow_runs, story.flow_runs[1:], strict=False):
        assert before["end_time"] <= after["start_time"]
    completed = [run for run in story.flow_runs if run["state"]["name"] == "Completed"]
    assert all(run["name"].startswith("small 20") for run in story.flow_runs)
    assert all(run["state"]["message"].endswith(" examples") for run in completed)
    assert set(completed[0]["parameters"]) == {"recipe", "overrides", "store", "workers"}
    names = [task["name"] for task in story.tasks[completed[0]["id"]]]
    assert {"documents/pages: publish", "shards/small: publish"} <= set(names)
    assert {task["state"]["name"] for task in story.tasks[completed[-1]["id"]]} == {"Reused"}


@pytest.mark.slow
@pytest.mark.server
def test_what_is_due_while_a_run_is_going_is_one_run(story: Story) -> None:
    """Fails where several runs that became due meanwhile follow one after another, or one of them is lost."""
    assert story.merged
    followers = {run["name"] for run in story.flow_runs}
    for run in story.merged:
        said = run["state"]["message"]
        assert run["state"]["type"] == "CANCELLED" and run["run_count"] == 0, run["state"]
        assert said.startswith("Due while another run was going; small 20") and said.endswith(" followed.")
    told = [run["state"]["message"].split("; ")[1].removesuffix(" followed.") for run in story.merged]
    assert set(told) & followers
    assert "of the schedule became due meanwhile: this one follows for all." in story.said
    due = [run["expected_start_time"] for run in (*story.flow_runs, *story.merged)]
    assert len(set(due)) == len(due), "a time of the schedule has two runs"


@pytest.mark.slow
@pytest.mark.server
def test_bounds_mark_a_run_and_failures_are_told(story: Story) -> None:
    """Fails where drift fails a run, is not on its page, its record and in its notice, or a failure tells nobody."""
    [drifted] = [run for run in story.flow_runs if run["state"]["name"] == "Drifted"]
    assert drifted["state"]["type"] == "COMPLETED"
    [record] = [record for record in story.records if record.crossed]
    [crossed] = record.crossed
    assert record.state == "completed"
    assert crossed.startswith("documents is ") and crossed.endswith(": the bound is rise = 0.01")
    assert crossed in drifted["state"]["message"] and f"A bound is crossed: {crossed}." in story.said
    [bounds] = [notice for notice in story.heard if notice["event"] == "bounds"]
    assert bounds["bounds"] == [crossed] and bounds["run"] == record.run_id
    assert bounds["report"].endswith(f"{record.run_id}/report.html")
    failed = [run for run in story.flow_runs if run["state"]["name"] == "Failed"]
    failures = [notice["text"] for notice in story.heard if notice["event"] == "failure"]
    assert len(failures) == len(failed)
    assert all("did you mean 'shards'" in text for text in failures)


@pytest.mark.slow
@pytest.mark.server
def test_a_mistake_fails_one_run(story: Story) -> None:
    """Fails where a broken recipe ends the schedule, or its run says anything but the paragraph, here and there."""
    failed = [run for run in story.flow_runs if run["state"]["name"] == "Failed"]
    assert failed
    for run in failed:
        assert run["state"]["message"].startswith(f"{story.world.recipe_path}: ")
        assert "did you mean 'shards'" in run["state"]["message"]
        assert story.tasks[run["id"]] == []
        assert f"cloze: {run['state']['message']}\n" in story.said
    assert story.flow_runs[-1]["state"]["name"] == "Completed"
    assert "Traceback" not in story.said


@pytest.mark.slow
@pytest.mark.server
def test_sigterm_ends_all_of_it(story: Story) -> None:
    """Fails where the command ends badly, or leaves its server, a run or a worker running."""
    assert (story.code, story.survivors) == (0, []), story.said
    assert "Stopping; " in story.said


# Two at once, and ends that nobody asked for


def start_run(home: Path, world: World) -> "subprocess.Popen[str]":
    """A `cloze run` with a server of its own."""
    return start(home, "run", str(world.recipe_path), "--own-server", "--workers", "1")


@pytest.mark.slow
@pytest.mark.server
def test_two_runs_at_once_are_one(database: Path, tmp_path: Path) -> None:
    """Fails where two runs that build the same at the same time spoil each other's files, lock or generations."""
    home = new_home(tmp_path, database)
    world, alone = (fill(new_world(tmp_path / name)) for name in ("world", "alone"))
    for each in (world, alone):  # of the first generation only the lock knows
        recipe, lock = each.resolved()
        assert recipe.lock_path is not None
        write_lock(recipe.lock_path, lock)
        each.put("pages", "later", first_pages(9))
    expected = alone.run()
    pair = [start_run(home, world) for _ in range(2)]
    said = [process.communicate(timeout=LONG)[0] for process in pair]
    assert [process.returncode for process in pair] == [0, 0], said
    assert generations(world) == generations(alone) == 2
    artifacts = find_artifacts(world.recipe().store)
    assert {artifact.manifest.folder: artifact.manifest.to_bytes() for artifact in artifacts} == expected.bytes()
    assert [fault for artifact in artifacts for fault in faults_of(artifact.place, artifact.manifest)] == []
    folders = [[stage.folder for stage in record.stages] for record in records(world)]
    assert len(folders) == 2 and folders[0] == folders[1]
    assert not list(world.folder.glob(".*")), "the lock is still held"


@pytest.mark.slow
@pytest.mark.server
def test_a_killed_service_leaves_nothing_behind(database: Path, tmp_path: Path) -> None:
    """Fails where a process outlives the service that started it, or an interrupted run keeps its place for ever."""
    home, world, port = new_home(tmp_path, database), fill(new_world(tmp_path / "world")), free_port()
    nightly = ("--cron", "0 3 * * *", "--run-now")
    for number in (signal.SIGINT, signal.SIGKILL):
        with serving(home, world, *nightly, port=port) as service:
            service.wait_for(lambda: bool(workers(service.process.pid)), "a worker")
            assert len(session_processes(service.process.pid)) >= 4  # itself, its server, the run, its worker
            assert service.stop(number) == []
            assert service.process.returncode == (0 if number == signal.SIGINT else -signal.SIGKILL), service.said
    world.run()  # what is left; the next one builds nothing
    with serving(home, world, *nightly, port=port) as service:
        service.wait_for_line("Report: ")
        service.wait_for(lambda: bool(service.runs("Completed")), "a run that completes")
        ended = [run["state"]["name"] for run in service.runs("Cancelled", "Crashed", "Running", "Pending")]
        assert ended == ["Cancelled", "Crashed"]


@pytest.mark.slow
@pytest.mark.server
def test_two_services_of_one_recipe(database: Path, story: Story, tmp_path: Path) -> None:
    """Fails where the second cannot start, a run runs twice, or the end of the first is the end of both."""
    home, world, port = new_home(tmp_path, database), story.built(tmp_path / "world"), free_port()
    namesake = fill(new_world(tmp_path / "namesake"))
    with (
        serving(home, world, "--every", "5", port=port) as first,
        serving(home, world, "--every", "5", port=port) as second,
    ):
        services = [first, second]
        for service in services:
            service.wait_for_line("Next run: ")
        refused = cloze(home, "serve", str(namesake.recipe_path), "--every", "5", "--port", str(port))
        assert refused.returncode == 2 and f"is on a schedule already: {world.recipe_path}" in refused.stdout
        [owner] = [service for service in services if "Starting the Prefect server" in service.said]
        [other] = [service for service in services if service is not owner]
        assert "Another `cloze serve` has this recipe on a schedule" in other.said
        owner.wait_for(lambda: bool(owner.runs("Completed")), "a run of the two")
        recorded = len(records(world))  # a run is on record before its flow run ends
        assert 0 < recorded <= len(owner.runs("Completed", "Running"))
        assert owner.stop(signal.SIGTERM) == []
        other.wait_for_line("The Prefect server is gone; the schedule goes on with the next one.")
        before = len(records(world))
        other.wait_for(lambda: len(records(world)) > before, "a run of the one that is left")
        assert records(world)[-1].state == "completed"
        assert other.stop(signal.SIGTERM) == []
        assert [service.process.returncode for service in services] == [0, 0], other.said


@pytest.mark.slow
@pytest.mark.server
def test_a_server_of_the_profile_is_used(database: Path, story: Story, tmp_path: Path) -> None:
    """Fails where a user's own Prefect server does not see the schedule, or does not outlive it."""
    home, world = new_home(tmp_path, database), story.built(tmp_path / "world")
    with server(home) as api:
        with serving(home, world, "--cron", "0 3 * * *", "--run-now", port=free_port(), api=api) as service:
            service.wait_for(lambda: bool(service.runs("Completed")), "a run that completes")
            assert f"Recording with the Prefect server of your profile: {api}" in service.said
            assert "The UI: " not in service.said
            assert service.stop(signal.SIGTERM) == []
        [deployment] = ask(api, "deployments")
        assert (deployment["name"], deployment["paused"]) == ("small", True)
