"""The cost of building a stage: processor time, memory, time by the clock.

Processor time is that of the rehearsal, scaled, and what this module adds for processes that start. Memory follows the
laws of docs/performance.md and these figures of an x86-64 machine, measured with `cloze run` (2026-11-22).
"""

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from flows.recipes.lock import Lock
from flows.recipes.model_table import ModelEntry
from flows.recipes.recipe import Recipe
from flows.run.estimates.figures import StageEstimate
from trainer.jobs.repeats import MOST_EPOCHS
from trainer.settings.phases import PhaseSettings, num_tokens

DRIVER_BYTES = 450_000_000  # the command itself, with the orchestrator's client and its server
WORKER_BYTES = 330_000_000  # the code that a worker has loaded
BATCH_BYTES = 150_000_000  # a batch of documents on its way through the steps
BATCH_TIMES = 20  # times the bytes of raw files, if they make no full batch
VERDICT_BYTES = 3_000  # a document's sketch, and the shingles of some
WORD_BYTES = {"wordpiece": 700, "unigram": 700, "byte-bpe": 770}  # a distinct word while its pieces are learnt
START_SECONDS = 8.0  # processor time of the command itself, with the orchestrator's client and its server
LOAD_SECONDS = 2.0  # processor time until a worker has loaded what documents need; for later stages LATER_SECONDS
LATER_SECONDS = 0.3
STAGE_SECONDS = 0.4  # by the clock: tasks that are sent, states that are written, a manifest that is published
SIDE_BY_SIDE = ("documents", "signatures", "corpora", "counts", "tokens", "shards")
PARAMETER_BYTES = 16  # weights, gradients, two moments, of 4 bytes
CHECKPOINT_BYTES = 12  # weights and moments; an export has 4
FLOPS = 4e10  # of one core in a step: 2,200 tokens a second of BERT base
TORCH_BYTES = 600_000_000
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".7z", ".parquet", ".orc", ".avro", ".epub", ".docx", ".odt", ".pdf")


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
    hands = min(workers, cores(), max(1.0, parts)) if kind in SIDE_BY_SIDE else 1.0
    return cpu_seconds / hands + STAGE_SECONDS


def load_seconds(kind: str, workers: int, parts: float) -> float:
    """Return the processor time that workers spend on loading what a kind of stage needs."""
    each = LOAD_SECONDS if kind == "documents" else LATER_SECONDS
    return each * min(workers, max(1.0, parts))


def training_of(
    stage: str, entry: ModelEntry, recipe: Recipe, vocabulary_size: int, to_train_on: Mapping[str, float]
) -> StageEstimate:
    """Return what a model takes, by its shape and the steps of its training; every example as long as shards allow.

    to_train_on: tokens of each shard set, for phases whose length is said in epochs
    """
    layers, hidden, _, feed_forward = entry.settings.shape
    length = max(shards.settings.length for shards in recipe.shards if shards.name in entry.shards)
    body = layers * (4 * hidden * hidden + 2 * hidden * feed_forward + 9 * hidden + feed_forward)
    embedded = (vocabulary_size + (entry.settings.max_length or 512) + 4) * hidden
    lengths = {shards.name: shards.settings.length for shards in recipe.shards}
    phases = zip(entry.training.phase, entry.phases, strict=True)
    tokens = sum(
        tokens_of(phase, [lengths[name] for name in names], sum(to_train_on.get(name, 0.0) for name in names))
        for phase, names in phases
    )
    flops = 6 * body + 6 * 0.15 * vocabulary_size * hidden + 12 * layers * hidden * length
    most = max(phase.batch for phase in entry.training.phase)
    held = min(most, entry.training.micro_batch or most) * length
    held = min(held, entry.training.micro_batch_tokens or held)
    activations = held * (layers * 34 * hidden * 4 + 0.2 * vocabulary_size * 8)
    parameters = body + embedded
    cpu_seconds = tokens * flops / FLOPS
    return StageEstimate(
        stage=stage,
        tokens=tokens,
        disk_bytes=parameters * (4 + CHECKPOINT_BYTES),
        memory_bytes=round(DRIVER_BYTES + TORCH_BYTES + parameters * PARAMETER_BYTES + activations),
        cpu_seconds=round(cpu_seconds, 2),
        seconds=round(cpu_seconds / cores() + STAGE_SECONDS, 2),
    )


def surely_repeated(recipe: Recipe, lock: Lock) -> str:
    """Return a warning where a training is too long for any text that the raw files can hold; else "".

    It is for the start of a run, before anything is counted: a file of text has a token in two bytes at most, and one
    that is packed four in a byte.
    """
    if recipe.model is None:
        return ""
    lengths = {shards.name: shards.settings.length for shards in recipe.shards}
    phases = zip(recipe.model.training.phase, recipe.model.phases, strict=True)
    read = sum(tokens_of(phase, [lengths[name] for name in names]) for phase, names in phases)
    files = [file for generation in lock.generations for raw in generation.values() for file in raw]
    most = sum(file.size_bytes * (4 if file.name.endswith(PACKED) else 0.5) for file in files)
    passes = read / max(1, most)
    if passes <= MOST_EPOCHS:
        return ""
    return (
        f"The training reads {read:,} tokens, and all raw files hold {most:,.0f} at most: each is read {passes:,.0f} "
        f"times or more. Above {MOST_EPOCHS:,} passes over the text it is refused, unless max_epochs in [training] "
        "allows it."
    )


def tokens_of(phase: PhaseSettings, lengths: Sequence[int], held: float = 0.0) -> int:
    """Return the most tokens that a phase reads. lengths: the longest example of each shard set; held: their tokens"""
    if phase.tokens is not None:
        return num_tokens("training.phase.tokens", phase.tokens)
    if not phase.steps:
        return sum(phase.quotas) or round((phase.epochs or 0) * held)
    slots = [Fraction(tokens, length) for tokens, length in zip(phase.quotas, lengths, strict=False)]
    parts = slots or phase.weights or (Fraction(1),)
    mean = sum((part * length for part, length in zip(parts, lengths, strict=True)), Fraction()) / sum(parts)
    ramp = phase.batch_ramp
    if ramp is not None and ramp.tokens is not None:  # how many steps it has is not known yet
        return round(phase.steps * phase.batch * mean)
    return round(phase.slots * mean)
