"""Keeps clean-up of a store (`cloze gc`) and runs and releases that begin out of each other's way.

Each first announces itself in a file of the store, and then looks for the other: if two begin at once, at least one
sees the other. A run that sees a clean-up waits for its end; a clean-up that sees a run leaves everything that the
run may use. This needs no lock, so it holds for object stores, and between machines.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from corpora.errors import InputError
from corpora.store.leases import MAX_SILENT_SECONDS, Heartbeat, HeartbeatWriter, read_heartbeat
from corpora.store.places.place import Place

CLEARING = "clearing"  # the folder
LOOK_SECONDS = 0.5


class Clearing:
    """A clean-up of a store under way. What it removes is in its file, which identifies one that was killed."""

    def __init__(self, place: Place, path: str) -> None:
        self._folders: Sequence[str] = ()
        self._heard = time.time()
        self._presence = HeartbeatWriter(place, path, self._said)

    def begin(self, folders: Sequence[str]) -> None:
        """Write down which artifacts are removed, before the first is."""
        self._folders = folders
        self._presence.write_now()

    def go_on(self) -> None:
        """Return, unless this process stalled so long that others may consider it dead. Raises InputError then."""
        if time.time() - self._heard > MAX_SILENT_SECONDS / 2:
            raise InputError("The clean-up stalled for minutes, and runs may have begun: start it again.")

    def end(self, keep: bool = False) -> None:
        """End the clean-up. keep: keep its file, because it was not finished"""
        self._presence.stop(keep)

    @property
    def begun(self) -> bool:
        """True if anything may be removed already."""
        return bool(self._folders)

    def _said(self) -> dict[str, list[str]]:
        self._heard = time.time()
        return {"folders": list(self._folders)}


@contextmanager
def clearing(place: Place) -> Iterator[Clearing]:
    """Let only this process clear a store during the block. Raises InputError if another does.

    A block that fails leaves the file, as a killed process does: the next clean-up finishes its work from it.
    """
    path = f"{CLEARING}/{os.getpid()}-{uuid.uuid4().hex[:12]}.json"
    mine = Clearing(place, path)
    others = [present for name, present in clearings(place).items() if name != path and not present.is_gone]
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
        mine.end(keep=bool(mine.begun and not ended))


def clearings(place: Place) -> dict[str, Heartbeat]:
    """Return the processes that clear a store, or were killed while they did, by the paths of their files."""
    clearing_by_path = {
        path: read_heartbeat(place, path) for path in place.list_files(CLEARING) if path.endswith(".json")
    }
    return {path: present for path, present in clearing_by_path.items() if present is not None}


def wait_for_clearing(place: Place, tell: Callable[[str], None]) -> bool:
    """Wait until nobody clears a store; tell whether anybody did. Call it when others can see what must stay."""
    reported = False
    while any(not present.is_gone for present in clearings(place).values()):
        if not reported:
            tell("A clean-up of this store is under way (`cloze gc`): waiting for its end.")
            reported = True
        time.sleep(LOOK_SECONDS)
    return reported
