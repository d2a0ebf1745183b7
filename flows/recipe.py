"""Recipes: one TOML file is a whole run, checked strictly before anything starts.

An unknown key is an error that names the nearest known one; a value of the wrong type or out of range is an
error that names its key. Everything a recipe says ends in frozen dataclasses, one beside the owner of each
stage; nothing is read from the environment.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from corpora.clean import CleanSettings
from corpora.documents import DocumentsSettings
from corpora.duplicates.candidates import SplitSettings
from corpora.duplicates.survivors import DuplicateSettings
from corpora.errors import InputError
from corpora.language import LanguageSettings
from corpora.rules import RulesSettings
from corpora.sources.registry import make_source
from corpora.sources.source import Source
from corpora.store.settings import bind, check_choice, check_range, convert, unknown_key
from shards.build import ShardSettings
from tokenizers_train.vocabulary import VocabularySettings

TABLES = ("documents", "clean", "language", "rules", "duplicates", "held_out", "vocabulary", "shards", "privacy")
KEYS = ("name", "store", "seed", "source", *TABLES)
STEPS: dict[str, type[Any]] = {"clean": CleanSettings, "language": LanguageSettings, "rules": RulesSettings}
SOURCE_KEYS = ("priority", "weight", *STEPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEntry:
    """One `[[source]]`: the source, its settings after its own overrides, and its place among the others.

    priority: whose copy survives among near-duplicates; the lowest number does
    weight:   weight of its words in the vocabulary
    """

    source: Source
    documents: DocumentsSettings
    priority: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacySettings:
    """Where text is shown beside the data (report, artifacts, logs).

    samples: "text" shows it as it is, "hashed" as a digest, "none" not at all
    """

    samples: str = "text"

    def __post_init__(self) -> None:
        check_choice("privacy.samples", self.samples, ("text", "hashed", "none"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A whole run."""

    name: str
    store: str
    sources: tuple[SourceEntry, ...]
    duplicates: DuplicateSettings
    held_out: SplitSettings
    vocabulary: VocabularySettings
    shards: ShardSettings
    privacy: PrivacySettings = field(default_factory=PrivacySettings)
    seed: int = 42
    text: str = ""
    path: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def lock_path(self) -> Path | None:
        """Where what was resolved is kept: beside the recipe."""
        return self.path.with_suffix(".lock") if self.path is not None else None


