"""`cloze release`: what is promoted by itself, by hand, and by a person who answers the form of a real server."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from launched import LONG, PATIENCE, Site, ask, cloze, left, post, start, wait_until
from small_recipe import Run, World, fill, new_world

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.maintenance.release import find_newest_run, find_run_at, prepare_candidate
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.record.figures import compute_figures, write_figures
from flows.run.record.releases import read_current_release, read_history
from flows.run.record.run_record import write_run

CROSSED = "\n[bounds]\ndocuments = { min = 1000000 }\n"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Run]:
    """A finished run that is on record, and its world."""
    world = fill(new_world(tmp_path_factory.mktemp("releasing") / "world"))
    run = world.run()
    write_run(run.place, run.record, run.lock)
    write_figures(run.place, run.record, compute_figures(run.place, run.manifests))
    return world, run


def bounded(world: World, more: str = CROSSED) -> Recipe:
    return parse_recipe(world.text + more, world.recipe_path, {})


def test_what_holds_its_bounds_is_released(recorded: tuple[World, Run], tmp_path: Path) -> None:
    """Fails if a run within its bounds waits, what is released is not the run's, or it is compared with nothing."""
    world, run = recorded
    recipe = bounded(world, "\n[bounds]\ndocuments = { min = 1, fall = 0 }\n")
    first = prepare_candidate(recipe, find_newest_run(recipe), "quiet")
    assert (first.crossed, first.compared_with) == ((), "nothing before it")
    entry = first.release("it is good")
    assert {artifact.kind for artifact in entry.artifacts} == {"corpora", "vocabularies", "shards"}
    assert (entry.number, entry.approved, entry.reason) == (1, "bounds", "it is good")
    assert entry.figures["documents"] == compute_figures(run.place, run.manifests)["documents"].value
    again = prepare_candidate(*find_run_at(f"{run.place.address}/runs/{run.record.run_id}"), "quiet")
    assert again.compared_with == "quiet number 1"


def test_what_cannot_be_released_is_refused(recorded: tuple[World, Run], tmp_path: Path) -> None:
    """Fails if what failed, is damaged or was never built gets a name."""
    world, run = recorded
    empty = replace(bounded(world), store=str(tmp_path / "empty"))
    with pytest.raises(InputError, match=r"No run of 'small' in .* is complete"):
        find_newest_run(empty)
    failed = replace(run.record, run_id="20270101T000000000000-small", state="failed")
    write_run(Place(empty.store), failed, run.lock)
    with pytest.raises(InputError, match="is failed: only a run that is complete"):
        find_run_at(f"{empty.store}/runs/{failed.run_id}")
    with pytest.raises(InputError, match="is complete"):
        find_newest_run(empty)
    ahead = replace(run.record, run_id="20460101T000000000000-small", started="2046-01-01T00:00:00+00:00")
    write_run(Place(empty.store), ahead, run.lock)
    with pytest.raises(InputError, match="a clock was ahead, and a newer run may have a name that comes before"):
        find_newest_run(empty)
    [file, *_] = (path for path in Path(run.place.address, run.outcome.shards.folder).glob("*.arrow"))
    whole = file.read_bytes()
    try:
        file.write_bytes(whole[:-10] + bytes(10))
        with pytest.raises(InputError, match=r"is damaged, so it is not released .* `cloze verify`"):
            prepare_candidate(bounded(world), run.record, "broken")
    finally:
        file.write_bytes(whole)


@contextmanager
def releasing(home: Path, api: str, recipe: Path, *more: str) -> Iterator["subprocess.Popen[str]"]:
    """The command, while it runs; what still runs of it at the end is killed, so that a failure here stays here."""
    process = start(home, "release", str(recipe), "--name", "prod", *more, api=api)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def paused(api: str) -> str:
    """The flow run that waits, once its form can be answered: Prefect saves the form after the state."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        found[:] = ask(api, "flow_runs", flow_runs={"state": {"type": {"any_": ["PAUSED"]}}})
        return bool(found) and has_form(found[0])

    def has_form(run: dict[str, Any]) -> bool:
        key = run["state"]["state_details"]["run_input_keyset"]["schema"]
        return any(saved["key"] == key for saved in ask(api, f"flow_runs/{run['id']}/input", prefix=key))

    assert wait_until(look, LONG, pause=0.25)
    return str(found[0]["id"])


def resume(api: str, id: str, **answer: str) -> str:
    """Answer the form as the UI does; whether the server takes it."""
    return str(post(f"{api}/flow_runs/{id}/resume", run_input=answer)["status"])


def state(api: str, id: str) -> dict[str, Any]:
    [run] = ask(api, "flow_runs", flow_runs={"id": {"any_": [id]}})
    found: dict[str, Any] = run["state"]
    return found


@pytest.mark.slow
@pytest.mark.server
def test_a_person_approves_or_rejects(recorded: tuple[World, Run], site: Site) -> None:
    """Fails if the answer of a person is not what happens, or nobody's answer releases something."""
    (world, _), (home, address) = recorded, site
    path = world.folder / "bounded.toml"
    path.write_text(world.text + CROSSED)
    store = Place(world.recipe().store)

    with releasing(home, address, path, "--wait", "1") as late:
        said, _ = late.communicate(timeout=LONG)
    assert late.returncode == 1 and "Not released: nobody answered within 1 s." in said, said
    assert "A bound is crossed: documents is " in said and "Waiting for approval: http://127.0.0.1" in said

    with releasing(home, address, path) as process:
        id = paused(address)
        assert resume(address, id, decision="maybe") == "REJECT"
        assert resume(address, id, decision="reject", reason="too few", who="ada") == "ACCEPT"
        said, _ = process.communicate(timeout=LONG)
    assert process.returncode == 1 and "Not released: too few (ada)." in said, said
    assert (state(address, id)["name"], state(address, id)["message"]) == ("Rejected", "Rejected by ada: too few.")
    with pytest.raises(InputError, match="There is no release 'prod'"):
        read_current_release(store, "prod")

    with releasing(home, address, path) as process:
        id = paused(address)
        [artifact] = [a for a in ask(address, "artifacts") if a["flow_run_id"] == id]
        assert "- documents is 54 documents: the bound is min = 1e+06" in artifact["data"]
        assert resume(address, id, decision="approve", reason="a holiday", who="bob") == "ACCEPT"
        said, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0 and "prod is number 1 now: the run " in said, said
    assert state(address, id)["name"] == "Released"
    [entry] = read_history(store, "prod")
    assert (entry.approved, entry.who, entry.reason) == ("person", "bob", "a holiday")
    assert entry.crossed[0].startswith("documents is ")

    with releasing(home, address, path) as stopped:
        id = paused(address)
        os.kill(stopped.pid, signal.SIGTERM)
        stopped.communicate(timeout=LONG)
    assert left(stopped.pid) == [] and stopped.returncode == 143
    assert state(address, id)["type"] == "CANCELLED"
    done = cloze(home, "release", str(path), "--name", "prod", "--approve", "by hand")
    assert done.returncode == 0 and "prod is number 2 now" in done.stdout, done.stdout
