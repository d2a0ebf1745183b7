"""Arguments that several commands take, the recipe that they mean, and the home of the command that runs.

Nothing is written; recipes are imported when one is read.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from corpora.errors import InputError
from corpora.lean_process import hide_pandas_from_pyarrow
from corpora.sources.files.endings import KNOWN_ENDINGS
from corpora.store import settings
from corpora.store.settings import NumberRange

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext

    from flows.recipes.recipe import Recipe

STANDARD_INPUT = "/dev/stdin"  # what `-` means


_home = Path()


def set_home(home: Path) -> None:
    """Set the CLOZE_HOME folder (caches and Prefect database) for the command that is running in this process."""
    global _home
    _home = home


def find_home() -> Path:
    """Return the CLOZE_HOME folder passed to `set_home`, or the current folder if `set_home` was never called."""
    return _home


def is_standard_output(path: Path) -> bool:
    """Return True if an output path means standard output: /dev/stdout, or `-`, which arrives here as /dev/stdin."""
    return str(path) in (STANDARD_INPUT, "/dev/stdout")


def bound_by(number: NumberRange) -> Parameter:
    """Build a cyclopts parameter, for a command's signature, that rejects numbers outside a range. None is accepted."""

    def check(_: Any, value: Any) -> None:
        if value is not None and not number.is_valid(value):
            raise ValueError(f"It must be {number}.")

    return Parameter(validator=check)


Processes = Annotated[int, bound_by(settings.PROCESSES)]
Count = Annotated[int, bound_by(settings.COUNT)]
Position = Annotated[int, bound_by(settings.POSITION)]
Epoch = Annotated[int, bound_by(settings.EPOCH)]
Seconds = Annotated[int, bound_by(settings.SECONDS)]
Days = Annotated[float, bound_by(settings.DAYS)]
Share = Annotated[float, bound_by(settings.SHARE)]


def check_path(_: Any, value: Any) -> None:
    """Check that a command-line value is not a URL such as `s3://...` where a local path is expected.

    None and values that are not paths are accepted. Lists are checked item by item.

    Raises:
        ValueError: If a path looks like a URL.
    """
    for path in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(path, Path) and re.fullmatch("[A-Za-z][A-Za-z0-9+.-]+:", (path.parts or ("",))[0]):
            raise ValueError("It must be a path of this machine.")


DEFAULT_PARAMETER = Parameter(
    show_default=lambda value: None if value is None or value is False or value == "" else str(value),
    validator=check_path,
)


def complete_recipe_name(context: "CompletionContext") -> Iterator[str]:
    """Yield shell completions for a partially typed recipe argument: built-in recipes, `.toml` files, and folders.

    The shell calls the command each time the Tab key is pressed. Hidden files are omitted. Folders end with a slash.

    Args:
        context: The state of the command line, with the typed text as `incomplete`.
    """
    from flows.recipes.recipe import read_shipped_recipes

    begun = context.incomplete
    yield from (name for name in read_shipped_recipes() if name.startswith(begun))
    folder, slash, start = begun.rpartition("/")
    if not Path(folder + slash or ".").is_dir():
        return
    for path in sorted(Path(folder + slash or ".").iterdir()):
        if path.name.startswith(start) and (path.is_dir() or path.suffix == ".toml") and path.name[0] != ".":
            yield f"{folder}{slash}{path.name}{'/' * path.is_dir()}"


