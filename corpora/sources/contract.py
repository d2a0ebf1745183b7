"""The contract of a source: raw files are cut into slices, a slice is read as records.

A source is one small frozen dataclass with five methods. It knows a format and nothing of stages, stores or
workers. `records` streams: memory is bounded by one compressed block, one document or the pages of one row group of
Parquet, never by the file. A record that cannot be read is yielded with a `Drop`, never swallowed; a file that cannot
be read to its end raises InputError, and is then left out as a whole or ends the run, as its source's `on_damage` says.

The fields of a record that a recipe may name: under which name, or at which path, each is found.
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
    """A raw input file, identified by `name` and `sha256`; `path` says where it is and enters no identity.

    state: of the file when it was hashed, as `read_state` has it; "" if it is not known
    """

    name: str
    sha256: str
    size_bytes: int
    path: str
    state: str = field(default="", compare=False, repr=False)

    def to_json(self) -> dict[str, Json]:
        """Its identity."""
        return {"name": self.name, "sha256": self.sha256, "size_bytes": self.size_bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Bytes `start` to `stop` of a raw file: what one part reads of it."""

    file: RawFile
    start: int
    stop: int

    def to_json(self) -> list[Json]:
        """Its identity."""
        return [self.file.name, self.file.sha256, self.start, self.stop]


class Drop(NamedTuple):
    """The reason why a record does not become a document. `damaged` counts towards the bound that stops a run."""

    reason: str
    detail: str = ""
    damaged: bool = False


class Record(NamedTuple):
    """One record as its source gives it: prose extracted, nothing cleaned yet.

    key: stable name within the source, or None; then the id is made of `raw`, the record's own bytes.
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
    """Records counted as they come in, by other means than the parser's wherever the format has some.

    The ledger compares the count with the rows that were written. A book's file, a page's file and the documentation
    in Python's modules have no other means: there the parser says how many records there are.

    It also knows which records are in quarantine: those that ended the worker that read or judged them, time and again.

    unknown_templates: those that a wiki's pages use in sentences
    """

    def __init__(self, quarantine: Collection[str] = ()) -> None:
        self.records = 0
        self.unknown_templates = Remarks()
        self._quarantine = frozenset(quarantine)

    @property
    def has_quarantine(self) -> bool:
        """True if some records are in quarantine: then each is asked for before it is parsed."""
        return bool(self._quarantine)

    def enter(self, locator: Locator) -> Drop | None:
        """Say that this record is parsed now, before anything that may take long; a drop where it must not be."""
        key = to_quarantine_key(locator)
        if key in self._quarantine:
            return QUARANTINED
        report_record(key)
        return None

    def apply_quarantine(self, record: Record) -> Record:
        """A record that was read: without its text where it is in quarantine and its source did not ask."""
        if self._quarantine and record.drop is None and to_quarantine_key(record.locator) in self._quarantine:
            return record._replace(text="", drop=QUARANTINED)
        return record


def to_quarantine_key(locator: Locator) -> str:
    """A record's place in one line, the same wherever its file lies: sha256 of the file, stream, offset."""
    return f"{locator.sha256} {locator.stream} {locator.offset}"


class Source(Protocol):
    """The interface of a source. Settings that determine bytes are in `settings()`; its location is not.

    A kind may have `defaults` as well, a table of the steps' tables in a recipe's form, as in
    `defaults: ClassVar[Defaults] = {"rules": {"gopher": {"max_words": 10_000_000}}}`: what its documents are judged by
    where the recipe says nothing else.

    Whatever its `path` holds and `files()` does not name is counted as passed over (`corpora.sources.passed_over`). A
    kind may say more: `companions()` gives paths that are read with a raw file and are none, `given()` names and paths
    of all that it looks at where it has no `path`, `libraries_of(files)` the libraries that decide what comes of some
    files, in addition to `libraries`.
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    libraries: ClassVar[tuple[str, ...]]

    @property
    def name(self) -> str:
        """Name of the source within its recipe; part of every document's identity."""

    def settings(self) -> dict[str, Json]:
        """Return what determines the bytes of its documents."""

    def files(self) -> list[tuple[str, Path]]:
        """Raw files as (name relative to the source's root, path), in a stable order. Raises InputError."""

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut one file, at fixed places, into pieces that can be read alone."""

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """The records of a slice in order. Asks `tally.enter` before it parses what may hang or explode."""

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """The bytes of one record, as they are in the (decompressed) raw file."""


class RecordFormat(Protocol):
    """Reads the bytes of one kind of file as records, whatever the source that the file belongs to.

    A frozen dataclass, so that sources which read the same kind of file share it as a value.
    """

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut one file, at fixed places, into pieces that can be read alone."""

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """The records of a slice in order."""

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """The bytes of one record."""


