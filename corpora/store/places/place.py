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
    """The bytes of the objects that were used last, at most MAX_CACHED_BYTES."""

    def __init__(self) -> None:
        self._objects: OrderedDict[tuple[str, str], bytes] = OrderedDict()  # the last used at the end
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str]) -> bytes | None:
        return self._objects.get(key)

    def add(self, key: tuple[str, str], data: bytes) -> None:
        with self._lock:
            self._size += len(data) - len(self._objects.get(key, b""))
            self._objects[key] = data
            self._objects.move_to_end(key)
            while self._size > MAX_CACHED_BYTES:
                self._size -= len(self._objects.popitem(last=False)[1])


_object_cache = _ObjectCache()


@dataclass(frozen=True)
class Place:
    """The root of a store: a folder (`store`, `/data/store`) or an address of an object store (`s3://bucket/prefix`).

    Paths of files are relative to it, with slashes. `file:///data/store` and `~/store` become the paths that they mean.
    Raises InputError for an address that cannot be one, that is of another kind, or that holds a secret.
    """

    address: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", normalize_address(self.address))

    @cached_property
    def _object_address(self) -> ObjectAddress | None:
        """The address in its pieces; None for a folder."""
        return parse_object_address(self.address) if is_object_address(self.address) else None

    @cached_property
    def _root(self) -> str:
        """The absolute path of the folder, or bucket and prefix."""
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
        """True if files are in this machine's file system and can be mapped into memory."""
        return self._object_address is None

    def to_full_path(self, path: str) -> str:
        """Return the path of a file in the underlying file system; of the root if `path` is ""."""
        root = self._root.rstrip("/") if path else self._root
        return f"{root}/{path}" if path else root

    def to_address(self, path: str) -> str:
        """Return the address of a file or folder of the store as it is shown and can be typed; of the root if `path` is
        "".
        """
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
        """The last name of the address; "" if it has none."""
        if self._object_address is not None:
            return self._object_address.pieces[-1] if self._object_address.pieces else ""
        return Path(self.address).name

    @property
    def without_links(self) -> "Place":
        """The same place without symbolic links on the way."""
        return Place(self._root) if self._object_address is None else self

    @property
    def parent(self) -> "Place":
        """The folder above, or the place itself if there is none; an absolute path if the address does not name that
        folder.
        """
        if self._object_address is not None:
            return Place(str(replace(self._object_address, pieces=self._object_address.pieces[:-1])))
        path = Path(self.address)
        has_parent = len(path.parts) > 1 and path.parts[0] != "~" and ".." not in path.parts  # "~" is the home folder
        return Place(str((path if has_parent else path.absolute()).parent))

    def list_files(self, folder: str) -> dict[str, int]:
        """Return {path relative to the store: size in bytes} of all finished files below a folder; empty if there are
        none.
        """
        return {
            path: size for path, size in self._list_all_files(folder).items() if not path.endswith(UNFINISHED_SUFFIX)
        }

    def list_unfinished(self, folder: str) -> dict[str, int]:
        """Return what `list_files` returns, of files that a process writes now or was writing when it was killed."""
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
        """Return the size of a file in bytes; None if there is no such file."""
        with explain_read_errors(self.to_address(path)):
            info = self._files.get_file_info(self.to_full_path(path))
        return int(info.size) if info.type == pafs.FileType.File else None

    def read(self, path: str, is_final: bool = False) -> bytes:
        """Return all bytes of a file.

        is_final: the file is never replaced by other bytes
        Raises FileNotFoundError, and InputError if the file cannot be read.

        An object's size and its bytes are asked for one after the other, so one that is replaced in between would come
        cut. Therefore the size is asked for again, unless the object is final or ends as a sealed document does.
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
        """Return what `parse` makes of the bytes of a file that is never replaced.

        parse: must raise if the bytes are not those that were written; only bytes that it accepts are kept
        An object is fetched once in a process, as long as it is among the last MAX_CACHED_BYTES. Raises what `read`
        raises.
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
        """Open a file for reading at any offset; a local file is mapped into memory.

        Raises FileNotFoundError, and InputError if the file cannot be read or is a pipe.
        """
        full, files = self.to_full_path(path), self._files
        with explain_read_errors(self.to_address(path)):
            if isinstance(files, ObjectFiles):
                return files.open_input_file(full, self.to_address(path))
            check_not_pipe(Path(full))
            return pa.memory_map(full)

    def write(self, path: str, data: bytes, is_final: bool = False) -> None:
        """Write a file in one step: readers see the old bytes or the new ones, never half.

        is_final: the file is never replaced, so `read_checked` may keep its bytes
        Raises InputError if the place cannot be written.
        """
        with self.create(path, is_final) as sink:
            sink.write(data)

    def delete(self, path: str) -> None:
        """Delete a file. Raises FileNotFoundError, and InputError if it cannot be removed."""
        with explain_read_errors(self.to_address(path), "remove"):
            self._files.delete_file(self.to_full_path(path))

    @contextmanager
    def create(self, path: str, is_final: bool = False) -> "Iterator[HashingSink]":
        """Open a new file for writing. It appears when the block ends well, and never if the block raises.

        is_final: the file is never replaced, so `read_checked` may keep its bytes
        Raises InputError if the place cannot be written (permissions, a full disk, a read-only file system). What the
        block itself raises passes unchanged.
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
    """A file that is written front to back; it counts and hashes the bytes on the way."""

    closed = False

    def __init__(self, handle: BinaryIO, path: str) -> None:
        self._handle = handle
        self._path = path
        self._sha256 = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        """Write bytes or an Arrow buffer, and return their number. Raises InputError if the disk refuses them."""
        view = memoryview(data)
        with explain_write_errors(self._path):
            self._handle.write(view)
        self._sha256.update(view)
        self.size_bytes += view.nbytes
        return view.nbytes

    def flush(self) -> None:
        """Hand what is buffered to the system. Raises InputError if the disk refuses it."""
        with explain_write_errors(self._path):
            self._handle.flush()

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.size_bytes

    def sha256(self) -> str:
        """Return the sha256 of what was written so far, in hexadecimal digits."""
        return self._sha256.hexdigest()


@contextmanager
def _create_local_file(path: Path) -> Iterator[HashingSink]:
    """Open a new file that appears when the block ends well. Two writers of one path never share a file."""
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
    """Open a temporary file without a name, to write and to read. It is gone with the process, however that ends."""
    folder = tempfile.gettempdir()
    with explain_write_errors(folder):
        number, name = tempfile.mkstemp(prefix="cloze-")
        Path(name).unlink()
        handle = os.fdopen(number, "w+b")
    try:
        yield HashingSink(handle, folder), handle
    finally:
        handle.raw.close()
