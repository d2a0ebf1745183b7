"""Runs: what happened when, on which machine. Everything that manifests must not say is here.

`runs/<run id>/` in the store holds the run's record, its recipe and lock, where the raw files lay, and the
report.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.stage import Survey
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe, parse_recipe, with_store


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """One stage of a run: whether it was built or reused, why, and how long it took."""

    kind: str
    name: str
    folder: str
    state: str  # built or reused
    reason: str
    seconds: float
    parts: int
    parts_built: int


@dataclass(kw_only=True)
class StageHistory:
    """One stage over a run, which may follow its page more than once: what was missing of it at any time, and why."""

    reasons: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    whole: str = ""
    record: StageRecord | None = None

    def begin(self, survey: Survey, reason: str, damaged: bool) -> None:
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
        self.record = StageRecord(
            kind=manifest.kind,
            name=manifest.name,
            folder=manifest.folder,
            state="built" if self.reasons else "reused",
            reason="; ".join(self.reasons) or self.whole,
            seconds=round(before + seconds, 2),
            parts=len(manifest.parts),
            parts_built=len(self.missing),
        )
        return self.record


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A whole run. `state` is completed or failed."""

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

    def to_bytes(self) -> bytes:
        """A form for the store."""
        return (json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n").encode()

    @staticmethod
    def from_bytes(data: bytes) -> "RunRecord":
        """The record that `to_bytes` wrote."""
        fields: dict[str, Any] = json.loads(data)
        stages = tuple(StageRecord(**stage) for stage in fields["stages"])
        return RunRecord(**{**fields, "stages": stages})


def new_run_id(recipe: str) -> str:
    """A name for a run: when it began, and of which recipe."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{recipe}"


def now_text() -> str:
    """This moment, in UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine_versions() -> dict[str, str]:
    """Versions that a person wants to know when two runs differ."""
    names = ("pyarrow", "numpy", "numba", "tokenizers", "prefect", "datasketch", "ftfy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def begin_run(place: Place, run_id: str, recipe: Recipe) -> None:
    """Put the recipe of a run that begins: a store that cannot be written is found out before anything starts."""
    place.write(f"runs/{run_id}/recipe.toml", recipe.text.encode())


def write_run(place: Place, record: RunRecord, lock: Lock, report: str | None = None) -> None:
    """Put the record, the lock, the raw files' whereabouts and the report of a run."""
    folder = f"runs/{record.run_id}"
    place.write(f"{folder}/recipe.lock", lock.to_bytes())
    place.write(f"{folder}/raw.json", json.dumps(raw_paths(lock), indent=1).encode())
    if report is not None:
        place.write(f"{folder}/report.html", report.encode())
    place.write(f"{folder}/run.json", record.to_bytes())


def raw_paths(lock: Lock) -> dict[str, str]:
    """sha256 -> path of every raw file that is here."""
    files = (file for generation in lock.generations for group in generation.values() for file in group)
    return {file.sha256: file.path for file in files if file.path}


def list_runs(place: Place) -> list[str]:
    """Ids of all recorded runs, oldest first."""
    return sorted(path.split("/")[1] for path in place.sizes("runs") if path.endswith("/run.json"))


def read_run(place: Place, run_id: str) -> RunRecord:
    """The record of one run. Raises FileNotFoundError."""
    return RunRecord.from_bytes(place.read(f"runs/{run_id}/run.json"))


def find_raw_file(place: Place, sha256: str) -> tuple[RunRecord, Path] | None:
    """The newest run that read a raw file with this content, and where it lies, if it is still there."""
    for run_id in reversed(list_runs(place)):
        path = json.loads(place.read(f"runs/{run_id}/raw.json")).get(sha256)
        if path is not None and Path(path).exists():
            return read_run(place, run_id), Path(path)
    return None


def recorded_lock(place: Place, run_id: str) -> Lock:
    """The lock of a run, with the paths at which it read the raw files."""
    lock = Lock.from_bytes(place.read(f"runs/{run_id}/recipe.lock"), Path(run_id))
    return lock.with_paths(json.loads(place.read(f"runs/{run_id}/raw.json")))


def recorded_recipe(record: RunRecord, store: str | None = None) -> Recipe:
    """The recipe that a run recorded, with the store where it is found now."""
    recipe = parse_recipe(record.recipe_toml, Path(record.recipe_path), record.overrides)
    return with_store(recipe, store) if store is not None else recipe
