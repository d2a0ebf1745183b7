"""What each kind of stage takes for so much text: tables of rates for processor time, disk and memory.

The rates were measured on two shared cores of an AMD EPYC (x86-64), Python 3.11, on 30 and 150 MB of novels and on
folders of 1 to 60 MB in one process (2026-11-28). Another machine may take half of the time or twice as long. Memory
was measured with `cloze run` (2026-11-22). A plan has to be right within a factor of two, so small terms are left out.

Units: those of `TextSizes`; "stage", one, however small; "workers"; "parts" of documents; "different" words of the
text, and "counted", those of each part; "pieces" of a vocabulary; "tokens"; "fitted", seconds that statistics take; of
models "parameters", "flops", "steps", "answered" rows and "model_bytes" of memory.
"""

from collections.abc import Mapping

from flows.run.estimates.figures import StageEstimate
from flows.run.policies import default_workers

Amounts = Mapping[str, float]

SECONDS: Mapping[str, Amounts] = {
    "fits": {"fitted": 1},
    "documents": {"measured": 1, "workers": 0.15},
    "signatures": {"stage": 0.01, "text_bytes": 8e-9},
    "verdicts": {"stage": 0.01, "documents": 2.2e-5},
    "corpora": {"text_bytes": 1e-8, "parts": 4e-3},
    "counts": {"stage": 0.01, "text_bytes": 1.3e-8},
    "vocabularies": {"stage": 0.03, "counted": 2.5e-7, "pieces": 3e-6},
    "vocabularies byte-bpe": {"stage": 0.03, "counted": 5e-7, "pieces": 9e-6},
    "vocabularies unigram": {"stage": 0.05, "counted": 1.1e-5},
    "measures": {"stage": 0.2, "counted": 1.5e-6},
    "measures byte-bpe": {"stage": 0.3, "counted": 5e-6},
    "tokens": {"text_bytes": 1.9e-8, "parts": 4e-3},
    "tokens byte-bpe": {"text_bytes": 3.5e-8},
    "shards": {"stage": 0.01, "tokens": 4e-8},
    "models": {"stage": 6, "flops": 2.5e-11, "steps": 0.01},
    "tasks": {"stage": 6, "flops": 2.5e-11, "steps": 0.01, "documents": 1e-4},
    "answers": {"stage": 6, "flops": 2.5e-11, "text_bytes": 4e-7},
}
DISK_BYTES: Mapping[str, Amounts] = {
    "documents": {"packed_bytes": 1, "documents": 60, "parts": 7_000},
    "signatures": {"documents": 500, "parts": 3_000},
    "verdicts": {"stage": 1_100, "documents": 17},
    "corpora": {"packed_bytes": 1, "documents": 60, "parts": 5_000},
    "counts": {"counted": 5},
    "counts unigram": {"counted": 11},
    "vocabularies": {"pieces": 36},
    "vocabularies byte-bpe": {"pieces": 95},
    "vocabularies unigram": {"pieces": 71},
    "measures": {"stage": 12_000, "pieces": 1.6},
    "tokens": {"tokens": 1.5},
    "shards": {"tokens": 3},
    "models": {"parameters": 20},
    "tasks": {"parameters": 4, "pieces": 36, "answered": 40},
    "answers": {"stage": 2_000, "answered": 40},
}
DRIVER_BYTES = 450_000_000  # the command itself, with the orchestrator's client and its server
WORKER_BYTES = 330_000_000  # the code that a worker has loaded
MEMORY_BYTES: Mapping[str, Amounts] = {  # next to the command itself; of other stages as of documents
    "documents": {"workers": WORKER_BYTES},
    "verdicts": {"workers": WORKER_BYTES, "documents": 3_000},  # a document's sketch, and the shingles of some
    "vocabularies": {"workers": WORKER_BYTES, "different": 750},
    "measures": {"workers": WORKER_BYTES, "different": 750},
    "models": {"model_bytes": 1},
    "tasks": {"model_bytes": 1, "documents": 600},
    "answers": {"model_bytes": 1},
}

START_SECONDS = 1.5  # processor time of the command itself
WATCHED_SECONDS = 12.0  # the same, with the orchestrator and its server, of a run that trains
STAGE_SECONDS = 0.4  # by the clock: tasks that are sent, states that are written, a manifest that is published
SIDE_BY_SIDE = ("documents", "signatures", "corpora", "counts", "tokens", "shards")
ON_ALL_CORES = ("models", "tasks", "answers")
WITH_DOCUMENTS = ("fits", "documents", "signatures", "verdicts", "corpora", "tokens", "tasks", "answers")
WITH_TOKENS = ("tokens", "shards", *ON_ALL_CORES)


def cost_of(rates: Amounts, amounts: Amounts) -> float:
    """Return what rates come to for amounts of their units.

    >>> round(cost_of(DISK_BYTES["tokens"], {"text_bytes": 1e6, "tokens": 250_000}))
    375000
    """
    return sum(rate * amounts.get(unit, 0.0) for unit, rate in rates.items())


def estimate_of(stage: str, amounts: Amounts, algorithm: str = "", left: float = 1.0) -> StageEstimate:
    """Return the estimate of a stage. algorithm: of its vocabulary; left: the share of it that is to be built"""
    kind = stage.partition("/")[0]
    special = f"{kind} {algorithm}"
    cpu_seconds = left * cost_of(SECONDS.get(special, SECONDS[kind]), amounts)
    side_by_side = min(amounts["workers"], max(1, amounts["parts"])) if kind in SIDE_BY_SIDE else 1
    hands = default_workers() if kind in ON_ALL_CORES else min(default_workers(), side_by_side)
    return StageEstimate(
        stage=stage,
        documents=round(amounts["documents"]) if kind in WITH_DOCUMENTS else None,
        tokens=round(amounts["tokens"]) if kind in WITH_TOKENS else None,
        disk_bytes=round(left * cost_of(DISK_BYTES.get(special, DISK_BYTES.get(kind, {})), amounts)),
        memory_bytes=round(DRIVER_BYTES + cost_of(MEMORY_BYTES.get(kind, MEMORY_BYTES["documents"]), amounts)),
        cpu_seconds=round(cpu_seconds, 2),
        seconds=round(cpu_seconds / hands + STAGE_SECONDS, 2),
    )
