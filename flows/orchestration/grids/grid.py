"""A grid of one recipe, as one flow with a run below it for each cell.

The cells share store and lock: the first cell builds what they have in common, and the others reuse it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from flows.orchestration.runs.run_recipe import execute_below
from flows.orchestration.runs.run_state import RunState, Tell
from flows.orchestration.server.api_recorder import recorded
from flows.recipes.grids import Grid
from flows.recipes.recipe import Recipe

Row = Mapping[str, str]


def run_grid(
    grid: Grid,
    recipes: Mapping[str, Recipe],
    home: Path,
    tell: Tell,
    workers: int | None,
    judge: Callable[[str, RunState], Row],
) -> list[Row]:
    """Run every cell, and judge it when it is done; return the rows of the table.

    recipes: by cell; judge: makes the row of a cell from its finished run
    Raises InputError for what the user can fix, and whatever a run failed with.
    """
    name = next(iter(recipes.values())).name

    with recorded(home, False, tell):
        from flows.orchestration.grids.grid_flow import run_grid_flow  # Prefect reads its settings when it is imported
        from flows.orchestration.runs.stage_tasks import run_flow

        def run_cell(cell: str) -> Row:
            tell(f"Cell {cell!r}")
            return judge(cell, execute_below(recipes[cell], home, tell, workers, run_flow))

        return run_grid_flow(grid, name, run_cell)
