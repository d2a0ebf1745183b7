"""Folders that contain a record of their files, with which the files are compared when they are read.

    folder/   its files
              complete.json: facts, every file with its size and digest, and last a digest of the document itself

Checkpoints, exported models and saved vocabularies are such folders. An artifact of a store has its manifest instead,
which `check_folder` reads as well.

Promise: checking a file detects if it is missing, truncated or has a flipped bit, or if the record is damaged. A folder
without such a record, e.g. from another program, is accepted unchecked.

Cost: xxh3 reads 10 GB a second on one x86-64 core if the system has the file in memory; else the disk decides.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.store.damage import Damaged, find_digest, seal, unseal
from corpora.store.digests.content import Content, compute_content
from corpora.store.manifest import Manifest, StoredFile
from corpora.store.places.files import flush_folder
from corpora.store.stage import MANIFEST

COMPLETE_FILE = "complete.json"  # the last file of a folder that is written to its end
MAX_LEVELS = 3  # of folders, from that of a model up, that may say what is in it: a task of a suite has one of its own


def list_files(folder: Path) -> list[str]:
    """List the relative paths of all files in a folder and its subfolders except complete.json, sorted."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != COMPLETE_FILE)
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def describe_files(folder: Path, names: Iterable[str]) -> dict[str, Json]:
    """Read files completely, and return the size and digest of each.

    Args:
        folder: The folder.
        names: Relative paths of the files.

    Returns:
        Maps each name to a JSON object: `size_bytes`, and `xxh3_128`, a digest in hexadecimal digits.

    Raises:
        OSError: If a file cannot be read.
    """
    return {name: _build_description((folder / name).stat().st_size, _hash_file(folder / name)) for name in names}


def describe_bytes(data: bytes) -> Json:
    """Return the size and digest of some bytes in the same format as `describe_files`: `size_bytes` and `xxh3_128`."""
    return _build_description(len(data), xxhash.xxh3_128_hexdigest(data))


def _build_description(size_bytes: int, digest: str) -> dict[str, Json]:
    return {"size_bytes": size_bytes, "xxh3_128": digest}


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def write_complete_file(folder: Path, facts: Mapping[str, Json], files: Mapping[str, Json]) -> None:
    """Mark a folder as complete: write complete.json, and flush it and the folder to disk.

    Args:
        folder: The folder.
        facts: Additional fields of complete.json.
        files: The result of `describe_files`.

    Raises:
        OSError: If the file cannot be written.
    """
    with (folder / COMPLETE_FILE).open("wb") as file:
        file.write(seal(json.dumps({**facts, "files": files}, indent=1, ensure_ascii=False).encode()))
        file.flush()
        os.fsync(file.fileno())
    flush_folder(folder)


def read_complete_file(folder: Path) -> dict[str, Json]:
    """Read complete.json of a folder and verify its digest.

    Returns:
        The fields of the JSON object: `files` (see `describe_files`), and the facts that were stored with them.

    Raises:
        Damaged: If complete.json is missing or damaged.
    """
    try:
        data = (folder / COMPLETE_FILE).read_bytes()
    except FileNotFoundError as error:
        raise Damaged(COMPLETE_FILE, "it is gone") from error
    return unseal(data, COMPLETE_FILE)


def check_files(folder: Path, files: Mapping[str, Json]) -> None:
    """Verify that each file exists and has the recorded size and digest. The files are read completely.

    Args:
        folder: The folder.
        files: The result of `describe_files`. Other files in the folder are ignored.

    Raises:
        Damaged: If a file is missing or different. The error describes the first such file.
    """
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            raise Damaged(name, "it is gone")
        if path.stat().st_size != expected["size_bytes"]:
            raise Damaged(name, f"it has {path.stat().st_size} bytes instead of {expected['size_bytes']}")
        if _hash_file(path) != expected["xxh3_128"]:
            raise Damaged(name, "its bytes are not those that were written")


# What others are given, and what is opened.


