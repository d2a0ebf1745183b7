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
    """Raised when the record of a run, or another file that was stored with it, is missing or damaged."""

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged: {self.what}. Nothing makes the record of a run again, and no artifact depends on "
            "it: name another run, or run the recipe again."
        )


REMOVAL_MARK = "removed"


def print_to_stderr(line: str) -> None:
    """Print a line to standard error, so that it is not part of the command's output."""
    print(line, file=sys.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a run.

    Attributes:
        cpu_seconds: CPU time of the run's process and all its child processes, including the Prefect server.
        bytes_written: Size of the files that the run built, in finished stages only.
        peak_bytes: Peak total memory of all these processes, sampled once per second.
    """

    cpu_seconds: float
    bytes_written: int
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun:
    """The Prefect flow run that tracks a run: its id, and the URL of its page in the Prefect UI ("" if unknown)."""

    id: str
    page: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """What a run did with one stage of the pipeline.

    Attributes:
        kind, name: Kind and name of the artifact (stored result of the stage), such as "tokens" and "small".
        folder: Folder of the artifact, relative to the store.
        state: "built" or "reused".
        reason: Why the stage was built or reused.
        seconds: Time that the run spent on the stage, in seconds.
        parts: Number of parts (file sets that are built independently).
        parts_built: Number of parts that the run built.
        bytes_built: Size of the files in these parts, in bytes.
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
    """Collects what happens to a pipeline stage during a run. The run may process the stage several times.

    Attributes:
        reasons: The distinct reasons why the stage was not complete.
        missing: Names of the parts that were missing at any time during the run.
        unchanged_reason: Why the stage was reused.
        record: The record of the stage, or None until the stage is complete.
    """

    reasons: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    unchanged_reason: str = ""
    record: StageRecord | None = None

    def begin(self, survey: "Survey", reason: str, damaged: bool) -> None:
        """Record that the run starts to process the stage.

        Args:
            survey: The existing and missing parts of the stage's result in the store.
            reason: Why the stage is reused or built.
            damaged: True if the stage is incomplete because of damage.
        """
        if survey.manifest is not None:
            self.unchanged_reason = reason
            return
        if damaged or not self.reasons:
            self.reasons = [*dict.fromkeys([*self.reasons, reason])]
        self.missing |= {plan.name for plan in survey.missing}

    def end(self, manifest: Manifest, seconds: float) -> StageRecord:
        """Record that the stage is complete, and return its record.

        Args:
            manifest: Manifest (description) of the complete artifact.
            seconds: Time since `begin`. It is added to the time of earlier calls.
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
    """Files or records of one kind that a run skips because they cannot be read.

    Attributes:
        kind: Kind of the skipped items, such as "damaged record".
        number: Number of skipped items.
        place: Location of the items: the folder of parsed documents, or the source of the files followed by a
            generation (the raw files that one run added) or a digest of the file names.
        new: Number of items that the previous completed run did not skip.
    """

    kind: str
    number: int
    place: str
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The stored record of a run: its recipe, state, stages, cost and exceeded limits.

    Attributes:
        run_id: Id of the run.
        recipe, recipe_path, recipe_toml: Name, path and text of the recipe.
        started: Start time in UTC (ISO 8601).
        seconds: Elapsed time.
        workers: Number of worker processes.
        state: "completed", "failed" or "interrupted".
        stages: What the run did with each stage.
        versions: Versions of Python and libraries, by name.
        overrides: Settings given with `--set`, as value by key.
        inputs: Counts of the files that were read and not read, by source name, from `build_unread_json`.
        names: Names of the artifacts that the run may have used or built.
        cost: Cost of the run; None if it was not measured.
        crossed: Descriptions of the recipe's `[bounds]` that the run's metrics exceed, compared with the previous run.
        withheld: Descriptions of the `[bounds]` that the metrics exceed, compared with the current release.
        set_aside: The items that the run skipped because they cannot be read.
        settled: Folders of artifacts that were already complete in the store and were reused without a check.
        flow_run: The Prefect flow run; None if there is none.
        watched: True if Prefect tracked the run while it was running. Otherwise, it is reported to Prefect afterwards.
        error: Message of the error that made the run fail.
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
        """Distinct one-line descriptions of all exceeded limits, compared with the previous run or the release."""
        return tuple(dict.fromkeys((*self.crossed, *self.withheld)))

    @property
    def is_drifted(self) -> bool:
        """True if a metric of the run exceeds a limit in the recipe. In this case, the command exits with code 1."""
        return bool(self.all_crossed)

    @property
    def outcome(self) -> tuple[str, ...]:
        """The state of the run, then, if they apply, "drifted" (limits exceeded), "not released" and "N set aside".

        N is the number of files and records that this run skipped, but the previous one did not.
        """
        drifted = ("drifted",) if self.is_drifted else ()
        released = ("not released",) if self.withheld else ()
        number = sum(each.new for each in self.set_aside)
        return (self.state, *drifted, *released, *((f"{number:,} set aside",) if number else ()))

    @property
    def folders(self) -> set[str]:
        """Folders of the artifacts that the run built or reused."""
        return {*self.settled, *(stage.folder for stage in self.stages)}


def to_sealed(value: Any) -> bytes:
    """Serialize a dataclass as JSON text that ends with a digest of the JSON, so that damage can be detected.

    Lone surrogates, as in a path that is not UTF-8, are escaped. `from_sealed` restores them.
    """
    return seal(json.dumps(asdict(value), indent=1, ensure_ascii=False).encode(errors="backslashreplace"))


def from_sealed(kind: type[Value], data: bytes, path: str, damaged: type[Damaged] = Damaged) -> Value:
    """Parse a dataclass that `to_sealed` serialized.

    Args:
        kind: The dataclass.
        data: The serialized bytes.
        path: Path of the file that contains the data, for messages.
        damaged: Class of the error to raise.

    Raises:
        Damaged: If the data does not match its digest, or has invalid fields. The error is an instance of `damaged`.
    """
    try:
        return bind_settings(kind, unseal(data, path), path)
    except Damaged as fault:
        raise damaged(path, fault.what) from fault
    except InputError as error:
        raise damaged(path, f"it holds something else ({error})") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPaths:
    """The raw files that a run read. `paths` has the path of each file, by sha256."""

    paths: Mapping[str, str]


def build_run_id(place: Place, recipe: str) -> str:
    """Create the id of a new run, such as "20261122T201500123456-news": the current UTC time and the recipe's name.

    The id sorts after all ids in the store. If an existing id has a later time, the new id's time is one second after
    that.

    Args:
        place: The store.
        recipe: Name of the recipe.
    """
    now = datetime.now(UTC)
    newest = max(
        (moment for path in place.list_files("runs") if (moment := parse_moment(path.split("/")[1]))), default=now
    )
    if newest >= now:
        now = newest.replace(microsecond=now.microsecond) + timedelta(seconds=1)
    return f"{now:%Y%m%dT%H%M%S%f}-{recipe}"


def parse_moment(run_id: str) -> datetime | None:
    """Return the time in a run id, or None if it contains no time.

    >>> parse_moment("20261122T201500123456-small").isoformat(), parse_moment("old-run")
    ('2026-11-22T20:15:00.123456+00:00', None)
    """
    try:
        return datetime.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None


def format_now() -> str:
    """Return the current UTC time in ISO 8601 format, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_versions() -> dict[str, str]:
    """Return the versions of Python and of all libraries that can affect the results of a run, by name."""
    names = ("pyarrow", "numpy", "numba", "tokenizers", "prefect", "datasketch", "ftfy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def begin_run(place: Place, run_id: str, recipe: "Recipe") -> None:
    """Write the text of a new run's recipe to the store.

    Args:
        place: The store.
        run_id: Id of the run.
        recipe: The recipe.

    Raises:
        InputError: If the store is not writable.
    """
    place.write(get_recipe_path(run_id), recipe.text.encode())


def get_removal_mark(run_id: str) -> str:
    """Return the path, relative to the store, of the file that marks a run's folder as being removed."""
    return f"runs/{run_id}/{REMOVAL_MARK}"


def get_recipe_path(run_id: str) -> str:
    """Return the path, relative to the store, of a run's recorded recipe."""
    return f"runs/{run_id}/recipe.toml"


def write_run(place: Place, record: RunRecord, lock: "Lock", report: str | None = None) -> None:
    """Write the files of a run that has ended: its lock, raw file paths and report, and finally its record.

    Args:
        place: The store.
        record: The record of the run.
        lock: The recipe's lock (the raw files and models that the run used).
        report: The report as HTML; None if there is none.

    Raises:
        InputError: If the store is not writable.
    """
    folder = f"runs/{record.run_id}"
    place.write(f"{folder}/recipe.lock", lock.to_bytes())
    place.write(f"{folder}/raw.json", to_sealed(RawPaths(paths=collect_raw_paths(lock))))
    if report is not None:
        place.write(f"{folder}/report.html", report.encode())
    place.write(f"{folder}/run.json", to_sealed(record))


def collect_raw_paths(lock: "Lock") -> dict[str, str]:
    """Return the paths of a lock's raw files that exist on this machine, by sha256 of their content."""
    files = (file for generation in lock.generations for group in generation.values() for file in group)
    return {file.sha256: file.path for file in files if file.path}


def list_run_ids(place: Place) -> list[str]:
    """Return the ids of all recorded runs, oldest first."""
    return sorted(path.split("/")[1] for path in place.list_files("runs") if path.endswith("/run.json"))


def read_run(place: Place, run_id: str) -> RunRecord:
    """Read the record of one run from the store, given the run's full id.

    Raises:
        FileNotFoundError: If the run has no record.
        DamagedRun: If the record is damaged or belongs to another run.
    """
    path = f"runs/{run_id}/run.json"
    record = place.read_checked(path, lambda data: from_sealed(RunRecord, data, path, DamagedRun))
    if record.run_id != run_id:
        raise DamagedRun(path, f"it is the record of the run {record.run_id}")
    return record


def iter_newest_runs(place: Place, tell: Callable[[str], None] = print_to_stderr) -> Iterator[RunRecord]:
    """Yield the records of all runs, newest first. Runs with a damaged record are skipped.

    Args:
        place: The store.
        tell: Called with a line to print for each skipped run, and for each run with a start time in the future,
            because its position may be wrong.
    """
    for record in iter_readable_runs(place, reversed(list_run_ids(place)), tell):
        if is_ahead(record):
            tell(f"{describe_clock_gap(record)}: it is taken for newer than runs that began before that.")
        yield record


def iter_readable_runs(place: Place, run_ids: Iterable[str], tell: Callable[[str], None]) -> Iterator[RunRecord]:
    """Yield the records of the given runs in the order of `run_ids`. Runs with a damaged record are skipped.

    Args:
        place: The store.
        run_ids: Ids of recorded runs.
        tell: Called with a line to print for each skipped run.

    Raises:
        FileNotFoundError: During iteration, if a run has no record.
    """
    for run_id in run_ids:
        try:
            yield read_run(place, run_id)
        except DamagedRun as fault:
            tell(describe_passed_over(fault))


def find_newest_used(place: Place, manifests: Sequence[Manifest]) -> Manifest:
    """Return the manifest of the artifact that was most recently built or reused by a run.

    If no recorded run used any of the artifacts, the last manifest is returned.

    Args:
        place: The store.
        manifests: Manifests (descriptions) of artifacts in the store; must not be empty.
    """
    by_folder = {manifest.folder: manifest for manifest in manifests}
    for record in iter_newest_runs(place) if len(manifests) > 1 else ():
        for stage in reversed(record.stages):
            if stage.folder in by_folder:
                return by_folder[stage.folder]
    return manifests[-1]


def is_ahead(record: RunRecord) -> bool:
    """Return True if a run's start time is in the future, so that later runs may be sorted before it."""
    return record.started > (datetime.now(UTC) + MAX_CLOCK_DIFFERENCE).isoformat()


def describe_clock_gap(record: RunRecord) -> str:
    """Return "The run ID began at TIME, which is yet to come by this machine's clock", without a full stop.

    The caller has checked that the start time is in the future, and appends to the sentence.
    """
    return f"The run {record.run_id} began at {record.started}, which is yet to come by this machine's clock"


def describe_passed_over(fault: DamagedRun) -> str:
    """Build a message about a run that is skipped because one of its files is damaged."""
    return f"{fault.path} is damaged: {fault.what}. That run is passed over."


def read_raw_paths(place: Place, run_id: str) -> Mapping[str, str]:
    """Read the paths of the raw files that a recorded run read, by sha256 of their content.

    Args:
        place: The store.
        run_id: Full id of the run.

    Raises:
        DamagedRun: If the file with the paths is missing or damaged.
    """
    path = f"runs/{run_id}/raw.json"
    return from_sealed(RawPaths, _read_file(place, path), path, DamagedRun).paths


def _read_file(place: Place, path: str) -> bytes:
    """Read a file that every recorded run has, by its path in the store. Raises DamagedRun if it is missing."""
    try:
        return place.read(path)
    except FileNotFoundError as error:
        raise DamagedRun(path, "it is gone") from error


def iter_raw_files(
    place: Place, sha256: str, tell: Callable[[str], None] = print_to_stderr
) -> Iterator[tuple[RunRecord, Path]]:
    """Yield the paths from which runs read a raw file with the given content, and which still exist. Newest run first.

    The files are not read, so one of them may have another content now.

    Args:
        place: The store.
        sha256: Digest of the content.
        tell: Called with a line to print for each damaged run. Such runs are skipped.

    Yields:
        The record of a run, and the path of the file.
    """
    for record in iter_newest_runs(place, tell):
        try:
            path = read_raw_paths(place, record.run_id).get(sha256)
        except DamagedRun as fault:
            tell(describe_passed_over(fault))
            continue
        if path is not None and parse_raw_path(path).exists():
            yield record, parse_raw_path(path)


def read_recorded_lock(place: Place, run_id: str) -> "Lock":
    """Read the lock (list of raw files and models) of a recorded run, with the file paths at the time of the run.

    Raises:
        DamagedRun: If a file of the run is missing or damaged.
    """
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
    """Parse the recipe of a recorded run, including the settings that were given with `--set`.

    Args:
        record: The record of the run.
        store: Current address of the store. A relative path is resolved against the current folder.

    Raises:
        InputError: If the recipe is no longer valid.
    """
    from flows.recipes.recipe import parse_recipe  # with all sources and steps

    place = Place(store)
    address = str(Path(store).absolute()) if place.is_local else place.address
    return parse_recipe(record.recipe_toml, Path(record.recipe_path), record.overrides, address)
