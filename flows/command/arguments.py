"""Arguments that several commands take, and the recipe that they mean.

Nothing is written; recipes are imported when one is read.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from corpora.errors import InputError
from corpora.lean_process import arrays_without_pandas

if TYPE_CHECKING:
    from flows.recipes.recipe import Recipe

STANDARD_INPUT = "/dev/stdin"  # what `-` means
Shown = Parameter(show_default=lambda value: None if value is None or value is False or value == "" else str(value))
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
Workers = Annotated[int | None, Parameter(help="Number of worker processes; default: one per core.")]
Engine = Annotated[
    str | None, Parameter(help='Where parts are built: "local", or "tcp://HOST:PORT" of a Dask scheduler.')
]
Cron = Annotated[str | None, Parameter(help='When to run, in this machine\'s time: "0 3 * * *".')]
Every = Annotated[int | None, Parameter(help="Seconds between runs, instead of --cron.")]
Port = Annotated[int, Parameter(help="The port of the UI.", env_var="PREFECT_SERVER_API_PORT")]
AsJson = Annotated[bool, Parameter(name="--json", help="Print JSON for scripts.", negative=())]


def load_recipe(
    name: str | None,
    source: Path | None = None,
    store: str | None = None,
    overrides: list[str] | None = None,
    engine: str | None = None,
) -> "Recipe":
    """Return the recipe that a command's arguments mean. Writes nothing. Raises InputError."""
    arrays_without_pandas()  # a process of the command has no use for it; a program that calls Python's doors may
    return find_recipe(name, source, store, overrides, engine)


def find_recipe(
    name: str | None,
    source: Path | None = None,
    store: str | None = None,
    overrides: list[str] | None = None,
    engine: str | None = None,
) -> "Recipe":
    """Return the same in any process. Raises InputError."""
    from flows.recipes.recipe import read_recipe, shipped_recipe, shipped_recipes
    from flows.recipes.settings.engine import check_engine
    from flows.recipes.tables import read_override, resolved_store

    if (name is None) == (source is None):
        raise InputError("Name a recipe, or a folder of text with --source FOLDER (one of the two).")
    given = [read_override(text) for text in overrides or []]
    pairs = dict([*given, *([("engine", engine)] if engine else [])])
    if source is not None:
        recipe = _folder_recipe(source, dict(given))
        recipe = replace(recipe, engine=check_engine(engine)) if engine else recipe
    elif name in shipped_recipes() and not Path(str(name)).is_file():
        recipe = shipped_recipe(str(name), Path.cwd(), pairs)
    else:
        recipe = read_recipe(Path(str(name)), pairs)
    return replace(recipe, store=resolved_store(store, Path.cwd())) if store else recipe


def _folder_recipe(source: Path, overrides: dict[str, str]) -> "Recipe":
    """Return the recipe of a folder of text; it is kept in the current folder's store."""
    from flows.run.inputs.folder_defaults import recipe_of_folder

    if not source.exists():
        raise InputError(f"--source {source}: there is no such folder.")
    return recipe_of_folder(source, Path.cwd() / "store", overrides)
