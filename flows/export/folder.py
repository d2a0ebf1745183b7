"""Makes a folder that appears whole: written next to its place under a hidden name, and renamed when complete.

Promise: a reader of the place sees no folder, an empty one that was there before, or the whole one. An exception and a
signal leave nothing; what a killed process leaves is removed by the next one that makes the same folder. Only one
process at a time may make it.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from corpora.errors import InputError
from corpora.store.places.files import disk_refusal, flush_folder
from flows.signals import scratch_folder
from trainer.complete_folders import check_output

ELSEWHERE = "give another folder, then run the same command again"


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a folder to write to, which is at `target` when the block has ended well. Raises InputError."""
    check_output(target)
    with scratch_beside(target, "export") as scratch:
        new = scratch / "folder"
        new.mkdir()
        yield new
        for path in [*new.rglob("*"), new]:
            flush(path)
        check_output(target)
        new.rename(target)
        flush_folder(target.parent)


@contextmanager
def scratch_beside(target: Path, work: str) -> Iterator[Path]:
    """Yield an empty folder next to a path, without what a killed process left there of the same work.

    Raises InputError for what the disk refuses.
    """
    prefix = f".{target.name}.{work}-"
    with refused(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(f"{escape(prefix)}*"):
            shutil.rmtree(left, ignore_errors=True)
        with scratch_folder(target.parent, prefix) as scratch:
            yield scratch


@contextmanager
def refused(target: Path) -> Iterator[None]:
    """Turn the disk's error for an unwritable folder into a paragraph with a remedy."""
    try:
        yield
    except OSError as error:
        remedy = disk_refusal(error, ELSEWHERE) or f"nothing can be made there: {ELSEWHERE}"
        raise InputError(f"Cannot write {target}: {remedy} ({error.strerror or error}).") from error


def flush(path: Path) -> None:
    """Have the disk hold a file or folder. Raises OSError."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
