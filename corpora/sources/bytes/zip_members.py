"""Members of a `.zip` as paths that are opened like files, nothing unpacked to disk.

    /raw/letters.zip!/2026/may.txt        an archive's path, and after `!/` a member's name in it

Promises: a name that is not said to be UTF-8 is read as the old code page 437, as unpackers do, unless its bytes are
UTF-8. A member is read in order or at any offset, its checksum is compared if it is read to its end, and it never
gives more than its size says. It is known by its packed bytes, so that no more is read for that than the archive holds.
An archive with members that share their bytes, which small ones that unpack to petabytes do, is refused, as is one with
over `MAX_MEMBERS`. Cost: the archive's list of members, read once for each process. Memory: 300 bytes a member.
"""

import hashlib
import io
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PosixPath
from typing import IO, Any, NamedTuple

from corpora.sources.bytes.endings import ENCRYPTED, OTHER_PACKING, ZIP_ENDING

INNER = "!/"
MAX_MEMBERS = 500_000
UTF_8_FLAG, ENCRYPTED_FLAG = 0x800, 1
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
HEAD_BYTES = 30  # of a member's own header, before its name
REPLACED, HIDDEN_FILE = "member of a .zip with the name of a later one", "hidden file"
LIST_FAULTS = (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, struct.error, OverflowError)


MEMBER_FAULTS = (*LIST_FAULTS, zlib.error, lzma.LZMAError, RuntimeError)


class BadArchive(ValueError):
    """Raised if the members of a zip archive cannot be listed. The message explains why."""


class Member(NamedTuple):
    """A member of a zip archive.

    Attributes:
        name: Its decoded path in the archive.
        info: Its entry in the archive's list.
        kind: The reason why the member is not read, such as "hidden file"; "" if it is read.
    """

    name: str
    info: zipfile.ZipInfo
    kind: str = ""


def list_members(archive: Path) -> list[Member]:
    """List the members of a zip archive, without folders, in the order of the archive's list.

    Members that were replaced by a later member with the same name come last; their `kind` says so.

    Raises:
        BadArchive: If the file is not a zip archive, is damaged, has too many members, or members share bytes.
        OSError: If the file cannot be opened.
    """
    members, replaced = _read_list(archive)
    return [*members.values(), *replaced]


def _read_list(archive: Path) -> tuple[Mapping[str, Member], tuple[Member, ...]]:
    """Return an archive's members by name, and a tuple of those replaced by a later member with the same name.

    The result is cached until the archive changes.

    Raises:
        BadArchive: If the list cannot be read or used.
        OSError: If the archive cannot be opened.
    """
    return _parse_list(archive, str(archive), *read_stamp(archive))


@lru_cache(maxsize=8)
def _parse_list(archive: Path, name: str, *stamp: Any) -> tuple[Mapping[str, Member], tuple[Member, ...]]:
    """Parse the list of a zip archive's members, without folders; cached by all arguments.

    Args:
        archive: Path of the archive.
        name: The path as a string, which distinguishes archives in different object stores.
        stamp: Values that change with the archive's content, as returned by `read_stamp`.

    Returns:
        The members by name, and a tuple of those replaced by a later member with the same name.

    Raises:
        BadArchive: If the list cannot be read or used.
        OSError: If the archive cannot be opened.
    """
    with archive.open("rb") as stream:
        try:
            with zipfile.ZipFile(stream) as opened:
                infos = [info for info in opened.infolist() if not info.is_dir()]
        except LIST_FAULTS as error:
            raise BadArchive(f"it is no zip, or a damaged one: {error}") from error
        size = stream.seek(0, os.SEEK_END)
    if len(infos) > MAX_MEMBERS:
        raise BadArchive(f"it has over {MAX_MEMBERS:,} members")
    if sum(info.compress_size for info in infos) > size:
        raise BadArchive("its members share bytes, as a zip that unpacks to far more than it should")
    members: dict[str, Member] = {}
    replaced = []
    for info in infos:
        member = Member(_decode_name(info), info, _find_kind(info))
        if member.name in members:
            replaced.append(members[member.name]._replace(kind=REPLACED))
        members[member.name] = member
    return members, tuple(replaced)


