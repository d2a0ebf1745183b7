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
from corpora.store.places.files import disk_refusal, replaced_file, unfinished
from corpora.store.places.locks import NO_LOCKS, held

HALVES = "backslashreplace"  # half a character is written as JSON does: \udc80


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn an error of the disk into a paragraph on the file being written."""
    try:
        yield
    except OSError as error:
        reason = disk_refusal(error, "name another file") or f"{error.strerror or error}: name another file"
        raise InputError(f"Cannot write {path}: {reason}.") from error


@contextmanager
def alone(output: Path, doing: str) -> Iterator[None]:
    """Hold an output for the time of the block. Raises InputError where another process makes it.

    doing: what that process does, for the message. On a file system without locks it cannot be detected.
    """

    def taken() -> None:
        raise InputError(f"Another process is {doing} {output}: wait for it, or give another name.")

    output.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as own:
        try:
            own.enter_context(held(output.with_name(f".{output.name}.lock"), taken))
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield


def check_output(output: Path) -> None:
    """Raise InputError where something exists at a path already, except an empty folder."""
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise InputError(f"{output} is not a folder: name one that does not exist yet.")
    if output.is_dir() and any(output.iterdir()):
        raise InputError(f"The output folder {output} is not empty: name another, or remove what is there.")


@contextmanager
def new_folder(output: Path) -> Iterator[Path]:
    """Yield a folder to write to, which is at `output` when the block has ended well. Only one process may make it.

    Raises InputError where the output holds something.
    """
    check_output(output)
    new = unfinished(output, alone=True)
    shutil.rmtree(new, ignore_errors=True)
    with refusing(output):
        new.mkdir(parents=True)
    yield new
    if output.is_dir():
        output.rmdir()  # seen to be empty
    new.rename(output)


def write_lines(output: Path, lines: Iterable[str]) -> None:
    """Write a file in one step. Raises InputError where it cannot be written."""
    with refusing(output), replaced_file(output) as new, new.open("w", encoding="utf-8", errors=HALVES) as file:
        file.writelines(lines)


def written_json(path: Path, content: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write a JSON file for people."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
