"""Places: a store's root, a local folder or an object store, under one small class.

Promise: a file that can be seen is whole. Locally it is written next to its place, flushed to the disk and renamed
(`files.py`). For an object store it is written to an unnamed temporary file first and uploaded when it is whole,
because an upload that is abandoned midway cannot be taken back: that costs the temporary space of one file. A `Place`
is cheap to pickle: it travels to worker processes as its address.
"""

import hashlib
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.fs as pafs

from corpora.errors import InputError
from corpora.generic_types import Result
from corpora.store.places.address import ObjectAddress, is_object_address, normalize_address, parse_object_address
from corpora.store.places.files import (
    UNFINISHED_SUFFIX,
    explain_read_errors,
    explain_write_errors,
    open_with_folder,
    put_file,
    to_unfinished_path,
)
from corpora.store.places.object_store import FETCH_BYTES, ObjectFile, ObjectFiles
from corpora.store.places.pipes import check_not_pipe, open_file

MAX_CACHED_BYTES = 64 << 20  # of objects that are written once, in each process


class _ObjectCache:
    """A cache of the bytes of objects, limited to MAX_CACHED_BYTES."""

    def __init__(self) -> None:
        self._objects: OrderedDict[tuple[str, str], bytes] = OrderedDict()  # the last added at the end
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str]) -> bytes | None:
        """Return the cached bytes of an object, or None. `key` is (address of the store, path in the store)."""
        return self._objects.get(key)

    def add(self, key: tuple[str, str], data: bytes) -> None:
        """Store the bytes of an object. `key` is (address of the store, path in the store).

        If the cache is full, the objects that were added first are dropped.
        """
        with self._lock:
            self._size += len(data) - len(self._objects.get(key, b""))
            self._objects[key] = data
            self._objects.move_to_end(key)
            while self._size > MAX_CACHED_BYTES:
                self._size -= len(self._objects.popitem(last=False)[1])


_object_cache = _ObjectCache()


