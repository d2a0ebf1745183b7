"""What each kind of stage takes for so much text, as one table; and the memory of its processes, its time by the clock.

The rates were measured on two shared cores of an AMD EPYC (x86-64), Python 3.11, on 2026-11-28: `python -m
benchmarks.laws run --megabytes 30 150 --books FOLDER`, and runs of folders of 1 to 60 MB in one process. Another
machine may take half of the time or twice as long. Memory was measured with `cloze run` (2026-11-22).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What a stage takes for one of each unit: seconds of processor time, bytes on disk. Unit "stage": however small"""

    seconds: Amounts
    disk_bytes: Amounts = field(default_factory=dict)


# Units: those of `TextSizes`; "workers", which load code first; "parts" of documents; "counted", the different words of
# each part; "pieces" of a vocabulary; "tokens", "example_tokens", "static_tokens" (with static masks), "examples"; of
# models "parameters", "flops", "steps", "processes" of the trainer, "labelled" and "answered" rows; "measured", the
# seconds of the sample.
RATES: Mapping[str, Rate] = {
    "fits": Rate(seconds={"measured": 1}),
    "documents": Rate(
        seconds={"measured": 1, "workers": 0.15},
        disk_bytes={"packed_bytes": 1, "documents": 60, "dropped": 60, "parts": 7_000},
    ),
    "signatures": Rate(seconds={"text_bytes": 8e-9, "workers": 0.02}, disk_bytes={"distinct": 500, "parts": 3_000}),
    "verdicts": Rate(seconds={"stage": 0.01, "documents": 2.2e-5}, disk_bytes={"documents": 17, "parts": 1_100}),
    "corpora": Rate(
        seconds={"text_bytes": 1e-8, "parts": 4e-3}, disk_bytes={"packed_bytes": 1, "distinct": 60, "parts": 5_000}
    ),
    "counts": Rate(seconds={"text_bytes": 9e-9, "parts": 4e-3}, disk_bytes={"counted": 5}),
    "counts byte-bpe": Rate(seconds={"text_bytes": 1.5e-8}, disk_bytes={"counted": 7.5}),
    "counts unigram": Rate(seconds={"text_bytes": 1.7e-8}, disk_bytes={"counted": 11}),
    "vocabularies": Rate(seconds={"stage": 0.03, "counted": 2.5e-7, "pieces": 3e-6}, disk_bytes={"pieces": 36}),
    "vocabularies byte-bpe": Rate(seconds={"stage": 0.03, "counted": 5e-7, "pieces": 9e-6}, disk_bytes={"pieces": 95}),
    "vocabularies unigram": Rate(seconds={"stage": 0.05, "counted": 1.1e-5}, disk_bytes={"pieces": 71}),
    "measures": Rate(seconds={"stage": 0.25, "counted": 1e-6}, disk_bytes={"stage": 12_000, "pieces": 1.6}),
    "measures byte-bpe": Rate(seconds={"stage": 0.4, "counted": 6e-6}, disk_bytes={"stage": 12_000, "pieces": 1.6}),
    "measures unigram": Rate(seconds={"stage": 0.2, "counted": 3e-6}, disk_bytes={"stage": 12_000, "pieces": 1.6}),
    "tokens": Rate(seconds={"text_bytes": 1.9e-8, "parts": 4e-3}, disk_bytes={"tokens": 1.5}),
    "tokens byte-bpe": Rate(seconds={"text_bytes": 3.5e-8}, disk_bytes={"tokens": 1.5}),
    "shards": Rate(
        seconds={"stage": 0.01, "example_tokens": 4e-8},
        disk_bytes={"example_tokens": 2.2, "examples": 64, "static_tokens": 0.7},
    ),
    "models": Rate(seconds={"processes": 6, "flops": 2.5e-11, "steps": 0.01}, disk_bytes={"parameters": 20}),
    "tasks": Rate(
        seconds={"processes": 6, "flops": 2.5e-11, "steps": 0.01, "labelled": 1e-4},
        disk_bytes={"parameters": 4, "pieces": 36, "answered": 40},
    ),
    "answers": Rate(
        seconds={"processes": 6, "flops": 2.5e-11, "text_bytes": 4e-7}, disk_bytes={"stage": 2_000, "answered": 40}
    ),
}

DRIVER_BYTES = 450_000_000  # the command itself, with the orchestrator's client and its server
WORKER_BYTES = 330_000_000  # the code that a worker has loaded
BATCH_BYTES = 150_000_000  # a batch of documents on its way through the steps
BATCH_TIMES = 20  # times the bytes of raw files, if they make no full batch
VERDICT_BYTES = 3_000  # a document's sketch, and the shingles of some
WORD_BYTES = {"wordpiece": 700, "unigram": 700, "byte-bpe": 770}  # a distinct word while its pieces are learnt

START_SECONDS = 2.0  # processor time of the command itself
WATCHED_SECONDS = 12.0  # the same, with the orchestrator and its server, of a run that trains
STAGE_SECONDS = 0.4  # by the clock: tasks that are sent, states that are written, a manifest that is published
SIDE_BY_SIDE = ("documents", "signatures", "corpora", "counts", "tokens", "shards")
ON_ALL_CORES = ("models", "tasks", "answers")


def cost_of(kind: str, amounts: Amounts, algorithm: str = "") -> tuple[float, float]:
    """Return the processor seconds and the bytes on disk of a stage. algorithm: of its vocabulary

    >>> seconds, disk_bytes = cost_of("tokens", {"text_bytes": 1e6, "tokens": 250_000})
    >>> round(seconds, 3), disk_bytes
    (0.019, 375000.0)
    """
    rate = RATES.get(f"{kind} {algorithm}", RATES[kind])
    seconds, disk_bytes = (
        sum(value * amounts.get(unit, 0.0) for unit, value in rates.items())
        for rates in (rate.seconds, rate.disk_bytes)
    )
    return seconds, disk_bytes


def usable_memory(root: Path = Path("/")) -> int:
    """Return the memory of this machine, or of the container if that is less."""
    lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    whole = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal"))
    limits = (root / "sys/fs/cgroup/memory.max", root / "sys/fs/cgroup/memory/memory.limit_in_bytes")
    texts = [file.read_text(encoding="ascii").strip() for file in limits if file.exists()]
    return min([whole, *(int(limit) for limit in texts if limit.isdigit())])


def cores() -> int:
    """Return how many cores this process may use."""
    return max(1, len(os.sched_getaffinity(0)))


def memory_of(kind: str, workers: int, documents: float, words: float, algorithm: str, raw_bytes: float) -> int:
    """Return the resident memory of all processes of a stage. raw_bytes: of all sources; few make no full batch"""
    own = min(workers * BATCH_BYTES, BATCH_TIMES * raw_bytes)
    if kind == "verdicts":
        own = VERDICT_BYTES * documents
    elif kind in ("vocabularies", "measures"):
        own = WORD_BYTES.get(algorithm, 770) * words
    return round(DRIVER_BYTES + workers * WORKER_BYTES + own)


def seconds_of(kind: str, cpu_seconds: float, workers: int, parts: float) -> float:
    """Return the time of a stage by the clock, alone on the machine."""
    hands = cores() if kind in ON_ALL_CORES else min(cores(), hands_of(kind, workers, parts))
    return cpu_seconds / hands + STAGE_SECONDS


def hands_of(kind: str, workers: int, parts: float) -> float:
    """Return how many workers a stage has work for."""
    return min(workers, max(1.0, parts)) if kind in SIDE_BY_SIDE else 1.0
