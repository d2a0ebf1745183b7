"""Inputs that stay as they are for as long as they are read.

A file may be read more than once: hashed and then parsed, judged and then learnt from. If it is written meanwhile, the
readings are of two files, and rows are lost or come twice. Promise: a file that has another size, time of change or
inode after it was read than before ends the reading with one paragraph. A pipe and an object of an object store are not
looked at. Cost: two looks at each file.
"""

import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from corpora.errors import InputError
from corpora.sources.bytes.objects import ObjectPath, parse_raw_path
from corpora.sources.bytes.zip_members import MemberPath
from corpora.store.places.files import read_machine_id


def read_state(path: Path) -> str:
    """Return what tells a file from what it was before, on one machine; of a folder, of all files below it.

    It is "" if that is not known: of a pipe, or an object of an object store.
    """
    if isinstance(path, ObjectPath):
        return ""
    if isinstance(path, MemberPath):
        return read_state(path.archive)
    try:
        now = path.stat()
    except OSError:
        return "gone"
    if stat.S_ISDIR(now.st_mode):
        return " ".join(read_state(each) for each in sorted(path.rglob("*")) if not each.is_dir())
    return f"{read_machine_id()} {now.st_size} {now.st_mtime_ns} {now.st_ino}" if stat.S_ISREG(now.st_mode) else ""


def format_change(path: Path) -> str:
    """Return the words for a file that changed."""
    shown = str(path).encode(errors="backslashreplace").decode()
    return f"{shown} changed while it was read. Run again when nothing writes it any more."


def read_states(paths: Iterable[str]) -> dict[str, str]:
    """Return the states of files, by path."""
    return {path: read_state(parse_raw_path(path)) for path in paths}


@contextmanager
def hold_unchanged(states: Mapping[str, str]) -> Iterator[None]:
    """Raise InputError if files are in other states at the end of the block, also in place of what it fails with."""
    try:
        yield
    finally:
        if not isinstance(sys.exception(), GeneratorExit):  # nobody wants the rest
            for path, state in states.items():
                if read_state(parse_raw_path(path)) != state:
                    raise InputError(format_change(parse_raw_path(path))) from sys.exception()
