"""One model in a process of its own that answers one item after another, on one thread: how long, with what memory.

    python -m trainer.tasks.portable.measuring PATH ... < (pad, items) as pickle has them    a folder, or files of ONNX

What is timed is what a file holds, of our folders too. Time is the median of single
items, after some that warm it up. Memory is the most that the process had in main memory, with Python and its
libraries: the trainer with torch for a folder, onnxruntime and numpy for files.
"""

import json
import pickle
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from trainer.tasks.contract import Items, TaskItem
from trainer.tasks.portable.running import OnnxFiles

WARM = 3  # items before those that are timed
STATUS = Path("/proc/self/status")


def main(arguments: list[str]) -> int:
    """Time the items of the standard input; print the result as JSON; return 0."""
    pad, items = pickle.load(sys.stdin.buffer)
    answer = _answering(list(map(Path, arguments)), pad)
    times = [_milliseconds(answer, item) for item in [*items[:WARM], *items]][len(items[:WARM]) :]
    print(json.dumps({"milliseconds": statistics.median(times), "memory_bytes": _peak_memory()}))
    return 0


def measure(paths: Sequence[Path], items: Items, pad: int) -> dict[str, float]:
    """Measure in a separate process: `milliseconds` an item and `memory_bytes`. Raises InputError where it fails."""
    called = [sys.executable, "-m", __name__, *map(str, paths)]
    done = subprocess.run(called, input=pickle.dumps((pad, items)), capture_output=True, check=False)
    if done.returncode:
        errors = done.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"{paths[0]} could not be measured: {errors[-1]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _answering(paths: Sequence[Path], pad: int) -> Callable[[TaskItem], Any]:
    if not paths[0].is_dir():
        files = OnnxFiles(paths, pad, threads=1)
        return lambda item: files.rows([item], "sequence")

    import torch

    from trainer.tasks.portable.graphs import plain_rows
    from trainer.tasks.saving import read_source

    torch.set_num_threads(1)
    source = read_source(paths[0])
    return lambda item: plain_rows(source, [item])


def _milliseconds(answer: Callable[[TaskItem], Any], item: TaskItem) -> float:
    began = time.perf_counter()
    answer(item)
    return 1000 * (time.perf_counter() - began)


def _peak_memory() -> int:
    """Return the peak memory of this process since its program began."""
    [kilobytes] = [line.split()[1] for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
