"""One model in a process of its own that answers one text after another, on one thread: how long, and with what memory.

    python -m trainer.tasks.portable.measuring PATH ... < (pad, texts) as pickle has them    a folder, or files of ONNX

What is timed is what a file holds, of our folders too: neither the LSTM over words nor the search of a chain is in it.
Time is the median of single texts, after some that warm it up. Memory is the most that the process had in main memory,
with Python and its libraries: the trainer with torch for a folder, onnxruntime and numpy alone for files.
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
from trainer.tasks.portable.running import OnnxFiles, OnnxText

WARM = 3  # texts before those that are timed
STATUS = Path("/proc/self/status")

Answer = Callable[[OnnxText], Any]


def main(arguments: list[str]) -> int:
    """Time the texts of the standard input; print the result as JSON; return 0."""
    paths = list(map(Path, arguments))
    pad, texts = pickle.load(sys.stdin.buffer)
    answer = _folder(paths[0]) if paths[0].is_dir() else _files(paths, pad)
    times = [_milliseconds(answer, text) for text in [*texts[:WARM], *texts]][len(texts[:WARM]) :]
    print(json.dumps({"milliseconds": statistics.median(times), "memory_bytes": _peak_memory()}))
    return 0


def measure(paths: Sequence[Path], texts: Sequence[OnnxText], pad: int) -> dict[str, float]:
    """Measure in a separate process: `milliseconds` a text and `memory_bytes`. Raises InputError where it fails."""
    called = [sys.executable, "-m", __name__, *map(str, paths)]
    done = subprocess.run(called, input=pickle.dumps((pad, texts)), capture_output=True, check=False)
    if done.returncode:
        errors = done.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"{paths[0]} could not be measured: {errors[-1]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _folder(path: Path) -> Answer:
    import torch

    from trainer.tasks.portable.graphs import item_of, plain_rows, read_source

    torch.set_num_threads(1)
    source = read_source(path)
    return lambda text: plain_rows(source, [item_of(text)])


def _files(paths: Sequence[Path], pad: int) -> Answer:
    model = OnnxFiles(paths, pad, threads=1)
    return lambda text: model.outputs([text], per_token=False)


def _milliseconds(answer: Answer, text: OnnxText) -> float:
    began = time.perf_counter()
    answer(text)
    return 1000 * (time.perf_counter() - began)


def _peak_memory() -> int:
    """Return the peak memory of this process since its program began."""
    [kilobytes] = [line.split()[1] for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
