"""The settings that a folder's defaults were fitted to: chosen once, kept in the lock, written into its recipe.

Promise: a folder keeps its choice, whatever files come later and whatever templates a newer version has: the lock holds
the settings themselves. A lock of a version that fitted nothing holds none, and its folder keeps the default rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corpora.errors import InputError
from corpora.sources.registry import has_setting
from flows.recipes.settings.privacy import visible
from flows.recipes.tables import dotted, key_parts, leaves, setting_value, toml_lines
from tokenizers_train.vocabularies.settings import is_of_algorithm

SHOWN = 120  # characters of a setting


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
        return "\n".join([*comments, *toml_lines(self.tables)]) + "\n\n"


def chosen_line(name: str, chosen: Mapping[str, str]) -> str:
    """Return what a run reports of the settings that a folder was given earlier or now; "" where there are none."""
    if not chosen:
        return ""
    listed = ", ".join(visible(f"{key}={value}", SHOWN) for key, value in chosen.items())
    first = next(iter(chosen))
    return f"{name}: set for this folder, and remembered by its lock: {listed}. To forget one: --set {first}=."


def with_chosen(remembered: Mapping[str, str], given: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the settings of a folder after some `--set`. Raises InputError.

    A value without text forgets a setting, and so does a new one that excludes it.

    >>> with_chosen({"seed": "7", "source.encoding": "auto"}, {"seed": "", "source.own.encoding": "utf-8"}, "own")
    {'source.encoding': 'utf-8'}
    >>> with_chosen({"seed": "7", "vocabulary.size": "900"}, {"vocabulary.path": "mine"}, "own")
    {'seed': '7', 'vocabulary.path': 'mine'}
    """
    new = {_without_name(key, source): value.strip() for key, value in given.items()}
    if strange := [key for key, value in new.items() if not value and key not in remembered]:
        listed = ", ".join(remembered) or "nothing"
        raise InputError(
            f"--set {strange[0]}= forgets what was set for this folder, and that was not: remembered is {listed}. To "
            f"set an empty text: --set '{strange[0]}=\"\"'."
        )
    kept = {key: value for key, value in remembered.items() if key not in new}
    now = {key: value for key, value in new.items() if value}
    return {key: value for key, value in kept.items() if not is_excluded(key, now)} | now


def proposed_next_to(given: Mapping[str, Any], table: str, proposed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is proposed for a table of a folder's recipe next to the settings of `--set`, which may exclude some.

    As many of a vocabulary's letters are kept as fit its size.
    """
    algorithm, size = proposed.get("algorithm", ""), setting_value(given.get("vocabulary.size", ""))
    other = any(key_parts(key)[0] == table and not is_of_algorithm(key_parts(key)[-1], algorithm) for key in given)
    kept = {key: value for key, value in proposed.items() if not is_excluded(f"{table}.{key}", given)}
    if other:
        kept.pop("algorithm", None)
    if "limit_alphabet" in kept and isinstance(size, int):
        kept["limit_alphabet"] = max(1, kept["limit_alphabet"] * size // proposed["size"])
    return kept


def is_excluded(setting: str, given: Mapping[str, Any]) -> bool:
    """Return True if no recipe of a folder has a setting next to one that is given with `--set`."""
    values = dict(leaves({key: setting_value(value) for key, value in given.items()}))
    table, name, *_ = [*key_parts(setting), ""]
    if table == "source" and "source.kind" in values:
        return has_setting("files", name) and not has_setting(values["source.kind"], name)
    if table != "vocabulary":
        return False
    if name == "path":
        return any(key.startswith("vocabulary.") and key != "vocabulary.lowercase" for key in values)
    algorithm = values.get("vocabulary.algorithm")
    unknown = algorithm is not None and not is_of_algorithm(name, algorithm)
    return unknown or not {"vocabulary.path", "model.start"}.isdisjoint(values)


def _without_name(key: str, source: str) -> str:
    """Return a key of `--set` without the name or number of the folder's only source."""
    first, *rest = key_parts(key)
    named = first == "source" and len(rest) > 1 and rest[0] in (source, "1")
    return dotted([first, *rest[named:]])


def fitted_line(name: str, fitted: Fitted) -> str:
    """Return what a run reports of fitted defaults; "" where nothing was fitted."""
    if not fitted.why:
        return ""
    return (
        f"{name}: by a look at {fitted.looked_at:,} of its documents: {'; '.join(fitted.why)}. To choose yourself: "
        f"--set KEY=VALUE, or a recipe (`cloze new`)."
    )
