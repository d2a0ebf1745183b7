"""What a stage costs: the rates of its kind (`stage_kinds.py`), times the amounts that it has to work on.

Units: documents, tokens, bytes of disk, bytes of memory (resident, of all processes of the stage), bytes of
scratch (files that are gone with the stage: in a store that is a folder, else in that for temporary files), seconds of
processor time, seconds by the clock.
"""

from dataclasses import asdict, dataclass
from typing import Any

from flows.run.policies import count_cores
from flows.run.stage_kinds import STAGES, Amounts, Rates

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
    """The estimated cost of building one pipeline stage. The units are listed in UNITS.

    Attributes:
        stage: Kind and name of the stage.
        documents, tokens: Their numbers in the stage's complete result; None if results of this kind do not have such
            counts.
        disk_bytes: Size of the files written to the store.
        memory_bytes: Peak memory of all processes of the stage.
        scratch_bytes: Size of temporary files, which are removed when the stage ends.
        cpu_seconds: CPU time in seconds.
        seconds: Elapsed time in seconds.
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
    """The estimates of a run.

    Attributes:
        stages: The estimates of the stages to build.
        basis: Lines that state the basis of the estimates.
        workers: Number of worker processes.
        raw_bytes: Total size of the raw files.
        stops: Lines about filter rules that would drop so many documents that the run stops.
        start_cpu_seconds: CPU time, in seconds, of the command and of the orchestrator's server.
    """

    stages: tuple[StageEstimate, ...]
    basis: tuple[str, ...] = ()
    workers: int = 1
    raw_bytes: int = 0
    stops: tuple[str, ...] = ()
    start_cpu_seconds: float = 0.0

    @property
    def run(self) -> StageEstimate:
        """The totals of the run, including the start of the command. For memory and temporary files, the maxima."""
        return StageEstimate(
            stage="the run",
            disk_bytes=sum(stage.disk_bytes for stage in self.stages),
            memory_bytes=max((stage.memory_bytes for stage in self.stages), default=0),
            scratch_bytes=max((stage.scratch_bytes for stage in self.stages), default=0),
            cpu_seconds=self.start_cpu_seconds + sum(stage.cpu_seconds for stage in self.stages),
            seconds=sum(stage.seconds for stage in self.stages),
        )

    def to_json(self) -> dict[str, Any]:
        """Convert the estimates to a dict for JSON output.

        The keys are the attributes, "units" (the unit of each number, as in UNITS) and "run" (the totals).
        """
        return {"units": UNITS, **asdict(self), "run": asdict(self.run)}


DRIVER_BYTES = 450_000_000  # the command itself, with the orchestrator's client and its server
START_SECONDS = 1.5  # processor time of the command itself
WATCHED_START_SECONDS = 12.0  # the same, with the orchestrator and its server, of a run that trains
STAGE_SECONDS = 0.4  # by the clock: tasks that are sent, states that are written, a manifest that is published


def compute_cost(rates: Amounts, amounts: Amounts) -> float:
    """Multiply each rate by the amount in its unit, and return the sum. Missing amounts count as zero.

    Args:
        rates: Cost per unit, by unit.
        amounts: Number of units, by unit.

    >>> round(compute_cost({"tokens": 1.5}, {"text_bytes": 1e6, "tokens": 250_000}))
    375000
    """
    return sum(rate * amounts.get(unit, 0.0) for unit, rate in rates.items())


def estimate_stage(stage: str, amounts: Amounts, algorithm: str = "", left: float = 1.0) -> StageEstimate:
    """Estimate the cost of a pipeline stage from the rates (costs per unit) of its kind.

    Args:
        stage: Kind and name, such as "shards/news".
        amounts: The amounts that the stage processes, by unit, such as {"text_bytes": 1e6}. "workers" and "parts" are
            required unless one process builds the stage. "documents" and "tokens" are required if results of its kind
            count them.
        algorithm: Algorithm of the stage's vocabulary, because some rates depend on it; "" if there is none.
        left: Share of the stage that still has to be built, from 0 to 1.
    """
    kind = STAGES[stage.partition("/")[0]]
    cpu_seconds = left * compute_cost(_get_rates(kind.seconds, algorithm), amounts)
    side_by_side = min(amounts["workers"], max(1, amounts["parts"])) if kind.is_per_source or kind.grows else 1
    hands = count_cores() if kind.is_alone else min(count_cores(), side_by_side)
    return StageEstimate(
        stage=stage,
        documents=round(amounts["documents"]) if "documents" in kind.counts else None,
        tokens=round(amounts["tokens"]) if "tokens" in kind.counts else None,
        disk_bytes=round(left * compute_cost(_get_rates(kind.disk_bytes, algorithm), amounts)),
        memory_bytes=round(DRIVER_BYTES + compute_cost(kind.memory_bytes, amounts)),
        scratch_bytes=round(compute_cost(kind.scratch_bytes, amounts)),
        cpu_seconds=round(cpu_seconds, 2),
        seconds=round(cpu_seconds / hands + STAGE_SECONDS, 2),
    )


def _get_rates(rates: Rates, algorithm: str) -> Amounts:
    return rates.get(algorithm) or rates.get("", {})
