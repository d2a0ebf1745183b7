"""Verdicts at several sizes: CPU time and memory of a document, and what is written for it.

    python -m benchmarks.verdicts 1e5 1e6 --rounds 5        (--folder D keeps the stores there for the next call)

Documents of 60 random words are written straight into parts; a tenth are copies, half of these with one word changed.
The sizes take turns, each run in a process of its own that has its kernels; a figure is the median over the rounds.
Own memory is what the process holds itself (`RssAnon`), above what it held before; the peak has the pages of files too.
What is written is nearly all scratch, to files without a name. One million documents need some 850 MB of disk, and 30 s
to make.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pyarrow as pa

from corpora.duplicates.build import plan_signatures, plan_verdicts
from corpora.duplicates.candidates import Input, SplitSettings
from corpora.duplicates.survivors import DuplicateSettings
from corpora.schema import DOCUMENTS, DROPPED, compute_keyed_id
from corpora.store.ledger import Account, Ledger
from corpora.store.manifest import Parent
from corpora.store.part_writer import PartWriter
from corpora.store.places.place import Place
from corpora.store.stage import PartPlan, Stage, build_stage, list_manifests
from corpora.tombstones import Tombstones

PART_ROWS, BATCH_ROWS, WORDS, VOCABULARY, COPIES = 20_000, 4_096, 60, 20_000, 0.1


def documents_stage(rows: int) -> Stage:
    """Return the stage that makes so many documents."""
    return Stage(
        kind="documents",
        name="made",
        build_version=1,
        settings={"rows": rows},
        parents=(Parent(role="raw", name="made", fingerprint=str(rows)),),
        libraries={},
        parts=tuple(
            PartPlan(name=f"{first:09d}", key=first, job=range(first, min(first + PART_ROWS, rows)))
            for first in range(0, rows, PART_ROWS)
        ),
        build=_write_documents,
    )


def _write_documents(writer: PartWriter, plan: PartPlan) -> Ledger:
    rows: range = plan.job
    texts = list(made_texts(rows.start, len(rows)))
    columns: dict[str, list[Any]] = {
        "id": [compute_keyed_id("made", str(row)) for row in rows],
        "keyed": [True] * len(rows),
        "text": texts,
        "source": ["made"] * len(rows),
        "locator": [{"file": "made", "sha256": "", "stream": -1, "offset": row, "length": 1} for row in rows],
        "quality": [50] * len(rows),
    }
    arrays = [pa.array(columns.get(field.name, [None] * len(rows)), field.type) for field in DOCUMENTS]
    table = pa.Table.from_arrays(arrays, schema=DOCUMENTS)
    with writer.create_table("documents", DOCUMENTS) as sink, writer.create_table("dropped", DROPPED) as dropped:
        for batch in table.to_batches(BATCH_ROWS):
            sink.write(batch)
        dropped.write(DROPPED.empty_table())
    return Ledger(accounts=(Account(unit="records", total=len(rows), outcomes={"documents": len(rows)}),))


def made_texts(seed: int, number: int) -> Iterator[str]:
    """Yield texts of random words, of which some are copies of earlier ones, half of them with another word."""
    spell = np.random.default_rng(5)
    words = ["".join(chr(97 + c) for c in spell.integers(0, 26, spell.integers(3, 11))) for _ in range(VOCABULARY)]
    draw = np.random.default_rng(seed + 1)
    chosen = draw.integers(0, VOCABULARY, (number, WORDS))
    copies = 1 + np.flatnonzero(draw.random(number - 1) < COPIES)
    chosen[copies] = chosen[(draw.random(len(copies)) * copies).astype(np.int64)]
    chosen[copies[::2], draw.integers(0, WORDS, len(copies[::2]))] = draw.integers(0, VOCABULARY, len(copies[::2]))
    for row in chosen.tolist():
        yield " ".join([words[word] for word in row])


def make_store(folder: Path, rows: int) -> None:
    """Make a store of documents and signatures, unless it is there."""
    place = Place(str(folder))
    build_stage(place, plan_signatures(build_stage(place, documents_stage(rows)), DuplicateSettings()))


def measure(folder: Path) -> dict[str, float]:
    """Build the verdicts of a store, after those of a small one, and return what it took."""
    with tempfile.TemporaryDirectory() as small:
        make_store(Path(small), 2_000)
        _build(Path(small))  # loads the kernels
    before, peak, done = _own_bytes(), [0], threading.Event()
    io = Path("/proc/self/io")
    written = _number(io, "wchar")

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], _own_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.process_time()
    rows = _build(folder)
    seconds = time.process_time() - begun
    done.set()
    watcher.join()
    return {
        "us": 1e6 * seconds / rows,
        "memory": (peak[0] - before) / rows,
        "written": (_number(io, "wchar") - written) / rows,
        "peak": _number(Path("/proc/self/status"), "VmHWM") / 1024,
    }


def _build(folder: Path) -> int:
    place = Place(str(folder))
    [documents], [sketches] = (list_manifests(place, kind, "made") for kind in ("documents", "signatures"))
    inputs = (Input(generation=1, priority=1, documents=documents, signatures=sketches),)
    rmtree(folder / "verdicts", ignore_errors=True)
    stage = plan_verdicts("made", inputs, DuplicateSettings(), SplitSettings(), Tombstones())
    return build_stage(place, stage).count_rows("verdicts")


def _own_bytes() -> int:
    """Return the memory that this process holds itself."""
    return _number(Path("/proc/self/status"), "RssAnon") * 1024


def _number(path: Path, name: str) -> int:
    [line] = [line for line in path.read_text(encoding="ascii").splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1])


def main() -> None:
    """Make the stores, let them take turns, and print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=lambda text: int(float(text)), default=[100_000, 400_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    with tempfile.TemporaryDirectory() as scratched:
        folder = given.folder or Path(scratched)
        for rows in given.sizes:
            make_store(folder / str(rows), rows)
        found: dict[int, list[dict[str, float]]] = {rows: [] for rows in given.sizes}
        for _ in range(given.rounds):
            for rows in given.sizes:
                command = [sys.executable, "-m", "benchmarks.verdicts", "--measure", str(folder / str(rows))]
                told = subprocess.run(command, check=True, capture_output=True, env=os.environ).stdout
                found[rows].append(json.loads(told))
    print(f"medians of {given.rounds}, for a document; the peak is the process's")
    print(f"{'documents':>12}  {'us':>7}  {'own bytes':>9}  {'written':>7}  {'peak MiB':>8}")
    for rows, runs in found.items():
        medians = [statistics.median(run[name] for run in runs) for name in ("us", "memory", "written", "peak")]
        print(f"{rows:>12,}  {medians[0]:>7.2f}  {medians[1]:>9.0f}  {medians[2]:>7.0f}  {medians[3]:>8,.0f}")


if __name__ == "__main__":
    main()
