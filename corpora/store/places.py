"""Places: where a store's files are, a local folder or an object store, under one small class.

Promise: a file that can be seen is whole. Locally it is written next to its place, flushed to the disk and
renamed (`files.py`). For an object store it is written to an unnamed temporary file first and uploaded when it is
whole, for an upload that is given up in the middle cannot be taken back: that costs the temporary space of one file. A
`Place` is cheap to pickle: it travels to worker processes as its address.
"""

import errno
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BufferedRandom
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.fs as pafs

from corpora.errors import InputError
from corpora.store.files import UNFINISHED, disk_refusal, open_unfinished, put_file, unfinished

_CHUNK = 1 << 20

_ELSEWHERE = "choose another store, then run the same command again; finished parts are kept"
_UNREADABLE = "it may not be read by you: change its permissions or choose another store"
_REFUSALS = {
    "NO_SUCH_BUCKET": "there is no such bucket: make it, or mend the store's address",
    "ACCESS_DENIED": "these credentials may not do that there: use others, or have them allowed to",
    "INVALID_ACCESS_KEY_ID": "the access key is not known there: mend AWS_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH": "the secret does not fit the access key: mend AWS_SECRET_ACCESS_KEY",
}


@dataclass(frozen=True)
class Place:
    """A store's root: a folder (`store`, `/data/store`) or an object store's address (`s3://bucket/prefix`)."""

    address: str

    @cached_property
    def _files(self) -> tuple[pafs.FileSystem, str]:
        if "://" not in self.address:
            return pafs.LocalFileSystem(), Path(self.address).resolve().as_posix()
        try:
            files, root = pafs.FileSystem.from_uri(self.address)
        except (pa.ArrowInvalid, ValueError) as error:
            raise InputError(
                f"store = {self.address!r} is not the address of a folder or an object store ({error}): give a folder, "
                "or s3://bucket/prefix."
            ) from error
        return files, root.rstrip("/")

    def __getstate__(self) -> dict[str, str]:
        return {"address": self.address}

    @property
    def is_local(self) -> bool:
        """Whether files are on this machine's file system and can be mapped into memory."""
        return isinstance(self._files[0], pafs.LocalFileSystem)

    def full_path(self, path: str) -> str:
        """The path of a file in the underlying file system."""
        return f"{self._files[1]}/{path}" if path else self._files[1]

    def sizes(self, folder: str) -> dict[str, int]:
        """Every finished file under a folder, as path relative to the store -> size in bytes; empty where none is."""
        return {path: size for path, size in self._all_sizes(folder).items() if not path.endswith(UNFINISHED)}

    def unfinished(self, folder: str) -> dict[str, int]:
        """As `sizes`, of files that somebody writes now, or wrote when his process was killed."""
        return {path: size for path, size in self._all_sizes(folder).items() if path.endswith(UNFINISHED)}

    def _all_sizes(self, folder: str) -> dict[str, int]:
        selector = pafs.FileSelector(self.full_path(folder), recursive=True, allow_not_found=True)
        strip = len(self._files[1]) + 1
        with _readable(self.full_path(folder)):
            found = self._files[0].get_file_info(selector)
        return {info.path[strip:]: info.size for info in found if info.type == pafs.FileType.File}

    def size(self, path: str) -> int | None:
        """The bytes of one file, or None where there is none."""
        with _readable(self.full_path(path)):
            info = self._files[0].get_file_info(self.full_path(path))
        return int(info.size) if info.type == pafs.FileType.File else None

    def read(self, path: str) -> bytes:
        """All bytes of a file. Raises FileNotFoundError, and InputError where it may not be read."""
        full = self.full_path(path)
        while not self.is_local:
            with _readable(full), self._files[0].open_input_file(full) as stream:
                size, data = stream.size(), bytes(stream.read())
            # An object's size is asked for first and its bytes then: one replaced in between would come cut.
            if self.size(path) == size == len(data):
                return data
        with _readable(full):
            return Path(full).read_bytes()

    def open(self, path: str) -> pa.NativeFile:
        """A file opened for reading at any offset, mapped into memory where it is local."""
        full = self.full_path(path)
        with _readable(full):
            return pa.memory_map(full) if self.is_local else self._files[0].open_input_file(full)

    def write(self, path: str, data: bytes) -> None:
        """Put a file in one step: readers see the old one or the new one, never half."""
        with self.create(path) as sink:
            sink.write(data)

    def delete(self, path: str) -> None:
        """Remove one file."""
        self._files[0].delete_file(self.full_path(path))

    @contextmanager
    def create(self, path: str) -> "Iterator[HashingSink]":
        """A new file that appears when the block ends well, and never when it raises.

        Raises InputError where the place cannot be written (permissions, a full disk, a read-only file system);
        what the block itself raises passes unchanged.
        """
        full = self.full_path(path)
        with _local_file(Path(full)) if self.is_local else _object(self._files[0], full) as sink:
            yield sink


