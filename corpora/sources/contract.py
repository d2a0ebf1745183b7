"""The contract of a source: raw files are cut into slices, and each slice is read as records.

A source is one small frozen dataclass with five methods. It knows a file format and nothing of stages, stores or
workers. `records` streams: memory is bounded by one compressed block, one document or the pages of one row group of
Parquet, never by the file. A record that cannot be read is yielded with a `Drop`, never swallowed. A file that cannot
be read to its end raises InputError; the source's setting `on_damage` then decides whether the file is left out as a
whole or the run ends.

The module also has what sources share: finding and hashing raw files, cutting them, and building records.
"""

import hashlib
import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.schema import Locator
from corpora.sources.bytes.endings import is_packed
from corpora.sources.bytes.objects import WILDCARDS, ObjectPath, find_matching_objects, parse_raw_path
from corpora.sources.bytes.unchanged import read_state
from corpora.sources.bytes.zip_members import MemberPath
from corpora.sources.remarks import Remarks
from corpora.store.current_record import report_record
from corpora.store.settings import check_keys, to_settings_json

Defaults = Mapping[str, Mapping[str, Any]]  # tables of steps, in the form that a recipe has them
SLICE_BYTES = 1_000_000  # where a format that can be cut anywhere is cut: parts are made of slices that meet
HASH_THREADS = 32  # files: threads, for a digest is taken outside of the interpreter, and a store's answer waited for
ALL_FILES_PATTERN = "**/*"
MAX_PATH_BYTES = 4_095  # that the system opens
MAX_FILES_SAMPLED, MAX_KINDS_SHOWN = 1_000, 5  # files, and their kinds, to report for a folder of which nothing is read
LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # what Python has in place of a byte of a file's name that is not UTF-8


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFile:
    """One input file, identified by its name and the SHA-256 digest of its content.

    Attributes:
        name: Path relative to the source's root, or the name of a zip member.
        sha256: Hex digest of the content; "" if the file was not hashed.
        size_bytes: Size on disk, or the unpacked size of a zip member.
        path: Path on this machine, or URL in an object store. Not part of the file's identity.
        state: Size and timestamps of the file when it was hashed, as returned by `read_state`; "" if unknown.
    """

    name: str
    sha256: str
    size_bytes: int
    path: str
    state: str = field(default="", compare=False, repr=False)

    def to_json(self) -> dict[str, Json]:
        """Return the file's identity as a dictionary with the keys "name", "sha256" and "size_bytes"."""
        return {"name": self.name, "sha256": self.sha256, "size_bytes": self.size_bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A byte range of a raw file that can be read independently of the rest.

    Attributes:
        file: The file to read.
        start: First byte of the slice in the file on disk, which may be compressed.
        stop: First byte after the slice. A record belongs to the slice in which it begins, and may end after `stop`.
    """

    file: RawFile
    start: int
    stop: int

    def to_json(self) -> list[Json]:
        """Return the slice's identity as a list: the file's name, its SHA-256 digest, `start` and `stop`."""
        return [self.file.name, self.file.sha256, self.start, self.stop]


class Drop(NamedTuple):
    """The reason why a record does not become a document.

    Attributes:
        reason: A short category, such as "quarantined". Dropped records are counted by this value.
        detail: What is wrong with this particular record; "" if there is nothing to add.
        damaged: True if the record counts as damaged. A run stops if the share of damaged records is too high.
    """

    reason: str
    detail: str = ""
    damaged: bool = False


class Record(NamedTuple):
    """One record as read by a source. Its prose has been extracted, but not cleaned yet.

    Attributes:
        locator: The position of the record in its raw file.
        text: The prose. For a dropped record, the text read so far, which may be "".
        key: Stable name within the source. If None, the record's id is derived from `raw`.
        raw: The record's own bytes, or other bytes that identify the record.
        revision: Among records with the same key, the one with the highest revision is kept.
        group: Records with the same group go to the same split. For web pages, the group is the host.
        meta: Any further metadata, as a JSON object.
        drop: The reason why the record is dropped; None if it is kept.
    """

    locator: Locator
    text: str
    key: str | None = None
    raw: bytes = b""
    revision: int | None = None
    title: str | None = None
    url: str | None = None
    date: str | None = None
    license: str | None = None
    group: str | None = None
    meta: str | None = None
    drop: Drop | None = None


QUARANTINED = Drop("quarantined", "it ended the worker process three times")


class Tally:
    """Counts the records of a slice, and knows which records are quarantined.

    A record is quarantined if it has repeatedly crashed the worker process that was reading or processing it.

    Wherever the format allows it, records are counted in the raw bytes, independently of the parser. The build compares
    the count with the number of rows written, so a lost record is noticed. For formats where this is not possible (one
    record per file, docstrings in Python modules), the parser reports the number of records.

    Attributes:
        records: Number of records so far. Sources increment it.
        unknown_templates: Counts of the wiki templates that appear in sentences and are missing from all template
            tables.
    """

    def __init__(self, quarantine: Collection[str] = ()) -> None:
        self.records = 0
        self.unknown_templates = Remarks()
        self._quarantine = frozenset(quarantine)

    @property
    def has_quarantine(self) -> bool:
        """True if any records are quarantined. Each record must then be passed to `enter` before it is parsed."""
        return bool(self._quarantine)

    def enter(self, locator: Locator) -> Drop | None:
        """Announce that a record is about to be parsed, so that a crash can be attributed to it.

        Call this before anything that may be slow or crash.

        Args:
            locator: The position of the record in its raw file.

        Returns:
            A `Drop` if the record is quarantined and must not be parsed, else None.
        """
        key = to_quarantine_key(locator)
        if key in self._quarantine:
            return QUARANTINED
        report_record(key)
        return None

    def apply_quarantine(self, record: Record) -> Record:
        """Return a parsed record, or a dropped copy of it if it is quarantined.

        This is for sources that cannot call `enter` before they parse a record.

        Returns:
            A copy with an empty text and a `Drop` if the record is quarantined and not yet dropped, else the same
            record.
        """
        if self._quarantine and record.drop is None and to_quarantine_key(record.locator) in self._quarantine:
            return record._replace(text="", drop=QUARANTINED)
        return record


def to_quarantine_key(locator: Locator) -> str:
    """Return the string that identifies a record in the quarantine: "SHA256 STREAM OFFSET", taken from its locator.

    The string does not depend on the file's path.
    """
    return f"{locator.sha256} {locator.stream} {locator.offset}"


class Source(Protocol):
    """Protocol for a source: it lists raw files, cuts them into slices, and reads the records of each slice.

    A source may also have these attributes and methods:

    - `defaults`: default settings of processing steps for the source's documents; a recipe can override them. They have
      the form of a recipe's tables, as in
      `defaults: ClassVar[Defaults] = {"rules": {"gopher": {"max_words": 10_000_000}}}`.
    - `companions()`: returns the paths of files that are read along with a raw file, such as an index.
    - `iter_inside(name, path)`: for archives, yields (name, path, reason) for each entry. The reason says why the entry
      is not read, and is "" if it is read.
    - `libraries_of(files)`: returns the names of libraries that affect the output for some files, in addition to
      `libraries`.

    Files below `path` that are neither in `files()` nor in `companions()` are reported as unread (see `passed_over`).

    Attributes:
        kind: Value of `kind` in a recipe's `[[source]]` table.
        version: Must be increased whenever the same files yield different documents. It is part of every document's
            fingerprint.
        libraries: Names of the installed packages that affect the output. Their versions are part of the fingerprint.
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    libraries: ClassVar[tuple[str, ...]]

    @property
    def name(self) -> str:
        """Name of the source within its recipe; part of every document's identity."""

    def settings(self) -> dict[str, Json]:
        """Return the settings that affect the documents, as JSON by field name.

        The location of the files is not included.
        """

    def files(self) -> list[tuple[str, Path]]:
        """List the raw files as (name, path) pairs, sorted by name.

        Names are relative to the source's root. A source may use another order if it is always the same.

        Raises:
            InputError: If there are no files, or `path` cannot be read.
        """

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        The cuts depend only on the file's content, not on the number of workers.
        """

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        If parsing may hang or crash, each record must be announced with `tally.enter` first.

        Raises:
            InputError: During iteration, if the file cannot be read to its end.
        """

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        Args:
            file: Path of the raw file. It may be compressed.
            locator: The record's locator, as yielded by `records`.

        Returns:
            The bytes; b"" if there is no record at the locator. Sources of extracted text return the original bytes.
        """


class RecordFormat(Protocol):
    """Protocol for a file format that several sources can share. Cuts files into slices and reads their records.

    Implementations are frozen dataclasses, so that sources can hold them as values.
    """

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        The cuts depend only on the content.
        """

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Raises:
            InputError: During iteration, if the file cannot be read to its end.
        """

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        Args:
            file: Path of the raw file. It may be compressed.
            locator: The position of the record, as yielded by `records`.
        """


def select_settings(source: Any, *excluded: str) -> dict[str, Json]:
    """Return a source's settings as JSON, without `name`, `path` and the fields named in `excluded`.

    Use it to implement `Source.settings` if all other fields affect the output.
    """
    return {key: value for key, value in to_settings_json(source).items() if key not in ("name", "path", *excluded)}


def _refuse_file(name: str, path: Path, error: OSError) -> None:
    """Raise InputError for a file that cannot be read. This is the default `on_error` of `hash_files`."""
    raise InputError(f"Cannot read {path}: {error.strerror or error}. Check the path and its permissions.") from error


def hash_files(
    files: Sequence[tuple[str, Path]],
    cache: "StatCache",
    on_error: Callable[[str, Path, OSError], None] = _refuse_file,
) -> list[RawFile]:
    """Compute the SHA-256 digests of files in parallel threads, and return a `RawFile` for each file, in order.

    Args:
        files: Pairs of (name, path).
        cache: Digests computed earlier. A file is not read again if its size and timestamps are unchanged. New digests
            are added to the cache.
        on_error: Called with (name, path, error) for a file that cannot be read. If it returns, the file is omitted.
            The default raises InputError.
    """
    raw_files = []
    with ThreadPoolExecutor(HASH_THREADS) as threads:
        for (name, path), hashed in zip(files, threads.map(partial(_hash_or_catch, cache), files), strict=True):
            if isinstance(hashed, OSError):
                on_error(name, path, hashed)
                continue
            state, size, digest = hashed
            raw_files.append(RawFile(name=name, sha256=digest, size_bytes=size, path=str(path), state=state))
    return raw_files


def _hash_or_catch(cache: "StatCache", file: tuple[str, Path]) -> tuple[str, int, str] | OSError:
    """Compute the SHA-256 digest of the file in a (name, path) pair. An OSError is returned instead of raised.

    Returns:
        (size and timestamps as returned by `read_state`, size in bytes, hex digest), or the OSError if the file cannot
        be read.
    """
    try:
        return read_state(file[1]), *cache.hash_file(file[1])
    except OSError as error:
        return error


def list_unhashed_files(files: Iterable[tuple[str, Path]]) -> list[RawFile]:
    """Build a `RawFile` for each (name, path) pair without hashing, for a preview. All digests are "".

    Files that are missing or inaccessible are omitted.
    """
    raw_files = []
    for name, path in files:
        with suppress(OSError):
            raw_files.append(RawFile(name=name, sha256="", size_bytes=path.stat().st_size, path=str(path)))
    return raw_files


def find_files(source: str, path: str, accept: Callable[[str], bool], wanted: str) -> list[tuple[str, Path]]:
    """Find the files that a source's `path` refers to, as (name, path) pairs sorted by name.

    Args:
        source: Name of the source, for error messages.
        path: A file, a folder (searched recursively), a glob, or an object-store URL with or without wildcards. A path
            that names a single file is returned without calling `accept`.
        accept: Called with a file's name without its folder. Returns True if the file is wanted.
        wanted: A description of what `path` should be, for error messages, such as "a folder of text files".

    Returns:
        The pairs. Names are relative to the folder, or to the part of a glob before its first wildcard. Bytes in names
        that are not UTF-8 are escaped. Inaccessible entries, such as links with an unreadable target, are omitted.

    Raises:
        InputError: If no file is found, or `path` cannot be searched.
    """
    try:
        return _find_files(source, path, accept, wanted)
    except OSError as error:
        raise InputError(
            f"Source {source!r}: cannot look into {path}: {error.strerror or error}. Check the path and its "
            "permissions."
        ) from error


def find_by_ending(
    source: str, path: str, endings: tuple[str, ...], wanted: str, refusal: str
) -> list[tuple[str, Path]]:
    """Find the files that a source's `path` refers to and that have one of the given file extensions.

    Args:
        source: Name of the source, for error messages.
        path: A file, a folder (searched recursively), a glob, or an object-store URL with or without wildcards.
        endings: Lower-case file extensions such as ".txt". They are compared case-insensitively.
        wanted: A description of what `path` should be, for error messages.
        refusal: The rest of the error message, after the file's path, if `path` names a single file with another
            extension.

    Returns:
        (name, path) pairs, sorted by name. Names are relative to the folder, or to the part of a glob before its first
        wildcard.

    Raises:
        InputError: If no file is found, or if `path` names a single file with another extension.
    """
    return find_accepted(source, path, lambda file: file.lower().endswith(endings), wanted, refusal)


def find_accepted(
    source: str, path: str, accept: Callable[[str], bool], wanted: str, refusal: str
) -> list[tuple[str, Path]]:
    """Find the files that a source's `path` refers to and that have an accepted name.

    Args:
        source: Name of the source, for error messages.
        path: A file, a folder (searched recursively), a glob, or an object-store URL with or without wildcards.
        accept: Called with a file's name without its folder. Returns True if the file is wanted.
        wanted: A description of what `path` should be, for error messages.
        refusal: The rest of the error message, after the file's path, if `path` names a single file that is not
            accepted.

    Returns:
        (name, path) pairs, sorted by name. Names are relative to the folder, or to the part of a glob before its first
        wildcard.

    Raises:
        InputError: If no file is found, or if `path` names a single file that is not accepted.
    """
    files = find_files(source, path, accept, wanted)
    for _, file in files:
        if not accept(file.name):
            raise InputError(f"Source {source!r}: {file} {refusal}")
    return files


def _find_files(source: str, path: str, accept: Callable[[str], bool], wanted: str) -> list[tuple[str, Path]]:
    """Find the files that a source's `path` refers to. The arguments are those of `find_files`, which calls this.

    Returns:
        (name, path) pairs, sorted by name. There is at least one.

    Raises:
        InputError: If no file is found, or `path` is a glob that would search the whole machine recursively.
        OSError: If `path` cannot be searched.
    """
    location = parse_raw_path(path).expanduser()
    if isinstance(location, ObjectPath):
        return _find_objects(source, location, accept, wanted)
    if location.is_file():
        return [(to_printable(location.name), location)]
    if location.is_dir():
        root, pattern = location, ALL_FILES_PATTERN
    else:
        root, pattern = split_glob(path)
        if pattern == ".":
            raise InputError(f"Source {source!r}: there is no {path}. Set its `path` to {wanted}.")
    if root.resolve() == Path("/") and "**" in pattern:
        raise InputError(
            f"Source {source!r}: its `path` {path} is all that this machine has, and would be searched to the bottom. "
            f"Set it to {wanted}."
        )
    if pattern == ALL_FILES_PATTERN:
        files = sorted(_walk_files(root, accept))
    else:
        files = sorted((to_printable(str(file.relative_to(root))), file) for file in _iter_glob(root, pattern, accept))
    if not files:
        contents = _describe_contents(root, pattern)
        raise InputError(f"Source {source!r}: nothing in {path} can be read{contents}. Set its `path` to {wanted}.")
    return files


def _walk_files(root: Path, accept: Callable[[str], bool]) -> Iterator[tuple[str, Path]]:
    """Yield (name, path) of the accepted files below a folder, in no particular order, without following links.

    Links to accepted files are yielded, but linked folders are not entered. Folders that cannot be listed, and files
    with a path too long for the operating system, are omitted. The report of unread files lists them.
    """
    pending, max_bytes = [(str(root), "")], MAX_PATH_BYTES - len(os.fsencode(root.absolute())) - 1
    while pending:
        folder, prefix = pending.pop()
        with suppress(OSError), os.scandir(folder) as entries:  # what may not be looked into is passed over
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, f"{prefix}{entry.name}/"))
                elif accept(entry.name) and _is_file(entry) and len(os.fsencode(prefix + entry.name)) <= max_bytes:
                    yield to_printable(prefix + entry.name), Path(entry.path)


