"""What it costs that shards are compared with their digests: an epoch of a loader that was opened just now.

With its checks, and with every record batch taken for sound. CPU seconds are those of all threads: the checks are done
next to the reading. A second epoch has none.
"""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.loader import BATCH, COPIES, Given, build_given
from benchmarks.measuring import Report, Side, main, side_by_side
from shards.reading.files.columns import SOUND
from shards.reading.loader import GatheredExamples, Loader


def benchmark(texts: Sequence[str], rounds: int, copies: int = COPIES) -> list[Report]:
    """Compare the epochs, whose examples are equal."""
    with tempfile.TemporaryDirectory() as folder:
        given = build_given(texts, Path(folder), copies)
        calls: dict[str, Callable[[int], GatheredExamples]] = {
            "unchecked": partial(read_epoch, given, is_checked=False),
            "checked": partial(read_epoch, given, is_checked=True),
        }
        assert (calls["checked"](0).ids == calls["unchecked"](0).ids).all()
        sides = [Side(name=name, call=call) for name, call in calls.items()]
        notes = [f"{len(given.examples)} examples; the last batches are equal"]
        amounts = {"M tokens": sum(map(len, given.examples)) / 1e6}
        return [side_by_side("shard checks", texts, sides, rounds, notes, amounts)]


def read_epoch(given: Given, number: int, *, is_checked: bool) -> GatheredExamples:
    """Read all examples in the order of a seed; return the last batch."""
    loader, num = Loader(given.shard_set, number), len(given.shard_set)
    if not is_checked:
        loader._local_columns._states[:] = SOUND
    for first in range(0, num, BATCH):
        gathered = loader.gather(range(first, min(first + BATCH, num)))
    return gathered


if __name__ == "__main__":
    main(benchmark)
