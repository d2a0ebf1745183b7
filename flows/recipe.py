"""Recipes: one TOML file is a whole run, checked strictly before anything starts.

An unknown key is an error that names the nearest known one; a value of the wrong type or out of range is an
error that names its key. Everything a recipe says ends in frozen dataclasses, one beside the owner of each
stage; nothing is read from the environment.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from corpora.acquire.wanted import AcquireSettings, folder_of, read_settings
from corpora.clean import CleanSettings
from corpora.contamination import ContaminationSettings
from corpora.duplicates.candidates import SplitSettings
from corpora.duplicates.survivors import DuplicateSettings
from corpora.errors import InputError
from corpora.fitted import RepeatedLineSettings
from corpora.judging import DocumentsSettings
from corpora.language import LanguageSettings
from corpora.lines import LineSettings
from corpora.privacy import PersonalDataSettings
from corpora.rules import RulesSettings
from corpora.sources.registry import make_source
from corpora.sources.source import Source
from corpora.steps import make_step
from corpora.store.pool import Limits
from corpora.store.settings import bind, check_choice, check_range, convert, unknown_key
from corpora.stories_score import StoriesScoreSettings
from shards.build import ShardSettings
from tokenizers_train.settings import BroughtVocabulary, VocabularySettings
from trainer.settings import ModelSettings, TrainingSettings

STEPS: dict[str, type[Any]] = {
    "clean": CleanSettings,
    "lines": LineSettings,
    "repeated_lines": RepeatedLineSettings,
    "language": LanguageSettings,
    "rules": RulesSettings,
    "personal_data": PersonalDataSettings,
    "contamination": ContaminationSettings,
    "selection": StoriesScoreSettings,
}
TABLES = ("documents", *STEPS, "duplicates", "held_out", "privacy", "workers", "model", "training")
NAMED = ("vocabulary", "shards")  # one table, or several with names
KEYS = ("name", "store", "seed", "source", "step", *TABLES, *NAMED)
# What a kind of source means by its steps where the recipe does not say otherwise: a book is one document, and long;
# the documentation of one function says much that the next one's says, too.
OF_KIND: Mapping[str, Mapping[str, Any]] = {
    "bookcorpus": {"rules": {"gopher": {"max_words": 10_000_000}}},
    "python-docs": {"rules": {"repetition": {f"max_repeated_{n}gram_characters": 1.0 for n in range(5, 11)}}},
}
SOURCE_KEYS = ("priority", "weight", "fetch", "documents", *STEPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEntry:
    """One `[[source]]`: the source, its settings after its own overrides, and its place among the others.

    priority: whose copy survives among near-duplicates; the lowest number does
    weight:   weight of its words in the vocabulary
    fetch:    where its raw files come from, if they are not just there
    """

    source: Source
    documents: DocumentsSettings
    priority: int
    weight: float = 1.0
    fetch: AcquireSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyEntry:
    """One `[[vocabulary]]`. `name`: what it is called in the recipe, "" where it is the only one."""

    name: str
    settings: VocabularySettings | BroughtVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsEntry:
    """One `[[shards]]`. `vocabulary`: name of the vocabulary that its documents are tokenised with."""

    name: str
    vocabulary: str
    settings: ShardSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """`[model]` and `[training]`: the encoder, and how it is trained. `shards`: the set that each phase reads."""

    settings: ModelSettings
    training: TrainingSettings
    shards: tuple[str, ...]


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
    vocabularies: tuple[VocabularyEntry, ...]
    shards: tuple[ShardsEntry, ...]
    model: ModelEntry | None = None
    privacy: PrivacySettings = field(default_factory=PrivacySettings)
    workers: Limits = field(default_factory=Limits)
    seed: int = 42
    text: str = ""
    path: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)

    def artifact_name(self, entry: str) -> str:
        """What the artifacts of a named table are called in the store."""
        return f"{self.name}-{entry}" if entry else self.name

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
    """Put one `--set` value where its dotted key points; of several tables one is called by name or number."""
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value  # a bare word is a text
    *parents, last = key.split(".")
    place: dict[str, Any] | list[Any] = table
    for parent in parents:
        found = _one_of(place, parent) if isinstance(place, list) else place.setdefault(parent, {})
        if not isinstance(found, dict | list):
            raise InputError(f"--set {key}={value}: {parent} is not a table of settings.")
        place = found
    if isinstance(place, list):
        raise InputError(f"--set {key}={value}: there are {len(place)} such tables: say which, by its name or number.")
    place[last] = parsed


def _one_of(tables: list[Any], which: str) -> Any:
    """The table of this name, or of this number counted from 1; None where there is none."""
    named = [table for table in tables if isinstance(table, dict) and table.get("name") == which]
    numbered = tables[int(which) - 1 : int(which)] if which.isdecimal() and int(which) else []
    return next(iter([*named, *numbered]), None)


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
    sections = {key: _placed(key, _table(table, key), path) for key in TABLES}
    entries = table.get("source", [])
    if not isinstance(entries, list) or not entries:
        raise InputError("there is no [[source]]: name at least one, with its kind and path.")
    sources = _with_steps(_sources(entries, sections, path), table.get("step", []))
    vocabularies = tuple(
        VocabularyEntry(name=called, settings=_vocabulary(section, where, path))
        for called, section, where in _named_tables(table, "vocabulary")
    )
    shards = tuple(
        _shards(called, section, where, seed, vocabularies, sources)
        for called, section, where in _named_tables(table, "shards")
    )
    return Recipe(
        name=name,
        seed=seed,
        store=_resolve(store, path),
        sources=sources,
        duplicates=bind(DuplicateSettings, sections["duplicates"], "duplicates"),
        held_out=bind(SplitSettings, {"seed": seed, **sections["held_out"]}, "held_out"),
        vocabularies=vocabularies,
        shards=shards,
        model=_model(table, sections, seed, shards),
        privacy=bind(PrivacySettings, sections["privacy"], "privacy"),
        workers=bind(Limits, sections["workers"], "workers"),
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


def _named_tables(table: Mapping[str, Any], key: str) -> list[tuple[str, dict[str, Any], str]]:
    """The tables of a key that may stand alone or several times: (name, the rest of it, where it stands)."""
    found = table.get(key, {})
    if not isinstance(found, list):
        return [("", _table(table, key), key)]
    tables = []
    for number, entry in enumerate(found, 1):
        if not isinstance(entry, dict) or "name" not in entry:
            raise InputError(f"{key} {number} has no `name`: where there are several [[{key}]], each has one.")
        _check_name(f"{key} {number}: name", entry["name"])
        rest = {name: value for name, value in entry.items() if name != "name"}
        tables.append((entry["name"], rest, f"{key} {entry['name']!r}"))
    names = [name for name, _, _ in tables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None or not names:
        said = f"two [[{key}]] are named {twice!r}" if names else f"there is no [[{key}]] in the list"
        raise InputError(f"{said}: give each a name of its own, or write one table [{key}].")
    return tables


def _choose(value: Any, known: Sequence[str], key: str, what: str) -> str:
    """The name of one of several tables; without a value, of the only one. Raises InputError."""
    if value is None and len(known) == 1:
        return known[0]
    if value in known:
        return str(value)
    names = ", ".join(map(repr, known))
    if value is None:
        raise InputError(f"{key} is not given: there are several [[{what}]], so say which: {names}.")
    raise InputError(f"{key} = {value!r} is none of the [[{what}]], which are {names}.")


def _vocabulary(section: Mapping[str, Any], where: str, path: Path) -> VocabularySettings | BroughtVocabulary:
    """A vocabulary to train, or with `path` one that exists, looked for beside the recipe."""
    if "path" not in section:
        return bind(VocabularySettings, section, where)
    strange = next((key for key in section if key not in ("path", "lowercase")), None)
    if strange is not None:
        raise InputError(
            f"{where}.{strange} stands beside {where}.path: a vocabulary that exists is taken as it is, and only "
            "`lowercase` can be said of a bare vocab.txt. Leave out the one or the other."
        )
    found = bind(BroughtVocabulary, section, where)
    return replace(found, path=_resolve(found.path, path))


def _shards(
    name: str,
    section: Mapping[str, Any],
    where: str,
    seed: int,
    vocabularies: Sequence[VocabularyEntry],
    sources: Sequence[SourceEntry],
) -> ShardsEntry:
    masking = section.get("masking", {})
    if not isinstance(masking, dict):
        raise InputError(f'{where}.masking = {masking!r} must be a table, as in masking = {{ kind = "dynamic" }}.')
    own = {key: value for key, value in section.items() if key != "vocabulary"}
    settings = bind(ShardSettings, {"seed": seed, **own, "masking": {"seed": seed, **masking}}, where)
    known = [entry.source.name for entry in sources]
    for source in settings.sources:
        check_choice(f"{where}.sources", source, tuple(known))
    vocabulary = _choose(
        section.get("vocabulary"), [entry.name for entry in vocabularies], f"{where}.vocabulary", "vocabulary"
    )
    return ShardsEntry(name=name, vocabulary=vocabulary, settings=settings)


def _model(
    table: Mapping[str, Any], sections: Mapping[str, Any], seed: int, shards: Sequence[ShardsEntry]
) -> ModelEntry | None:
    """What is to be trained; None where the recipe ends with its shards."""
    if "model" not in table and "training" not in table:
        return None
    training = bind(TrainingSettings, {"seed": seed, **sections["training"]}, "training")
    known = [entry.name for entry in shards]
    chosen = tuple(
        _choose(phase.shards, known, f"training.phase {number}: shards", "shards")
        for number, phase in enumerate(training.phase, 1)
    )
    vocabularies = {entry.vocabulary for entry in shards if entry.name in chosen}
    if len(vocabularies) > 1:
        raise InputError(
            f"the phases of training read shards of {len(vocabularies)} vocabularies "
            f"({', '.join(sorted(vocabularies))}): a model has one. Let all phases name [[shards]] of the same one."
        )
    return ModelEntry(settings=bind(ModelSettings, sections["model"], "model"), training=training, shards=chosen)


def _sources(entries: list[Any], sections: Mapping[str, Any], path: Path) -> tuple[SourceEntry, ...]:
    _documents(sections, {})  # once for all: an error in a table that all sources share is no one source's
    found = tuple(_source(entry, number, sections, path) for number, entry in enumerate(entries, 1))
    names = [entry.source.name for entry in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two sources are named {name!r}: give each [[source]] a name of its own.")
    return found


def _with_steps(sources: tuple[SourceEntry, ...], tables: Any) -> tuple[SourceEntry, ...]:
    """The sources with the `[[step]]` tables that apply to them."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"step = {tables!r} must be tables of settings: [[step]].")
    steps = [make_step(table) for table in tables]
    names = tuple(entry.source.name for entry in sources)
    for step in steps:
        for name in step.sources:
            check_choice(f"step {step.step.kind!r}: sources", name, names)
    return tuple(
        replace(
            entry,
            documents=replace(
                entry.documents, steps=tuple(s for s in steps if not s.sources or entry.source.name in s.sources)
            ),
        )
        for entry in sources
    )


