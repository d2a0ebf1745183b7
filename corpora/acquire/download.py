"""Download one file: the correct bytes under its name, or an InputError that says what is wrong.

Promises: the bytes of two versions are not mixed, as far as the server tells versions apart (by ETag, time and length)
or a digest is known; an attempt that ends early is continued, or started over if the server cannot do that or has
another version now; a size or digest that was promised holds (of several digests the strongest is compared). A file
that exists already and is the wanted one, by its digest or by the server's length and time, is not downloaded again. A
file that no fetch wrote is not replaced. Costs: 4 s of a processor for a gigabyte, 1.3 of them for sha256 (a
publisher's sha1 as much again). Memory: one block of the network's.

A part: the unfinished file next to the target, and a description of the version that its bytes belong to.

Promises: the bytes of a part are a beginning of one version's bytes, of the one that `NAME.part.json` describes; a
process that is killed leaves it so. One process at a time holds a part. Only `finish` gives a file its own name, after
its bytes are on the disk. A file that no fetch wrote is neither replaced nor written to, be it in the place of a file,
a part or a note; links are not followed.
Costs: each byte is hashed once while it is received (twice if the publisher's digest is no sha256), and once more
when another process resumes it.
"""

import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx

from corpora.acquire.fetch_table import RemoteFile
from corpora.acquire.http_client import Attempts, Hosts, TransientFault
from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.sources.contract import RawFile, StatCache
from corpora.store.places.files import explain_disk_error, flush_folder, is_same_file, replace_file, try_lock
from corpora.store.settings import convert_value

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a remote file, as described by the server's response headers (RFC 9110, section 8.8).

    url:        URL that the bytes come from
    etag:       value of the header `ETag`, or None
    modified:   value of the header `Last-Modified`, or None
    size_bytes: size of the whole file, or None if the server has not stated it
    """

    url: str
    etag: str | None = None
    modified: str | None = None
    size_bytes: int | None = None

    @property
    def condition(self) -> str | None:
        """Value of an `If-Range` header: the strong ETag if there is one, otherwise the Last-Modified time, or None."""
        return self.etag if self.etag is not None and not self.etag.startswith("W/") else self.modified

    def is_different(self, other: "Version") -> bool:
        """Return True if the size, the ETag or the time shows that the two versions are different.

        The ETags are compared if both versions have one, otherwise the Last-Modified values. Unknown values are
        ignored.
        """
        pairs = [(self.size_bytes, other.size_bytes), (self.etag, other.etag)]
        if None in pairs[1]:
            pairs[1] = (self.modified, other.modified)
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


class PartFile:
    """A partly downloaded file, open and locked, which is stored as `NAME.part` next to its target.

    Created by `open_part`.

    `position` is the number of bytes received so far. `version` describes the version of the file that these bytes
    belong to, or is None if nothing was received.
    """

    def __init__(self, target: Path, remote: RemoteFile, stream: io.FileIO, replaces: bool) -> None:
        self.target, self.remote, self._replaces = target, remote, replaces
        self.version: Version | None = None
        self.position = 0
        self._stream = stream
        self._path, self._note = to_part_path(target), target.with_name(f"{target.name}.part.json")
        self._digests = self._build_digests()
        self._resume_part()

    def _build_digests(self) -> dict[str, Any]:
        """Create empty hash objects by kind: "sha256", and the kind of the publisher's strongest digest."""
        kinds = {"sha256", self.remote.promised_digest[0] if self.remote.promised_digest else "sha256"}
        return {kind: hashlib.new(kind, usedforsecurity=False) for kind in kinds}

    def _resume_part(self) -> None:
        """Load the bytes and the JSON note that an earlier process left, and set `version` and `position`.

        If there is no note, or there are more bytes than its version has, everything is deleted.

        Raises:
            InputError: If the files found cannot have been left by a download.
        """
        size = os.fstat(self._stream.fileno()).st_size
        if is_there(self._note):
            try:
                self.version = convert_value(json.loads(_read(self._note)), Version, str(self._note))
            except ValueError as error:
                raise build_conflict_error(self._note) from error
        elif size:  # a note comes before the first byte
            raise build_conflict_error(self._path)
        whole = self.version.size_bytes if self.version is not None else None
        if self.version is None or (whole is not None and size > whole):
            self.clear()
            return
        self._stream.seek(0)
        while block := self._stream.read(BLOCK_BYTES):
            self._count(block)

    def _count(self, block: bytes) -> None:
        """Add a block of received bytes to the digests and to `position`."""
        for digest in self._digests.values():
            digest.update(block)
        self.position += len(block)

    @property
    def is_whole(self) -> bool:
        """True if all bytes of the version have been received."""
        return self.version is not None and self.position == self.version.size_bytes

    def clear(self) -> None:
        """Delete all received bytes and the note, so that another version can be received."""
        self._stream.seek(0)
        self._stream.truncate()
        self._note.unlink(missing_ok=True)
        self.version, self.position, self._digests = None, 0, self._build_digests()

    def write_note(self, version: Version) -> None:
        """Set `version`, and save it as JSON in the file `NAME.part.json` next to the target.

        Call this before the first byte is appended, and again once the size is known.

        Raises:
            OSError: If the file cannot be written.
        """
        self.version = version
        with replace_file(self._note, is_only_writer=True) as new:
            new.write_text(json.dumps(asdict(version)), encoding="utf-8")

    def append(self, chunk: bytes) -> None:
        """Append a chunk of bytes to the file, and add it to the digests."""
        view = memoryview(chunk)
        while view:
            view = view[self._stream.write(view) :]
        self._count(chunk)

    def compute_digest(self, kind: str) -> str:
        """Return the hex digest of the bytes received so far.

        Args:
            kind: "sha256", or the kind of the strongest digest that the publisher states.

        Raises:
            KeyError: If it is another kind.
        """
        return str(self._digests[kind].hexdigest())

    def read_head(self, num_bytes: int) -> bytes:
        """Return the first `num_bytes` bytes received, or fewer if fewer were received."""
        return os.pread(self._stream.fileno(), num_bytes, 0)

    def finish(self) -> RawFile:
        """Rename the file to its final name, and set its modification time to the server's.

        Returns:
            The name, sha256, size and path of the finished file.

        Raises:
            InputError: If a file that was not downloaded has appeared at the target path in the meantime.
        """
        os.fsync(self._stream.fileno())
        if (seconds := parse_modified(self.version.modified if self.version else None)) is not None:
            os.utime(self._stream.fileno(), (seconds, seconds))
        if is_there(self.target) and not self._replaces:  # since the fetch began
            raise build_conflict_error(self.target)
        self._path.replace(self.target)
        self._note.unlink(missing_ok=True)
        flush_folder(self.target.parent)
        return RawFile(
            name=self.remote.name, sha256=self.compute_digest("sha256"), size_bytes=self.position, path=str(self.target)
        )


