"""`cloze runs`, `cloze status`, `cloze gc`: what ran in a store, what runs there now, what it no longer needs.

Each command imports what it needs when it runs.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from corpora.errors import InputError
from flows.command.arguments import AsJson, Count, Days, Position, StoreAddress
from flows.command.terminal.output import console, print_json, say

if TYPE_CHECKING:
    from corpora.store.places.place import Place

operations_app = App(name="operations")


@operations_app.command
def runs(
    of: Annotated[str, Parameter(name="store", help="A store, or a recipe: then only its runs.")] = "store",
    *,
    limit: Annotated[
        Position, Parameter(name=("--limit", "-n"), help="List at most this many runs; 0 lists all.")
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """List the runs of a store, newest first.

    Each line has a short id, which every command that takes a run understands; when the run began, its state, what
    was new, how long it took, and what it cost: processor time, bytes written, and the most memory.
    """
    from flows.command.records_display import show_runs
    from flows.run.addresses import shorten_run_ids
    from flows.run.record.run_status import list_run_files, list_runs

    place, recipe = _store_or_recipe(of)
    states = list_runs(place, recipe, limit or None)
    if as_json:
        print_json([state.to_json() for state in states])
        return
    _refuse_no_store(place)
    if not states:
        say("No run is on record here.")
        return
    console.print(show_runs(states, shorten_run_ids(list(list_run_files(place))), console.width))


@operations_app.command
def status(store: StoreAddress = "store", *, as_json: AsJson = False) -> None:
    """Show what runs now in a store, how far it is, and what waits.

    For each stage of a run: how far it is, how fast, and the time left.
    """
    from flows.command.records_display import status_lines
    from flows.run.record.run_status import read_store_status

    place = _place(store)
    current = read_store_status(place)
    if as_json:
        print_json(current.to_json())
        return
    say(*status_lines(current))


@operations_app.command
def gc(
    store: StoreAddress = "store",
    *,
    delete: Annotated[bool, Parameter(help="Remove it; otherwise it is only shown.", negative=())] = False,
    dry_run: Annotated[bool, Parameter(help="Only show what would go, as without --delete.", negative=())] = False,
    keep: Annotated[Count, Parameter(help="Keep the artifacts of this many completed runs of each recipe.")] = 3,
    days: Annotated[
        Days | None,
        Parameter(name="--keep-days", help="Also keep what was among those in this many days; default: 0, on s3:// 7."),
    ] = None,
    keep_runs: Annotated[Count, Parameter(help="Keep the records of this many runs of each recipe.")] = 500,
    as_json: AsJson = False,
) -> None:
    """Show what a store no longer needs; --delete removes it.

    What a run, a release or a reader needs stays.
    """
    from flows.command.gc import collect

    if delete and dry_run:
        raise InputError("--delete and --dry-run contradict each other: give one of them.")
    collect(_place(store), keep, days, keep_runs, delete, as_json)


def _place(store: str) -> "Place":
    """Return the store at an address. Raises InputError if there is none."""
    from corpora.store.places.place import Place

    place = Place(store)
    _refuse_no_store(place)
    return place


def _refuse_no_store(place: "Place") -> None:
    if place.is_local and not Path(place.to_full_path("")).is_dir():
        raise InputError(
            f"There is no store at {place.to_address('')}. Give a store's folder or address; `cloze run` prints it."
        )


def _store_or_recipe(of: str) -> "tuple[Place, str | None]":
    """Return a store, and the name of the recipe where one was given instead. Raises InputError."""
    from corpora.store.places.place import Place

    if not Path(of).is_dir():
        from flows.recipes.recipe import (  # with all sources and steps
            load_shipped_recipe,
            read_recipe,
            read_shipped_recipes,
        )

        if Path(of).is_file() or of in read_shipped_recipes():
            recipe = read_recipe(Path(of)) if Path(of).is_file() else load_shipped_recipe(of, Path.cwd(), {})
            return Place(recipe.store), recipe.name
    return _place(of), None
