"""What the page of a run says: where it is, where it failed and why; and that a failure is told once."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from launched import Site, ask, environment
from small_recipe import new_world

from corpora.store.stage import Stage
from flows.orchestration.flow import STAGE_FAILED
from flows.orchestration.pages import Progress
from flows.orchestration.recording import PageBuffer, keep_pages
from flows.run.record.run_status import StageProgress


def stage(kind: str, name: str) -> Stage:
    return SimpleNamespace(kind=kind, stage_folder=f"{kind}/{name}")  # type: ignore[return-value]


def lines(pages: PageBuffer) -> list[tuple[str, ...]]:
    """The group, state, stages and parts of each line of the page."""
    shown = json.loads(pages.artifacts["progress-small"]["data"])
    return [tuple(row[name] for name in ("group", "state", "stages", "parts")) for row in shown]


def test_a_line_for_each_group_says_where_the_run_is(tmp_path: Path) -> None:
    """Fails if a group of the recipe is missing, is done too soon, or stays under way; or what comes next is unsaid."""
    pages = PageBuffer()
    with keep_pages(print, pages, str):
        progress = Progress(new_world(tmp_path).recipe())
        progress.show()
        states = {"data": "next", "vocabulary": "waits", "shards": "waits"}
        assert lines(pages) == [(*each, "", "") for each in states.items()]
        progress.begin(stage("documents", "pages"), 4)
        progress.begin(stage("documents", "notes"), 0)
        progress.finish("documents/notes", "reused")
        progress.advance("documents/pages", 3, StageProgress(parts=4, built=3, first_built=0))
        progress.show()
        assert lines(pages)[0] == ("data", "under way", "1, 1 reused", "3 of 4")
        assert "documents/pages: 3 of 4 parts" in pages.artifacts["progress-small"]["data"]
        description = pages.artifacts["progress-small"]["description"]
        assert description == "small: data, documents/pages: 3 of 4 parts"
        progress.finish("documents/pages", "built")
        progress.begin(stage("counts", "small"), 1)
        assert [state for _, state, *_ in lines(pages)] == ["done", "under way", "next"]
        progress.begin(stage("measures", "small"), 1)  # built side by side with the tokens
        progress.begin(stage("tokens", "small"), 1)
        assert [state for _, state, *_ in lines(pages)] == ["done", "under way", "under way"]
        for folder in ("counts/small", "measures/small", "tokens/small"):
            progress.finish(folder, "built")
        progress.end("7 examples")
        assert [state for _, state, *_ in lines(pages)] == ["done"] * 3


@pytest.mark.parametrize("begun", [[], ["documents"], ["documents", "counts"]])
def test_a_run_that_failed_says_where_and_why(tmp_path: Path, begun: list[str]) -> None:
    """Fails if another group is named, or a task that goes on to its end takes the reason off the page."""
    pages = PageBuffer()
    with keep_pages(print, pages, str):
        progress = Progress(new_world(tmp_path).recipe())
        for kind in begun:
            progress.begin(stage(kind, "small"), 2)
        progress.fail("The disk is full.")
        for kind in begun:
            progress.advance(f"{kind}/small", 1, StageProgress(parts=2, built=1, first_built=0))
    failed = "vocabulary" if "counts" in begun else "data"
    assert [name for name, state, *_ in lines(pages) if state == "failed"] == [failed]
    assert pages.artifacts["progress-small"]["description"] == f"small: failed in {failed}. The disk is full."


FAILS = """
import os
from prefect import flow
from corpora.errors import InputError
from flows.orchestration.flow import FlowTasks, run_to_state
from flows.orchestration.recording import Recording, use_recording
from flows.orchestration.stages import WorkResult

def train():
    raise ERROR

@flow(name="NAME", persist_result=False)
def run():
    return run_to_state(lambda: WorkResult(FlowTasks().call_subflow("train", ["models/NAME"], train), "done"))

with use_recording(Recording(os.environ["PREFECT_API_URL"], print)):
    print(repr(run(return_state=True).result(raise_on_failure=False)))
"""


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(("name", "error"), [("full", 'InputError("no room")'), ("bug", 'KeyError("epoch")')])
def test_an_automation_hears_of_a_failed_training_once(site: Site, name: str, error: str) -> None:
    """Fails if the flow below a run ends as the run does: an automation for the state Failed takes it for another."""
    own: dict[str, Any] = environment(site.home, site.api)
    own |= {"PREFECT_HOME": str(site.home / "prefect")}
    script = FAILS.replace("ERROR", error).replace("NAME", name)
    done = subprocess.run([sys.executable, "-c", script], env=own, capture_output=True, text=True, check=False)
    assert error.replace('"', "'") in done.stdout, done.stdout + done.stderr
    [run] = ask(site.api, "flow_runs", flows={"name": {"any_": [name]}})
    [below] = ask(site.api, "flow_runs", flow_runs={"name": {"any_": [f"models/{name}"]}})
    assert (run["state"]["name"], below["state"]["name"]) == ("Failed", STAGE_FAILED)
    assert (below["state"]["type"], below["tags"]) == ("FAILED", ["train"])
