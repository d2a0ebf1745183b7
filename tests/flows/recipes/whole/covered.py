"""Which keys and values a recipe can have, read from the settings themselves, and which of them a recipe has.

    every_key()             all keys: "training.phase.batch", "source files.fields", "shards single.min_tokens"
    usual_values()          what a recipe has that leaves a key out
    keys_of(table)          those that a recipe gives another value than they come with
    choices_of(tables)      key -> (what recipes have there, all that they could have)

What belongs to one kind of a table has the kind before the dot. Where a text must be one of several, the settings are
given one that cannot be, and their message names all that can.
"""

import copy
import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

from corpora.acquire.wanted import AcquireSettings
from corpora.errors import InputError
from corpora.judging.batches import STEP_TABLES
from corpora.judging.settings import DocumentsSettings
from corpora.sources.registry import SOURCES, source_class
from flows.command.reference import STEP_KEYS, TOP_KEYS, toml_text
from flows.recipes.meanings import SETTINGS
from flows.recipes.recipe import SOURCE_KEYS, SourceEntry, parse_recipe
from flows.recipes.settings.bounds import BoundSettings
from shards.inputs import INPUTS
from shards.settings import USUAL
from tokenizers_train.vocabularies.settings import BroughtVocabulary
from trainer.settings.model import OBJECTIVES

NO_SUCH = "no-such-value"
CHOICES = re.compile(r"one of ((?:['\"][^'\"]*['\"](?:, )?)+)")
OWN_TABLES = {*STEP_TABLES, "steps", "own"}  # fields of settings that are tables elsewhere in a recipe
TABLES: Mapping[str, type] = {name: settings for name, settings in SETTINGS.items() if name != "bounds"}

Table = Mapping[str, Any]
Place = tuple[str | int, ...]


def every_key() -> set[str]:
    """All keys that a recipe can have."""
    return {key for key, _ in _all()}


def usual_values() -> dict[str, set[str]]:
    """By key the texts that a recipe has which leaves it out."""
    found: dict[str, set[str]] = defaultdict(set)
    for key, value in _all():
        if isinstance(value, str):
            found[plain(key)].add(value)
    return found


def plain(key: str) -> str:
    """A key without the kind of its table, wherever a recipe gives it.

    >>> plain("source stories.form"), plain("source.clean.profile"), plain("training.schedule.kind")
    ('source.form', 'clean.profile', 'training.schedule')
    """
    first, _, rest = re.sub(r" [^.]+", "", key).removesuffix("schedule.kind").partition(".")
    of_step = first == "source" and rest.partition(".")[0] in STEP_TABLES
    return rest if of_step else ".".join(filter(None, (first, rest + "schedule" * key.endswith("schedule.kind"))))


def _all() -> Iterator[tuple[str, Any]]:
    """Every key, and the value that it comes with."""
    for key, *_ in TOP_KEYS:
        yield key, None
    for key, *_ in STEP_KEYS:
        yield f"step.{key}", "rules" if key == "after" else None
    for field in dataclasses.fields(SourceEntry):
        if field.name in SOURCE_KEYS:
            yield f"source.{field.name}", field.default
    for key in STEP_TABLES:
        yield f"source.{key}", None
    kinds = {
        "source": dict(zip(SOURCES, map(source_class, SOURCES), strict=True)),
        "shards": INPUTS,
        "model.objective": OBJECTIVES,
    }
    for table, found in kinds.items():
        for kind, own in found.items():
            yield from _keys(own, f"{table} {kind}")
    more = {"bounds": BoundSettings, "source.fetch": AcquireSettings, "vocabulary": BroughtVocabulary}
    for name, settings in (*TABLES.items(), *more.items()):
        yield from _keys(settings, name)