def mark_complete(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write complete.json into a finished folder, so that `check_folder` can verify its files later.

    Args:
        folder: The folder.
        names: The files that were just written. For other files, the entries of the existing complete.json are kept
            (default: all files are read and recorded again).

    Raises:
        InputError: If an existing complete.json is needed and is damaged.
    """
    earlier_files: Json = {}
    if names is not None and (folder / COMPLETE_FILE).is_file() and check_folder(folder, ()):
        earlier_files = read_complete_file(folder)["files"]
    write_complete_file(
        folder, {}, {**earlier_files, **describe_files(folder, list_files(folder) if names is None else names)}
    )


def check_folder(folder: Path, names: Collection[str] | None = None, other_record: str = "") -> bool:
    """Verify the files in the folder of a model or vocabulary.

    They are compared with a complete.json or a manifest in the folder or in one of its parents, up to MAX_LEVELS - 1
    levels above.

    Args:
        folder: The folder.
        names: Relative paths of the files to verify (default: all recorded files). Files without a record are ignored.
        other_record: Text to insert after the path of complete.json in the error message. It names any other record
            that users must remove if they have changed a file on purpose.

    Returns:
        True if files were compared with a record, False if there is no record of files in this folder.

    Raises:
        InputError: If a file is missing, damaged or modified, or if the record itself is damaged.
    """
    resolved = folder.resolve()
    for ancestor in (resolved, *resolved.parents)[:MAX_LEVELS]:
        prefix = "".join(f"{part}/" for part in resolved.relative_to(ancestor).parts)
        wanted_names = None if names is None else {f"{prefix}{name}" for name in names}
        if (ancestor / COMPLETE_FILE).is_file() and _check_against_complete(
            ancestor, prefix, wanted_names, other_record
        ):
            return True
        if (ancestor / MANIFEST).is_file() and _check_against_manifest(ancestor, prefix, wanted_names):
            return True
    return False


def _check_against_complete(folder: Path, prefix: str, wanted_names: Collection[str] | None, other_record: str) -> bool:
    """Verify files with complete.json. Return True if it records any file below `prefix`.

    Args:
        folder: The folder that contains complete.json.
        prefix: Path of the folder to verify, relative to `folder`, with a slash at the end; "" for `folder` itself.
        wanted_names: Paths of the files to verify, relative to `folder`; None for all.
        other_record: See `check_folder`.

    Raises:
        InputError: If a file is missing, damaged or modified, or if complete.json is damaged.
    """
    if not _is_ours((folder / COMPLETE_FILE).read_bytes(), b'"xxh3_128": '):
        return False
    try:
        files = read_complete_file(folder)["files"]
        files_in_folder = {name: file for name, file in files.items() if name.startswith(prefix)}
        check_files(
            folder,
            {name: file for name, file in files_in_folder.items() if wanted_names is None or name in wanted_names},
        )
    except Damaged as damage:
        raise InputError(
            f"{folder / damage.path} is not the file that was written there: {damage.what}. Copy the folder again from "
            "where it came, or remove it and make it again. If you changed the file on purpose, remove "
            f"{folder / COMPLETE_FILE}{other_record}, which has the digests of what was written: then the folder is "
            "read as it is."
        ) from damage
    return bool(files_in_folder)


def _check_against_manifest(folder: Path, prefix: str, wanted_names: Collection[str] | None) -> bool:
    """Verify files other than tables with a manifest. Return True if it records any file below `prefix`.

    Args:
        folder: The folder that contains the manifest.
        prefix: Path of the folder to verify, relative to `folder`, with a slash at the end; "" for `folder` itself.
        wanted_names: Paths of the files to verify, relative to `folder`; None for all.

    Raises:
        InputError: If a file is missing, damaged or modified, or if the manifest is damaged.
    """
    data = (folder / MANIFEST).read_bytes()
    if not _is_ours(data, b'"build_version": '):
        return False
    manifest = Manifest.from_bytes(data, str(folder / MANIFEST))
    files = (file for part in manifest.parts for file in part.files if not file.path.endswith(".arrow"))
    files_in_folder = {name: file for file in files if (name := file.path.partition("/")[2]).startswith(prefix)}
    for name, file in files_in_folder.items():
        if wanted_names is None or name in wanted_names:
            _check_stored_file(folder / name, name, file)
    return bool(files_in_folder)


def _is_ours(data: bytes, mark: bytes) -> bool:
    """Return True if a file was written by this program, and not by another program that uses the same file name.

    Args:
        data: All bytes of the file.
        mark: A field that this program's file contains even if its digest is lost.
    """
    return bool(find_digest(data)) or mark in data


def _check_stored_file(path: Path, name: str, file: StoredFile) -> None:
    is_sound = (
        path.is_file() and path.stat().st_size == file.size_bytes and _compute_file_content(path, name) == file.content
    )
    if not is_sound:
        raise InputError(
            f"{path} is not the file that the store's {MANIFEST} records: it is damaged, gone, or was changed since. "
            "`cloze verify` on the store lists it, and then `cloze run` rebuilds it; keep a file that was changed on "
            "purpose in a folder of its own."
        )


def _compute_file_content(path: Path, name: str) -> Content:
    """Compute the content digest that a store records for a file, which is memory-mapped for this.

    It is the digest of a table with one row, which consists of the file's name and its bytes.
    """
    data = pa.memory_map(str(path)).read_buffer() if path.stat().st_size else pa.py_buffer(b"")
    ends = pa.py_buffer(np.array([0, data.size], np.int64))
    cell = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, ends, data])
    return compute_content(pa.table({"name": pa.array([name]), "data": cell}))
