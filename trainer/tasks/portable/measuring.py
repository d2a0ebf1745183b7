"""One model in a process of its own that answers one text after another, on one thread: how long, and with what memory.

    python -m trainer.tasks.portable.measuring PATH < texts as JSON    a folder of ours, or a file of ONNX

Time is the median of single texts, after some that warm it up. Memory is the most that the process had in main memory,
with Python and its libraries: the trainer with torch for a folder, onnxruntime and numpy alone for a file.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corpora.errors import InputError
from trainer.tasks.portable.running import OnnxModel, Sequence32

WARM = 3  # texts before those that are timed
STATUS = Path("/proc/self/status")

Answer = Callable[[Sequence[Sequence32]], Any]


def main(arguments: list[str]) -> int:
    """Time the texts of the standard input; print what was found as JSON; 0."""
    [path] = map(Path, arguments)
    told = json.loads(sys.stdin.read())
    texts = [[_sequence(*sides) for sides in text] for text in told["texts"]]
    answer = _folder(path) if path.is_dir() else _file(path, told["pad"])
    print(json.dumps({"milliseconds": 1000 * _median_seconds(answer, texts), "memory_bytes": _peak_memory()}))
    return 0


def measure(path: Path, texts: Sequence[Sequence[Sequence32]], pad: int) -> dict[str, float]:
    """What a process of its own finds: `milliseconds` a text and `memory_bytes`. Raises InputError where it fails."""
    told = {"pad": pad, "texts": [[[side.tolist() for side in sequence] for sequence in text] for text in texts]}
    called = [sys.executable, "-m", __name__, str(path)]
    done = subprocess.run(called, input=json.dumps(told), capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{path} could not be measured: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _sequence(ids: Sequence[int], segments: Sequence[int]) -> Sequence32:
    return np.array(ids, np.int32), np.array(segments, np.int32)


def _folder(path: Path) -> Answer:
    import torch

    from trainer.tasks.batching import batch_of_items
    from trainer.tasks.contract import TaskItem, Tokens
    from trainer.tasks.portable.source import read_source

    torch.set_num_threads(1)
    model = read_source(path).model.eval()

    @torch.inference_mode()
    def answer(sequences: Sequence[Sequence32]) -> Any:
        size = sum(len(ids) for ids, _ in sequences)
        item = TaskItem(
            sequences=tuple(Tokens(*each) for each in sequences), example=0, points=np.arange(size, dtype=np.int64)
        )
        return model.outputs(batch_of_items([item]))

    return answer


def _file(path: Path, pad: int) -> Answer:
    model = OnnxModel(path, pad, threads=1)
    return lambda sequences: model.outputs(sequences, per_token=False)


def _median_seconds(answer: Answer, texts: Sequence[Sequence[Sequence32]]) -> float:
    for text in texts[:WARM]:
        answer(text)
    return statistics.median(_seconds(answer, text) for text in texts)


def _seconds(answer: Answer, text: Sequence[Sequence32]) -> float:
    began = time.perf_counter()
    answer(text)
    return time.perf_counter() - began


def _peak_memory() -> int:
    """Of this process since its program began."""
    [kilobytes] = [line.split()[1] for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
