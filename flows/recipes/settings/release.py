"""`[release]`: the name under which a recipe's runs are released by themselves. It decides no bytes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSettings:
    """Release of a run by itself, as `cloze release` does it: its files are verified, and its bounds hold.

    A run that crosses a bound, against the current release of that name, is not released: a person decides, with
    `cloze release`.

    name: under which complete runs are released; "": none is released by itself
    """

    name: str = ""
