"""Lets a clean-up of a store (`cloze gc`), runs and releases stay out of each other's way, and the runs of one recipe.

Clean-up: each side first announces itself in a file of the store, and then looks for the other. If two begin at once,
at least one sees the other. A run that sees a clean-up waits for its end; a clean-up that sees a run leaves everything
that the run may use. This needs no file lock, so it works in object stores, and between machines.

A recipe's lock file is read, extended and written by one run at a time. `hold_alone` holds a file so that only one
process of a machine does something, on a disk that has file locks. `remove_leftovers` clears up after killed runs.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.store.leases import MAX_SILENT_SECONDS, Heartbeat, HeartbeatWriter, read_heartbeat
from corpora.store.places.files import NO_LOCK_ERRORS, hold_lock, remove_abandoned
from corpora.store.places.place import Place
from flows.recipes.lock import Lock, read_lock, write_lock

CLEANUP_FOLDER = "clearing"  # the folder
POLL_SECONDS = 0.5


class CleanUp:
    """A running clean-up (removal of unused results) of a store.

    A file in the store lists what is being removed, so that the next clean-up can finish the work if this one is
    killed.
    """

    def __init__(self, place: Place, path: str) -> None:
        self._folders: Sequence[str] = ()
        self._reported_at = time.time()
        self._heartbeat = HeartbeatWriter(place, path, self._report)

    def begin(self, folders: Sequence[str]) -> None:
        """Record which artifacts (stored stage results) will be removed. Must be called before the first removal.

        Args:
            folders: Folders of the artifacts, relative to the store.
        """
        self._folders = folders
        self._heartbeat.write_now()

    def check_alive(self) -> None:
        """Check that this process has not stalled for so long that other processes may consider it dead.

        Raises:
            InputError: If it has stalled for that long.
        """
        if time.time() - self._reported_at > MAX_SILENT_SECONDS / 2:
            raise InputError("The clean-up stalled for minutes, and runs may have begun: start it again.")

    def end(self, keep: bool = False) -> None:
        """End the clean-up and remove its file from the store.

        Args:
            keep: True to leave the file in the store, because the clean-up is unfinished.
        """
        self._heartbeat.stop(keep)

    @property
    def has_begun(self) -> bool:
        """True if some artifacts may already have been removed."""
        return bool(self._folders)

    def _report(self) -> dict[str, list[str]]:
        self._reported_at = time.time()
        return {"folders": list(self._folders)}


@contextmanager
def hold_cleanup(place: Place) -> Iterator[CleanUp]:
    """Prevent other processes from cleaning up (removing unused results of) a store during the block.

    If the block fails or the process is killed after something was removed, the clean-up's file stays in the store, and
    the next clean-up finishes the work.

    Args:
        place: The store.

    Yields:
        The clean-up. Call its `begin` before the first removal.

    Raises:
        InputError: If another process is cleaning up the store.
    """
    path = f"{CLEANUP_FOLDER}/{os.getpid()}-{uuid.uuid4().hex[:12]}.json"
    mine = CleanUp(place, path)
    others = [present for name, present in list_cleanups(place).items() if name != path and not present.is_gone]
    if others:
        mine.end()
        process = others[0].process
        raise InputError(
            f"Another `cloze gc` clears {place.to_address('')}: process {process.pid} on {process.host}. Wait for its "
            "end."
        )
    ended = False
    try:
        yield mine
        ended = True
    finally:
        mine.end(keep=bool(mine.has_begun and not ended))


def list_cleanups(place: Place) -> dict[str, Heartbeat]:
    """Return the heartbeats (last signs of life) of a store's running and killed clean-ups, by path of their file."""
    clearing_by_path = {
        path: read_heartbeat(place, path) for path in place.list_files(CLEANUP_FOLDER) if path.endswith(".json")
    }
    return {path: present for path, present in clearing_by_path.items() if present is not None}


def wait_for_cleanup(place: Place, tell: Callable[[str], None]) -> bool:
    """Wait until no process is cleaning up a store. Returns True if there was a clean-up to wait for.

    Call this after announcing in the store which artifacts (stored stage results) must not be removed.

    Args:
        place: The store.
        tell: Called with a line if there is a clean-up to wait for.
    """
    reported = False
    while any(not present.is_gone for present in list_cleanups(place).values()):
        if not reported:
            tell("A clean-up of this store is under way (`cloze gc`): waiting for its end.")
            reported = True
        time.sleep(POLL_SECONDS)
    return reported


@contextmanager
def hold_alone(
    file: Path, refusal: Callable[[OSError], InputError], tell: Tell, waiting: str = "", lockless: str = ""
) -> Iterator[None]:
    """Lock a file during the block. Other processes that try to lock it wait.

    If the file system does not support locks, the block runs without a lock.

    Args:
        file: The file to lock; it is created if necessary.
        refusal: Function that converts an OSError to the InputError to raise.
        tell: Called with `waiting` or `lockless`.
        waiting: Message to show while waiting for another process.
        lockless: Message to show if the file system does not support locks.

    Raises:
        InputError: The result of `refusal`, if the file cannot be created, or cannot be locked for another reason.
    """
    with ExitStack() as stack:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(hold_lock(file, lambda: tell(waiting)))
        except OSError as error:
            if error.errno not in NO_LOCK_ERRORS:
                raise refusal(error) from error
            file.unlink()
            tell(lockless)
        yield


@contextmanager
def hold_recipe(lock_path: Path | None, tell: Tell) -> Iterator[None]:
    """Hold a recipe's lock file during the block, so that no other run adds the same raw files. Other runs wait.

    Args:
        lock_path: Path of the recipe's lock file. If None, nothing is locked.
        tell: Called with a message while waiting, or if the file system does not support locks.

    Raises:
        InputError: If the folder of the lock file is not writable.
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
    with hold_alone(lock_path.with_name(f".{lock_path.name}.held"), refusal, tell, waiting, lockless):
        yield


def change_lock(lock_path: Path | None, tell: Tell, change: Callable[[Lock], Lock]) -> None:
    """Read a recipe's lock file, apply a function to its content, and write it again. Other runs of the recipe wait.

    Args:
        lock_path: Path of the lock file. If None, nothing is done.
        tell: Called with a message while waiting for another run.
        change: Function that takes the content on disk, and returns the new content.

    Raises:
        InputError: If the lock file cannot be read or written.
    """
    if lock_path is not None:
        with hold_recipe(lock_path, tell):
            write_lock(lock_path, change(read_lock(lock_path)))


def remove_leftovers(place: Place, home: Path, tell: Callable[[str], None]) -> None:
    """Remove partially written files of killed runs from a store and from the CLOZE_HOME folder (caches).

    Files that a running process is writing are kept. An object store has no partially written files. This lists all
    files of the store.

    Args:
        place: The store.
        home: The CLOZE_HOME folder.
        tell: Called with a line about the number of removed files, if there are any.
    """
    left = [*home.glob(".*")]
    if place.is_local:
        left += [Path(place.to_full_path(path)) for path in place.list_unfinished("")]
    if number := remove_abandoned(left):
        tell(f"Removed {number} unfinished file{'s' * (number > 1)} of runs that were killed.")
