"""Grids: one recipe in several forms; what they share is built once, and a table tells of all."""

import json
from pathlib import Path

import pytest
from small_recipe import RECIPE, fill, new_world

from corpora.errors import InputError
from corpora.store.stage import list_manifests
from flows.command.tasks.grid import grid_of, table_lines
from flows.command.tasks.options import GridAsked
from flows.command.terminal.help import JSON_KEYS
from flows.recipes.grids import read_grid, shipped_grids
from flows.recipes.recipe import parse_recipe

CELLS = """
title = "Lengths"
source = "nobody"
caveat = "Small."

[[cell]]
name = "short"
set = { "shards.length" = "32" }

[[cell]]
name = "as it comes"
published = { "average" = 79.0 }
"""


def test_the_grids_that_come_with_the_program_are_recipes(tmp_path: Path) -> None:
    """Fails where a cell sets a key that recipes do not have, or to a value that is none."""
    assert shipped_grids() == ["masking", "sentence-loss"]
    for name in shipped_grids():
        grid = read_grid(name)
        found = [parse_recipe(RECIPE, tmp_path / "base.toml", cell.set).shards for cell in grid.cell]
        assert len({str(shards) for shards in found}) == len(grid.cell) and grid.source and grid.caveat
        assert all(cell.published for cell in grid.cell)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has the cells none: give two or more"),
        ('[[cell]]\nname = "a"\n[[cell]]\nname = "a"\n', "has the cells 'a', 'a': give two or more"),
        ('[[cells]]\nname = "a"\n', "has no key 'cells': did you mean 'cell'"),
        ("title = ", "is not TOML"),
    ],
)
def test_a_grid_that_is_none_is_told(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(InputError, match=told):
        read_grid(str(tmp_path / "grid.toml"))
    with pytest.raises(InputError, match=r"There is no grid nowhere .* or one of masking, sentence-loss"):
        read_grid("nowhere")


def test_a_recipe_without_a_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(RECIPE)
    asked = GridAsked("masking", str(tmp_path / "base.toml"), output=tmp_path / "out")
    with pytest.raises(InputError, match=r"The recipe 'small' has no \[model\]: a grid compares models"):
        grid_of(asked, tmp_path, print)
    assert not (tmp_path / "out").exists()


def test_the_table_stands_over_its_caveat(tmp_path: Path) -> None:
    (tmp_path / "lengths.toml").write_text(CELLS)
    rows = [{"cell": "short", "loss": "3.1"}, {"cell": "as it comes", "loss": "3", "published average": "79"}]
    assert table_lines(read_grid(str(tmp_path / "lengths.toml")), rows) == [
        *("# Lengths", "", "| cell | loss | published average |", "|---|---|---|", "| short | 3.1 |  |"),
        *("| as it comes | 3 | 79 |", "", "Published: nobody.", "", "Small."),
    ]


@pytest.mark.slow
@pytest.mark.server
def test_the_cells_of_a_grid_are_runs(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Fails where a cell trains the model of another, or builds again what both share."""
    pytest.importorskip("torch", reason="the trainer is not installed")
    from launched import cloze
    from test_run_training import MODEL

    site = request.getfixturevalue("site")
    world = fill(new_world(tmp_path / "world", MODEL.replace("steps = 60", "steps = 4") + RECIPE))
    (tmp_path / "lengths.toml").write_text(CELLS)
    command = ["grid", str(tmp_path / "lengths.toml"), str(world.recipe_path), "--output", str(tmp_path / "out")]
    done = cloze(site.home, *command, "--workers", "1", api=site.api)
    assert done.returncode == 0, done.stdout
    found = json.loads((tmp_path / "out" / "grid.json").read_text())
    assert list(found) == JSON_KEYS["grid"].split()
    assert [row["cell"] for row in found["rows"]] == ["short", "as it comes"]
    losses = [float(row["held-out loss"]) for row in found["rows"]]
    assert len({*losses}) == 2 and found["rows"][1]["published average"] == "79"
    names = {"corpora": "small", "tokens": "small", "shards": "small", "models": "small"}
    numbers = {kind: len(list_manifests(world.place, kind, name)) for kind, name in names.items()}
    assert numbers == {"corpora": 1, "tokens": 1, "shards": 2, "models": 2}