def to_part_path(target: Path) -> Path:
    """Return the path at which a target's partial download is stored: the target's path with `.part` appended."""
    return target.with_name(f"{target.name}.part")


def is_there(path: Path) -> bool:
    """Return True if there is a file or folder at a path, or a symbolic link, even a broken one."""
    return path.is_symlink() or path.exists()


def build_conflict_error(path: Path) -> InputError:
    """Build the error for a file that blocks a download: it was not downloaded itself, or was changed afterwards."""
    return InputError(
        f"{path} is in the way: a fetch writes there, and it is not what a fetch wrote, or it was changed since. Move "
        "it away, then fetch again."
    )


def _read(path: Path) -> bytes:
    """Return the content of a file. Symbolic links are not followed.

    Raises:
        OSError: If the file cannot be read or is a symbolic link.
    """
    with io.FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)) as stream:
        return stream.readall()


@contextmanager
def open_part(target: Path, remote: RemoteFile, replaces: bool = False) -> Iterator[PartFile]:
    """Open the partial download of a target, and resume it if an earlier process left one (a context manager).

    Args:
        target: Path of the finished file. Its folder is created.
        remote: URL, name, and known size and digests of the file.
        replaces: True if an earlier download wrote the file that is at `target`, so that it may be replaced.

    Yields:
        The `PartFile`, which no other process can open until the block ends.

    Raises:
        InputError: If another process is downloading the file, an OSError occurs in the block, or another file is in
            the way.
    """
    path = to_part_path(target)
    with explain_write_faults(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            with io.FileIO(os.open(path, flags, 0o666), "r+") as stream:
                if (there := os.fstat(stream.fileno())).st_nlink > 1 or not stat.S_ISREG(there.st_mode):
                    raise build_conflict_error(path)
                if not try_lock(stream):
                    raise InputError(f"{path} is being fetched by another process. Wait for it, or end it.")
                # Another process may have finished the file between the two calls: then this is the target itself.
                if is_same_file(stream, path):
                    yield PartFile(target, remote, stream, replaces)
                    return


def parse_modified(header: str | None) -> float | None:
    """Parse a `Last-Modified` header to seconds since 1970. Return None if the header is missing or invalid."""
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp()) if header else None
    except (ValueError, OverflowError):
        return None


