"""The tables of a recipe before they are checked: the TOML with overrides applied and paths resolved.

Promise: only `apply_override` changes the table that it is given. A table that is not allowed is an InputError that
names the key, the value and what would work.
"""

import json
import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.store.places.address import normalize_address
from corpora.store.places.place import Place
from corpora.store.settings import parse_toml, suggest
from flows.recipes.privacy import to_printable
from flows.recipes.punctuation import locate_labels

MAX_NAME_BYTES = 150  # of the 255 that a file system allows: a part's file has its source's name and more


def read_recipe_texts(folder: str) -> dict[str, str]:
    """Read the recipes in a folder of this package, and return their TOML texts by recipe name.

    Args:
        folder: "shipped", "templates" or "published".
    """
    place = files("flows.recipes") / folder
    names = sorted(file.name for file in place.iterdir() if file.name.endswith(".toml"))
    return {name.removesuffix(".toml"): (place / name).read_text(encoding="utf-8") for name in names}


def parse_override(text: str, option: str = "--set") -> tuple[str, str]:
    """Split a `key=value` argument of `--set` or `--column` into key and value.

    Args:
        text: The argument.
        option: Name of the option, for the message.

    Raises:
        InputError: If there is no "=".
    """
    key, equals, value = text.partition("=")
    if not equals:
        example = "text=sentence" if option == "--column" else "duplicates.threshold=0.7"
        raise InputError(f"{option} {text}: write it as key=value, as in {option} {example}.")
    return key, value


def apply_override(table: dict[str, Any], key: str, value: str) -> None:
    """Set one value in a recipe's tables, in place.

    In a list of tables, such as several sources, a table is addressed by name or by one-based number, as in
    `source.tickets.fields.text`. If the list has only one table, its name may be omitted. A name that contains a dot
    must be quoted. Missing tables are created.

    Args:
        table: The recipe's tables; changed in place.
        key: Dotted key.
        value: The value as TOML, or an unquoted string.

    Raises:
        InputError: If the key leads through something that is not a table, or is ambiguous between several tables.
    """
    *parents, last = split_key(key)
    place: dict[str, Any] = table
    rest = list(parents)
    while rest:
        child = place.setdefault(rest.pop(0), {})
        if isinstance(child, list):
            child = _select_table(child, rest, last, f"--set {key}={value}")
        if not isinstance(child, dict):
            raise InputError(f"--set {key}={value}: {parents[-len(rest) - 1]} is not a table of settings.")
        place = child
    place[last] = parse_setting(value)


def parse_setting(text: Any) -> Any:
    """Parse the value of a setting as TOML.

    A string that is not valid TOML is returned unchanged, as is a value that is not a string.

    >>> parse_setting("0.5"), parse_setting("news")
    (0.5, 'news')
    """
    if not isinstance(text, str):
        return text
    try:
        return parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text


def _select_table(tables: list[Any], rest: list[str], last: str, option: str) -> Any:
    """Return the table whose name or number is the first item of `rest`, and remove this item from `rest`.

    If the first item matches no table and there is only one table, that table is returned and `rest` stays unchanged.

    Args:
        tables: The tables, such as the recipe's sources.
        rest: The remaining parts of the dotted key, without its last part.
        last: The last part of the dotted key, for the message.
        option: The option as given, for the message.

    Raises:
        InputError: If no table matches and there are several.
    """
    which = rest[0] if rest else ""
    named = [table for table in tables if isinstance(table, dict) and table.get("name") == which]
    numbered = tables[int(which) - 1 : int(which)] if which.isdecimal() and int(which) else []
    for match in (*named, *numbered):
        rest.pop(0)
        return match
    if len(tables) == 1:
        return tables[0]
    names = ", ".join(str(table.get("name", number)) for number, table in enumerate(tables, 1) if hasattr(table, "get"))
    raise InputError(
        f"{option}: there are {len(tables)} such tables: pick one, by its name or number before {which or last!r} "
        f"({names or 'none'})."
    )


