"""`cloze runs`, `status` and `report`: what ran in a store, what runs there now, and the page of a run."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from corpora.errors import InputError
from corpora.store.leases import Heartbeat
from corpora.store.places.place import Place
from flows.command import arguments
from flows.command.arguments import AsJson, Position, StoreAddress
from flows.command.terminal import build_table, console, print_json, print_lines
from flows.recipes.lock import Lock
from flows.recipes.privacy import to_printable
from flows.run.addresses import RUNS_FOLDER, resolve_run_id, shorten_run_ids, split_address
from flows.run.inputs.unread_files import describe_set_aside
from flows.run.record.counts_text import describe_progress, format_count, format_seconds
from flows.run.record.ledger_balance import format_bytes
from flows.run.record.run_record import (
    DamagedRun,
    iter_newest_runs,
    list_run_ids,
    print_to_stderr,
    read_recorded_lock,
    read_recorded_recipe,
    read_run,
)
from flows.run.record.run_status import (
    ListedRun,
    StoreStatus,
    count_new_parts,
    list_run_files,
    list_runs,
    read_store_status,
)

NO_VALUE = "-"
WIDE_COLUMNS = 110  # characters: a narrower terminal has two costs of a run in one column
MAX_KINDS = 3  # of what was new, by name
STYLES = {"completed": "green", "running": "cyan", "failed": "red", "lost": "red", "interrupted": "yellow"}


def runs(
    of: Annotated[str, Parameter(name="store", help="A store, or a recipe: then only its runs.")] = "store",
    *,
    limit: Annotated[
        Position, Parameter(name=("--limit", "-n"), help="List at most this many runs; 0 lists all.")
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """List the runs of a store, newest first.

    Each line has a short id, which all commands that take a run accept. It also shows when the run began, its state,
    what was new, how long it took, and what it cost: CPU time, bytes written, and peak memory.
    """
    place, recipe = _find_store_and_recipe(of)
    states = list_runs(place, recipe, limit or None)
    if as_json:
        print_json([state.to_json() for state in states])
        return
    _check_store_exists(place)
    if not states:
        print_lines("No run is on record here.")
        return
    console.print(build_runs_table(states, shorten_run_ids(list(list_run_files(place))), console.width))


def status(store: StoreAddress = "store", *, as_json: AsJson = False) -> None:
    """Show what is running in a store, its progress, and what waits.

    For each stage of a run, shows its progress, its speed, and the time left.
    """
    place = find_store(store)
    current = read_store_status(place)
    if as_json:
        print_json(current.to_json())
        return
    print_lines(*iter_status_lines(current))


def report(
    address: Annotated[str, Parameter(help="A store, or a run's folder (STORE/runs/RUN).")] = "store",
    *,
    run_id: Annotated[str | None, Parameter(name="--run", help="Its id, short or whole; default: the newest.")] = None,
    output: Annotated[Path | None, Parameter(help="Where to write it; default: next to the run's record.")] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Write the HTML report of a run, and print its path."""
    path = write_report(address, run_id, output)
    if as_json:
        print_json({"report": path})
    else:
        print_lines(f"Report: {quote(path)}")


def write_report(address: str, run_id: str | None, output: Path | None) -> str:
    """Write the HTML report of a recorded run, and return the report's path or URL.

    Args:
        address: A store, or a run's folder in a store.
        run_id: The id of the run, short or full. If None, the run at `address` is used or, if that is a store, its
            newest run.
        output: The file to write. If None, the report is written next to the run's record.

    Raises:
        InputError: If there is no such run, or its recipe is no longer valid.
        DamagedRun: If the record of the run that `run_id` or `address` names is damaged.
    """
    from flows.report.page import build_page  # with templates, which lists do not need

    place, inside = split_address(address)
    if run_id is None and inside.startswith(f"{RUNS_FOLDER}/"):
        run_id = inside.split("/")[1]
    if not list_run_ids(place):
        raise InputError(f"There is no recorded run in {place.to_address('')}: `cloze run` records one.")
    record = (
        read_run(place, resolve_run_id(run_id, place)) if run_id is not None else next(iter_newest_runs(place), None)
    )
    if record is None:
        raise InputError(f"The record of every run in {place.to_address('')} is damaged: run the recipe once more.")
    samples = read_recorded_recipe(record, place.address).privacy.samples
    page = build_page(place, record, samples, _read_run_lock(place, record.run_id))
    if output is not None:
        output.write_text(page, encoding="utf-8")
        return str(output)
    path = f"runs/{record.run_id}/report.html"
    place.write(path, page.encode())
    return place.to_address(path)