@contextmanager
def explain_write_faults(target: Path) -> Iterator[None]:
    """Convert an OSError raised in this block to an InputError that names `target` and a remedy (a context manager)."""
    try:
        yield
    except OSError as error:
        elsewhere = "fetch to another place (--set source.NAME.fetch.folder=FOLDER)"
        remedy = explain_disk_error(error, elsewhere) or f"{error.strerror or error}: fix that, or {elsewhere}"
        raise InputError(f"Cannot write {target}: {remedy}. What was received is kept.") from error


FETCHED_PREFIX = "fetched: "  # before the path of a file in the cache
PROGRESS_BYTES = 1 << 20  # so much gained, and the failures before it are forgotten
CONTENT_RANGE = re.compile(r"bytes (?:(?P<start>\d+)-\d+|\*)/(?P<total>\d+|\*)")
# How files of these endings begin: an error page under a file's name does not.
BEGINNINGS = {
    ".gz": b"\x1f\x8b",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ\x00",
    ".zip": b"PK",
    ".epub": b"PK",
    ".parquet": b"PAR",
}

ProgressCallback = Callable[[str, int, int | None], None]  # name, bytes that are here, bytes of the whole where known


class Mismatch(Exception):
    """Raised if the received bytes do not have the size, digest or file signature that was expected."""


def ignore_progress(name: str, num_bytes: int, whole: int | None) -> None:
    """Ignore a report of a download's progress. This is the default `progress` callback of `download`."""


def download(
    remote: RemoteFile,
    folder: Path,
    hosts: Hosts,
    cache: StatCache | None = None,
    progress: ProgressCallback = ignore_progress,
) -> RawFile:
    """Download a file into a folder, unless the same file is already there.

    An interrupted download is resumed.

    Args:
        remote: URL, name, and known size and digests of the file.
        folder: Folder to download to. It is created if necessary.
        hosts: HTTP client to download with.
        cache: Cache of sha256 digests by file size, times and inode, to which the file is added. If None, a new one is
            used.
        progress: Called with the file's name, the number of bytes downloaded so far, and the total size, or None if it
            is unknown.

    Returns:
        The name, sha256, size and path of the file.

    Raises:
        InputError: If the file cannot be downloaded or written, does not match the stated size or digest, or another
            file is in the way. Bytes received so far stay on the disk.
        Stopped: If `hosts.stop` was called. Bytes received so far stay on the disk.
    """
    target, cache = folder / remote.name, cache if cache is not None else StatCache()
    existing = _find_existing(remote, target, hosts, cache)
    if existing is not None:
        progress(remote.name, existing.size_bytes, existing.size_bytes)
        return existing
    replaces = is_there(target)
    if replaces and not _was_fetched(target, cache):
        raise build_conflict_error(target)
    with open_part(target, remote, replaces) as part:
        _Download(part, hosts, progress).run()
        landed = part.finish()
        stat = target.stat()
    # What was hashed is what was written, so it need not be of some age to be known by its state.
    known: list[Json] = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, landed.sha256]
    cache.entries |= {landed.path: known, FETCHED_PREFIX + landed.path: known}
    return landed


def _was_fetched(target: Path, cache: StatCache) -> bool:
    """Return True if `cache` shows that a file was downloaded on this machine and has not changed since."""
    known = cache.entries.get(FETCHED_PREFIX + str(target), [""])[-1]
    return not target.is_symlink() and known == cache.hash_file(target)[1]