def _decode_name(info: zipfile.ZipInfo) -> str:
    """Return a member's name, decoded as UTF-8 if it is valid UTF-8, even if the archive does not declare it."""
    if info.flag_bits & UTF_8_FLAG or info.filename.isascii():
        return info.filename
    try:
        return info.filename.encode("cp437").decode()
    except UnicodeError:
        return info.filename


def _find_kind(info: zipfile.ZipInfo) -> str:
    """Return the reason why a member is not read (hidden, encrypted, unknown compression); "" if it is read."""
    parts = info.filename.split("/")
    if parts[0] == "__MACOSX" or parts[-1].startswith("._"):
        return HIDDEN_FILE  # what macOS writes next to a file
    if info.flag_bits & ENCRYPTED_FLAG:
        return ENCRYPTED
    return "" if info.compress_type in PACKINGS else OTHER_PACKING


def read_stamp(path: Path) -> list[Any]:
    """Return a list of values that change whenever a file's content changes.

    For a file on disk: size, modification and change time in nanoseconds, and inode. For an object or a zip member, the
    result of its own `read_stamp`.

    Raises:
        OSError: If the file cannot be found.
    """
    if hasattr(path, "read_stamp"):
        return list(path.read_stamp())
    seen = path.stat()
    return [seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino]


def build_member_path(archive: Path, member: str) -> "MemberPath":
    """Build the path of the member with the name `member` in a zip archive. It need not exist."""
    path = MemberPath(f"{archive}{INNER}{member}")
    path.archive, path.member = archive, member
    return path


def split_member(text: str) -> tuple[str, str]:
    """Split a path into the zip archive and the member. The member is "" if the path names an ordinary file.

    >>> split_member("/raw/a.zip!/b/c.txt"), split_member("/wow!/c.txt")
    (('/raw/a.zip', 'b/c.txt'), ('/wow!/c.txt', ''))
    """
    at = text.lower().find(ZIP_ENDING + INNER)
    end = at + len(ZIP_ENDING)
    return (text[:end], text[end + len(INNER) :]) if at >= 0 else (text, "")


