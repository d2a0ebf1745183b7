"""A run on record in a store that tests have built: `record(run, "20260102T000000483910-small")`."""

from small_recipe import Run

from flows.run.record.figures import figures_at_end, keep_figures
from flows.run.record.run_record import RunRecord, StageRecord, begin_run, write_run


def record(run: Run, run_id: str) -> None:
    """Put a run that built the artifacts of the store on record, with its figures."""
    stages = tuple(
        StageRecord(
            kind=m.kind, name=m.name, folder=m.folder, state="built", reason="new", seconds=1.0, parts=1, parts_built=1
        )
        for m in run.manifests
    )
    recipe = run.recipe
    made = RunRecord(
        run_id=run_id, recipe=recipe.name, recipe_path=str(recipe.path), recipe_toml=recipe.text, stages=stages,
        started="2026-01-01T00:00:00+00:00", seconds=1.0, workers=1, state="completed",
    )  # fmt: skip
    begin_run(run.place, run_id, recipe)
    write_run(run.place, made, run.lock)
    keep_figures(run.place, made, figures_at_end(run.place, made))
