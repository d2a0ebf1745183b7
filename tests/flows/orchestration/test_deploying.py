"""`cloze deploy`: the prefect.yaml that it writes, and a run of it by a real worker of a work pool."""

import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from launched import LONG, PATIENCE, _opener, ask, environment, get, new_home, server, shared_temporary
from prefect.cli.deploy._models import PrefectYamlModel
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema
from small_recipe import RECIPE, Run, World, new_world

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.command.cli import run_command_line
from flows.command.releases.cli import next_steps
from flows.orchestration.schedules.prefect_yaml import prefect_yaml, write_prefect_yaml
from flows.orchestration.schedules.recipe_flow import IN_A_RUN, entrypoint_of, overrides_given, recipe_flow
from flows.orchestration.schedules.timetables import timetable
from flows.recipes.recipe import KEYS, Recipe, parse_recipe
from flows.run.record.run_record import read_run

HOME = Path("/home/cloze")


def written(world: World, recipe: Recipe | None = None, **more: Any) -> str:
    """The prefect.yaml of one recipe, in the folder above it."""
    given = {"schedule": None, **more}
    return prefect_yaml([recipe or world.recipe()], "pool", folder=world.folder.parent, home=HOME, **given)


def first(text: str) -> dict[str, Any]:
    """The first deployment of a file that Prefect reads."""
    loaded = yaml.safe_load(text)
    PrefectYamlModel.model_validate(loaded)
    found: dict[str, Any] = loaded["deployments"][0]
    return found


def post(address: str, **body: Any) -> Any:
    headers: Mapping[str, str] = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(body).encode(), dict(headers))
    with _opener().open(request, timeout=PATIENCE) as response:
        return json.loads(response.read())


