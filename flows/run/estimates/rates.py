"""What a stage takes, from the rates of its kind (`stage_kinds.py`) and how much it has to work on."""

from flows.run.estimates.figures import StageEstimate
from flows.run.policies import default_workers
from flows.run.stage_kinds import STAGES, Amounts, Rates

DRIVER_BYTES = 450_000_000  # the command itself, with the orchestrator's client and its server
START_SECONDS = 1.5  # processor time of the command itself
WATCHED_SECONDS = 12.0  # the same, with the orchestrator and its server, of a run that trains
STAGE_SECONDS = 0.4  # by the clock: tasks that are sent, states that are written, a manifest that is published


def cost_of(rates: Amounts, amounts: Amounts) -> float:
    """Return what rates come to for amounts of their units.

    >>> round(cost_of({"tokens": 1.5}, {"text_bytes": 1e6, "tokens": 250_000}))
    375000
    """
    return sum(rate * amounts.get(unit, 0.0) for unit, rate in rates.items())


def estimate_of(stage: str, amounts: Amounts, algorithm: str = "", left: float = 1.0) -> StageEstimate:
    """Return the estimate of a stage. algorithm: of its vocabulary; left: the share of it that is to be built"""
    kind = STAGES[stage.partition("/")[0]]
    cpu_seconds = left * cost_of(_of_algorithm(kind.seconds, algorithm), amounts)
    side_by_side = min(amounts["workers"], max(1, amounts["parts"])) if kind.of_source or kind.grows else 1
    hands = default_workers() if kind.is_alone else min(default_workers(), side_by_side)
    return StageEstimate(
        stage=stage,
        documents=round(amounts["documents"]) if "documents" in kind.counts else None,
        tokens=round(amounts["tokens"]) if "tokens" in kind.counts else None,
        disk_bytes=round(left * cost_of(_of_algorithm(kind.disk_bytes, algorithm), amounts)),
        memory_bytes=round(DRIVER_BYTES + cost_of(kind.memory_bytes, amounts)),
        scratch_bytes=round(cost_of(kind.scratch_bytes, amounts)),
        cpu_seconds=round(cpu_seconds, 2),
        seconds=round(cpu_seconds / hands + STAGE_SECONDS, 2),
    )


def _of_algorithm(rates: Rates, algorithm: str) -> Amounts:
    return rates.get(algorithm) or rates.get("", {})
