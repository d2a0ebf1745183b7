"""One model in a process of its own that answers one text after another, on one thread: how long, and with what memory.

    python -m trainer.tasks.portable.measuring PATH ... < texts as JSON    a folder of ours, or files of ONNX

What is timed is what a file holds, of our folders too: neither the LSTM over words nor the search of a chain is in it.
Time is the median of single texts, after some that warm it up. Memory is the most that the process had in main memory,
with Python and its libraries: the trainer with torch for a folder, onnxruntime and numpy alone for files.
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
from trainer.tasks.portable.running import OnnxFiles, OnnxText, Sequence32

WARM = 3  # texts before those that are timed
STATUS = Path("/proc/self/status")

Answer = Callable[[OnnxText], Any]


def main(arguments: list[str]) -> int:
    """Time the texts of the standard input; print what was found as JSON; 0."""
    paths = list(map(Path, arguments))
    told = json.loads(sys.stdin.read())
    texts = [_text(*text) for text in told["texts"]]
    answer = _folder(paths[0]) if paths[0].is_dir() else _files(paths, told["pad"])
    print(json.dumps({"milliseconds": 1000 * _median_seconds(answer, texts), "memory_bytes": _peak_memory()}))
    return 0


def measure(paths: Sequence[Path], texts: Sequence[OnnxText], pad: int) -> dict[str, float]:
    """What a process of its own finds: `milliseconds` a text and `memory_bytes`. Raises InputError where it fails."""
    told = {"pad": pad, "texts": list(map(_told, texts))}
    called = [sys.executable, "-m", __name__, *map(str, paths)]
    done = subprocess.run(called, input=json.dumps(told), capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{paths[0]} could not be measured: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _told(text: OnnxText) -> tuple[list[list[list[int]]], list[list[float]] | None]:
    sequences = [[side.tolist() for side in sequence] for sequence in text.sequences]
    return sequences, None if text.columns is None else text.columns.tolist()


def _text(sequences: Sequence[Sequence[Sequence[int]]], columns: Sequence[Sequence[float]] | None) -> OnnxText:
    return OnnxText(
        [_sequence(*sides) for sides in sequences], None if columns is None else np.array(columns, np.float32)
    )


def _sequence(ids: Sequence[int], segments: Sequence[int]) -> Sequence32:
    return np.array(ids, np.int32), np.array(segments, np.int32)


def _folder(path: Path) -> Answer:
    import torch

    from trainer.tasks.contract import TaskItem, Tokens
    from trainer.tasks.portable.source import plain_rows, read_source
    from trainer.tasks.rows.texts import COLUMNS

    torch.set_num_threads(1)
    source = read_source(path)

    def answer(text: OnnxText) -> Any:
        item = TaskItem(
            sequences=tuple(Tokens(*each) for each in text.sequences),
            example=0,
            points=np.arange(sum(len(ids) for ids, _ in text.sequences), dtype=np.int64),
            targets={} if text.columns is None else {COLUMNS: text.columns},
        )
        return plain_rows(source, [item])

    return answer


def _files(paths: Sequence[Path], pad: int) -> Answer:
    model = OnnxFiles(paths, pad, threads=1)
    return lambda text: model.outputs([text], per_token=False)


def _median_seconds(answer: Answer, texts: Sequence[OnnxText]) -> float:
    for text in texts[:WARM]:
        answer(text)
    return statistics.median(_seconds(answer, text) for text in texts)


def _seconds(answer: Answer, text: OnnxText) -> float:
    began = time.perf_counter()
    answer(text)
    return time.perf_counter() - began


def _peak_memory() -> int:
    """Of this process since its program began."""
    [kilobytes] = [line.split()[1] for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
