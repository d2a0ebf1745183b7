"""`cloze release`, `releases`, `rollback` and `deploy`: each calls one module, and shows the result."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from flows.command import arguments
from flows.command.arguments import load_recipe
from flows.command.terminal.output import console, print_json, say, teller

releases_app = App(name="releases-and-deployments")

Reason = Annotated[str, Parameter(help="The reason; it is recorded with the release.")]


@releases_app.command
def release(
    run: Annotated[
        str, Parameter(help="A recipe: its newest complete run; a run's id, short or whole; or STORE/runs/RUN.")
    ],
    *,
    name: Annotated[str, Parameter(help="The name to release it under.")],
    store: arguments.RecipeStore = None,
    reason: Reason = "",
    approve: Annotated[
        str | None, Parameter(help="Release it for this reason although bounds are crossed; else the UI asks a person.")
    ] = None,
    wait: Annotated[
        arguments.Seconds, Parameter(help="Seconds to wait for an answer; after that, it is rejected.")
    ] = 86_400,
    port: arguments.Port = 4200,
    as_json: arguments.AsJson = False,
) -> int:
    """Give what a run built a name to use it by.

    Its files are verified first. Figures outside the recipe's bounds need the approval of a person.
    """
    from flows.command.records_display import show_entry
    from flows.maintenance.release import PersonsWord, promotion_of, run_at, run_of_recipe
    from flows.run.addresses import is_run_id

    if "/runs/" in run or (is_run_id(run) and not Path(run).exists()):
        recipe, record = run_at(run, store or "store")
    else:
        recipe = load_recipe(run, store=store)
        record = run_of_recipe(recipe)
    promotion = promotion_of(recipe, record, name)
    tell = teller(as_json=True)  # the history's entry has standard output
    verdict = None
    for crossing in promotion.crossed:
        tell(f"A bound is crossed: {crossing}.")
    if promotion.crossed and approve is not None:
        verdict = PersonsWord(approved=True, reason=approve)
    elif promotion.crossed:
        from flows.orchestration.approval import ask_a_person

        verdict = ask_a_person(promotion, Path(os.environ["CLOZE_HOME"]), port, wait, tell)
    if verdict is not None and not verdict.approved:
        tell(f"Not released: {verdict.reason or 'rejected'}{f' ({verdict.who})' if verdict.who else ''}.")
        return 1
    show_entry(promotion.place, promotion.release(reason, verdict), as_json)
    return 0


@releases_app.command
def releases(
    store: arguments.StoreAddress = "store",
    *,
    name: Annotated[str | None, Parameter(help="Show only the history of this name.")] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """List the releases: name, time, person, reason.

    A star marks what a name means now.
    """
    from corpora.store.places.place import Place
    from flows.command.records_display import release_json, show_releases
    from flows.run.addresses import shorten_run_ids
    from flows.run.record.releases import list_release_names, read_current_release, read_history
    from flows.run.record.run_record import list_run_ids

    place = Place(store)
    if name is not None:
        read_current_release(place, name)
    histories = [read_history(place, one) for one in ([name] if name is not None else list_release_names(place))]
    if as_json:
        listed = [release_json(place, entry, entry is entries[-1]) for entries in histories for entry in entries]
        print_json(listed)
    elif not histories:
        say(f"Nothing was released in {place.to_address('')}: `cloze release RECIPE --name NAME`.")
    else:
        shown = [entry for entries in histories for entry in entries]
        run_ids = dict.fromkeys([*list_run_ids(place), *(entry.run for entry in shown)])
        console.print(show_releases(shown, shorten_run_ids([*run_ids])))


@releases_app.command
def rollback(
    name: Annotated[str, Parameter(help="The name of a release.")],
    *,
    store: arguments.StoreAddress = "store",
    to: Annotated[arguments.Count | None, Parameter(help="The number to go back to; default: the one before.")] = None,
    reason: Reason = "",
    as_json: arguments.AsJson = False,
) -> None:
    """Point a name back to an earlier release.

    The history keeps both.
    """
    from corpora.store.places.place import Place
    from flows.command.records_display import show_entry
    from flows.run.record.releases import roll_back

    place = Place(store)
    show_entry(place, roll_back(place, name, to, reason), as_json)


@releases_app.command
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
    """Write a prefect.yaml: recipes as deployments of a work pool.

    A recipe that a running `cloze serve` holds under the same name is refused.
    """
    from corpora.errors import InputError
    from flows.orchestration.deploy import prefect_yaml, refuse_served, write_prefect_yaml
    from flows.orchestration.scheduled_run import timetable
    from flows.recipes.recipe import write_recipe

    if not recipes:
        raise InputError("Name a recipe, or several: cloze deploy tickets.toml --pool NAME.")
    home = Path(os.environ["CLOZE_HOME"])
    schedule = timetable(cron, every) if cron is not None or every is not None else None
    loaded = [load_recipe(recipe, None, store, overrides, engine) for recipe in recipes]
    path = output.resolve()
    refuse_served([recipe.name for recipe in loaded], home, teller(as_json=True))
    write_prefect_yaml(path, prefect_yaml(loaded, pool, schedule, path.parent, home, store, workers), force)
    for recipe in loaded:
        write_recipe(recipe)
    say(f"{output}: {', '.join(recipe.name for recipe in loaded)}, for the pool {pool}.")
    say(*(f"  {line}" for line in next_steps(output, pool)))


def next_steps(output: Path, pool: str) -> list[str]:
    """Return the next steps after the file, as commands."""
    from shlex import quote

    from flows.orchestration.deploy import worker_command

    file = "" if output == Path("prefect.yaml") else f" --prefect-file {quote(output.name)}"
    folder = [] if output.resolve().parent == Path.cwd() else [f"cd {quote(str(output.parent))}"]
    create = f"prefect work-pool create {quote(pool)} --type process"
    return [*folder, create, f"prefect --no-prompt deploy --all{file}", worker_command(quote(pool))]
