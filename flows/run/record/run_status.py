"""Lists past and present runs of a store, and says what happens in it now, by what the processes themselves have
written.

`runs/RUN/running.json` is the heartbeat of a run: what it does now, and what it has cost so far. The file exists from
before the run looks at anything until its record is written. Nobody who sees it may remove what the run may use, which
is everything under its `names`. A run without a record is lost if its process is gone.

Cost: a listing of `runs/`, and a small file for each listed run; for a run's heartbeat a look at its processes once a
second, some 0.2 ms for each.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.errors import InputError
from corpora.store.leases import Heartbeat, HeartbeatWriter, read_heartbeat
from corpora.store.places.place import Place
from corpora.store.processes import list_process_tree, read_cpu_seconds, read_resident_bytes
from flows.recipes.recipe import Recipe
from flows.run.record.run_record import (
    QUARANTINED,
    Cost,
    RunRecord,
    iter_readable_runs,
    parse_moment,
    print_to_stderr,
)
from flows.run.stage_kinds import STAGES
from flows.signals import call_on_stop, wait_if_stopping

if TYPE_CHECKING:
    from flows.recipes.recipe import Recipe


Advance = Callable[[str, int, int], None]

RATE_SECONDS = 2.0  # of progress, before a rate is reported


def get_running_path(run_id: str) -> str:
    """Return the path in the store of a run's heartbeat."""
    return f"runs/{run_id}/running.json"


def list_artifact_names(recipe: "Recipe") -> tuple[str, ...]:
    """Return the names of the artifacts that a run of a recipe may use or build, of all kinds, sorted."""
    return tuple(sorted({name for kind in STAGES.values() for name in kind.list_artifact_names(recipe, {})}))


@dataclass(kw_only=True)
class StageProgress:
    """Progress of a stage during a run.

    Attributes:
        parts: number of its parts that were missing, or steps of its training
        built: how many of them are done
        first_built: how many were done at the first report; they do not count for the rate
        started: time of the first report
    """

    parts: int
    built: int
    first_built: int
    started: float = field(default_factory=time.monotonic)

    def compute_rate(self, now: float) -> float | None:
        """Return parts or steps per second; None if too little is done, or too short a time has passed."""
        done, seconds = self.built - self.first_built, now - self.started
        return done / seconds if done > 0 and seconds > RATE_SECONDS else None

    def to_json(self, now: float) -> dict[str, Any]:
        """Return the progress for the run's heartbeat."""
        rate = self.compute_rate(now)
        left = None if rate is None else round((self.parts - self.built) / rate)
        rounded = None if rate is None else float(f"{rate:.3g}")
        return {"built": self.built, "parts": self.parts, "rate": rounded, "seconds_left": left}


@contextmanager
def end_on_failure(pulse: "RunHeartbeat") -> Iterator["RunHeartbeat"]:
    """End the heartbeat if the block fails, and let it continue otherwise."""
    with call_on_stop(pulse.end):
        try:
            yield pulse
        except BaseException:
            wait_if_stopping()
            pulse.end()
            raise