def _iter_glob(root: Path, pattern: str, accept: Callable[[str], bool]) -> Iterator[Path]:
    """Yield the files below `root` that match a glob and have an accepted name, in no particular order."""
    return (file for file in root.glob(pattern) if accept(file.name) and _is_file(file))


def _is_file(path: "Path | os.DirEntry[str]") -> bool:
    """Return True for a file or a link to a file; False if the path cannot be checked."""
    try:
        return path.is_file()
    except OSError:
        return False


def to_printable(text: str) -> str:
    """Escape the bytes of a file name that are not UTF-8, so that the name can be printed and stored.

    >>> to_printable("caf\\udce9.pdf")
    'caf\\\\xe9.pdf'
    """
    return LONE_SURROGATE.sub(lambda half: ascii(half[0])[1:-1].replace("udc", "x"), text)


def _describe_contents(root: Path, pattern: str) -> str:
    """Describe the kinds of files in a folder, most frequent first, for an error message.

    Only the first 1,000 files that match the glob `pattern` are counted.

    Returns:
        The end of a sentence, such as ": it holds 12 .txt, 3 .pdf" or ": it is empty".
    """
    files = itertools.islice(_iter_glob(root, pattern, lambda name: True), MAX_FILES_SAMPLED)
    kinds = Counter(describe_ending(file.name) for file in files).most_common(MAX_KINDS_SHOWN)
    return ": it holds " + ", ".join(f"{count:,} {kind}" for kind, count in kinds) if kinds else ": it is empty"