RecipeName = Annotated[
    str | None,
    Parameter(help="A recipe file, or the name of one that comes with Cloze.", completer=complete_recipe_name),
]
RecipeFile = Annotated[str, Parameter(help="A recipe file, or the name of one that comes with Cloze.")]
Source = Annotated[Path | None, Parameter(help=f"A folder of text instead of a recipe: {KNOWN_ENDINGS}.")]
Model = Annotated[
    str, Parameter(help="A model's folder, an artifact's folder or short id, a release (STORE@NAME), or a store.")
]
StoreAddress = Annotated[str, Parameter(help="A store: a folder, or s3://bucket/prefix.")]
VocabularyName = Annotated[
    str, Parameter(help="A tokenizer's folder, a vocab.txt, or the name of a vocabulary in the store.")
]
NamesStore = Annotated[str, Parameter(help="The store in which names are looked up.")]
RecipeStore = Annotated[str | None, Parameter(help="A store instead of the recipe's: a folder, or s3://bucket/prefix.")]
Overrides = Annotated[
    list[str] | None, Parameter(name="--set", help="Override a setting of the recipe: key=value.", negative=())
]
Workers = Annotated[Processes | None, Parameter(help="Number of worker processes; default: one per core.")]
Engine = Annotated[
    str | None, Parameter(help='Where parts are built: "local", or "tcp://HOST:PORT" of a Dask scheduler.')
]
VOCABULARY_PATH = "vocabulary.path"
Cron = Annotated[str | None, Parameter(help='When to run, in this machine\'s time: "0 3 * * *".')]
Every = Annotated[Seconds | None, Parameter(help="Seconds between runs, instead of --cron.")]
Port = Annotated[int, bound_by(settings.PORT), Parameter(help="The port of the UI.", env_var="PREFECT_SERVER_API_PORT")]
AsJson = Annotated[bool, Parameter(name="--json", help="Print JSON for scripts.", negative=())]


def load_recipe(
    name: str | None,
    source: Path | None = None,
    store: str | None = None,
    overrides: list[str] | None = None,
    engine: str | None = None,
) -> "Recipe":
    """Load the recipe that a command's arguments refer to, and block the import of pandas in this process.

    The arguments and errors are those of `find_recipe`.
    """
    hide_pandas_from_pyarrow()  # a process of the command has no use for it; a program that calls Python's doors may
    return find_recipe(name, source, store, overrides, engine)


def find_recipe(
    name: str | None,
    source: Path | None = None,
    store: str | None = None,
    overrides: list[str] | None = None,
    engine: str | None = None,
) -> "Recipe":
    """Find and parse the recipe that a command's arguments refer to. Writes nothing.

    Args:
        name: The path of a recipe file, or the name of a built-in recipe; an existing file takes precedence. None if
            `source` is given.
        source: A folder of text. Its recipe is guessed from some of its documents. None if `name` is given.
        store: The address of a store to use instead of the one in the recipe. None uses the recipe's.
        overrides: Settings in the form `table.key=value`, with TOML values.
        engine: "local", or the address `tcp://HOST:PORT` of a Dask scheduler. None uses the recipe's engine.

    Raises:
        InputError: If both or neither of `name` and `source` are given, or the recipe or an override is not valid.
    """
    from flows.recipes.recipe import load_shipped_recipe, read_recipe, read_shipped_recipes
    from flows.recipes.run_settings import parse_engine
    from flows.recipes.tables import parse_override, resolve_store

    if (name is None) == (source is None):
        raise InputError("Name a recipe, or a folder of text with --source FOLDER (one of the two).")
    given = [parse_override(text) for text in overrides or []]
    pairs = dict([*given, *([("engine", engine)] if engine else [])])
    if source is not None:
        recipe = _build_folder_recipe(source, dict(given))
        recipe = replace(recipe, engine=parse_engine(engine)) if engine else recipe
    elif name in read_shipped_recipes() and not Path(str(name)).is_file():
        recipe = load_shipped_recipe(str(name), Path.cwd(), pairs)
    else:
        recipe = read_recipe(Path(str(name)), pairs)
    return replace(recipe, store=resolve_store(store, Path.cwd())) if store else recipe


def _build_folder_recipe(source: Path, overrides: dict[str, str]) -> "Recipe":
    """Build a recipe for a folder of text. Its store is a folder in the current folder.

    Args:
        source: The folder.
        overrides: Settings by key, with TOML values. A `vocabulary.path` is taken relative to the current folder if it
            exists there.

    Raises:
        InputError: If the folder does not exist, or a setting is not valid.
    """
    from flows.recipes.tables import parse_setting, to_toml
    from flows.run.inputs.folder_defaults import build_folder_recipe

    if not source.exists():
        raise InputError(f"--source {source}: there is no such folder.")
    path = parse_setting(overrides.get(VOCABULARY_PATH, ""))
    if isinstance(path, str) and path and Path(path).exists():
        overrides = overrides | {VOCABULARY_PATH: to_toml(str(Path(path).resolve()))}
    return build_folder_recipe(source, Path.cwd() / "store", overrides)
