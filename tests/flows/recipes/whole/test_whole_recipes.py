"""Every key of a recipe, as the command takes it: each recipe of a table is run twice, and looked into.

`table.toml` has the recipes, and a test says which key of the reference none of them has: so a new one needs a recipe.
The command stays in one process (`resident.py`). The long tier runs all of them, and starts a trainer for each; the
short one runs those of the families and objectives, and trains in the command's process.
"""

import dataclasses
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch", reason="the trainer is not installed")
import tiers
from launched import environment, new_home
from made_small import smaller
from raw_files import publisher, put_labelled_files, put_raw_files, put_rows
from resident import Command, resident
from served_command import free_port, serving

from corpora.store.places.place import Place
from flows.command.reference import render_reference
from flows.orchestration.run_recipe import NOTHING_NEW
from flows.recipes.model_and_tasks import TaskSettings
from flows.recipes.recipe import read_shipped_recipes
from flows.recipes.recipe_templates import read_published_recipes, read_templates
from flows.recipes.tables import merge_tables, to_toml
from flows.run.record.run_record import RunRecord, iter_newest_runs
from trainer.settings.model import FAMILIES, OBJECTIVES

pytestmark = pytest.mark.slow

WHOLE = tomllib.loads(Path(__file__).with_name("table.toml").read_text(encoding="utf-8"))
RECIPES: Mapping[str, Any] = WHOLE["recipe"]
SHORT = ("bert", "distilbert", "electra", "albert", "roberta", "modernbert")
PROPOSAL = re.compile(r"""^# (?=\[+[\w.]+\]+$|\w+ = ["\[{\d]|"[^"]+" = )""")
OF_TEST = ("after", "packages", "guesses", "without")  # keys of the table that are not the recipe's
# Keys that no recipe of the table has, but those of tests/flows/run/test_task_stages.py.
ELSEWHERE = {"worse", *(field.name for field in dataclasses.fields(TaskSettings))}


def as_toml(table: Mapping[str, Any]) -> str:
    """A recipe as TOML: each of its keys on a line."""
    return "".join(f"{key} = {to_toml(value)}\n" for key, value in table.items())


def table_of(name: str, places: Callable[[str], str] = str) -> dict[str, Any]:
    """A recipe of the table over the base. places: what stands for "@NAME@" """
    own = {key: value for key, value in RECIPES[name].items() if key not in OF_TEST}
    base = {key: value for key, value in WHOLE["base"].items() if key not in RECIPES[name].get("without", ())}
    text = as_toml(merge_tables(base, own))
    for other in RECIPES[name].get("after", ()):
        text = text.replace(f"@{other}@", places(other))
    return tomllib.loads(text)


def with_proposals(text: str) -> str:
    """A recipe of `cloze new` without the comment signs before what it proposes: keys with values, and tables.

    Of two that exclude each other the first is taken: others are named in sentences, or after the value.
    """
    lines = [PROPOSAL.sub("", line) for line in text.splitlines()]
    assert len(lines) - len({*lines} & {*text.splitlines()}) >= 10, "a template proposes at least a task and a release"
    return "\n".join([*lines, ""])


class Ran(NamedTuple):
    """A recipe that was run twice: what the command printed, and what it holds of the second run."""

    path: Path
    first: str
    second: str
    record: RunRecord

    def folder(self, kind: str) -> str:
        """The last artifact of a kind, in the store."""
        return [stage.folder for stage in self.record.stages if stage.kind == kind][-1]


