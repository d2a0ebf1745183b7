"""The kinds of sources by name, and how a source is made from a recipe's `[[source]]` table.

A kind is a frozen dataclass that satisfies `Source`; its fields are the keys of the table. Other packages can add a
kind under the entry point `cloze.sources`, which is only searched for kinds that are not built in:

    [project.entry-points."cloze.sources"]
    mbox = "mbox_source:MboxSource"

The kind's `version`, the name and version of its package and the versions of its `libraries` are part of the
fingerprint of its documents. Worker processes import a kind by its name, as the main process does.
"""

import dataclasses
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

from corpora.entry_points import Kinds
from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.sources.contract import Defaults, Source
from corpora.store.settings import bind_settings

GROUP = "cloze.sources"
SOURCES = {  # imported when a recipe names them
    "bookcorpus": "corpora.sources.books.source:BookCorpusSource",
    "cc-news": "corpora.sources.web.source:CcNewsSource",
    "files": "corpora.sources.files.source:FilesSource",
    "openwebtext": "corpora.sources.openwebtext:OpenWebTextSource",
    "python-docs": "corpora.sources.python_docs:PythonDocsSource",
    "stories": "corpora.sources.stories:StoriesSource",
    "wikipedia": "corpora.sources.wiki.source:WikipediaSource",
    "xml": "corpora.sources.xml.source:XmlSource",
}
_KINDS = Kinds(
    what="source",
    key="source.kind",
    group=GROUP,
    ours=SOURCES,
    members=("name", "version", "libraries", "settings", "files", "slices", "records", "raw_record"),
    types={"version": int, "libraries": tuple},
)
OBJECT_KINDS = tuple(kind for kind in SOURCES if kind != "python-docs")  # read raw files in object stores, too


def make_source(table: Mapping[str, Json]) -> Source:
    """Build the source that a recipe's `[[source]]` table describes.

    Args:
        table: The table. Its `kind` selects the class (see `list_kinds`), and its other keys are the fields of that
            class.

    Raises:
        InputError: If the kind or a key is unknown, a key is missing, or a value has the wrong type.

    >>> make_source({"kind": "files", "name": "tickets", "path": "raw/tickets"}).name
    'tickets'
    """
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise InputError(f"A [[source]] does not name its `kind`: one of {', '.join(list_kinds())}.")
    keys = {key: value for key, value in table.items() if key != "kind"}
    source: Source = bind_settings(load_source_class(kind), keys, f"source ({kind})")
    return source


def list_kinds() -> tuple[str, ...]:
    """List the names of all kinds of sources, including those of installed packages, without importing them."""
    return _KINDS.list_names()


def is_kind(kind: str) -> bool:
    """Return True if a kind of source with this name exists."""
    return kind in _KINDS


def load_source_class(kind: str) -> Any:
    """Import the dataclass for a kind of source.

    Raises:
        InputError: If the kind is unknown, or the package that adds it is broken.
    """
    return EntryPoint(kind, SOURCES[kind], GROUP).load() if kind in SOURCES else _KINDS.find(kind)


def get_step_defaults(source: Source) -> Defaults:
    """Return a source's default settings for processing steps, as a table per step; {} if it has none.

    A recipe can override these settings.

    >>> get_step_defaults(make_source({"kind": "bookcorpus", "path": "books"}))
    {'rules': {'gopher': {'max_words': 10000000}}}
    """
    defaults: Defaults = getattr(type(source), "defaults", {})
    return defaults


def has_setting(kind: str, key: str) -> bool:
    """Return True if the kind of source exists and has a setting with this name.

    Raises:
        InputError: If the package that adds the kind is broken.

    >>> has_setting("wikipedia", "license"), has_setting("files", "license")
    (True, False)
    """
    return is_kind(kind) and key in {field.name for field in dataclasses.fields(load_source_class(kind))}


def find_distribution(kind: str) -> dict[str, str] | None:
    """Return the package that adds a kind of source, as {"distribution": name, "version": version}.

    Return None for built-in kinds.
    """
    name, _, version = _KINDS.find_package(kind).rpartition(" ")
    return {"distribution": name, "version": version} if name else None
