"""Complete folders and files: written to their end, in one step, by one process at a time, and verified. No torch.

    folder/   its files
              complete.json: facts, every file with its size and digest, and last a digest of the document itself

Promise: a file of the folder that is gone, cut or has a flipped bit is found when it is checked, and so is a damaged
document. What the disk refuses of an output is reported as a paragraph.

Cost: xxh3 reads 10 GB a second on one x86-64 core where the system has the file in memory; else the disk decides.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import xxhash

from corpora.errors import InputError
from corpora.store.damage import Damaged, seal, unseal
from corpora.store.manifest import Json
from corpora.store.places.files import disk_refusal, flush, flush_folder, replaced_file, unfinished
from corpora.store.places.locks import NO_LOCKS, held

HALVES = "backslashreplace"  # half a character is written as JSON does: \udc80
ELSEWHERE = "give another folder, then run the same command again"
COMPLETE = "complete.json"  # the last file of a folder that is written to its end


def names_in(folder: Path) -> list[str]:
    """The files of a folder but its document, in order."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != COMPLETE)
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def described(folder: Path, names: Iterable[str]) -> dict[str, Json]:
    """Files of a folder with their sizes and digests. Reads them."""
    return {name: _description((folder / name).stat().st_size, _digest(folder / name)) for name in names}


def described_bytes(data: bytes) -> Json:
    """Return what `described` records of a file that holds these bytes."""
    return _description(len(data), xxhash.xxh3_128_hexdigest(data))


def _description(size_bytes: int, digest: str) -> dict[str, Json]:
    return {"size_bytes": size_bytes, "xxh3_128": digest}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def finish(folder: Path, facts: Mapping[str, Json], files: Mapping[str, Json]) -> None:
    """Mark a folder as finished. `files` is what `described` gave."""
    with (folder / COMPLETE).open("wb") as file:
        file.write(seal(json.dumps({**facts, "files": files}, indent=1, ensure_ascii=False).encode()))
        file.flush()
        os.fsync(file.fileno())
    flush_folder(folder)


def read_finished(folder: Path) -> dict[str, Json]:
    """The facts and `files` of a finished folder. Raises Damaged where the document is gone or damaged."""
    try:
        data = (folder / COMPLETE).read_bytes()
    except FileNotFoundError as error:
        raise Damaged(COMPLETE, "it is gone") from error
    return unseal(data, COMPLETE)


def check_files(folder: Path, files: Mapping[str, Json]) -> None:
    """Raise Damaged unless files are as `files` describes them. Reads them."""
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            raise Damaged(name, "it is gone")
        if path.stat().st_size != expected["size_bytes"]:
            raise Damaged(name, f"it has {path.stat().st_size} bytes instead of {expected['size_bytes']}")
        if _digest(path) != expected["xxh3_128"]:
            raise Damaged(name, "its bytes are not those that were written")


# What commands write.


@contextmanager
def refusing(path: Path, elsewhere: str = "name another file") -> Iterator[None]:
    """Turn an error of the disk into a paragraph on the file being written. elsewhere: how to write to another place"""
    try:
        yield
    except OSError as error:
        reason = disk_refusal(error, elsewhere) or f"{error.strerror or error}: {elsewhere}"
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
            own.enter_context(held(lock_of(output), taken))
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield


def lock_of(output: Path) -> Path:
    """Return the file that the process which makes an output holds."""
    return output.with_name(f".{output.name}.lock")


def check_output(output: Path) -> None:
    """Raise InputError where something exists at a path already, except an empty folder."""
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise InputError(f"{output} is not a folder: name one that does not exist yet.")
    if output.is_dir() and any(output.iterdir()):
        raise InputError(f"The output folder {output} is not empty: name another, or remove what is there.")


@contextmanager
def unfinished_folder(output: Path) -> Iterator[Path]:
    """Yield an empty folder next to an output, which is this process's alone and is removed at the end.

    Raises InputError if another process makes the output. What a killed process left of it is removed.
    """
    new = unfinished(output, alone=True)
    with ExitStack() as own:
        with refusing(output, ELSEWHERE):
            own.enter_context(alone(output, "writing"))
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
        own.callback(shutil.rmtree, new, ignore_errors=True)
        yield new


def put_folder(new: Path, output: Path) -> None:
    """Have the disk hold a finished folder, and give it its name. Raises InputError if something is there by now."""
    with refusing(output, ELSEWHERE):
        for path in [*new.rglob("*"), new]:
            flush(path)
        check_output(output)
        new.rename(output)
        flush_folder(output.parent)


@contextmanager
def new_folder(output: Path) -> Iterator[Path]:
    """Yield a folder to write to, which is at `output` when the block has ended well. Only one process may make it.

    Raises InputError where the output holds something.
    """
    check_output(output)
    with unfinished_folder(output) as new:
        yield new
        put_folder(new, output)


def write_lines(output: Path, lines: Iterable[str]) -> None:
    """Write a file in one step. Raises InputError where it cannot be written."""
    with refusing(output), replaced_file(output) as new, new.open("w", encoding="utf-8", errors=HALVES) as file:
        file.writelines(lines)


def written_json(path: Path, content: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write a JSON file for people."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
