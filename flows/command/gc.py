"""`cloze gc`: shows what nobody needs in a store, and removes it on request."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.command.arguments import AsJson, Count, Days, StoreAddress
from flows.command.runs import find_store
from flows.command.terminal import print_json, print_lines
from flows.maintenance.garbage import Garbage, Retention, clear_store, list_garbage, list_unneeded, scan_store
from flows.run.addresses import shorten_folder
from flows.run.record.counts_text import format_count
from flows.run.record.ledger_balance import format_bytes
from flows.run.record.run_record import print_to_stderr

OBJECT_STORE_DAYS = 7.0  # as readers cannot hold what they read
MAX_ARTIFACTS_SHOWN = 20
QUIET_SECONDS = 10.0


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

    Everything that a run, a release or a reader needs is kept.
    """
    if delete and dry_run:
        raise InputError("--delete and --dry-run contradict each other: give one of them.")
    collect_garbage(find_store(store), keep, days, keep_runs, delete, as_json)


def collect_garbage(place: Place, keep: int, days: float | None, keep_runs: int, delete: bool, as_json: bool) -> None:
    """Print what a store no longer needs, and optionally delete it.

    Args:
        place: The store.
        keep: The number of completed runs per recipe, counted from the newest, for which artifacts (stored stage
            results) are kept.
        days: Artifacts that were kept under that rule at any time in the last `days` days are also kept. If None, 0 for
            a local store and OBJECT_STORE_DAYS for an object store.
        keep_runs: The number of runs per recipe, counted from the newest, for which records are kept.
        delete: True to delete them, False only to list them.
        as_json: True to print JSON.

    Raises:
        InputError: If the store has no recorded run.
    """
    policy = Retention(keep=keep, days=days if days is not None else 0.0 if place.is_local else OBJECT_STORE_DAYS)
    if not place.list_files("runs"):
        raise InputError(
            f"No run is on record in {place.to_address('')}, so nobody knows what is needed. Give a store's folder or "
            "its address; `cloze run` prints it."
        )
    if delete:
        result = clear_store(place, policy, keep_runs, FreedReporter())
    else:
        seen = scan_store(place, policy)
        result = list_garbage(seen, keep_runs, list_unneeded(seen))
    if as_json:
        print_json({"deleted": delete, **asdict(result)})
        return
    print_lines(*describe_garbage(result, delete))


class FreedReporter:
    """A callback that reports, at most every QUIET_SECONDS, how many bytes have been freed so far."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, freed: int) -> None:
        if time.monotonic() - self._last > QUIET_SECONDS:
            self._last = time.monotonic()
            print_to_stderr(f"{format_bytes(freed)} are freed so far")


def describe_garbage(result: Garbage, deleted: bool) -> Iterator[str]:
    """Yield lines that list what was or would be removed from a store.

    Args:
        result: The unneeded artifacts, files and run records.
        deleted: True if they were removed; False if they are only listed.
    """
    verb = "removed" if deleted else "would go"
    for folder in result.artifacts[:MAX_ARTIFACTS_SHOWN]:
        yield f"  {shorten_folder(folder)}: {verb}"
    if len(result.artifacts) > MAX_ARTIFACTS_SHOWN:
        yield f"  and {len(result.artifacts) - MAX_ARTIFACTS_SHOWN:,} more"
    what = (
        f"{format_count(len(result.artifacts), 'artifact')}, {format_count(len(result.files), 'file')} and "
        f"{format_count(len(result.runs), 'record of a run', 'records of runs')}"
    )
    yield f"{what} {verb}: {format_bytes(result.size_bytes)}{' are free' if deleted else ''}."
    if result.unknown:
        first, more = shorten_folder(result.unknown[0]), " ..." if len(result.unknown) > 1 else ""
        yield f"{format_count(len(result.unknown), 'artifact')} whose names no recorded run has stay: {first}{more}"
    if not deleted and result.size_bytes:
        yield "Nothing is removed yet: add --delete to remove it."
