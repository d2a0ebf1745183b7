"""What a recipe says, as values that a form can show; and values over it, as `--set` takes them.

    settings_of(table)          the settings of a recipe's TOML, nested: those that JSON could say
    overrides_of(given, table)  what somebody gave of them, as overrides: those that are not as the recipe says
    pairs_of(texts)             pairs as `--set` has them

Of several tables that share a key (`[[source]]`) each is called by its name, else by its number, as in a dotted key.
Pure but for the imports.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from corpora.errors import InputError
from flows.recipes.recipe import KEYS

USUAL = {"store": "store", "seed": 42, "engine": "local"}  # also where the recipe does not say them
LEFT_OUT = ("name", "step")  # a deployment is called by the name; steps of other packages have keys of their own
IDENTITY = ("name", "kind")  # of one of several tables: which one it is
Settings = dict[str, Any]


def settings_of(table: Mapping[str, Any]) -> Settings:
    """The settings that a recipe's table says, in its order; the store, seed and engine also where it does not."""
    return _shown({key: value for key, value in {**USUAL, **table}.items() if key in KEYS and key not in LEFT_OUT})


def _shown(table: Mapping[str, Any]) -> Settings:
    """A table without what a form cannot show: what JSON does not say, and keys that no dotted key could name."""
    values = {key: _value(value) for key, value in table.items() if '"' not in key}
    return {key: value for key, value in values.items() if value is not None and value != {}}


def _value(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        named = {str(item.get("name", number)): item for number, item in enumerate(value, 1)}
        return _shown({key: _without_identity(item) for key, item in named.items()})
    if isinstance(value, dict):
        return _shown(value)
    return value if _is_plain(value) else None


def _without_identity(table: Settings) -> Settings:
    return {key: value for key, value in table.items() if key not in IDENTITY}


def _is_plain(value: Any) -> bool:
    """Whether JSON says a value as TOML does: a date it does not."""
    return all(map(_is_plain, value)) if isinstance(value, list) else isinstance(value, (str, int, float, bool))


def dotted(at: Sequence[str]) -> str:
    """A key as `--set` takes it.

    >>> dotted(["source", "2026.11", "path"])
    'source."2026.11".path'
    """
    return ".".join(f'"{part}"' if "." in part else part for part in at)


def toml(value: Any) -> str:
    """A value as TOML writes it, on one line.

    >>> toml(["a", 1.5, True]), toml({"a b": "x"})
    ('["a", 1.5, true]', '{"a b" = "x"}')
    """
    if isinstance(value, dict):
        return f"{{{', '.join(f'{toml(str(key))} = {toml(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def overrides_of(given: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, str]:
    """Values that somebody gave, as overrides of a recipe's table: those that are not as it says now.

    None is as the recipe says.
    """
    overrides: dict[str, str] = {}

    def compare(new: Any, old: Any, at: tuple[str, ...]) -> None:
        if isinstance(new, dict) and (old is None or isinstance(old, dict)):
            for key, value in new.items():
                compare(value, (old or {}).get(key), (*at, key))
        elif new is not None and not same(new, old):
            overrides[dotted(at)] = toml(new)

    compare(dict(given), settings_of(table), ())
    return overrides


def same(first: Any, second: Any) -> bool:
    """Whether two values are one to a recipe: 1 is 1.0, and no truth.

    >>> same(1, 1.0), same(1, True), same([1], [1, 2])
    (True, False, False)
    """
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def pairs_of(texts: Sequence[str]) -> dict[str, str]:
    """The pairs of a list of key=value. Raises InputError."""
    pairs = {}
    for text in texts:
        key, equals, value = str(text).partition("=")
        if not equals:
            raise InputError(f"set: {text!r}: write it as key=value, as in duplicates.threshold=0.7.")
        pairs[key] = value
    return pairs
