"""The kinds of sources by name, and a source made from a recipe's `[[source]]` table.

A kind is a frozen dataclass that satisfies `Source`; its fields are the table's keys.
"""

import dataclasses
import difflib
import types
from collections.abc import Iterable, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

from corpora.errors import InputError
from corpora.sources.files import FilesSource
from corpora.sources.python_docs import PythonDocsSource
from corpora.sources.source import Source
from corpora.sources.wikipedia import WikipediaSource
from corpora.store.manifest import Json

SOURCES: dict[str, Any] = {source.kind: source for source in (FilesSource, PythonDocsSource, WikipediaSource)}


def make_source(table: Mapping[str, Json]) -> Source:
    """The source that a table describes. Raises InputError: unknown kind or key, missing key, wrong type.

    >>> make_source({"kind": "files", "name": "tickets", "path": "raw/tickets"}).name
    'tickets'
    """
    kind = table.get("kind")
    if kind is None:
        raise InputError(f"A [[source]] has no `kind`. Set it to one of {', '.join(sorted(SOURCES))}.")
    if kind not in SOURCES:
        raise InputError(f"[[source]] kind = {kind!r} is not known. {_nearest(str(kind), SOURCES)}")
    made = SOURCES[kind]
    fields = {field.name: field for field in dataclasses.fields(made)}
    given = {key: value for key, value in table.items() if key != "kind"}
    for key in given:
        if key not in fields:
            raise InputError(f"[[source]] of kind {kind!r} has no key {key!r}. {_nearest(key, fields)}")
    for key, field in fields.items():
        if key not in given and _is_required(field):
            raise InputError(f"[[source]] of kind {kind!r} needs the key {key!r}. Add it to the table.")
    hints = get_type_hints(made)
    source: Source = made(**{key: _checked(kind, key, value, hints[key]) for key, value in given.items()})
    return source


def _nearest(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(word, names, 1)
    return f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(names)}."


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _checked(kind: str, key: str, value: Json, hint: Any) -> Any:
    """A TOML value as its field's type: arrays become tuples. Raises InputError."""
    if not _fits(value, hint):
        raise InputError(
            f"[[source]] of kind {kind!r}: {key} = {value!r} is {_called(type(value))}, but should be "
            f"{_expected(hint)}."
        )
    return tuple(value) if isinstance(value, list) else value


def _fits(value: Json, hint: Any) -> bool:
    """Whether a TOML value can stand for a field's type: X, tuple[X, ...], Mapping[str, X], X | None."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments if argument is not type(None))
    if origin is tuple:
        return isinstance(value, (list, tuple)) and all(_fits(item, arguments[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(item, arguments[1]) for item in value.values())
    return type(value) is hint


NAMES = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
    list: "an array",
    dict: "a table",
}


def _called(kind: Any) -> str:
    return NAMES.get(kind, f"a {kind.__name__}")


def _expected(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_expected(argument) for argument in arguments if argument is not type(None))
    if origin is tuple:
        return f"an array, each item {_called(arguments[0])}"
    if origin is Mapping:
        return f"a table, each value {_called(arguments[1])}"
    return _called(hint)
