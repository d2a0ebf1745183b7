"""Counts the files that a source was given and does not read, by kind, with the names of the first of each kind.

A source's `path` may hold more than its raw files: files with other endings, hidden files, links that lead nowhere,
folders that may not be listed. None of these is an error, and none may be lost in silence.

Promises: of a folder, everything below it that no source of the recipe reads is counted once; of a glob, every file
that it matches. A folder that is not entered (because it is linked or unreadable, or because a glob without `**`
matches it) counts as one entry. If `path` names a single file, nothing is counted. Members of an archive are records,
and are counted as such by its source; those of a `.zip` that the kind "files" does not read count as files. Costs: one
walk of the folders, and a look at each entry that is not read; the number of names kept is bounded.
"""

import errno
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpora.sources.bytes.endings import OWNER_MARK, find_ending
from corpora.sources.bytes.objects import ObjectPath, find_matching_objects, parse_raw_path
from corpora.sources.bytes.zip_members import MemberPath
from corpora.sources.contract import RawFile, Source, split_glob, to_printable

MAX_NAMES_PER_KIND = 20  # of each kind
HIDDEN_FILE, DANGLING_LINK = "hidden file", "dangling link"
LINKED_FOLDER, UNREADABLE_FOLDER, FOLDER = "linked folder", "unreadable folder", "folder"
EMPTY_FILE, SPECIAL_FILE = "empty file", "pipe, socket or device"
NO_PERMISSION, VANISHED, DISK_ERROR = "file without permission", "vanished file", "file that the disk fails to read"
PATH_TOO_LONG = "file whose path is too long"
DAMAGED_MEMBER = "damaged zip member"
UNOPENED_KINDS = (
    DANGLING_LINK,
    UNREADABLE_FOLDER,
    NO_PERMISSION,
    VANISHED,
    PATH_TOO_LONG,
    DISK_ERROR,
    DAMAGED_MEMBER,
)  # what may hold text, and cannot be looked at
NO_KINDS: Mapping[str, str] = {}

FolderPredicate = Callable[[Path], bool]


