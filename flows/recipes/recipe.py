"""Recipes: one TOML file is a whole run, checked strictly before anything starts.

An unknown key is an error that names the nearest valid one. A value of the wrong type or out of range is an error that
names its key. Everything that a recipe says ends in frozen dataclasses, one next to the owner of each stage. Of the
environment, only the home folder that `~/` stands for is used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from corpora.acquire.fetch_table import AcquireSettings, find_folder, read_settings
from corpora.duplicates.candidates import SplitSettings
from corpora.duplicates.survivors import DuplicateSettings
from corpora.errors import InputError
from corpora.judging.batches import STEP_TABLES
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.added import make_step
from corpora.sources.contract import Source
from corpora.sources.registry import OBJECT_KINDS, get_step_defaults, has_setting, make_source
from corpora.store.places.address import is_object_address, normalize_address
from corpora.store.places.pipes import check_not_pipe
from corpora.store.settings import (
    POSITION,
    bind_settings,
    check_choice,
    check_keys,
    check_range,
    convert_value,
    parse_toml,
)
from corpora.store.worker_pool import WorkerLimits
from flows.recipes.guessed_fields import FittedDefaults, propose_settings
from flows.recipes.model_and_tasks import START_VOCABULARY, ModelEntry, TaskEntry, read_model_table, read_task_tables
from flows.recipes.privacy import Privacy, to_printable
from flows.recipes.run_settings import (
    LOCAL_ENGINE,
    Bound,
    NotifySettings,
    ReleaseSettings,
    RetentionSettings,
    check_bound_names,
    iter_figure_names,
    parse_engine,
    read_bounds,
)
from flows.recipes.tables import (
    MAX_NAME_BYTES,
    apply_override,
    check_name,
    choose_table,
    find_repeated_name,
    get_table,
    iter_toml_lines,
    merge_tables,
    read_named_tables,
    read_recipe_texts,
    resolve_path,
    resolve_paths,
    resolve_store,
    split_key,
    to_toml,
)
from shards.settings import ShardSettings, read_shard_settings
from tokenizers_train.vocabularies.settings import GivenVocabulary, VocabularySettings
from trainer.settings.training import TrainingSettings

TABLES = (
    "documents",
    *STEP_TABLES,
    "duplicates",
    "held_out",
    "privacy",
    "retention",
    "workers",
    "model",
    "training",
    "bounds",
    "release",
    "notify",
)
NAMED_TABLES = ("vocabulary", "shards", "task")  # one table, or several with names
RECIPE_KEYS = ("name", "store", "seed", "engine", "source", "step", *TABLES, *NAMED_TABLES)
SOURCE_KEYS = ("priority", "weight", "fetch", "on_damage", "license", "documents", *STEP_TABLES)
DAMAGE_CHOICES = ("stop", "skip")
# A rule that drops much is reported above a fifth and stops above half; damage stops where it is most of a folder.
FOLDER_DEFAULTS: dict[str, dict[str, Any]] = {
    "source": {"encoding": "auto", "on_damage": "skip"},
    "vocabulary": {"size": 8000},
}
FOLDER_COMMENTS = {
    'encoding = "auto"': "# UTF-8, else windows-1252",
    'on_damage = "skip"': "# a file that cannot be read is left out, counted and named",
}
FOLDER_BOUNDS = {"documents": {"rule_share_from": 1_000_000_000, "max_damaged_share": 0.5}}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEntry:
    """One `[[source]]` table: the source, and the settings that apply to it, including its overrides.

    priority:  of near-duplicates in several sources, the copy in the source with the lowest number is kept
    weight:    weight of the source's words in the vocabulary
    fetch:     where the raw files are downloaded from, if they are not on this machine
    on_damage: what a run does if a raw file cannot be read: "stop" ends the run, "skip" leaves the file out and
               records this in the lock; a file that cannot be opened is left to a later run
    license:   the licence of texts if their records state none, such as "CC-BY-SA-4.0". The card of an export states
               it, and it affects no other output. A kind with its own key (wikipedia) puts it into its documents
               instead
    """

    source: Source
    documents: DocumentsSettings
    priority: int
    weight: float = 1.0
    fetch: AcquireSettings | None = None
    on_damage: str = "stop"
    license: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyEntry:
    """One `[[vocabulary]]` table.

    Attributes:
        name: Name of the table in the recipe; "" if it is the only one.
        settings: How to train the vocabulary, or where the existing one is.
    """

    name: str
    settings: VocabularySettings | GivenVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsEntry:
    """One `[[shards]]` table.

    Attributes:
        name: Name of the table in the recipe; "" if it is the only one.
        vocabulary: Name of the vocabulary that tokenizes the documents.
        settings: The other settings of the table.
    """

    name: str
    vocabulary: str
    settings: ShardSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The checked settings of a whole run, as read from a recipe file.

    Attributes:
        model: The model to train; None if the recipe ends with its shards.
        engine: The engine that builds the pipeline stages: "local", or the address of a Dask scheduler.
        text: The TOML that the recipe was read from.
        path: Path of the recipe file, which need not exist; None if the recipe has no file.
        overrides: Settings of `--set`, as dotted keys and values, which were applied to `text`.
        fitted: The defaults that were chosen for a folder without a recipe. None if a person wrote the recipe.
        chosen: The `--set` settings of this and earlier commands for a folder without a recipe. None if a person wrote
            the recipe.
        replaced_text: The text of a folder's recipe before this command's settings were added.
        is_scheduled: True if the run is started by a schedule. Such a run skips damaged files and continues.
    """

    name: str
    store: str
    sources: tuple[SourceEntry, ...]
    duplicates: DuplicateSettings
    held_out: SplitSettings
    vocabularies: tuple[VocabularyEntry, ...]
    shards: tuple[ShardsEntry, ...]
    model: ModelEntry | None = None
    tasks: tuple[TaskEntry, ...] = ()
    privacy: Privacy = field(default_factory=Privacy)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    workers: WorkerLimits = field(default_factory=WorkerLimits)
    engine: str = LOCAL_ENGINE
    bounds: tuple[Bound, ...] = ()
    release: ReleaseSettings = field(default_factory=ReleaseSettings)
    notify: NotifySettings = field(default_factory=NotifySettings)
    seed: int = 42
    text: str = ""
    path: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    fitted: FittedDefaults | None = None
    chosen: Mapping[str, str] | None = None
    replaced_text: str = ""
    is_scheduled: bool = False

    def to_scheduled(self) -> "Recipe":
        """Return a copy of the recipe for a scheduled run. In the copy, every source skips unreadable files."""
        sources = tuple(replace(entry, on_damage="skip") for entry in self.sources)
        return replace(self, sources=sources, is_scheduled=True)

    def name_artifact(self, entry: str) -> str:
        """Return the name under which the result of a recipe table is stored, such as "RECIPE-TABLE".

        Args:
            entry: Name of the table; "" for a table without a name. Its result is named after the recipe.
        """
        return f"{self.name}-{entry}" if entry else self.name

    @property
    def given_folders(self) -> frozenset[str]:
        """Names of the sources whose download folder was set by `--set` instead of by the recipe."""
        given = [parts[1:-2] for parts in map(split_key, self.overrides) if parts[-2:] == ["fetch", "folder"]]
        numbered = enumerate((entry.source.name for entry in self.sources), 1)
        return frozenset(name for n, name in numbered if any(which in ([], [name], [str(n)]) for which in given))

    @property
    def lock_path(self) -> Path | None:
        """Path of the lock file, next to the recipe file; None if the recipe has no file."""
        return self.path.with_suffix(".lock") if self.path is not None else None


