"""A run as Prefect has it on record, read back through the API of a real server.

Every test starts the command in a process of its own; the server is one process for all of them, as a user's own
server would be.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from launched import Site, ask, cloze
from small_recipe import RECIPE, Run, World, fill, new_world

from corpora.store.places.place import Place
from corpora.store.stage import list_manifests
from flows.orchestration.pages import escape_markdown
from flows.orchestration.run_recipe import NOTHING_NEW
from flows.run.record.run_record import list_run_ids, read_run
from flows.run.stage_kinds import STAGES as KINDS

pytestmark = [pytest.mark.slow, pytest.mark.server]


def make_world(folder: Path, name: str) -> World:
    """The first generation's raw files under a recipe of its own name."""
    return fill(new_world(folder, RECIPE.replace('name = "small"', f'name = "{name}"')))


class Recorded(NamedTuple):
    """A flow run and its task runs as the server has them."""

    flow_run: dict[str, Any]
    tasks: list[dict[str, Any]]


def flow_runs(site: Site, recipe: str) -> list[Recorded]:
    """The flow runs of a recipe, oldest first."""
    found = []
    for run in sorted(ask(site.api, "flow_runs"), key=lambda run: str(run["start_time"])):
        if run["name"].startswith(f"{recipe} "):
            found.append(Recorded(run, ask(site.api, "task_runs", flow_runs={"id": {"any_": [run["id"]]}})))
    return found


class Twice(NamedTuple):
    """A world in which a recipe ran twice."""

    world: World
    first: Recorded
    second: Recorded


