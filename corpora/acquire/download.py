"""One file, downloaded: the right bytes under its name, or an InputError that says what is wrong.

Promises: the bytes of two versions are not mixed, as far as the server tells versions apart (by ETag, time and length)
or a digest is known; an attempt that ends early is continued where it is, or started over where the server cannot do
that or has another version now; a size or digest that was promised holds (of several digests the strongest is
compared). A file that is there already, and by its digest, or by the server's length and time, is the one that is
wanted, is not downloaded again.
Costs: 4 s of a processor for a gigabyte, of which sha256 takes 1.3 (a publisher's sha1 as much again). Memory: one
block of the network's.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import httpx

from corpora.acquire.hosts import Hosts, Later, Tries
from corpora.acquire.part import PartFile, Version, modified_seconds, open_part, writable
from corpora.acquire.remote import RemoteFile
from corpora.errors import InputError
from corpora.sources.contract import RawFile, StatCache

PROGRESS_BYTES = 1 << 20  # so much gained, and the failures before it are forgotten
CONTENT_RANGE = re.compile(r"bytes (?:(?P<start>\d+)-(?P<last>\d+)|\*)/(?P<total>\d+|\*)")
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
    """The bytes are not those that were promised."""


def no_progress(name: str, num_bytes: int, whole: int | None) -> None:
    """Report nothing."""


def download(
    remote: RemoteFile,
    folder: Path,
    hosts: Hosts,
    cache: StatCache | None = None,
    progress: ProgressCallback = no_progress,
) -> RawFile:
    """The file, in `folder` under its name. Raises InputError and Stopped; what was received by then is kept.

    cache: sha256 of files by their state on the disk: of one that is there, and of one that comes, which is then not
    hashed again
    """
    target, cache = folder / remote.name, cache if cache is not None else StatCache()
    existing = _already(remote, target, hosts, cache)
    if existing is not None:
        progress(remote.name, existing.size_bytes, existing.size_bytes)
        return existing
    with open_part(target, remote) as part:
        _Download(part, hosts, progress).run()
        landed = part.finish()
        stat = target.stat()
    # What was hashed is what was written, so it need not be of some age to be known by its state.
    cache.entries[landed.path] = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, landed.sha256]
    return landed


class _Download:
    """The attempts at one part, until it is whole and right."""

    def __init__(self, part: PartFile, hosts: Hosts, progress: ProgressCallback) -> None:
        self._part, self._remote, self._hosts, self._progress = part, part.remote, hosts, progress
        self._url = hosts.settings.at(part.remote.url)
        self._tries = Tries(hosts, self._url)
        self._furthest = part.position
        if part.version is not None and part.version.url != self._url:
            part.clear()  # another server may have another version

    def run(self) -> None:
        """Fill the part. Raises InputError and Stopped."""
        mismatch: Mismatch | None = None
        while True:
            try:
                self._attempt()
                self._verify()
                return
            except Later as fault:
                self._tries.failed(fault)
            except Mismatch as error:
                self._part.clear()
                if mismatch is not None:
                    raise InputError(
                        f"{self._url}: {error}; it was downloaded again, and at first {mismatch}. Either the publisher "
                        "replaced the file, or this server has a wrong copy: fetch with --refresh, use another mirror, "
                        "or fix what the list says."
                    ) from error
                mismatch = error
                self._hosts.sleep(self._hosts.patience.step(1))

    def _attempt(self) -> None:
        """Ask for what is missing and receive it. Raises Later unless everything is here then."""
        if self._part.is_whole:
            return
        with self._hosts.ask(self._url, self._headers()) as reply:
            self._receive(reply)
        if not self._part.is_whole:
            held = self._part.version
            whole = held.size_bytes if held is not None and held.size_bytes is not None else self._remote.size_bytes
            raise Later(f"the body ended at byte {self._part.position} of {whole}")

    def _headers(self) -> dict[str, str]:
        """Ask for the rest where its version can be told: by the server's word, or by the digest at the end."""
        part, version = self._part, self._part.version
        if version is None or part.position == 0 or not (version.condition or self._remote.digests):
            return {}
        condition = {"If-Range": version.condition} if version.condition else {}
        return {"Range": f"bytes={part.position}-", **condition}

    def _receive(self, reply: httpx.Response) -> None:
        asked_for_rest = "Range" in reply.request.headers
        if reply.status_code == 200:
            self._begin(reply)
        elif not asked_for_rest:
            raise Later(f"the server answers {reply.status_code} to a request for the whole")
        elif not self._continues(reply):
            self._part.clear()
            raise Later("the server has another version now, or cannot send the rest of this one")
        if reply.status_code != 416:
            self._read_body(reply)

    def _begin(self, reply: httpx.Response) -> None:
        """Begin with a reply that has the whole file: what was received before is given up."""
        version = _version(self._url, reply, _length(reply))
        chunked = "chunked" in reply.headers.get("transfer-encoding", "").lower()
        if version.size_bytes is None and not chunked and self._remote.size_bytes is None and not self._remote.digests:
            raise InputError(
                f"{self._url}: the server does not say how long the file is, so that a cut one could not be told from "
                "a whole one. Give its sha256 or its size after the address."
            )
        self._part.begin(version)
        self._check_size(version.size_bytes)

    def _continues(self, reply: httpx.Response) -> bool:
        """True if a 206 or 416 is of the version that the part is of, and continues where it is."""
        match = CONTENT_RANGE.fullmatch(reply.headers.get("content-range", "").strip())
        version = self._part.version
        if match is None or version is None:
            return False
        total = None if match["total"] == "*" else int(match["total"])
        now = _version(self._url, reply, total)
        if version.differs(now):
            return False
        if reply.status_code == 416:
            whole = total is not None and total == self._part.position
        else:
            whole = match["start"] is not None and int(match["start"]) == self._part.position
        if whole and version.size_bytes is None and total is not None:
            self._part.tell(Version(url=version.url, etag=version.etag, modified=version.modified, size_bytes=total))
            self._check_size(total)
        return whole

    def _read_body(self, reply: httpx.Response) -> None:
        part = self._part
        assert part.version is not None, "a body is read after its version is known"
        whole = part.version.size_bytes if part.version.size_bytes is not None else self._remote.size_bytes
        for chunk in reply.iter_raw():
            self._hosts.check_stopped()
            part.append(chunk)
            if whole is not None and part.position > whole:
                raise Mismatch(f"more than the {whole} bytes came that were announced")
            if part.position >= self._furthest + PROGRESS_BYTES:
                self._furthest = part.position
                self._tries.progressed()
            self._progress(self._remote.name, part.position, whole)
        part.ended()

    def _check_size(self, announced: int | None) -> None:
        """Raise Mismatch for a file of another length than was promised."""
        promised = self._remote.size_bytes
        if announced is not None and promised is not None and announced != promised:
            raise Mismatch(f"the server announces {announced} bytes where {promised} were promised")

    def _verify(self) -> None:
        """Raise Mismatch unless the part is what was promised, as far as anything was."""
        part, remote = self._part, self._remote
        if remote.size_bytes is not None and part.position != remote.size_bytes:
            raise Mismatch(f"{part.position} bytes came where {remote.size_bytes} were promised")
        for kind, promised in list(remote.digests.items())[:1]:
            if part.digest(kind) != promised:
                raise Mismatch(f"the {kind} of what came is {part.digest(kind)} where {promised} was promised")
        beginning = BEGINNINGS.get(Path(remote.name).suffix.lower(), b"")
        if not remote.digests and part.head(len(beginning)) != beginning:
            raise Mismatch(
                f"what came begins with {part.head(24)!r}, which is no {Path(remote.name).suffix} file (one with a "
                "digest in its list is taken as it is)"
            )


