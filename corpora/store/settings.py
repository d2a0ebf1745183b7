"""Settings: which of them determine an artifact's bytes, and how they are checked.

A stage's settings are a frozen dataclass next to its owner. Every field enters the fingerprint, except one marked with
`limit_field` (it decides whether a run may continue, not its output) and one marked with `later_field` that still has
its neutral value, so that an upgrade which adds a setting rebuilds nothing.
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
MAX_INTEGER = (1 << 63) - 1  # as in TOML
MAX_NESTING = 100  # tables and lists in a file of settings
MAX_SUGGESTIONS = 20  # names in a message
MAX_SHOWN_CHARACTERS = 60  # characters of a name, which may be the text of a file without a header


def limit_field(default: Any) -> Any:
    """Declare a setting that limits a run without affecting its output, so that it is omitted from fingerprints.

    Args:
        default: The default value.

    Returns:
        The field of a dataclass.
    """
    return dataclasses.field(default=default, metadata={"limit": True})


def later_field(neutral: Any) -> Any:
    """Declare a setting that was added in a later version. Fingerprints omit it while it has its default value.

    Artifacts that were built before the setting existed therefore keep their fingerprints.

    Args:
        neutral: The default value. With this value, the output must be the same as in versions without the setting.

    Returns:
        The field of a dataclass.
    """
    return dataclasses.field(default=neutral, metadata={"neutral": neutral})


def later_table(kind: type[Settings]) -> Any:
    """Declare a nested settings dataclass that was added in a later version.

    It is omitted from fingerprints while all of its settings have their default values.

    Args:
        kind: The dataclass; all of its fields need defaults.

    Returns:
        The field of a dataclass.
    """
    return dataclasses.field(default_factory=kind, metadata={"neutral": kind()})


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML text to a dictionary. A byte order mark at the beginning is ignored.

    Raises:
        ValueError: If the text is not valid TOML, or if tables and lists are nested more than MAX_NESTING levels deep.
    """
    try:
        table = tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError as error:
        raise ValueError("its values are nested too deep") from error
    level: list[Any] = [table]
    for _ in range(MAX_NESTING):
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [value for values in inner for value in values if isinstance(value, (dict, list))]
    if level:
        raise ValueError(f"its tables and lists are nested more than {MAX_NESTING} deep")
    return table


def to_settings_json(settings: Any) -> dict[str, Json]:
    """Convert settings to the JSON value used in a fingerprint. Nested dataclasses are included.

    Omits fields declared with `limit_field`, and fields declared with `later_field` or `later_table` that have their
    default value.

    >>> @dataclasses.dataclass
    ... class Example:
    ...     rate: float = 0.15
    ...     patience: int = limit_field(3)
    >>> to_settings_json(Example())
    {'rate': 0.15}
    """
    result: dict[str, Json] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        neutral = "neutral" in field.metadata and field.metadata["neutral"] == value
        if not field.metadata.get("limit") and not neutral:
            result[field.name] = _to_json(value)
    return result


def _to_json(value: Any) -> Json:
    if hasattr(value, "to_json"):
        plain: Json = value.to_json()
        return plain
    if dataclasses.is_dataclass(value):
        return to_settings_json(value)
    if isinstance(value, Mapping):
        return {key: _to_json(item) for key, item in value.items()}
    return [_to_json(item) for item in value] if isinstance(value, (list, tuple)) else value


class NumberRange(NamedTuple):
    """The valid range of a number, used for command-line options, recipe keys and function arguments.

    Attributes:
        kind: `int` for whole numbers, `float` for any real number.
        low: The smallest valid number.
        high: The largest valid number.

    >>> str(PORT), str(SHARE)
    ('a whole number from 1 to 65,535', 'a number from 0 to 1')
    """

    kind: type[int] | type[float]
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_NAMES[self.kind]} from {self.low:,} to {self.high:,}"

    def is_valid(self, value: Any) -> bool:
        """Return True if a value is a number of this kind and in the range. Booleans and NaN are not valid."""
        number = isinstance(value, numbers.Integral if self.kind is int else numbers.Real)
        return number and not isinstance(value, bool) and bool(self.low <= value <= self.high)

    def check(self, key: str, value: Any) -> None:
        """Check that a value is a number of this kind and in the range. `key` is its name in the error message.

        Raises:
            InputError: If it is not. Booleans and NaN are not valid.
        """
        if not self.is_valid(value):
            raise InputError(f"{key} = {value!r} is out of range: it must be {self}.")


PROCESSES = NumberRange(int, 1, 4_096)  # of a run, or machines of a training
COUNT = NumberRange(int, 1, 10**9)  # of things to show, to keep or to make
POSITION = NumberRange(int, 0, MAX_INTEGER)  # of one of many, from 0; or a number of things that may be none
EPOCH = NumberRange(int, 0, 1 << 32)
SECONDS = NumberRange(int, 1, 10**9)
PORT = NumberRange(int, 1, 65_535)
DAYS = NumberRange(float, 0, 36_500)
SHARE = NumberRange(float, 0, 1)


def check_range(key: str, value: float, low: float, high: float = math.inf, remedy: str = "") -> None:
    """Check that low <= value <= high.

    Args:
        key: Name of the value, for the error message.
        value: The value to check.
        low: The smallest valid value.
        high: The largest valid value (default: no limit).
        remedy: Text that follows the key and the value in the message (default: the valid range).

    Raises:
        InputError: If the value is not in the range, or is NaN.
    """
    if not low <= value <= high:
        if remedy:
            raise InputError(f"{key} is {value}{remedy}")
        raise InputError(f"{key} = {value} is out of range: it must be between {low} and {high}.")


