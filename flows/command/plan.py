"""`cloze plan`: what a run would do to each stage, and what that would cost."""

from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from corpora.store.places.place import Place
from flows.command import arguments
from flows.command.arguments import load_recipe
from flows.command.doctor import describe_engine, find_gpu, find_slow_settings
from flows.command.terminal import build_table, console, print_json, print_lines
from flows.recipes.recipe import Recipe
from flows.run.estimates.capacity import refuse_without_room
from flows.run.estimates.run_estimates import estimate_run
from flows.run.estimates.stage_estimates import Estimates, StageEstimate
from flows.run.inputs.start_model import with_start_model
from flows.run.plan_reach import find_reach
from flows.run.plan_run import RunPlan, plan_recipe
from flows.run.policies import choose_num_workers
from flows.run.record.counts_text import format_seconds
from flows.run.record.ledger_balance import format_bytes
from trainer.settings.narrow import list_narrow_advice

COLUMNS = ("documents", "tokens", "disk", "memory", "CPU", "time")


def plan(
    recipe: arguments.RecipeName = None,
    *,
    source: arguments.Source = None,
    store: arguments.RecipeStore = None,
    overrides: arguments.Overrides = None,
    workers: arguments.Workers = None,
    engine: arguments.Engine = None,
    quick: Annotated[bool, Parameter(help="Skip the sample and the estimates from it.", negative=())] = False,
    as_json: arguments.AsJson = False,
) -> None:
    """Show what a run would build, reuse and cost; build nothing.

    The reason is shown for each stage. Costs are estimated from a sample.
    """
    loaded = load_recipe(recipe, source, store, overrides, engine)
    planned = plan_recipe(loaded, arguments.find_home())
    estimates = estimate_plan(loaded, planned, workers, quick)
    if as_json:
        print_json(
            {
                "inputs": planned.inputs,
                "stages": [entry.to_json() for entry in planned.stages],
                "estimates": estimates.to_json(),
                "engine": describe_engine(loaded.engine),
                "reach": find_reach(loaded),
            }
        )
    else:
        print_plan(console, loaded, planned, estimates)
        print_lines(*describe_engine(loaded.engine))
    refuse_without_room(loaded, estimates)


def estimate_plan(recipe: Recipe, planned: RunPlan, workers: int | None, quick: bool) -> Estimates:
    """Estimate the costs of a run's pipeline stages from a sample of the raw files.

    A stage is, for example, "documents" or "vocabularies".

    Args:
        recipe: The recipe.
        planned: The plan of a run of that recipe.
        workers: The number of worker processes. If None, the number that the run would use.
        quick: True to skip the sample, and return empty estimates.

    Raises:
        FileFault: If a raw file cannot be divided into slices for the sample.
        InputError: If a labeled file is missing.
    """
    if quick:
        return Estimates(stages=())

    workers = workers or choose_num_workers(planned.lock.raw_bytes)
    return estimate_run(Place(recipe.store), recipe, planned.lock, planned.stages, workers)


def print_plan(console: Console, recipe: Recipe, planned: RunPlan, estimates: Estimates) -> None:
    """Print a plan: each pipeline stage and why it is built or reused, the estimated costs, and warnings.

    Args:
        console: Where to print.
        recipe: The recipe.
        planned: The plan of a run of that recipe.
        estimates: The estimated costs; empty estimates are not printed.
    """
    for line in planned.notes:
        console.print(line, markup=False)
    stages = build_table("stage", "state", "parts", "reason", texts=("stage", "state", "reason"))
    for entry in planned.stages:
        parts = f"{entry.missing} of {entry.parts}" if entry.missing else ""
        stages.add_row(*map(Text, (entry.stage, entry.state, parts, entry.reason)))
    console.print(stages)
    for entry in planned.stages:
        if entry.notice:
            console.print(entry.notice, markup=False)
    if estimates.stages:
        console.print()
        console.print(build_estimates_table(estimates))
        for line in estimates.basis:
            console.print(line, markup=False)
    if estimates.stops:
        console.print("With these rules the run would stop:")
        for line in estimates.stops:
            console.print(f"  {line}", markup=False)
    if recipe.model:
        asked, _ = with_start_model(recipe, planned.lock)
        for line in find_slow_settings(asked, find_gpu()):
            console.print(f"Slow on this machine: {line}", markup=False)
        for line in find_narrow_settings(asked):
            console.print(f"Learns little: {line}", markup=False)
    for what, entries in find_reach(recipe).items():
        if entries:
            console.print(f"This recipe {what}: {'; '.join(entries)}", markup=False)


def find_narrow_settings(recipe: Recipe) -> list[str]:
    """List the settings that would keep a recipe's narrow model from learning much, with one line for each."""
    assert recipe.model is not None
    lengths = {entry.name: entry.settings.length for entry in recipe.shards}
    phases = zip(recipe.model.training.phase, recipe.model.phases, strict=True)
    tokens = [phase.steps * phase.batch * max(lengths[name] for name in names) for phase, names in phases]
    return list_narrow_advice(recipe.model.settings, recipe.model.training, sum(tokens) if all(tokens) else None)


def build_estimates_table(estimates: Estimates) -> Table:
    """Build a table of cost estimates, with one row per stage to build and a last row for the whole run."""
    table = build_table("to be built", *COLUMNS)
    for stage in estimates.stages:
        table.add_row(*map(Text, _format_cells(stage)))
    table.add_row(*(Text(cell, "bold") for cell in _format_cells(estimates.run)))
    return table


def _format_cells(stage: StageEstimate) -> tuple[str, ...]:
    """Format the cost estimates of a stage as the cells of a table row.

    The cells are the name, documents, tokens, disk space, memory, CPU time, and duration.
    """
    counts = (f"{count:,}" if count is not None else "" for count in (stage.documents, stage.tokens))
    sizes = (format_bytes(size) for size in (stage.disk_bytes, stage.memory_bytes))
    return (stage.stage, *counts, *sizes, format_seconds(stage.cpu_seconds), format_seconds(stage.seconds))