def _read_run_lock(place: Place, run_id: str) -> Lock | None:
    """Read the lock file of a recorded run, which lists its raw files.

    If the file is damaged, prints a warning on standard error and returns None.

    Args:
        place: The store.
        run_id: The full id of the run.
    """
    try:
        return read_recorded_lock(place, run_id)
    except DamagedRun as fault:
        print_to_stderr(f"{fault.path} is damaged: {fault.what}. The report names no raw files.")
        return None


def build_runs_table(states: Sequence[ListedRun], short: Mapping[str, str], width: int) -> Table:
    """Build a terminal table with one row per run.

    Args:
        states: The runs.
        short: The short id of each run, by full id.
        width: The width of the terminal in characters. On a narrow terminal, two costs share a column.
    """
    costs = _arrange_columns((("took", "CPU"), ("written", "memory")), width)
    table = build_table("run", "began", "recipe", "state", "new", *costs, texts=("began", "recipe", "state", "new"))
    for state in states:
        table.add_row(
            Text(to_printable(short.get(state.run_id, state.run_id))),
            format_moment(state.started),
            Text(to_printable(state.recipe)),
            Text(state.outcome, STYLES.get(state.outcome, STYLES.get(state.state, ""))),
            describe_new_parts(state),
            *_arrange_columns(format_costs(state), width),
        )
    return table


