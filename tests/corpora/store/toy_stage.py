"""A small stage for tests: parts of numbers and their squares as text, built on any process."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Parent
from corpora.store.part_writer import PartWriter
from corpora.store.stage import PartPlan, Stage

PATIENCE = 120.0  # seconds for others to begin: processes on a busy machine
NUMBERS = pa.schema([pa.field("number", pa.int64(), nullable=False)])
SQUARES = pa.schema([pa.field("square", pa.large_string()), pa.field("digits", pa.list_(pa.uint8()))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """calls: a folder where each call of the build function leaves a file; shift: added to every number; company: how
    many calls for a part must have begun before one goes on"""

    calls: Path | None = None
    shift: int = 0
    company: int = 1


def build_squares(writer: PartWriter, plan: PartPlan) -> Ledger:
    """Two tables in two batches each; every third number is dropped."""
    job: Job = plan.job
    if job.calls is not None:
        (job.calls / f"{plan.name} {uuid.uuid4().hex}").touch()
        end = time.monotonic() + PATIENCE
        while len(list(job.calls.glob(f"{plan.name} *"))) < job.company and time.monotonic() < end:
            time.sleep(0.01)
    first, count = plan.key
    kept = [number for number in range(first, first + count) if number % 3]
    with writer.create_table("numbers", NUMBERS) as numbers, writer.create_table("squares", SQUARES) as squares:
        for half in (kept[: len(kept) // 2], kept[len(kept) // 2 :]):
            shifted = [number + job.shift for number in half]
            texts = [str(number**2) for number in shifted]
            digits = [[int(digit) for digit in text] for text in texts]
            numbers.write(pa.record_batch([shifted], schema=NUMBERS))
            squares.write(pa.record_batch([texts, digits], schema=SQUARES))
    outcomes = {"kept": len(kept), "dropped: divisible": count - len(kept)}
    account = Account(unit="numbers", total=count, outcomes=outcomes)
    return Ledger(accounts=(account,), figures={"digits": sum(map(len, texts))})


def toy_stage(parts: int = 4, per_part: int = 10, job: Job | None = None, **changes: Any) -> Stage:
    """The numbers from 0 on, `per_part` of them a part."""
    plans = (
        PartPlan(name=f"part-{n:02d}", key=[n * per_part, per_part], job=job or Job(), labels={"split": "train"})
        for n in range(parts)
    )
    settings: Mapping[str, Any] = {"per_part": per_part, "rule": {"divisor": 3, "keep": ["rest"]}}
    fields: dict[str, Any] = {
        "kind": "toys",
        "name": "squares",
        "build_version": 1,
        "settings": settings,
        "parents": (Parent(role="numbers", name="all", fingerprint="0" * 24),),
        "libraries": {"pyarrow": "1", "numpy": "2"},
        "parts": tuple(plans),
        "build": build_squares,
        "facts": {"smallest": 1},
    }
    return Stage(**{**fields, **changes})


def calls_of(folder: Path) -> list[str]:
    """The parts that were built, one entry a call, in order of name."""
    return sorted(path.name.split()[0] for path in folder.iterdir())