def read_recipe(path: Path, overrides: Mapping[str, str] | None = None) -> Recipe:
    """The recipe in a file, with `--set key=value` overrides applied.

    Relative paths in it are relative to the recipe's own folder. Raises InputError.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot read the recipe {path}: {error.strerror}. {_known_recipes()}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"The recipe {path} is not UTF-8 text ({error}): save it as UTF-8.") from error
    return parse_recipe(text, path, overrides or {})


def parse_recipe(text: str, path: Path, overrides: Mapping[str, str]) -> Recipe:
    """The recipe that a TOML text says; `path` is where it stands, for relative paths and messages."""
    try:
        table = tomllib.loads(text)
        for key, value in overrides.items():
            _override(table, key, value)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"The recipe {path} is not TOML: {error}.") from error
    try:
        return replace(_build(table, text, path), overrides=dict(overrides))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _override(table: dict[str, Any], key: str, value: str) -> None:
    """Put one `--set` value where its dotted key points."""
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value  # a bare word is a text
    *parents, last = key.split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise InputError(f"--set {key}={value}: {parent} is not a table of settings.")
    table[last] = parsed


def _build(table: dict[str, Any], text: str, path: Path) -> Recipe:
    for key in table:
        if key not in KEYS:
            raise InputError(unknown_key(key, KEYS, "the recipe"))
    name, seed, store = table.get("name", path.stem), table.get("seed", 42), table.get("store", "store")
    _check_name("name", name)
    if not isinstance(store, str) or not store:
        raise InputError(f'store = {store!r} must be a folder or an address, as in "s3://bucket/prefix".')
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 63:
        raise InputError(f"seed = {seed!r} must be a whole number from 0 up.")
    sections = {key: _table(table, key) for key in TABLES}
    entries = table.get("source", [])
    if not isinstance(entries, list) or not entries:
        raise InputError("there is no [[source]]: name at least one, with its kind and path.")
    return Recipe(
        name=name,
        seed=seed,
        store=_resolve(store, path),
        sources=_sources(entries, sections, path),
        duplicates=bind(DuplicateSettings, sections["duplicates"], "duplicates"),
        held_out=bind(SplitSettings, {"seed": seed, **sections["held_out"]}, "held_out"),
        vocabulary=bind(VocabularySettings, sections["vocabulary"], "vocabulary"),
        shards=_shards(sections["shards"], seed),
        privacy=bind(PrivacySettings, sections["privacy"], "privacy"),
        text=text,
        path=path,
    )


def _check_name(key: str, name: Any) -> None:
    """Refuse what cannot be the name of a folder in the store."""
    if not isinstance(name, str) or not name or "/" in name or name.startswith("."):
        raise InputError(f"{key} = {name!r} must be a text without slashes that does not begin with a dot.")


def _table(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    section = table.get(key, {})
    if not isinstance(section, dict):
        raise InputError(f"{key} = {section!r} must be a table of settings: [{key}].")
    return section


def _shards(section: Mapping[str, Any], seed: int) -> ShardSettings:
    masking = section.get("masking", {})
    if not isinstance(masking, dict):
        raise InputError(f'shards.masking = {masking!r} must be a table, as in masking = {{ kind = "dynamic" }}.')
    return bind(ShardSettings, {"seed": seed, **section, "masking": {"seed": seed, **masking}}, "shards")


def _sources(entries: list[Any], sections: Mapping[str, Any], path: Path) -> tuple[SourceEntry, ...]:
    _documents(sections, {})  # once for all: an error in a table that all sources share is no one source's
    found = tuple(_source(entry, number, sections, path) for number, entry in enumerate(entries, 1))
    names = [entry.source.name for entry in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two sources are named {name!r}: give each [[source]] a name of its own.")
    return found


def _source(entry: Any, number: int, sections: Mapping[str, Any], path: Path) -> SourceEntry:
    if not isinstance(entry, dict):
        raise InputError(f"source {number} must be a table: [[source]].")
    own = {key: entry[key] for key in SOURCE_KEYS if key in entry}
    table = {key: value for key, value in entry.items() if key not in SOURCE_KEYS}
    if isinstance(table.get("path"), str):
        table["path"] = _resolve(table["path"], path)
    try:
        source = make_source(table)
        _check_name("name", source.name)
        weight = convert(own.get("weight", 1.0), float, "weight")
        check_range("weight", weight, 1e-6, 1e6)
        priority = convert(own.get("priority", number), int, "priority")
        check_range("priority", priority, -1_000_000, 1_000_000)
        documents = _documents(sections, own)
    except InputError as error:
        raise InputError(f"source {number}: {error}") from error
    return SourceEntry(source=source, documents=documents, priority=priority, weight=weight)


def _documents(sections: Mapping[str, Any], own: Mapping[str, Any]) -> DocumentsSettings:
    """The settings of one source's documents: the recipe's tables with the source's own values over them."""
    for key in STEPS:
        if key in sections["documents"]:
            raise InputError(f"documents.{key} is a table of its own: write it as [{key}].")
        if not isinstance(own.get(key, {}), Mapping):
            raise InputError(f"{key} = {own[key]!r} must be a table of settings.")
    steps = {key: bind(kind, _merged(sections[key], own.get(key, {})), key) for key, kind in STEPS.items()}
    return replace(bind(DocumentsSettings, sections["documents"], "documents"), **steps)


def _merged(section: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A section with a source's overrides, table by table."""
    merged = dict(section)
    for key, value in own.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _resolve(path: str, recipe: Path) -> str:
    """A path of a recipe: relative to the recipe's folder, or `sample:...` for a sample that comes with Cloze."""
    if path.startswith("sample:"):
        return str(files("corpora") / "samples" / path.removeprefix("sample:"))
    return path if "://" in path or Path(path).is_absolute() else str((recipe.parent / path).resolve())


def shipped_recipes() -> dict[str, str]:
    """The recipes that come with the program: name -> TOML text."""
    folder = files("flows") / "recipes"
    return {
        file.name.removesuffix(".toml"): file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    }


def _known_recipes() -> str:
    return f"A recipe is a TOML file, or one that comes with Cloze: {', '.join(sorted(shipped_recipes()))}."


def shipped_recipe(name: str, folder: Path, overrides: Mapping[str, str]) -> Recipe:
    """A recipe that comes with Cloze, as it will stand in `folder`; a copy that stands there already is used."""
    path = folder / f"{name}.toml"
    return read_recipe(path, overrides) if path.exists() else parse_recipe(shipped_recipes()[name], path, overrides)


def settle_recipe(recipe: Recipe) -> None:
    """Write a recipe that has no file yet to its place, so that its lock and its store stand beside it."""
    if recipe.path is None or recipe.path.exists():
        return
    try:
        recipe.path.parent.mkdir(parents=True, exist_ok=True)
        recipe.path.write_text(recipe.text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"Cannot write the recipe {recipe.path}: {error.strerror}. Run the command in a folder that you may write."
        ) from error


def folder_recipe(folder: Path, store: str) -> str:
    """The text of a recipe for a folder of plain text or JSON lines, for `cloze run --source FOLDER`."""
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in folder.resolve().name) or "folder"
    return (
        f'name = "{name}"\nstore = "{store}"\n\n[[source]]\nkind = "files"\nname = "{name}"\n'
        f'path = "{folder.resolve().as_posix()}"\n\n[vocabulary]\nsize = 8000\n'
    )


def with_store(recipe: Recipe, store: str) -> Recipe:
    """The same recipe with another store."""
    return replace(recipe, store=store)