@dataclass(frozen=True)
class Place:
    """The root folder of a store. Files are read and written by their paths relative to it.

    Paths use slashes. A `Place` is small when pickled, so it can be sent to workers.

    Args:
        address: A local folder (`store`, `~/store`, `file:///data/store`) or an object store (`s3://bucket/prefix`).

    Raises:
        InputError: If the address is invalid, has another scheme, or contains a password or key.
    """

    address: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", normalize_address(self.address))

    @cached_property
    def _object_address(self) -> ObjectAddress | None:
        """The parsed address, or None for a local folder."""
        return parse_object_address(self.address) if is_object_address(self.address) else None

    @cached_property
    def _root(self) -> str:
        """The absolute path of the local folder, or the bucket and prefix."""
        return Path(self.address).resolve().as_posix() if self._object_address is None else self._object_address.root

    @cached_property
    def _files(self) -> pafs.LocalFileSystem | ObjectFiles:
        if self._object_address is None:
            return pafs.LocalFileSystem()
        with explain_read_errors(self.address):
            return ObjectFiles(self._object_address)

    def __getstate__(self) -> dict[str, str]:
        return {"address": self.address}

    @property
    def is_local(self) -> bool:
        """True if the store is a local folder, so that its files can be memory-mapped."""
        return self._object_address is None

    def to_full_path(self, path: str) -> str:
        """Convert a path in the store to a path in the underlying file system. "" is the root."""
        root = self._root.rstrip("/") if path else self._root
        return f"{root}/{path}" if path else root

    def to_address(self, path: str) -> str:
        """Convert a path in the store to an address that `Place` accepts, e.g. for messages. "" is the root."""
        if self._object_address is None:
            return self.to_full_path(path)
        return str(
            replace(
                self._object_address,
                pieces=(*self._object_address.pieces, *path.split("/")) if path else self._object_address.pieces,
            )
        )

    @property
    def name(self) -> str:
        """The last component of the address, or "" if it has none."""
        if self._object_address is not None:
            return self._object_address.pieces[-1] if self._object_address.pieces else ""
        return Path(self.address).name

    @property
    def without_links(self) -> "Place":
        """The same store, with symbolic links in its path resolved."""
        return Place(self._root) if self._object_address is None else self

    @property
    def parent(self) -> "Place":
        """The folder that contains this store, or the store itself if it is a root folder or a bucket.

        The result is an absolute path if it cannot be derived from the text of the address.
        """
        if self._object_address is not None:
            return Place(str(replace(self._object_address, pieces=self._object_address.pieces[:-1])))
        path = Path(self.address)
        has_parent = len(path.parts) > 1 and path.parts[0] != "~" and ".." not in path.parts  # "~" is the home folder
        return Place(str((path if has_parent else path.absolute()).parent))

    def list_files(self, folder: str) -> dict[str, int]:
        """List all files in a folder and its subfolders, with their sizes. Temporary files are omitted.

        Args:
            folder: Path relative to the store; "" for the whole store.

        Returns:
            Maps each path, relative to the store, to the size in bytes. Empty if the folder does not exist.

        Raises:
            InputError: If the folder cannot be read, or contains a file name that is not UTF-8.
        """
        return {
            path: size for path, size in self._list_all_files(folder).items() if not path.endswith(UNFINISHED_SUFFIX)
        }

    def list_unfinished(self, folder: str) -> dict[str, int]:
        """List the temporary files in a folder and its subfolders, with their sizes, like `list_files`.

        These files are being written, or were being written when a process was killed.

        Args:
            folder: Path relative to the store; "" for the whole store.

        Returns:
            Maps each path, relative to the store, to the size in bytes.

        Raises:
            InputError: If the folder cannot be read, or contains a file name that is not UTF-8.
        """
        return {path: size for path, size in self._list_all_files(folder).items() if path.endswith(UNFINISHED_SUFFIX)}

    def _list_all_files(self, folder: str) -> dict[str, int]:
        selector = pafs.FileSelector(self.to_full_path(folder), recursive=True, allow_not_found=True)
        strip = len(self._root.rstrip("/")) + 1
        try:
            with explain_read_errors(self.to_address(folder)):
                infos = self._files.get_file_info(selector)
        except FileNotFoundError:
            return {}  # it is a file, or it was removed meanwhile
        try:
            return {info.path[strip:]: info.size for info in infos if info.type == pafs.FileType.File}
        except UnicodeDecodeError as error:
            raise InputError(
                f"Below {self.to_address(folder)} is a file whose name is not UTF-8, so it is no store's: move it "
                "away, or give the store's own folder."
            ) from error

    def find_size(self, path: str) -> int | None:
        """Look up the size of a file in bytes; None if the file does not exist.

        Raises:
            InputError: If the store cannot be read.
        """
        with explain_read_errors(self.to_address(path)):
            info = self._files.get_file_info(self.to_full_path(path))
        return int(info.size) if info.type == pafs.FileType.File else None

    def read(self, path: str, is_final: bool = False) -> bytes:
        """Read all bytes of a file.

        An object may be replaced between the request for its size and the request for its bytes, and the result would
        then be truncated. Therefore the size is requested again afterwards, unless the file is final or ends like a
        sealed document.

        Args:
            path: Path relative to the store.
            is_final: True if the file is never replaced by another version.

        Raises:
            FileNotFoundError: If the file does not exist.
            InputError: If the file cannot be read.
        """
        full, files = self.to_full_path(path), self._files
        while isinstance(files, ObjectFiles):
            with (
                explain_read_errors(self.to_address(path)),
                files.open_input_file(full, self.to_address(path)) as stream,
            ):
                size, data = stream.size(), bytes(stream.read())
            if len(data) == size and (is_final or data.endswith(b'"\n}\n') or self.find_size(path) == size):
                return data
        with explain_read_errors(full), open_file(Path(full)) as file:
            return file.read()

    def read_checked(self, path: str, parse: Callable[[bytes], Result]) -> Result:
        """Read and parse a file that is never replaced, and cache its bytes.

        The bytes of objects are cached in this process, up to MAX_CACHED_BYTES. Local files are not cached, and neither
        is the result of `parse`.

        Args:
            path: Path relative to the store.
            parse: Verifies and parses the bytes. It must raise an exception if they are damaged, so that they are not
                cached.

        Returns:
            The result of `parse`.

        Raises:
            FileNotFoundError: If the file does not exist.
            InputError: If the file cannot be read.

        Exceptions raised by `parse` are propagated unchanged.
        """
        key = (self.address, path)
        data = _object_cache.get(key)
        if data is None:
            data = self.read(path, is_final=True)
        result = parse(data)
        if not self.is_local:
            _object_cache.add(key, data)
        return result

    def open(self, path: str) -> pa.NativeFile | ObjectFile:
        """Open a file for random access. Local files are memory-mapped. The caller must close the result.

        Args:
            path: Path relative to the store.

        Raises:
            FileNotFoundError: If the file does not exist.
            InputError: If the file cannot be read or is a named pipe.
        """
        full, files = self.to_full_path(path), self._files
        with explain_read_errors(self.to_address(path)):
            if isinstance(files, ObjectFiles):
                return files.open_input_file(full, self.to_address(path))
            check_not_pipe(Path(full))
            return pa.memory_map(full)

    def write(self, path: str, data: bytes, is_final: bool = False) -> None:
        """Write a file atomically. An existing file is replaced: readers see either the old or the new version.

        Args:
            path: Path relative to the store. Missing folders are created.
            data: All bytes of the file.
            is_final: True if the file is never replaced by another version, so that it may be cached.

        Raises:
            InputError: If the file cannot be written.
        """
        with self.create(path, is_final) as sink:
            sink.write(data)

    def delete(self, path: str) -> None:
        """Delete a file. Its folder is kept, even if it is empty now.

        Args:
            path: Path relative to the store.

        Raises:
            FileNotFoundError: If the file does not exist.
            InputError: If it cannot be deleted.
        """
        with explain_read_errors(self.to_address(path), "remove"):
            self._files.delete_file(self.to_full_path(path))

    @contextmanager
    def create(self, path: str, is_final: bool = False) -> "Iterator[HashingSink]":
        """Open a file for writing. The file becomes visible in the store only if the block succeeds.

        An existing file is then replaced.

        Args:
            path: Path relative to the store. Missing folders are created.
            is_final: True if the file is never replaced by another version, so that it may be cached.

        Yields:
            The file to write to.

        Raises:
            InputError: If the file cannot be written, e.g. because the disk is full.

        Exceptions raised in the block are propagated unchanged.
        """
        full, files = self.to_full_path(path), self._files
        if not isinstance(files, ObjectFiles):
            with _create_local_file(Path(full)) as sink:
                yield sink
            return
        with _create_unnamed_file() as (sink, written):
            yield sink
            with explain_write_errors(self.to_address(path)):
                files.upload(written, full)
            if is_final and sink.size_bytes <= FETCH_BYTES:
                written.seek(0)
                _object_cache.add((self.address, path), written.read())


