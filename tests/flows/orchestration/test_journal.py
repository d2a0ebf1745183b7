"""Runs that are done without a server: what they say, what they leave, and how a server takes it."""

import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from launched import ask, cloze, new_home, server, wait_until
from small_recipe import Run

from corpora.store.damage import Damaged
from corpora.store.places import Place
from flows.orchestration.journal import (
    Page,
    RunEntry,
    TaskEntry,
    is_writing,
    journal_of,
    keep,
    kept,
    new_id,
    writing_pages,
)
from flows.orchestration.pages import ProgressBar, show_markdown, show_table
from flows.orchestration.reusing import SERVERLESS
from flows.run.records import list_runs, read_run

TASK = TaskEntry(name="documents/a", began="2026-01-02T03:04:05+00:00", ended="2026-01-02T03:04:06+00:00", message="x")
ENTRY = RunEntry(
    name="a 2026",
    parameters={"recipe_name": "a"},
    began="2026-01-02T03:04:05+00:00",
    ended="2026-01-02T03:04:07+00:00",
    message="3 examples",
    tasks=(replace(TASK, pages=(Page(kind="progress", key="p", data=100.0, description="\u20ac"),)),),
    lines=(("2026-01-02T03:04:06+00:00", "documents/a reused"),),
)


def test_an_entry_is_read_as_it_was_kept(tmp_path: Path) -> None:
    """Fails where something of a run is lost on the way, or the oldest is not the first to be taken."""
    for entry in (replace(ENTRY, began="2026-01-03T00:00:00+00:00", id="later"), ENTRY):
        keep(tmp_path, entry)
    first, second = kept(tmp_path)
    assert RunEntry.from_bytes(first.read_bytes(), "") == ENTRY
    assert "later" in second.name


def test_an_entry_that_was_changed_is_refused(tmp_path: Path) -> None:
    """Fails where a file that a dying disk has changed is put on record."""
    data = ENTRY.to_bytes()
    for changed in (data.replace(b"3 examples", b"4 examples"), data[: len(data) // 2], b""):
        with pytest.raises(Damaged):
            RunEntry.from_bytes(changed, "journal/a.json")


def test_pages_that_are_written_ask_no_api() -> None:
    """Fails where a page of a run without a server goes to one, or its text goes out as it is."""
    with writing_pages() as pages:
        show_table("ledger-a/b", [{"unit": "<b>"}], "described")
        show_markdown("lineage", "# own", "![x](y)")
        for percent in (50.0, 100.0):
            ProgressBar(key="p", description="parts").show(percent)
    assert [(page.kind, page.key) for page in pages] == [
        ("table", "ledger-a-b"),
        ("markdown", "lineage"),
        ("progress", "p"),
    ]
    assert "<b>" not in str(pages[0].data) and pages[1].description != "![x](y)"
    assert not is_writing()


def at_once(name: str, id: str) -> RunEntry:
    """An entry of a run and of a task that were over at the moment in which they began."""
    [task] = ENTRY.tasks
    pages = tuple(replace(page, id=new_id()) for page in task.pages)
    task = replace(task, ended=task.began, id=new_id(), pages=pages)
    return replace(ENTRY, name=name, id=id, ended=ENTRY.began, tasks=(task,))


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
def test_a_run_with_nothing_to_build_does_without_a_server_and_is_on_record_once(
    finished: Run, database: Path, tmp_path: Path
) -> None:
    """Fails where such a run starts a server, or a server later shows it not at all, twice, or at another time.

    Nor may an entry that is damaged, or of a run that was over at once, keep others from being taken.
    """
    assert finished.recipe.path is not None
    world = Path(shutil.copytree(finished.recipe.path.parent, tmp_path / "world"))
    home = new_home(tmp_path, database)
    done = cloze(home, "run", str(world / finished.recipe.path.name))
    assert done.returncode == 0 and SERVERLESS in done.stdout, done.stdout
    assert not (home / "prefect" / "server.log").exists()
    place = Place(str(world / "store"))
    record = read_run(place, list_runs(place)[-1])
    assert {stage.state for stage in record.stages} == {"reused"}
    assert place.read(f"runs/{record.run_id}/report.html")

    [path] = kept(home / "prefect")
    data = path.read_bytes()
    entry = RunEntry.from_bytes(data, "")
    others = [at_once("at once", new_id()), at_once("its namesake", new_id()), at_once("damaged", "no id")]
    for other in others:
        keep(home / "prefect", other)
    with server(home) as api:
        assert wait_until(lambda: not kept(home / "prefect")), (home / "own-server.log").read_text()
        assert "no id" in (home / "own-server.log").read_text()
        named = {run["name"]: run for run in ask(api, "flow_runs")}
        assert set(named) == {entry.name, "at once", "its namesake"}
        assert named["at once"]["state"]["name"] == "Completed"
        assert len([*journal_of(home / "prefect").glob("*.aside")]) == 1
        path.write_bytes(data)  # as where a server is killed after it has put it on record
        assert wait_until(lambda: not path.exists())
        [run] = [run for run in ask(api, "flow_runs") if run["name"] == entry.name]
        of_run = {"id": {"any_": [run["id"]]}}
        tasks, pages = ask(api, "task_runs", flow_runs=of_run), ask(api, "artifacts", flow_runs=of_run)
        lines = {log["message"] for log in ask(api, "logs", logs={"flow_run_id": {"any_": [run["id"]]}})}
    assert (run["state"]["name"], run["state"]["message"]) == ("Completed", entry.message)
    moments = [datetime.fromisoformat(text) for text in (run["start_time"], run["end_time"])]
    assert moments == [datetime.fromisoformat(text) for text in (entry.began, entry.ended)]
    assert {(task["name"], task["state"]["name"]) for task in tasks} == {
        (f"{stage.kind}/{stage.name}", "Reused") for stage in record.stages
    }
    assert {f"ledger-{task['name'].replace('/', '-')}" for task in tasks} <= {page["key"] for page in pages}
    assert {"progress-small", "lineage-small"} <= {page["key"] for page in pages}
    assert lines == {said for _, said in entry.lines}
