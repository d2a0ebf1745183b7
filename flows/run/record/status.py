"""The status of a store: the runs under way, what waits, and what needs a person.

Everything is read from files that runs and schedules write themselves (`heartbeat.py`, `schedules/`), so it is the same
on every machine, and no server is asked. Cost: a listing of `runs/`, and a few small files.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from corpora.store.leases.active_runs import Present, read_presence
from corpora.store.places.place import Place
from flows.run.record.listed_runs import ListedRun, files_of_runs, recipe_of, state_of_run
from flows.run.record.run_record import DamagedRun, passed_over, recorded_lock, to_stderr

SCHEDULES = "schedules"
WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """Holds the status of a store.

    running:    runs under way, newest first; what each does is in its `present`
    lost:       the newest run of a recipe, if its process ended without a record
    schedules:  reports of the processes that run a recipe on a schedule
    waiting:    reports of the processes that wait for a person to approve a release
    quarantine: records that the newest run of a recipe passes over, by recipe
    """

    running: tuple[ListedRun, ...]
    lost: tuple[ListedRun, ...]
    schedules: tuple[Present, ...]
    waiting: tuple[Present, ...]
    quarantine: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return a form for scripts."""
        return {
            "running": [_running_json(state) for state in self.running],
            "lost": [state.run_id for state in self.lost],
            "schedules": [{**present.said, **_process_json(present)} for present in self.schedules],
            "waiting": [{**present.said, **_process_json(present)} for present in self.waiting],
            "quarantine": dict(self.quarantine),
        }


def _running_json(state: ListedRun) -> dict[str, Any]:
    assert state.present is not None
    return {**state.present.said, **_process_json(state.present)}


def _process_json(present: Present) -> dict[str, Any]:
    return {"host": present.process.host, "pid": present.process.pid, "silent_seconds": round(present.silent, 1)}


def store_status(place: Place, tell: Callable[[str], None] = to_stderr) -> StoreStatus:
    """Return the status of a store. tell: is called for damaged records"""
    files = files_of_runs(place)
    newest = {recipe_of(run_id): run_id for run_id in sorted(files)}
    asked = {run_id for run_id, names in files.items() if "run.json" not in names} | set(newest.values())
    listed = [state_of_run(place, run_id, files[run_id], tell) for run_id in sorted(asked, reverse=True)]
    states = [state for state in listed if state is not None]
    of_newest = [state for state in states if state.run_id in newest.values()]
    return StoreStatus(
        running=tuple(state for state in states if state.state == "running"),
        lost=tuple(state for state in of_newest if state.state == "lost"),
        schedules=_present(place, SCHEDULES),
        waiting=_present(place, WAITING),
        quarantine={state.recipe: number for state in of_newest if (number := _in_quarantine(place, state, tell))},
    )


def _in_quarantine(place: Place, state: ListedRun, tell: Callable[[str], None]) -> int:
    """Count the records that a run has passed over, according to its lock."""
    if state.record is None:  # it is under way, or was killed
        return 0
    try:
        return len(recorded_lock(place, state.run_id).quarantine)
    except DamagedRun as fault:
        tell(passed_over(fault))
        return 0


def schedule_path(name: str) -> str:
    """Return the path where a process reports that it runs a recipe on a schedule. name: of the recipe"""
    return f"{SCHEDULES}/{name}.json"


def waiting_path(release: str) -> str:
    """Return the path where a process reports that it waits for approval of a release. release: its name"""
    return f"{WAITING}/{release}.json"


def _present(place: Place, folder: str) -> tuple[Present, ...]:
    """Return the reports of live processes in a folder."""
    paths = sorted(path for path in place.sizes(folder) if path.endswith(".json"))
    reports = [read_presence(place, path) for path in paths]
    return tuple(present for present in reports if present is not None and not present.is_gone)
