"""Entry points: what installed packages add to Cloze, found by name and loaded only when needed."""

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from corpora.errors import InputError
from corpora.store.settings import check_choice


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """The values that a recipe may name: ours, and for any other name, what an installed package adds.

    what:    is called so, for messages
    key:     of the recipe that has the name
    group:   of entry points, under which packages add theirs
    ours:    by name
    members: what the dataclass that a package adds must have
    """

    what: str
    key: str
    group: str
    ours: Mapping[str, Any]
    members: tuple[str, ...] = ()

    def find(self, name: str) -> Any:
        """Return what a name refers to. Raises InputError for an unknown name, and for a package that is broken."""
        if name in self.ours:
            return self.ours[name]
        point = self.point(name)
        loaded = load_point(point)
        lacking = next((member for member in self.members if not hasattr(loaded, member)), None)
        if lacking is not None or not is_dataclass(loaded):
            wrong = "is no dataclass" if lacking is None else f"has no {lacking!r}"
            raise InputError(
                f"The {self.what} {name!r} of {package_of(point)} {wrong}: that is a fault in its package."
            )
        return loaded

    def point(self, name: str) -> EntryPoint:
        """The entry point that adds a name. Raises InputError where there is none."""
        points = {point.name: point for point in entry_points(group=self.group)}
        check_choice(self.key, name, (*self.ours, *points))
        return points[name]

    def package(self, name: str) -> str:
        """The package that a name comes from, with its version; empty for one of ours."""
        return "" if name in self.ours else package_of(self.point(name))
