"""A grid as a flow: a run of the recipe for each cell, as a flow run below its own, and a table on its page."""

from collections.abc import Callable, Mapping, Sequence

from prefect import flow
from prefect.client.schemas.objects import State

from flows.orchestration.pages.markdown import plain, show_markdown, show_table
from flows.orchestration.runs.stage_tasks import closed_when_stopped, flow_or_alone, flow_run_name
from flows.orchestration.runs.tasks import state_of
from flows.orchestration.server.api_recorder import FlowEnd
from flows.recipes.grids import Grid

Row = Mapping[str, str]


def run_grid_flow(grid: Grid, recipe_name: str, run_cell: Callable[[str], Row]) -> list[Row]:
    """Return a row of the table for each cell, in order; each runs inside the grid's flow run.

    If no server answers, the table goes only to the terminal. Raises what a cell raised; what the cells before it
    built is kept.
    """
    ended, names = FlowEnd(), [cell.name for cell in grid.cell]

    @flow(
        name=plain(f"grid {grid.name}"),
        flow_run_name=flow_run_name(f"{recipe_name}: {grid.name}"),
        persist_result=False,
    )
    def cells(grid_name: str, names: Sequence[str]) -> State[list[Row]]:
        """All forms of one recipe."""
        with closed_when_stopped():
            return ended.keep(lambda: state_of(lambda: _all(grid, names, run_cell), lambda rows: f"{len(rows)} cells"))

    return flow_or_alone(ended, lambda: cells(grid.name, names, return_state=True), lambda: _all(grid, names, run_cell))


def _all(grid: Grid, names: Sequence[str], run_cell: Callable[[str], Row]) -> list[Row]:
    rows = list[Row]()
    for name in names:
        rows.append(run_cell(name))
        show_table(f"grid-{grid.name}", rows, grid.title)
    show_markdown(f"grid-{grid.name}-source", plain(f"{grid.source}\n\n{grid.caveat}"), "What was published")
    return rows
