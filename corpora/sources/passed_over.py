"""Counts what a source was given and does not read, by kind, with the first of each kind by name.

A source's `path` may hold more than its raw files: other endings, hidden files, links that lead nowhere, folders that
may not be looked into. None of it is an error, and none of it may be lost in silence.

Promises: of a folder, everything below it that no source of the recipe reads is counted once; of a glob, every file
that it matches. What is in a folder that is not looked into (a linked or unreadable one, or one that a glob without
`**` matches) counts as that one folder; of a `path` that names one file nothing is counted. Members of an archive are
records, and are counted as such by its source; those of a `.zip` that the kind "files" does not read count as files.
Costs: one walk of the folders, and a look at each entry that is not read; names are bounded.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpora.sources.bytes.endings import ending_of
from corpora.sources.bytes.objects import ObjectPath, matching_objects, raw_path
from corpora.sources.bytes.zip_members import MemberPath
from corpora.sources.contract import RawFile, Source, split_glob

MOST_NAMES = 20  # of each kind
HIDDEN, DANGLING = "hidden file", "dangling link"
LINKED, UNREADABLE, FOLDER, NO_FILE = "linked folder", "unreadable folder", "folder", "pipe, socket or device"
EMPTY = "empty file"
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
) -> Looked:
    """Return what is in the places where a source looks for raw files.

    files:          those that it reads
    read_by_others: absolute paths of those that other sources of the recipe read
    apart:          tells whether a folder is not input, wherever it is, because it is a store's
    kinds:          what files are, by absolute path, where their names do not show why they are not read
    """
    empty, passed_over = _Groups(), _Groups()
    for file in files:
        if not file.size_bytes:
            empty.add(EMPTY, file.name)
    read = {str(raw_path(file.path).absolute()) for file in files} | set(read_by_others)
    read |= {str(path.absolute()) for path in _companions(source)}
    for name, path, kind in _inside(source, apart):
        if str(path.absolute()) not in read:
            passed_over.add(kind or kinds.get(str(path.absolute())) or kind_of(path, name), name)
    return Looked(num_read=len(files), empty=empty.most_first(), passed_over=passed_over.most_first())


def _inside(source: Source, apart: Apart) -> Iterator[tuple[str, Path, str]]:
    """Do what `_given` does, with the members of archives that a source reads, and its own kinds of files."""
    inside: Callable[[str, Path], Iterable[tuple[str, Path, str]]] | None = getattr(source, "inside", None)
    for name, path, kind in _given(source, apart):
        yield from [(name, path, kind)] if kind or inside is None else inside(name, path)


def _companions(source: Source) -> Iterable[Path]:
    """Files that are read with a raw file and are not raw files themselves, such as the index of a dump."""
    named: Callable[[], Iterable[Path]] = getattr(source, "companions", tuple)
    return named()


def _given(source: Source, apart: Apart) -> Iterator[tuple[str, Path, str]]:
    """(name, path, kind or "" where that is still to be seen) of everything where a source looks for raw files."""
    if hasattr(source, "given"):  # it has no `path`, and says itself where it looks
        yield from ((name, path, "") for name, path in source.given())
        return
    path = getattr(source, "path", None)
    if not isinstance(path, str):
        return
    where = raw_path(path).expanduser()
    if where.is_file():
        yield from [(where.name, where, "")] if hasattr(source, "inside") else []
        return
    if isinstance(where, ObjectPath):
        prefix, names = matching_objects(where)
        yield from ((name, prefix.below(name), "") for name in names if not apart(prefix.below(name)))
        return
    if where.is_dir():
        yield from _walk(where, apart)
        return
    root, pattern = split_glob(path)
    deep = "**" in pattern
    for entry_path in sorted(path for path in root.glob(pattern) if not apart(path.parent)):
        name = entry_path.relative_to(root).as_posix()
        if not entry_path.is_dir():
            yield name, entry_path, ""
        elif entry_path.is_symlink() or not deep:
            yield name, entry_path, LINKED if entry_path.is_symlink() else FOLDER
    levels = None if deep else pattern.count(os.sep)
    yield from (entry for entry in _walk(root, apart, levels) if entry[2] == UNREADABLE)


def _walk(root: Path, apart: Apart, levels: int | None = None) -> Iterator[tuple[str, Path, str]]:
    """Everything below a folder but folders that are looked into, in order. levels: how deep; None: to the bottom."""
    unreadable: list[Path] = []
    for folder, folders, files in os.walk(root, onerror=lambda error: unreadable.append(Path(error.filename))):
        here = Path(folder)
        yield from ((name_in(root, here / name), here / name, "") for name in sorted(files))
        linked = [name for name in folders if (here / name).is_symlink()]
        yield from ((name_in(root, here / name), here / name, LINKED) for name in sorted(linked))
        folders[:] = [name for name in sorted(set(folders) - set(linked)) if not apart(here / name)]
        if levels is not None and len(here.relative_to(root).parts) >= levels:
            folders.clear()
    yield from ((name_in(root, path), path, UNREADABLE) for path in unreadable)


def name_in(root: Path, path: Path) -> str:
    """A path as it is called in a folder."""
    return path.relative_to(root).as_posix()


def kind_of(path: Path, name: str) -> str:
    """Return the kind of a file that is not read. name: below the folder that was given."""
    try:
        mode = stat.S_IFREG if isinstance(path, ObjectPath | MemberPath) else path.stat().st_mode
    except OSError:
        return DANGLING
    if not stat.S_ISREG(mode):
        return NO_FILE
    return HIDDEN if any(part.startswith(".") for part in name.split("/")) else ending_of(path.name)


def readable(name: str) -> str:
    """A file's name as text that can be written as UTF-8, whatever bytes it has.

    >>> readable("caf\\udce9.pdf")
    'caf\\\\xe9.pdf'
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")
