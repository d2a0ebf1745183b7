"""Raw files that are objects of an object store: as paths that are read by ranges, never copied.

Promises: an object's path has what sources use of a path (name, size, opening, reading), and its text is its address. A
store that does not answer is asked again as `corpora.store.places.object_store` says; what then remains is an OSError
with a number, which is never taken for damage of the file. Cost: a request for each READ_BYTES that are read, and as
many bytes of memory for a file that is open.
"""

import errno
import io
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from corpora.errors import InputError
from corpora.sources.bytes.zip_members import MemberPath, build_member_path, split_member
from corpora.store.places.address import ObjectAddress, is_object_address, parse_object_address
from corpora.store.places.object_store import ObjectFile
from corpora.store.places.pipes import open_file
from corpora.store.places.place import Place

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

READ_BYTES = 1 << 22
COLUMN_BYTES = 1 << 20
WILDCARDS = frozenset("*[")  # a question mark begins the options of an address


def parse_raw_path(text: str) -> Path:
    """Return the path of a raw file or folder on this machine, in an object store, or in a zip.

    A member of a zip is written as `ARCHIVE.zip!/MEMBER`.

    Raises:
        InputError: If `~NAME` is no user of this machine, or an address is wrong.

    >>> parse_raw_path("/raw/a.txt"), str(parse_raw_path("s3://news/2026/a b.txt"))
    (PosixPath('/raw/a.txt'), 's3://news/2026/a%20b.txt')
    """
    try:
        Path(text).expanduser()
    except RuntimeError as error:
        raise InputError(f"{text} is in the home folder of nobody here: write ./{text} for a path below.") from error
    archive, member = split_member(text)
    if member and os.path.lexists(text):  # a folder whose name ends so
        return Path(text)
    path = build_object_path(parse_object_address(archive)) if is_object_address(text) else Path(archive)
    return build_member_path(path, member) if member else path


def build_object_path(address: ObjectAddress) -> "ObjectPath":
    """Build the path of an object from its address."""
    path = ObjectPath("/" + address.root)
    path.address = address
    return path


class ObjectPath(PosixPath):
    """An object of an object store, or a prefix of some, as a path. What is asked of the store raises OSError."""

    address: ObjectAddress

    def __str__(self) -> str:
        return str(self.address)

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is no path of this machine")

    def with_name(self, name: str) -> "ObjectPath":
        """Return the object of another name next to this one."""
        return build_object_path(replace(self.address, pieces=(*self.address.pieces[:-1], name)))

    def absolute(self) -> "ObjectPath":
        """Return this path: it is absolute."""
        return self

    def expanduser(self) -> "ObjectPath":
        """Return this path: it has no home folder."""
        return self

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if there is such an object."""
        try:
            return self._place.find_size("") is not None
        except InputError as error:
            raise _to_os_error(error, str(self)) from error

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if there is such an object."""
        return self.is_file()

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return False: an object store has no folders."""
        return False

    def list_objects(self) -> dict[str, int]:
        """Return {name from this prefix on: bytes} of every object with this prefix."""
        try:
            return self._place.list_files("")
        except InputError as error:
            raise _to_os_error(error, str(self)) from error

    def join_name(self, name: str) -> "ObjectPath":
        """Return the object of a name below this prefix."""
        return build_object_path(replace(self.address, pieces=(*self.address.pieces, *name.split("/"))))

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the size of the object as for a file; times are 0. Raises FileNotFoundError."""
        try:
            size = self._place.find_size("")
        except InputError as error:
            raise _to_os_error(error, str(self)) from error
        if size is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return os.stat_result((stat.S_IFREG | 0o444, 0, 0, 1, 0, 0, size, 0, 0, 0))

    def read_stamp(self) -> list[Any]:
        """Return what changes with the object: size and ETag, as the store has them."""
        with ObjectReader(self) as reader:
            return [reader.size, reader.etag]

    def open(self, mode: str = "r", buffering: int = -1, *args: Any, **more: Any) -> Any:
        """Open the object for reading at any offset; `mode` must be "rb"."""
        assert mode == "rb", "an object is read as bytes"
        reader = ObjectReader(self)
        return io.BufferedReader(reader, READ_BYTES) if buffering else reader

    def read_bytes(self) -> bytes:
        """Read all bytes of the object."""
        with ObjectReader(self) as reader:
            return reader.readall()

    @cached_property
    def _place(self) -> Place:
        return Place(str(self.address))


