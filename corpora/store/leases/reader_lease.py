"""Holds on artifacts: nobody removes what a reader holds (`cloze gc`).

A hold is the system's shared lock on the artifact's manifest, so it needs no permission to write and ends with the
process, however that goes. Object stores and some network file systems know no locks: there nothing is held, and what
goes is decided by age.
"""

import errno
import fcntl
import os
import weakref
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.store.places.locks import NO_LOCKS, try_lock
from corpora.store.places.place import Place
from corpora.store.stage import MANIFEST


class Hold:
    """The artifact in a folder is read as long as this lives, or a copy of it in another process.

    Raises InputError where it is being removed.
    """

    def __init__(self, place: Place, folder: str) -> None:
        self._place, self._folder = place, folder
        if place.is_local:
            _share(self, place.full_path(f"{folder}/{MANIFEST}"))

    def __reduce__(self) -> Any:
        return Hold, (self._place, self._folder)


def _share(owner: object, path: str) -> None:
    """Have a file locked together with others until its owner is gone; a file that is not there is not."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        os.close(number)
        if error.errno in NO_LOCKS:
            return
        if error.errno != errno.EWOULDBLOCK:
            raise
        raise InputError(
            f"{path} is being removed by `cloze gc`: no run needs it any more. Read what the newest run built."
        ) from error
    weakref.finalize(owner, os.close, number)


def remove_unless_held(place: Place, folder: str) -> bool:
    """Remove the manifest of an artifact, unless somebody holds it; return whether it is gone."""
    path = f"{folder}/{MANIFEST}"
    if not place.is_local:
        place.delete(path)
        return True
    try:
        with Path(place.full_path(path)).open("rb") as file:
            try:
                if not try_lock(file):
                    return False
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
            place.delete(path)  # while it is locked: a reader that opened it meanwhile notices
    except FileNotFoundError:
        return True
    return True


def is_held(place: Place, folder: str) -> bool:
    """True if somebody reads the artifact in a folder; False where nothing can be held."""
    if not place.is_local:
        return False
    try:
        with Path(place.full_path(f"{folder}/{MANIFEST}")).open("rb") as file:
            return not try_lock(file)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
