"""Files that a recipe was given and does not read are reported."""

import json
from pathlib import Path
from typing import Any

import pytest

from corpora.sources.contract import StatCache
from corpora.sources.passed_over import FileGroup
from flows.command.cli import run_command_line
from flows.command.preview import inspect_source
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.inputs.raw_files import describe_inputs
from flows.run.inputs.unread_files import build_unread_json, describe_groups, describe_unread, read_unread_json

RECIPE = 'store = "store"\n[[source]]\nkind = "files"\nname = "mixed"\npath = "raw"\n'
SAID = "mixed: not read: 3 .doc (1.doc, 2.doc, 3.doc), 3 .ppt (1.ppt, 2.ppt, 3.ppt)."

HOW = ("mixed: A .doc is read when it is saved as .docx.", "mixed: A .ppt is read when it is saved as .pptx.")


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A recipe over one text, three .ppt and three .doc."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("A text.")
    for number in (1, 2, 3):
        (tmp_path / "raw" / f"{number}.ppt").touch()
        (tmp_path / "raw" / f"{number}.doc").touch()
    (tmp_path / "mixed.toml").write_text(RECIPE)
    return tmp_path / "mixed.toml"


def _recipe(path: Path, **overrides: str) -> Recipe:
    return parse_recipe(path.read_text(), path, overrides)


def test_the_plan_names_what_is_not_read(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a folder of seven files is said to hold one, or where a program that reads the plan is not told."""
    assert run_command_line(["plan", str(mixed)], mixed.parent) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(f"1 raw file: 1 of mixed. {SAID}")
    assert run_command_line(["plan", str(mixed), "--json"], mixed.parent) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["inputs"]["mixed"]["num_passed_over"] == 6 and told["stages"][0]["stage"] == "documents/mixed"


def test_a_preview_names_what_is_not_read(mixed: Path) -> None:
    recipe = _recipe(mixed)
    assert inspect_source(recipe, recipe.sources[0]).lines == (SAID, *HOW)


def test_names_of_files_are_private_like_texts(mixed: Path) -> None:
    """Fails if the name of a person is in a line or a record of a recipe that shows no text."""
    recipe = _recipe(mixed, **{"privacy.samples": "none"})
    resolved = resolve_raw_files(recipe, Lock(), StatCache())
    assert describe_inputs(recipe, resolved)[1:] == ["mixed: not read: 3 .doc, 3 .ppt.", *HOW]
    assert "1.ppt" not in json.dumps(build_unread_json(resolved.unread, "none"))
    looked = read_unread_json(json.loads(json.dumps(build_unread_json(resolved.unread, "text"))))
    assert describe_unread(looked, "text") == [SAID, *HOW]
    many = [FileGroup(kind=f".{number}", number=2, names=("a", "b")) for number in range(20)]
    assert describe_groups(many, False).endswith(".7, 24 of 12 other kinds")


def test_the_store_inside_of_a_folder_is_no_input(mixed: Path) -> None:
    """Fails if `--source .` takes the reports of its own runs for raw files, and counts its tables as not read."""
    folder = mixed.parent
    (folder / "store" / "runs" / "1").mkdir(parents=True)
    (folder / "store" / "runs" / "1" / "report.html").write_text("<p>A report.</p>")
    (folder / "store" / "documents").mkdir()
    (folder / "store" / "documents" / "part.arrow").touch()
    recipe = _recipe(mixed, **{"source.mixed.path": str(folder)})
    resolved = resolve_raw_files(recipe, Lock(), StatCache())
    assert [file.name for file in resolved.added["mixed"]] == ["raw/a.txt"]
    assert {group.kind for group in resolved.unread["mixed"].passed_over} == {".doc", ".ppt", ".toml"}
    inside = _recipe(mixed, **{"store": str(folder)})  # a store around the raw files hides none of them
    assert [file.name for file in resolve_raw_files(inside, Lock(), StatCache()).added["mixed"]] == ["a.txt"]
