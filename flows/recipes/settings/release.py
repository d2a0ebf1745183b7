"""The name under which a recipe's runs are released by themselves, and how long their records are kept.

None of it decides bytes, or what is built.
"""

from dataclasses import dataclass

from corpora.errors import InputError
from corpora.store.settings import check_range
from flows.recipes.tables import check_name

NO_NAME = "@:?&#"  # of the addresses of releases and stores


def check_release_name(key: str, name: str) -> None:
    """Raise InputError for what cannot name a release. key: under which the name was given"""
    check_name(key, name)
    if set(name) & set(NO_NAME) or name != name.strip():
        raise InputError(f"{key} = {name!r}: the name of a release has none of {NO_NAME}, and no space at its ends.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSettings:
    """Release of a run by itself, as `cloze release` does it: its files are verified, and its bounds hold.

    A run that crosses a bound, against the current release of that name, is not released: a person decides, with
    `cloze release`.

    name: under which complete runs are released; "": none is released by itself
    """

    name: str = ""

    def __post_init__(self) -> None:
        if self.name:
            check_release_name("release.name", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How much is kept of runs that have ended.

    runs:         records and reports of the recipe in its store, the newest; the last ten completed stay in any case
    history_days: under `cloze serve` and `cloze ui`, how long the orchestrator's own database keeps runs
    """

    runs: int = 500
    history_days: float = 30.0

    def __post_init__(self) -> None:
        check_range("retention.runs", self.runs, 1, 1e9)
        check_range("retention.history_days", self.history_days, 0.1, 36_500)
