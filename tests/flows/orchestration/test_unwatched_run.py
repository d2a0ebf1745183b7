"""A run that nobody watches: when a run is one, that it takes no server, and that the next UI shows it like others."""

import json
import os
import shutil
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from launched import Site, ask, cloze, environment, new_home, wait_until
from small_recipe import RECIPE, World, fill, new_world

from corpora.store.places.place import Place
from flows.engines.open_engine import is_safe_to_fork
from flows.orchestration.late_runs import FOLDER, MAX_KEPT_RUNS, LateRun, keep_run, send_kept_runs, send_late_run
from flows.orchestration.run_recipe import BYTES_PER_SECOND, MAX_UNWATCHED_SECONDS, is_watched
from flows.run.record.run_record import list_run_ids, read_run

LARGE = int(BYTES_PER_SECOND * MAX_UNWATCHED_SECONDS * 2 + 1)  # bytes, for two workers


@pytest.mark.parametrize(
    ("watch", "own_server", "api", "model", "tasks", "size", "expected"),
    [
        (None, False, "", None, (), 1, False),
        (None, False, "", None, (), LARGE, True),
        (None, False, "", "a model", (), 1, True),
        (None, False, "", None, ("a task",), 1, True),
        (None, False, "http://127.0.0.1:4200/api", None, (), 1, True),
        (None, True, "", None, (), 1, True),
        (True, False, "", None, (), 1, True),
        (False, True, "", None, (), 1, False),
        (False, False, "http://127.0.0.1:4200/api", "a model", ("a task",), LARGE, False),
    ],
)
def test_who_watches(
    watch: bool | None,
    own_server: bool,
    api: str,
    model: Any,
    tasks: Any,
    size: int,
    expected: bool,
) -> None:
    """Fails if a run takes a server that nobody sees, or takes none although an API answers, it trains or it lasts."""
    run: Any = SimpleNamespace(
        recipe=SimpleNamespace(model=model, tasks=tasks),
        lock=SimpleNamespace(raw_bytes=size),
        pulse=SimpleNamespace(workers=2),
    )
    assert is_watched(run, own_server, watch, lambda: api) is expected


def make_world(folder: Path) -> World:
    """The first generation's raw files under a recipe of its own name."""
    return fill(new_world(folder, RECIPE.replace('name = "small"', 'name = "seen"')))


def test_a_notice_names_the_run_that_it_is_of(tmp_path: Path) -> None:
    """Fails if a notice of a run that began has no id of the run, so that nobody finds its record."""
    world = make_world(tmp_path / "world")
    command = json.dumps(["sh", "-c", "cat > told.json"])
    recipe = world.recipe()
    assert recipe.path is not None
    text = f'{recipe.text}\n[bounds]\ndocuments = {{ max = 1 }}\n\n[notify]\non = ["bounds"]\ncommand = {command}\n'
    recipe.path.write_text(text)
    done = cloze(new_home(tmp_path / "home"), "run", str(recipe.path), "--no-watch")
    assert done.returncode == 1, done.stdout
    told = json.loads((recipe.path.parent / "told.json").read_text())
    assert [told["run"]] == list_run_ids(Place(recipe.store)) and told["event"] == "bounds"


SHOWN = ("name", "run_count", "state_type", "state_name", "tags")


def moments_of(task: dict[str, str], *keys: str) -> list[datetime]:
    return [datetime.fromisoformat(task[key]) for key in keys]


