"""Payloads of tasks: values that can be sent anywhere.

They hold only what the function of a task works on: they can be pickled, and grow with the parts that they name. What
stays where the run was started (worker processes, callbacks, counts) is the run's state (`run_state.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsWork:
    """A range of parts to build. stage: without its parts. distrusted: files that are damaged"""

    place: Place
    stage: Stage
    plans: tuple[PartPlan, ...]
    distrusted: frozenset[str] = frozenset()

    @staticmethod
    def of(place: Place, stage: Stage, plans: Sequence[PartPlan], distrusted: frozenset[str]) -> "PartsWork":
        """Return the payload for some parts of a stage."""
        return PartsWork(place=place, stage=replace(stage, parts=()), plans=tuple(plans), distrusted=distrusted)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishWork:
    """A stage to publish: its parts and those of its survey come without the jobs that build them."""

    place: Place
    stage: Stage
    survey: Survey
    privacy: str

    @staticmethod
    def of(place: Place, stage: Stage, survey: Survey, privacy: str) -> "PublishWork":
        """Return the payload for publishing a stage after a survey."""
        bare = replace(stage, parts=_without_jobs(stage.parts))
        surveyed = replace(survey, missing=_without_jobs(survey.missing), others=(), faults=())
        return PublishWork(place=place, stage=bare, survey=surveyed, privacy=privacy)


def _without_jobs(plans: Sequence[PartPlan]) -> tuple[PartPlan, ...]:
    return tuple(replace(plan, job=None) for plan in plans)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseWork:
    """A stage that the store holds whole."""

    place: Place
    manifest: Manifest
    privacy: str