def describe_ending(name: str) -> str:
    """Return the lower-case extension of a file name, or "without ending" if it has none that can be printed.

    >>> describe_ending("a.PY"), describe_ending("Makefile"), describe_ending("a.b c")
    ('.py', 'without ending', 'without ending')
    """
    ending = Path(name).suffix.lower()
    return ending if ending[1:].isalnum() and ending.isascii() else "without ending"


def _find_objects(source: str, place: ObjectPath, accept: Callable[[str], bool], wanted: str) -> list[tuple[str, Path]]:
    """Find the objects that a URL refers to: one object, all objects below a prefix, or all that match its wildcards.

    Args:
        source: Name of the source, for error messages.
        place: The URL.
        accept: Called with an object's name without its prefix. Returns True if the object is wanted.
        wanted: A description of what the source's `path` should be, for error messages.

    Returns:
        (name relative to the prefix, object) pairs, in the order of the store's listing.

    Raises:
        InputError: If no object is found.
    """
    if not WILDCARDS & set(place.name) and place.is_file():
        return [(place.name, place)]
    root, names = find_matching_objects(place)
    files: list[tuple[str, Path]] = [(name, root.join_name(name)) for name in names if accept(name.rpartition("/")[2])]
    if not files:
        raise InputError(
            f"Source {source!r}: nothing at {place} can be read. Set its `path` to {wanted}: below a prefix of an "
            "object store, or with the wildcards * and **, as in a folder."
        )
    return files


