"""Places: where a store's files are, a local folder or an object store, behind one small class.

Promise: a file that can be seen is whole. Locally it is written beside its place, flushed to the disk and
renamed; an object store shows an object only when its upload is complete. A `Place` is cheap to pickle: it
travels to worker processes as its address.
"""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.fs as pafs

from corpora.errors import InputError

_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space or choose another store, then run the same command again; finished parts are kept",
    errno.EDQUOT: "the disk quota is used up: free some space or choose another store, then run again",
    errno.EACCES: "this folder may not be written by you: choose another store or change its permissions",
    errno.EPERM: "this folder may not be written by you: choose another store or change its permissions",
    errno.EROFS: "this file system is read-only: choose a store elsewhere",
    errno.ENOTDIR: "a file stands where a folder is needed: choose another store or move the file away",
    errno.EEXIST: "a file stands where a folder is needed: choose another store or move the file away",
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
            raise InputError(f"store = {self.address!r} is not an address of a folder or object store ({error}).") from error
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
        """Every file under a folder, as path relative to the store -> size in bytes; empty where none is."""
        selector = pafs.FileSelector(self.full_path(folder), recursive=True, allow_not_found=True)
        strip = len(self._files[1]) + 1
        found = self._files[0].get_file_info(selector)
        return {info.path[strip:]: info.size for info in found if info.type == pafs.FileType.File}

    def read(self, path: str) -> bytes:
        """All bytes of a file. Raises FileNotFoundError."""
        with self._files[0].open_input_file(self.full_path(path)) as stream:
            return bytes(stream.read())

    def open(self, path: str) -> pa.NativeFile:
        """A file opened for reading at any offset, mapped into memory where it is local."""
        full = self.full_path(path)
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

        Raises InputError where the place cannot be written (permissions, a full disk, a read-only file system).
        """
        full = self.full_path(path)
        with _remedied(full):
            if self.is_local:
                with _local_file(Path(full)) as handle:
                    yield HashingSink(handle)
            else:
                with self._files[0].open_output_stream(full) as stream:
                    yield HashingSink(stream)


class HashingSink:
    """A file being written that counts and hashes its bytes on the way (it writes front to back only)."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._sha256 = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        """Write bytes or an Arrow buffer."""
        view = memoryview(data)
        self._sha256.update(view)
        self.size_bytes += view.nbytes
        self._sink.write(view)
        return view.nbytes

    def flush(self) -> None:
        """Pass what is buffered on."""
        self._sink.flush()

    def tell(self) -> int:
        """Bytes written so far."""
        return self.size_bytes

    def sha256(self) -> str:
        """Hex digest of what was written so far."""
        return self._sha256.hexdigest()


@contextmanager
def _local_file(path: Path) -> Iterator[BinaryIO]:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def _remedied(path: str) -> Iterator[None]:
    """Turn what the operating system says of an unwritable place into a paragraph with a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REMEDIES:
            raise
        raise InputError(f"Cannot write {path}: {_REMEDIES[error.errno]} ({error.strerror}).") from error
