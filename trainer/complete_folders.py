"""Writes the outputs of commands: files and folders that appear only when complete. No torch.

Only one process at a time writes an output. Promise: if the disk refuses it, the user gets an explanation.
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
    """Convert an OSError that is raised in the block to an InputError that says what cannot be written.

    Args:
        path: The file or folder being written.
        remedy: Advice for the user, appended to the message.
    """
    try:
        yield
    except OSError as error:
        reason = explain_disk_error(error, remedy) or f"{error.strerror or error}: {remedy}"
        raise InputError(f"Cannot write {path}: {reason}.") from error


@contextmanager
def hold_output(output: Path, activity: str) -> Iterator[None]:
    """Hold a lock on an output file or folder during the block. On file systems without locks, no lock is taken.

    Args:
        output: The file or folder to write. Its parent folder is created.
        activity: What the lock's holder is doing, such as "writing", for the error message.

    Raises:
        InputError: If another process holds the lock.
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
    """Return the path of the lock file for an output: `.NAME.lock` in the same folder."""
    return output.with_name(f".{output.name}.lock")


def check_output(output: Path) -> None:
    """Raise InputError if an output path exists, unless it is an empty folder."""
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise InputError(f"{output} is not a folder: name one that does not exist yet.")
    if output.is_dir() and any(output.iterdir()):
        raise InputError(f"The output folder {output} is not empty: name another, or remove what is there.")


@contextmanager
def open_unfinished_folder(output: Path) -> Iterator[Path]:
    """Create an empty temporary folder next to an output path, and remove it after the block.

    A folder left behind by a killed process is removed first.

    Yields:
        The folder, which only this process writes to.

    Raises:
        InputError: If another process is writing the same output, or if the folder cannot be created.
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
    """Flush a finished folder to the disk, and rename it to its output path.

    Args:
        new: The temporary folder.
        output: The final path, on the same file system. It may be an empty folder.

    Raises:
        InputError: If the output path is now in use, or if the folder cannot be written or renamed.
    """
    with explain_disk_errors(output, FOLDER_REMEDY):
        for path in [*new.rglob("*"), new]:
            flush(path)
        check_output(output)
        new.rename(output)
        flush_folder(output.parent)


@contextmanager
def open_new_folder(output: Path) -> Iterator[Path]:
    """Create a folder that appears at `output` only if the block succeeds.

    Only one process at a time can write it.

    Yields:
        The temporary folder to write to.

    Raises:
        InputError: If the output is not empty, if another process is writing it, or if it cannot be written.
    """
    check_output(output)
    with open_unfinished_folder(output) as new:
        yield new
        put_folder(new, output)


def write_lines(output: Path, lines: Iterable[str]) -> None:
    """Write strings, which include their line ends, to a text file that appears only when complete.

    Raises:
        InputError: If the file cannot be written.
    """
    with (
        explain_disk_errors(output),
        replace_file(output) as new,
        new.open("w", encoding="utf-8", errors=SURROGATE_ERRORS) as file,
    ):
        file.writelines(lines)


def write_json(path: Path, content: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write a value to a JSON file in UTF-8, indented by one space. Raises OSError if it cannot be written."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