class RunHeartbeat:
    """The heartbeat of a run that is under way: reports in the store what the run does, and what it costs. Thread-safe.

    Attributes:
        doing: what it does outside of stages
        workers: number of its workers now
    """

    doing = "finds its raw files"
    workers = 0

    def __init__(self, place: Place, recipe: "Recipe", run_id: str, started: str) -> None:
        self._facts = {
            "run_id": run_id,
            "recipe": recipe.name,
            "names": list_artifact_names(recipe),
            "started": started,
        }
        self._stages: dict[str, StageProgress] = {}
        self._lock = threading.Lock()
        self._cpu_before = read_cpu_seconds(list_process_tree(os.getpid()))
        self._peak = 0
        self._writer = HeartbeatWriter(place, get_running_path(run_id), self._report)

    def wrap_tell(self, tell: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that calls `tell`, and lets the heartbeat report the same line as what the run does."""

        def both(line: str) -> None:
            self.doing = line
            tell(line)

        return both

    def advance(self, stage: str, built: int, parts: int) -> StageProgress:
        """Record how many parts of a stage (file sets, or steps of a training) are built, and return its progress.

        With all parts built, the stage is no longer reported.
        """
        with self._lock:
            progress = self._stages.setdefault(stage, StageProgress(parts=parts, built=built, first_built=built))
            progress.built = built
            if built >= parts:
                del self._stages[stage]
            return progress

    def measure_cost(self, bytes_written: int) -> Cost:
        """Return what the run has cost so far.

        Args:
            bytes_written: size of the parts that it built
        """
        processes = list_process_tree(os.getpid())
        self._update_peak(processes)
        seconds = read_cpu_seconds(processes) - self._cpu_before
        return Cost(cpu_seconds=round(max(0.0, seconds), 1), bytes_written=bytes_written, peak_bytes=self._peak)

    def end(self) -> None:
        """End the heartbeat, after the run is on record or if it never began.

        May be called again, and from any thread.
        """
        self._writer.stop()

    def _update_peak(self, processes: list[int]) -> None:
        self._peak = max(self._peak, sum(map(read_resident_bytes, processes)))

    def _report(self) -> dict[str, Any]:
        self._update_peak(list_process_tree(os.getpid()))
        now = time.monotonic()
        with self._lock:
            stages = {stage: progress.to_json(now) for stage, progress in self._stages.items()}
        return {**self._facts, "workers": self.workers, "doing": "" if stages else self.doing, "stages": stages}


END_STATES = ("completed", "failed", "interrupted")
UNFINISHED_RUN_FILES = frozenset(("recipe.toml", "running.json"))  # of a run without a record


SCHEDULES_FOLDER = "schedules"
WAITING_FOLDER = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """One run of a store.

    Attributes:
        state: its state on record, or "running", or "lost" if its process ended without a record
        record: None if it is running or lost
        heartbeat: the last report of its process, if it has not ended
    """

    run_id: str
    recipe: str
    state: str
    started: str
    record: RunRecord | None = None
    heartbeat: Heartbeat | None = None

    @property
    def outcome(self) -> str:
        """How it ended, in words; its state if it has not."""
        return ", ".join(self.record.outcome) if self.record is not None else self.state

    @property
    def number_in_quarantine(self) -> int:
        """Number of records that it skipped because they ended worker processes."""
        aside = self.record.set_aside if self.record is not None else ()
        return sum(each.number for each in aside if each.kind == QUARANTINED)

    @property
    def seconds(self) -> float | None:
        """Time that it took; None if it has not ended."""
        return self.record.seconds if self.record is not None else None

    def to_json(self) -> dict[str, Any]:
        """Return the run for scripts."""
        record = self.record
        cost = record.cost if record is not None else None
        return {
            "run_id": self.run_id,
            "recipe": self.recipe,
            "state": self.state,
            "outcome": self.outcome,
            "started": self.started,
            "seconds": self.seconds,
            "workers": record.workers if record is not None else None,
            "new_parts": count_new_parts(record) if record is not None else None,
            **{field.name: getattr(cost, field.name, None) for field in fields(Cost)},
        }


def count_new_parts(record: RunRecord) -> dict[str, int]:
    """Count the parts (file sets of stages' outputs) that a run built, by the kind of their stage, in a run's order."""
    parts: dict[str, int] = {}
    for stage in record.stages:
        if stage.state == "built":
            parts[stage.kind] = parts.get(stage.kind, 0) + stage.parts_built
    return parts


def list_runs(
    place: Place, recipe: str | None = None, limit: int | None = None, tell: Callable[[str], None] = print_to_stderr
) -> list[ListedRun]:
    """List a store's runs, newest first.

    Args:
        recipe: only runs of the recipe with this name; if None, all
        limit: largest number of runs to list; if None, all
        tell: called with a line about damaged records
    """
    files = list_run_files(place)
    ids = [run_id for run_id in sorted(files, reverse=True) if recipe in (None, parse_recipe_name(run_id))]
    states = (read_run_state(place, run_id, files[run_id], tell) for run_id in ids)
    return list(islice((state for state in states if state is not None), limit))


def read_run_state(
    place: Place, run_id: str, files: Collection[str], tell: Callable[[str], None] = print_to_stderr
) -> ListedRun | None:
    """Return a run, given the names of its files; None if its record is damaged, or it is not a run."""
    if "run.json" in files:
        return _read_recorded(place, run_id, tell)
    return _read_unfinished_run(place, run_id) if UNFINISHED_RUN_FILES & set(files) else None


def _read_recorded(place: Place, run_id: str, tell: Callable[[str], None]) -> ListedRun | None:
    for record in iter_readable_runs(place, [run_id], tell):
        return ListedRun(run_id=run_id, recipe=record.recipe, state=record.state, started=record.started, record=record)
    return None


def list_run_files(place: Place) -> dict[str, dict[str, int]]:
    """Return the files of each run by its id, as name -> size in bytes."""
    files: dict[str, dict[str, int]] = {}
    for path, size in place.list_files("runs").items():
        _, run_id, *name = path.split("/")
        if name:
            files.setdefault(run_id, {})["/".join(name)] = size
    return files


def parse_recipe_name(run_id: str) -> str:
    """Return the name of the recipe that is in a run's id.

    >>> parse_recipe_name("20261122T201500123456-small-news")
    'small-news'
    """
    return run_id.partition("-")[2]


def _read_unfinished_run(place: Place, run_id: str) -> ListedRun | None:
    """Return a run that has no record: running, or lost."""
    present = read_heartbeat(place, get_running_path(run_id))
    runs_now = present is not None and not present.is_gone
    if not runs_now and place.find_size(f"runs/{run_id}/run.json") is not None:  # it has ended since it was listed
        return _read_recorded(place, run_id, print_to_stderr)
    began = parse_moment(run_id)
    started = began.isoformat(timespec="seconds") if began is not None else ""
    if present is not None:
        started = str(present.report.get("started", ""))
    state = "running" if runs_now else "lost"
    return ListedRun(run_id=run_id, recipe=parse_recipe_name(run_id), state=state, started=started, heartbeat=present)


def find_names_in_use(place: Place, state: ListedRun) -> Sequence[str] | None:
    """Return the names of the artifacts that a run may have used or built; None if they cannot be determined."""
    if state.record is not None:
        return state.record.names
    if state.heartbeat is not None and "names" in state.heartbeat.report:
        return [str(name) for name in state.heartbeat.report["names"]]
    from flows.recipes.recipe import parse_recipe  # only a run without a record needs it

    try:
        text = place.read(f"runs/{state.run_id}/recipe.toml").decode()
        return list_artifact_names(parse_recipe(text, Path("recipe.toml"), {}))
    except (FileNotFoundError, UnicodeDecodeError, InputError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """What happens in a store now.

    Attributes:
        running: runs under way, newest first; what each does is in its `heartbeat`
        lost: the newest run of each recipe, if its process ended without a record
        schedules: heartbeats of the processes that run a recipe on a schedule
        waiting: heartbeats of the processes that wait for a person to approve a release
        ended: the newest run of each recipe, if it has ended
    """

    running: tuple[ListedRun, ...]
    lost: tuple[ListedRun, ...]
    schedules: tuple[Heartbeat, ...]
    waiting: tuple[Heartbeat, ...]
    ended: tuple[ListedRun, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the status for scripts."""
        return {
            "running": [_to_json(state.heartbeat) for state in self.running],
            "lost": [state.run_id for state in self.lost],
            "schedules": [*map(_to_json, self.schedules)],
            "waiting": [*map(_to_json, self.waiting)],
            "quarantine": {state.recipe: number for state in self.ended if (number := state.number_in_quarantine)},
            "ended": [state.to_json() for state in self.ended],
        }


def _to_json(present: Heartbeat | None) -> dict[str, Any]:
    """Return what a live process has reported, and which process it is."""
    assert present is not None
    process = {
        "host": present.process.host,
        "pid": present.process.pid,
        "silent_seconds": round(present.silent_seconds, 1),
    }
    return {**present.report, **process}


def read_store_status(place: Place) -> StoreStatus:
    """Return what happens in a store now. Damaged records are reported on standard error and skipped."""
    files = list_run_files(place)
    newest = {parse_recipe_name(run_id): run_id for run_id in sorted(files)}
    asked = {run_id for run_id, names in files.items() if "run.json" not in names} | set(newest.values())
    listed = [read_run_state(place, run_id, files[run_id]) for run_id in sorted(asked, reverse=True)]
    states = [state for state in listed if state is not None]
    of_newest = [state for state in states if state.run_id in newest.values()]
    return StoreStatus(
        running=tuple(state for state in states if state.state == "running"),
        lost=tuple(state for state in of_newest if state.state == "lost"),
        schedules=_read_live(place, SCHEDULES_FOLDER),
        waiting=_read_live(place, WAITING_FOLDER),
        ended=tuple(state for state in of_newest if state.record is not None),
    )


def get_schedule_path(name: str) -> str:
    """Return the path in the store at which a process reports that it runs a recipe on a schedule.

    Args:
        name: name of the recipe
    """
    return f"{SCHEDULES_FOLDER}/{name}.json"


def follow_schedule(recipe: Recipe) -> Recipe:
    """Return a recipe as a schedule runs it, if a live process has it on a schedule; else unchanged.

    So every run of the recipe treats its files alike.
    """
    heartbeat = read_heartbeat(Place(recipe.store), get_schedule_path(recipe.name))
    return recipe.to_scheduled() if heartbeat is not None and not heartbeat.is_gone else recipe


def get_waiting_path(release: str) -> str:
    """Return the path in the store at which a process reports that it waits for approval of a release.

    Args:
        release: name of the release
    """
    return f"{WAITING_FOLDER}/{release}.json"


def _read_live(place: Place, folder: str) -> tuple[Heartbeat, ...]:
    """Return the heartbeats of live processes in a folder."""
    paths = sorted(path for path in place.list_files(folder) if path.endswith(".json"))
    reports = [read_heartbeat(place, path) for path in paths]
    return tuple(present for present in reports if present is not None and not present.is_gone)