@pytest.fixture(scope="module")
def twice(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Twice:
    world = make_world(tmp_path_factory.mktemp("twice"), "twice")
    (world.folder / "raw" / "pages" / "scan.ppt").touch()
    command = ["run", str(world.recipe_path), "--workers", "2"]
    first, second = (cloze(site.home, *command, api=site.api) for _ in range(2))
    for done, said in (
        (first, f"Recording with the Prefect server of your profile: {site.api}"),
        (second, NOTHING_NEW),
    ):
        assert done.returncode == 0, done.stdout
        assert said in done.stdout
        assert "Not read: 1 file of pages; the report lists them." in done.stdout
    return Twice(world, *flow_runs(site, "twice"))


STAGES = ("documents/pages", "documents/notes", "signatures/pages", "signatures/notes", "verdicts/twice",
          "corpora/twice", "counts/twice", "vocabularies/twice", "measures/twice",
          "tokens/twice", "shards/twice")  # fmt: skip


def test_everything_is_on_record_when_the_command_ends(twice: Twice) -> None:
    """Fails if the command leaves before the server has written down the end of every task."""
    assert twice.first.flow_run["state"]["type"] == "COMPLETED"
    assert {task["state"]["type"] for task in twice.first.tasks} == {"COMPLETED"}
    assert twice.first.flow_run["parameters"]["recipe_name"] == "twice"


def test_every_stage_has_one_task_run(twice: Twice) -> None:
    """Fails if a stage is built without Prefect, has more tasks than one, or is not tagged with its group."""
    tags = {task["name"]: task["tags"] for task in twice.first.tasks}
    assert len(tags) == len(twice.first.tasks)
    assert tags == {stage: [KINDS[stage.partition("/")[0]].group] for stage in STAGES}


def test_the_second_run_is_reused(twice: Twice) -> None:
    """Fails if anything is built again, or the server does not show a run that found everything, once."""
    assert twice.second.tasks == [] and twice.second.flow_run["state"]["name"] == "Completed"
    assert twice.second.flow_run["parameters"] == twice.first.flow_run["parameters"]
    assert "nothing new" in twice.second.flow_run["tags"]
    place = Place(twice.world.recipe().store)
    records = [read_run(place, run_id) for run_id in list_run_ids(place)]
    assert [{stage.state for stage in record.stages} for record in records] == [{"built"}, {"reused"}]
    assert {stage.reason for stage in records[1].stages} == {"nothing it depends on has changed"}
    files = {"kind": ".ppt", "number": 1, "names": ["scan.ppt"]}
    assert [record.inputs["pages"]["passed_over"] for record in records] == [[files]] * 2
    for run_id in list_run_ids(place):
        assert "pages: not read: 1 .ppt (scan.ppt)." in place.read(f"runs/{run_id}/report.html").decode()


def latest(site: Site) -> dict[str, dict[str, Any]]:
    return {artifact["key"]: artifact for artifact in ask(site.api, "artifacts/latest") if artifact["key"]}


def test_dropped_samples_are_shown(site: Site, twice: Twice) -> None:
    """Fails if a reason that a stage dropped for has no sample."""
    artifacts = latest(site)
    wanted = {
        "dropped-documents-pages": {"rules: gopher.min_words"},
        "dropped-documents-notes": {"parse: damaged"},
        "removed-corpora-twice": {"duplicates: exact duplicate", "duplicates: near duplicate", "revisions: superseded"},
    }
    for key, reasons in wanted.items():
        rows = json.loads(artifacts[key]["data"])
        assert {row["reason"] for row in rows} == reasons
        assert all("bytes" in row["where"] for row in rows)
    assert "Too short to stay." in artifacts["dropped-documents-pages"]["data"]


def test_ledgers_are_table_artifacts(site: Site, twice: Twice) -> None:
    """Fails if a number that a person sees in the UI is not the manifest's."""
    artifacts = latest(site)
    for stage in STAGES:
        [manifest] = list_manifests(twice.world.place, *stage.split("/"))
        shown = json.loads(artifacts[f"ledger-{stage.replace('/', '-')}"]["data"])
        rows = {(row["unit"], row["outcome"]): row["count"] for row in shown}
        wanted = {(name, ""): count for name, count in manifest.ledger.figures.items()}
        for account in manifest.ledger.accounts:
            wanted |= {(account.unit, name): n for name, n in [("in", account.total), *account.outcomes.items()]}
        assert rows and {key: f"{count:,}" for key, count in wanted.items()}.items() <= rows.items()


def test_a_run_under_prefect_writes_the_same_bytes(twice: Twice, finished: Run) -> None:
    """Fails if the store knows who built it: manifests equal those of a run without Prefect or pool."""
    lines = {path: data for path, data in twice.world.manifests().items() if "/twice/" not in path}
    plain = {f"{folder}/manifest.json": data for folder, data in finished.bytes().items() if "/small/" not in folder}
    assert lines == plain and len(lines) == 4
    assert twice.world.contents() == sorted(manifest.content for manifest in finished.manifests)


def test_a_user_s_mistake_is_not_tried_again(site: Site, tmp_path: Path) -> None:
    """Fails if what only the user can mend costs retries, or ends in a traceback."""
    world = make_world(tmp_path, "mistaken")
    whole = (world.folder / "raw" / "pages" / "pages-0.jsonl").read_bytes()
    (world.folder / "raw" / "pages" / "broken.jsonl.gz").write_bytes(whole)
    done = cloze(site.home, "run", str(world.recipe_path), "--workers", "1", api=site.api)
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stdout
    assert "broken.jsonl.gz cannot be read to its end" in done.stdout
    [recorded] = flow_runs(site, "mistaken")
    said = recorded.flow_run["state"]
    assert said["type"] == "FAILED" and f"cloze: {said['message']}" in done.stdout
    failed = [task for task in recorded.tasks if task["state"]["type"] == "FAILED"]
    assert [(task["name"], task["run_count"]) for task in failed] == [("documents/pages", 1)]
    place = Place(world.recipe().store)
    [record] = [read_run(place, run_id) for run_id in list_run_ids(place)]
    assert record.state == "failed" and "broken.jsonl.gz cannot be read to its end" in record.error


def test_the_page_begins_with_where_the_run_is(site: Site, twice: Twice) -> None:
    """Fails if the first artifact is another, or a finished run has a group that is not done."""
    of_run = {"id": {"any_": [twice.first.flow_run["id"]]}}
    first = min(ask(site.api, "artifacts", flow_runs=of_run), key=lambda artifact: str(artifact["created"]))
    assert first["key"] == "progress-twice"
    shown = [(row["group"], row["state"], row["now"]) for row in json.loads(first["data"])]
    assert shown == [(group, "done", "") for group in ("data", "vocabulary", "shards")]
    assert "| shards/twice |" in latest(site)["lineage-twice"]["data"]


def test_a_page_that_failed_says_where_and_why(site: Site, tmp_path: Path) -> None:
    """Fails if a person has to search the log for the stage that failed, or for what to do."""
    world = make_world(tmp_path, "torn")
    (world.folder / "raw" / "pages" / "broken.jsonl.gz").write_bytes(b"no gzip")
    assert cloze(site.home, "run", str(world.recipe_path), "--workers", "1", api=site.api).returncode == 2
    [recorded] = flow_runs(site, "torn")
    data, *others = json.loads(latest(site)["progress-torn"]["data"])
    assert data["state"] == "failed" and data["now"] == escape_markdown(recorded.flow_run["state"]["message"])
    assert {row["state"] for row in others} == {"waits"}