def split_glob(path: str) -> tuple[Path, str]:
    """Split a glob into the folder before its first wildcard and the rest; the rest is "." if there is no wildcard.

    >>> split_glob("raw/2026/*.txt")
    (PosixPath('raw/2026'), '*.txt')
    """
    parts = Path(path).expanduser().parts
    fixed = list(itertools.takewhile(lambda part: not set(part) & set("*?["), parts))
    return Path(*fixed), str(Path(*parts[len(fixed) :]))


class StatCache:
    """A cache of files' SHA-256 digests, keyed by path, size, modification and change times, and inode.

    A file that was modified in the last two seconds is not cached, since it may change again within the resolution of
    its timestamps.

    Attributes:
        entries: Maps paths to lists that end with the digest. The list for a file on disk is [size in bytes,
            modification time in nanoseconds, change time in nanoseconds, inode, digest]. The dictionary can be stored
            as JSON and passed to the constructor again.
    """

    def __init__(self, entries: dict[str, list[Json]] | None = None) -> None:
        self.entries = entries if entries is not None else {}

    def hash_file(self, path: Path) -> tuple[int, str]:
        """Return (size in bytes, SHA-256 hex digest) of a file, an object or a zip member.

        Raises:
            OSError: If the file cannot be read.
        """
        if isinstance(path, ObjectPath):
            return self._hash_object(path)
        if isinstance(path, MemberPath):
            return self._hash_member(path)
        stat = path.stat()
        stamp = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
        entry = self.entries.get(str(path))
        if entry is not None and entry[:4] == stamp:
            return stat.st_size, str(entry[4])
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if _compute_age_seconds(stat) > 2:
            self.entries[str(path)] = [*stamp, digest]
        return stat.st_size, digest

    def _hash_object(self, path: ObjectPath) -> tuple[int, str]:
        """Return (size in bytes, SHA-256 hex digest) of an object in an object store.

        The digest is cached by URL, size and ETag. An object without an ETag is always read.
        """
        size, etag = path.read_stamp()
        entry = self.entries.get(str(path))
        if etag and entry is not None and entry[:2] == [size, etag]:
            return size, str(entry[4])
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        self.entries[str(path)] = [size, etag, "", "", digest]
        return size, digest

    def _hash_member(self, path: MemberPath) -> tuple[int, str]:
        """Return (unpacked size in bytes, SHA-256 hex digest of the packed bytes) of a zip member."""
        stamp, entry = path.read_stamp(), self.entries.get(str(path))
        if entry is not None and entry[:-1] == stamp:
            return path.stat().st_size, str(entry[-1])
        digest = path.compute_sha256()
        if isinstance(path.archive, ObjectPath) or _compute_age_seconds(path.archive.stat()) > 2:
            self.entries[str(path)] = [*stamp, digest]
        return path.stat().st_size, digest


