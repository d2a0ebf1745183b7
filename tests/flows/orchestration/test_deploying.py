"""`cloze deploy`: the prefect.yaml that it writes, and a run of it by a real worker of a work pool."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from launched import LONG, ask, environment, get, new_home, post, server, shared_temporary
from prefect.cli.deploy._models import PrefectYamlModel
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema
from small_recipe import RECIPE, World, new_world

from corpora.errors import InputError
from flows.command.cli import run_command_line
from flows.command.schedules import list_next_steps
from flows.orchestration import deploy as prefect_yaml_module
from flows.orchestration.deploy import check_not_served, render_prefect_yaml, write_prefect_yaml
from flows.orchestration.scheduled_run import build_entrypoint, build_flow, build_schedule, parse_overrides
from flows.orchestration.serve import hold_serving_lock
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.record.run_record import read_run

HOME = Path("/home/cloze")


def written(world: World, recipe: Recipe | None = None, **more: Any) -> str:
    """The prefect.yaml of one recipe, in the folder above it."""
    given = {"schedule": None, **more}
    return render_prefect_yaml([recipe or world.recipe()], "pool", folder=world.folder.parent, home=HOME, **given)


def first(text: str) -> dict[str, Any]:
    """The first deployment of a file that Prefect reads."""
    loaded = yaml.safe_load(text)
    PrefectYamlModel.model_validate(loaded)
    found: dict[str, Any] = loaded["deployments"][0]
    return found


def test_a_deployment_says_what_the_command_was_told(tmp_path: Path) -> None:
    """Fails if an option of the command is lost, runs of a recipe overlap, or a schedule pins the values."""
    world = new_world(tmp_path / "recipes")
    plain = first(written(world))
    assert (plain["name"], plain["parameters"], plain["schedules"]) == ("small", {}, [])
    assert plain["entrypoint"] == "flows.orchestration.scheduled_run.recipes/small"
    assert plain["tags"] == ["recipe: small", "source: pages", "source: notes"]
    assert plain["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
    assert plain["work_pool"] == {
        "name": "pool",
        "job_variables": {"env": {"CLOZE_HOME": str(HOME), "CLOZE_GIVEN": "[]"}},
    }
    told = world.recipe(shards__length="96", duplicates__threshold="0.7")
    full = first(
        written(
            world, recipe=replace(told, store="/s"), store="/s", workers=2, schedule=build_schedule("0 3 * * *", None)
        )
    )
    assert full["parameters"] == {
        "set": ["shards.length=96", "duplicates.threshold=0.7", 'store="/s"'],
        "worker_processes": 2,
    }
    assert json.loads(full["work_pool"]["job_variables"]["env"]["CLOZE_GIVEN"]) == full["parameters"]["set"]
    assert full["schedules"][0]["cron"] == "0 3 * * *"
    assert first(written(world, schedule=build_schedule(None, 60)))["schedules"] == [{"interval": 60}]


def test_deployments_are_told_apart_and_files_kept(tmp_path: Path) -> None:
    """Fails if one recipe takes another's place, or somebody's file is written over."""
    world = new_world(tmp_path / "recipes")
    one = world.recipe()
    for name, said in (("a/b", r"name = 'a/b'"), ("a%b", "cannot have any of")):
        with pytest.raises(InputError, match=said):
            written(world, recipe=parse_recipe(world.text.replace('"small"', json.dumps(name)), one.path, {}))
    with pytest.raises(InputError, match=r"is not named \*\.toml"):
        written(world, recipe=replace(one, path=world.folder / "small.txt"))
    with pytest.raises(InputError, match="Two recipes are named 'small'"):
        render_prefect_yaml([one, one], "pool", None, tmp_path, HOME)
    with pytest.raises(InputError, match="--workers = 0"):
        written(world, workers=0)
    path = tmp_path / "prefect.yaml"
    write_prefect_yaml(path, "mine", force=False)
    with pytest.raises(InputError, match="--force replaces it"):
        write_prefect_yaml(path, "yours", force=False)
    assert path.read_text() == "mine"
    write_prefect_yaml(path, "yours", force=True)
    assert path.read_text() == "yours"
    with pytest.raises(InputError, match="Cannot write"):
        write_prefect_yaml(tmp_path / "nowhere" / "prefect.yaml", "", force=False)


def test_a_name_that_a_service_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a deployment takes the place of a running `cloze serve`, here or on another machine."""
    home, said = new_home(tmp_path), list[str]()
    now = datetime.now(UTC)
    held: dict[str, Any] = {"work_pool_name": None, "paused": False, "last_polled": now.isoformat()}
    api = {"answers": ""}
    monkeypatch.setattr(prefect_yaml_module, "find_answering_api", lambda home, own_server: api["answers"])
    monkeypatch.setattr(prefect_yaml_module, "ask", lambda url: held if url.endswith("/name/a-b/a%2Fb") else None)
    check_not_served(["small", "a/b"], home, said.append)
    assert len(said) == 1 and said[0].startswith("No Prefect API answers")
    with hold_serving_lock(home, replace(new_world(tmp_path / "w").recipe(), name="small")):
        with pytest.raises(InputError, match="A running `cloze serve` holds the deployment 'small'"):
            check_not_served(["other", "small"], home, said.append)
        check_not_served(["other"], home, said.append)
    api["answers"] = "http://api"
    with pytest.raises(InputError, match="holds the deployment 'a/b'"):
        check_not_served(["small", "a/b"], home, said.append)
    old = (now - timedelta(hours=1)).isoformat()
    for changed in ({"work_pool_name": "main"}, {"paused": True}, {"last_polled": None}, {"last_polled": old}):
        held |= {"work_pool_name": None, "paused": False, "last_polled": now.isoformat(), **changed}
        check_not_served(["small", "a/b"], home, said.append)
    assert len(said) == 2


