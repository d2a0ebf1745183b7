"""The heartbeat of a run: what it does now, in a file of its store, and what it has cost so far.

`runs/RUN/running.json` exists from before the run looks at anything until its record is written. Nobody who sees it
may remove what the run may use: everything under its `names`. A run without a record whose process is gone is lost.

Cost: a look at the run's processes once a second, some 0.2 ms for each.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from corpora.store.leases import HeartbeatWriter
from corpora.store.places.place import Place
from corpora.store.processes import list_process_tree, read_cpu_seconds, read_resident_bytes
from flows.run.record.run_record import Cost
from flows.run.stage_kinds import STAGES
from flows.signals import give_way, last_word

if TYPE_CHECKING:
    from flows.recipes.recipe import Recipe

Advance = Callable[[str, int, int], None]

RATE_SECONDS = 2.0  # of progress, before a rate is reported


def running_path(run_id: str) -> str:
    """Return the path in the store where a run reports what it does now."""
    return f"runs/{run_id}/running.json"


def names_of(recipe: "Recipe") -> tuple[str, ...]:
    """Return the names of the artifacts that a run of a recipe may use or build, of all kinds."""
    return tuple(sorted({name for kind in STAGES.values() for name in kind.artifact_names(recipe, {})}))


@dataclass(kw_only=True)
class StageProgress:
    """Progress of a stage: how many of its missing parts, or steps of its training, are done.

    first, begun: how many were done at the first report, and when; earlier ones do not count for the rate
    """

    parts: int
    built: int
    first: int
    begun: float = field(default_factory=time.monotonic)

    def rate(self, now: float) -> float | None:
        """Return parts or steps a second; None until there is a rate."""
        seconds = now - self.begun
        return (self.built - self.first) / seconds if self.built > self.first and seconds > RATE_SECONDS else None

    def said(self, now: float) -> dict[str, Any]:
        """Return a form for the run's heartbeat."""
        rate = self.rate(now)
        left = None if rate is None else round((self.parts - self.built) / rate)
        rounded = None if rate is None else float(f"{rate:.3g}")
        return {"built": self.built, "parts": self.parts, "rate": rounded, "seconds_left": left}


@contextmanager
def unless_begun(pulse: "Pulse") -> Iterator["Pulse"]:
    """End the heartbeat if the block fails, and let it continue otherwise."""
    with last_word(pulse.end):
        try:
            yield pulse
        except BaseException:
            give_way()
            pulse.end()
            raise


class Pulse:
    """Reports what a run does while it is under way, and what it costs.

    doing:   what it does outside of stages
    workers: how many it has now
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
        self._cpu_before = read_cpu_seconds(list_process_tree(os.getpid()))
        self._peak = 0
        self._presence = HeartbeatWriter(place, running_path(run_id), self._said)

    def waiting(self, tell: Callable[[str], None]) -> Callable[[str], None]:
        """Wrap `tell` so that the heartbeat, too, reports what the run waits for."""

        def both(line: str) -> None:
            self.doing = line
            tell(line)

        return both

    def advance(self, stage: str, built: int, parts: int) -> StageProgress:
        """Record how many of a stage's missing parts are built; with all of them, the stage is done."""
        with self._turn:
            progress = self._stages.setdefault(stage, StageProgress(parts=parts, built=built, first=built))
            progress.built = built
            if built >= parts:
                del self._stages[stage]
            return progress

    def cost(self, bytes_written: int) -> Cost:
        """Return what the run has cost so far. bytes_written: of the parts that it built"""
        processes = list_process_tree(os.getpid())
        self._look(processes)
        seconds = read_cpu_seconds(processes) - self._cpu_before
        return Cost(cpu_seconds=round(max(0.0, seconds), 1), bytes_written=bytes_written, peak_bytes=self._peak)

    def end(self) -> None:
        """End the heartbeat: the run is on record, or never began. May be called again, and from any thread."""
        self._presence.stop()

    def _look(self, processes: list[int]) -> None:
        self._peak = max(self._peak, sum(map(read_resident_bytes, processes)))

    def _said(self) -> dict[str, Any]:
        self._look(list_process_tree(os.getpid()))
        now = time.monotonic()
        with self._turn:
            stages = {stage: progress.said(now) for stage, progress in self._stages.items()}
        return {**self._facts, "workers": self.workers, "doing": "" if stages else self.doing, "stages": stages}
