"""`[bounds]`: limits for the figures of a run, for themselves and against the run before.

    [bounds]
    documents = { min = 1000, fall = 0.1 }
    "dropped share: *" = { rise_by = 0.05 }
    "held-out loss" = { max = 4.0, rise = 0.02 }
    "task sentiment: accuracy" = { min = 0.8, worse = 0.05 }

They decide no bytes and are in no fingerprint: a run that crosses one completes, and is marked.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from corpora.errors import InputError
from corpora.store.settings import bind_settings, suggest


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSettings:
    """Limits of one figure; the key of its table is the figure's name, with `*` for anything.

    A run that crosses one is complete, and is marked: Drifted in the UI, exit code 1, a notice. At least one is given.

    min, max:         the least and the most that it may be
    fall, rise:       the most that it may fall or rise against the run before, as a share of what it was
    fall_by, rise_by: the same in the figure's own unit; of a share (`duplicate share`) 0.05 are five points
    worse:            of the score of a task: it may not be lower than before where chance alone makes such a difference
                      less often than this, by a paired test on the same examples (0.05)
    """

    min: float | None = None
    max: float | None = None
    fall: float | None = None
    rise: float | None = None
    fall_by: float | None = None
    rise_by: float | None = None
    worse: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One line of `[bounds]`. figure: the name of a figure; `*` in it stands for anything"""

    figure: str
    settings: BoundSettings

    def is_of(self, name: str) -> bool:
        """Return whether it limits the figure of that name."""
        pattern = ".*".join(map(re.escape, self.figure.split("*")))
        return re.fullmatch(pattern, name, re.DOTALL) is not None

    def can_be_of(self, name: str) -> bool:
        """Return whether it limits the figure of a name, or one of those that begin so if the name ends in a space."""
        if not name.endswith(" "):
            return self.is_of(name)
        head, star, _ = self.figure.partition("*")
        return head.startswith(name) or bool(star and name.startswith(head))


def check_names(bounds: Sequence[Bound], names: Callable[[], Iterable[str]]) -> None:
    """Raise InputError for a bound of a figure that no run of its recipe has. names: of figures, as `can_be_of`"""
    for bound in bounds:
        if not any(map(bound.can_be_of, names())):
            known = (f"{name}*" if name.endswith(" ") else name for name in names())
            raise InputError(
                f'bounds."{bound.figure}" is of a figure that no run of this recipe has: {suggest(bound.figure, known)}'
            )


def read_bounds(table: Mapping[str, Any]) -> tuple[Bound, ...]:
    """Return the bounds in a recipe's table. Raises InputError."""
    return tuple(_bound(figure, section) for figure, section in table.items())


def _bound(figure: str, section: Any) -> Bound:
    where = f'bounds."{figure}"'
    if not isinstance(section, Mapping) or not section:
        keys = ", ".join(field.name for field in fields(BoundSettings))
        raise InputError(
            f"{where} = {section!r} must be a table of bounds ({keys}), as in {{ min = 1000, fall = 0.1 }}."
        )
    settings = bind_settings(BoundSettings, section, where)
    for field in fields(BoundSettings):
        value = getattr(settings, field.name)
        moves = field.name not in ("min", "max")
        if value is not None and not (isfinite(value) and (value >= 0 or not moves)):
            further = " from 0 up: it is how much the figure may move" if moves else ""
            raise InputError(f"{where}.{field.name} = {value} must be a number{further}.")
    if settings.min is not None and settings.max is not None and settings.min > settings.max:
        raise InputError(f"{where}: min = {settings.min:g} is more than max = {settings.max:g}.")
    return Bound(figure=figure, settings=settings)
