"""Arguments that several commands take, and the recipe that they mean.

Nothing is written; recipes are imported when one is read.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from corpora.errors import InputError
from corpora.lean_process import hide_pandas_from_pyarrow
from corpora.store import settings
from corpora.store.settings import NumberRange

if TYPE_CHECKING:
    from flows.recipes.recipe import Recipe

STANDARD_INPUT = "/dev/stdin"  # what `-` means


def is_standard_output(path: Path) -> bool:
    """Return whether what is written to a path is meant for standard output."""
    return str(path) in (STANDARD_INPUT, "/dev/stdout")


def within(number: NumberRange) -> Parameter:
    """Return what holds an option to the bounds of a kind of number."""

    def check(_: Any, value: Any) -> None:
        if value is not None and not number.is_valid(value):
            raise ValueError(f"It must be {number}.")

    return Parameter(validator=check)


Processes = Annotated[int, within(settings.PROCESSES)]
Count = Annotated[int, within(settings.COUNT)]
Position = Annotated[int, within(settings.POSITION)]
Epoch = Annotated[int, within(settings.EPOCH)]
Seconds = Annotated[int, within(settings.SECONDS)]
Days = Annotated[float, within(settings.DAYS)]
Share = Annotated[float, within(settings.SHARE)]


def check_path(_: Any, value: Any) -> None:
    """Raise ValueError for a path that is the address of a server: its files would be in a folder `https:`."""
    for path in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(path, Path) and re.fullmatch("[A-Za-z][A-Za-z0-9+.-]+:", (path.parts or ("",))[0]):
            raise ValueError("It must be a path of this machine.")


Shown = Parameter(
    show_default=lambda value: None if value is None or value is False or value == "" else str(value),
    validator=check_path,
)
RecipeFile = Annotated[str, Parameter(help="A recipe file, or the name of one that comes with Cloze.")]
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
Port = Annotated[int, within(settings.PORT), Parameter(help="The port of the UI.", env_var="PREFECT_SERVER_API_PORT")]
AsJson = Annotated[bool, Parameter(name="--json", help="Print JSON for scripts.", negative=())]


def load_recipe(
    name: str | None,
    source: Path | None = None,
    store: str | None = None,
    overrides: list[str] | None = None,
    engine: str | None = None,
) -> "Recipe":
    """Return the recipe that a command's arguments mean. Writes nothing. Raises InputError."""
    hide_pandas_from_pyarrow()  # a process of the command has no use for it; a program that calls Python's doors may
    return find_recipe(name, source, store, overrides, engine)


def find_recipe(
    name: str | None,
    source: Path | None = None,
    store: str | None = None,
    overrides: list[str] | None = None,
    engine: str | None = None,
) -> "Recipe":
    """Return the same in any process. Raises InputError."""
    from flows.recipes.recipe import load_shipped_recipe, read_recipe, read_shipped_recipes
    from flows.recipes.run_settings import parse_engine
    from flows.recipes.tables import parse_override, resolve_store

    if (name is None) == (source is None):
        raise InputError("Name a recipe, or a folder of text with --source FOLDER (one of the two).")
    given = [parse_override(text) for text in overrides or []]
    pairs = dict([*given, *([("engine", engine)] if engine else [])])
    if source is not None:
        recipe = _folder_recipe(source, dict(given))
        recipe = replace(recipe, engine=parse_engine(engine)) if engine else recipe
    elif name in read_shipped_recipes() and not Path(str(name)).is_file():
        recipe = load_shipped_recipe(str(name), Path.cwd(), pairs)
    else:
        recipe = read_recipe(Path(str(name)), pairs)
    return replace(recipe, store=resolve_store(store, Path.cwd())) if store else recipe


def _folder_recipe(source: Path, overrides: dict[str, str]) -> "Recipe":
    """Return the recipe of a folder of text; it is kept in the current folder's store.

    A vocabulary's path is relative to the current folder, too, if there is something.
    """
    from flows.recipes.tables import parse_setting, to_toml
    from flows.run.inputs.folder_defaults import build_folder_recipe

    if not source.exists():
        raise InputError(f"--source {source}: there is no such folder.")
    path = parse_setting(overrides.get(VOCABULARY_PATH, ""))
    if isinstance(path, str) and path and Path(path).exists():
        overrides = overrides | {VOCABULARY_PATH: to_toml(str(Path(path).resolve()))}
    return build_folder_recipe(source, Path.cwd() / "store", overrides)
