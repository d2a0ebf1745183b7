"""Runs: what happened when, on which machine. Everything that manifests must not say is here.

`runs/<run id>/` in the store holds the run's record, its recipe and lock, where the raw files lay, and the
report. Record, lock and whereabouts are sealed. A run of which one is damaged is passed over by who looks for a run,
and named.
"""

import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.errors import InputError
from corpora.sources.bytes.objects import raw_path
from corpora.store.damage import Damaged, seal, unseal
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place

if TYPE_CHECKING:
    from corpora.store.stage import Survey
    from flows.recipes.lock import Lock
    from flows.recipes.recipe import Recipe

CLOCKS_DIFFER = timedelta(minutes=5)  # of machines that share a store, without anything being wrong


class DamagedRun(Damaged):
    """A file of a recorded run is not what was written."""

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged: {self.what}. Nothing makes the record of a run again, and no artifact depends on "
            "it: name another run, or run the recipe once more."
        )


def to_stderr(line: str) -> None:
    """Say a line aside, where it is not taken for output."""
    print(line, file=sys.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run has cost.

    cpu_seconds:   processor time of its process and of all that it started, the orchestrator's server included
    bytes_written: of the files of the parts that it built, as far as their stages came to their end
    peak_bytes:    the most memory that all these processes had together, looked at once a second
    """

    cpu_seconds: float
    bytes_written: int
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun:
    """The run as the orchestrator has it. page: its address there; "" where that is not known"""

    id: str
    page: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """One stage of a run: whether it was built or reused, why, and how long it took.

    bytes_built: of the files of the parts that it built; 0 in records of earlier versions
    """

    kind: str
    name: str
    folder: str
    state: str  # built or reused
    reason: str
    seconds: float
    parts: int
    parts_built: int
    bytes_built: int = 0


@dataclass(kw_only=True)
class StageHistory:
    """One stage over a run, which may follow its page more than once: what was missing of it at any time, and why."""

    reasons: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    whole: str = ""
    record: StageRecord | None = None

    def begin(self, survey: "Survey", reason: str, damaged: bool) -> None:
        """The run looks at the stage. damaged: whether that is why it is not whole"""
        if survey.manifest is not None:
            self.whole = reason
            return
        if damaged or not self.reasons:
            self.reasons = [*dict.fromkeys([*self.reasons, reason])]
        self.missing |= {plan.name for plan in survey.missing}

    def end(self, manifest: Manifest, seconds: float) -> StageRecord:
        """The stage is whole now, after some seconds more: its record."""
        before = self.record.seconds if self.record is not None else 0.0
        built = [part for part in manifest.parts if part.name in self.missing]
        self.record = StageRecord(
            kind=manifest.kind,
            name=manifest.name,
            folder=manifest.folder,
            state="built" if self.reasons else "reused",
            reason="; ".join(self.reasons) or self.whole,
            seconds=round(before + seconds, 2),
            parts=len(manifest.parts),
            parts_built=len(self.missing),
            bytes_built=sum(file.size_bytes for part in built for file in part.files),
        )
        return self.record


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A whole run. `state` is completed, failed or interrupted.

    inputs: by source, how many raw files it had and what else was there (`flows.run.inputs.unread_files`)
    names:  what the artifacts are called that it may have used or built; none in records of earlier versions
    cost:   None in records of earlier versions
    crossed: the bounds of the recipe that its figures cross, in words
    flow_run: in the orchestrator; None in records of earlier versions, and of a run that did without it
    error:  what ended a run that failed; "" in records of earlier versions
    """

    run_id: str
    recipe: str
    recipe_path: str
    recipe_toml: str
    started: str
    seconds: float
    workers: int
    state: str
    stages: tuple[StageRecord, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    cost: Cost | None = None
    crossed: tuple[str, ...] = ()
    flow_run: FlowRun | None = None
    error: str = ""

    def to_bytes(self) -> bytes:
        """A form for the store, sealed."""
        return seal(json.dumps(asdict(self), indent=1, ensure_ascii=False).encode())

    @staticmethod
    def from_bytes(data: bytes, path: str) -> "RunRecord":
        """The record that `to_bytes` wrote. path: in the store, for messages. Raises DamagedRun."""
        fields = _fields_of(data, path)
        try:
            stages = tuple(StageRecord(**stage) for stage in fields["stages"])
            cost = Cost(**fields["cost"]) if fields.get("cost") else None
            lists = {name: tuple(fields.get(name, ())) for name in ("names", "crossed")}
            flow_run = FlowRun(**fields["flow_run"]) if fields.get("flow_run") else None
            return RunRecord(**{**fields, **lists, "stages": stages, "cost": cost, "flow_run": flow_run})
        except (KeyError, TypeError) as error:
            raise DamagedRun(path, f"it is not the record of a run ({error})") from error


def new_run_id(place: Place, recipe: str) -> str:
    """A name for a run: when it began, and of which recipe; it comes after those of all runs that the store has.

    Where the clock of an earlier run was ahead of this one, the moment in the name is the second after that run's.
    """
    now = datetime.now(UTC)
    newest = max((moment for path in place.sizes("runs") if (moment := moment_of(path.split("/")[1]))), default=now)
    if newest >= now:
        now = newest.replace(microsecond=now.microsecond) + timedelta(seconds=1)
    return f"{now:%Y%m%dT%H%M%S%f}-{recipe}"


def moment_of(run_id: str) -> datetime | None:
    """The moment that is in the name of a run; None where there is none.

    >>> moment_of("20261122T201500123456-small").isoformat(), moment_of("old-run")
    ('2026-11-22T20:15:00.123456+00:00', None)
    """
    try:
        return datetime.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None


def now_text() -> str:
    """This moment, in UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine_versions() -> dict[str, str]:
    """Versions that a person wants to know when two runs differ."""
    names = ("pyarrow", "numpy", "numba", "tokenizers", "prefect", "datasketch", "ftfy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def begin_run(place: Place, run_id: str, recipe: "Recipe") -> None:
    """Put the recipe of a run that begins: a store that cannot be written is found out before anything starts."""
    place.write(recipe_file(run_id), recipe.text.encode())


def recipe_file(run_id: str) -> str:
    """Where the recipe of a run is on record."""
    return f"runs/{run_id}/recipe.toml"


def write_run(place: Place, record: RunRecord, lock: "Lock", report: str | None = None) -> None:
    """Put the record, the lock, the raw files' whereabouts and the report of a run."""
    folder = f"runs/{record.run_id}"
    place.write(f"{folder}/recipe.lock", lock.to_bytes())
    place.write(f"{folder}/raw.json", raw_document(raw_paths(lock)))
    if report is not None:
        place.write(f"{folder}/report.html", report.encode())
    place.write(f"{folder}/run.json", record.to_bytes())


def raw_document(paths: Mapping[str, str]) -> bytes:
    """sha256 -> path of raw files in a form for the store, sealed."""
    return seal(json.dumps({"paths": dict(paths)}, indent=1).encode())


def raw_paths(lock: "Lock") -> dict[str, str]:
    """sha256 -> path of every raw file that is here."""
    files = (file for generation in lock.generations for group in generation.values() for file in group)
    return {file.sha256: file.path for file in files if file.path}


def list_runs(place: Place) -> list[str]:
    """Ids of all recorded runs, oldest first."""
    return sorted(path.split("/")[1] for path in place.sizes("runs") if path.endswith("/run.json"))


def read_run(place: Place, run_id: str) -> RunRecord:
    """The record of one run. Raises FileNotFoundError and DamagedRun."""
    path = f"runs/{run_id}/run.json"
    record = RunRecord.from_bytes(place.read(path), path)
    if record.run_id != run_id:
        raise DamagedRun(path, f"it is the record of the run {record.run_id}")
    return record


def newest_runs(place: Place, tell: Callable[[str], None] = to_stderr) -> Iterator[RunRecord]:
    """The recorded runs, newest first. Those whose record is damaged are passed over.

    tell: hears of those, and of runs that began when it is not yet by this clock: others may be newer
    """
    for run_id in reversed(list_runs(place)):
        try:
            record = read_run(place, run_id)
        except DamagedRun as fault:
            tell(passed_over(fault))
            continue
        if is_ahead(record):
            tell(f"{ahead_of_clock(record)}: it is taken for newer than runs that began before that.")
        yield record


def is_ahead(record: RunRecord) -> bool:
    """Whether a run began when it is not yet by this machine's clock: one that came after it may be named before it."""
    return record.started > (datetime.now(UTC) + CLOCKS_DIFFER).isoformat()


def ahead_of_clock(record: RunRecord) -> str:
    """What is said of such a run."""
    return f"The run {record.run_id} began at {record.started}, which is yet to come by this machine's clock"


def passed_over(fault: DamagedRun) -> str:
    """What is said of a damaged file of a run by who goes on to another run."""
    return f"{fault.path} is damaged: {fault.what}. That run is passed over."


def recorded_raw_paths(place: Place, run_id: str) -> Mapping[str, str]:
    """sha256 -> path of the raw files that a recorded run read. Raises DamagedRun."""
    path = f"runs/{run_id}/raw.json"
    paths = _fields_of(_there(place, path), path).get("paths")
    if not isinstance(paths, dict) or not all(isinstance(where, str) for where in paths.values()):
        raise DamagedRun(path, "it does not say where raw files lay")
    return paths


def _there(place: Place, path: str) -> bytes:
    """A file without which no run is recorded. Raises DamagedRun."""
    try:
        return place.read(path)
    except FileNotFoundError as error:
        raise DamagedRun(path, "it is gone") from error


def _fields_of(data: bytes, path: str) -> dict[str, Any]:
    try:
        return unseal(data, path)
    except Damaged as fault:
        raise DamagedRun(path, fault.what) from fault


def find_raw_file(place: Place, sha256: str, tell: Callable[[str], None] = to_stderr) -> tuple[RunRecord, Path] | None:
    """The newest run that read a raw file with this content, and where it lies, if it is still there.

    tell: hears of runs that are damaged, and passed over
    """
    for record in newest_runs(place, tell):
        try:
            path = recorded_raw_paths(place, record.run_id).get(sha256)
        except DamagedRun as fault:
            tell(passed_over(fault))
            continue
        if path is not None and raw_path(path).exists():
            return record, raw_path(path)
    return None


def recorded_lock(place: Place, run_id: str) -> "Lock":
    """The lock of a recorded run, with the paths at which it read the raw files. Raises DamagedRun."""
    from flows.recipes.lock import Lock

    path = f"runs/{run_id}/recipe.lock"
    data = _there(place, path)
    _fields_of(data, path)
    try:
        lock = Lock.from_bytes(data, Path(run_id))
    except InputError as error:
        raise DamagedRun(path, "it is no lock that this program can read") from error
    return lock.with_paths(recorded_raw_paths(place, run_id))


def recorded_recipe(record: RunRecord, store: str) -> "Recipe":
    """The recipe that a run recorded, with the store where it is found now."""
    from flows.recipes.recipe import parse_recipe  # with all sources and steps

    return parse_recipe(record.recipe_toml, Path(record.recipe_path), record.overrides, store)
