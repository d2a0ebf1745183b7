"""Published sets by name: what is learnt from them, and their files as they are published.

A name is looked up in `PUBLISHED`, which `published.toml` holds; with a folder given, `find_published_set` finds the
files of its splits, packed or not, with the settings to read each. A set that is published in several ways has a layout
for each, and the first that has all requested splits is used. Promise: no file is read further than its first line,
and none is guessed: what is missing is named.
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
    """One way in which a set is published.

    files:   for each split its file, or its folder
    columns: of all splits but those of `others`, which have their own, and a header
    ragged:  whether rows have more cells than the first one, which say where a text is from
    first:   with what the first line of the train split begins, where files of one name differ
    """

    files: Mapping[str, str]
    format: str = ""
    header: bool = True
    ragged: bool = False
    columns: Columns = field(default_factory=dict)
    others: Mapping[str, Columns] = field(default_factory=dict)
    first: str = ""

    def to_settings(self, split: str, path: Path) -> FileSettings:
        """Return the settings to read a split's file with."""
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
    """A set of labelled data.

    kind:       "classes", "number", "choice", "tags" or "span"
    folder:     what its folder is called within the benchmark's
    labels:     the classes in the order of their outputs; none: those of the files
    metrics:    by what it is judged, the first above all
    hidden:     whether its test split has no labels, which its benchmark keeps
    """

    kind: str
    layouts: tuple[FileLayout, ...]
    metrics: tuple[str, ...]
    folder: str = ""
    labels: tuple[str, ...] = ()
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSet:
    """A published set in a folder. files: for each split that is there how it is read."""

    name: str
    published: PublishedSet
    files: Mapping[str, FileSettings]


def find_published_set(name: str, folder: str, splits: Sequence[str] = DEFAULT_SPLITS) -> FoundSet:
    """Return the set of that name in a folder, or in its own folder within that.

    splits: those that must be there, of the ones the set has in one layout or another; others are included as well
    Raises InputError for an unknown name, and where files are missing.
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
    """The set of that name. Raises InputError."""
    check_keys([name], PUBLISHED, "The table of published sets")
    return PUBLISHED[name]


def _iter_existing_files(layout: FileLayout, root: Path) -> Iterator[tuple[str, Path]]:
    for split, file in layout.files.items():
        ways = (root / f"{file}{packing}" for packing in ("", *PACKED_ENDINGS))
        if existing := next((way for way in ways if way.exists()), None):
            yield split, existing


def _has_first_line(layout: FileLayout, files: Mapping[str, Path]) -> bool:
    """Tells whether the first line is the layout's."""
    if not layout.first:
        return True
    path = str(next(iter(files.values())))
    with open_text(path) as stream:
        return next(iter_lines(stream, path), "").startswith(layout.first)


def _read_table() -> Mapping[str, PublishedSet]:
    """The sets of `published.toml`."""
    path = Path(__file__).with_suffix(".toml")
    tables = parse_toml(path.read_text(encoding="utf-8"))
    return MappingProxyType(
        {name: bind_settings(PublishedSet, table, f"{path.name}: {name}") for name, table in tables.items()}
    )


PUBLISHED = _read_table()
