"""Settings as facts: which of them determine bytes, and their checks.

A stage's settings are a frozen dataclass next to its owner. Every field enters the fingerprint, except one marked
as a `limit()` (it decides whether a run may continue, not its output) and one marked `added(neutral=...)` that
still has its neutral value, so that an upgrade which adds a setting rebuilds nothing.
"""

import dataclasses
import difflib
import math
import numbers
import tomllib
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from corpora.errors import InputError
from corpora.generic_types import Json

Settings = TypeVar("Settings")
LARGEST = (1 << 63) - 1  # as in TOML
MOST_NESTED = 100  # tables and lists in a file of settings
MOST_SUGGESTED = 20  # names in a message
LONGEST_SHOWN = 60  # characters of a name, which may be the text of a file without a header


def limit(default: Any) -> Any:
    """A field that bounds a run and determines no bytes."""
    return dataclasses.field(default=default, metadata={"limit": True})


def added(neutral: Any) -> Any:
    """A field that came later: left out of fingerprints while it has its neutral value, which is the default."""
    return dataclasses.field(default=neutral, metadata={"neutral": neutral})


def added_table(kind: type[Settings]) -> Any:
    """A table of settings that came later: left out of fingerprints while it is as it comes."""
    return dataclasses.field(default_factory=kind, metadata={"neutral": kind()})


def toml_table(text: str) -> dict[str, Any]:
    """The table that a TOML text is, a byte order mark before it passed over.

    Raises ValueError, also for tables in tables in tables that no settings could be.
    """
    try:
        table = tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError as error:
        raise ValueError("its values are nested too deep") from error
    level: list[Any] = [table]
    for _ in range(MOST_NESTED):
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [value for values in inner for value in values if isinstance(value, (dict, list))]
    if level:
        raise ValueError(f"its tables and lists are nested more than {MOST_NESTED} deep")
    return table


def settings_json(settings: Any) -> dict[str, Json]:
    """The determining fields of a settings dataclass, nested ones included.

    >>> @dataclasses.dataclass
    ... class Example:
    ...     rate: float = 0.15
    ...     patience: int = limit(3)
    >>> settings_json(Example())
    {'rate': 0.15}
    """
    result: dict[str, Json] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        neutral = "neutral" in field.metadata and field.metadata["neutral"] == value
        if not field.metadata.get("limit") and not neutral:
            result[field.name] = _plain(value)
    return result


def _plain(value: Any) -> Json:
    if hasattr(value, "to_json"):
        plain: Json = value.to_json()
        return plain
    if dataclasses.is_dataclass(value):
        return settings_json(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


class Number(NamedTuple):
    """A kind of number, with the same bounds as an option, as a key of a recipe and as an argument in Python.

    >>> str(PORT), str(SHARE)
    ('a whole number from 1 to 65,535', 'a number from 0 to 1')
    """

    kind: type[int] | type[float]
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_NAMES[self.kind]} from {self.low:,} to {self.high:,}"

    def holds(self, value: Any) -> bool:
        """Return whether a value is such a number."""
        number = isinstance(value, numbers.Integral if self.kind is int else numbers.Real)
        return number and not isinstance(value, bool) and bool(self.low <= value <= self.high)

    def check(self, key: str, value: Any) -> None:
        """Raise InputError unless a value is such a number."""
        if not self.holds(value):
            raise InputError(f"{key} = {value!r} is out of range: it must be {self}.")


PROCESSES = Number(int, 1, 4_096)  # of a run, or machines of a training
COUNT = Number(int, 1, 10**9)  # of things to show, to keep or to make
POSITION = Number(int, 0, LARGEST)  # of one of many, from 0; or a number of things that may be none
EPOCH = Number(int, 0, 1 << 32)
SECONDS = Number(int, 1, 10**9)
PORT = Number(int, 1, 65_535)
DAYS = Number(float, 0, 36_500)
SHARE = Number(float, 0, 1)


def check_range(key: str, value: float, low: float, high: float = math.inf, remedy: str = "") -> None:
    """Raise InputError unless low <= value <= high.

    remedy: what the message says after the key and the value, where the bounds do not make clear what to do
    """
    if not low <= value <= high:
        if remedy:
            raise InputError(f"{key} is {value}{remedy}")
        raise InputError(f"{key} = {value} is out of range: it must be between {low} and {high}.")


