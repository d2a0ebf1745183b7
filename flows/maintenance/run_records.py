"""Records of runs: the newest of each recipe stay, and those that something refers to.

A run that is under way, one that a release was promoted from, and the last completed runs, which show what a store
needs, are never removed. A run's recipe goes first and its record second, and all the while a file says so, so that a
half-removed one is taken neither for lost nor for damaged.

Cost: a listing of `runs/`; where there are too many, the records of the newest.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from corpora.errors import InputError
from corpora.store.places.files import remove_empty_folders
from corpora.store.places.place import Place
from flows.run.record.releases import list_released_runs
from flows.run.record.run_record import REMOVAL_MARK, get_removal_mark
from flows.run.record.run_status import UNFINISHED_RUN_FILES, list_run_files, parse_recipe_name, read_run_state

COMPLETED = 10  # completed runs of a recipe that stay, however few records are kept
FIRST = ("recipe.toml", "running.json", "run.json")


def old_runs(place: Place, keep: int, recipe: str | None = None) -> dict[str, dict[str, int]]:
    """Return the runs whose records may go, with their files in the order in which they go, and sizes.

    keep:   so many of the newest runs of each recipe stay
    recipe: look only at this one
    """
    files = list_run_files(place)
    by_recipe: dict[str, list[str]] = {}
    for run_id in sorted(files, reverse=True):
        if recipe in (None, parse_recipe_name(run_id)):
            by_recipe.setdefault(parse_recipe_name(run_id), []).append(run_id)
    old = [run_id for ids in by_recipe.values() for run_id in _beyond(place, ids, files, keep)]
    released = list_released_runs(place) if old else set()
    return {run_id: _in_order(run_id, files[run_id]) for run_id in old if run_id not in released}


def _beyond(place: Place, ids: list[str], files: Mapping[str, Mapping[str, int]], keep: int) -> list[str]:
    """Return the excess runs of a recipe, given newest first. What is no longer a run goes at any place."""
    halves = [run_id for run_id in ids if not {"run.json", *UNFINISHED_RUN_FILES} & files[run_id].keys()]
    whole = [run_id for run_id in ids if run_id not in halves]
    completed, beyond = 0, list[str]()
    for number, run_id in enumerate(whole):
        if number < keep and (completed >= COMPLETED or len(whole) <= keep):
            continue
        state = read_run_state(place, run_id, files[run_id])
        done = state is not None and state.state == "completed"
        stays = state is None or state.state == "running" or (done and completed < COMPLETED)
        completed += done
        if number >= keep and not stays:
            beyond.append(run_id)
    return halves + beyond


def _in_order(run_id: str, files: Mapping[str, int]) -> dict[str, int]:
    names = sorted(files, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    return {f"runs/{run_id}/{name}": files[name] for name in names if name != REMOVAL_MARK}


def keep_newest(place: Place, recipe: str, keep: int, tell: Callable[[str], None]) -> None:
    """Remove the records of old runs of a recipe; a failure is reported, not raised."""
    try:
        for run_id, files in old_runs(place, keep, recipe).items():
            place.write(get_removal_mark(run_id), b"")
            for path in (*files, get_removal_mark(run_id)):
                remove(place, path)
    except InputError as error:
        tell(f"Records of old runs stay: {error}")


def remove(place: Place, path: str) -> None:
    """Remove a file that may be gone already, and the folders that are then empty."""
    with suppress(FileNotFoundError):
        place.delete(path)
    if place.is_local:
        remove_empty_folders(Path(place.to_full_path(path)).parent, Path(place.to_full_path("")))
