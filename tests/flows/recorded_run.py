"""A run on record in a store that tests have built: `record(run, "20260102T000000483910-small")`."""

from dataclasses import replace
from typing import Any

from small_recipe import Run

from flows.recipes.recipe import Recipe
from flows.run.record.figures import compute_final_figures, write_figures
from flows.run.record.run_record import RunRecord, begin_run, write_run


def made_record(run_id: str, **fields: Any) -> RunRecord:
    """A record of a completed run, made up where nothing else is said."""
    usual = {
        "recipe": "small", "recipe_path": "", "recipe_toml": "", "started": "2026-01-01T00:00:00+00:00",
        "seconds": 1.0, "workers": 1, "state": "completed", "stages": (),
    }  # fmt: skip
    return RunRecord(run_id=run_id, **{**usual, **fields})


def of_recipe(run_id: str, recipe: Recipe, **fields: Any) -> RunRecord:
    """The same, of a recipe."""
    path, text = str(recipe.path), recipe.text
    return made_record(
        run_id, recipe=recipe.name, recipe_path=path, recipe_toml=text, overrides=recipe.overrides, **fields
    )


def record(run: Run, run_id: str) -> None:
    """Put a run that built the artifacts of the store on record, with its figures."""
    made = replace(run.record, run_id=run_id)
    begin_run(run.place, run_id, run.recipe)
    write_run(run.place, made, run.lock)
    write_figures(run.place, made, compute_final_figures(run.place, made))
