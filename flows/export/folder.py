"""Makes a folder that appears whole: written next to its place under a hidden name, and renamed when complete.

Promise: a reader of the place sees no folder, an empty one that was there before, or the whole one. An exception and a
signal leave nothing; what a killed process leaves is removed by the next one that makes the same folder. Only one
process at a time may make it: a second one is told so, and nothing of the first is touched.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corpora.errors import InputError
from corpora.store.places.address import is_object_address, normalize_address
from flows.signals import last_word
from trainer.complete_folders import ELSEWHERE, check_output, lock_of, put_folder, refusing, unfinished_folder


def local_target(folder: str) -> Path:
    """Return the folder to write to. Raises InputError for an address that is not a folder of this machine."""
    address = normalize_address(folder)
    if is_object_address(address):
        raise InputError(f"{address} is an object store: export to a folder on this machine, and copy that there.")
    return Path(address)


@contextmanager
def scratch_beside(target: Path) -> Iterator[Path]:
    """Yield an empty folder next to a path, for the time of the block. Raises InputError for what the disk refuses."""
    with refusing(target, ELSEWHERE), unfinished_folder(target) as scratch:

        def remove() -> None:
            shutil.rmtree(scratch, ignore_errors=True)
            lock_of(target).unlink(missing_ok=True)

        with last_word(remove):
            yield scratch


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a folder to write to, which is at `target` when the block has ended well. Raises InputError."""
    check_output(target)
    with scratch_beside(target) as new:
        yield new
        put_folder(new, target)