class _Download:
    """Downloads one partial file, with as many requests as it takes to receive and verify all bytes."""

    def __init__(self, part: PartFile, hosts: Hosts, progress: ProgressCallback) -> None:
        self._part, self._remote, self._hosts, self._progress = part, part.remote, hosts, progress
        self._url = hosts.settings.to_mirror(part.remote.url)
        self._tries = Attempts(hosts, self._url)
        self._furthest = part.position
        if part.version is not None and part.version.url != self._url:
            part.clear()  # another server may have another version

    def run(self) -> None:
        """Download the missing bytes and verify the file. If it fails the check, download it once more.

        Raises:
            InputError: If the file cannot be downloaded, or fails the check twice.
            Stopped: If `Hosts.stop` was called.
        """
        mismatch: Mismatch | None = None
        while True:
            try:
                self._tries.run(self._receive)
                self._verify()
                return
            except Mismatch as error:
                self._part.clear()
                if mismatch is not None:
                    raise InputError(
                        f"{self._url}: {error}; it was downloaded again, and at first {mismatch}. Either the publisher "
                        "replaced the file, or this server has a wrong copy: fetch with --refresh, use another mirror, "
                        "or fix what the list says."
                    ) from error
                mismatch = error
                self._hosts.wait(self._hosts.patience.compute_wait(1))

    def _receive(self) -> None:
        """Make one request for the missing bytes, and append them to the partial file.

        Does nothing if none are missing.

        Raises:
            TransientFault: If the file is still incomplete afterwards, or if the request failed but can be repeated.
            Mismatch: If the response does not have the expected size.
            InputError: If the server refuses the file, or does not state its size and no size or digest is known.
        """
        part = self._part
        if part.is_whole:
            return
        with self._hosts.ask(self._url, self._build_headers()) as reply:
            if reply.status_code == 200:
                self._begin(reply)
            elif not self._accept_rest(reply):
                part.clear()
                raise TransientFault("the server has another version now, or cannot send the rest of this one")
            if reply.status_code != 416:
                self._read_body(reply)
        if not part.is_whole:
            raise TransientFault(f"the body ended at byte {part.position}")

    def _build_headers(self) -> dict[str, str]:
        """Build the headers of the next request: `Range` from the first missing byte on, and `If-Range` if possible.

        Returns:
            The headers by name. They are {}, which requests the whole file, if no bytes were received, or if neither a
            validator nor a digest can show that the rest belongs to the same version.
        """
        part, version = self._part, self._part.version
        if version is None or part.position == 0 or not (version.condition or self._remote.promised_digest):
            return {}
        condition = {"If-Range": version.condition} if version.condition else {}
        return {"Range": f"bytes={part.position}-", **condition}

    def _begin(self, reply: httpx.Response) -> None:
        """Start over with a response that contains the whole file: delete the received bytes, and save its version.

        Raises:
            InputError: If the end of the file could not be recognized, because the response does not state its size,
                and no size or digest is known.
            Mismatch: If the stated size is not the expected size.
        """
        announced, promised = _read_length(reply), self._remote.size_bytes
        ends = announced is not None or "transfer-encoding" in reply.headers
        if not ends and promised is None and self._remote.promised_digest is None:
            raise InputError(
                f"{self._url}: the server does not say how long the file is, so that a cut one could not be told from "
                "a whole one. Give its sha256 or its size after the address."
            )
        if None not in (announced, promised) and announced != promised:
            raise Mismatch(f"the server announces {announced} bytes where {promised} were promised")
        self._part.clear()
        self._part.write_note(_read_version(self._url, reply, announced))

    def _accept_rest(self, reply: httpx.Response) -> bool:
        """Return True if a response with status 206 or 416 continues the version already received.

        The file's size is saved in the note if it was unknown.
        """
        match = CONTENT_RANGE.fullmatch(reply.headers.get("content-range", "").strip())
        version = self._part.version
        # A 416 has no start: all bytes are here if the total is as many as were received.
        if match is None or version is None or (match["start"] or match["total"]) != str(self._part.position):
            return False
        total = None if match["total"] == "*" else int(match["total"])
        if version.is_different(_read_version(self._url, reply, total)):
            return False
        if version.size_bytes is None:
            self._part.write_note(replace(version, size_bytes=total))
        return True

    def _read_body(self, reply: httpx.Response) -> None:
        """Append a response's body to the partial file, and report progress after each chunk.

        The count of failed attempts is reset whenever another megabyte has arrived. If the size of the file was
        unknown, it is known once the body ends.

        Raises:
            Mismatch: If more bytes arrive than the file should have.
            Stopped: If `Hosts.stop` was called.
        """
        part, promised = self._part, self._remote.size_bytes
        assert part.version is not None, "a body is read after its version is known"
        whole = part.version.size_bytes if part.version.size_bytes is not None else promised
        for chunk in reply.iter_raw():
            self._hosts.check_stopped()
            part.append(chunk)
            if whole is not None and part.position > whole:
                raise Mismatch(f"more than the {whole} bytes came that were announced")
            if part.position >= self._furthest + PROGRESS_BYTES:
                self._furthest = part.position
                self._tries.reset()
            self._progress(self._remote.name, part.position, whole)
        if part.version.size_bytes is None and part.position >= (promised or 0):  # the end of the body is the file's
            part.write_note(replace(part.version, size_bytes=part.position))

    def _verify(self) -> None:
        """Check the received file's size and digest.

        If no digest is known, check that the first bytes are valid for the file extension.

        Raises:
            Mismatch: If a check fails.
        """
        part, remote = self._part, self._remote
        if remote.size_bytes not in (None, part.position):
            raise Mismatch(f"{part.position} bytes came where {remote.size_bytes} were promised")
        if remote.promised_digest is not None:
            kind, digest = remote.promised_digest
            if part.compute_digest(kind) != digest:
                raise Mismatch(f"the {kind} of what came is {part.compute_digest(kind)} where {digest} was promised")
            return
        ending = Path(remote.name).suffix
        beginning = BEGINNINGS.get(ending.lower(), b"")
        if part.read_head(len(beginning)) != beginning:
            raise Mismatch(
                f"what came begins with {part.read_head(24)!r}, which is no {ending} file (one with a digest in its "
                "list is taken as it is)"
            )


