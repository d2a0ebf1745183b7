"""Bounds: finds the figures of a run that are outside the bounds of its recipe.

Promise: a bound of a figure that the run does not have is reported as crossed, and so is one whose figure is not a
finite number. A mistake in a name is refused when the recipe is read (`flows.recipes.settings.bounds`). What compares
with the run before is skipped if there is none.
Cost: negligible.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from types import MappingProxyType

from corpora.store.places.place import Place
from flows.recipes.settings.bounds import Bound
from flows.run.record.figures import COUNT, MEAN, SHARE, Change, Figures, compare, stored_manifests
from flows.run.record.run_record import RunRecord
from flows.run.record.task_scores import chances_of_worse


def crossings(
    bounds: Sequence[Bound], after: Figures, before: Figures | None, chances: Mapping[str, float] = MappingProxyType({})
) -> list[str]:
    """Return a line for each figure that crosses a bound of a recipe.

    before: the figures to compare with, if any; chances: of scores that are lower than before, how often chance does it
    """
    changes = compare(before if before is not None else {}, after)
    return [line for bound in bounds for line in _of_bound(bound, changes, chances)]


def crossings_of_run(
    place: Place, bounds: Sequence[Bound], run: RunRecord, after: Figures, before: tuple[RunRecord, Figures] | None
) -> tuple[str, ...]:
    """Return the same for a run with these figures. before: the run to compare with, if any. Raises Damaged."""
    chances = {}
    if before is not None and any(bound.settings.worse is not None for bound in bounds):
        chances = chances_of_worse(place, *(stored_manifests(place, each) for each in (run, before[0])))
    return tuple(crossings(bounds, after, before and before[1], chances))


def _of_bound(bound: Bound, changes: Sequence[Change], chances: Mapping[str, float]) -> Iterator[str]:
    concerned = [change for change in changes if bound.is_of(change.name)]
    if not concerned and not (absent := _absent(bound, changes)):
        yield f"{bound.figure} is no figure of this run: the bound is of another name"
        return
    for change in concerned or absent:
        yield from _of_change(bound, change)
        yield from _of_worse(bound, change, chances)


def _absent(bound: Bound, changes: Sequence[Change]) -> list[Change]:
    """Return 0 for a missing count or share by source or reason, if there are others of its family."""
    family, colon, _ = bound.figure.partition(": ")
    relatives = [change for change in changes if change.name == family or change.name.startswith(f"{family}: ")]
    if not colon or not relatives or relatives[0].kind == MEAN:
        return []
    return [Change(name=bound.figure, unit=relatives[0].unit, kind=relatives[0].kind, before=0.0, after=0.0)]


def _of_change(bound: Bound, change: Change) -> Iterator[str]:
    after, before, held = change.after, change.before, bound.settings
    if after is None or not isfinite(after):
        yield _crossing(change, "a number")
        return
    if held.min is not None and after < held.min:
        yield _crossing(change, f"min = {held.min:g}")
    if held.max is not None and after > held.max:
        yield _crossing(change, f"max = {held.max:g}")
    if before is None:
        return
    for key, share in (("fall", held.fall), ("rise", held.rise)):
        if share is not None and _gone(key, before, after) > share * abs(before):
            yield _crossing(change, f"{key} = {share:g}")
    for key, most in (("fall_by", held.fall_by), ("rise_by", held.rise_by)):
        if most is not None and _gone(key, before, after) > most:
            yield _crossing(change, f"{key} = {most:g}")


def _of_worse(bound: Bound, change: Change, chances: Mapping[str, float]) -> Iterator[str]:
    """Yield a line for a score that is worse than before by more than chance, or that cannot be tested."""
    most = bound.settings.worse
    if most is None or change.after is None or change.before is None or change.after >= change.before:
        return
    chance = chances.get(change.name)
    if chance is None:
        yield _crossing(change, f"worse = {most:g}", " on other examples, so that no test tells them apart")
    elif chance < most:
        yield _crossing(change, f"worse = {most:g}", f" on the same examples, p {chance:.2g}")


def _gone(key: str, before: float, after: float) -> float:
    """Return how far a figure moved in a bound's direction."""
    return before - after if key.startswith("fall") else after - before


def bound_of(crossing: str) -> str:
    """Return which bound of which figure a line of `crossings` is about, whatever the figure's value was.

    >>> bound_of("documents: what is new is 850 documents and was 1,000 documents: the bound is fall = 0.1")
    'documents: what is new: fall = 0.1'
    """
    name = re.match(r"(.*) is (?:[-\d]|not |no figure)", crossing, re.DOTALL)
    return f"{name[1] if name else crossing}: {crossing.rpartition(': the bound is ')[2]}"


def _crossing(change: Change, bound: str, how: str = "") -> str:
    was = "" if change.before is None else f" and was {in_words(change.before, change.unit, change.kind)}"
    after = "not there" if change.after is None else in_words(change.after, change.unit, change.kind)
    return f"{change.name} is {after}{was}{how}: the bound is {bound}"


def in_words(value: float, unit: str, kind: str) -> str:
    """Format a figure for people.

    >>> in_words(1234, "documents", COUNT), in_words(0.0312, "records", SHARE), in_words(8.25, "nats a token", MEAN)
    ('1,234 documents', '3.12 % of the records', '8.25 nats a token')
    """
    if not isfinite(value):
        return "not finite"
    if kind == SHARE:
        return f"{100 * value:.3g} % of the {unit}"
    return f"{value:,.0f} {unit}" if kind == COUNT else f"{value:.4g} {unit}"
