"""A recipe's lock file is read, added to and written by one run at a time; it also clears up after killed runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.places.files import remove_abandoned
from corpora.store.places.place import Place
from flows.recipes.lock import Lock, read_lock, write_lock
from flows.run.faults.held_file import held_alone


@contextmanager
def recipe_held(lock_path: Path | None, tell: Tell) -> Iterator[None]:
    """Keep other runs of a recipe from its lock during the block, so that no two runs take one file for new.

    Raises InputError if the lock's folder cannot be written.
    """
    if lock_path is None:
        yield
        return

    def refusal(error: OSError) -> InputError:
        return InputError(
            f"Cannot write {lock_path}: {error.strerror}. The lock is next to its recipe: copy the recipe to a folder "
            "that you may write."
        )

    waiting = "Another run of this recipe finds its raw files first."
    lockless = f"The file system of {lock_path.parent} has no locks: run this recipe only once at a time."
    with held_alone(lock_path.with_name(f".{lock_path.name}.held"), refusal, tell, waiting, lockless):
        yield


def change_lock(lock_path: Path | None, tell: Tell, change: Callable[[Lock], Lock]) -> None:
    """Change a recipe's lock on disk, if it has one. Raises InputError if that cannot be written."""
    if lock_path is not None:
        with recipe_held(lock_path, tell):
            write_lock(lock_path, change(read_lock(lock_path)))


def clear_up(place: Place, home: Path, tell: Callable[[str], None]) -> None:
    """Remove what killed runs left half-written in a store and in the folder for caches, and report how much it was.

    Files that a live process writes stay, for this recipe or another; an object store has no such files. Costs a
    listing of the store's files.
    """
    left = [*home.glob(".*")]
    if place.is_local:
        left += [Path(place.to_full_path(path)) for path in place.list_unfinished("")]
    if number := remove_abandoned(left):
        tell(f"Removed {number} unfinished file{'s' * (number > 1)} of runs that were killed.")