class ObjectReader(io.RawIOBase):
    """The bytes of an object, read by ranges. Raises OSError with a number."""

    def __init__(self, path: ObjectPath) -> None:
        self._address, self._position = str(path), 0
        try:
            opened = Place(self._address).open("")
        except InputError as error:
            raise _to_os_error(error, self._address) from error
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._address) from error
        assert isinstance(opened, ObjectFile)
        self._file = opened
        self.size = opened.size()
        self.etag = opened.etag()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position of the next read; return it."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        return self._position

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._position

    def readall(self) -> bytes:
        """Read all bytes that are left."""
        return self._read(max(0, self.size - self._position))

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill a buffer; return the number of bytes, fewer only at the end."""
        view = memoryview(buffer).cast("B")
        data = self._read(min(len(view), max(0, self.size - self._position)))
        view[: len(data)] = data
        return len(data)

    def _read(self, size: int) -> bytes:
        if not size:
            return b""
        try:
            data = self._file.read_at(size, self._position)
        except InputError as error:
            raise _to_os_error(error, self._address) from error
        self._position += len(data)
        return data


def _to_os_error(error: InputError, address: str) -> OSError:
    """Convert a store's refusal to the error that a file system would raise."""
    message = str(error).removeprefix(f"Cannot read {address}: ").rstrip(".")
    return OSError(errno.EIO, message, address)


def open_for_library(path: Path, buffering: int = -1) -> Any:
    """Return what a library that opens files by name takes: the path of an ordinary file, else an open file.

    It is opened if it is an object, a member of a zip, a pipe, or has a path that is not UTF-8, which Arrow does not
    take.

    Args:
        path: The file.
        buffering: 0 for none, as for `open`.
    """
    if isinstance(path, ObjectPath | MemberPath):
        return path.open("rb", buffering)
    if path.is_fifo():
        return open_file(path)
    name = os.fsencode(path)
    return path if name.decode(errors="replace") == str(path) else pa.OSFile(name)


def choose_column_bytes(path: Path) -> int:
    """Return how many bytes of a Parquet column to read at a time: more from an object, as each read is a request."""
    return COLUMN_BYTES if isinstance(path, ObjectPath) else 1 << 16


def find_matching_objects(path: ObjectPath) -> tuple[ObjectPath, list[str]]:
    """Find the objects that match a path with wildcards; without wildcards, all below it.

    Returns:
        The prefix before the first wildcard, and the matching names below it, sorted.
    """
    pieces = path.address.pieces
    fixed = next((i for i, piece in enumerate(pieces) if WILDCARDS & set(piece)), len(pieces))
    root, pattern = build_object_path(replace(path.address, pieces=pieces[:fixed])), pieces[fixed:] or ("**", "*")
    return root, [name for name in sorted(root.list_objects()) if is_glob_match(name.split("/"), pattern)]


def is_glob_match(pieces: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return True if a path matches a glob, both cut at their slashes.

    >>> is_glob_match(["a", "b", "c.txt"], ["a", "**", "*.txt"]), is_glob_match(["a", "c.txt"], ["*.txt"])
    (True, False)
    """
    if not pattern:
        return not pieces
    if pattern[0] == "**":
        return any(is_glob_match(pieces[skipped:], pattern[1:]) for skipped in range(len(pieces) + 1))
    return bool(pieces) and fnmatchcase(pieces[0], pattern[0]) and is_glob_match(pieces[1:], pattern[1:])
