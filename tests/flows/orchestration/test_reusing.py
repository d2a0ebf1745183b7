"""Runs with nothing to build: no server is started for them, and one that runs shows each of them."""

from pathlib import Path

import pytest
from launched import Site, ask, cloze, new_home
from small_recipe import World

from flows.orchestration.embedded_server import PASSWORD, PORT_FILE, build_client_environment
from flows.orchestration.run_recipe import NOTHING_NEW
from flows.orchestration.server_guard import get_password_path, write_password
from flows.run.record.run_record import list_run_ids, read_run


def test_a_run_with_nothing_to_build_starts_no_server(built: World, tmp_path: Path) -> None:
    """Fails if such a run starts a server, or is not on record with its report."""
    home = new_home(tmp_path / "one")
    done = cloze(home, "run", str(built.recipe_path))
    assert done.returncode == 0 and NOTHING_NEW in done.stdout, done.stdout
    assert not (home / "prefect" / "server.log").exists()
    [*_, newest] = list_run_ids(built.place)
    record = read_run(built.place, newest)
    assert {stage.state for stage in record.stages} == {"reused"} and record.flow_run is None
    assert built.place.read(f"runs/{newest}/report.html")


def test_a_file_that_is_listed_as_damaged_is_built(built: World, tmp_path: Path) -> None:
    """Fails if a run that would read nothing takes a store for whole that `cloze verify` found damaged."""
    home, store = new_home(tmp_path / "one"), Path(built.place.address)
    table = sorted(store.glob("signatures/notes/*/*.signatures.arrow"))[0]
    whole = table.read_bytes()
    table.write_bytes(whole[:-1] + b"?")
    assert cloze(home, "verify", str(store)).returncode == 1
    done = cloze(home, "run", str(built.recipe_path), "--no-watch")
    assert done.returncode == 0 and NOTHING_NEW not in done.stdout, done.stdout
    assert "`cloze verify` found 1 file damaged." in done.stdout and table.read_bytes() == whole
    assert cloze(home, "verify", str(store)).returncode == 0 and not (store / "damaged.json").exists()


@pytest.mark.slow
@pytest.mark.server
def test_a_server_of_the_home_shows_it(built: World, site: Site) -> None:
    """Fails if a person who has `cloze ui` open does not find the run, or its report."""
    port = site.api.removesuffix("/api").rpartition(":")[2]
    (site.home / "prefect" / PORT_FILE).write_text(port)
    write_password(site.home / "prefect", int(port), build_client_environment(site.api)[PASSWORD])
    done = cloze(site.home, "run", str(built.recipe_path))
    assert done.returncode == 0 and NOTHING_NEW in done.stdout, done.stdout
    record = read_run(built.place, list_run_ids(built.place)[-1])
    assert record.flow_run is not None and record.flow_run.page.endswith(f"/runs/flow-run/{record.flow_run.id}")
    of_run = {"id": {"any_": [record.flow_run.id]}}
    [run] = ask(site.api, "flow_runs", flow_runs=of_run)
    assert (run["state"]["name"], run["parameters"]["recipe_name"]) == ("Completed", "small")
    assert {"recipe: small", "nothing new"} <= {*run["tags"]} and "examples" in run["state"]["message"]
    [page] = ask(site.api, "artifacts", flow_runs=of_run)
    assert page["key"] == "report-small" and f"/cloze/report/{run['id']}/{record.run_id}/" in page["data"]
    (site.home / "prefect" / PORT_FILE).unlink()
    get_password_path(site.home / "prefect", int(port)).unlink()