def test_a_recipe_is_found_under_its_entrypoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a folder or a name with dots, signs or accents leads to no flow, or to another recipe's."""
    monkeypatch.chdir(tmp_path)
    for number, folder in enumerate(("recipes", "v1.2", "../outside %2E", "an accent é")):
        world = new_world(tmp_path / folder, RECIPE.replace('"small"', f'"small-{number}"'))
        entrypoint = build_entrypoint(f"{folder}/{world.recipe_path.name}")
        assert load_flow_from_entrypoint(entrypoint).name == f"small-{number}"
    with pytest.raises(Exception, match="not found"):
        load_flow_from_entrypoint(build_entrypoint("recipes/other.toml"))


def test_the_form_has_a_field_for_each_parameter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the page of a deployment has no form, or what it gives does not arrive as with `--set`."""
    flow = build_flow(new_world(tmp_path).recipe_path)
    fields = parameter_schema(flow).model_dump_for_openapi()["properties"]
    assert [*fields] == ["set", "worker_processes"]
    assert fields["set"]["items"] == {"type": "string"} and "key=value" in fields["set"]["description"]
    assert parse_overrides([]) == {} and parse_overrides(["shards.copies=1"]) == {"shards.copies": "1"}
    monkeypatch.setenv("CLOZE_GIVEN", json.dumps(['store="/s"', "engine=tcp://a:1"]))
    assert parse_overrides(["engine=tcp://a:1", 'store="/s"']) == {"store": '"/s"', "engine": "tcp://a:1"}
    with pytest.raises(InputError, match=r"set shards: write it as key=value"):
        parse_overrides(["shards"])


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
def test_a_worker_runs_a_deployment_with_a_changed_setting(
    database: Path, built: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if what the file says is no deployment, a worker does not end its run, or a value is lost; or where the
    worker that the command names needs what another user of the machine has in /tmp."""
    home = new_home(tmp_path, database)
    place = built.place
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLOZE_HOME", str(home))
    assert run_command_line(["deploy", "world/small.toml", "--pool", "main", "--workers", "1"], home) == 0
    with server(home) as api:
        own = {**environment(home, api), "PREFECT_HOME": str(home / "prefect"), "DO_NOT_TRACK": "1"}
        own |= {"TMPDIR": str(shared_temporary(tmp_path)), "PATH": f"{Path(sys.executable).parent}:{own['PATH']}"}

        def shell(line: str) -> str:
            done = subprocess.run(
                ["sh", "-c", line], cwd=tmp_path, env=own, capture_output=True, text=True, timeout=LONG
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        _, deploy, worker = list_next_steps(tmp_path / "prefect.yaml", "main")
        post(f"{api}/work_pools/", name="main", type="process")
        shell(deploy)
        there = get(api, "deployments/name/small/small")
        assert there["parameters"] == {"worker_processes": 1}
        start = f"{api}/deployments/{there['id']}/create_flow_run"
        with pytest.raises(httpx.HTTPStatusError, match="409"):
            post(start, parameters={"worker_processes": "x"})
        given = {"set": ["shards.length=48"], "worker_processes": 1}
        post(start, parameters=given, state={"type": "SCHEDULED"})
        said_there = shell(f"{worker} --run-once")
        [run] = ask(api, "flow_runs")
        assert run["state"]["name"] == "Completed", said_there
        assert {"recipe: small", "builds"} <= set(run["tags"])
    [folder] = (place_folder.name for place_folder in Path(place.address, "runs").iterdir())
    record = read_run(place, folder)
    assert record.overrides == {"shards.length": "48"}
    assert {stage.kind for stage in record.stages if stage.parts_built} == {"shards"}
