"""A recipe's settings as values that a form can show, and changed values as overrides like those of `--set`.

    settings_of(table)          the settings of a recipe's TOML, nested: those that JSON could express
    overrides_of(given, table)  given values as overrides: those that differ from the recipe
    pairs_of(texts)             pairs as `--set` has them

Of several tables that share a key (`[[source]]`) each is addressed by its name, else by its number, as in a dotted key.
Pure but for the imports.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from corpora.errors import InputError
from flows.recipes.recipe import KEYS
from flows.recipes.tables import dotted, toml

USUAL = {"store": "store", "seed": 42, "engine": "local"}  # shown also where the recipe does not set them
LEFT_OUT = ("name", "step")  # a deployment has the name already; steps of other packages have keys of their own
IDENTITY = ("name", "kind")  # of one of several tables: which one it is
Settings = dict[str, Any]


def settings_of(table: Mapping[str, Any]) -> Settings:
    """Return the settings that a recipe's table has, in its order; the store, seed and engine even if it has none."""
    return _shown({key: value for key, value in {**USUAL, **table}.items() if key in KEYS and key not in LEFT_OUT})


def _shown(table: Mapping[str, Any]) -> Settings:
    """Return a table without what a form cannot show: what JSON cannot express, and keys outside dotted names."""
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
    """Return whether JSON has the same value as TOML: it has no dates."""
    return all(map(_is_plain, value)) if isinstance(value, list) else isinstance(value, (str, int, float, bool))


def overrides_of(given: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, str]:
    """Return the given values that differ from a recipe's table, as overrides of it.

    None means the recipe's own value.
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
    """Return whether two values are the same to a recipe: 1 is 1.0, but not true.

    >>> same(1, 1.0), same(1, True), same([1], [1, 2])
    (True, False, False)
    """
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def pairs_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the pairs of a list of key=value. Raises InputError."""
    pairs = {}
    for text in texts:
        key, equals, value = str(text).partition("=")
        if not equals:
            raise InputError(f"set: {text!r}: write it as key=value, as in duplicates.threshold=0.7.")
        pairs[key] = value
    return pairs
