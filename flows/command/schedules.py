"""`cloze serve` and `cloze deploy`: recipes that run on a schedule, from this process or by a work pool's worker."""

import os
from pathlib import Path
from shlex import quote
from typing import Annotated

from cyclopts import Parameter

from corpora.errors import InputError
from flows.command import arguments
from flows.command.arguments import load_recipe
from flows.command.terminal import choose_printer, print_lines
from flows.orchestration.deploy import check_not_served, format_worker_command, render_prefect_yaml, write_prefect_yaml
from flows.orchestration.scheduled_run import build_schedule
from flows.orchestration.serve import serve_recipe
from flows.recipes.recipe import write_recipe


def serve(
    recipe: arguments.RecipeFile,
    *,
    cron: arguments.Cron = None,
    every: arguments.Every = None,
    store: arguments.RecipeStore = None,
    overrides: arguments.Overrides = None,
    workers: arguments.Workers = None,
    engine: arguments.Engine = None,
    run_now: Annotated[bool, Parameter(help="Also run once at the start.", negative=())] = False,
    port: arguments.Port = 4200,
) -> int:
    """Run a recipe on a schedule, with the UI; Ctrl-C stops it.

    Each printed line starts with the time. Lines of a run also have its short id.
    """
    loaded = load_recipe(recipe, None, store, overrides, engine)
    serve_recipe(loaded, cron, every, arguments.find_home(), port, print_lines, store, workers, run_now)


def deploy(
    *recipes: Annotated[str, Parameter(help="Recipe files, or names of those that come with Cloze.")],
    pool: Annotated[str, Parameter(help="The work pool that runs them; its type is process.")],
    cron: arguments.Cron = None,
    every: arguments.Every = None,
    store: arguments.RecipeStore = None,
    overrides: arguments.Overrides = None,
    workers: arguments.Workers = None,
    engine: arguments.Engine = None,
    output: Annotated[Path, Parameter(help="The file to write.")] = Path("prefect.yaml"),
    force: Annotated[bool, Parameter(help="Replace an existing file.", negative=())] = False,
) -> None:
    """Write a prefect.yaml that deploys recipes to a work pool.

    A recipe is refused if a running `cloze serve` uses its name.
    """
    if not recipes:
        raise InputError("Name a recipe, or several: cloze deploy tickets.toml --pool NAME.")
    home = Path(os.environ["CLOZE_HOME"])
    schedule = build_schedule(cron, every) if cron is not None or every is not None else None
    loaded = [load_recipe(recipe, None, store, overrides, engine) for recipe in recipes]
    path = output.resolve()
    check_not_served([recipe.name for recipe in loaded], home, choose_printer(as_json=True))
    write_prefect_yaml(path, render_prefect_yaml(loaded, pool, schedule, path.parent, home, store, workers), force)
    for recipe in loaded:
        write_recipe(recipe)
    print_lines(f"{output}: {', '.join(recipe.name for recipe in loaded)}, for the pool {pool}.")
    print_lines(*(f"  {line}" for line in list_next_steps(output, pool)))


def list_next_steps(output: Path, pool: str) -> list[str]:
    """List the shell commands to run once a prefect.yaml has been written.

    Args:
        output: The path of the prefect.yaml.
        pool: The name of the work pool.
    """
    file = "" if output == Path("prefect.yaml") else f" --prefect-file {quote(output.name)}"
    folder = [] if output.resolve().parent == Path.cwd() else [f"cd {quote(str(output.parent))}"]
    create = f"prefect work-pool create {quote(pool)} --type process"
    return [*folder, create, f"prefect --no-prompt deploy --all{file}", format_worker_command(quote(pool))]
