"""Releases on a terminal and in JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from corpora.store.manifest import Json
from corpora.store.places.place import Place
from flows.command.terminal.output import say
from flows.recipes.settings.privacy import visible
from flows.run.record.releases import Release

CELL_CHARACTERS = 200


def show_releases(entries: Sequence[Release]) -> Table:
    """Return the history of some names; the current entry of each has a star."""
    table = Table(box=None, pad_edge=False)
    for head in ("release", "number", "when", "who", "what", "run", "reason"):
        table.add_column(head, overflow="fold")
    newest = {entry.name: entry.number for entry in entries}
    for entry in entries:
        star = " *" if newest[entry.name] == entry.number else ""
        cells = (f"{entry.name}{star}", str(entry.number), entry.when, entry.who, what(entry), entry.run, entry.reason)
        table.add_row(*(visible(cell, CELL_CHARACTERS).replace("[", r"\[") for cell in cells))
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
        print(json.dumps(release_json(place, entry, current=True), indent=1))
        return
    lines = [f"{entry.name} is number {entry.number} now: the run {entry.run} of {entry.recipe}."]
    lines += [f"  {place.at(artifact.folder)}" for artifact in entry.artifacts]
    say(*lines, f"Its address: {place.at('').rstrip('/')}@{entry.name}")
