"""Removes what nobody needs, in an order in which no existing file ever points to a missing one.

    manifests, those first that are made from others ─► records of parts ─► files ─► records of runs

While manifests go, every file that any of them names exists; then only files go that no remaining manifest
names, and the record of a part before its files, so that what has a record is whole. Killed at any point, the store is
whole, and the next clean-up continues: what was about to be removed is in the file that the first one announced itself
with (`flows/run/faults/gc_lock.py`), which stays until it has ended.

A run that begins meanwhile waits; nothing that a running one may use is removed. A reader that takes hold
of an artifact before its manifest is gone keeps it, and all that it names.

Cost: a call of the file system for each file; on an object store a request.
"""

from collections.abc import Callable

from corpora.store.leases import remove_unless_held
from corpora.store.places.place import Place
from flows.maintenance.garbage import Garbage, Look, Policy, garbage, look, unneeded
from flows.maintenance.run_records import old_runs, remove
from flows.run.faults.gc_lock import Clearing, clearing, clearings
from flows.run.record.run_record import removal_mark

Advance = Callable[[int], None]  # bytes freed so far


def clear_store(place: Place, policy: Policy, keep_runs: int, advance: Advance = lambda freed: None) -> Garbage:
    """Remove what nobody needs; returns what is gone. Raises InputError where another clean-up runs, or for damage."""
    with clearing(place) as turn:
        seen = look(place, policy)
        wanted = unneeded(seen)
        turn.begin([*wanted, *seen.begun])
        freed = _Freed(place, turn, advance)
        removed = [folder for folder in wanted if freed.artifact(folder, seen)]
        gone, runs = garbage(seen, keep_runs, removed), old_runs(place, keep_runs)
        for path, size in gone.files.items():
            freed.file(path, size)
        for run_id, files in runs.items():
            place.write(removal_mark(run_id), b"")
            for path, size in {**files, removal_mark(run_id): 0}.items():
                freed.file(path, size)
        for path, present in clearings(place).items():
            if present.is_gone:
                remove(place, path)
        return gone


class _Freed:
    """The files removed so far."""

    def __init__(self, place: Place, turn: Clearing, advance: Advance) -> None:
        self._place, self._turn, self._advance = place, turn, advance
        self._size_bytes = 0

    def artifact(self, folder: str, seen: Look) -> bool:
        """Remove the manifest of an artifact, unless a reader holds it."""
        self._turn.go_on()
        if not remove_unless_held(self._place, folder):
            return False
        self._count(seen.sizes[f"{folder}/manifest.json"])
        return True

    def file(self, path: str, size: int) -> None:
        """Remove a file."""
        self._turn.go_on()
        remove(self._place, path)
        self._count(size)

    def _count(self, size: int) -> None:
        self._size_bytes += size
        self._advance(self._size_bytes)
