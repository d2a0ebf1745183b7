"""`cloze gc`: shows what nobody needs in a store, and removes it on request."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict

from corpora.errors import InputError
from corpora.store.places.place import Place
from corpora.store.settings import check_range
from flows.command.terminal.output import say
from flows.maintenance.garbage import Garbage, Policy, garbage, look, unneeded
from flows.maintenance.removal import clear_store
from flows.run.record.counts_text import counted
from flows.run.record.ledger_balance import readable_bytes
from flows.run.record.run_record import to_stderr

OBJECT_DAYS = 7.0  # where readers cannot hold what they read
SHOWN = 20
QUIET_SECONDS = 10.0


def collect(place: Place, keep: int, days: float | None, keep_runs: int, delete: bool, as_json: bool) -> int:
    """Show what goes, or remove it. Raises InputError."""
    check_range("--keep", keep, 1)
    check_range("--keep-runs", keep_runs, 1)
    policy = Policy(keep=keep, days=days if days is not None else 0.0 if place.is_local else OBJECT_DAYS)
    check_range("--keep-days", policy.days, 0, 36_500)
    if not place.sizes("runs"):
        raise InputError(
            f"No run is on record in {place.at('')}, so nobody knows what is needed. Give a store's folder or its "
            "address; `cloze run` prints it."
        )
    tell = to_stderr if as_json else say
    if delete:
        result = clear_store(place, policy, keep_runs, tell, FreedLine())
    else:
        seen = look(place, policy)
        result = garbage(seen, keep_runs, unneeded(seen))
    if as_json:
        print(json.dumps({"deleted": delete, **asdict(result)}, indent=1))
        return 0
    say(*garbage_lines(result, delete))
    return 0


class FreedLine:
    """Reports from time to time how much is freed so far."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, freed: int) -> None:
        if time.monotonic() - self._last > QUIET_SECONDS:
            self._last = time.monotonic()
            to_stderr(f"{readable_bytes(freed)} are freed so far")


def garbage_lines(result: Garbage, deleted: bool) -> Iterator[str]:
    """Yield what goes, or is gone."""
    verb = "removed" if deleted else "would go"
    for folder in result.artifacts[:SHOWN]:
        yield f"  {folder}: {verb}"
    if len(result.artifacts) > SHOWN:
        yield f"  and {len(result.artifacts) - SHOWN:,} more"
    what = (
        f"{counted(len(result.artifacts), 'artifact')}, {counted(len(result.files), 'file')} and "
        f"{counted(len(result.runs), 'record of a run', 'records of runs')}"
    )
    yield f"{what} {verb}: {readable_bytes(result.size_bytes)}{' are free' if deleted else ''}."
    if result.unknown:
        yield (
            f"{counted(len(result.unknown), 'artifact')} whose names no recorded run has stay: {result.unknown[0]}"
            f"{' ...' if len(result.unknown) > 1 else ''}"
        )
    if not deleted and result.size_bytes:
        yield "Nothing is removed yet: add --delete to remove it."
