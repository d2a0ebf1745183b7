"""A part: the unfinished file next to its place, and the facts about the version of its bytes.

Promises: the bytes of a part are a beginning of one version's bytes, of the one that `NAME.part.json` describes; a
process that is killed leaves it so. One process at a time holds a part. Only `finish` gives a file its own name, after
its bytes are on the disk. A file that no fetch wrote is neither replaced nor written to, be it in the place of a file,
a part or a note; links are not followed.
Costs: each byte is hashed once while it is received (twice where the publisher's digest is no sha256), and once more
when another process resumes it.
"""

import hashlib
import io
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from corpora.acquire.remote import RemoteFile
from corpora.errors import InputError
from corpora.sources.contract import RawFile
from corpora.store.places.files import disk_refusal, flush_folder, replaced_file
from corpora.store.places.locks import is_at, try_lock
from corpora.store.settings import convert

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Identifies the version and address of a part's bytes by what the server said with them (RFC 9110, 8.8).

    size_bytes: of the whole; None while the server has not said
    """

    url: str
    etag: str | None = None
    modified: str | None = None
    size_bytes: int | None = None

    @property
    def condition(self) -> str | None:
        """Return the value for `If-Range`: a strong ETag, else the time of the last change; None for neither."""
        return self.etag if self.etag is not None and not self.etag.startswith("W/") else self.modified

    def differs(self, other: "Version") -> bool:
        """True if two replies are surely of different versions."""
        pairs = [(self.size_bytes, other.size_bytes), (self.etag, other.etag)]
        if None in pairs[1]:
            pairs[1] = (self.modified, other.modified)
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


class PartFile:
    """The unfinished file of one target, open and locked. Made by `open_part`."""

    def __init__(self, target: Path, remote: RemoteFile, stream: io.FileIO, replaces: bool) -> None:
        self.target, self.remote, self._replaces = target, remote, replaces
        self.version: Version | None = None
        self.position = 0
        self._stream = stream
        self._path, self._note = part_of(target), target.with_name(f"{target.name}.part.json")
        self._digests = self._fresh_digests()
        self._adopt()

    def _fresh_digests(self) -> dict[str, Any]:
        kinds = {"sha256", self.remote.promised[0] if self.remote.promised else "sha256"}
        return {kind: hashlib.new(kind, usedforsecurity=False) for kind in kinds}

    def _adopt(self) -> None:
        """Take over what an earlier process left. Raises InputError for what no fetch can have left."""
        size = os.fstat(self._stream.fileno()).st_size
        if is_there(self._note):
            try:
                self.version = convert(json.loads(_read(self._note)), Version, str(self._note))
            except ValueError as error:
                raise in_the_way(self._note) from error
        elif size:  # a note comes before the first byte
            raise in_the_way(self._path)
        whole = self.version.size_bytes if self.version is not None else None
        if self.version is None or (whole is not None and size > whole):
            self.clear()
            return
        self._stream.seek(0)
        while block := self._stream.read(BLOCK_BYTES):
            self._count(block)

    def _count(self, block: bytes) -> None:
        for digest in self._digests.values():
            digest.update(block)
        self.position += len(block)

    @property
    def is_whole(self) -> bool:
        """True if all bytes of the version are here."""
        return self.version is not None and self.position == self.version.size_bytes

    def clear(self) -> None:
        """Forget all bytes: the next ones are those of another version."""
        self._stream.seek(0)
        self._stream.truncate()
        self._note.unlink(missing_ok=True)
        self.version, self.position, self._digests = None, 0, self._fresh_digests()

    def tell(self, version: Version) -> None:
        """Write down what is known of the version now: before the first of its bytes, and when its size is known."""
        self.version = version
        with replaced_file(self._note, alone=True) as new:
            new.write_text(json.dumps(asdict(version)), encoding="utf-8")

    def append(self, chunk: bytes) -> None:
        """Append the next bytes."""
        view = memoryview(chunk)
        while view:
            view = view[self._stream.write(view) :]
        self._count(chunk)

    def digest(self, kind: str) -> str:
        """A digest of the bytes so far; sha256 is always known."""
        return str(self._digests[kind].hexdigest())

    def head(self, num_bytes: int) -> bytes:
        """The first bytes."""
        return os.pread(self._stream.fileno(), num_bytes, 0)

    def finish(self) -> RawFile:
        """Give the file its own name. It gets the server's time of last change."""
        os.fsync(self._stream.fileno())
        if (seconds := modified_seconds(self.version.modified if self.version else None)) is not None:
            os.utime(self._stream.fileno(), (seconds, seconds))
        if is_there(self.target) and not self._replaces:  # since the fetch began
            raise in_the_way(self.target)
        self._path.replace(self.target)
        self._note.unlink(missing_ok=True)
        flush_folder(self.target.parent)
        return RawFile(
            name=self.remote.name, sha256=self.digest("sha256"), size_bytes=self.position, path=str(self.target)
        )


def part_of(target: Path) -> Path:
    """Return the path of a target's unfinished bytes."""
    return target.with_name(f"{target.name}.part")


def is_there(path: Path) -> bool:
    """Return True if anything has this path, a link that leads nowhere included."""
    return path.is_symlink() or path.exists()


def in_the_way(path: Path) -> InputError:
    """Return the error for what no fetch wrote, or what was changed since."""
    return InputError(
        f"{path} is in the way: a fetch writes there, and it is not what a fetch wrote, or it was changed since. Move "
        "it away, then fetch again."
    )


def _read(path: Path) -> bytes:
    with io.FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)) as stream:
        return stream.readall()


@contextmanager
def open_part(target: Path, remote: RemoteFile, replaces: bool = False) -> Iterator[PartFile]:
    """The part of a target, new or as it was left. Raises InputError: in use, a full disk, a forbidden folder.

    replaces: an earlier fetch wrote what is at the target
    """
    path = part_of(target)
    with writable(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            with io.FileIO(os.open(path, flags, 0o666), "r+") as stream:
                if (there := os.fstat(stream.fileno())).st_nlink > 1 or not stat.S_ISREG(there.st_mode):
                    raise in_the_way(path)
                if not try_lock(stream):
                    raise InputError(f"{path} is being fetched by another process. Wait for it, or end it.")
                # Another process may have finished the file between the two calls: then this is the target itself.
                if is_at(stream, path):
                    yield PartFile(target, remote, stream, replaces)
                    return


def modified_seconds(header: str | None) -> float | None:
    """A `Last-Modified` header in seconds since 1970; None where it gives no time."""
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp()) if header else None
    except (ValueError, OverflowError):
        return None


@contextmanager
def writable(target: Path) -> Iterator[None]:
    """Raise an InputError for what the disk refuses."""
    try:
        yield
    except OSError as error:
        elsewhere = "fetch to another place (--set source.NAME.fetch.folder=FOLDER)"
        remedy = disk_refusal(error, elsewhere) or f"{error.strerror or error}: fix that, or {elsewhere}"
        raise InputError(f"Cannot write {target}: {remedy}. What was received is kept.") from error
