"""One file, downloaded: the right bytes under its name, or an InputError that says what is wrong.

Promises: the bytes of two versions are not mixed, as far as the server tells versions apart (by ETag, time and length)
or a digest is known; an attempt that ends early is continued where it is, or started over where the server cannot do
that or has another version now; a size or digest that was promised holds (of several digests the strongest is
compared). A file that is there already, and by its digest, or by the server's length and time, is the one that is
wanted, is not downloaded again; one that no fetch brought is not replaced.
Costs: 4 s of a processor for a gigabyte, of which sha256 takes 1.3 (a publisher's sha1 as much again). Memory: one
block of the network's.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx

from corpora.acquire.hosts import Hosts, Later, Tries
from corpora.acquire.part import PartFile, Version, in_the_way, is_there, modified_seconds, open_part, writable
from corpora.acquire.remote import RemoteFile
from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.sources.contract import RawFile, StatCache

FETCHED = "fetched: "  # before the path of a file in the cache
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
    hashed again and is known to come from a fetch
    """
    target, cache = folder / remote.name, cache if cache is not None else StatCache()
    existing = _already(remote, target, hosts, cache)
    if existing is not None:
        progress(remote.name, existing.size_bytes, existing.size_bytes)
        return existing
    replaces = is_there(target)
    if replaces and not _was_fetched(target, cache):
        raise in_the_way(target)
    with open_part(target, remote, replaces) as part:
        _Download(part, hosts, progress).run()
        landed = part.finish()
        stat = target.stat()
    # What was hashed is what was written, so it need not be of some age to be known by its state.
    known: list[Json] = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, landed.sha256]
    cache.entries |= {landed.path: known, FETCHED + landed.path: known}
    return landed


def _was_fetched(target: Path, cache: StatCache) -> bool:
    """Return True if what is at a path is what a fetch of this machine put there."""
    known = cache.entries.get(FETCHED + str(target), [""])[-1]
    return not target.is_symlink() and known == cache.sha256(target)[1]


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
                self._tries.run(self._attempt)
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
                self._hosts.sleep(self._hosts.patience.step(1))

    def _attempt(self) -> None:
        """Ask for what is missing and receive it. Raises Later unless everything is here then."""
        part = self._part
        if part.is_whole:
            return
        with self._hosts.ask(self._url, self._headers()) as reply:
            if reply.status_code == 200:
                self._begin(reply)
            elif not self._continues(reply):
                part.clear()
                raise Later("the server has another version now, or cannot send the rest of this one")
            if reply.status_code != 416:
                self._read_body(reply)
        if not part.is_whole:
            raise Later(f"the body ended at byte {part.position}")

    def _headers(self) -> dict[str, str]:
        """Ask for the rest if its version can be told: by the server's word, or by the digest at the end."""
        part, version = self._part, self._part.version
        if version is None or part.position == 0 or not (version.condition or self._remote.promised):
            return {}
        condition = {"If-Range": version.condition} if version.condition else {}
        return {"Range": f"bytes={part.position}-", **condition}

    def _begin(self, reply: httpx.Response) -> None:
        """Begin with a reply that has the whole file: what was received before is given up."""
        announced, promised = _length(reply), self._remote.size_bytes
        ends = announced is not None or "transfer-encoding" in reply.headers
        if not ends and promised is None and self._remote.promised is None:
            raise InputError(
                f"{self._url}: the server does not say how long the file is, so that a cut one could not be told from "
                "a whole one. Give its sha256 or its size after the address."
            )
        if None not in (announced, promised) and announced != promised:
            raise Mismatch(f"the server announces {announced} bytes where {promised} were promised")
        self._part.clear()
        self._part.tell(_version(self._url, reply, announced))

    def _continues(self, reply: httpx.Response) -> bool:
        """True if a 206 or 416 is of the version that the part is of, and continues where it is."""
        match = CONTENT_RANGE.fullmatch(reply.headers.get("content-range", "").strip())
        version = self._part.version
        # A 416 has no start: all bytes are here if the total is as many as were received.
        if match is None or version is None or (match["start"] or match["total"]) != str(self._part.position):
            return False
        total = None if match["total"] == "*" else int(match["total"])
        if version.differs(_version(self._url, reply, total)):
            return False
        if version.size_bytes is None:
            self._part.tell(replace(version, size_bytes=total))
        return True

    def _read_body(self, reply: httpx.Response) -> None:
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
                self._tries.progressed()
            self._progress(self._remote.name, part.position, whole)
        if part.version.size_bytes is None and part.position >= (promised or 0):  # the end of the body is the file's
            part.tell(replace(part.version, size_bytes=part.position))

    def _verify(self) -> None:
        """Raise Mismatch unless the part is what was promised, as far as anything was."""
        part, remote = self._part, self._remote
        if remote.size_bytes not in (None, part.position):
            raise Mismatch(f"{part.position} bytes came where {remote.size_bytes} were promised")
        if remote.promised is not None:
            kind, digest = remote.promised
            if part.digest(kind) != digest:
                raise Mismatch(f"the {kind} of what came is {part.digest(kind)} where {digest} was promised")
            return
        ending = Path(remote.name).suffix
        beginning = BEGINNINGS.get(ending.lower(), b"")
        if part.head(len(beginning)) != beginning:
            raise Mismatch(
                f"what came begins with {part.head(24)!r}, which is no {ending} file (one with a digest in its list "
                "is taken as it is)"
            )


def _already(remote: RemoteFile, target: Path, hosts: Hosts, cache: StatCache) -> RawFile | None:
    """The file that is under the name, if it is the one that is wanted; None if it is not."""
    with writable(target):
        if not target.exists():
            return None
        if not target.is_file():
            raise in_the_way(target)
        if remote.size_bytes not in (None, target.stat().st_size):
            return None
        if remote.promised is None and not _same_on_server(remote, target, hosts):
            return None
        size, sha256 = cache.sha256(target)
        if remote.promised is not None:
            kind, digest = remote.promised
            if (sha256 if kind == "sha256" else _digest(target, kind)) != digest:
                return None
    return RawFile(name=remote.name, sha256=sha256, size_bytes=size, path=str(target))


def _same_on_server(remote: RemoteFile, target: Path, hosts: Hosts) -> bool:
    """True if the server, asked for a file of which nothing is recorded, begins to send one of this length and time."""
    url, stat = hosts.settings.at(remote.url), target.stat()

    def look() -> bool:
        with hosts.ask(url) as reply:
            time = modified_seconds(reply.headers.get("last-modified"))
            return _length(reply) == stat.st_size and time is not None and int(time) == int(stat.st_mtime)

    return Tries(hosts, url).run(look)


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _length(reply: httpx.Response) -> int | None:
    """The announced length of a body; None if none is, or if it comes in chunks: they tell its end."""
    text = None if "transfer-encoding" in reply.headers else reply.headers.get("content-length")
    return None if text is None else int(text)


def _version(url: str, reply: httpx.Response, size_bytes: int | None) -> Version:
    return Version(
        url=url, etag=reply.headers.get("etag"), modified=reply.headers.get("last-modified"), size_bytes=size_bytes
    )
