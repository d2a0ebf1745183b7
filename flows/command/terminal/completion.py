"""The recipes that the shell completes; cyclopts writes the script of `cloze --install-completion`.

Commands and options are in the script; recipes are looked up when the Tab key is pressed, which costs a call of the
command.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext


def recipes(context: "CompletionContext") -> Iterator[str]:
    """Yield the recipes that a beginning may mean: those that come with the program, files `.toml`, folders."""
    from flows.recipes.recipe import read_shipped_recipes

    begun = context.incomplete
    yield from (name for name in read_shipped_recipes() if name.startswith(begun))
    folder, slash, start = begun.rpartition("/")
    if not Path(folder + slash or ".").is_dir():
        return
    for path in sorted(Path(folder + slash or ".").iterdir()):
        if path.name.startswith(start) and (path.is_dir() or path.suffix == ".toml") and path.name[0] != ".":
            yield f"{folder}{slash}{path.name}{'/' * path.is_dir()}"