class Runs:
    """The recipes of the table in one store: each is run when it is asked for, with those that it needs before it."""

    def __init__(self, folder: Path, command: Command, more: ExitStack) -> None:
        self.folder, self.command, self._more = folder, command, more
        self.place = Place(str(folder / "store"))
        self._ran: dict[str, Ran] = {}
        self._address = ""

    def of(self, name: str) -> Ran:
        """Return the result of running a recipe."""
        if name not in self._ran:
            self._ran[name] = self._run(name)
        return self._ran[name]

    def _run(self, name: str) -> Ran:
        path = self.folder / f"{name}.toml"
        path.write_text(as_toml(table_of(name, self._place)))
        return self._twice(path)

    def of_template(self, name: str) -> tuple[Ran, list[str]]:
        """Return the result of running a recipe that comes with the program, small, and how it is made small."""
        path = self.folder / name / f"{name}.toml"
        put_labelled_files(path.parent / "labelled")
        if name in read_shipped_recipes():
            path.write_text(read_shipped_recipes()[name])
        else:
            self.ask("new", name, "--template", name)
            path.write_text(with_proposals((self.folder / "home" / path.name).read_text()))
        recipe = tomllib.loads(path.read_text())
        small = smaller(recipe, self.folder, self._place("server"))
        for number, source in enumerate(recipe["source"], 1):
            if "fields" in source:
                small[f"source.{number}.path"] = put_rows(self.folder / "raw" / name, source["fields"])
        if name == "distilbert":
            teacher = self.place.to_address(self.of("bert").folder("models"))
            small |= {"vocabulary.path": teacher, "model.objective.teacher": teacher, "model.objective.layers": [0]}
            small |= {"shards.length": 32, "model.max_length": 32}  # as the teacher has it
        sets = [f"--set={key}={to_toml(value)}" for key, value in small.items()]
        given = ("--store", self.place.address, *sets)
        labelled = [str(path.parent / "labelled" / f"{file}.tsv") for file in ("train", "dev")]
        self.ask("check", *labelled, "--task", "classes")
        if "fetch" in str(recipe["source"]):
            assert f"`cloze fetch {quote(str(path))}` brings" in self.ask("plan", str(path), *given, code=2)
            self.ask("fetch", str(path), *sets)
        planned = json.loads(self.ask("plan", str(path), "--json", *given))["stages"]
        for source in recipe["source"]:
            self.ask("preview", source.get("name", source["kind"]), "--recipe", str(path), "-n", "2", *sets)
        ran = self._twice(path, sets)
        built = {f"{stage.kind}/{stage.name}" for stage in ran.record.stages}
        assert {stage["stage"] for stage in planned} == built
        assert built & {f"answers/{name}-labels", f"tasks/{name}-labels"} or name in read_shipped_recipes()
        return ran, sets

    def _twice(self, path: Path, sets: Sequence[str] = ()) -> Ran:
        run = ("run", str(path), "--workers", "1", "--store", self.place.address, "--no-watch", *sets)
        first, second = self.ask(*run), self.ask(*run)
        return Ran(path, first, second, next(iter_newest_runs(self.place)))

    def _place(self, name: str) -> str:
        """Return what replaces a name of the table."""
        if name != "server":
            return self.of(name).folder("models")
        if not self._address:
            self._address = self._more.enter_context(publisher(self.folder / "published"))
            (self.folder / "addresses.txt").write_text(f"{self._address}/listed.jsonl\n")
        return self._address

    def ask(self, *arguments: str, code: int = 0) -> str:
        """Return what a command prints, and check its exit code."""
        done = self.command(*arguments)
        assert done.code == code, done.printed
        return done.printed


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    folder = tmp_path_factory.mktemp("whole recipes")
    put_raw_files(folder)
    home = new_home(folder)
    packages = f"{environment(home)['PYTHONPATH']}:{folder / 'packages'}"
    with ExitStack() as more, resident(home, here=not tiers.LONG, more={"PYTHONPATH": packages}) as command:
        yield Runs(folder, command, more)


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in RECIPES]
)
def test_a_recipe_is_run_twice_and_looked_into(runs: Runs, name: str) -> None:
    """Fails if a command stumbles over what a recipe says, or the second run builds anything."""
    for package in RECIPES[name].get("packages", ()):
        pytest.importorskip(package)
    look_into(runs, runs.of(name), RECIPES[name].get("guesses", ""))