def check_choice(key: str, value: str, choices: Collection[str]) -> None:
    """Raise InputError unless the value is one of the choices."""
    if value not in choices:
        raise InputError(f"{key} = {value!r} is not known: {suggest(value, choices)}")


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about a name that is not known: the nearest one, and which there are.

    >>> suggest("pages", ["book", "page"]), suggest("x", ["book", "page"])
    ("did you mean 'page'? It must be one of 'book', 'page'.", "it must be one of 'book', 'page'.")
    """
    names = list(dict.fromkeys(known))
    nearest = difflib.get_close_matches(word, names, 1, 0.5)
    shown = [name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}..." for name in names[:MOST_SUGGESTED]]
    listed = ", ".join(map(repr, shown))
    more = f" and {len(names) - MOST_SUGGESTED:,} more" if len(names) > MOST_SUGGESTED else ""
    return f"{f'did you mean {nearest[0]!r}? It' if nearest else 'it'} must be one of {listed or 'none'}{more}."


def bind(kind: type[Settings], table: Mapping[str, Json], where: str) -> Settings:
    """A settings dataclass from a table of a recipe: strict about keys and types.

    where: the table's name in the recipe, for messages (`duplicates`, `source[2]`)
    Raises InputError for an unknown key (naming the nearest known one), a missing one and a wrong type.
    """
    kinds, needed = _fields(kind)  # type: ignore[arg-type]
    check_keys(table, kinds, where)
    values = {key: convert(value, kinds[key], f"{where}.{key}") for key, value in table.items()}
    if missing := [name for name in needed if name not in values]:
        raise InputError(f"{where} lacks the key {missing[0]!r}: it has no default, so it must be given.")
    return kind(**values)


@cache
def _fields(kind: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the types of a dataclass's fields by name, and the names of those without a default."""
    hints, fields = get_type_hints(kind), dataclasses.fields(kind)
    needed = (field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING)
    return {field.name: hints[field.name] for field in fields}, tuple(needed)


def check_keys(keys: Iterable[str], known: Collection[str], where: str) -> None:
    """Raise InputError for a key that is not known. where: what would have it, for the message"""
    for key in keys:
        if key not in known:
            raise InputError(f"{where} has no key {key!r}: {suggest(key, known)}")


def convert(value: Json, kind: Any, where: str) -> Any:
    """A value of a recipe as the type that its setting has. Raises InputError where it is of another."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, Mapping):
            raise InputError(f"{where} must be a table of settings, not {value!r}.")
        return bind(kind, value, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, typing.Union):
        inner = [argument for argument in arguments if argument is not type(None)]
        fitting = [argument for argument in inner if _is_of(value, argument)]
        return None if value is None else convert(value, [*fitting, *inner][0], where)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise InputError(f"{where} must be a list, not {value!r}.")
        kinds = [arguments[0]] * len(value) if arguments[1:] == (...,) else list(arguments)
        if len(kinds) != len(value):
            raise InputError(f"{where} must be a list of {len(kinds)} values, not of {len(value)}.")
        return tuple(
            convert(item, each, f"{where}[{n}]") for n, (item, each) in enumerate(zip(value, kinds, strict=True))
        )
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise InputError(f"{where} must be a table, not {value!r}.")
        return {key: convert(item, arguments[1], f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        raise InputError(f"{where} is a number of {len(str(value))} digits, which nothing here counts with: lower it.")
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise InputError(f"{where} = {value!r} is not a number to count with: give a finite one.")
        return float(value)
    if kind is not Any and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise InputError(f"{where} = {value!r} is of the wrong type: it must be {_NAMES.get(kind, kind.__name__)}.")
    return value


def _is_of(value: Json, kind: Any) -> bool:
    """True if a value of a recipe is of the kind of one of several types: a list, a table, a text, a number."""
    if dataclasses.is_dataclass(kind):
        return isinstance(value, Mapping)
    return isinstance(value, (list, tuple)) if get_origin(kind) is tuple else type(value) is kind


_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