def read_recipe(path: Path, overrides: Mapping[str, str] | None = None) -> Recipe:
    """Read a recipe from a file and check it.

    Relative paths in the recipe are resolved against the folder of the file.

    Args:
        path: Path of the TOML file.
        overrides: Settings of `--set`, as dotted keys and values, which take precedence over the file.

    Raises:
        InputError: If the file cannot be read, or the recipe is not valid.
    """
    check_not_pipe(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        known = f"A recipe is a TOML file, or one that comes with Cloze: {', '.join(sorted(read_shipped_recipes()))}."
        raise InputError(f"Cannot read the recipe {path}: {error.strerror}. {known}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"The recipe {path} is not UTF-8 text ({error}): save it as UTF-8.") from error
    return parse_recipe(text, path, overrides or {})


def parse_recipe(text: str, path: Path, overrides: Mapping[str, str], store: str | None = None) -> Recipe:
    """Parse and check the TOML text of a recipe.

    Args:
        text: The TOML text.
        path: Path of the recipe file, used to resolve relative paths and in messages; the file need not exist.
        overrides: Settings of `--set`, as dotted keys and values, which take precedence over the text.
        store: Address of the store to use instead of the recipe's store; None for the recipe's store.

    Raises:
        InputError: If the text is not TOML, or the recipe is not valid. The message begins with the path.
    """
    try:
        table = parse_toml(text)
    except ValueError as error:
        raise InputError(f"The recipe {path} is not TOML: {error}.") from error
    for key, value in overrides.items():
        apply_override(table, key, value)
    if store is not None:
        table["store"] = store
    try:
        return replace(build_recipe(table, path, text), overrides=dict(overrides))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def build_recipe(table: Mapping[str, Any], path: Path, text: str = "") -> Recipe:
    """Build a recipe from its TOML tables, and check every setting.

    Args:
        table: The whole recipe, as `tomllib` reads it.
        path: Path of the recipe file, used to resolve relative paths; its stem is the default name of the recipe.
        text: The TOML text that the tables were read from.

    Raises:
        InputError: If a table or key is unknown, or a value is not valid.
    """
    check_keys(table, RECIPE_KEYS, "the recipe")
    name, seed, store = table.get("name", path.stem), table.get("seed", 42), table.get("store", "store")
    check_name("name", name)
    POSITION.check("seed", seed)
    sections = {key: resolve_paths(key, get_table(table, key), path) for key in TABLES}
    entries = table.get("source", [])
    if not isinstance(entries, list) or not entries:
        raise InputError("there is no [[source]]: name at least one, with its kind and path.")
    sources = _with_steps(_read_sources(entries, sections, path), table.get("step", []))
    vocabularies = tuple(
        VocabularyEntry(name=table_name, settings=_read_vocabulary(section, where, path))
        for table_name, section, where in read_named_tables(table, "vocabulary")
    )
    if "start" in sections["model"] and "vocabulary" not in table:
        vocabularies = (VocabularyEntry(name="", settings=START_VOCABULARY),)
    shards = tuple(
        _read_shards(table_name, section, where, seed, vocabularies, sources)
        for table_name, section, where in read_named_tables(table, "shards")
    )
    model = _read_model(table, sections, seed, shards, path)
    tasks = read_task_tables(table, path, tuple(entry.source.name for entry in sources), model is not None)
    names = {entry.name for entry in vocabularies} | {entry.name for entry in shards} | {entry.name for entry in tasks}
    for table_name in names - {""}:
        check_name("name and the name of a table, together", f"{name}-{table_name}")
    bounds = read_bounds(sections["bounds"])
    check_bound_names(
        bounds,
        lambda: iter_figure_names(
            sources=[entry.source.name for entry in sources],
            vocabularies=[entry.name for entry in vocabularies],
            shards=[entry.name for entry in shards],
            tasks=tasks,
            steps=[each.step.kind for entry in sources for each in entry.documents.steps],
            has_model=model is not None,
        ),
    )
    return Recipe(
        name=name,
        seed=seed,
        store=resolve_store(store, path.parent),
        sources=sources,
        duplicates=bind_settings(DuplicateSettings, sections["duplicates"], "duplicates"),
        held_out=bind_settings(SplitSettings, {"seed": seed, **sections["held_out"]}, "held_out"),
        vocabularies=vocabularies,
        shards=shards,
        model=model,
        tasks=tasks,
        privacy=bind_settings(Privacy, sections["privacy"], "privacy"),
        retention=bind_settings(RetentionSettings, sections["retention"], "retention"),
        workers=bind_settings(WorkerLimits, sections["workers"], "workers"),
        engine=parse_engine(table.get("engine", LOCAL_ENGINE)),
        bounds=bounds,
        release=bind_settings(ReleaseSettings, sections["release"], "release"),
        notify=bind_settings(NotifySettings, sections["notify"], "notify"),
        text=text,
        path=path,
    )


def _read_vocabulary(section: Mapping[str, Any], where: str, path: Path) -> VocabularySettings | GivenVocabulary:
    """Check a `[vocabulary]` table, and return the settings of a vocabulary to train or of an existing one.

    A table with the key `path` describes an existing vocabulary.

    Args:
        section: The table, without its name.
        where: Label of the table in messages.
        path: Path of the recipe file. Relative paths are resolved against its folder.

    Raises:
        InputError: If a setting is not valid.
    """
    if "path" not in section:
        return bind_settings(VocabularySettings, section, where)
    strange = next((key for key in section if key not in ("path", "lowercase")), None)
    if strange is not None:
        raise InputError(
            f"{where}.{strange} is given with {where}.path: an existing vocabulary is used as it is, and only "
            "`lowercase` can be set, for a bare vocab.txt. Leave out one or the other."
        )
    given = bind_settings(GivenVocabulary, section, where)
    return replace(given, path=resolve_path(given.path, path))


def _read_shards(
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
    settings = read_shard_settings({"seed": seed, **own, "masking": {"seed": seed, **masking}}, where)
    names = [entry.source.name for entry in sources]
    for source in settings.sources:
        check_choice(f"{where}.sources", source, tuple(names))
    vocabulary = choose_table(
        section.get("vocabulary"), [entry.name for entry in vocabularies], f"{where}.vocabulary", "vocabulary"
    )
    return ShardsEntry(name=name, vocabulary=vocabulary, settings=settings)


def _read_model(
    table: Mapping[str, Any], sections: Mapping[str, Any], seed: int, shards: Sequence[ShardsEntry], path: Path
) -> ModelEntry | None:
    """Check the `[model]` and `[training]` tables, and return the model to train, or None if there are none.

    Args:
        table: The whole recipe, as `tomllib` reads it.
        sections: The recipe's tables by key, with resolved paths.
        seed: Seed of the recipe.
        shards: The recipe's shard sets. The training phases refer to them.
        path: Path of the recipe file.

    Raises:
        InputError: If a setting is not valid, or the training phases do not match the shards.
    """
    if "model" not in table and "training" not in table:
        return None
    training = bind_settings(TrainingSettings, {"seed": seed, **sections["training"]}, "training")
    set_names = [entry.name for entry in shards]
    phases = tuple(
        tuple(choose_table(name, set_names, f"training.phase {number}: {key}", "shards") for name in names)
        for number, phase in enumerate(training.phase, 1)
        for key, names in [("shards", [phase.shards]) if phase.mixture is None else ("mixture", [*phase.mixture])]
    )
    entry = read_model_table(sections["model"], path, training, phases)
    vocabularies = {each.vocabulary for each in shards if each.name in entry.shards}
    if len(vocabularies) > 1:
        raise InputError(
            f"the phases of training read shards of {len(vocabularies)} vocabularies "
            f"({', '.join(sorted(vocabularies))}): a model has one. Let all phases name [[shards]] of the same one."
        )
    for each in shards:
        if each.name in entry.shards:
            called = f"The shards {each.name!r}" if each.name else "The shards"
            training.check_length(called, each.settings.length)
            entry.settings.objective_settings.check_shards(called, {"masking": each.settings.masking.kind})
    for number, (names, phase) in enumerate(zip(phases, training.phase, strict=True), 1):
        for each in shards:
            masking, where = each.settings.masking, f"training.phase {number}"
            if each.name in names:
                phase.check_mask_rate(where, each.name, masking.kind, masking.schedule is not None)
                phase.check_steps(where, each.name, masking.schedule.batch if masking.schedule else None)
    return entry


def _read_sources(entries: list[Any], sections: Mapping[str, Any], path: Path) -> tuple[SourceEntry, ...]:
    _read_documents(sections, {})  # once for all: an error in a shared table is not the error of one source
    checked = tuple(_read_source(entry, number, sections, path) for number, entry in enumerate(entries, 1))
    names = [entry.source.name for entry in checked]
    if twice := find_repeated_name(names):
        raise InputError(f"two sources are named {twice!r}: give each [[source]] a name of its own.")
    return checked


def _with_steps(sources: tuple[SourceEntry, ...], tables: Any) -> tuple[SourceEntry, ...]:
    """Return copies of the sources with the processing steps (`[[step]]` tables) that apply to each of them.

    Args:
        sources: The sources.
        tables: The value of the recipe's key `step`.

    Raises:
        InputError: If the tables are not valid.
    """
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


def _read_source(entry: Any, number: int, sections: Mapping[str, Any], path: Path) -> SourceEntry:
    if not isinstance(entry, dict):
        raise InputError(f"source {number} must be a table: [[source]].")
    own = {key: resolve_paths(key, entry[key], path) for key in SOURCE_KEYS if key in entry}
    table = {key: value for key, value in entry.items() if key not in SOURCE_KEYS}
    try:
        if "license" in own and has_setting(str(entry.get("kind")), "license"):
            table["license"] = own.pop("license")
        if isinstance(table.get("path"), str):
            table["path"] = _resolve_source_path(table, "fetch" in own, path)
        fetch = _read_fetch(own.get("fetch"), str(table.get("name", table.get("kind"))))
        if fetch is not None:
            table.setdefault("path", find_folder(fetch, path.parent))
        source = make_source(table)
        check_name("name", source.name)
        weight = convert_value(own.get("weight", 1.0), float, "weight")
        check_range("weight", weight, 1e-6, 1e6)
        priority = convert_value(own.get("priority", number), int, "priority")
        check_range("priority", priority, -1_000_000, 1_000_000)
        on_damage = str(own.get("on_damage", "stop"))
        check_choice("on_damage", on_damage, DAMAGE_CHOICES)
        license = convert_value(own.get("license", ""), str, "license")
        documents = _read_documents(_with_defaults(sections, source), own)
    except InputError as error:
        raise InputError(f"source {number}: {error}") from error
    return SourceEntry(
        source=source,
        documents=documents,
        priority=priority,
        weight=weight,
        fetch=fetch,
        on_damage=on_damage,
        license=license,
    )


def _resolve_source_path(table: Mapping[str, Any], fetched: bool, recipe: Path) -> str:
    """Return the absolute path of a source's raw files, or the normalized address of its objects.

    Args:
        table: The source's own settings; `path` must be a string.
        fetched: True if the source's files are downloaded, so that `path` is a folder.
        recipe: Path of the recipe file. Relative paths are resolved against its folder.

    Raises:
        InputError: If the path is an object store address and the source kind cannot read objects.
    """
    text = str(table["path"])
    if fetched or not text.lower().startswith("s3://"):
        return resolve_path(text, recipe)
    if table.get("kind") not in OBJECT_KINDS:
        raise InputError(
            f"kind = {table.get('kind')!r} does not read from an object store; these kinds do: "
            f"{', '.join(OBJECT_KINDS)}. Set its `path` to a folder."
        )
    return normalize_address(text)


def _with_defaults(sections: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """Return the recipe's tables by key. Missing settings have the defaults of the source's kind.

    Args:
        sections: The recipe's tables by key.
        source: The source.

    Raises:
        InputError: If the defaults of the kind contain an unknown table.
    """
    usual = get_step_defaults(source)
    check_keys(usual, ("documents", *STEP_TABLES), f"`defaults` of the source kind {source.kind!r}")
    return {key: merge_tables(usual.get(key, {}), section) for key, section in sections.items()}


def _read_fetch(table: Any, name: str) -> AcquireSettings | None:
    """Check a source's `fetch` table, and return its settings. Returns None if `table` is None.

    Args:
        table: The value of the source's key `fetch`.
        name: Name of the source. Files are downloaded to `raw/NAME` unless the table specifies a folder.

    Raises:
        InputError: If the table or a setting is not valid.
    """
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise InputError(f"fetch = {table!r} must be a table of settings.")
    return read_settings(table, "fetch", name)


def _read_documents(sections: Mapping[str, Any], own: Mapping[str, Any]) -> DocumentsSettings:
    """Return the document settings of one source: the recipe's tables with the source's overrides applied.

    Args:
        sections: The recipe's tables by key.
        own: The source's overrides, in tables by the same keys.

    Raises:
        InputError: If a table or a setting is not valid.
    """
    for key in ("documents", *STEP_TABLES):
        if not isinstance(own.get(key, {}), Mapping):
            raise InputError(f"{key} = {own[key]!r} must be a table of settings.")
    whole = merge_tables(sections["documents"], own.get("documents", {}))
    for key in STEP_TABLES:
        if key in whole:
            raise InputError(f"documents.{key} has a table of its own: write it as [{key}].")
    if "steps" in whole:
        raise InputError("documents.steps is not a key: write each step of your own as a table [[step]].")
    steps = {
        key: bind_settings(kind, merge_tables(sections[key], own.get(key, {})), key)
        for key, kind in STEP_TABLES.items()
    }
    return replace(bind_settings(DocumentsSettings, whole, "documents"), **steps)


def read_shipped_recipes() -> dict[str, str]:
    """Read the recipes that come with Cloze, such as "demo", and return their TOML texts by name."""
    return read_recipe_texts("shipped")


def load_shipped_recipe(name: str, folder: Path, overrides: Mapping[str, str]) -> Recipe:
    """Load a recipe that comes with Cloze, as if its file were in `folder`.

    If `folder` contains a file NAME.toml, that file is read instead.

    Args:
        name: Name of the recipe.
        folder: Folder against which relative paths are resolved.
        overrides: Settings of `--set`, as dotted keys and values, which take precedence over the recipe.

    Raises:
        InputError: If the recipe is not valid.
        KeyError: If no recipe with this name comes with Cloze.
    """
    path = folder / f"{name}.toml"
    return (
        read_recipe(path, overrides) if path.exists() else parse_recipe(read_shipped_recipes()[name], path, overrides)
    )


def write_recipe(recipe: Recipe) -> None:
    """Write the recipe to its file unless the file exists.

    The lock file and the store are placed next to the recipe file.

    A folder's recipe that exists is overwritten if `--set` changed it and nobody has edited the file. Does nothing if
    the recipe has no path.

    Raises:
        InputError: If the file cannot be written.
    """
    if recipe.path is None:
        return
    try:
        if recipe.path.exists() and not (
            recipe.replaced_text and recipe.path.read_text("utf-8") == recipe.replaced_text
        ):
            return
        recipe.path.parent.mkdir(parents=True, exist_ok=True)
        recipe.path.write_text(recipe.text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"Cannot write the recipe {recipe.path}: {error.strerror}. Run the command in a writable folder."
        ) from error


def resolve_source(source: Path | str) -> str:
    """Return the absolute path of a folder, file or glob, with forward slashes.

    The address of an object store is returned unchanged.
    """
    return str(source) if is_object_address(str(source)) else Path(source).resolve().as_posix()


def render_folder_recipe(
    folder: Path | str, store: str, fitted: FittedDefaults | None = None, chosen: Mapping[str, str] | None = None
) -> str:
    """Render a TOML recipe that reads every supported file in a folder, for `cloze run --source FOLDER`.

    Args:
        folder: The folder, a file, a glob, or an object store address.
        store: Address of the store to write into the recipe.
        fitted: The defaults that were chosen for the folder; if None, the general defaults are used.
        chosen: Settings that the caller adds to the text afterwards; defaults that conflict with them are omitted.
    """
    fitted = fitted or FittedDefaults()
    merged = merge_tables(FOLDER_BOUNDS, fitted.tables)
    of_source, of_vocabulary = (
        list(iter_toml_lines(propose_settings(chosen or {}, table, usual | merged.pop(table, {}))))
        for table, usual in FOLDER_DEFAULTS.items()
    )
    name = choose_recipe_name(Path(str(folder).partition("?")[0] if is_object_address(str(folder)) else folder))
    lines = [
        *(f'name = "{name}"', f"store = {to_toml(store)}", "", "[[source]]", 'kind = "files"', f'name = "{name}"'),
        f"path = {to_toml(resolve_source(folder))}",
        *(f"{line:25}{FOLDER_COMMENTS[line]}" if line in FOLDER_COMMENTS else line for line in of_source),
        "",
        replace(fitted, tables=merged).to_toml() + ("[vocabulary]" if of_vocabulary else ""),
        *of_vocabulary,
    ]
    return "\n".join(lines) + "\n"


def with_overrides(text: str, overrides: Mapping[str, str]) -> str:
    """Return the TOML text of a folder's recipe with some settings changed.

    Comment lines are moved to the beginning. If `overrides` is empty, the text is returned unchanged.

    Args:
        text: The TOML text.
        overrides: Dotted keys and values. `parse_recipe` must have accepted them.
    """
    if not overrides:
        return text
    table = parse_toml(text)
    for key, value in overrides.items():
        apply_override(table, key, value)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    given = [f"# Set with --set, and remembered: {to_printable(f'{key}={value}')}" for key, value in overrides.items()]
    return "\n".join([*comments, *given, *iter_toml_lines(table)]) + "\n"


def choose_recipe_name(folder: Path) -> str:
    """Derive a recipe name from the name of a folder or file. Characters that are not allowed are replaced with "-"."""
    return shorten_name("".join(c if c.isalnum() or c in "-_" else "-" for c in folder.resolve().name) or "folder")


def shorten_name(name: str) -> str:
    """Truncate a name to MAX_NAME_BYTES bytes of UTF-8, the maximum length of a recipe's name."""
    return name.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
