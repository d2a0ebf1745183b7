"""Published data sets by name: their tasks, and the layouts of their files.

A name is looked up in `PUBLISHED`, which is read from `published.toml`. Given a folder, `find_published_set` finds the
files of a set's splits, compressed or not, with the settings for reading each of them. If a set is published in several
layouts, the first one that has all requested splits is used. Promise: at most the first line of a file is read, files
are not guessed, and missing ones are named.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from corpora.errors import InputError
from corpora.sources.bytes.endings import PACKED_ENDINGS
from corpora.store.settings import bind_settings, check_keys, parse_toml
from trainer.tasks.formats.records import FileSettings, iter_lines, open_text

DEFAULT_SPLITS = ("train", "dev")

Columns = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """One way in which a data set is published: the files of its splits and how to read them.

    files:   the file or folder of each split, relative to the folder of the set
    columns: the column of each role, for all splits that are not in `others`
    others:  the columns of splits that differ from `columns`; such files have a header
    ragged:  True if rows may have more cells than the first row (the extra ones name the source of a text)
    first:   the text with which the first line of the train split starts, to distinguish layouts with the same file
             names; "" if it does not matter
    """

    files: Mapping[str, str]
    format: str = ""
    header: bool = True
    ragged: bool = False
    columns: Columns = field(default_factory=dict)
    others: Mapping[str, Columns] = field(default_factory=dict)
    first: str = ""

    def to_settings(self, split: str, path: Path) -> FileSettings:
        """Build the settings for reading the file of one split.

        Args:
            split: The name of the split.
            path: The path of its file.
        """
        own = self.others.get(split)
        return FileSettings(
            path=str(path),
            format=self.format,
            header=self.header or own is not None,
            ragged=self.ragged,
            columns=self.columns if own is None else own,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSet:
    """A published set of labeled data, as described in `published.toml`.

    kind:       the kind of task: "classes", "number", "choice", "tags" or "span"
    layouts:    the ways in which the set is published; the first one that matches a folder is used
    folder:     the name of the set's folder within its benchmark
    labels:     the classes in the order of the model's outputs; if empty, they are taken from the files
    metrics:    the scores of the benchmark, the main one first
    hidden:     True if the published test split has no labels because the benchmark keeps them secret
    """

    kind: str
    layouts: tuple[FileLayout, ...]
    metrics: tuple[str, ...]
    folder: str = ""
    labels: tuple[str, ...] = ()
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSet:
    """A published set that was found in a folder.

    `files` holds the settings for reading each split that exists there.
    """

    name: str
    published: PublishedSet
    files: Mapping[str, FileSettings]


def find_published_set(name: str, folder: str, splits: Sequence[str] = DEFAULT_SPLITS) -> FoundSet:
    """Find the files of a published set in a folder, or in a subfolder with the set's own folder name.

    Args:
        name: A name in `PUBLISHED`, such as "glue/cola".
        folder: The folder to search.
        splits: The splits that must exist, unless no layout of the set has them. Other splits are found as well.

    Raises:
        InputError: If the name is unknown, or no layout has all required files. The message lists the missing files.
    """
    entry = get_published_set(name)
    missing = list[str]()
    offered = {split for layout in entry.layouts for split in layout.files}
    roots = (Path(folder), Path(folder) / entry.folder)
    for root in [root for root in roots if root.is_dir()] or roots[:1]:
        for layout in entry.layouts:
            files = dict(_iter_existing_files(layout, root))
            lacking = [
                layout.files.get(split, f"a {split} split next to {' and '.join(layout.files.values())}")
                for split in splits
                if split in offered and split not in files
            ]
            if not lacking and files and _has_first_line(layout, files):
                settings = {split: layout.to_settings(split, path) for split, path in files.items()}
                return FoundSet(name=name, published=entry, files=MappingProxyType(settings))
            missing.append(" and ".join(lacking or layout.files.values()))
    raise InputError(
        f"{folder} does not hold {name} as it is published: it lacks {', or '.join(dict.fromkeys(missing))}. Give the "
        "folder with these files, or name the files and their columns yourself."
    )


def get_published_set(name: str) -> PublishedSet:
    """Look up a published set by its name. Raises InputError if the name is unknown."""
    check_keys([name], PUBLISHED, "The table of published sets")
    return PUBLISHED[name]


def _iter_existing_files(layout: FileLayout, root: Path) -> Iterator[tuple[str, Path]]:
    for split, file in layout.files.items():
        ways = (root / f"{file}{packing}" for packing in ("", *PACKED_ENDINGS))
        if existing := next((way for way in ways if way.exists()), None):
            yield split, existing


def _has_first_line(layout: FileLayout, files: Mapping[str, Path]) -> bool:
    """Return True if the train file begins with the text `layout.first`, or if that is empty.

    `files` has the path of each split, the train split first.
    """
    if not layout.first:
        return True
    path = str(next(iter(files.values())))
    with open_text(path) as stream:
        return next(iter_lines(stream, path), "").startswith(layout.first)


def _read_table() -> Mapping[str, PublishedSet]:
    """Read the table of published sets in `published.toml`, by name of the set."""
    path = Path(__file__).with_suffix(".toml")
    tables = parse_toml(path.read_text(encoding="utf-8"))
    return MappingProxyType(
        {name: bind_settings(PublishedSet, table, f"{path.name}: {name}") for name, table in tables.items()}
    )


PUBLISHED = _read_table()
