"""The pulse of a run: what it does now, in a file of its store, and what it has cost so far.

`runs/RUN/running.json` is there from before the run looks at anything until its record is: who sees it may not take
away what the run may use, which is everything under its `names`. A run without a record whose process is gone is lost.

Cost: a look at the run's processes once a second, some 0.2 ms for each.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from corpora.store.leases.active_runs import Presence
from corpora.store.places.place import Place
from corpora.store.workers.processes import cpu_seconds, family, resident_bytes
from flows.run.record.run_record import Cost
from flows.signals import give_way, last_word

if TYPE_CHECKING:
    from flows.recipes.recipe import Recipe

Advance = Callable[[str, int, int], None]

RATE_SECONDS = 2.0  # of progress, before a rate is told


def running_path(run_id: str) -> str:
    """Where a run says in its store what it does now."""
    return f"runs/{run_id}/running.json"


def names_of(recipe: "Recipe") -> tuple[str, ...]:
    """What the artifacts are called that a run of a recipe may use or build, whatever their kind."""
    tables = [*(entry.name for entry in recipe.vocabularies), *(entry.name for entry in recipe.shards)]
    sources = [entry.source.name for entry in recipe.sources]
    return tuple(sorted({recipe.name, *sources, *map(recipe.artifact_name, tables)}))


@dataclass(kw_only=True)
class StageProgress:
    """How far a stage is: so many of its missing parts, or steps of its training, are there.

    first, begun: how many were there when it was heard of, and when; what was there before tells nothing of the rate
    """

    parts: int
    built: int
    first: int
    begun: float = field(default_factory=time.monotonic)

    def rate(self, now: float) -> float | None:
        """Parts or steps a second; None until it is known."""
        seconds = now - self.begun
        return (self.built - self.first) / seconds if self.built > self.first and seconds > RATE_SECONDS else None

    def said(self, now: float) -> dict[str, Any]:
        """For the run's pulse."""
        rate = self.rate(now)
        left = None if rate is None else round((self.parts - self.built) / rate)
        rounded = None if rate is None else float(f"{rate:.3g}")
        return {"built": self.built, "parts": self.parts, "rate": rounded, "seconds_left": left}


@contextmanager
def unless_begun(pulse: "Pulse") -> Iterator["Pulse"]:
    """The pulse ends where the block does not come to its end, and goes on where it does."""
    begun = False
    with last_word(pulse.end):
        try:
            yield pulse
            begun = True
        finally:
            if not begun:
                give_way()
                pulse.end()


class Pulse:
    """What a run says of itself while it is on its way, and what it costs.

    doing:   what it does that is no stage
    workers: as many as it has by now
    """

    doing = "finds its raw files"
    workers = 0

    def __init__(self, place: Place, recipe: "Recipe", run_id: str, started: str) -> None:
        self._facts = {
            "run_id": run_id,
            "recipe": recipe.name,
            "names": names_of(recipe),
            "started": started,
        }
        self._stages: dict[str, StageProgress] = {}
        self._turn = threading.Lock()
        self._cpu_before = cpu_seconds(family(os.getpid()))
        self._peak = 0
        self._presence = Presence(place, running_path(run_id), self._said)

    def waiting(self, tell: Callable[[str], None]) -> Callable[[str], None]:
        """Tell another of what the run waits for, too."""

        def both(line: str) -> None:
            self.doing = line
            tell(line)

        return both

    def advance(self, stage: str, built: int, parts: int) -> StageProgress:
        """So many of the parts of a stage that are missing are there; all of them: it is done."""
        with self._turn:
            progress = self._stages.setdefault(stage, StageProgress(parts=parts, built=built, first=built))
            progress.built = built
            if built >= parts:
                del self._stages[stage]
            return progress

    def cost(self, bytes_written: int) -> Cost:
        """What the run has cost by now, of which so many bytes are parts that it built."""
        processes = family(os.getpid())
        self._look(processes)
        seconds = cpu_seconds(processes) - self._cpu_before
        return Cost(cpu_seconds=round(max(0.0, seconds), 1), bytes_written=bytes_written, peak_bytes=self._peak)

    def end(self) -> None:
        """The run is on record, or never began. May be called again, and from any thread."""
        self._presence.end()

    def _look(self, processes: list[int]) -> None:
        self._peak = max(self._peak, sum(map(resident_bytes, processes)))

    def _said(self) -> dict[str, Any]:
        self._look(family(os.getpid()))
        now = time.monotonic()
        with self._turn:
            stages = {stage: progress.said(now) for stage, progress in self._stages.items()}
        return {**self._facts, "workers": self.workers, "doing": "" if stages else self.doing, "stages": stages}