def _compute_age_seconds(stat: os.stat_result) -> float:
    """Return the number of seconds since a file's content or metadata last changed, whichever was later."""
    return time.time() - max(stat.st_mtime, stat.st_ctime)


def slice_whole_file(file: RawFile) -> Slice:
    """Return a slice from the first to the last byte of a file, for formats that cannot be cut."""
    return Slice(file=file, start=0, stop=file.size_bytes)


def cut_at(file: RawFile, starts: Iterable[int]) -> list[Slice]:
    """Cut a file into slices that begin at the given byte offsets. The offsets must be ascending.

    The first offset should be zero; the last slice ends at the end of the file.
    """
    cuts = [*starts, file.size_bytes]
    return [Slice(file=file, start=start, stop=stop) for start, stop in itertools.pairwise(cuts)]


def cut_every(file: RawFile, size_bytes: int) -> list[Slice]:
    """Cut a file into slices of `size_bytes`; the last one may be shorter."""
    return cut_at(file, range(0, file.size_bytes, size_bytes))


def build_locator(file: RawFile, offset: int, length: int, is_recoded: bool = False) -> Locator:
    """Build the locator of a record from its offset and length in bytes.

    Args:
        file: The file that contains the record.
        offset: First byte of the record. If the file is compressed, judged by its name, this is an offset in the
            decompressed content.
        length: Number of bytes of the record.
        is_recoded: True if `offset` is an offset in the file's content after conversion to UTF-8.
    """
    stream = 0 if is_recoded or is_packed(file.name) else -1
    return Locator(file=file.name, sha256=file.sha256, stream=stream, offset=offset, length=length)


