"""What commands write: files and folders that appear whole, made by one process at a time. No torch.

Promise: what the disk refuses of an output is reported as a paragraph.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.store.places.files import (
    NO_LOCK_ERRORS,
    explain_disk_error,
    flush,
    flush_folder,
    hold_lock,
    replace_file,
    to_unfinished_path,
)

SURROGATE_ERRORS = "backslashreplace"  # half a character is written as JSON does: \udc80
FOLDER_REMEDY = "give another folder, then run the same command again"


@contextmanager
def explain_disk_errors(path: Path, remedy: str = "name another file") -> Iterator[None]:
    """Turn an error of the disk into a paragraph on the file being written. elsewhere: how to write to another place"""
    try:
        yield
    except OSError as error:
        reason = explain_disk_error(error, remedy) or f"{error.strerror or error}: {remedy}"
        raise InputError(f"Cannot write {path}: {reason}.") from error


@contextmanager
def hold_output(output: Path, activity: str) -> Iterator[None]:
    """Hold an output for the time of the block. Raises InputError if another process makes it.

    doing: what that process does, for the message. On a file system without locks it cannot be detected.
    """

    def taken() -> None:
        raise InputError(f"Another process is {activity} {output}: wait for it, or give another name.")

    output.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as own:
        try:
            own.enter_context(hold_lock(locate_lock(output), taken))
        except OSError as error:
            if error.errno not in NO_LOCK_ERRORS:
                raise
        yield


def locate_lock(output: Path) -> Path:
    """Return the file that the process which makes an output holds."""
    return output.with_name(f".{output.name}.lock")


def check_output(output: Path) -> None:
    """Raise InputError if something exists at a path already, except an empty folder."""
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise InputError(f"{output} is not a folder: name one that does not exist yet.")
    if output.is_dir() and any(output.iterdir()):
        raise InputError(f"The output folder {output} is not empty: name another, or remove what is there.")


@contextmanager
def open_unfinished_folder(output: Path) -> Iterator[Path]:
    """Yield an empty folder next to an output, which is this process's alone and is removed at the end.

    Raises InputError if another process makes the output. What a killed process left of it is removed.
    """
    new = to_unfinished_path(output, is_only_writer=True)
    with ExitStack() as own:
        with explain_disk_errors(output, FOLDER_REMEDY):
            own.enter_context(hold_output(output, "writing"))
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
        own.callback(shutil.rmtree, new, ignore_errors=True)
        yield new


def put_folder(new: Path, output: Path) -> None:
    """Have the disk hold a finished folder, and give it its name. Raises InputError if something is there by now."""
    with explain_disk_errors(output, FOLDER_REMEDY):
        for path in [*new.rglob("*"), new]:
            flush(path)
        check_output(output)
        new.rename(output)
        flush_folder(output.parent)


@contextmanager
def open_new_folder(output: Path) -> Iterator[Path]:
    """Yield a folder to write to, which is at `output` when the block has ended well. Only one process may make it.

    Raises InputError if the output holds something.
    """
    check_output(output)
    with open_unfinished_folder(output) as new:
        yield new
        put_folder(new, output)


def write_lines(output: Path, lines: Iterable[str]) -> None:
    """Write a file in one step. Raises InputError if it cannot be written."""
    with (
        explain_disk_errors(output),
        replace_file(output) as new,
        new.open("w", encoding="utf-8", errors=SURROGATE_ERRORS) as file,
    ):
        file.writelines(lines)


def write_json(path: Path, content: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write a JSON file for people."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
