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
    """Return the path of a raw file or folder, which may be on this machine, in an object store or in a zip archive.

    A zip member is written as `ARCHIVE.zip!/MEMBER`.

    Raises:
        InputError: If `~NAME` is not a user of this machine, or an object-store address is invalid.

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
    """Build the path of an object, or of a prefix of several objects, from its address in the object store."""
    path = ObjectPath("/" + address.root)
    path.address = address
    return path


class ObjectPath(PosixPath):
    """The path of an object in an object store, or of a prefix of several objects. Failed requests raise OSError."""

    address: ObjectAddress

    def __str__(self) -> str:
        return str(self.address)

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is no path of this machine")

    def with_name(self, name: str) -> "ObjectPath":
        """Return this path with its last component replaced by `name`."""
        return build_object_path(replace(self.address, pieces=(*self.address.pieces[:-1], name)))

    def absolute(self) -> "ObjectPath":
        """Return the path unchanged, since it is always absolute."""
        return self

    def expanduser(self) -> "ObjectPath":
        """Return the path unchanged, since it never contains `~`."""
        return self

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if there is an object with exactly this address. `follow_symlinks` has no effect.

        Raises:
            OSError: If the store does not answer.
        """
        try:
            return self._place.find_size("") is not None
        except InputError as error:
            raise _to_os_error(error, str(self)) from error

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if there is an object with exactly this address, as `is_file` does.

        `follow_symlinks` has no effect.

        Raises:
            OSError: If the store does not answer.
        """
        return self.is_file()

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return False. The path is never that of a folder.

        An object store has no folders.
        """
        return False

    def list_objects(self) -> dict[str, int]:
        """List the objects below this prefix: their sizes in bytes, by their names relative to the prefix.

        Raises:
            OSError: If the store does not answer.
        """
        try:
            return self._place.list_files("")
        except InputError as error:
            raise _to_os_error(error, str(self)) from error

    def join_name(self, name: str) -> "ObjectPath":
        """Return the path of the object called `name` relative to this prefix. The name may contain slashes."""
        return build_object_path(replace(self.address, pieces=(*self.address.pieces, *name.split("/"))))

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the size in bytes in the form of a file's status. All times are 0.

        Raises:
            FileNotFoundError: If there is no such object.
            OSError: If the store does not answer.
        """
        try:
            size = self._place.find_size("")
        except InputError as error:
            raise _to_os_error(error, str(self)) from error
        if size is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return os.stat_result((stat.S_IFREG | 0o444, 0, 0, 1, 0, 0, size, 0, 0, 0))

    def read_stamp(self) -> list[Any]:
        """Return a list of values that change whenever the content changes.

        These are the size in bytes and the ETag of the object.

        Raises:
            OSError: If the object does not exist or cannot be read.
        """
        with ObjectReader(self) as reader:
            return [reader.size, reader.etag]

    def open(self, mode: str = "r", buffering: int = -1, *args: Any, **more: Any) -> Any:
        """Open the file as a seekable binary stream. `mode` must be "rb".

        The stream of the object is buffered unless `buffering` is 0.

        Raises:
            OSError: If the object does not exist or cannot be read.
        """
        assert mode == "rb", "an object is read as bytes"
        reader = ObjectReader(self)
        return io.BufferedReader(reader, READ_BYTES) if buffering else reader

    def read_bytes(self) -> bytes:
        """Return all bytes of the file.

        Raises:
            OSError: If the object does not exist or cannot be read.
        """
        with ObjectReader(self) as reader:
            return reader.readall()

    @cached_property
    def _place(self) -> Place:
        """The `Place` through which requests for this object are sent to the store."""
        return Place(str(self.address))


class ObjectReader(io.RawIOBase):
    """A stream of an object's bytes, read by range requests. Raises OSError with an error number.

    Attributes:
        size: Size of the object in bytes.
        etag: Its ETag, which changes with its content; "" if the store has none.
    """

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
        """Return True. The stream is readable."""
        return True

    def seekable(self) -> bool:
        """Return True. The stream is seekable."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position of the next read, and return it.

        No request is sent.

        Args:
            offset: Number of bytes.
            whence: What `offset` is relative to: `os.SEEK_SET` (the beginning), `os.SEEK_CUR` (the current position) or
                `os.SEEK_END` (the end).
        """
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        return self._position

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._position

    def readall(self) -> bytes:
        """Return all bytes from the current position to the object's end.

        Raises:
            OSError: If the store does not answer.
        """
        return self._read(max(0, self.size - self._position))

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read the next bytes into a buffer, and return their number.

        The buffer is filled completely, except at the end of the object.

        Raises:
            OSError: If the store does not answer.
        """
        view = memoryview(buffer).cast("B")
        data = self._read(min(len(view), max(0, self.size - self._position)))
        view[: len(data)] = data
        return len(data)

    def _read(self, size: int) -> bytes:
        """Request the `size` bytes at the current position, which must exist, and advance the position.

        Raises:
            OSError: If the store does not answer.
        """
        if not size:
            return b""
        try:
            data = self._file.read_at(size, self._position)
        except InputError as error:
            raise _to_os_error(error, self._address) from error
        self._position += len(data)
        return data