def test_a_deployment_says_what_the_command_was_told(tmp_path: Path) -> None:
    """Fails where an option of the command is lost, runs of a recipe overlap, or a schedule pins the values."""
    world = new_world(tmp_path / "recipes")
    plain = first(written(world))
    assert (plain["name"], plain["parameters"], plain["schedules"]) == ("small", {}, [])
    assert plain["entrypoint"] == "flows.orchestration.schedules.recipe_flow.recipes/small"
    assert plain["tags"] == ["recipe: small", "source: pages", "source: notes"]
    assert plain["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
    assert plain["work_pool"] == {"name": "pool", "job_variables": {"env": {"CLOZE_HOME": str(HOME)}}}
    told = world.recipe(shards__length="96", duplicates__threshold="0.7")
    full = first(
        written(world, recipe=replace(told, store="/s"), store="/s", workers=2, schedule=timetable("0 3 * * *", None))
    )
    assert full["parameters"] == {
        "store": "/s",
        "set": ["shards.length=96", "duplicates.threshold=0.7"],
        "worker_processes": 2,
    }
    assert full["schedules"][0]["cron"] == "0 3 * * *"
    assert first(written(world, schedule=timetable(None, 60)))["schedules"] == [{"interval": 60}]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "a/b"}, r"name = 'a/b'"),
        ({"name": "a%b"}, "cannot have any of"),
        ({"name": "a{{b}}"}, "beginning of a template"),
        ({"path": Path("small.txt")}, r"is not named \*\.toml"),
    ],
)
def test_what_cannot_be_deployed_is_said(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    """Fails where a file is written that the server or a run would refuse later, with words of their own."""
    world = new_world(tmp_path / "recipes")
    recipe = world.recipe()
    if "path" in change:
        change = {"path": world.folder / change["path"]}
    with pytest.raises(InputError, match=said):
        renamed = parse_recipe(world.text.replace('"small"', json.dumps(change.get("name", "small"))), recipe.path, {})
        written(world, recipe=replace(renamed, **change))


def test_deployments_are_told_apart_and_files_kept(tmp_path: Path) -> None:
    """Fails where one recipe takes another's place, or somebody's file is written over."""
    world = new_world(tmp_path / "recipes")
    one = world.recipe()
    with pytest.raises(InputError, match="Two recipes are named 'small'"):
        prefect_yaml([one, one], "pool", None, tmp_path, HOME)
    with pytest.raises(InputError, match="--workers 0"):
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


def test_a_recipe_is_found_under_its_entrypoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a folder or a name with dots, signs or accents leads to no flow, or to another recipe's."""
    monkeypatch.chdir(tmp_path)
    for number, folder in enumerate(("recipes", "v1.2", "../outside %2E", "an accent é")):
        world = new_world(tmp_path / folder, RECIPE.replace('"small"', f'"small-{number}"'))
        entrypoint = entrypoint_of(f"{folder}/{world.recipe_path.name}")
        assert load_flow_from_entrypoint(entrypoint).name == f"small-{number}"
    with pytest.raises(Exception, match="not found"):
        load_flow_from_entrypoint(entrypoint_of("recipes/other.toml"))


def test_the_form_has_a_typed_field_for_each_setting(tmp_path: Path) -> None:
    """Fails where a setting is no field, its type or value is not the recipe's, or an edited recipe refuses a run."""
    world = new_world(tmp_path, RECIPE + '[language]\nkeep = ["en"]\n')
    schema = parameter_schema(recipe_flow(world.recipe_path)).model_dump_for_openapi()
    assert [*schema["properties"]][:4] == ["store", "seed", "engine", "source"]
    seed = schema["properties"]["seed"]
    assert (seed["type"], seed["default"]) == ("number", 42)
    fields = {name: schema["definitions"][name]["properties"] for name in ("documents", "language", "repetition")}
    assert fields["documents"]["max_damaged_share"]["type"] == "number"
    assert fields["language"]["keep"]["items"] == {"type": "string"}
    enabled = fields["repetition"]["enabled"]
    assert (enabled["type"], enabled["default"], enabled["title"]) == ("boolean", False, "enabled")
    assert "max_damaged_share:" in schema["definitions"]["documents"]["description"]
    assert schema["properties"]["source"]["default"]["pages"]["path"] == "raw/pages"
    with pytest.MonkeyPatch.context() as process:
        process.setenv(IN_A_RUN, "of a process")
        world.recipe_path.write_text("no TOML at all")
        taken = recipe_flow(world.recipe_path).fn.__signature__.parameters  # type: ignore[attr-defined]
        assert set(taken) == {*KEYS, "set", "worker_processes"}


def test_what_a_form_gives_is_over_the_recipe(tmp_path: Path) -> None:
    """Fails where a value of a form, or a pair of its list, does not arrive as with `--set`, or a default pins one."""
    world = new_world(tmp_path)
    flow = recipe_flow(world.recipe_path)
    defaults = {name: parameter.default for name, parameter in flow.fn.__signature__.parameters.items()}  # type: ignore[attr-defined]
    untouched = {name: default for name, default in defaults.items() if name in ("documents", "shards", "source")}
    assert overrides_given(untouched, world.recipe_path) == {}
    given = {**untouched, "shards": {"length": 3}, "vocabulary": {"size": "x"}, "set": ["shards.copies=1"]}
    assert overrides_given(given, world.recipe_path) == {
        "shards.length": "3",
        "vocabulary.size": '"x"',
        "shards.copies": "1",
    }


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.long
def test_a_worker_runs_a_deployment_with_a_changed_setting(
    database: Path, finished: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails where what the file says is no deployment, a worker does not end its run, or a value is lost; or where the
    worker that the command names needs what another user of the machine has in /tmp."""
    home = new_home(tmp_path, database)
    shutil.copytree(Path(finished.place.address).parent, tmp_path / "world")
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

        _, deploy, worker = next_steps(tmp_path / "prefect.yaml", "main")
        post(f"{api}/work_pools/", name="main", type="process")
        shell(deploy)
        there = get(api, "deployments/name/small/small")
        assert there["parameters"] == {"worker_processes": 1}
        start = f"{api}/deployments/{there['id']}/create_flow_run"
        with pytest.raises(urllib.error.HTTPError, match="409"):
            post(start, parameters={"shards": {"length": "x"}})
        post(start, parameters={"shards": {"length": 48}, "worker_processes": 1}, state={"type": "SCHEDULED"})
        said_there = shell(f"{worker} --run-once")
        [run] = ask(api, "flow_runs")
        assert run["state"]["name"] == "Completed", said_there
        assert {"recipe: small", "builds"} <= set(run["tags"])
    place = Place(str(tmp_path / "world" / "store"))
    [folder] = (place_folder.name for place_folder in Path(place.address, "runs").iterdir())
    record = read_run(place, folder)
    assert record.overrides == {"shards.length": "48"}
    assert {stage.kind for stage in record.stages if stage.parts_built} == {"shards"}