@pytest.mark.slow
@pytest.mark.server
def test_the_next_ui_shows_it_like_any_other(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if its flow run lacks a task, an artifact, a line or a tag that a watched run has, or is there twice."""
    monkeypatch.setenv("PREFECT_HOME", str(site.home / "prefect"))
    worlds = {watch: make_world(tmp_path / watch) for watch in ("--watch", "--no-watch")}
    home, told = new_home(tmp_path), list[str]()
    for watch, world in worlds.items():
        asked = ("run", str(world.recipe_path), "--workers", "2", watch)
        done = cloze(site.home, *asked, api=site.api) if watch == "--watch" else cloze(home, *asked)
        assert done.returncode == 0, done.stdout
        assert ("Prefect server" in done.stdout) == (watch == "--watch")
    watched, unwatched = worlds.values()
    assert watched.manifests() == unwatched.manifests() and watched.contents() == unwatched.contents()
    records = [read_run(world.place, list_run_ids(world.place)[0]) for world in worlds.values()]
    assert [record.watched for record in records] == [True, False]

    kept = home / "prefect"
    shutil.copytree(kept / FOLDER, tmp_path / "again")
    send_kept_runs(kept, site.api, told.append)
    assert told == [] and list((kept / FOLDER).iterdir()) == []
    shutil.copytree(tmp_path / "again", kept / FOLDER, dirs_exist_ok=True)
    send_kept_runs(kept, site.api, told.append)
    runs = ask(site.api, "flow_runs", flow_runs={"name": {"like_": "seen "}})
    first, second = sorted(runs, key=lambda run: str(run["start_time"]))
    assert first["tags"] == second["tags"] and first["state"]["message"] == second["state"]["message"]
    assert datetime.fromisoformat(records[1].started).strftime("%H:%M:%S") in second["name"]
    [late] = [json.loads(path.read_text()) for path in (tmp_path / "again").iterdir()]
    ours = {"id": {"any_": [second["id"]]}}
    assert wait_until(lambda: len(ask(site.api, "task_runs", flow_runs=ours)) == len(late["tasks"]))
    recorded = ask(site.api, "task_runs", flow_runs=ours)
    moments = {task["name"]: moments_of(task, "start_time", "end_time") for task in recorded}
    assert moments == {task["name"]: moments_of(task, "began", "ended") for task in late["tasks"]}
    shown = []
    for run in (first, second):
        those = {"id": {"any_": [run["id"]]}}
        tasks = [tuple(str(task[key]) for key in SHOWN) for task in ask(site.api, "task_runs", flow_runs=those)]
        keys = [artifact["key"] for artifact in ask(site.api, "artifacts", flow_runs=those)]
        lines = ask(site.api, "logs", logs={"flow_run_id": {"any_": [run["id"]]}})
        stages = [line["message"].split()[0] for line in lines if " built " in line["message"]]
        shown.append((sorted(tasks), sorted(keys), sorted(stages)))
    assert shown[0] == shown[1] and all(shown[0])


@pytest.mark.slow
def test_a_run_that_fails_or_waits_for_its_ui_is_kept(tmp_path: Path) -> None:
    """Fails if the next UI hears only of runs that end well."""
    world, home = make_world(tmp_path / "world"), new_home(tmp_path)
    broken = world.folder / "raw" / "pages" / "broken.jsonl.gz"
    broken.write_bytes(b"no gzip")
    done = cloze(home, "run", str(world.recipe_path), "--workers", "1")
    assert done.returncode == 2 and "broken.jsonl.gz" in done.stdout, done.stdout
    [path] = (home / "prefect" / FOLDER).iterdir()
    late = json.loads(path.read_text())
    assert late["state"]["type"] == "FAILED" and "broken.jsonl.gz" in late["state"]["message"]
    failed = [task for task in late["tasks"] if task["type"] == "FAILED"]
    assert [task["name"] for task in failed] == ["documents/pages"]


def test_kept_runs_are_few_and_what_is_no_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the folder grows for ever, or a spoilt file in it keeps other runs from being sent."""
    sent, told = list[str](), list[str]()
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setattr(
        "flows.orchestration.late_runs.send_run", lambda api, run, tell: sent.append(run.run_id) or "id"
    )
    for number in range(MAX_KEPT_RUNS + 2):
        ended = LateRun(
            store="store", run_id=f"{number:04d}", recipe="r", flow="r", run={"name": "r"}, state={"type": "COMPLETED"},
            api="http://api" if number % 2 else "",
        )  # fmt: skip
        keep_run(ended, print)
    (tmp_path / FOLDER / "0000.json").write_text('{"store": ')
    (tmp_path / FOLDER / "0001.json").write_text('{"stone": 1}')
    send_kept_runs(tmp_path, "http://api", told.append, profile="http://api")
    assert len(sent) == MAX_KEPT_RUNS // 2 and sent[0] == "0003" and len(told) == 2
    send_kept_runs(tmp_path, "http://ui", told.append)
    assert len(sent) == MAX_KEPT_RUNS and list((tmp_path / FOLDER).iterdir()) == []


@pytest.mark.parametrize("api", ["", "http://127.0.0.1:9/api"])
def test_a_run_that_no_api_takes_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: str) -> None:
    """Fails if a run is lost for the UI because an API went away, or failed, while the run was sent."""
    ended = LateRun(store="s", run_id="1-r", recipe="r", flow="r", run={"name": "r"}, state={"type": "COMPLETED"})
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    assert send_late_run(api, ended, print) is None
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["1-r.json"]


COUNTED = """
import json, sys
started = {"fork": 0, "process": 0}
def hear(event, given):
    if event == "os.fork":
        started["fork"] += 1
    elif event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        started["process"] += 1
sys.addaudithook(hear)
from flows.main import main
try:
    main()
finally:
    print(json.dumps([started, len(sys.modules), sorted({name.partition(".")[0] for name in sys.modules})]))
"""
MOST_MODULES = 1_400  # imported by the command, of all packages


def test_a_run_starts_its_workers_and_nothing_else(tmp_path: Path) -> None:
    """Fails if a run that nobody watches starts a server or another Python, or imports the orchestrator or torch."""
    folder, home = tmp_path / "notes", new_home(tmp_path)
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.txt").write_text(
            f"The note {number} of the folder says what note {number} has to say.\n" * 9
        )
    for _ in range(2):
        command = [sys.executable, "-c", COUNTED, "run", "--source", str(folder), "--store", str(tmp_path / "store")]
        done = subprocess.run(command, cwd=tmp_path, env=environment(home), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        started, modules, packages = json.loads(done.stdout.splitlines()[-1])
        assert started["process"] == 0 and 1 <= started["fork"] <= os.cpu_count(), started
        assert not {"prefect", "torch", "pydantic", "sqlalchemy", "httpx"} & {*packages}
        assert modules < MOST_MODULES, modules


def test_a_process_with_threads_is_not_forked() -> None:
    """Fails if a worker may inherit a lock that another thread holds."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    assert not is_safe_to_fork()
    over.set()
    thread.join()
