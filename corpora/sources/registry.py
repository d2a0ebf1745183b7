"""The kinds of sources by name, and a source made from a recipe's `[[source]]` table.

A kind is a frozen dataclass that satisfies `Source`; its fields are the table's keys. A package of your own adds one
under the entry point `cloze.sources`, which is looked for only where a kind is not one of ours:

    [project.entry-points."cloze.sources"]
    mbox = "mbox_source:MboxSource"

Its `version`, the name and version of its package and the versions of its `libraries` enter the fingerprint of its
documents. A worker process imports it by its name, as this one did.
"""

import dataclasses
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from corpora.entry_points import load_point, package_of
from corpora.errors import InputError
from corpora.sources.books.source import BookCorpusSource
from corpora.sources.contract import Defaults, Source
from corpora.sources.files.source import FilesSource
from corpora.sources.openwebtext import OpenWebTextSource
from corpora.sources.python_docs.source import PythonDocsSource
from corpora.sources.stories import StoriesSource
from corpora.sources.web.source import CcNewsSource
from corpora.sources.wiki.source import WikipediaSource
from corpora.sources.xml.source import XmlSource
from corpora.store.manifest import Json
from corpora.store.settings import bind, check_choice

GROUP = "cloze.sources"
METHODS = ("settings", "files", "slices", "records", "raw_record")
SOURCES: dict[str, Any] = {
    source.kind: source
    for source in (
        BookCorpusSource,
        CcNewsSource,
        FilesSource,
        OpenWebTextSource,
        PythonDocsSource,
        StoriesSource,
        WikipediaSource,
        XmlSource,
    )
}

OBJECT_KINDS = tuple(kind for kind in SOURCES if kind != PythonDocsSource.kind)  # read raw files in object stores, too


def make_source(table: Mapping[str, Json]) -> Source:
    """The source that a table describes. Raises InputError: unknown kind or key, missing key, wrong type.

    >>> make_source({"kind": "files", "name": "tickets", "path": "raw/tickets"}).name
    'tickets'
    """
    kind = table.get("kind")
    if kind is None:
        raise InputError(f"A [[source]] has no `kind`. Set it to one of {', '.join(kinds())}.")
    if not isinstance(kind, str) or kind not in kinds():
        raise InputError(
            f"source.kind = {kind!r} is not known: it must be one of {', '.join(map(repr, kinds()))}, or come with an "
            f"installed package that names it under the entry point {GROUP!r}."
        )
    keys = {key: value for key, value in table.items() if key != "kind"}
    source: Source = bind(source_class(str(kind)), keys, f"source ({kind})")
    return source


def kinds() -> tuple[str, ...]:
    """Every kind there is, those of installed packages included; none of them is imported."""
    return tuple(sorted({*SOURCES, *(point.name for point in entry_points(group=GROUP))}))


def source_class(kind: str) -> Any:
    """The dataclass of a kind. Raises InputError where its package is broken."""
    if kind in SOURCES:
        return SOURCES[kind]
    point = _entry_point(kind)
    loaded = load_point(point)
    wrong = _what_is_wrong(loaded, kind)
    if wrong:
        raise InputError(
            f"{point.value} of {package_of(point)}, the source kind {kind!r}, is no source: {wrong}. Mend or remove "
            "that package."
        )
    return loaded


def defaults_of(source: Source) -> Defaults:
    """Return a source kind's own settings of the steps, for where a recipe says nothing else.

    >>> defaults_of(make_source({"kind": "bookcorpus", "path": "books"}))
    {'rules': {'gopher': {'max_words': 10000000}}}
    """
    defaults: Defaults = getattr(type(source), "defaults", {})
    return defaults


def takes_license(kind: str) -> bool:
    """Return True if a kind has a key `license` of its own, which it puts into its documents.

    >>> takes_license("wikipedia"), takes_license("files")
    (True, False)
    """
    return kind in kinds() and "license" in {field.name for field in dataclasses.fields(source_class(kind))}


def origin(kind: str) -> dict[str, str] | None:
    """Name and version of the package that a kind comes from; None for ours."""
    if kind in SOURCES:
        return None
    name, _, version = package_of(_entry_point(kind)).rpartition(" ")
    return {"distribution": name, "version": version}


def _entry_point(kind: str) -> EntryPoint:
    """The one entry point of a kind. Raises InputError where there is none, or where packages differ about it."""
    points = {(point.value, package_of(point)): point for point in entry_points(group=GROUP, name=kind)}
    if len(points) > 1:
        packages = " and ".join(sorted(f"{package} ({value})" for value, package in points))
        raise InputError(f"The source kind {kind!r} comes from {packages}. Remove all of these packages but one.")
    if not points:
        check_choice("source.kind", kind, kinds())
    return next(iter(points.values()))


def _what_is_wrong(candidate: Any, kind: str) -> str:
    """Return why an object is not a source of this kind; "" if it is one."""
    if not (isinstance(candidate, type) and dataclasses.is_dataclass(candidate)):
        return "it is not a dataclass"
    if not candidate.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return "it is not frozen"
    if getattr(candidate, "kind", None) != kind:
        return f"its `kind` is {getattr(candidate, 'kind', None)!r}"
    if type(getattr(candidate, "version", None)) is not int:
        return "it has no `version`, a whole number that is raised whenever its output changes"
    libraries = getattr(candidate, "libraries", None)
    if not (isinstance(libraries, tuple) and all(isinstance(name, str) for name in libraries)):
        return "it has no `libraries`, a tuple of the packages that decide its output"
    defaults = getattr(candidate, "defaults", {})
    if not (isinstance(defaults, Mapping) and all(isinstance(table, Mapping) for table in defaults.values())):
        return "its `defaults` are not tables of a recipe"
    if "name" not in {field.name for field in dataclasses.fields(candidate)}:
        return "it has no field `name`"
    missing = [method for method in METHODS if not callable(getattr(candidate, method, None))]
    return f"it has no method `{missing[0]}`" if missing else ""
