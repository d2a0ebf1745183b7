"""What a task is given, and how it finds what is not: a value that can be sent anywhere, and the driver's side.

The values hold what the function of a task works on, and no more: they can be pickled, and grow with the parts that
they name. What stays where the run was started (worker processes, callbacks, counts) is one `Home`, which a
task finds around itself, for the orchestrator's threads take the context of who submits to them with them. Whatever can
call a function on its arguments can be the runner of a home.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.pool import WorkerDied
from corpora.store.stage import PartPlan, Stage, Survey
from flows.stopping import give_way

Result = TypeVar("Result")
Advance = Callable[[str, int, int], None]


class Runner(Protocol):
    """Who calls functions on workers, wherever they are: a pool of processes."""

    def run(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a module-level function and wait for its result. Raises what it raised, or WorkerDied."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsWork:
    """A range of parts to build. stage: without its parts. distrusted: files that are known to be damaged"""

    place: Place
    stage: Stage
    plans: tuple[PartPlan, ...]
    distrusted: frozenset[str] = frozenset()

    @staticmethod
    def of(place: Place, stage: Stage, plans: Sequence[PartPlan], distrusted: frozenset[str]) -> "PartsWork":
        """The work that is some parts of a stage."""
        return PartsWork(place=place, stage=replace(stage, parts=()), plans=tuple(plans), distrusted=distrusted)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishWork:
    """A stage to publish: its parts and those of its survey are without the jobs that they are built by."""

    place: Place
    stage: Stage
    survey: Survey
    privacy: str

    @staticmethod
    def of(place: Place, stage: Stage, survey: Survey, privacy: str) -> "PublishWork":
        """The work that is publishing a stage after a survey."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """What stays where a run was started.

    advance: told how far a training is
    deaths:  of workers, by the record that each was reading
    """

    runner: Runner
    advance: Advance
    deaths: Counter[str] = field(default_factory=Counter)

    def run(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a function on a worker; where that dies, it is noted over which record."""
        give_way()
        try:
            return self.runner.run(function, *args)
        except WorkerDied as error:
            give_way()  # it was ended with everything else
            self.deaths.update([error.reading] if error.reading else [])
            raise


_home: ContextVar[Home] = ContextVar("home")


def home() -> Home:
    """The home of the run that this is called in."""
    return _home.get()


@contextmanager
def at_home(mine: Home) -> Iterator[None]:
    """Have the tasks of a block find this home."""
    token = _home.set(mine)
    try:
        yield
    finally:
        _home.reset(token)
