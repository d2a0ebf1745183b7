"""Estimates of a stage and of a run.

Units: documents, tokens, bytes of disk, bytes of memory (resident, of all processes of the stage), bytes of
scratch (files that are gone with the stage: in a store that is a folder, else in that for temporary files), seconds of
processor time, seconds by the clock.
"""

from dataclasses import asdict, dataclass
from typing import Any

UNITS = {
    "documents": "documents",
    "tokens": "tokens",
    "disk_bytes": "bytes",
    "memory_bytes": "bytes",
    "scratch_bytes": "bytes",
    "cpu_seconds": "processor seconds",
    "seconds": "seconds by the clock",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEstimate:
    """Estimate of a stage to be built. documents, tokens: of the finished artifact; None if it counts none

    The others are the cost of building it.
    """

    stage: str
    documents: int | None = None
    tokens: int | None = None
    disk_bytes: int = 0
    memory_bytes: int = 0
    scratch_bytes: int = 0
    cpu_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Holds the estimates of a run, for a number of workers.

    basis: what they are based on, in lines
    stops: rules that would drop too much, in lines; start_cpu_seconds: of the command and its server
    """

    stages: tuple[StageEstimate, ...]
    basis: tuple[str, ...] = ()
    workers: int = 1
    raw_bytes: int = 0
    stops: tuple[str, ...] = ()
    start_cpu_seconds: float = 0.0

    @property
    def run(self) -> StageEstimate:
        """All stages one after the other, and the start of the command; of memory and scratch, the stage with most."""
        return StageEstimate(
            stage="the run",
            disk_bytes=sum(stage.disk_bytes for stage in self.stages),
            memory_bytes=max((stage.memory_bytes for stage in self.stages), default=0),
            scratch_bytes=max((stage.scratch_bytes for stage in self.stages), default=0),
            cpu_seconds=self.start_cpu_seconds + sum(stage.cpu_seconds for stage in self.stages),
            seconds=sum(stage.seconds for stage in self.stages),
        )

    def to_json(self) -> dict[str, Any]:
        """Return a form for scripts: all figures, with their units and the sums."""
        return {"units": UNITS, **asdict(self), "run": asdict(self.run)}
