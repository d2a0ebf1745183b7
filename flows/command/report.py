"""`cloze report`: the HTML report of a recorded run."""

from pathlib import Path
from shlex import quote
from typing import Annotated

from cyclopts import Parameter

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.command import arguments
from flows.command.terminal import print_json, say
from flows.recipes.lock import Lock
from flows.report.page import build_page
from flows.run.addresses import RUNS, split_address, whole_run_id
from flows.run.record.run_record import (
    DamagedRun,
    list_runs,
    newest_runs,
    read_run,
    recorded_lock,
    recorded_recipe,
    to_stderr,
)


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
        say(f"Report: {quote(path)}")


def write_report(address: str, run_id: str | None, output: Path | None) -> str:
    """Build the report of a recorded run; returns where it is. Raises InputError if there is no run."""
    place, inside = split_address(address)
    if run_id is None and inside.startswith(f"{RUNS}/"):
        run_id = inside.split("/")[1]
    if not list_runs(place):
        raise InputError(f"There is no recorded run in {place.to_address('')}: `cloze run` records one.")
    record = read_run(place, whole_run_id(run_id, place)) if run_id is not None else next(newest_runs(place), None)
    if record is None:
        raise InputError(f"The record of every run in {place.to_address('')} is damaged: run the recipe once more.")
    samples = recorded_recipe(record, place.address).privacy.samples
    page = build_page(place, record, samples, _lock_of(place, record.run_id))
    if output is not None:
        output.write_text(page, encoding="utf-8")
        return str(output)
    path = f"runs/{record.run_id}/report.html"
    place.write(path, page.encode())
    return place.to_address(path)


def _lock_of(place: Place, run_id: str) -> Lock | None:
    """Return the lock of a run for its report, which works without a damaged one."""
    try:
        return recorded_lock(place, run_id)
    except DamagedRun as fault:
        to_stderr(f"{fault.path} is damaged: {fault.what}. The report names no raw files.")
        return None
