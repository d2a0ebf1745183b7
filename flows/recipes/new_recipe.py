"""`cloze new`: a recipe to begin with, whose rules fit the kind of text that it is for."""

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.store.settings import check_choice

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def templates() -> dict[str, str]:
    """The templates by name, as text with `{name}` in it."""
    folder = files("flows.recipes") / "templates"
    found = sorted(file.name for file in folder.iterdir() if file.name.endswith(".toml"))
    return {name.removesuffix(".toml"): (folder / name).read_text(encoding="utf-8") for name in found}


def template_tables(template: str) -> dict[str, Any]:
    """What a template says, by its tables."""
    return tomllib.loads(templates()[template].format(name=template))


def new_recipe(name: str, template: str, folder: Path) -> Path:
    """Write NAME.toml into a folder; returns its path. Raises InputError for a file that is there already."""
    known = templates()
    check_choice("--template", template, tuple(known))
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot name a recipe: use letters, digits, - and _, as in `cloze new tickets-2026`."
        )
    path = folder / f"{name}.toml"
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(known[template].format(name=name))
    except FileExistsError as error:
        raise InputError(
            f"{path} is there already, and is left as it is. Choose another name, or remove it."
        ) from error
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {error.strerror}. Run the command in a folder that you may write."
        ) from error
    return path
