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
    """Return the path, relative to the store, of the file in which a run's process regularly reports what it does."""
    return f"runs/{run_id}/running.json"


def list_artifact_names(recipe: "Recipe") -> tuple[str, ...]:
    """Return the sorted names of the artifacts (stored results) that a run of a recipe may use or build."""
    return tuple(sorted({name for kind in STAGES.values() for name in kind.list_artifact_names(recipe, {})}))


@dataclass(kw_only=True)
class StageProgress:
    """The progress of a pipeline stage during a run.

    Attributes:
        parts: Number of parts (file sets) to build or, for a training stage, number of training steps.
        built: Number of parts or steps that are done.
        first_built: Value of `built` at the first report. Parts that were done earlier do not count for the rate.
        started: Time of the first report, from `time.monotonic()`.
    """

    parts: int
    built: int
    first_built: int
    started: float = field(default_factory=time.monotonic)

    def compute_rate(self, now: float) -> float | None:
        """Compute the parts or steps per second since the first report, or None if none is done or it is too early.

        Args:
            now: Current time (`time.monotonic`).
        """
        done, seconds = self.built - self.first_built, now - self.started
        return done / seconds if done > 0 and seconds > RATE_SECONDS else None

    def to_json(self, now: float) -> dict[str, Any]:
        """Convert the progress to a dict with the keys `built`, `parts`, `rate` (per second) and `seconds_left`.

        The last two values are None if the rate is unknown.

        Args:
            now: Current time (`time.monotonic`).
        """
        rate = self.compute_rate(now)
        left = None if rate is None else round((self.parts - self.built) / rate)
        rounded = None if rate is None else float(f"{rate:.3g}")
        return {"built": self.built, "parts": self.parts, "rate": rounded, "seconds_left": left}


@contextmanager
def end_on_failure(pulse: "RunHeartbeat") -> Iterator["RunHeartbeat"]:
    """End a run's heartbeat if an exception is raised, or the process is stopped, during the block.

    Otherwise, the heartbeat continues after the block.

    Args:
        pulse: The heartbeat.

    Yields:
        The heartbeat.
    """
    with call_on_stop(pulse.end):
        try:
            yield pulse
        except BaseException:
            wait_if_stopping()
            pulse.end()
            raise


