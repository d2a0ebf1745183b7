"""A Prefect server of the user's own: two runs at once and a schedule are recorded there, and it outlives them."""

import signal
from pathlib import Path

import pytest
from launched import LONG, Site, ask, start
from served_command import free_port, serving
from small_recipe import RECIPE, fill, first_pages, new_world

from corpora.store.places.place import Place
from flows.integrity.inventory import find_artifact_faults
from flows.recipes.lock import read_lock, write_lock
from flows.run.addresses import find_artifacts
from flows.run.record.run_record import list_run_ids, read_run


@pytest.mark.slow
@pytest.mark.server
def test_two_runs_at_once_and_a_schedule_on_a_server_of_the_profile(site: Site, tmp_path: Path) -> None:
    """Fails if two runs that build the same at the same time spoil each other's files, lock or generations.

    Nor may a user's own Prefect server not see the schedule, or not outlive it.
    """
    home, api = site
    text = RECIPE.replace('"small"', '"profiled"')
    world, alone = (fill(new_world(tmp_path / name, text)) for name in ("world", "alone"))
    for each in (world, alone):  # of the first generation only the lock knows
        recipe, lock = each.resolved()
        assert recipe.lock_path is not None
        write_lock(recipe.lock_path, lock)
        each.put("pages", "later", first_pages(9))
    expected = alone.run()
    pair = [start(home, "run", str(world.recipe_path), "--workers", "1", api=api) for _ in range(2)]
    said = [process.communicate(timeout=LONG)[0] for process in pair]
    assert [process.returncode for process in pair] == [0, 0], said
    assert [len(read_lock(each.recipe().lock_path).generations) for each in (world, alone)] == [2, 2]
    artifacts = find_artifacts(world.recipe().store)
    assert {artifact.manifest.folder: artifact.manifest.to_bytes() for artifact in artifacts} == expected.bytes()
    assert [fault for artifact in artifacts for fault in find_artifact_faults(artifact.place, artifact.manifest)] == []
    place = Place(world.recipe().store)
    folders = [read_run(place, run_id).folders for run_id in list_run_ids(place)]
    assert len(folders) == 2 and folders[0] == folders[1]  # the second may find the first generation settled
    assert not list(world.folder.glob(".*")), "the lock is still held"

    with serving(home, world, "--cron", "0 3 * * *", "--run-now", port=free_port(), api=api) as service:
        completed = {"name": {"like_": "profiled "}, "state": {"name": {"any_": ["Completed"]}}}
        service.wait_for(lambda: len(ask(api, "flow_runs", flow_runs=completed)) == 3, "a run that completes")
        assert f"Recording with the Prefect server of your profile: {api}" in service.said
        assert f"The UI: {api.removesuffix('/api')}\n" in service.said
        assert service.stop(signal.SIGTERM) == []
    [deployment] = [one for one in ask(api, "deployments") if one["name"] == "profiled"]
    assert deployment["paused"]
    assert len({run["flow_id"] for run in ask(api, "flow_runs", flow_runs=completed)}) == 1, "a recipe has two flows"