def _source(entry: Any, number: int, sections: Mapping[str, Any], path: Path) -> SourceEntry:
    if not isinstance(entry, dict):
        raise InputError(f"source {number} must be a table: [[source]].")
    own = {key: _placed(key, entry[key], path) for key in SOURCE_KEYS if key in entry}
    usual = OF_KIND.get(str(entry.get("kind")), {})
    table = {key: value for key, value in entry.items() if key not in SOURCE_KEYS}
    if isinstance(table.get("path"), str):
        table["path"] = _resolve(table["path"], path)
    try:
        fetch = _fetch(own.get("fetch"), str(table.get("name", table.get("kind"))))
        if fetch is not None:
            table.setdefault("path", folder_of(fetch, path.parent))
        source = make_source(table)
        _check_name("name", source.name)
        weight = convert(own.get("weight", 1.0), float, "weight")
        check_range("weight", weight, 1e-6, 1e6)
        priority = convert(own.get("priority", number), int, "priority")
        check_range("priority", priority, -1_000_000, 1_000_000)
        documents = _documents({key: _merged(usual.get(key, {}), sections[key]) for key in sections}, own)
    except InputError as error:
        raise InputError(f"source {number}: {error}") from error
    return SourceEntry(source=source, documents=documents, priority=priority, weight=weight, fetch=fetch)


