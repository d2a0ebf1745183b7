"""Removes records of runs: the newest ones of each recipe stay, and those that something refers to.

Never removed are a run that is under way, one from which a release was promoted, and the last completed runs, which
show what a store needs. The recipe of a run is removed first and its record second. Until everything is removed, a
marker file says so, so that nobody takes what is left for a lost or damaged run.

Cost: a listing of `runs/`; if there are too many, the records of the newest.
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

MIN_COMPLETED = 10  # completed runs of a recipe that stay, however few records are kept
REMOVAL_RANK = {"recipe.toml": 0, "running.json": 1, "run.json": 2}  # other files follow by name


def find_old_runs(place: Place, keep: int, recipe: str | None = None) -> dict[str, dict[str, int]]:
    """Find the runs with records that may be removed.

    Args:
        place: The store.
        keep: Number of newest runs of each recipe to keep.
        recipe: Name of a recipe, to consider only its runs. If None, the runs of all recipes are considered.

    Returns:
        For each run id, the sizes in bytes of the run's files by path, in removal order.
    """
    files = list_run_files(place)
    by_recipe: dict[str, list[str]] = {}
    for run_id in sorted(files, reverse=True):
        if recipe in (None, parse_recipe_name(run_id)):
            by_recipe.setdefault(parse_recipe_name(run_id), []).append(run_id)
    old = [run_id for ids in by_recipe.values() for run_id in _find_excess(place, ids, files, keep)]
    released = list_released_runs(place) if old else set()
    return {run_id: _sort_for_removal(run_id, files[run_id]) for run_id in old if run_id not in released}


def _find_excess(place: Place, ids: list[str], files: Mapping[str, Mapping[str, int]], keep: int) -> list[str]:
    """Return the ids of the runs of a recipe that may be removed.

    Runs that were partially removed by an interrupted clean-up are always included.

    Args:
        place: The store.
        ids: Ids of the runs, newest first.
        files: Maps each run id to the names and sizes of its files.
        keep: Number of newest runs to keep.
    """
    incomplete = [run_id for run_id in ids if not {"run.json", *UNFINISHED_RUN_FILES} & files[run_id].keys()]
    complete = [run_id for run_id in ids if run_id not in incomplete]
    completed, excess = 0, list[str]()
    for number, run_id in enumerate(complete):
        if number < keep and (completed >= MIN_COMPLETED or len(complete) <= keep):
            continue
        state = read_run_state(place, run_id, files[run_id])
        done = state is not None and state.state == "completed"
        stays = state is None or state.state == "running" or (done and completed < MIN_COMPLETED)
        completed += done
        if number >= keep and not stays:
            excess.append(run_id)
    return incomplete + excess


def _sort_for_removal(run_id: str, files: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes in bytes of a run's files by path, in removal order.

    Args:
        run_id: Id of the run.
        files: Maps the names of its files to their sizes. The marker file of a removal is left out.
    """
    names = sorted(files, key=lambda name: (REMOVAL_RANK.get(name, len(REMOVAL_RANK)), name))
    return {f"runs/{run_id}/{name}": files[name] for name in names if name != REMOVAL_MARK}


def keep_newest(place: Place, recipe: str, keep: int, tell: Callable[[str], None]) -> None:
    """Remove the records of a recipe's old runs.

    An InputError that prevents the removal is reported but not raised.

    Args:
        place: The store.
        recipe: Name of the recipe.
        keep: Number of newest runs to keep.
        tell: Callback that prints a line. Called with a message if records cannot be removed.
    """
    try:
        for run_id, files in find_old_runs(place, keep, recipe).items():
            place.write(get_removal_mark(run_id), b"")
            for path in (*files, get_removal_mark(run_id)):
                remove_file(place, path)
    except InputError as error:
        tell(f"Records of old runs stay: {error}")


def remove_file(place: Place, path: str) -> None:
    """Remove a file of a store if it exists, and any folders that become empty.

    Args:
        place: The store.
        path: Path of the file in the store.
    """
    with suppress(FileNotFoundError):
        place.delete(path)
    if place.is_local:
        remove_empty_folders(Path(place.to_full_path(path)).parent, Path(place.to_full_path("")))
