"""`cloze release`, `releases` and `rollback`: names for what runs built."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from corpora.generic_types import Json
from corpora.store.places.place import Place
from flows.command import arguments
from flows.command.arguments import load_recipe
from flows.command.runs import format_moment
from flows.command.terminal import build_table, choose_printer, console, print_json, print_lines
from flows.maintenance.release import ApprovalDecision, find_newest_run, find_run_at, prepare_candidate
from flows.orchestration.approval import ask_person
from flows.recipes.privacy import to_one_line
from flows.run.addresses import is_run_id, shorten_run_ids
from flows.run.record.releases import Release, list_release_names, read_current_release, read_history, roll_back
from flows.run.record.run_record import list_run_ids

CELL_CHARACTERS = 200


Reason = Annotated[str, Parameter(help="The reason; it is recorded with the release.")]


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
    """Release the results of a run under a name.

    Its files are verified first. Figures outside the recipe's bounds need the approval of a person.
    """
    if "/runs/" in run or (is_run_id(run) and not Path(run).exists()):
        recipe, record = find_run_at(run, store or "store")
    else:
        recipe = load_recipe(run, store=store)
        record = find_newest_run(recipe)
    promotion = prepare_candidate(recipe, record, name)
    tell = choose_printer(as_json=True)  # the history's entry has standard output
    verdict = None
    for crossing in promotion.crossed:
        tell(f"A bound is crossed: {crossing}.")
    if promotion.crossed and approve is not None:
        verdict = ApprovalDecision(approved=True, reason=approve)
    elif promotion.crossed:
        verdict = ask_person(promotion, Path(os.environ["CLOZE_HOME"]), port, wait, tell)
    if verdict is not None and not verdict.approved:
        tell(f"Not released: {verdict.reason or 'rejected'}{f' ({verdict.who})' if verdict.who else ''}.")
        return 1
    print_entry(promotion.place, promotion.release(reason, verdict), as_json)
    return 0


def releases(
    store: arguments.StoreAddress = "store",
    *,
    name: Annotated[str | None, Parameter(help="Show only the history of this name.")] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """List the releases: name, time, person, reason.

    A star marks the current release of each name.
    """
    place = Place(store)
    if name is not None:
        read_current_release(place, name)
    histories = [read_history(place, one) for one in ([name] if name is not None else list_release_names(place))]
    if as_json:
        listed = [build_release_json(place, entry, entry is entries[-1]) for entries in histories for entry in entries]
        print_json(listed)
    elif not histories:
        print_lines(f"Nothing was released in {place.to_address('')}: `cloze release RECIPE --name NAME`.")
    else:
        shown = [entry for entries in histories for entry in entries]
        run_ids = dict.fromkeys([*list_run_ids(place), *(entry.run for entry in shown)])
        console.print(build_releases_table(shown, shorten_run_ids([*run_ids])))


def rollback(
    name: Annotated[str, Parameter(help="The name of a release.")],
    *,
    store: arguments.StoreAddress = "store",
    to: Annotated[arguments.Count | None, Parameter(help="The number to go back to; default: the one before.")] = None,
    reason: Reason = "",
    as_json: arguments.AsJson = False,
) -> None:
    """Point a name back to an earlier release.

    Both stay in the history.
    """
    place = Place(store)
    print_entry(place, roll_back(place, name, to, reason), as_json)


def build_releases_table(entries: Sequence[Release], short: Mapping[str, str]) -> Table:
    """Build a table of releases, with a star at the current release of each name.

    Args:
        entries: The releases. Those with the same name must be ordered from oldest to newest.
        short: The short id of each run, by full id.
    """
    texts = ("release", "when", "who", "what", "reason")
    table = build_table("release", "number", "when", "who", "what", "run", "reason", texts=texts)
    newest = {entry.name: entry.number for entry in entries}
    for entry in entries:
        name = f"{entry.name} *" if newest[entry.name] == entry.number else entry.name
        run = short.get(entry.run, entry.run)
        cells = (
            name,
            str(entry.number),
            format_moment(entry.when),
            entry.who,
            describe_action(entry),
            run,
            entry.reason,
        )
        table.add_row(*(Text(to_one_line(cell, CELL_CHARACTERS)) for cell in cells))
    return table


def describe_action(entry: Release) -> str:
    """Describe how a release came about: "released", "released by approval", or "back to N"."""
    if entry.action == "rollback":
        return f"back to {entry.back_to}"
    return "released" if entry.approved == "bounds" else "released by approval"


def build_release_json(place: Place, entry: Release, current: bool) -> dict[str, Json]:
    """Build the JSON object of a release, with the keys "store" (its address), "current", and the fields of `Release`.

    Args:
        place: The store that contains the release.
        entry: The release.
        current: True if it is the current release of its name.
    """
    return {"store": place.to_address(""), "current": current, **asdict(entry)}


def print_entry(place: Place, entry: Release, as_json: bool) -> None:
    """Print a new release: its run, the stored stage results that it contains, and its address.

    Args:
        place: The store that contains the release.
        entry: The release.
        as_json: True to print JSON.
    """
    if as_json:
        print_json(build_release_json(place, entry, current=True))
        return
    lines = [f"{entry.name} is number {entry.number} now: the run {entry.run} of {entry.recipe}."]
    lines += [f"  {place.to_address(artifact.folder)}" for artifact in entry.artifacts]
    print_lines(*lines, f"Its address: {place.to_address('').rstrip('/')}@{entry.name}")