def _arrange_columns(pairs: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Flatten pairs of strings to a list. On a narrow terminal, each pair is joined to one string with a newline.

    Args:
        pairs: The pairs of strings.
        width: The width of the terminal in characters. Terminals below WIDE_COLUMNS are narrow.
    """
    return [each for pair in pairs for each in pair] if width >= WIDE_COLUMNS else ["\n".join(pair) for pair in pairs]


def format_costs(state: ListedRun) -> list[tuple[str, str]]:
    """Format the costs of a run as two pairs: (duration, CPU time) and (bytes written, peak memory).

    An unknown cost is formatted as NO_VALUE.
    """
    cost = state.record.cost if state.record is not None else None
    took = NO_VALUE if state.seconds is None else format_seconds(state.seconds)
    if cost is None:
        return [(took, NO_VALUE), (NO_VALUE, NO_VALUE)]
    sizes = (format_bytes(cost.bytes_written), format_bytes(cost.peak_bytes))
    return [(took, format_seconds(cost.cpu_seconds)), sizes]


def describe_new_parts(state: ListedRun) -> str:
    """Describe the parts (files of a stage's output) that a run built, such as "3 parts of documents".

    Returns "nothing" if it built none, and NO_VALUE if the run has no record.
    """
    if state.record is None:
        return NO_VALUE
    parts = count_new_parts(state.record)
    if not parts:
        return "nothing"
    kinds = list(parts)
    more = f" and {len(kinds) - MAX_KINDS} more" if len(kinds) > MAX_KINDS else ""
    return f"{format_count(sum(parts.values()), 'part')} of {', '.join(kinds[:MAX_KINDS])}{more}"


def iter_status_lines(status: StoreStatus) -> Iterator[str]:
    """Yield lines about a store: running runs, schedules, waiting releases, and how the newest runs ended.

    Args:
        status: The current activity in the store.
    """
    if not status.running:
        yield "Nothing runs here now."
    for state in status.running:
        assert state.heartbeat is not None
        yield from iter_running_lines(state, state.heartbeat)
    for present in status.schedules:
        yield describe_schedule(present)
    for present in status.waiting:
        yield describe_waiting(present)
    for state in status.lost:
        began = format_moment(state.started)
        yield (
            f"{to_printable(state.recipe)}: the run that began {began} is lost: its process is gone without a word. "
            "What it has finished is kept; run the recipe again to continue from there."
        )
    for state in status.ended:
        kinds = describe_set_aside(state.record.set_aside) if state.record is not None else ""
        aside = f" It goes on without {kinds}; its report names them." if kinds else ""
        began = f"which began {format_moment(state.started)}"
        yield f"{to_printable(state.recipe)}: the newest run, {began}: {state.outcome}.{aside}"


def iter_running_lines(state: ListedRun, present: Heartbeat) -> Iterator[str]:
    """Yield lines about a running run and its current stages.

    Args:
        state: The run.
        present: The last report of the run's process, with the keys "workers", "doing" and "stages" (the progress of
            each stage).
    """
    facts, process = present.report, present.process
    workers = format_count(int(facts.get("workers", 0)), "worker")
    where = f"process {process.pid} on {to_printable(process.host)}"
    silence = f", last heard of {format_seconds(present.silent_seconds)} ago" if present.silent_seconds > 60 else ""
    yield f"{to_printable(state.recipe)}: running since {format_moment(state.started)}, {workers}, {where}{silence}"
    stages: Mapping[str, Mapping[str, Any]] = facts.get("stages", {})
    for stage, progress in stages.items():
        yield f"  {to_printable(stage)}: {describe_progress(stage, progress)}"
    if not stages and facts.get("doing"):
        yield f"  {to_printable(str(facts['doing']))}"


def describe_schedule(present: Heartbeat) -> str:
    """Describe a scheduled recipe in one line: when its next run is due, and how many of its runs are waiting.

    Args:
        present: The last report of the process that serves the recipe, with the keys "recipe", "when", "next" and
            "waiting".
    """
    facts = present.report
    due = f"next {format_moment(str(facts['next']))}" if facts.get("next") else "when it is due is not known yet"
    waits = f", {format_count(int(facts['waiting']), 'run')} waiting for the turn" if facts.get("waiting") else ""
    recipe, schedule = (to_printable(str(facts.get(key))) for key in ("recipe", "when"))
    return f"{recipe}: on its schedule, {schedule}; {due}{waits}"


def describe_waiting(present: Heartbeat) -> str:
    """Describe a release that is waiting for approval in one line: since when, and the URL where it can be approved.

    Args:
        present: The last report of the waiting process, with the keys that `describe_waiting_release` returns.
    """
    facts = {key: to_printable(str(value)) for key, value in present.report.items()}
    what = f"the release {facts.get('release')} of the run {facts.get('run')}"
    since = format_moment(facts.get("since", ""))
    return f"{facts.get('recipe')}: {what} waits for approval since {since}: {facts.get('url')}"


def format_moment(moment: str) -> str:
    """Format an ISO 8601 time in local time. Returns NO_VALUE if the string is not a valid time."""
    try:
        return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return NO_VALUE


def find_store(store: str) -> Place:
    """Return the store at an address.

    Raises:
        InputError: If the store is on this machine and its folder does not exist.
    """
    place = Place(store)
    _check_store_exists(place)
    return place


def _check_store_exists(place: Place) -> None:
    """Check that the folder of a store on this machine exists. A remote store passes.

    Raises:
        InputError: If the folder does not exist.
    """
    if place.is_local and not Path(place.to_full_path("")).is_dir():
        raise InputError(
            f"There is no store at {place.to_address('')}. Give a store's folder or address; `cloze run` prints it."
        )


def _find_store_and_recipe(of: str) -> tuple[Place, str | None]:
    """Find the store that an argument refers to. The argument is a store's address, a recipe file or a built-in recipe.

    Returns:
        A tuple of the store and the name of the recipe; the name is None if the argument is a store.

    Raises:
        InputError: If there is no such store, or the recipe is not valid.
    """
    if not Path(of).is_dir():
        from flows.recipes.recipe import (  # with all sources and steps
            load_shipped_recipe,
            read_recipe,
            read_shipped_recipes,
        )

        if Path(of).is_file() or of in read_shipped_recipes():
            recipe = read_recipe(Path(of)) if Path(of).is_file() else load_shipped_recipe(of, Path.cwd(), {})
            return Place(recipe.store), recipe.name
    return find_store(of), None
