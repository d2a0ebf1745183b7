"""Entry points: what installed packages add to Cloze, found by name and loaded only when needed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from corpora.errors import InputError
from corpora.store.settings import check_choice


def load_entry_point(point: EntryPoint) -> Any:
    """Import the object that an entry point of an installed package refers to.

    Raises:
        InputError: If the import fails.
    """
    try:
        return point.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise InputError(
            f"The entry point {point.name} = {point.value} ({point.group}) of {describe_package(point)} cannot be "
            f"loaded: {error}. Fix or remove that package."
        ) from error


def describe_package(point: EntryPoint) -> str:
    """Return the name and version of the package that declares an entry point, such as "my-steps 1.2".

    The result is "" if the package is unknown.
    """
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """A registry of the values of one recipe key: built-in classes, and classes that installed packages add.

    Attributes:
        what: A noun for such a value, such as "task", used in error messages.
        key: The recipe key, such as "shards.input", used in error messages.
        group: Name of the group of entry points with which packages register their classes.
        ours: The built-in classes by name.
        members: Names of the attributes that a class from a package must have, besides `kind`.
        types: Required types of some of these attributes.
    """

    what: str
    key: str
    group: str
    ours: Mapping[str, Any]
    members: tuple[str, ...] = ()
    types: Mapping[str, type] = field(default_factory=lambda: {"version": int})

    def list_names(self) -> tuple[str, ...]:
        """List all names, including those that installed packages register. No package is imported."""
        return tuple(dict.fromkeys((*self.ours, *sorted(entry_points(group=self.group).names))))

    def __contains__(self, name: str) -> bool:
        """Return True if the name is registered. No package is imported."""
        return name in self.ours or name in self.list_names()

    def find(self, name: str) -> Any:
        """Look up the class with this name. If a package registers it, the package is imported.

        Raises:
            InputError: If the name is unknown, the package cannot be imported, or its class lacks a required attribute.
        """
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
        """Look up the entry point that registers this name.

        Raises:
            InputError: If there is none, or if several packages register the name.
        """
        points = {(point.value, describe_package(point)): point for point in entry_points(group=self.group, name=name)}
        if len(points) > 1:
            packages = " and ".join(sorted(f"{package} ({value})" for value, package in points))
            raise InputError(f"The {self.what} {name!r} comes from {packages}. Remove all of these packages but one.")
        if not points:
            check_choice(self.key, name, self.list_names())
        return next(iter(points.values()))

    def find_package(self, name: str) -> str:
        """Return the name and version of the package that registers this name; "" for built-in classes."""
        return "" if name in self.ours else describe_package(self.find_entry_point(name))

    def _find_fault(self, loaded: Any, name: str) -> str:
        """Check a class from a package, and describe what is wrong with it.

        Args:
            loaded: The object that the package's entry point refers to. It may be of any type.
            name: Name of the entry point, which the class must have as its `kind`.

        Returns:
            The end of an error message; "" if nothing is wrong.
        """
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