def exclude_nothing(folder: Path) -> bool:
    """Return False for every folder, so that none is excluded. This is the default `is_excluded` of `count_files`."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """A group of files of one kind that are not read.

    Attributes:
        kind: A file extension such as ".pdf", or a description such as "hidden file".
        number: Number of files in the group.
        names: The names of the first few files.
    """

    kind: str
    number: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """Counts of the files that a source reads and of those that it does not read.

    Attributes:
        num_read: Number of raw files.
        empty: The raw files without content, as one group if there are any.
        passed_over: The files that are not read, grouped by kind, the largest group first.
    """

    num_read: int
    empty: tuple[FileGroup, ...] = ()
    passed_over: tuple[FileGroup, ...] = ()

    @property
    def num_passed_over(self) -> int:
        """Number of files that are not read."""
        return sum(group.number for group in self.passed_over)


@dataclass(kw_only=True)
class _GroupCounter:
    """Counts files by kind, and stores the first few names of each kind.

    Attributes:
        numbers: Number of files by kind.
        names: Up to 20 names by kind, printable.
    """

    numbers: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    names: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, name: str) -> None:
        """Count a file of a kind, and store its name if fewer than 20 names of this kind are stored yet."""
        self.numbers[kind] += 1
        if len(self.names[kind]) < MAX_NAMES_PER_KIND:
            self.names[kind].append(to_printable(name))

    def list_groups(self) -> tuple[FileGroup, ...]:
        """Return one group for each kind, sorted by descending number of files and then by kind."""
        ordered = sorted(self.numbers.items(), key=lambda item: (-item[1], item[0]))
        return tuple(FileGroup(kind=kind, number=n, names=tuple(self.names[kind])) for kind, n in ordered)


def count_files(
    source: Source,
    files: Sequence[RawFile],
    read_by_others: Collection[str] = (),
    is_excluded: FolderPredicate = exclude_nothing,
    kinds: Mapping[str, str] = NO_KINDS,
    unopened: Sequence[tuple[str, str, str]] = (),
) -> FileCounts:
    """Count the files that a source reads, and the files below its `path` that no source reads.

    Args:
        source: The source.
        files: The source's raw files.
        read_by_others: Absolute paths of files that other sources of the recipe read.
        is_excluded: Returns True for a folder to skip because it is a store, not input.
        kinds: Maps absolute paths to kinds, for unread files whose name does not show their kind.
        unopened: (name, absolute path, kind) of files that could not be opened.
    """
    empty, passed_over = _GroupCounter(), _GroupCounter()
    for file in files:
        if not file.size_bytes:
            empty.add(EMPTY_FILE, file.name)
    read_paths = {to_absolute(file.path) for file in files} | set(read_by_others)
    read_paths |= {to_absolute(str(path)) for path in getattr(source, "companions", tuple)()}
    for name, path, kind in unopened:
        passed_over.add(kind, name)
        read_paths.add(path)
    for name, path, kind in _iter_entries_and_members(source, is_excluded):
        if path not in read_paths:
            passed_over.add(kind or kinds.get(path) or classify_unread_file(parse_raw_path(path), name), name)
    return FileCounts(num_read=len(files), empty=empty.list_groups(), passed_over=passed_over.list_groups())


def to_absolute(path: str) -> str:
    """Return the absolute path of a raw file. The URL of an object is returned unchanged."""
    return path if path.startswith("/") else str(parse_raw_path(path).absolute())


def _iter_entries_and_members(source: Source, is_excluded: FolderPredicate) -> Iterator[tuple[str, str, str]]:
    """Yield (name, absolute path, kind) of all entries below a source's `path`, including members of archives.

    An archive is replaced by its members if the source can list them (with `iter_inside`). The kind is "" if it must
    still be determined from the file itself.
    """
    members: Callable[[str, Path], Iterable[tuple[str, Path, str]]] | None = getattr(source, "iter_inside", None)
    for name, path, kind in _iter_entries(source, is_excluded):
        if kind or members is None:
            yield name, path, kind
        else:
            inside = members(name, parse_raw_path(path))
            yield from ((each, to_absolute(str(member)), why) for each, member, why in inside)


def _iter_entries(source: Source, is_excluded: FolderPredicate) -> Iterator[tuple[str, str, str]]:
    """Yield (name, absolute path, kind) of all files below a source's `path`, and of folders that are not entered.

    The kind is "" if it must still be determined from the file itself. Nothing is yielded if the source has no `path`,
    or if `path` is a single file and the source cannot list what is inside files (with `iter_inside`).
    """
    path = getattr(source, "path", None)
    if not isinstance(path, str):
        return
    location = parse_raw_path(path).expanduser()
    if location.is_file():
        yield from [(location.name, to_absolute(str(location)), "")] if hasattr(source, "iter_inside") else []
        return
    if isinstance(location, ObjectPath):
        prefix, names = find_matching_objects(location)
        yield from (
            (name, str(prefix.join_name(name)), "") for name in names if not is_excluded(prefix.join_name(name))
        )
        return
    if location.is_dir():
        yield from _walk(location.absolute(), is_excluded)
        return
    root, pattern = split_glob(path)
    is_recursive = "**" in pattern
    for entry_path in sorted(path for path in root.glob(pattern) if not is_excluded(path.parent)):
        name, absolute = entry_path.relative_to(root).as_posix(), str(entry_path.absolute())
        if not entry_path.is_dir():
            yield name, absolute, ""
        elif entry_path.is_symlink() or not is_recursive:
            yield name, absolute, LINKED_FOLDER if entry_path.is_symlink() else FOLDER
    levels = None if is_recursive else pattern.count(os.sep)
    yield from (entry for entry in _walk(root.absolute(), is_excluded, levels) if entry[2] == UNREADABLE_FOLDER)


def _walk(root: Path, is_excluded: FolderPredicate, max_levels: int | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield (name, path, kind) of all files below a folder, and of folders that are linked or unreadable.

    The name is relative to the folder. The kind is `LINKED_FOLDER`, `UNREADABLE_FOLDER`, or "" for a file.

    Args:
        root: The folder, as an absolute path.
        is_excluded: Returns True for folders to skip.
        max_levels: Maximum number of levels of folders to enter below `root`; None for no limit.
    """
    root_length, pending, unreadable = len(f"{str(root).rstrip('/')}/"), [str(root)], list[str]()
    while pending:
        folder = pending.pop()
        prefix = f"{folder.rstrip('/')}/"
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            unreadable.append(folder)
            continue
        folders = {entry for entry in found if _is_folder(entry)}
        linked = {entry for entry in folders if entry.is_symlink()}
        yield from ((entry.path[root_length:], entry.path, "") for entry in found if entry not in folders)
        yield from ((entry.path[root_length:], entry.path, LINKED_FOLDER) for entry in found if entry in linked)
        if max_levels is None or prefix[root_length:].count("/") < max_levels:
            inner = [entry.path for entry in found if entry in folders - linked]
            pending += [path for path in reversed(inner) if not is_excluded(Path(path))]
    yield from ((path[root_length:], path, UNREADABLE_FOLDER) for path in unreadable)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """Return True for a folder or a link to a folder; False if the entry cannot be checked."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def classify_error(error: OSError) -> str:
    """Return the kind of a file that cannot be opened, according to the error that opening it raised.

    The kind is one of `UNOPENED_KINDS`, such as "file without permission".
    """
    if isinstance(error, PermissionError):
        return NO_PERMISSION
    if error.errno is None:  # not of the machine: the archive says what is not so
        return DAMAGED_MEMBER
    if error.errno == errno.ENAMETOOLONG:
        return PATH_TOO_LONG
    return VANISHED if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP) else DISK_ERROR


def classify_unread_file(path: Path, name: str) -> str:
    """Return the kind of a file that is not read: its extension, or a description such as "hidden file".

    Args:
        path: Path of the file.
        name: The file's name relative to the source's folder. The file is hidden if any part of the name begins with a
            dot or "~$".
    """
    try:
        mode = stat.S_IFREG if isinstance(path, ObjectPath | MemberPath) else path.stat().st_mode
    except OSError as error:
        return DANGLING_LINK if classify_error(error) == VANISHED else classify_error(error)
    if not stat.S_ISREG(mode):
        return SPECIAL_FILE
    return (
        HIDDEN_FILE if any(part.startswith((".", OWNER_MARK)) for part in name.split("/")) else find_ending(path.name)
    )
