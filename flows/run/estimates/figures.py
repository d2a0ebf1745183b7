"""Estimates of a stage, and the forms in which they are kept.

Units: documents, tokens, bytes of disk, bytes of memory (resident, of all processes of the stage), seconds of
processor time, seconds by the clock.
"""

from dataclasses import asdict, dataclass
from typing import Any

UNITS = {
    "documents": "documents",
    "tokens": "tokens",
    "disk_bytes": "bytes",
    "memory_bytes": "bytes",
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
    cpu_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Holds the estimates of a run, for a number of workers.

    basis: what they are based on, in lines
    stops: rules that would drop too much, in lines; start_cpu_seconds: of the command and its server

    disk_bytes, cpu_seconds, seconds: of all stages; memory_bytes: of the one that takes most
    """

    stages: tuple[StageEstimate, ...]
    basis: tuple[str, ...] = ()
    workers: int = 1
    raw_bytes: int = 0
    stops: tuple[str, ...] = ()
    start_cpu_seconds: float = 0.0

    @property
    def disk_bytes(self) -> int:
        """The disk space that all stages take."""
        return sum(stage.disk_bytes for stage in self.stages)

    @property
    def memory_bytes(self) -> int:
        """The memory of the stage that takes most."""
        return max((stage.memory_bytes for stage in self.stages), default=0)

    @property
    def cpu_seconds(self) -> float:
        """The processor time of all stages, and of starting the command and its server."""
        return self.start_cpu_seconds + sum(stage.cpu_seconds for stage in self.stages)

    @property
    def seconds(self) -> float:
        """The time of all stages by the clock, one kind after the other."""
        return sum(stage.seconds for stage in self.stages)

    def to_json(self) -> dict[str, Any]:
        """Return a form for scripts: all figures, with their units and the sums."""
        sums = {name: getattr(self, name) for name in ("disk_bytes", "memory_bytes", "cpu_seconds", "seconds")}
        return {"units": UNITS, **asdict(self), "run": sums}
