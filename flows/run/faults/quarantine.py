"""Quarantine: a record that ends the worker that reads or judges it, time and again, is passed over; the lock says so.

A time or memory limit, or a crash in a library, never decides by itself what is in a corpus, because the next attempt
may end differently. It ends the worker and so fails the attempt. A record at which every attempt of a task ended goes
onto the lock's list, which is an input of the run like its raw files: with that lock every machine passes the record
over and counts it as dropped (parse: quarantined). Take its line out of the lock to have it tried again.

A worker that stalled does not count as an attempt: the pool replaces it and calls again (`corpora.store.worker_pool`).
"""

from collections.abc import Callable
from dataclasses import replace

from corpora.store.worker_pool import WorkerDied
from flows.recipes.lock import Lock
from flows.recipes.recipe import Recipe
from flows.run.faults.recipe_lock import change_lock

MOST = 20  # in one run; if more records end their workers, the records are not the cause


def quarantine_record(recipe: Recipe, lock: Lock, error: WorkerDied, tell: Callable[[str], None]) -> Lock:
    """Add a record to the quarantine of a lock, also on disk. Raises InputError if that cannot be written."""
    place = error.record
    change_lock(recipe.lock_path, tell, lambda on_disk: _with(on_disk, place))
    tell(f"{described(lock, place)} is in quarantine from now on: {error}")
    return _with(lock, place)


def described(lock: Lock, place: str) -> str:
    """Describe a record in quarantine.

    >>> described(Lock(), "ab12 -1 300")
    'The record at byte 300 of a raw file (sha256 ab12)'
    """
    digest, stream, offset = place.split(" ")
    files = (file for generation in lock.generations for files in generation.values() for file in files)
    name = next((file.name for file in files if file.sha256 == digest), "a raw file")
    at = f"byte {offset}" if int(stream) < 0 else f"byte {offset} of stream {stream}"
    return f"The record at {at} of {name} (sha256 {digest[:12]})"


def no_record_to_blame(error: WorkerDied) -> str:
    """Return the message for a task whose attempts ended with no record, or not always the same one, in work."""
    return (
        f"{error} Each attempt ended, and no one record is to blame. If memory ran out, run with fewer `--workers`; "
        "if it was a limit of [workers], raise it; if a step or library of your own crashes, fix it. "
        "Finished parts are kept, and the same command resumes from there."
    )


def _with(lock: Lock, place: str) -> Lock:
    return replace(lock, quarantine=tuple(sorted({*lock.quarantine, place})))
