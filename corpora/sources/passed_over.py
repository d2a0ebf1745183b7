"""Counts what a source was given and does not read, by kind, with the first of each kind by name.

A source's `path` may hold more than its raw files: other endings, hidden files, links that lead nowhere, folders that
may not be looked into. None of it is an error, and none of it may be lost in silence.

Promises: of a folder, everything below it that no source of the recipe reads is counted once; of a glob, every file
that it matches. What is in a folder that is not looked into (a linked or unreadable one, or one that a glob without
`**` matches) counts as that one folder; of a `path` that names one file nothing is counted. Members of an archive are
records, and are counted as such by its source; those of a `.zip` that the kind "files" does not read count as files.
Costs: one walk of the folders, and a look at each entry that is not read; names are bounded.
"""

import errno
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpora.sources.bytes.endings import OWNER_MARK, ending_of
from corpora.sources.bytes.objects import ObjectPath, matching_objects, raw_path
from corpora.sources.bytes.zip_members import MemberPath
from corpora.sources.contract import RawFile, Source, readable, split_glob

MOST_NAMES = 20  # of each kind
HIDDEN, DANGLING = "hidden file", "dangling link"
LINKED, UNREADABLE, FOLDER, NO_FILE = "linked folder", "unreadable folder", "folder", "pipe, socket or device"
EMPTY = "empty file"
NOT_ALLOWED, VANISHED, FAILING = "file without permission", "vanished file", "file that the disk fails to read"
TOO_LONG = "file whose path is too long"
BAD_MEMBER = "damaged zip member"
UNOPENED = (
    DANGLING,
    UNREADABLE,
    NOT_ALLOWED,
    VANISHED,
    TOO_LONG,
    FAILING,
    BAD_MEMBER,
)  # what may hold text, and cannot be looked at
NO_KINDS: Mapping[str, str] = {}

Apart = Callable[[Path], bool]


def nowhere(folder: Path) -> bool:
    """False: no folder is apart."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files of one kind. kind: an ending such as ".pdf", or what they are in words. names: the first of them."""

    kind: str
    number: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The result of looking for a source's raw files. empty: raw files of no bytes; passed_over: other files."""

    num_read: int
    empty: tuple[FileGroup, ...] = ()
    passed_over: tuple[FileGroup, ...] = ()

    @property
    def num_passed_over(self) -> int:
        """The number of files that are not read."""
        return sum(group.number for group in self.passed_over)


@dataclass(kw_only=True)
class _Groups:
    """Files by their kinds, as they are found."""

    numbers: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    names: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, name: str) -> None:
        self.numbers[kind] += 1
        if len(self.names[kind]) < MOST_NAMES:
            self.names[kind].append(readable(name))

    def most_first(self) -> tuple[FileGroup, ...]:
        ordered = sorted(self.numbers.items(), key=lambda item: (-item[1], item[0]))
        return tuple(FileGroup(kind=kind, number=n, names=tuple(self.names[kind])) for kind, n in ordered)


def look(
    source: Source,
    files: Sequence[RawFile],
    read_by_others: Collection[str] = (),
    apart: Apart = nowhere,
    kinds: Mapping[str, str] = NO_KINDS,
    unopened: Sequence[tuple[str, str, str]] = (),
) -> Looked:
    """Return what is in the places where a source looks for raw files.

    files:          those that it reads
    read_by_others: absolute paths of those that other sources of the recipe read
    apart:          tells whether a folder is not input, wherever it is, because it is a store's
    kinds:          what files are, by absolute path, where their names do not show why they are not read
    unopened:       (name, path, kind) of files that could not be opened
    """
    empty, passed_over = _Groups(), _Groups()
    for file in files:
        if not file.size_bytes:
            empty.add(EMPTY, file.name)
    read = {absolute(file.path) for file in files} | set(read_by_others)
    read |= {absolute(str(path)) for path in _companions(source)}
    for name, path, kind in unopened:
        passed_over.add(kind, name)
        read.add(path)
    for name, path, kind in _inside(source, apart):
        if path not in read:
            passed_over.add(kind or kinds.get(path) or kind_of(raw_path(path), name), name)
    return Looked(num_read=len(files), empty=empty.most_first(), passed_over=passed_over.most_first())


