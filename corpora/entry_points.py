"""Entry points: what installed packages add to Cloze, found by name and loaded only when it is asked for."""

from importlib.metadata import EntryPoint
from typing import Any

from corpora.errors import InputError


def load_point(point: EntryPoint) -> Any:
    """The class that an entry point names. Raises InputError where it cannot be imported."""
    try:
        return point.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise InputError(
            f"The entry point {point.name} = {point.value} ({point.group}) of {package_of(point)} cannot be loaded: "
            f"{error}. Mend or remove that package."
        ) from error


def package_of(point: EntryPoint) -> str:
    """Name and version of the package that an entry point belongs to, as in "my-steps 1.2"."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""
