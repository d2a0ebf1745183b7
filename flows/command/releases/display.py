"""Releases on a terminal and in JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from corpora.generic_types import Json
from corpora.store.places.place import Place
from flows.command.operations.display import when
from flows.command.terminal.output import print_json, say
from flows.command.terminal.tables import plain_table
from flows.recipes.settings.privacy import visible
from flows.run.record.releases import Release

CELL_CHARACTERS = 200


def show_releases(entries: Sequence[Release], short: Mapping[str, str]) -> Table:
    """Return the history of some names; the current entry of each has a star. short: short ids of runs"""
    texts = ("release", "when", "who", "what", "reason")
    table = plain_table("release", "number", "when", "who", "what", "run", "reason", texts=texts)
    newest = {entry.name: entry.number for entry in entries}
    for entry in entries:
        name = f"{entry.name} *" if newest[entry.name] == entry.number else entry.name
        run = short.get(entry.run, entry.run)
        cells = (name, str(entry.number), when(entry.when), entry.who, what(entry), run, entry.reason)
        table.add_row(*(Text(visible(cell, CELL_CHARACTERS)) for cell in cells))
    return table


def what(entry: Release) -> str:
    """Return what an entry did, in a few words."""
    if entry.action == "rollback":
        return f"back to {entry.back_to}"
    return "released" if entry.approved == "bounds" else "released by approval"


def release_json(place: Place, entry: Release, current: bool) -> dict[str, Json]:
    """Return an entry for scripts. current: whether it is what its name means"""
    return {"store": place.at(""), "current": current, **asdict(entry)}


def show_entry(place: Place, entry: Release, as_json: bool) -> None:
    """Print what a name means from now on."""
    if as_json:
        print_json(release_json(place, entry, current=True))
        return
    lines = [f"{entry.name} is number {entry.number} now: the run {entry.run} of {entry.recipe}."]
    lines += [f"  {place.at(artifact.folder)}" for artifact in entry.artifacts]
    say(*lines, f"Its address: {place.at('').rstrip('/')}@{entry.name}")
