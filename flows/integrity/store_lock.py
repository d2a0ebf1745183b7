"""Lets one process at a time repair a local store or clean it up."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from corpora.errors import InputError
from corpora.store.places.files import disk_refusal
from corpora.store.places.place import Place
from flows.run.faults.held_file import held_alone

LOCK = ".verify.held"


@contextmanager
def store_alone(place: Place, tell: Callable[[str], None], only_reads: str) -> Iterator[None]:
    """Keep other processes from changing a store for the time of the block; the second one waits.

    only_reads: the command that works without it, for the message
    An object store has no locks: there two processes write the same bytes. Raises InputError where the store cannot
    be written.
    """
    if not place.is_local:
        yield
        return
    path = Path(place.full_path(LOCK))
    if not path.parent.is_dir():
        raise InputError(
            f"There is no store at {place.address}. Give a store's folder; `cloze run` prints where it is."
        )

    def refusal(error: OSError) -> InputError:
        remedy = disk_refusal(error, "work on a copy of the store") or "fix that, or work on a copy of the store"
        return InputError(f"Cannot write {place.address}: {remedy} ({error.strerror}). {only_reads} only reads.")

    waiting = "Another process is repairing or cleaning up this store: waiting for it."
    lockless = f"The file system of {place.address} has no locks: change this store from one process at a time."
    with held_alone(path, refusal, tell, waiting, lockless):
        yield
