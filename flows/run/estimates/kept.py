"""The estimates of a plan, kept for the run after it.

`cloze plan` leaves them in the folder for caches, under a digest of the recipe, its raw files and its store: a run of
the same takes them, and is refused if they do not fit. A plan of anything else has another digest.
"""

import hashlib
import json
from pathlib import Path

from corpora.store.damage import Damaged
from corpora.store.places.files import replaced_file
from flows.recipes.lock import Lock, ResolvedLock
from flows.recipes.recipe import Recipe
from flows.run.estimates.figures import Estimates
from flows.run.estimates.room import refuse_plainly_without_room, refuse_without_room
from flows.run.record.run_record import sealed, unsealed

FOLDER = "estimates"
MOST_KEPT = 100


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
