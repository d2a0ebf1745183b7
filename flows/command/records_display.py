"""The output of the commands of operations: tables and lines, made of what `flows.run` has read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from corpora.generic_types import Json
from corpora.store.leases import Heartbeat
from corpora.store.places.place import Place
from flows.command.terminal.output import print_json, say
from flows.command.terminal.tables import plain_table
from flows.recipes.privacy import to_one_line, to_printable
from flows.run.inputs.unread_files import describe_set_aside
from flows.run.record.counts_text import describe_progress, format_count, format_seconds
from flows.run.record.ledger_balance import format_bytes
from flows.run.record.releases import Release
from flows.run.record.run_status import ListedRun, StoreStatus, count_new_parts

NONE = "-"
WIDE = 110  # characters: a narrower terminal has two costs of a run in one column
KINDS = 3  # of what was new, by name
STYLES = {"completed": "green", "running": "cyan", "failed": "red", "lost": "red", "interrupted": "yellow"}


def show_runs(states: Sequence[ListedRun], short: Mapping[str, str], width: int) -> Table:
    """Return a table with a row for each run. short: their short ids; width: of the terminal, in characters"""
    costs = _columns((("took", "CPU"), ("written", "memory")), width)
    table = plain_table("run", "began", "recipe", "state", "new", *costs, texts=("began", "recipe", "state", "new"))
    for state in states:
        table.add_row(
            Text(to_printable(short.get(state.run_id, state.run_id))),
            when(state.started),
            Text(to_printable(state.recipe)),
            Text(state.outcome, STYLES.get(state.outcome, STYLES.get(state.state, ""))),
            what_was_new(state),
            *_columns(costs_of(state), width),
        )
    return table


def _columns(pairs: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Return pairs as two columns each, or on a narrow terminal as one of two lines."""
    return [each for pair in pairs for each in pair] if width >= WIDE else ["\n".join(pair) for pair in pairs]


def costs_of(state: ListedRun) -> list[tuple[str, str]]:
    """Return how long a run took with its processor time, and what it has written with its memory."""
    cost = state.record.cost if state.record is not None else None
    took = NONE if state.seconds is None else format_seconds(state.seconds)
    if cost is None:
        return [(took, NONE), (NONE, NONE)]
    sizes = (format_bytes(cost.bytes_written), format_bytes(cost.peak_bytes))
    return [(took, format_seconds(cost.cpu_seconds)), sizes]


def what_was_new(state: ListedRun) -> str:
    """Return what a run built, in a few words."""
    if state.record is None:
        return NONE
    parts = count_new_parts(state.record)
    if not parts:
        return "nothing"
    kinds = list(parts)
    more = f" and {len(kinds) - KINDS} more" if len(kinds) > KINDS else ""
    return f"{format_count(sum(parts.values()), 'part')} of {', '.join(kinds[:KINDS])}{more}"


def status_lines(status: StoreStatus) -> Iterator[str]:
    """Yield what is under way in a store, line by line."""
    if not status.running:
        yield "Nothing runs here now."
    for state in status.running:
        assert state.heartbeat is not None
        yield from running_lines(state, state.heartbeat)
    for present in status.schedules:
        yield schedule_line(present)
    for present in status.waiting:
        yield waiting_line(present)
    for state in status.lost:
        yield (
            f"{to_printable(state.recipe)}: the run that began {when(state.started)} is lost: its process is gone "
            "without a word. What it has finished is kept; run the recipe again to continue from there."
        )
    for state in status.ended:
        kinds = describe_set_aside(state.record.set_aside) if state.record is not None else ""
        aside = f" It goes on without {kinds}; its report names them." if kinds else ""
        began = f"which began {when(state.started)}"
        yield f"{to_printable(state.recipe)}: the newest run, {began}: {state.outcome}.{aside}"


def running_lines(state: ListedRun, present: Heartbeat) -> Iterator[str]:
    """Yield what a run does now."""
    facts, process = present.report, present.process
    workers = format_count(int(facts.get("workers", 0)), "worker")
    where = f"process {process.pid} on {to_printable(process.host)}"
    silence = f", last heard of {format_seconds(present.silent_seconds)} ago" if present.silent_seconds > 60 else ""
    yield f"{to_printable(state.recipe)}: running since {when(state.started)}, {workers}, {where}{silence}"
    stages: Mapping[str, Mapping[str, Any]] = facts.get("stages", {})
    for stage, progress in stages.items():
        yield f"  {to_printable(stage)}: {describe_progress(stage, progress)}"
    if not stages and facts.get("doing"):
        yield f"  {to_printable(str(facts['doing']))}"


def schedule_line(present: Heartbeat) -> str:
    """Return the line of a recipe on a schedule: when it is due next, and how many of its runs wait for their turn."""
    facts = present.report
    due = f"next {when(str(facts['next']))}" if facts.get("next") else "when it is due is not known yet"
    waits = f", {format_count(int(facts['waiting']), 'run')} waiting for the turn" if facts.get("waiting") else ""
    recipe, schedule = (to_printable(str(facts.get(key))) for key in ("recipe", "when"))
    return f"{recipe}: on its schedule, {schedule}; {due}{waits}"


def waiting_line(present: Heartbeat) -> str:
    """Return the line of a release that waits for a person: since when, and where to answer."""
    facts = {key: to_printable(str(value)) for key, value in present.report.items()}
    what = f"the release {facts.get('release')} of the run {facts.get('run')}"
    return f"{facts.get('recipe')}: {what} waits for approval since {when(facts.get('since', ''))}: {facts.get('url')}"


def when(moment: str) -> str:
    """Return a moment of a record in this machine's time."""
    try:
        return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return NONE


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
        table.add_row(*(Text(to_one_line(cell, CELL_CHARACTERS)) for cell in cells))
    return table


def what(entry: Release) -> str:
    """Return what an entry did, in a few words."""
    if entry.action == "rollback":
        return f"back to {entry.back_to}"
    return "released" if entry.approved == "bounds" else "released by approval"


def release_json(place: Place, entry: Release, current: bool) -> dict[str, Json]:
    """Return an entry for scripts. current: whether it is what its name means"""
    return {"store": place.to_address(""), "current": current, **asdict(entry)}


def show_entry(place: Place, entry: Release, as_json: bool) -> None:
    """Print what a name means from now on."""
    if as_json:
        print_json(release_json(place, entry, current=True))
        return
    lines = [f"{entry.name} is number {entry.number} now: the run {entry.run} of {entry.recipe}."]
    lines += [f"  {place.to_address(artifact.folder)}" for artifact in entry.artifacts]
    say(*lines, f"Its address: {place.to_address('').rstrip('/')}@{entry.name}")