class MemberPath(PosixPath):
    """The path of a zip member. It can be opened like a file; a member that cannot be read raises OSError."""

    archive: Path
    member: str

    def __str__(self) -> str:
        return f"{self.archive}{INNER}{self.member}"

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is no path of this machine")

    @property
    def parent(self) -> Path:  # type: ignore[override]
        """The folder that contains the archive."""
        return self.archive.parent

    @property
    def parents(self) -> Sequence[Path]:  # type: ignore[override]
        """The folder that contains the archive, followed by its parent folders up to the root."""
        return self.archive.parents

    def absolute(self) -> "MemberPath":
        """Return the same member's path with the absolute path of the archive."""
        return build_member_path(self.archive.absolute(), self.member)

    def expanduser(self) -> "MemberPath":
        """Return the path unchanged, since it never contains `~`."""
        return self

    def is_symlink(self) -> bool:
        """Return False, since zip members are not links."""
        return False

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if the archive has a member with this name, and False if it has none or cannot be read.

        `follow_symlinks` has no effect.

        Raises:
            OSError: If the archive exists but cannot be opened.
        """
        try:
            return self.member in _read_list(self.archive)[0]
        except (BadArchive, FileNotFoundError):
            return False

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if the archive has a member with this name, as `is_file` does.

        The result is False if the archive has none or cannot be read. `follow_symlinks` has no effect.

        Raises:
            OSError: If the archive exists but cannot be opened.
        """
        return self.is_file()

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return False. The path is never that of a folder.

        A zip member is a file.
        """
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the size in bytes in the form of a file's status. All times are 0.

        The size is that of the uncompressed member.

        Raises:
            OSError: If there is no such member, or the archive cannot be read.
        """
        return os.stat_result((stat.S_IFREG | 0o444, 0, 0, 1, 0, 0, self._find_info().file_size, 0, 0, 0))

    @property
    def is_packed(self) -> bool:
        """True if the member is compressed, so that random access to its bytes is slow."""
        return self._find_info().compress_type != zipfile.ZIP_STORED

    def compute_sha256(self) -> str:
        """Compute the SHA-256 digest of the member's compressed bytes, as hex digits.

        Raises:
            OSError: If the member cannot be found or read.
        """
        info, digest = self._find_info(), hashlib.sha256()
        with self._open_packed(info) as stream:
            left = info.compress_size
            while left and (data := stream.read(min(left, 1 << 20))):
                digest.update(data)
                left -= len(data)
        return digest.hexdigest()

    def read_stamp(self) -> list[Any]:
        """Return a list of values that change whenever the content changes.

        These are the size, times and inode of the member's archive, or its size and ETag in an object store.
        """
        return read_stamp(self.archive)

    def open(self, mode: str = "r", buffering: int = -1, *args: Any, **more: Any) -> Any:
        """Open the file as a seekable binary stream. `mode` must be "rb".

        The stream of the uncompressed member is always buffered.

        Raises:
            OSError: If the member cannot be found. The stream raises it if the bytes are damaged.
        """
        assert mode == "rb", "a member is read as bytes"
        info = self._find_info()
        stream = self._open_packed(info)
        return io.BufferedReader(_UnpackedMember(zipfile.ZipExtFile(stream, "r", info, None, True)))

    def read_bytes(self) -> bytes:
        """Return all bytes of the file.

        The member is decompressed.

        Raises:
            OSError: If the member cannot be found, or is damaged.
        """
        with self.open("rb") as stream:
            data: bytes = stream.read()
            return data

    def _find_info(self) -> zipfile.ZipInfo:
        """Return the member's entry in the archive's list.

        Raises:
            OSError: If the archive cannot be read.
        FileNotFoundError: If the archive has no such member.
        """
        try:
            member = _read_list(self.archive)[0].get(self.member)
        except BadArchive as error:
            raise OSError(f"{self.archive}: {error}") from error
        if member is None:
            raise FileNotFoundError(2, "it has no such member", str(self))
        return member.info

    def _open_packed(self, info: zipfile.ZipInfo) -> IO[bytes]:
        """Open the archive, positioned at the first compressed byte of the member with this entry.

        Raises:
            OSError: If no member begins at the position in the entry.
        """
        stream: IO[bytes] = self.archive.open("rb")
        stream.seek(info.header_offset)
        head = stream.read(HEAD_BYTES)
        if len(head) < HEAD_BYTES or not head.startswith(b"PK\3\4"):
            stream.close()
            raise OSError(f"{self}: the archive is damaged: its list names a member where none begins")
        name, more = struct.unpack("<HH", head[26:30])
        stream.seek(name + more, os.SEEK_CUR)
        return stream


class _UnpackedMember(io.RawIOBase):
    """A stream of a member's uncompressed bytes. Raises OSError if they are damaged."""

    def __init__(self, inner: zipfile.ZipExtFile) -> None:
        self._inner = inner

    def readable(self) -> bool:
        """Return True. The stream is readable."""
        return True

    def seekable(self) -> bool:
        """Return True. The stream is seekable."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position of the next read, in uncompressed bytes, and return it.

        Args:
            offset: Number of bytes.
            whence: What `offset` is relative to: `os.SEEK_SET` (the beginning), `os.SEEK_CUR` (the current position) or
                `os.SEEK_END` (the end).

        Raises:
            OSError: If the bytes in between are damaged.
        """
        return int(self._translate_faults(lambda: self._inner.seek(offset, whence)))

    def tell(self) -> int:
        """Return the position of the next read, in uncompressed bytes."""
        return self._inner.tell()

    def readinto(self, buffer: Any) -> int:
        """Read uncompressed bytes into a buffer, and return their number, which is 0 only at the end.

        The buffer may not be filled completely.

        Raises:
            OSError: If the bytes are damaged.
        """
        view = memoryview(buffer).cast("B")
        data = self._translate_faults(lambda: self._inner.read1(len(view)))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the stream and the archive."""
        self._inner.close()
        super().close()

    def _translate_faults(self, read: Any) -> Any:
        """Call `read` without arguments and return its result.

        Raises:
            OSError: If `read` raises an error about damaged bytes.
        """
        try:
            return read()
        except MEMBER_FAULTS as error:
            raise OSError(f"the member is damaged: {error}") from error
