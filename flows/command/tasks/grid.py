"""`cloze grid`: a recipe in several forms, each trained and, where a suite is named, evaluated; one table of all.

GRID, RECIPE ─► a run for each cell ─► its model ─► the suite ─► a row, next to what was published

The cells share store and lock: the first cell builds what they have in common, and the others reuse it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.command.arguments import load_recipe
from flows.command.tasks.evaluate import evaluate_model
from flows.command.tasks.options import EvaluationAsked, GridAsked
from flows.command.terminal.output import console
from flows.command.terminal.tables import fitted_lines
from flows.orchestration.runs.run_recipe import execute_below
from flows.orchestration.runs.run_state import RunState
from flows.orchestration.server.api_recorder import recorded
from flows.recipes.grids import Cell, Grid, read_grid
from flows.recipes.recipe import Recipe
from flows.run.record.figures import figures_of_run

TEXT, JSON = "grid.txt", "grid.json"
MODEL = ("held-out loss", "held-out accuracy")  # of a cell's model, as far as they are known
Tell = Callable[[str], None]
Row = Mapping[str, str]


def grid_of(asked: GridAsked, home: Path, tell: Tell) -> list[Row]:
    """Run a grid, and write its table into a folder. Raises InputError, and what a run failed with."""
    grid, output, suite = read_grid(asked.grid), asked.output, asked.suite
    cells = {cell.name: cell for cell in grid.cell}
    recipes = {name: _recipe(asked.recipe, asked.overrides or (), cell) for name, cell in cells.items()}
    output.mkdir(parents=True, exist_ok=True)

    def judge(name: str, finished: RunState) -> Row:
        row = {"cell": name, **_figures(finished)}
        if suite is not None:
            row |= _scores(finished, suite, asked.data, output / _folder(name), tell)
        return row | {f"published {what}": _shown(cells[name].published.get(what)) for what in grid.published}

    rows = list[Row]()
    with recorded(home, False, tell, lambda: None):
        from flows.orchestration.runs.stage_tasks import run_flow  # Prefect reads its settings when it is imported

        for name in cells:
            tell(f"Cell {name!r}")
            rows.append(judge(name, execute_below(recipes[name], home, tell, asked.workers, run_flow)))
    lines = list(table_lines(grid, rows))
    (output / TEXT).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    document = {"grid": grid.name, "source": grid.source, "caveat": grid.caveat, "rows": [dict(row) for row in rows]}
    (output / JSON).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells_shown = [names, *([row.get(name, "") for name in names] for row in rows)]
    for line in fitted_lines(lines, 2, len(rows) + 4, cells_shown, console.width):
        tell(line)
    return rows


def _recipe(name: str, overrides: Sequence[str], cell: Cell) -> Recipe:
    """Return the recipe of a cell. Raises InputError where it trains no model."""
    loaded = load_recipe(name, overrides=[*overrides, *(f"{key}={value}" for key, value in cell.set.items())])
    if loaded.model is None:
        raise InputError(f"The recipe {loaded.name!r} has no [model]: a grid compares models, so give it one to train.")
    return loaded


def _folder(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def _figures(finished: RunState) -> dict[str, str]:
    """Return the recorded figures of the model."""
    figures = figures_of_run(finished.place, finished.record) or {}
    return {what: _shown(figure.value) for name, figure in figures.items() for what in MODEL if name.startswith(what)}


def _scores(finished: RunState, suite: str, data: Path | None, output: Path, tell: Tell) -> dict[str, str]:
    """Return the medians of a suite's tasks, of the cell's own model."""
    folder = finished.outcome.model.folder if finished.outcome.model is not None else ""
    place: Place = finished.place
    result = evaluate_model(EvaluationAsked(place.at(folder), suite, data=data, output=output), tell)
    return {f"{row.task} {row.metric}": _shown(row.median) for row in result.rows}


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def table_lines(grid: Grid, rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the table as Markdown, with the source of the published figures, and their limits."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [f"# {grid.title}", "", f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(row.get(name, '') for name in names)} |" for row in rows]
    return [*lines, "", f"Published: {grid.source}.", "", " ".join(grid.caveat.split())]