def _already(remote: RemoteFile, target: Path, hosts: Hosts, cache: StatCache) -> RawFile | None:
    """The file that is under the name, where it is the one that is wanted; None where it is not."""
    with writable(target):
        if not target.exists():
            return None
        if not target.is_file():
            raise InputError(f"{target} is in the way: a file of that name is to be fetched. Move it away.")
        size = target.stat().st_size
        if remote.size_bytes not in (None, size):
            return None
        if not remote.digests and not _same_on_server(remote, target, hosts):
            return None
        kind, promised = next(iter(remote.digests.items()), ("sha256", None))
        if kind != "sha256" and _digest(target, kind) != promised:
            return None
        size, sha256 = cache.sha256(target)
    if kind == "sha256" and promised not in (None, sha256):
        return None
    return RawFile(name=remote.name, sha256=sha256, size_bytes=size, path=str(target))


def _same_on_server(remote: RemoteFile, target: Path, hosts: Hosts) -> bool:
    """True if the server, asked for a file of which nothing is recorded, begins to send one of this length and time."""
    url = hosts.settings.at(remote.url)
    tries = Tries(hosts, url)
    stat = target.stat()
    while True:
        try:
            with hosts.ask(url) as reply:
                time = modified_seconds(reply.headers.get("last-modified"))
                return _length(reply) == stat.st_size and time is not None and int(time) == int(stat.st_mtime)
        except Later as fault:
            tries.failed(fault)


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


def _length(reply: httpx.Response) -> int | None:
    """The announced length of a body; None where none is, or if it is not a number."""
    text = reply.headers.get("content-length", "").strip()
    chunked = "chunked" in reply.headers.get("transfer-encoding", "").lower()
    return int(text) if text.isascii() and text.isdigit() and not chunked else None


def _version(url: str, reply: httpx.Response, size_bytes: int | None) -> Version:
    return Version(
        url=url, etag=reply.headers.get("etag"), modified=reply.headers.get("last-modified"), size_bytes=size_bytes
    )
