"""Shell completion: the script of `cloze --install-completion`, and the completion of recipe names.

Commands and options are in the script; recipes are looked up when the Tab key is pressed, which costs a call of the
command.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from corpora.errors import InputError
from flows.command.terminal.output import console

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext

Shell = Literal["bash", "zsh", "fish"]


def add_completion(app: App) -> None:
    """Give a program the command `--install-completion`."""

    @app.command(name="--install-completion")
    def install_completion(
        *,
        shell: Annotated[Shell | None, Parameter(help="bash, zsh or fish; default: the one that this runs in.")] = None,
        output: Annotated[Path | None, Parameter(help="Write the script here, and change nothing else.")] = None,
    ) -> int:
        """Let the shell complete commands, options and recipes."""
        path = write_completion(app, shell, output)
        then = "." if output is not None else ": open a new shell to have it."
        console.print(f"The completion script is {path}{then}", markup=False)
        return 0


def write_completion(app: App, shell: Shell | None, output: Path | None) -> Path:
    """Write the script to a file, or to where the shell looks for it, and name it in the shell's start-up file.

    Where bash has nothing to propose, it continues with file names. Raises InputError.
    """
    from cyclopts.completion.detect import ShellDetectionError

    try:
        path = app.install_completion(shell=shell, output=output, add_to_startup=output is None)
        script = path.read_text(encoding="utf-8")
        path.write_text(script.replace("complete -F ", "complete -o default -F "), encoding="utf-8")
    except ShellDetectionError as error:
        raise InputError("Cannot tell which shell this is: name it with --shell bash, zsh or fish.") from error
    except OSError as error:
        raise InputError(
            f"Cannot write {error.filename or output}: {error.strerror}. Name another file with --output, and make the "
            "shell read it when it starts."
        ) from error
    return path


def recipes(context: "CompletionContext") -> Iterator[str]:
    """Yield the recipes that a beginning may mean: those that come with the program, files `.toml`, folders."""
    from flows.recipes.recipe import shipped_recipes

    begun = context.incomplete
    yield from (name for name in shipped_recipes() if name.startswith(begun))
    folder, slash, start = begun.rpartition("/")
    if not Path(folder + slash or ".").is_dir():
        return
    for path in sorted(Path(folder + slash or ".").iterdir()):
        if path.name.startswith(start) and (path.is_dir() or path.suffix == ".toml") and path.name[0] != ".":
            yield f"{folder}{slash}{path.name}{'/' * path.is_dir()}"
