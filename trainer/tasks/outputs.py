"""What is written: by one process at a time, in one step, and what the disk refuses as a paragraph. No torch."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.store.places.files import disk_refusal, replaced_file
from corpora.store.places.locks import NO_LOCKS, held


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
    """Raise InputError where an output folder holds something."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"The output folder {output} is not empty: name another, or remove what is there.")


def write_lines(output: Path, lines: Iterable[str]) -> None:
    """Write a file in one step. Raises InputError where it cannot be written."""
    with refusing(output), replaced_file(output) as new, new.open("w", encoding="utf-8") as file:
        file.writelines(lines)


def written_json(path: Path, content: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write a JSON file for people."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