def drop_too_large(locator: Locator, max_bytes: int) -> Record:
    """Build a dropped record with the reason "too large", for a part of the file that is longer than `max_bytes`.

    The record's text is "", and its id is derived from its locator.
    """
    return Record(
        locator=locator, text="", raw=str(locator).encode(), drop=Drop("too large", f"over {max_bytes} bytes")
    )


def drop_damaged(locator: Locator, raw: bytes, reason: ValueError | str) -> Record:
    """Build a dropped record for unusable bytes. Its reason is "damaged", and it counts as damaged.

    Args:
        locator: The position of the bytes in the raw file.
        raw: The bytes, or other bytes that identify the record.
        reason: What is wrong with the bytes. It becomes the detail of the `Drop`.
    """
    return Record(locator=locator, text="", raw=raw, drop=Drop("damaged", str(reason), damaged=True))


def group_slices(slices: Sequence[Slice], part_bytes: int) -> list[tuple[Slice, ...]]:
    """Group slices, in their order, into parts of at least `part_bytes` bytes each. The last part may be smaller.

    Adjacent slices of one file are merged. The groups depend only on the slices, not on the number of workers.

    Returns:
        One tuple of slices for each part, in order; [] if there are no slices.
    """
    groups: list[tuple[Slice, ...]] = []
    group: list[Slice] = []
    size = 0
    for piece in slices:
        if group and group[-1].file == piece.file and group[-1].stop == piece.start:
            group[-1] = replace(group[-1], stop=piece.stop)
        else:
            group.append(piece)
        size += piece.stop - piece.start
        if size >= part_bytes:
            groups.append(tuple(group))
            group, size = [], 0
    return [*groups, tuple(group)] if group else groups


FIELDS = ("text", "key", "revision", "title", "url", "date", "license", "group")
MAX_REVISION = (1 << 63) - 1


def check_fields(source: str, fields: Mapping[str, Any], allowed: tuple[str, ...] = FIELDS) -> None:
    """Check a source's `fields` table. All keys must be allowed, and no name may be empty.

    Values other than strings, lists and tuples are not checked here.

    Args:
        source: Name of the source, for error messages.
        fields: The table. It maps a field of a record to a name, or several names, in the raw data.
        allowed: The keys that the source supports.

    Raises:
        InputError: If a key is not allowed, or a name is empty.
    """
    check_keys(fields, allowed, f"Source {source!r}: `fields`")
    if not all(names and all(names) for names in fields.values() if isinstance(names, (str, list, tuple))):
        raise InputError(f"Source {source!r}: a name in `fields` is empty. Give it, or leave the field out.")
