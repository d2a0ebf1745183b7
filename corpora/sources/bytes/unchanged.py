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
    """Return a string that changes whenever a file changes: "MACHINE SIZE MTIME INODE", separated by spaces.

    For a folder, the string consists of the states of all files in the folder and its subfolders. For a zip member, it
    is the state of the archive.

    Return "" if the state cannot be determined (a pipe, an object in an object store), and "gone" if the file does not
    exist.
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
    """Format the error message for a file that changed while it was read. The message names the file."""
    shown = str(path).encode(errors="backslashreplace").decode()
    return f"{shown} changed while it was read. Run again when nothing writes it any more."


def read_states(paths: Iterable[str]) -> dict[str, str]:
    """Map the path of each file to its state, as returned by `read_state`. Pass the result to `hold_unchanged`."""
    return {path: read_state(parse_raw_path(path)) for path in paths}


@contextmanager
def hold_unchanged(states: Mapping[str, str]) -> Iterator[None]:
    """Raise InputError at the end of this block if a file changed during the block (a context manager).

    If a file changed and the block itself fails, InputError replaces that error, which may be a consequence.

    Args:
        states: The state of each file before the block, by path, as returned by `read_states`.
    """
    try:
        yield
    finally:
        if not isinstance(sys.exception(), GeneratorExit):  # nobody wants the rest
            for path, state in states.items():
                if read_state(parse_raw_path(path)) != state:
                    raise InputError(format_change(parse_raw_path(path))) from sys.exception()