class RunHeartbeat:
    """The heartbeat of the current run: a file in the store with regular reports of what the run is doing. Thread-safe.

    Attributes:
        doing: What the run is doing while no stage is being built.
        workers: Current number of worker processes.
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
        """Return a function that calls `tell` with a line, and reports the line as the run's current activity."""

        def both(line: str) -> None:
            self.doing = line
            tell(line)

        return both

    def advance(self, stage: str, built: int, parts: int) -> StageProgress:
        """Record how many parts (file sets), or training steps, of a stage are done, and return its progress.

        Once all are done, the stage is no longer reported.

        Args:
            stage: Kind and name of the stage, as in "tokens/small". " steps" is appended if training steps are counted.
            built: Number of parts or steps that are done.
            parts: Total number of parts or steps.
        """
        with self._lock:
            progress = self._stages.setdefault(stage, StageProgress(parts=parts, built=built, first_built=built))
            progress.built = built
            if built >= parts:
                del self._stages[stage]
            return progress

    def measure_cost(self, bytes_written: int) -> Cost:
        """Return the cost of the run so far.

        Args:
            bytes_written: Size in bytes of the files that the run built.
        """
        processes = list_process_tree(os.getpid())
        self._update_peak(processes)
        seconds = read_cpu_seconds(processes) - self._cpu_before
        return Cost(cpu_seconds=round(max(0.0, seconds), 1), bytes_written=bytes_written, peak_bytes=self._peak)

    def end(self) -> None:
        """End the heartbeat: no more reports are written. Call this once the run is recorded, or if it never began.

        Can be called repeatedly, and from any thread.
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
    """One run that is recorded, running or lost, as listed by `cloze runs`.

    Attributes:
        run_id: Id of the run.
        recipe: Name of the recipe.
        state: The recorded state, "running", or "lost" (the process ended without writing a record).
        started: Start time (ISO 8601); "" if unknown.
        record: The stored record; None if the run is running or lost.
        heartbeat: The last report of the run's process; None if the run is recorded or never reported.
    """

    run_id: str
    recipe: str
    state: str
    started: str
    record: RunRecord | None = None
    heartbeat: Heartbeat | None = None

    @property
    def outcome(self) -> str:
        """The recorded outcome in words, such as "completed, drifted", or the state if there is no record."""
        return ", ".join(self.record.outcome) if self.record is not None else self.state

    @property
    def number_in_quarantine(self) -> int:
        """Number of raw records that the run skipped because they crash worker processes."""
        aside = self.record.set_aside if self.record is not None else ()
        return sum(each.number for each in aside if each.kind == QUARANTINED)

    @property
    def seconds(self) -> float | None:
        """Duration of the run in seconds, or None if the run has no record."""
        return self.record.seconds if self.record is not None else None

    def to_json(self) -> dict[str, Any]:
        """Convert the run and its cost to a flat dict for JSON output.

        The keys are `run_id`, `recipe`, `state`, `outcome`, `started`, `seconds`, `workers`, `new_parts` (parts built,
        by kind of stage), and the attributes of `Cost`. Values that come from the run's record are None if the run has
        no record.
        """
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
    """Count the parts (file sets) that a run built, by kind of stage (such as "tokens"), in the order of the run."""
    parts: dict[str, int] = {}
    for stage in record.stages:
        if stage.state == "built":
            parts[stage.kind] = parts.get(stage.kind, 0) + stage.parts_built
    return parts


def list_runs(
    place: Place, recipe: str | None = None, limit: int | None = None, tell: Callable[[str], None] = print_to_stderr
) -> list[ListedRun]:
    """List the runs of a store, newest first: recorded, running and lost ones.

    Args:
        place: The store.
        recipe: Name of a recipe, to list only its runs. If None, the runs of all recipes are listed.
        limit: Maximum number of runs. If None, all runs are listed.
        tell: Called with a line to print for each damaged record. Such records are skipped.
    """
    files = list_run_files(place)
    ids = [run_id for run_id in sorted(files, reverse=True) if recipe in (None, parse_recipe_name(run_id))]
    states = (read_run_state(place, run_id, files[run_id], tell) for run_id in ids)
    return list(islice((state for state in states if state is not None), limit))


def read_run_state(
    place: Place, run_id: str, files: Collection[str], tell: Callable[[str], None] = print_to_stderr
) -> ListedRun | None:
    """Read the state of one run.

    Args:
        place: The store.
        run_id: Id of the run.
        files: Names of the files in the run's folder.
        tell: Called with a line to print if the record is damaged.

    Returns:
        The run, or None if its record is damaged, or its folder contains no file of a run.
    """
    if "run.json" in files:
        return _read_recorded(place, run_id, tell)
    return _read_unfinished_run(place, run_id) if UNFINISHED_RUN_FILES & set(files) else None


def _read_recorded(place: Place, run_id: str, tell: Callable[[str], None]) -> ListedRun | None:
    for record in iter_readable_runs(place, [run_id], tell):
        return ListedRun(run_id=run_id, recipe=record.recipe, state=record.state, started=record.started, record=record)
    return None


def list_run_files(place: Place) -> dict[str, dict[str, int]]:
    """Return the files of all runs in a store, as {run id: {path in the run's folder: size in bytes}}."""
    files: dict[str, dict[str, int]] = {}
    for path, size in place.list_files("runs").items():
        _, run_id, *name = path.split("/")
        if name:
            files.setdefault(run_id, {})["/".join(name)] = size
    return files


def parse_recipe_name(run_id: str) -> str:
    """Return the recipe name in a run id.

    >>> parse_recipe_name("20261122T201500123456-small-news")
    'small-news'
    """
    return run_id.partition("-")[2]


def _read_unfinished_run(place: Place, run_id: str) -> ListedRun | None:
    """Return the state of a run that had no record when the files were listed: "running" or "lost".

    If the record has been written in the meantime, returns the recorded run, or None if the record is damaged.

    Args:
        place: The store.
        run_id: Id of the run.
    """
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
    """Return the names of the artifacts (stored results) that a run may have used or built.

    The names are taken from its record, its last report, or the recipe that it started with. Returns None if none of
    these can be read.

    Args:
        place: The store.
        state: The run.
    """
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
    """The current activity in a store, as shown by `cloze status`.

    Attributes:
        running: The current runs, newest first. The `heartbeat` of each reports what it is doing.
        lost: The newest run of each recipe, if its process ended without writing a record.
        schedules: The last reports of processes that run a recipe on a schedule.
        waiting: The last reports of processes that are waiting for a person to approve a release.
        ended: The newest run of each recipe, if it is recorded.
    """

    running: tuple[ListedRun, ...]
    lost: tuple[ListedRun, ...]
    schedules: tuple[Heartbeat, ...]
    waiting: tuple[Heartbeat, ...]
    ended: tuple[ListedRun, ...]

    def to_json(self) -> dict[str, Any]:
        """Convert the status to a dict for JSON output, with the attributes as keys.

        Each run or process is a dict, but `lost` lists run ids. The additional key "quarantine" holds the number of raw
        records that crash worker processes, by recipe.
        """
        return {
            "running": [_to_json(state.heartbeat) for state in self.running],
            "lost": [state.run_id for state in self.lost],
            "schedules": [*map(_to_json, self.schedules)],
            "waiting": [*map(_to_json, self.waiting)],
            "quarantine": {state.recipe: number for state in self.ended if (number := state.number_in_quarantine)},
            "ended": [state.to_json() for state in self.ended],
        }


def _to_json(present: Heartbeat | None) -> dict[str, Any]:
    """Convert the last report of a process to a dict, and add `host`, `pid` and `silent_seconds` (its age)."""
    assert present is not None
    process = {
        "host": present.process.host,
        "pid": present.process.pid,
        "silent_seconds": round(present.silent_seconds, 1),
    }
    return {**present.report, **process}


def read_store_status(place: Place) -> StoreStatus:
    """Read the current activity in a store: runs, schedules, and releases that are waiting for approval.

    Damaged run records are reported on standard error and skipped.
    """
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
    """Return the path, relative to the store, of the heartbeat file of a process that runs a recipe on a schedule.

    Args:
        name: Name of the recipe.
    """
    return f"{SCHEDULES_FOLDER}/{name}.json"


def follow_schedule(recipe: Recipe) -> Recipe:
    """Return a recipe with the settings for scheduled runs if a process runs it on a schedule, otherwise unchanged.

    As a result, manual and scheduled runs of the recipe treat unreadable files in the same way.
    """
    heartbeat = read_heartbeat(Place(recipe.store), get_schedule_path(recipe.name))
    return recipe.to_scheduled() if heartbeat is not None and not heartbeat.is_gone else recipe


def get_waiting_path(release: str) -> str:
    """Return the path, relative to the store, of the heartbeat file of a process waiting for a release's approval.

    Args:
        release: Name of the release.
    """
    return f"{WAITING_FOLDER}/{release}.json"


def _read_live(place: Place, folder: str) -> tuple[Heartbeat, ...]:
    """Read the last reports of running processes from the heartbeat files in a folder of the store, sorted by file.

    Args:
        place: The store.
        folder: SCHEDULES_FOLDER or WAITING_FOLDER.
    """
    paths = sorted(path for path in place.list_files(folder) if path.endswith(".json"))
    reports = [read_heartbeat(place, path) for path in paths]
    return tuple(present for present in reports if present is not None and not present.is_gone)