def check_choice(key: str, value: str, choices: Collection[str]) -> None:
    """Check that a value is one of the choices.

    Args:
        key: Name of the value, for the error message.
        value: The value to check.
        choices: The valid values.

    Raises:
        InputError: If it is not. The message lists the choices, and suggests the most similar one.
    """
    if value not in choices:
        raise InputError(f"{key} = {value!r} is not known: {suggest(value, choices)}")


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name: the most similar known name, and the valid names.

    At most MAX_SUGGESTIONS names are listed, and long names are truncated.

    >>> suggest("pages", ["book", "page"]), suggest("x", ["book", "page"])
    ("did you mean 'page'? It must be one of 'book', 'page'.", "it must be one of 'book', 'page'.")
    """
    names = list(dict.fromkeys(known))
    nearest = difflib.get_close_matches(word, names, 1, 0.5)
    shown = [
        name if len(name) <= MAX_SHOWN_CHARACTERS else f"{name[:MAX_SHOWN_CHARACTERS]}..."
        for name in names[:MAX_SUGGESTIONS]
    ]
    listed = ", ".join(map(repr, shown))
    more = f" and {len(names) - MAX_SUGGESTIONS:,} more" if len(names) > MAX_SUGGESTIONS else ""
    return f"{f'did you mean {nearest[0]!r}? It' if nearest else 'it'} must be one of {listed or 'none'}{more}."


def bind_settings(kind: type[Settings], table: Mapping[str, Json], table_name: str) -> Settings:
    """Create a settings dataclass from a table of a recipe.

    Args:
        kind: The dataclass to create. The types of its fields determine which values are valid.
        table: The parsed table.
        table_name: Name of the table in the recipe, for messages, e.g. `duplicates` or `source[2]`.

    Raises:
        InputError: If a key is unknown or missing, or if a value has the wrong type.

    Exceptions raised by the dataclass itself are propagated unchanged.
    """
    types_by_key, required = _list_fields(kind)  # type: ignore[arg-type]
    check_keys(table, types_by_key, table_name)
    values = {key: convert_value(value, types_by_key[key], f"{table_name}.{key}") for key, value in table.items()}
    if missing := [name for name in required if name not in values]:
        raise InputError(f"{table_name} lacks the key {missing[0]!r}: it has no default, so it must be given.")
    return kind(**values)


@cache
def _list_fields(kind: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the type of each field of a dataclass by name, and the names of the fields without a default."""
    hints, fields = get_type_hints(kind), dataclasses.fields(kind)
    required = (field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING)
    return {field.name: hints[field.name] for field in fields}, tuple(required)


def check_keys(keys: Iterable[str], known: Collection[str], owner: str) -> None:
    """Check that all keys of a table are known.

    Args:
        keys: The keys to check.
        known: The valid keys.
        owner: A description of the table, for the error message.

    Raises:
        InputError: For the first unknown key. The message suggests a similar known key.
    """
    for key in keys:
        if key not in known:
            raise InputError(f"{owner} has no key {key!r}: {suggest(key, known)}")


def convert_value(value: Json, kind: Any, name: str) -> Any:
    """Convert a value of a recipe to the type of its setting, including the values nested in it.

    Args:
        value: The parsed value.
        kind: The type annotation of the setting: a dataclass, tuple, mapping, union or plain type.
        name: Name of the value, for messages.

    Returns:
        An instance of the type. Lists become tuples, tables become dataclasses or dictionaries, and an integer becomes
        a float if the setting is a float.

    Raises:
        InputError: If the value has the wrong type, is not finite, or is an integer that does not fit in 64 bits.
    """
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, Mapping):
            raise InputError(f"{name} must be a table of settings, not {value!r}.")
        return bind_settings(kind, value, name)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, typing.Union):
        inner = [argument for argument in arguments if argument is not type(None)]
        fitting = [argument for argument in inner if _is_of_kind(value, argument)]
        return None if value is None else convert_value(value, [*fitting, *inner][0], name)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise InputError(f"{name} must be a list, not {value!r}.")
        kinds = [arguments[0]] * len(value) if arguments[1:] == (...,) else list(arguments)
        if len(kinds) != len(value):
            raise InputError(f"{name} must be a list of {len(kinds)} values, not of {len(value)}.")
        return tuple(
            convert_value(item, each, f"{name}[{n}]") for n, (item, each) in enumerate(zip(value, kinds, strict=True))
        )
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise InputError(f"{name} must be a table, not {value!r}.")
        return {key: convert_value(item, arguments[1], f"{name}.{key}") for key, item in value.items()}
    if isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise InputError(f"{name} is a number of {len(str(value))} digits, which nothing here counts with: lower it.")
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise InputError(f"{name} = {value!r} is not a number to count with: give a finite one.")
        return float(value)
    if kind is not Any and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise InputError(f"{name} = {value!r} is of the wrong type: it must be {_NAMES.get(kind, kind.__name__)}.")
    return value


def _is_of_kind(value: Json, kind: Any) -> bool:
    """Return True if a recipe value matches the type `kind`, one member of a union. Nested values are not checked."""
    if dataclasses.is_dataclass(kind):
        return isinstance(value, Mapping)
    return isinstance(value, (list, tuple)) if get_origin(kind) is tuple else type(value) is kind


_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