def _fetch(table: Any, name: str) -> AcquireSettings | None:
    """The `fetch` table of a source."""
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise InputError(f"fetch = {table!r} must be a table of settings.")
    return read_settings(table, "fetch", name)


def _documents(sections: Mapping[str, Any], own: Mapping[str, Any]) -> DocumentsSettings:
    """The settings of one source's documents: the recipe's tables with the source's own values over them."""
    for key in ("documents", *STEPS):
        if not isinstance(own.get(key, {}), Mapping):
            raise InputError(f"{key} = {own[key]!r} must be a table of settings.")
    whole = _merged(sections["documents"], own.get("documents", {}))
    for key in STEPS:
        if key in whole:
            raise InputError(f"documents.{key} is a table of its own: write it as [{key}].")
    if "steps" in whole:
        raise InputError("documents.steps is no key: write each step of your own as a table [[step]].")
    steps = {key: bind(kind, _merged(sections[key], own.get(key, {})), key) for key, kind in STEPS.items()}
    return replace(bind(DocumentsSettings, whole, "documents"), **steps)


def _placed(key: str, section: Any, recipe: Path) -> Any:
    """A table with the paths in it resolved; a set of evaluation items may be its path alone."""
    if not isinstance(section, Mapping):
        return section
    if key == "selection" and isinstance(section.get("questions"), list):
        return {
            **section,
            "questions": [_resolve(p, recipe) if isinstance(p, str) else p for p in section["questions"]],
        }
    if key == "contamination" and isinstance(section.get("sets"), list):
        sets = [{"path": one} if isinstance(one, str) else one for one in section["sets"]]
        return {**section, "sets": [_with_path(one, recipe) for one in sets]}
    return section


def _with_path(table: Any, recipe: Path) -> Any:
    """A table with its path resolved, where it has one."""
    if not isinstance(table, Mapping) or not isinstance(table.get("path"), str):
        return table
    return {**table, "path": _resolve(table["path"], recipe)}


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