def _find_existing(remote: RemoteFile, target: Path, hosts: Hosts, cache: StatCache) -> RawFile | None:
    """Return the file that is already at the target path, hashed, if it is the requested one; otherwise None.

    It is compared by size and digest. If no digest is known, the server is asked for the size and time of its file.

    Args:
        remote: The requested file.
        target: The path.
        hosts: HTTP client to ask with.
        cache: Cache of digests, to which the file is added.

    Raises:
        InputError: If something other than a file is at the path, it cannot be read, or the server refuses the file.
    """
    with explain_write_faults(target):
        if not target.exists():
            return None
        if not target.is_file():
            raise build_conflict_error(target)
        if remote.size_bytes not in (None, target.stat().st_size):
            return None
        if remote.promised_digest is None and not _is_same_on_server(remote, target, hosts):
            return None
        size, sha256 = cache.hash_file(target)
        if remote.promised_digest is not None:
            kind, digest = remote.promised_digest
            if (sha256 if kind == "sha256" else _digest(target, kind)) != digest:
                return None
    return RawFile(name=remote.name, sha256=sha256, size_bytes=size, path=str(target))


def _is_same_on_server(remote: RemoteFile, target: Path, hosts: Hosts) -> bool:
    """Return True if the server's file has the same length and modification time (in seconds) as the local one.

    Args:
        remote: The file on the server.
        target: Path of the local file.
        hosts: HTTP client to ask with.

    Raises:
        InputError: If the server cannot be asked or refuses the file.
    """
    url, stat = hosts.settings.to_mirror(remote.url), target.stat()

    def look() -> bool:
        with hosts.ask(url) as reply:
            time = parse_modified(reply.headers.get("last-modified"))
            return _read_length(reply) == stat.st_size and time is not None and int(time) == int(stat.st_mtime)

    return Attempts(hosts, url).run(look)


def _digest(path: Path, kind: str) -> str:
    """Return the hex digest of a file; `kind` is "sha256", "sha1" or "md5"."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _read_length(reply: httpx.Response) -> int | None:
    """Return a response's Content-Length, or None if it has none or is sent in chunks."""
    text = None if "transfer-encoding" in reply.headers else reply.headers.get("content-length")
    return None if text is None else int(text)


def _read_version(url: str, reply: httpx.Response, size_bytes: int | None) -> Version:
    """Build a `Version` from a response's headers and the size of the whole file (None if unknown)."""
    return Version(
        url=url, etag=reply.headers.get("etag"), modified=reply.headers.get("last-modified"), size_bytes=size_bytes
    )