def keys_of(table: Table) -> set[str]:
    """The keys of a recipe that have another value than they come with."""
    found = {key for key, *_ in TOP_KEYS if key in table}
    for step in table.get("step", []):
        found |= {f"step.{key}" for key, *_ in STEP_KEYS if key in step}
    for source in table["source"]:
        found |= {f"source.{key}" for key in SOURCE_KEYS if key in source}
        found |= {*_changed(source_class(source["kind"]), source, f"source {source['kind']}")}
        found |= {*_changed(AcquireSettings, source.get("fetch", {}), "source.fetch")}
    for bound in table.get("bounds", {}).values():
        found |= {*_changed(BoundSettings, bound, "bounds")}
    for name, settings in TABLES.items():
        for one in _each(table.get(name, {})):
            found |= {*_changed(settings, one, name)}
    for vocabulary in _each(table.get("vocabulary", {})):
        found |= {*_changed(BroughtVocabulary, vocabulary, "vocabulary")}
    for shards in _each(table["shards"]):
        kind = shards.get("input", USUAL)
        found |= {*_changed(INPUTS[kind], shards, f"shards {kind}")}
    if objective := table["model"].get("objective", {}):
        found |= {*_changed(OBJECTIVES[objective["kind"]], objective, f"model.objective {objective['kind']}")}
    return found


def _each(table: Any) -> list[Table]:
    """The tables of a key that is given once or several times."""
    return table if isinstance(table, list) else [table]


def _keys(settings: type, prefix: str) -> Iterator[tuple[str, Any]]:
    """The keys of a table of settings and of the tables in it, with the values that they come with."""
    hints = get_type_hints(settings)
    for field in dataclasses.fields(settings):
        if not (settings in (DocumentsSettings, TABLES["shards"]) and field.name in OWN_TABLES):
            yield f"{prefix}.{field.name}", field.default
            for below in _tables(hints[field.name]):
                yield from _keys(below, f"{prefix}.{field.name}")


def _changed(settings: type, table: Table, prefix: str) -> Iterator[str]:
    """Yield the settings that a table gives another value than their default."""
    hints = get_type_hints(settings)
    for field in dataclasses.fields(settings):
        value, below = table.get(field.name), [*_tables(hints[field.name])]
        if value is None or value == field.default:
            continue
        yield f"{prefix}.{field.name}"
        for one in _inner(value):
            for kind in below:
                yield from _changed(kind, one, f"{prefix}.{field.name}")


def _inner(value: Any) -> Iterator[Table]:
    """The tables that a value is or holds; those under names of one's own as well."""
    if isinstance(value, Mapping):
        yield value
    for one in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        if isinstance(one, Mapping):
            yield one


def _tables(hint: Any) -> Iterator[type]:
    """The tables that a value of a type can be or hold."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield hint
    for argument in get_args(hint):
        yield from _tables(argument)


def choices_of(tables: Iterable[Table], path: Path) -> dict[str, tuple[set[str], set[str]]]:
    """By key what recipes have there and all that they could have, where that is one of several texts."""
    found: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for table in tables:
        for place, value in _texts(table, ()):
            key = plain(".".join(str(part) for part in place if not isinstance(part, int)))
            if value not in found[key][0]:
                found[key][0].add(value)
                found[key][1].update(_could_be(table, place, path))
    return {key: both for key, both in found.items() if both[1]}


def _could_be(table: Table, place: Place, path: Path) -> list[str]:
    """All texts that a recipe could have at a place, as far as its settings know of others."""
    try:
        parse_recipe(as_toml(_with(table, place, NO_SUCH)), path, {})
    except InputError as error:
        said = CHOICES.search(str(error))
        return re.findall(r"['\"]([^'\"]*)['\"]", said[1]) if said else []
    return []


def _texts(value: Any, place: Place) -> Iterator[tuple[Place, str]]:
    """Every text in a table, and where it is."""
    if isinstance(value, str):
        yield place, value
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in pairs:
        yield from _texts(one, (*place, key))


def _with(table: Table, place: Place, value: str) -> Table:
    """A table with another value at a place."""
    changed = copy.deepcopy(table)
    inner: Any = changed
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    return changed


def as_toml(table: Table) -> str:
    """A recipe as TOML: each of its keys on a line."""
    return "".join(f"{key} = {toml_text(value)}\n" for key, value in table.items())