def split_key(key: str) -> list[str]:
    """Split a dotted key into its parts. A part that contains a dot must be quoted.

    >>> split_key("source.tickets.fields.text"), split_key('source."2026.11".path')
    (['source', 'tickets', 'fields', 'text'], ['source', '2026.11', 'path'])
    """
    return [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|([^."]+)', key)] or [key]


def join_key(parts: Sequence[str]) -> str:
    """Join parts into a dotted key for `--set`. Parts that contain a dot are quoted.

    >>> join_key(["source", "2026.11", "path"])
    'source."2026.11".path'
    """
    return ".".join(f'"{part}"' if "." in part else part for part in parts)


def iter_settings(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values of a table and its nested tables, as (dotted key, value).

    >>> list(iter_settings({"gopher": {"min_words": 3}, "enabled": True}))
    [('gopher.min_words', 3), ('enabled', True)]
    """
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{rest}", leaf) for rest, leaf in iter_settings(value))
        else:
            yield key, value


def iter_toml_lines(tables: Mapping[str, Any]) -> Iterator[str]:
    """Yield a recipe's tables as lines of TOML, with top-level values first.

    >>> print("\\n".join(iter_toml_lines({"step": [{"kind": "mine"}], "rules": {"c4": {"enabled": False}}, "seed": 7})))
    seed = 7
    [[step]]
    kind = "mine"
    [rules]
    c4.enabled = false
    """
    several = {
        key: isinstance(value, list) and all(isinstance(v, Mapping) for v in value) for key, value in tables.items()
    }
    yield from _iter_toml_pairs({k: v for k, v in tables.items() if not (several[k] or isinstance(v, Mapping))})
    for key, value in tables.items():
        for table in value if several[key] else [value] if isinstance(value, Mapping) else []:
            yield f"[[{key}]]" if several[key] else f"[{key}]"
            yield from _iter_toml_pairs(table)


def _iter_toml_pairs(table: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key} = {to_toml(value)}" for key, value in iter_settings(table))


def to_toml(value: Any) -> str:
    """Format a value as a single line of TOML.

    >>> to_toml(["a", 1.5, True]), to_toml({"a b": "x"})
    ('["a", 1.5, true]', '{"a b" = "x"}')
    """
    if isinstance(value, dict):
        return f"{{{', '.join(f'{to_toml(str(key))} = {to_toml(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(to_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def check_name(key: str, name: Any) -> None:
    """Check that a value can be used as a folder name in the store.

    Args:
        key: The setting that holds the name, for messages.
        name: The value to check.

    Raises:
        InputError: If the value is not a string, is empty, contains a slash or control character, begins with a dot, or
            is longer than MAX_NAME_BYTES.
    """
    if not isinstance(name, str) or not name or "/" in name or name.startswith("."):
        raise InputError(f"{key} = {name!r} must be a text without slashes that does not begin with a dot.")
    if to_printable(name) != name or len(name.splitlines()) > 1:
        raise InputError(f"{key} = {name!r} holds a character that acts on a terminal: leave it out.")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InputError(
            f"{key} = {name[:40]!r}... is longer than {MAX_NAME_BYTES} bytes, and files are named after it: shorten it."
        )


def find_repeated_name(names: Sequence[str]) -> str | None:
    """Return the first name that looks the same as a later name, or None if all names differ.

    Names are compared in Unicode normal form C, because an accented letter can be one character or two.

    >>> find_repeated_name(["tea", "caf\\xe9", "cafe\\u0301"])
    'caf\xe9'
    """
    looks = [unicodedata.normalize("NFC", name) for name in names]
    times = Counter(looks)
    return next((name for name, look in zip(names, looks, strict=True) if times[look] > 1), None)


def get_table(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the table stored under `key`, or {} if the key is missing.

    Args:
        table: The whole recipe, as `tomllib` reads it.
        key: The key.

    Raises:
        InputError: If the value is not a table.
    """
    section = table.get(key, {})
    if not isinstance(section, dict):
        raise InputError(f"{key} = {section!r} must be a table of settings: [{key}].")
    return section


def read_named_tables(table: Mapping[str, Any], key: str) -> list[tuple[str, dict[str, Any], str]]:
    """Return the tables stored under `key`, which holds either one table or a list of named tables.

    Args:
        table: The whole recipe, as `tomllib` reads it.
        key: The key, such as "shards".

    Returns:
        A (name, settings, label) tuple for each table: its name ("" for a single table that is not in a list), its
        other settings, and the label to use for it in messages.

    Raises:
        InputError: If a table in the list has no name, two tables have the same name, or the list is empty.
    """
    section = table.get(key, {})
    if not isinstance(section, list):
        return [("", get_table(table, key), key)]
    tables = []
    for number, entry in enumerate(section, 1):
        if not isinstance(entry, dict) or "name" not in entry:
            raise InputError(f"{key} {number} has no `name`: where there are several [[{key}]], each has one.")
        check_name(f"{key} {number}: name", entry["name"])
        rest = {name: value for name, value in entry.items() if name != "name"}
        tables.append((entry["name"], rest, f"{key} {entry['name']!r}"))
    names = [name for name, _, _ in tables]
    twice = find_repeated_name(names)
    if twice is not None or not names:
        problem = f"two [[{key}]] are named {twice!r}" if names else f"there is no [[{key}]] in the list"
        raise InputError(f"{problem}: give each a name of its own, or write one table [{key}].")
    return tables


def choose_table(value: Any, choices: Sequence[str], key: str, what: str) -> str:
    """Return the name of the table that a setting refers to.

    Args:
        value: The setting. It may be missing (None) if there is only one table.
        choices: Names of the tables.
        key: Name of the setting, for messages.
        what: Key of the tables, for messages.

    Raises:
        InputError: If no table has this name, or the setting is missing and there are several tables.
    """
    if value is None and len(choices) == 1:
        return choices[0]
    if value in choices:
        return str(value)
    if value is None:
        names = ", ".join(map(repr, choices))
        raise InputError(f"{key} is missing: there are several [[{what}]], so name one: {names}.")
    raise InputError(f"{key} = {value!r} is not one of the [[{what}]]: {suggest(str(value), choices)}")


def resolve_paths(key: str, section: Any, recipe: Path) -> Any:
    """Return a recipe's table with its relative paths resolved against the recipe's folder.

    Contamination sets given as a path become tables with the key `path`. A value that is not a table is returned
    unchanged.

    Args:
        key: Name of the table. It determines which of its settings are paths.
        section: The table.
        recipe: Path of the recipe file.
    """
    if not isinstance(section, Mapping):
        return section
    if key == "selection" and isinstance(section.get("questions"), list):
        return {
            **section,
            "questions": [resolve_path(p, recipe) if isinstance(p, str) else p for p in section["questions"]],
        }
    if key == "training" and not str(section.get("continue_from") or "models/").startswith("models/"):
        return {**section, "continue_from": resolve_path(str(section["continue_from"]), recipe)}
    if key == "contamination" and isinstance(section.get("sets"), list):
        sets = [{"path": one} if isinstance(one, str) else one for one in section["sets"]]
        return {**section, "sets": [_resolve_table_path(one, recipe) for one in sets]}
    return section


def _resolve_table_path(table: Any, recipe: Path) -> Any:
    """Return a copy of a table with its `path` made absolute. Anything without a string `path` is returned unchanged.

    Args:
        table: The table.
        recipe: Path of the recipe file. A relative path is resolved against its folder.
    """
    if not isinstance(table, Mapping) or not isinstance(table.get("path"), str):
        return table
    return {**table, "path": resolve_path(table["path"], recipe)}


def merge_tables(section: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `section` updated with the values of `own`, which take precedence.

    Nested tables are merged in the same way.
    """
    merged = dict(section)
    for key, value in own.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge_tables(merged[key], value) if both else value
    return merged


def resolve_path(path: str, recipe: Path) -> str:
    """Return the absolute form of a path in a recipe.

    A relative path is resolved against the recipe's folder. `sample:NAME` refers to a built-in sample, and `made:NAME`
    to a label file that is generated from installed packages when a run needs it (`flows.recipes.punctuation`).

    Args:
        path: The path as written in the recipe.
        recipe: Path of the recipe file.

    Raises:
        InputError: If the path is the URL of a server, or there is no such label file.
    """
    if path.startswith("sample:"):
        return str(files("corpora") / "samples" / path.removeprefix("sample:"))
    if path.startswith("made:"):
        return str(locate_labels(path.removeprefix("made:")))
    if "://" in path and not path.startswith("file:"):
        raise InputError(
            f"{path.partition('://')[0]}://... is not a path: a recipe reads files on this machine. `fetch` gets raw "
            "files from a server."
        )
    plain = normalize_address(path)
    return plain if Path(plain).is_absolute() else str((recipe.parent / plain).resolve())


def resolve_store(store: Any, folder: Path) -> str:
    """Return the absolute path or address of a store.

    Args:
        store: The value of the setting `store`.
        folder: Folder against which a relative path is resolved.

    Raises:
        InputError: If the value is not a string, is empty, contains a control character, or leads through a file.
    """
    if not isinstance(store, str) or not store:
        raise InputError(f'store = {store!r} must be a folder or an address, as in "s3://bucket/prefix".')
    if to_printable(store) != store or len(store.splitlines()) > 1:
        raise InputError(f"store = {store!r} holds a character that acts on a terminal: choose another folder.")
    place = Place(store)
    if not place.is_local:
        return place.address
    path = (folder / place.address).resolve()
    for part in (path, *path.parents):
        if _is_not_folder(part):
            raise InputError(f"Cannot write {path}: {part} is not a folder. Move it away, or choose another store.")
    return str(path)


def _is_not_folder(path: Path) -> bool:
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except OSError:  # it does not exist, or may not be looked at
        return False
