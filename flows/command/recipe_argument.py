"""The recipe that a command's arguments mean. Nothing is written; recipes are imported when one is read."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.errors import InputError
from corpora.lean_process import arrays_without_pandas

if TYPE_CHECKING:
    from flows.recipes.recipe import Recipe


def load_recipe(name: str | None, source: Path | None, store: str | None, overrides: list[str] | None) -> "Recipe":
    """Return the recipe that a command's arguments mean. Writes nothing. Raises InputError."""
    arrays_without_pandas()
    from flows.recipes.recipe import read_recipe, shipped_recipe, shipped_recipes
    from flows.recipes.tables import resolved_store

    if (name is None) == (source is None):
        raise InputError("Name a recipe, or a folder of text with --source FOLDER (one of the two).")
    pairs = dict(read_override(text) for text in overrides or [])
    if source is not None:
        recipe = _folder_recipe(source, pairs)
    elif name in shipped_recipes() and not Path(str(name)).is_file():
        recipe = shipped_recipe(str(name), Path.cwd(), pairs)
    else:
        recipe = read_recipe(Path(str(name)), pairs)
    return replace(recipe, store=resolved_store(store, Path.cwd())) if store else recipe


def read_override(text: str, option: str = "--set") -> tuple[str, str]:
    """Return key and value of one `--set`, or of one `--column`. Raises InputError."""
    key, equals, value = text.partition("=")
    if not equals:
        example = "text=sentence" if option == "--column" else "duplicates.threshold=0.7"
        raise InputError(f"{option} {text}: write it as key=value, as in {option} {example}.")
    return key, value


def _folder_recipe(source: Path, overrides: dict[str, str]) -> "Recipe":
    """Return the recipe of a folder of text; it is kept in the current folder's store."""
    from flows.run.inputs.folder_defaults import recipe_of_folder

    if not source.exists():
        raise InputError(f"--source {source}: there is no such folder.")
    return recipe_of_folder(source, Path.cwd() / "store", overrides)