def look_into(runs: Runs, ran: Ran, part: str | bool = "", sets: Sequence[str] = ()) -> None:
    """Ask every command that reads what a run built. part: of the model, that guesses words; False: none does"""
    assert "nothing is unaccounted for" in ran.first and NOTHING_NEW in ran.second
    planned = json.loads(runs.ask("plan", str(ran.path), "--json", "--store", runs.place.address, *sets))
    assert {stage["state"] for stage in planned["stages"]} == {"reuse"}
    runs.ask("report", runs.place.to_address(f"runs/{ran.record.run_id}"))
    for stage in ran.record.stages:
        runs.ask("verify", runs.place.to_address(stage.folder))
    assert "raw" in runs.ask("trace", runs.place.to_address(ran.folder("shards")), "0")
    kinds = {stage.kind for stage in ran.record.stages} & {"corpora", "shards", "models"}
    for kind in sorted(kinds):
        runs.ask(
            "export", runs.place.to_address(ran.folder(kind)), str(runs.folder / "exported" / ran.record.run_id / kind)
        )
    if "models" in kinds:
        folders = [path.parent for path in Path(runs.place.to_address(ran.folder("models"))).rglob("config.json")]
        folder = next(folder for folder in sorted(folders) if not part or folder.name == part)
        runs.ask("fill", str(folder), "The keeper carried a [MASK] near the river.", code=2 if part is False else 0)


@pytest.mark.parametrize(
    "template",
    [
        *tiers.mostly_long(sorted(read_templates()), 2),
        *(pytest.param(name, marks=pytest.mark.long) for name in (*read_shipped_recipes(), *read_published_recipes())),
    ],
)
def test_a_recipe_that_comes_with_the_program_goes_through_every_command(runs: Runs, template: str) -> None:
    """Fails if one of them, small and with all that it proposes, does not come to its end, the second run builds
    anything, a plan announces other stages than those of the run, or a schedule runs something else.
    """
    ran, sets = runs.of_template(template)
    look_into(runs, ran, {"electra-small": "generator"}.get(template, ""), sets)
    if tiers.LONG:
        serve(runs, ran, sets)


def serve(runs: Runs, ran: Ran, sets: Sequence[str]) -> None:
    """Serve a recipe whose artifacts are there until its first run has ended, which builds nothing."""
    name, folder = ran.path.stem, ran.path.parent
    world: Any = SimpleNamespace(recipe_path=ran.path, folder=folder, recipe=lambda: SimpleNamespace(name=name))
    given = ("--every", "3600", "--run-now", "--store", runs.place.address, *sets)
    with serving(runs.folder / "home", world, *given, port=free_port()) as service:
        service.wait_for_line("Report: ")
        stages = {stage.folder for stage in next(iter_newest_runs(runs.place)).stages}
        assert stages == {stage.folder for stage in ran.record.stages} and " built " not in service.said


def keys_in(value: Any) -> set[str]:
    """The keys of a table and of the tables in it."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {*(value if isinstance(value, dict) else ())}.union(*map(keys_in, inner))


def test_every_key_is_in_a_recipe() -> None:
    """Fails if a key of the reference is in no recipe of the table."""
    known = {key.rpartition(".")[2] for key in re.findall(r"(?m)^\| `([a-z_.]+)` \| ", render_reference())}
    assert len(known) > 150 and known - keys_in(WHOLE) <= ELSEWHERE


def test_the_short_tier_has_every_family_and_objective() -> None:
    """Fails if one is added that only the long tier trains."""
    models = [table_of(name)["model"] for name in SHORT]
    families = {model.get("family", "bert") for model in models}
    kinds = {
        model.get("objective", {}).get("kind", FAMILIES[model.get("family", "bert")].objective) for model in models
    }
    assert families == FAMILIES.keys() and kinds == OBJECTIVES.keys()
