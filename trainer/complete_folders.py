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
    """Turn an OSError of the block into an InputError about the file being written.

    Args:
        path: The file or folder being written.
        remedy: What the user can do, for the message.
    """
    try:
        yield
    except OSError as error:
        reason = explain_disk_error(error, remedy) or f"{error.strerror or error}: {remedy}"
        raise InputError(f"Cannot write {path}: {reason}.") from error


@contextmanager
def hold_output(output: Path, activity: str) -> Iterator[None]:
    """Hold the lock of an output during the block. On a file system without locks nothing is held.

    Args:
        output: The file or folder to write.
        activity: What another process is doing if it holds the lock, for the message.

    Raises:
        InputError: If another process writes the same output.
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
    """Return the path of the lock file of an output."""
    return output.with_name(f".{output.name}.lock")


def check_output(output: Path) -> None:
    """Raise InputError if something exists at a path, except an empty folder."""
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise InputError(f"{output} is not a folder: name one that does not exist yet.")
    if output.is_dir() and any(output.iterdir()):
        raise InputError(f"The output folder {output} is not empty: name another, or remove what is there.")


@contextmanager
def open_unfinished_folder(output: Path) -> Iterator[Path]:
    """Create an empty folder next to an output; it is removed after the block.

    What a killed process left there is removed first.

    Yields:
        The folder, to which only this process writes.

    Raises:
        InputError: If another process writes the same output, or if the disk refuses.
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
    """Flush a finished folder to the disk and rename it to its output.

    Raises InputError if something is there by now.
    """
    with explain_disk_errors(output, FOLDER_REMEDY):
        for path in [*new.rglob("*"), new]:
            flush(path)
        check_output(output)
        new.rename(output)
        flush_folder(output.parent)


@contextmanager
def open_new_folder(output: Path) -> Iterator[Path]:
    """Create a folder that appears at `output` when the block succeeds. Only one process may write it at a time.

    Yields:
        The folder to write to.

    Raises:
        InputError: If the output is not empty, if another process writes it, or if the disk refuses.
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
    """Write an indented JSON file."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
