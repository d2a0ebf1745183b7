"""What a recipe says, each setting with its type and meaning; and values over it, as `--set` takes them.

    settings_of(table)          the settings of a recipe's TOML: a tree of tables, a leaf for each value
    overrides_of(given, table)  what somebody gave of them, as overrides: those that are not as the recipe says

Of several tables that share a key (`[[source]]`) each is called by its name, else by its number, as in a dotted key.
A setting that the recipe does not say is no leaf. Pure but for the imports.
"""

import dataclasses
import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from corpora.acquire.wanted import AcquireSettings
from corpora.errors import InputError
from corpora.judging.batches import STEP_TABLES
from corpora.judging.settings import DocumentsSettings
from corpora.sources.registry import SOURCES
from flows.recipes.bounds import BoundSettings
from flows.recipes.meanings import SETTINGS, meanings, self_telling
from flows.recipes.recipe import KEYS, SourceEntry
from shards.inputs import INPUTS
from shards.settings import USUAL, ShardSettings
from tokenizers_train.vocabularies.settings import BroughtVocabulary

Path = tuple[str, ...]
TOP = {
    "store": (str, "a folder, relative to the recipe, or s3://bucket/prefix"),
    "seed": (int, "the seed of every table that has none of its own"),
    "engine": (str, "where parts are built: local, or tcp://HOST:PORT of a Dask scheduler"),
}
LEFT_OUT = ("name", "step")  # a deployment is called by the name; steps of other packages have keys of their own
IDENTITY = ("name", "kind")  # of one of several tables: which one it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value of a recipe. hint: its type, None where nobody says; meaning: "" likewise"""

    key: str
    value: Any
    hint: Any
    meaning: str


Tree = dict[str, "Setting | Tree"]
Known = Mapping[str, tuple[Any, str]]  # key -> type, meaning


def settings_of(table: Mapping[str, Any]) -> Tree:
    """The settings that a recipe's table says, in its order; the store, seed and engine also where it does not."""
    usual = {"store": "store", "seed": 42, "engine": "local"}
    known = {**TOP, **{key: (kind, "") for key, kind in _kinds().items()}}
    wanted = {key: value for key, value in {**usual, **table}.items() if key in KEYS and key not in LEFT_OUT}
    return _tree(wanted, known, ())


def _kinds() -> dict[str, Any]:
    return {**SETTINGS, "source": None}


def _tree(table: Mapping[str, Any], known: Known, at: Path) -> Tree:
    tree: Tree = {}
    for key, value in table.items():
        if '"' in key:
            continue  # no dotted key could name it
        hint, meaning = known.get(key, (None, ""))
        if found := _node(value, hint, meaning, (*at, key)):
            tree[key] = found
    return tree


def _node(value: Any, hint: Any, meaning: str, at: Path) -> "Setting | Tree | None":
    """A leaf, or the tree of a table or of several; None for what holds nothing that JSON could say."""
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        named = {str(item.get("name", number)): item for number, item in enumerate(value, 1)}
        trees = {key: _tree(item, _known(item, hint, at), (*at, key)) for key, item in named.items()}
        return {key: _without(tree, IDENTITY) for key, tree in trees.items() if tree} or None
    if isinstance(value, dict):
        return _tree(value, _known(value, hint, at), at) or None
    if not _is_plain(value):
        return None
    return Setting(key=dotted(at), value=value, hint=hint, meaning=meaning)


def _without(tree: Tree, keys: Sequence[str]) -> Tree:
    return {key: node for key, node in tree.items() if key not in keys}


def _is_plain(value: Any) -> bool:
    """Whether JSON says a value as TOML does: a date it does not."""
    return all(map(_is_plain, value)) if isinstance(value, list) else isinstance(value, (str, int, float, bool))


def _known(value: Mapping[str, Any], hint: Any, at: Path) -> Known:
    """The keys that a table may have, as its dataclass says."""
    if at[0] == "source" and len(at) == 1:
        return _source_keys(value)
    if at[0] == "shards" and hint is ShardSettings:
        return {**keys_of(ShardSettings), **keys_of(INPUTS.get(str(value.get("input", USUAL)), ShardSettings))}
    if hint is BoundSettings and len(at) == 1:
        return dict.fromkeys(value, (BoundSettings, ""))
    for kind in _within(BroughtVocabulary if at[0] == "vocabulary" and "path" in value else hint):
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return keys_of(kind)
        if get_origin(kind) in (dict, Mapping):
            return dict.fromkeys(value, (get_args(kind)[1], ""))
    return {}


def _within(hint: Any) -> list[Any]:
    """The types that one is made of, itself first."""
    inner = get_args(hint) if get_origin(hint) in (types.UnionType, Union, tuple, list) else ()
    return [hint, *(deeper for each in inner for deeper in _within(each))]


def keys_of(kind: type) -> Known:
    """The keys of a settings dataclass, each with its type and meaning."""
    hints, told = get_type_hints(kind), meanings(kind)
    names = (field.name for field in dataclasses.fields(kind))
    return {name: (hints[name], told.get(name) or self_telling(name)) for name in names}


def _source_keys(table: Mapping[str, Any]) -> Known:
    """The keys that a `[[source]]` may have."""
    kind = SOURCES.get(str(table.get("kind")))
    tables = {name: (steps, "") for name, steps in STEP_TABLES.items()}
    own = {"documents": (DocumentsSettings, ""), "fetch": (AcquireSettings, "")}
    return {**keys_of(SourceEntry), **tables, **own, **(keys_of(kind) if kind is not None else {})}


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
    found: dict[str, str] = {}

    def compare(new: Any, old: "Setting | Tree | None", at: Path) -> None:
        if isinstance(new, dict) and not isinstance(old, Setting):
            for key, value in new.items():
                compare(value, (old or {}).get(key), (*at, key))
        elif new is not None and not (isinstance(old, Setting) and same(new, old.value)):
            found[dotted(at)] = toml(new)

    compare(dict(given), settings_of(table), ())
    return found


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
    found = {}
    for text in texts:
        key, equals, value = str(text).partition("=")
        if not equals:
            raise InputError(f"set: {text!r}: write it as key=value, as in duplicates.threshold=0.7.")
        found[key] = value
    return found