def _to_os_error(error: InputError, address: str) -> OSError:
    """Convert an object-store error to an OSError with the number EIO, the message and the object's address."""
    message = str(error).removeprefix(f"Cannot read {address}: ").rstrip(".")
    return OSError(errno.EIO, message, address)


def open_for_library(path: Path, buffering: int = -1) -> Any:
    """Return a path or an open file that can be passed to a library that opens files by name.

    Ordinary files are returned as paths. Objects, zip members, pipes, and paths that are not valid UTF-8 (which Arrow
    does not support) are returned as open binary files.

    Args:
        path: Path of the file.
        buffering: The buffer size for objects and zip members, as in the built-in `open`; 0 disables buffering.

    Raises:
        OSError: If a file that must be opened here cannot be opened.
        InputError: If the path is a pipe into which nothing is written.
    """
    if isinstance(path, ObjectPath | MemberPath):
        return path.open("rb", buffering)
    if path.is_fifo():
        return open_file(path)
    name = os.fsencode(path)
    return path if name.decode(errors="replace") == str(path) else pa.OSFile(name)


def choose_column_bytes(path: Path) -> int:
    """Return the number of bytes of a Parquet column to read at a time: 1 MB from an object store, else 64 kB.

    More bytes are read from an object store because each read is a request.
    """
    return COLUMN_BYTES if isinstance(path, ObjectPath) else 1 << 16


def find_matching_objects(path: ObjectPath) -> tuple[ObjectPath, list[str]]:
    """Find the objects that match a path with wildcards, or all objects below a path without wildcards.

    Returns:
        The prefix before the first wildcard, and the matching names relative to this prefix, sorted.

    Raises:
        OSError: If the store does not answer.
    """
    pieces = path.address.pieces
    fixed = next((i for i, piece in enumerate(pieces) if WILDCARDS & set(piece)), len(pieces))
    root, pattern = build_object_path(replace(path.address, pieces=pieces[:fixed])), pieces[fixed:] or ("**", "*")
    return root, [name for name in sorted(root.list_objects()) if is_glob_match(name.split("/"), pattern)]


def is_glob_match(pieces: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return True if a path matches a glob pattern. Both are given as lists of path components.

    The component `**` in the pattern stands for any number of components.

    >>> is_glob_match(["a", "b", "c.txt"], ["a", "**", "*.txt"]), is_glob_match(["a", "c.txt"], ["*.txt"])
    (True, False)
    """
    if not pattern:
        return not pieces
    if pattern[0] == "**":
        return any(is_glob_match(pieces[skipped:], pattern[1:]) for skipped in range(len(pieces) + 1))
    return bool(pieces) and fnmatchcase(pieces[0], pattern[0]) and is_glob_match(pieces[1:], pattern[1:])
