"""Search in vectors: all of them, and an index, next to the sorting of all similarities.

    python -m benchmarks.nearest --rows 200000 --width 64
    python -m benchmarks.nearest --rows 1000000 --width 64 --index

A file of vectors is drawn: around centres, `--clusters` of them, or without any order where that is 0 (the hardest for
an index). The exact search is first held to a sorting of all similarities in float64, ids and numbers; the index, where
it is asked for, is measured by its recall of the ten best. One line of JSON says how long each took by the clock and on
the processor, the bytes of the files, and the most memory that was resident. Everything is removed at the end.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import peak_bytes
from corpora.kernels.arrays import Float32s
from trainer.tasks.embeddings import VectorFile, VectorRows, VectorsMade, new_vectors
from trainer.tasks.rows.vectors import similarities
from trainer.tasks.search import Run, exact_search, indexed_search

AT_ONCE = 16_384
SPREAD = 0.5  # of a vector around its centre, whose own deviation is 1
MADE = VectorsMade(
    model="drawn", by="text", pooling="mean", layers=(1,), combine="", side="first", similarity="cosine", max_length=1
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What is searched. clusters: centres of the vectors, 0 for none"""

    rows: int = 200_000
    width: int = 64
    queries: int = 100
    clusters: int = 0
    seed: int = 1

    def draw(self, path: Path) -> Float32s:
        """Write the vectors; the queries, drawn alike."""
        drawn = np.random.default_rng(self.seed)
        centres = drawn.standard_normal((self.clusters, self.width), np.float32)

        def some(count: int) -> Float32s:
            noise = drawn.standard_normal((count, self.width), np.float32)
            if not self.clusters:
                return noise
            vectors: Float32s = centres[drawn.integers(0, self.clusters, count)] + np.float32(SPREAD) * noise
            return vectors

        with new_vectors(path, MADE, self.width, "float32") as file:
            for start in range(0, self.rows, AT_ONCE):
                count = min(AT_ONCE, self.rows - start)
                file.write(VectorRows([f"d{start + place:09d}" for place in range(count)], some(count)))
        return some(self.queries)


def sorted_out(file: VectorFile, ids: Sequence[str], queries: Float32s, top: int) -> Run:
    """The best by sorting all similarities, equal ones by id."""
    names, vectors = file.whole()
    run = Run()
    for name, query in zip(ids, queries, strict=True):
        found = similarities(np.broadcast_to(query, vectors.shape), vectors, MADE.similarity)
        run[name] = {names[place]: float(found[place]) for place in np.argsort(-found, kind="stable")[:top].tolist()}
    return run


def recall(found: Run, wanted: Run, top: int = 10) -> float:
    """The share of the best of each query that was found among its best.

    >>> recall({"q": {"a": 0.9, "c": 0.5}}, {"q": {"a": 0.9, "b": 0.8}}, 2)
    0.5
    """
    shares = [
        len({*list(found[name])[:top]} & {*list(best)[:top]}) / min(top, len(best)) for name, best in wanted.items()
    ]
    return sum(shares) / len(shares)


def timed(call: Callable[[], Run]) -> tuple[Run, dict[str, float]]:
    """What a call returns, and its seconds by the clock and on the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    found = call()
    return found, {
        "seconds": round(time.perf_counter() - clock, 2),
        "cpu_seconds": round(time.process_time() - processor, 2),
    }


def measure(drawn: Drawn, folder: Path, top: int, index: bool, compared: int) -> dict[str, Any]:
    """Search what is drawn. compared: queries that are held to sorting. Raises SystemExit where they differ."""
    path = folder / "vectors.parquet"
    queries = drawn.draw(path)
    file, ids = VectorFile(path), [f"q{number}" for number in range(drawn.queries)]
    found: dict[str, Any] = {"rows": drawn.rows, "width": drawn.width, "queries": drawn.queries, "top": top}
    found |= {"clusters": drawn.clusters, "file_bytes": path.stat().st_size, "begun_bytes": peak_bytes()}
    run, took = timed(lambda: exact_search(file.blocks(), ids, queries, MADE.similarity, top))
    found |= {"exact": took, "exact_peak_bytes": peak_bytes()}
    wanted, took = timed(lambda: sorted_out(file, ids[:compared], queries[:compared], top))
    if any(list(run[name].items()) != list(best.items()) for name, best in wanted.items()):
        raise SystemExit("The exact search and the sorting of all similarities differ.")
    found |= {"sorted_queries": compared, "sorted": took}
    if index:
        _, made = timed(lambda: indexed_search(file, ids[:1], queries[:1], MADE.similarity, top))
        near, took = timed(lambda: indexed_search(file, ids, queries, MADE.similarity, top))
        size = sum(each.stat().st_size for each in folder.glob("*.usearch"))
        found |= {"index_made": made, "index": took, "index_bytes": size, "index_peak_bytes": peak_bytes()}
        found |= {f"recall_at_{best}": round(recall(near, run, best), 4) for best in (1, 10, top)}
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what searching came to, as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nearest", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--clusters", type=int, default=0, help="centres of the vectors; 0: no order at all")
    parser.add_argument("--top", type=int, default=100)
    parser.add_argument("--compared", type=int, default=10, help="queries that are held to the sorting of all")
    parser.add_argument("--index", action="store_true", help="make an index of usearch as well")
    asked = parser.parse_args(arguments)
    drawn = Drawn(rows=asked.rows, width=asked.width, queries=asked.queries, clusters=asked.clusters)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(drawn, Path(folder), asked.top, asked.index, asked.compared)))


if __name__ == "__main__":
    main()
