"""The estimates of a plan, kept for the run after it, and compared with what the run took.

`cloze plan` leaves them in the folder for caches, under a digest of the recipe, its raw files and its store: a run of
the same takes them, and keeps them next to its record. A plan of anything else has another digest.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.store.damage import Damaged
from corpora.store.manifest import Manifest
from corpora.store.places.files import replaced_file
from corpora.store.places.place import Place
from corpora.store.stage import read_manifest
from flows.recipes.lock import Lock, ResolvedLock
from flows.recipes.recipe import Recipe
from flows.run.estimates.figures import Estimates, StageEstimate
from flows.run.estimates.room import refuse_plainly_without_room, refuse_without_room
from flows.run.record.ledger_balance import num_tokens
from flows.run.record.run_record import RunRecord, StageRecord

FILE = "estimates.json"
FOLDER = "estimates"
MOST_KEPT = 100
SMALL = {  # below, a difference says nothing
    "documents": 20,
    "tokens": 2_000,
    "disk_bytes": 50_000,
    "seconds": 5.0,
    "cpu_seconds": 5.0,
    "memory_bytes": 1,
}
ROWS = {  # by kind, the table that has one row for each document
    "documents": "documents",
    "corpora": "documents",
    "signatures": "signatures",
    "verdicts": "verdicts",
    "tokens": "tokens",
}
WHOLE = "the run"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateAndFact:
    """One measure of one stage: the estimate, and the actual value."""

    stage: str
    measure: str
    estimated: float
    came: float

    @property
    def error(self) -> float:
        """By how much the estimate was too high, as a share of the actual value; infinite if that is zero."""
        if not self.came:
            return float("inf") if self.estimated else 0.0
        return self.estimated / self.came - 1


def _path(home: Path, recipe: Recipe, lock: Lock) -> Path:
    """Return the file for a recipe with its settings on the command line, its raw files and its store."""
    generations = [
        {name: [file.sha256 for file in files] for name, files in sorted(files_of.items())}
        for files_of in lock.generations
    ]
    state = [recipe.text, dict(recipe.overrides), recipe.store, generations, list(lock.quarantine)]
    digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    return home / FOLDER / f"{digest[:32]}.json"


def keep_for_run(home: Path, recipe: Recipe, lock: Lock, estimates: Estimates) -> None:
    """Leave estimates for the next run of a recipe; if there are many, the oldest go. Raises OSError."""
    path = _path(home, recipe, lock)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as new:
        new.write_bytes(estimates.to_bytes())
    kept = sorted(path.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-MOST_KEPT]:
        path.unlink(missing_ok=True)


def left_by_plan(home: Path, recipe: Recipe, lock: Lock) -> Estimates | None:
    """Read the estimates that a plan of this left; None if there are none that can be read."""
    path = _path(home, recipe, lock)
    try:
        return Estimates.from_bytes(path.read_bytes(), str(path))
    except (FileNotFoundError, Damaged):
        return None


def estimates_that_fit(home: Path, recipe: Recipe, resolved: ResolvedLock, workers: int) -> Estimates | None:
    """Take what a plan left for the run that is about to begin, and only for it. Raises InputError if it does not fit.

    Without a plan only what costs nothing to learn is checked.
    """
    place, left = Place(recipe.store), left_by_plan(home, recipe, resolved.lock)
    if left is not None:
        refuse_without_room(recipe, left, workers)
        _path(home, recipe, resolved.lock).unlink(missing_ok=True)
    else:
        refuse_plainly_without_room(
            place, recipe, [file for files in resolved.added.values() for file in files], workers
        )
    return left


def keep_with_run(place: Place, run_id: str, estimates: Estimates | None) -> None:
    """Put estimates next to the record of a run, if there are any."""
    if estimates is None or not estimates.stages:
        return
    place.write(f"runs/{run_id}/{FILE}", estimates.to_bytes())


def estimates_of(place: Place, run_id: str) -> Estimates | None:
    """Read the estimates that a run started with; None if it had none, or they are damaged."""
    path = f"runs/{run_id}/{FILE}"
    try:
        return Estimates.from_bytes(place.read(path), path)
    except (FileNotFoundError, Damaged):
        return None


def compare_with_facts(place: Place, record: RunRecord, estimates: Estimates) -> list[EstimateAndFact]:
    """Compare each estimate for a stage that the run built with the actual value. Raises Damaged."""
    built: dict[str, list[StageRecord]] = {}
    for stage in record.stages:
        if stage.parts_built:
            built.setdefault(f"{stage.kind}/{stage.name}", []).append(stage)
    compared = []
    for estimate in estimates.stages:
        stages = built.get(estimate.stage, [])
        manifests = [made for stage in stages if (made := read_manifest(place, stage.folder)) is not None]
        if stages and len(manifests) == len(stages):
            came = {**facts_of(manifests), "seconds": max(stage.seconds for stage in stages)}
            compared += _compare(estimate.stage, estimate, came)
    if record.cost is not None and built.keys() >= {stage.stage for stage in estimates.stages}:
        cost = {"cpu_seconds": record.cost.cpu_seconds, "memory_bytes": float(record.cost.peak_bytes) or None}
        compared += _compare(WHOLE, estimates, cost)
    return compared


def _compare(
    stage: str, estimates: StageEstimate | Estimates, came: Mapping[str, float | None]
) -> list[EstimateAndFact]:
    pairs = ((measure, getattr(estimates, measure), value) for measure, value in came.items())
    return [
        EstimateAndFact(stage=stage, measure=measure, estimated=before, came=value)
        for measure, before, value in pairs
        if before is not None and value is not None and max(before, value) >= SMALL[measure]
    ]


def facts_of(manifests: Sequence[Manifest]) -> dict[str, float | None]:
    """Return the actual values of a stage's generations; None for what it does not count."""
    kind, newest = manifests[0].kind, manifests[0]
    tokens = num_tokens(newest.parts) if kind == "tokens" else None
    return {
        "documents": sum(manifest.rows(ROWS[kind]) for manifest in manifests) if kind in ROWS else None,
        "tokens": newest.ledger.figures.get("example tokens") if kind == "shards" else tokens,
        "disk_bytes": sum(map(written_bytes, manifests)),
    }


def written_bytes(manifest: Manifest) -> int:
    """Return the bytes of an artifact's own files, without the parts that it has from an older one."""
    own = f"{manifest.fingerprint}/"
    return sum(file.size_bytes for part in manifest.parts for file in part.files if file.path.startswith(own))


def recorded_times(place: Place, records: Iterable[RunRecord]) -> dict[str, tuple[float, float]]:
    """Return the estimated and the actual seconds by kind of stage, from the newest run that had estimates."""
    for record in records:
        if record.state != "completed" or (estimates := estimates_of(place, record.run_id)) is None:
            continue
        estimated, took = dict[str, float](), dict[str, float]()
        compared = [pair for pair in compare_with_facts(place, record, estimates) if pair.measure == "seconds"]
        for pair in compared:
            kind = pair.stage.split("/")[0]
            estimated[kind] = estimated.get(kind, 0.0) + pair.estimated
            took[kind] = max(took.get(kind, 0.0), pair.came)
        return {kind: (estimated[kind], took[kind]) for kind in estimated}
    return {}
