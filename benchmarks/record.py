"""The record of benchmarks: one line of JSON for each call that was asked to leave one.

A line has the call's day, the processor, the text and the MB asked for, the share of the machine that others used
meanwhile (a call known only from a page or a letter says so in `noted`, and may lack speeds), and of each
report the speed of each side and its CPU time in times of the first side's. No line is changed; one that a changed
benchmark has made meaningless is removed. `benchmarks.figures` makes the tables of docs/performance.md of them.
"""

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("figures.jsonl")


@dataclass(frozen=True, slots=True)
class Others:
    """The share of the machine's processor time that others use, from the moment this is made."""

    machine: float
    own: float
    moment: float

    @classmethod
    def now(cls) -> "Others":
        """Return a look at all clocks."""
        return cls(_machine_seconds(), time.process_time(), time.monotonic())

    def share(self) -> float:
        """Return the share since then, from 0 to 1."""
        later = Others.now()
        used = later.machine - self.machine - (later.own - self.own)
        return min(1.0, max(0.0, used / ((later.moment - self.moment) * (os.cpu_count() or 1))))


def _machine_seconds() -> float:
    """Return processor seconds that all processes have used since the machine started."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _wait, interrupt, soft, stolen = (int(field) for field in fields[:8])
    return (user + nice + system + interrupt + soft + stolen) / os.sysconf("SC_CLK_TCK")


def call_of(others: Others, **facts: Any) -> dict[str, Any]:
    """Return a call of today on this machine, as the record keeps it. others: since before it"""
    cpus = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    machine = {"processor": f"{len(cpus)} x {cpus[0]}", "others": round(others.share(), 2)}
    return {"date": time.strftime("%Y-%m-%d"), **machine, **facts}


def put_on_record(call: Mapping[str, Any], path: Path | None = None) -> None:
    """Add a call to a record: by default that of the comparisons."""
    with (path or RECORD).open("a", encoding="utf-8") as file:
        file.write(json.dumps(call, ensure_ascii=False) + "\n")


def read_calls(path: Path = RECORD) -> list[dict[str, Any]]:
    """Return all calls on record, oldest first."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