class HashingSink:
    """A file that is open for sequential writing. It counts and hashes the bytes that are written.

    Attributes:
        size_bytes: Number of bytes written so far.
    """

    closed = False

    def __init__(self, handle: BinaryIO, path: str) -> None:
        self._handle = handle
        self._path = path
        self._sha256 = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        """Write bytes or an Arrow buffer, and count and hash them. Return the number of bytes written.

        Raises:
            InputError: If the data cannot be written.
        """
        view = memoryview(data)
        with explain_write_errors(self._path):
            self._handle.write(view)
        self._sha256.update(view)
        self.size_bytes += view.nbytes
        return view.nbytes

    def flush(self) -> None:
        """Flush the file, so that buffered data reach the operating system.

        Raises:
            InputError: If the data cannot be written.
        """
        with explain_write_errors(self._path):
            self._handle.flush()

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.size_bytes

    def sha256(self) -> str:
        """Return the SHA-256 of the bytes written so far, in hexadecimal digits."""
        return self._sha256.hexdigest()


@contextmanager
def _create_local_file(path: Path) -> Iterator[HashingSink]:
    """Open a temporary file that is renamed to `path` if the block succeeds, and removed if it raises an exception.

    Missing folders are created. Each call uses a different temporary file, so that two writers of one path do not
    interfere.

    Raises:
        InputError: If the file cannot be written or renamed.
    """
    new = to_unfinished_path(path)
    with explain_write_errors(path.as_posix()):
        handle = open_with_folder(new)
    try:
        yield HashingSink(handle, path.as_posix())
        with explain_write_errors(path.as_posix()):
            handle.flush()
            put_file(new, path)
    finally:
        handle.raw.close()  # closes without another try at what the disk has refused
        new.unlink(missing_ok=True)


@contextmanager
def _create_unnamed_file() -> Iterator[tuple[HashingSink, BinaryIO]]:
    """Open an anonymous temporary file. The operating system removes it when it is closed, at the end of the block.

    Yields:
        The sink to write to, and the underlying file, from which the bytes can be read.

    Raises:
        InputError: If the file cannot be created.
    """
    folder = tempfile.gettempdir()
    with explain_write_errors(folder):
        number, name = tempfile.mkstemp(prefix="cloze-")
        Path(name).unlink()
        handle = os.fdopen(number, "w+b")
    try:
        yield HashingSink(handle, folder), handle
    finally:
        handle.raw.close()