class HashingSink:
    """A file being written that counts and hashes its bytes on the way (it writes front to back only)."""

    closed = False

    def __init__(self, handle: BinaryIO, path: str) -> None:
        self._handle = handle
        self._path = path
        self._sha256 = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        """Write bytes or an Arrow buffer. Raises InputError where the disk refuses them for a known reason."""
        view = memoryview(data)
        with _remedied(self._path):
            self._handle.write(view)
        self._sha256.update(view)
        self.size_bytes += view.nbytes
        return view.nbytes

    def flush(self) -> None:
        """Pass what is buffered on."""
        with _remedied(self._path):
            self._handle.flush()

    def tell(self) -> int:
        """Bytes written so far."""
        return self.size_bytes

    def sha256(self) -> str:
        """Hex digest of what was written so far."""
        return self._sha256.hexdigest()


@contextmanager
def _local_file(path: Path) -> Iterator[HashingSink]:
    """A file that appears when the block ends well; two writers of one path never share one."""
    new = unfinished(path)
    with _remedied(path.as_posix()):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = open_unfinished(new)
    try:
        yield HashingSink(handle, path.as_posix())
        with _remedied(path.as_posix()):
            handle.flush()
            put_file(new, path)
    finally:
        handle.raw.close()  # closes without another try at what the disk has refused
        new.unlink(missing_ok=True)


@contextmanager
def _object(files: pafs.FileSystem, path: str) -> Iterator[HashingSink]:
    """An object that is uploaded when the block has ended well."""
    folder = tempfile.gettempdir()
    with _remedied(folder):
        handle = _unnamed_file()
    try:
        yield HashingSink(handle, folder)
        with _remedied(folder):
            handle.seek(0)
        with _remedied(path), files.open_output_stream(path) as stream:
            shutil.copyfileobj(handle, stream, _CHUNK)
    finally:
        handle.raw.close()


def _unnamed_file() -> BufferedRandom:
    """A temporary file without a name: it is gone with the process, however that ends."""
    number, name = tempfile.mkstemp(prefix="cloze-")
    Path(name).unlink()
    return os.fdopen(number, "w+b")


@contextmanager
def _remedied(path: str) -> Iterator[None]:
    """Turn what a disk or an object store says of an unwritable place into a paragraph with a remedy."""
    try:
        yield
    except OSError as error:
        remedy = _refusal(error) or disk_refusal(error, _ELSEWHERE)
        if remedy is None:
            raise
        raise InputError(f"Cannot write {path}: {remedy} ({error.strerror or error}).") from error


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Turn what forbids to read into a paragraph with a remedy; below a file there is nothing to be found."""
    try:
        yield
    except NotADirectoryError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    except OSError as error:
        remedy = _refusal(error) or (_UNREADABLE if isinstance(error, PermissionError) else None)
        if remedy is None:
            raise
        raise InputError(f"Cannot read {path}: {remedy} ({error.strerror or error}).") from error


def _refusal(error: OSError) -> str | None:
    """The remedy for an object store's refusal."""
    name = re.search(r"AWS Error (\w+)", str(error))
    return _REFUSALS.get(name[1]) if name else None
