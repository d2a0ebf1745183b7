"""Records of runs: what happened when, on which machine. Everything that manifests must not contain is here.

`runs/<run id>/` in the store has the run's record, its recipe and lock, the paths of the raw files, and the report.
Record, lock and paths have digests. A search for runs skips a run with a damaged file, and reports it.
"""

import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from corpora.errors import InputError
from corpora.sources.bytes.objects import parse_raw_path
from corpora.store.damage import Damaged, seal, unseal
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.settings import bind_settings

if TYPE_CHECKING:
    from corpora.store.stage import Survey
    from flows.recipes.lock import Lock
    from flows.recipes.recipe import Recipe

Value = TypeVar("Value")

QUARANTINED = "record in quarantine"  # of what is set aside
MAX_CLOCK_DIFFERENCE = timedelta(minutes=5)  # of machines that share a store, without anything being wrong


class DamagedRun(Damaged):
    """A file of a recorded run is gone, or not what was written."""

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged: {self.what}. Nothing makes the record of a run again, and no artifact depends on "
            "it: name another run, or run the recipe again."
        )


REMOVAL_MARK = "removed"


def print_to_stderr(line: str) -> None:
    """Print a line to standard error, so that it is not taken for output."""
    print(line, file=sys.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a run.

    Attributes:
        cpu_seconds: processor time of its process and of all that it started, the orchestrator's server included
        bytes_written: size of the files of the parts that it built, if their stages were finished
        peak_bytes: the most memory that all these processes had together, measured once a second
    """

    cpu_seconds: float
    bytes_written: int
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun:
    """The run as the orchestrator has it. page: its address there; "" if that is unknown"""

    id: str
    page: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """What a run did with one stage.

    Attributes:
        state: "built" or "reused"
        reason: why, in words
        seconds: time that it took
        parts: number of its parts (file sets that are built on their own)
        parts_built: number of parts that the run built
        bytes_built: size of the files of these parts
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
    """What happens to one stage during a run, which may go through its stages more than once.

    Attributes:
        reasons: why it was not whole, each once
        missing: names of the parts that were missing at any time
        unchanged_reason: why it was reused
        record: the record of the stage, once it is whole
    """

    reasons: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    unchanged_reason: str = ""
    record: StageRecord | None = None

    def begin(self, survey: "Survey", reason: str, damaged: bool) -> None:
        """Note that the run looks at the stage.

        Args:
            survey: what the store has of the stage
            reason: why it is reused or built
            damaged: True if it is not whole because of damage
        """
        if survey.manifest is not None:
            self.unchanged_reason = reason
            return
        if damaged or not self.reasons:
            self.reasons = [*dict.fromkeys([*self.reasons, reason])]
        self.missing |= {plan.name for plan in survey.missing}

    def end(self, manifest: Manifest, seconds: float) -> StageRecord:
        """Return the record of the stage, which is whole now.

        Args:
            seconds: time that it took since the last call; all are added up
        """
        before = self.record.seconds if self.record is not None else 0.0
        built = [part for part in manifest.parts if part.name in self.missing]
        self.record = StageRecord(
            kind=manifest.kind,
            name=manifest.name,
            folder=manifest.folder,
            state="built" if self.reasons else "reused",
            reason="; ".join(self.reasons) or self.unchanged_reason,
            seconds=round(before + seconds, 2),
            parts=len(manifest.parts),
            parts_built=len(self.missing),
            bytes_built=sum(file.size_bytes for part in built for file in part.files),
        )
        return self.record


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """Files or records of one kind that a run goes on without because they cannot be read.

    Attributes:
        kind: what they are, in words, such as "damaged record"
        number: how many they are
        place: where they are: an artifact of documents; or a source, with a generation or a digest of names
        new: how many of them the complete run before it did not go on without
    """

    kind: str
    number: int
    place: str
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The record of a whole run.

    Attributes:
        state: "completed", "failed" or "interrupted"
        inputs: by source, how many raw files it had and what else was found there (`flows.run.inputs.unread_files`)
        names: names of the artifacts that it may have used or built
        cost: None until it is written
        crossed: the bounds of the recipe that its figures cross, in words
        withheld: likewise, against the release that it would have replaced
        set_aside: what it goes on without because it cannot be read
        settled: folders of the artifacts of earlier generations that it took as they were
        flow_run: the run as the orchestrator has it; None if it has none
        watched: True if it was a flow of Prefect while it ran; otherwise it is reported there afterwards
        error: what ended a run that failed
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
    withheld: tuple[str, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    settled: tuple[str, ...] = ()
    flow_run: FlowRun | None = None
    watched: bool = True
    error: str = ""

    @property
    def all_crossed(self) -> tuple[str, ...]:
        """The bounds that it crosses, compared with whatever run, in words."""
        return tuple(dict.fromkeys((*self.crossed, *self.withheld)))

    @property
    def is_drifted(self) -> bool:
        """True if it is complete and crosses a bound; the command then ends with exit code 1."""
        return bool(self.all_crossed)

    @property
    def outcome(self) -> tuple[str, ...]:
        """How it ended, as everything that shows a run says it: completed; drifted, not released, 2 set aside."""
        drifted = ("drifted",) if self.is_drifted else ()
        released = ("not released",) if self.withheld else ()
        number = sum(each.new for each in self.set_aside)
        return (self.state, *drifted, *released, *((f"{number:,} set aside",) if number else ()))

    @property
    def folders(self) -> set[str]:
        """Folders of the artifacts that it built or reused."""
        return {*self.settled, *(stage.folder for stage in self.stages)}


def to_sealed(value: Any) -> bytes:
    """Serialize a dataclass as JSON with a digest of itself.

    Half of a surrogate pair, as in a path that is not UTF-8, is escaped, and read again as it was.
    """
    return seal(json.dumps(asdict(value), indent=1, ensure_ascii=False).encode(errors="backslashreplace"))


def from_sealed(kind: type[Value], data: bytes, path: str, damaged: type[Damaged] = Damaged) -> Value:
    """Read a dataclass that `to_sealed` wrote.

    Args:
        kind: the dataclass
        path: path of the data, for messages
        damaged: class of the error to raise

    Raises:
        Damaged: Of the class `damaged`, if the data does not match its digest or holds something else.
    """
    try:
        return bind_settings(kind, unseal(data, path), path)
    except Damaged as fault:
        raise damaged(path, fault.what) from fault
    except InputError as error:
        raise damaged(path, f"it holds something else ({error})") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPaths:
    """The raw files that a run read, as sha256 -> path."""

    paths: Mapping[str, str]


def build_run_id(place: Place, recipe: str) -> str:
    """Return a new id for a run: its start and its recipe. It sorts after the ids of all runs in the store.

    If the clock of an earlier run was ahead of this machine's, the time in the id is one second after that run's.
    """
    now = datetime.now(UTC)
    newest = max(
        (moment for path in place.list_files("runs") if (moment := parse_moment(path.split("/")[1]))), default=now
    )
    if newest >= now:
        now = newest.replace(microsecond=now.microsecond) + timedelta(seconds=1)
    return f"{now:%Y%m%dT%H%M%S%f}-{recipe}"


def parse_moment(run_id: str) -> datetime | None:
    """Return the time that is in a run's id; None if there is none.

    >>> parse_moment("20261122T201500123456-small").isoformat(), parse_moment("old-run")
    ('2026-11-22T20:15:00.123456+00:00', None)
    """
    try:
        return datetime.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None


def format_now() -> str:
    """Return the current time in UTC, as ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that matter if two runs differ."""
    names = ("pyarrow", "numpy", "numba", "tokenizers", "prefect", "datasketch", "ftfy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def begin_run(place: Place, run_id: str, recipe: "Recipe") -> None:
    """Write the recipe of a run that begins. This shows before anything starts if the store cannot be written."""
    place.write(get_recipe_path(run_id), recipe.text.encode())


def get_removal_mark(run_id: str) -> str:
    """Return the path of the file that is in a run's folder while it is being removed."""
    return f"runs/{run_id}/{REMOVAL_MARK}"


def get_recipe_path(run_id: str) -> str:
    """Return the path of a run's recorded recipe in its store."""
    return f"runs/{run_id}/recipe.toml"


def write_run(place: Place, record: RunRecord, lock: "Lock", report: str | None = None) -> None:
    """Write the record, the lock, the paths of the raw files and the report of a run. The record is written last."""
    folder = f"runs/{record.run_id}"
    place.write(f"{folder}/recipe.lock", lock.to_bytes())
    place.write(f"{folder}/raw.json", to_sealed(RawPaths(paths=collect_raw_paths(lock))))
    if report is not None:
        place.write(f"{folder}/report.html", report.encode())
    place.write(f"{folder}/run.json", to_sealed(record))


def collect_raw_paths(lock: "Lock") -> dict[str, str]:
    """Return sha256 -> path of every raw file of a lock that exists here."""
    files = (file for generation in lock.generations for group in generation.values() for file in group)
    return {file.sha256: file.path for file in files if file.path}


def list_run_ids(place: Place) -> list[str]:
    """List the ids of all recorded runs, oldest first."""
    return sorted(path.split("/")[1] for path in place.list_files("runs") if path.endswith("/run.json"))


def read_run(place: Place, run_id: str) -> RunRecord:
    """Read the record of one run. Raises FileNotFoundError if there is none, and DamagedRun."""
    path = f"runs/{run_id}/run.json"
    record = place.read_checked(path, lambda data: from_sealed(RunRecord, data, path, DamagedRun))
    if record.run_id != run_id:
        raise DamagedRun(path, f"it is the record of the run {record.run_id}")
    return record


def iter_newest_runs(place: Place, tell: Callable[[str], None] = print_to_stderr) -> Iterator[RunRecord]:
    """Yield the recorded runs, newest first. Those with a damaged record are skipped.

    Args:
        tell: called with a line about those, and about runs with a start in the future, since others may be newer
    """
    for record in iter_readable_runs(place, reversed(list_run_ids(place)), tell):
        if is_ahead(record):
            tell(f"{describe_clock_gap(record)}: it is taken for newer than runs that began before that.")
        yield record


def iter_readable_runs(place: Place, run_ids: Iterable[str], tell: Callable[[str], None]) -> Iterator[RunRecord]:
    """Yield the records of some runs, in the order of `run_ids`. Damaged ones are skipped.

    Args:
        tell: called with a line about those that are damaged
    """
    for run_id in run_ids:
        try:
            yield read_run(place, run_id)
        except DamagedRun as fault:
            tell(describe_passed_over(fault))


def find_newest_used(place: Place, manifests: Sequence[Manifest]) -> Manifest:
    """Return the artifact that the newest recorded run built or reused; if no run did, the last one.

    Args:
        manifests: artifacts of one store; must not be empty
    """
    by_folder = {manifest.folder: manifest for manifest in manifests}
    for record in iter_newest_runs(place) if len(manifests) > 1 else ():
        for stage in reversed(record.stages):
            if stage.folder in by_folder:
                return by_folder[stage.folder]
    return manifests[-1]


def is_ahead(record: RunRecord) -> bool:
    """Return True if a run's start is in the future by this machine's clock: later runs may sort before it."""
    return record.started > (datetime.now(UTC) + MAX_CLOCK_DIFFERENCE).isoformat()


def describe_clock_gap(record: RunRecord) -> str:
    """Describe a run with a start in the future, as the beginning of a sentence."""
    return f"The run {record.run_id} began at {record.started}, which is yet to come by this machine's clock"


def describe_passed_over(fault: DamagedRun) -> str:
    """Return the line about a run that is skipped because a file of it is damaged."""
    return f"{fault.path} is damaged: {fault.what}. That run is passed over."


def read_raw_paths(place: Place, run_id: str) -> Mapping[str, str]:
    """Read the raw files that a recorded run read, as sha256 -> path. Raises DamagedRun."""
    path = f"runs/{run_id}/raw.json"
    return from_sealed(RawPaths, _read_file(place, path), path, DamagedRun).paths


def _read_file(place: Place, path: str) -> bytes:
    """Read a file that every recorded run has. Raises DamagedRun if it is gone."""
    try:
        return place.read(path)
    except FileNotFoundError as error:
        raise DamagedRun(path, "it is gone") from error


def find_raw_file(
    place: Place, sha256: str, tell: Callable[[str], None] = print_to_stderr
) -> tuple[RunRecord, Path] | None:
    """Find the newest run that read a raw file with this content at a path at which it still exists.

    Args:
        tell: called with a line about runs that are damaged, which are skipped

    Returns:
        The record of the run, and the path of the file; None if there is no such run.
    """
    for record in iter_newest_runs(place, tell):
        try:
            path = read_raw_paths(place, record.run_id).get(sha256)
        except DamagedRun as fault:
            tell(describe_passed_over(fault))
            continue
        if path is not None and parse_raw_path(path).exists():
            return record, parse_raw_path(path)
    return None


def read_recorded_lock(place: Place, run_id: str) -> "Lock":
    """Read the lock of a recorded run, with the paths at which it read the raw files. Raises DamagedRun."""
    from flows.recipes.lock import Lock

    path = f"runs/{run_id}/recipe.lock"
    data = _read_file(place, path)
    try:
        unseal(data, path)
        lock = Lock.from_bytes(data, Path(run_id))
    except Damaged as fault:
        raise DamagedRun(path, fault.what) from fault
    except InputError as error:
        raise DamagedRun(path, "it is not a lock that this program can read") from error
    return lock.with_paths(read_raw_paths(place, run_id))


def read_recorded_recipe(record: RunRecord, store: str) -> "Recipe":
    """Return the recipe that a run recorded.

    Args:
        store: where the store is now; a relative path is relative to the current folder
    """
    from flows.recipes.recipe import parse_recipe  # with all sources and steps

    place = Place(store)
    address = str(Path(store).absolute()) if place.is_local else place.address
    return parse_recipe(record.recipe_toml, Path(record.recipe_path), record.overrides, address)