def select_settings(source: Any, *excluded: str) -> dict[str, Json]:
    """A source's settings without its name and its path, which determine no bytes, and without those left out."""
    return {key: value for key, value in to_settings_json(source).items() if key not in ("name", "path", *excluded)}


def _refuse_file(name: str, path: Path, error: OSError) -> None:
    raise InputError(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from error


def hash_files(
    files: Sequence[tuple[str, Path]],
    cache: "StatCache",
    on_error: Callable[[str, Path, OSError], None] = _refuse_file,
) -> list[RawFile]:
    """Raw files with their sha256, read side by side; one whose size and times did not change is not read again.

    on_fault: called with a file that cannot be read, which is then left; by default it raises InputError
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
    """Return the state, size and digest of a file, or why it cannot be read."""
    try:
        return read_state(file[1]), *cache.hash_file(file[1])
    except OSError as error:
        return error


def list_unhashed_files(files: Iterable[tuple[str, Path]]) -> list[RawFile]:
    """Raw files for a look at them, without their sha256; one that is gone by now is left out."""
    raw_files = []
    for name, path in files:
        with suppress(OSError):
            raw_files.append(RawFile(name=name, sha256="", size_bytes=path.stat().st_size, path=str(path)))
    return raw_files


def find_files(source: str, path: str, accept: Callable[[str], bool], wanted: str) -> list[tuple[str, Path]]:
    """The files that a source's `path` means, as (name, path) sorted by name. Raises InputError for none.

    name: of the source, for the message. path: a file (taken as it is), a folder (searched to the bottom) or
    a glob; of these two the files whose name is accepted. A name is relative to the folder, or to the part of
    the glob before its first wildcard, with bytes that are not UTF-8 escaped. wanted: what kind of file is looked for,
    in words. What cannot be looked at (a link whose target may not be) is no file.
    """
    try:
        return _find_files(source, path, accept, wanted)
    except OSError as error:
        raise InputError(
            f"Source {source!r}: cannot look into {path}: {error.strerror}. Check the path and its permissions."
        ) from error


def find_by_ending(
    source: str, path: str, endings: tuple[str, ...], wanted: str, refusal: str
) -> list[tuple[str, Path]]:
    """The files with one of these endings that a source's `path` means, sorted by name. Raises InputError.

    refused: the message for a file that `path` names and that has another ending
    """
    return find_accepted(source, path, lambda file: file.lower().endswith(endings), wanted, refusal)


def find_accepted(
    source: str, path: str, accept: Callable[[str], bool], wanted: str, refusal: str
) -> list[tuple[str, Path]]:
    """Do what `find_by_ending` does, for the files whose name is accepted."""
    files = find_files(source, path, accept, wanted)
    for _, file in files:
        if not accept(file.name):
            raise InputError(f"Source {source!r}: {file} {refusal}")
    return files


def _find_files(source: str, path: str, accept: Callable[[str], bool], wanted: str) -> list[tuple[str, Path]]:
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
    """The files below a folder whose names are accepted, by name, in no order; linked folders are not entered.

    What cannot be opened by its path, because that is too long, is left out: it is counted as passed over.
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
    return (file for file in root.glob(pattern) if accept(file.name) and _is_file(file))


def _is_file(path: "Path | os.DirEntry[str]") -> bool:
    """Return True for a file, or a link to one; False where the target may not be looked at."""
    try:
        return path.is_file()
    except OSError:
        return False


def to_printable(text: str) -> str:
    """A file's name, or a text with one, that can be written as UTF-8, whatever bytes it has.

    >>> to_printable("caf\\udce9.pdf")
    'caf\\\\xe9.pdf'
    """
    return LONE_SURROGATE.sub(lambda half: ascii(half[0])[1:-1].replace("udc", "x"), text)


def _describe_contents(root: Path, pattern: str) -> str:
    """Return what kinds of files a folder holds instead, the most frequent first; if large, by its first files."""
    files = itertools.islice(_iter_glob(root, pattern, lambda name: True), MAX_FILES_SAMPLED)
    kinds = Counter(describe_ending(file.name) for file in files).most_common(MAX_KINDS_SHOWN)
    return ": it holds " + ", ".join(f"{count:,} {kind}" for kind, count in kinds) if kinds else ": it is empty"


def describe_ending(name: str) -> str:
    """The ending of a file's name, in words where it has none, or none that can be shown.

    >>> describe_ending("a.PY"), describe_ending("Makefile"), describe_ending("a.b c")
    ('.py', 'without ending', 'without ending')
    """
    ending = Path(name).suffix.lower()
    return ending if ending[1:].isalnum() and ending.isascii() else "without ending"


def _find_objects(source: str, place: ObjectPath, accept: Callable[[str], bool], wanted: str) -> list[tuple[str, Path]]:
    """The objects that an address means: one, those below a prefix, or those that match its wildcards."""
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
    """The part of a glob before its first wildcard, and the pattern below it; "." where it has none.

    >>> split_glob("raw/2026/*.txt")
    (PosixPath('raw/2026'), '*.txt')
    """
    parts = Path(path).expanduser().parts
    fixed = list(itertools.takewhile(lambda part: not set(part) & set("*?["), parts))
    return Path(*fixed), str(Path(*parts[len(fixed) :]))


class StatCache:
    """sha256 of files, remembered by (path, size, times of modification and change, inode).

    A file touched in the last two seconds is never remembered: it may change again within its time stamp.
    """

    def __init__(self, entries: dict[str, list[Json]] | None = None) -> None:
        self.entries = entries if entries is not None else {}

    def hash_file(self, path: Path) -> tuple[int, str]:
        """(size in bytes, hex digest) of a file. Raises OSError."""
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
        """Do what `hash_file` does, by address, size and the store's ETag, and not at all without an ETag."""
        size, etag = path.read_stamp()
        entry = self.entries.get(str(path))
        if etag and entry is not None and entry[:2] == [size, etag]:
            return size, str(entry[4])
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        self.entries[str(path)] = [size, etag, "", "", digest]
        return size, digest

    def _hash_member(self, path: MemberPath) -> tuple[int, str]:
        """Do what `hash_file` does for a member of a zip: its size unpacked, the digest of its packed bytes."""
        stamp, entry = path.read_stamp(), self.entries.get(str(path))
        if entry is not None and entry[:-1] == stamp:
            return path.stat().st_size, str(entry[-1])
        digest = path.compute_sha256()
        if isinstance(path.archive, ObjectPath) or _compute_age_seconds(path.archive.stat()) > 2:
            self.entries[str(path)] = [*stamp, digest]
        return path.stat().st_size, digest


def _compute_age_seconds(stat: os.stat_result) -> float:
    return time.time() - max(stat.st_mtime, stat.st_ctime)


def slice_whole_file(file: RawFile) -> Slice:
    """The slice that is the whole file."""
    return Slice(file=file, start=0, stop=file.size_bytes)


def cut_at(file: RawFile, starts: Iterable[int]) -> list[Slice]:
    """The slices that begin at these bytes, the last of them with the file's last byte."""
    cuts = [*starts, file.size_bytes]
    return [Slice(file=file, start=start, stop=stop) for start, stop in itertools.pairwise(cuts)]


def cut_every(file: RawFile, size_bytes: int) -> list[Slice]:
    """Slices of this size, for what is cut anywhere."""
    return cut_at(file, range(0, file.size_bytes, size_bytes))


def build_locator(file: RawFile, offset: int, length: int, is_recoded: bool = False) -> Locator:
    """Return where a record is in a file, or in its content if it is packed or recoded as a whole."""
    stream = 0 if is_recoded or is_packed(file.name) else -1
    return Locator(file=file.name, sha256=file.sha256, stream=stream, offset=offset, length=length)


def drop_too_large(locator: Locator, max_bytes: int) -> Record:
    """The record of what is not read, for it is over `max_bytes`: it is known by its place."""
    return Record(
        locator=locator, text="", raw=str(locator).encode(), drop=Drop("too large", f"over {max_bytes} bytes")
    )


def drop_damaged(locator: Locator, raw: bytes, reason: ValueError | str) -> Record:
    """The record of bytes that cannot be used, and why."""
    return Record(locator=locator, text="", raw=raw, drop=Drop("damaged", str(reason), damaged=True))


def group_slices(slices: Sequence[Slice], part_bytes: int) -> list[tuple[Slice, ...]]:
    """Slices in order, grouped into parts of about `part_bytes`: fixed by the input, never by workers.

    Neighboring slices of one file are joined where they meet.
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
    """Raise InputError for a field that a record does not have, or an empty name. name: the source's.

    A value that is neither a name nor a list of names is for the source to refuse.
    """
    check_keys(fields, allowed, f"Source {source!r}: `fields`")
    if not all(names and all(names) for names in fields.values() if isinstance(names, (str, list, tuple))):
        raise InputError(f"Source {source!r}: a name in `fields` is empty. Give it, or leave the field out.")
