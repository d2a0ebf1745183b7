"""Checks that a run fits the disk of its store and the memory of this machine. One paragraph says what to change.

Estimates from a sample are compared as they are. If nothing was sampled, a run is refused only if even the least
that such raw files can produce does not fit.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from corpora.errors import InputError
from corpora.sources.contract import RawFile
from corpora.store.damage import Damaged
from corpora.store.places.files import replaced_file
from corpora.store.places.place import Place
from flows.recipes.lock import Lock, ResolvedLock
from flows.recipes.recipe import Recipe
from flows.recipes.settings.engine import LOCAL
from flows.run.estimates.figures import Estimates
from flows.run.estimates.rates import DRIVER_BYTES, WORKER_BYTES, cores, usable_memory
from flows.run.record.ledger_balance import readable_bytes
from flows.run.record.run_record import sealed, unsealed

LEAST_STORED = 0.02  # bytes of a store for each of raw files: pages of a crawl, most of which are dropped
SPARE_BYTES = 200_000_000  # of a disk that is almost full
FOLDER = "estimates"
MOST_KEPT = 100


def free_bytes(place: Place) -> int | None:
    """Return the free space on the disk of a store; None if it is not a folder."""
    if not place.is_local:
        return None
    folder = Path(place.address).absolute()
    return shutil.disk_usage(next(above for above in (folder, *folder.parents) if above.is_dir())).free


def refuse_without_room(recipe: Recipe, estimates: Estimates, workers: int, available: int | None = None) -> None:
    """Raise InputError if the estimates do not fit. available: memory, by default that of this machine"""
    if not estimates.stages:
        return
    place = Place(recipe.store)
    free, available = free_bytes(place), usable_memory() if available is None else available
    if free is not None and estimates.disk_bytes > free:
        largest = sorted(estimates.stages, key=lambda stage: -stage.disk_bytes)[:3]
        most = ", ".join(f"{stage.stage} {readable_bytes(stage.disk_bytes)}" for stage in largest)
        raise InputError(
            f"The run would write about {readable_bytes(estimates.disk_bytes)} into {place.at('')}, where "
            f"{readable_bytes(free)} are free. The most of it: {most}. Give it a store on another disk (--store), "
            "fewer raw files, fewer [[shards]] or shards.copies, or dynamic masks instead of static ones."
        )
    stage = max(estimates.stages, key=lambda stage: stage.memory_bytes)
    memory = stage.memory_bytes - WORKER_BYTES * (estimates.workers - workers)
    if memory > available and recipe.engine == LOCAL:
        raise InputError(
            f"The stage {stage.stage} would take about {readable_bytes(memory)} of memory, and this "
            f"machine has {readable_bytes(available)} for it. {_memory_remedy(stage.stage.split('/')[0], workers)}"
        )


def _memory_remedy(kind: str, workers: int) -> str:
    if kind == "models":
        return "Set training.micro_batch (or micro_batch_tokens) lower, or take a smaller model.size or shards.length."
    fewer = f"Run with --workers {workers // 2 or 1} instead of {workers}. " if workers > 1 else ""
    if kind == "verdicts":
        return f"{fewer}Duplicates are searched among all documents at once: use fewer, or a larger machine."
    return f"{fewer}Else take a larger machine, or fewer raw files."


def refuse_plainly_without_room(recipe: Recipe, new: Iterable[RawFile], workers: int) -> None:
    """Check the same without a sample, for a run that reads these raw files for the first time. Raises InputError."""
    place = Place(recipe.store)
    free, available = free_bytes(place), usable_memory()
    least = round(LEAST_STORED * sum(file.size_bytes for file in new))
    if free is not None and least > SPARE_BYTES and least > free:
        raise InputError(
            f"The new raw files of the recipe {recipe.name!r} would come to at least {readable_bytes(least)} in "
            f"{place.at('')}, where {readable_bytes(free)} are free. Give it a store on another disk (--store), or "
            "fewer raw files; `cloze plan` says what each stage would take."
        )
    needed = DRIVER_BYTES + workers * WORKER_BYTES
    if needed > available and workers > 1 and recipe.engine == LOCAL:
        fitting = max(1, min(cores(), (available - DRIVER_BYTES) // WORKER_BYTES))
        raise InputError(
            f"{workers} workers take at least {readable_bytes(needed)} of memory, and this machine has "
            f"{readable_bytes(available)} for them. Run with --workers {fitting}."
        )


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
        new.write_bytes(sealed(estimates))
    kept = sorted(path.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-MOST_KEPT]:
        path.unlink(missing_ok=True)


def left_by_plan(home: Path, recipe: Recipe, lock: Lock) -> Estimates | None:
    """Read the estimates that a plan of this left; None if there are none that can be read."""
    path = _path(home, recipe, lock)
    try:
        return unsealed(Estimates, path.read_bytes(), str(path))
    except (FileNotFoundError, Damaged):
        return None


def refuse_what_does_not_fit(home: Path, recipe: Recipe, resolved: ResolvedLock, workers: int) -> None:
    """Check the run that is about to begin by what a plan left for it. Raises InputError if it does not fit.

    Without a plan only what costs nothing to learn is checked.
    """
    left = left_by_plan(home, recipe, resolved.lock)
    if left is not None:
        refuse_without_room(recipe, left, workers)
        _path(home, recipe, resolved.lock).unlink(missing_ok=True)
    else:
        refuse_plainly_without_room(recipe, [file for files in resolved.added.values() for file in files], workers)
