"""Entry points: what installed packages add to Cloze, found by name and loaded only when needed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from corpora.errors import InputError
from corpora.store.settings import check_choice


def load_entry_point(point: EntryPoint) -> Any:
    """Return the object that an entry point names. Raises InputError if it cannot be imported."""
    try:
        return point.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise InputError(
            f"The entry point {point.name} = {point.value} ({point.group}) of {describe_package(point)} cannot be "
            f"loaded: {error}. Fix or remove that package."
        ) from error


def describe_package(point: EntryPoint) -> str:
    """Return name and version of the package of an entry point, as in "my-steps 1.2"; "" if it is not known."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """The values that a recipe may name: ours, and for any other name, what an installed package adds.

    what:    what a value is, for messages
    key:     the recipe's key that has the name
    group:   the group of entry points under which packages add theirs
    ours:    our own by name
    members: what the frozen dataclass that a package adds must have, besides its `kind`
    types:   the types of some of these members
    """

    what: str
    key: str
    group: str
    ours: Mapping[str, Any]
    members: tuple[str, ...] = ()
    types: Mapping[str, type] = field(default_factory=lambda: {"version": int})

    def list_names(self) -> tuple[str, ...]:
        """Return every name, those of installed packages included. No package is imported."""
        return tuple(dict.fromkeys((*self.ours, *sorted(entry_points(group=self.group).names))))

    def __contains__(self, name: str) -> bool:
        """Return whether there is a name. Installed packages are asked only about names that are not ours."""
        return name in self.ours or name in self.list_names()

    def find(self, name: str) -> Any:
        """Return what a name refers to. Raises InputError for an unknown name, and for a package that is broken."""
        if name in self.ours:
            return self.ours[name]
        point = self.find_entry_point(name)
        loaded = load_entry_point(point)
        if fault := self._find_fault(loaded, name):
            raise InputError(
                f"The {self.what} {name!r}, {point.value} of {describe_package(point)}, {fault}. Fix or remove that "
                "package."
            )
        return loaded

    def find_entry_point(self, name: str) -> EntryPoint:
        """Return the entry point that adds a name. Raises InputError if there is none, or two packages have one."""
        points = {(point.value, describe_package(point)): point for point in entry_points(group=self.group, name=name)}
        if len(points) > 1:
            packages = " and ".join(sorted(f"{package} ({value})" for value, package in points))
            raise InputError(f"The {self.what} {name!r} comes from {packages}. Remove all of these packages but one.")
        if not points:
            check_choice(self.key, name, self.list_names())
        return next(iter(points.values()))

    def find_package(self, name: str) -> str:
        """Return the package that a name comes from, with its version; "" for one of ours."""
        return "" if name in self.ours else describe_package(self.find_entry_point(name))

    def _find_fault(self, loaded: Any, name: str) -> str:
        """Return why an object cannot be used under this name; "" if it can."""
        if not (isinstance(loaded, type) and is_dataclass(loaded)):
            return "is not a dataclass"
        if not loaded.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return "is not frozen"
        if getattr(loaded, "kind", None) != name:
            return f"has the `kind` {getattr(loaded, 'kind', None)!r}"
        own = {each.name for each in fields(loaded)}
        if lacking := [member for member in self.members if member not in own and not hasattr(loaded, member)]:
            return f"has no `{lacking[0]}`"
        for member, kind in self.types.items():
            if not isinstance(getattr(loaded, member, None), kind):
                return f"has no `{member}` of the type {kind.__name__}"
        return ""