def absolute(path: str) -> str:
    """Return the absolute path, or the address, of a raw file."""
    return path if path.startswith("/") else str(raw_path(path).absolute())


def _inside(source: Source, apart: Apart) -> Iterator[tuple[str, str, str]]:
    """Do what `_given` does, with the members of archives that a source reads, and its own kinds of files."""
    inside: Callable[[str, Path], Iterable[tuple[str, Path, str]]] | None = getattr(source, "inside", None)
    for name, path, kind in _given(source, apart):
        if kind or inside is None:
            yield name, path, kind
        else:
            yield from ((each, absolute(str(place)), why) for each, place, why in inside(name, raw_path(path)))


def _companions(source: Source) -> Iterable[Path]:
    """Files that are read with a raw file and are not raw files themselves, such as the index of a dump."""
    named: Callable[[], Iterable[Path]] = getattr(source, "companions", tuple)
    return named()


def _given(source: Source, apart: Apart) -> Iterator[tuple[str, str, str]]:
    """(name, absolute path, kind or "" where that is still to be seen) of everything where a source looks for files."""
    path = getattr(source, "path", None)
    if not isinstance(path, str):
        return
    where = raw_path(path).expanduser()
    if where.is_file():
        yield from [(where.name, absolute(str(where)), "")] if hasattr(source, "inside") else []
        return
    if isinstance(where, ObjectPath):
        prefix, names = matching_objects(where)
        yield from ((name, str(prefix.below(name)), "") for name in names if not apart(prefix.below(name)))
        return
    if where.is_dir():
        yield from _walk(where.absolute(), apart)
        return
    root, pattern = split_glob(path)
    deep = "**" in pattern
    for entry_path in sorted(path for path in root.glob(pattern) if not apart(path.parent)):
        name, whole = entry_path.relative_to(root).as_posix(), str(entry_path.absolute())
        if not entry_path.is_dir():
            yield name, whole, ""
        elif entry_path.is_symlink() or not deep:
            yield name, whole, LINKED if entry_path.is_symlink() else FOLDER
    levels = None if deep else pattern.count(os.sep)
    yield from (entry for entry in _walk(root.absolute(), apart, levels) if entry[2] == UNREADABLE)


def _walk(root: Path, apart: Apart, levels: int | None = None) -> Iterator[tuple[str, str, str]]:
    """Everything below a folder but folders that are looked into, in order. levels: how deep; None: to the bottom."""
    start, waiting, unreadable = len(f"{str(root).rstrip('/')}/"), [str(root)], list[str]()
    while waiting:
        folder = waiting.pop()
        before = f"{folder.rstrip('/')}/"
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            unreadable.append(folder)
            continue
        folders = {entry for entry in found if _is_folder(entry)}
        linked = {entry for entry in folders if entry.is_symlink()}
        yield from ((entry.path[start:], entry.path, "") for entry in found if entry not in folders)
        yield from ((entry.path[start:], entry.path, LINKED) for entry in found if entry in linked)
        if levels is None or before[start:].count("/") < levels:
            inner = [entry.path for entry in found if entry in folders - linked]
            waiting += [path for path in reversed(inner) if not apart(Path(path))]
    yield from ((path[start:], path, UNREADABLE) for path in unreadable)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """Return True for a folder, or a link to one; False if the target may not be looked at."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def unopened_kind(error: OSError) -> str:
    """Return the kind of a file that cannot be opened."""
    if isinstance(error, PermissionError):
        return NOT_ALLOWED
    if error.errno is None:  # not of the machine: the archive says what is not so
        return BAD_MEMBER
    if error.errno == errno.ENAMETOOLONG:
        return TOO_LONG
    return VANISHED if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP) else FAILING


def kind_of(path: Path, name: str) -> str:
    """Return the kind of a file that is not read. name: below the folder that was given."""
    try:
        mode = stat.S_IFREG if isinstance(path, ObjectPath | MemberPath) else path.stat().st_mode
    except OSError as error:
        return DANGLING if unopened_kind(error) == VANISHED else unopened_kind(error)
    if not stat.S_ISREG(mode):
        return NO_FILE
    return HIDDEN if any(part.startswith((".", OWNER_MARK)) for part in name.split("/")) else ending_of(path.name)
