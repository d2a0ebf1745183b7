"""Grids: one recipe in several forms, each next to the published figures.

    title = "Masking: static, dynamic"
    source = "Liu et al. 2019, table 1"
    caveat = "..."                      # about scale, in plain words: printed under the table

    [[cell]]
    name = "static"
    set = { "shards.masking.kind" = "static" }         # as `--set` has it
    published = { "glue/sst2" = 92.5 }                 # by the task of a suite, or another name

All cells are runs of the same recipe in the same store, so what they have in common is built once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corpora.errors import InputError
from corpora.store.settings import bind, toml_table

SHIPPED = Path(__file__).parent / "grids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One form of the recipe. set: keys and values as `--set` has them; published: what others have measured"""

    name: str
    set: Mapping[str, str] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Forms of a recipe that are compared."""

    name: str
    title: str
    source: str
    caveat: str
    cell: tuple[Cell, ...]

    @property
    def published(self) -> tuple[str, ...]:
        """Return the names of all figures published for any cell."""
        return tuple(dict.fromkeys(name for cell in self.cell for name in cell.published))


def shipped_grids() -> list[str]:
    """Return the names of the grids that come with the program."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def read_grid(asked: str) -> Grid:
    """Return the grid in a file, or one that comes with the program. Raises InputError."""
    path = SHIPPED / f"{asked}.toml" if asked in shipped_grids() else Path(asked)
    try:
        table = toml_table(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"There is no grid {asked} ({error.strerror}): give its file, or one of {', '.join(shipped_grids())}."
        ) from error
    except ValueError as error:
        raise InputError(f"The grid {path} is not TOML: {error}.") from error
    grid = bind(
        Grid, {"title": path.stem, "source": "", "caveat": "", "cell": [], **table, "name": path.stem}, str(path)
    )
    names = [cell.name for cell in grid.cell]
    if len({*names}) < 2 or len({*names}) < len(names):
        raise InputError(
            f"{path} has the cells {', '.join(map(repr, names)) or 'none'}: give two or more, each a name."
        )
    return grid
