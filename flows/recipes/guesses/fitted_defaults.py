"""The settings that a folder's defaults were fitted to: chosen once, kept in the lock, written into its recipe.

Promise: a folder keeps its choice, whatever files come later and whatever templates a newer version has: the lock holds
the settings themselves. A lock of a version that fitted nothing holds none, and its folder keeps the default rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flows.recipes.tables import leaves, toml


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The settings that fit the texts of a folder. looked_at: documents; why: what was chosen and why, a phrase each

    tables: what the recipe says for it, over the settings as they come
    """

    looked_at: int = 0
    why: tuple[str, ...] = ()
    tables: Mapping[str, Any] = field(default_factory=dict)

    def to_toml(self) -> str:
        """Return the tables as a recipe writes them, with the reasons as comments; "" where there are none."""
        if not self.tables:
            return ""
        comments = [f"# By a look at {self.looked_at:,} of its documents: {why}." for why in self.why]
        tables = [
            "\n".join([f"[{name}]", *(f"{key} = {toml(value)}" for key, value in leaves(table))])
            for name, table in self.tables.items()
        ]
        return "\n".join([*comments, *tables]) + "\n\n"


def fitted_line(name: str, fitted: Fitted) -> str:
    """Return what a run reports of fitted defaults; "" where nothing was fitted."""
    if not fitted.why:
        return ""
    return (
        f"{name}: by a look at {fitted.looked_at:,} of its documents: {'; '.join(fitted.why)}. To choose yourself: "
        f"--set KEY=VALUE, or a recipe (`cloze new`)."
    )
