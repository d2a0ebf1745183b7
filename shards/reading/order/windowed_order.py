"""The windowed order: shards in a random order, and the examples of a few neighbours of it mixed.

    epoch ─► shards, permuted ─► windows of W shards each ─► the examples of one window, permuted ─► the next window

Promise: as the global order it is a pure function of the seed and the slot, and every epoch goes through all examples
once. At any slot the examples of W shards are read and of no other, so that they alone must be near: the last window of
an epoch may have fewer.

What it gives up: an example is mixed with those of its window alone. A shard is a random sample of its generation's
documents, so the mean of a window is that of the whole but for the noise of its size, and but for the generation, which
is that of its shards. All copies of a document are in one shard: they come within one window, and not spread over the
epoch.

Cost: that of the global order, and once an epoch one permutation of the shards.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Int64s
from corpora.store.randomness import address, fold
from shards.reading.order.global_order import GlobalOrder, example_plain, permuted, permuted_plain

KEPT_EPOCHS = 2  # a step may begin in one and end in the next


class _Epoch(NamedTuple):
    """shards: in their order; begins: the first place of each, and the end; windows: the first place of each window"""

    shards: Int64s
    begins: Int64s
    windows: Int64s


class WindowedOrder:
    """The order of examples in shards of given sizes, numbered through.

    window: W, the shards whose examples are mixed
    """

    def __init__(self, sizes: Sequence[int], window: int, seed: int) -> None:
        assert window > 0 and (not sizes or min(sizes) > 0), (sizes, window)
        self._sizes = np.array(sizes, np.int64)
        self._starts = np.cumsum([0, *sizes])
        self._num_examples = int(self._starts[-1])
        self._window, self._seed = window, seed
        self._shards = GlobalOrder(len(sizes), seed, "shards")
        self._epochs = OrderedDict[int, _Epoch]()

    @property
    def num_windows(self) -> int:
        """Windows of an epoch."""
        return -(-len(self._sizes) // self._window)

    def examples(self, slots: Int64s) -> Int64s:
        """Numbers of examples."""
        examples = np.empty_like(slots)
        windows = self.windows(slots)
        for window in _distinct(windows):
            here = windows == window
            examples[here] = self._inside(window, slots[here])
        return examples

    def epochs(self, slots: Int64s) -> Int64s:
        """Count how often the whole set was read before."""
        return slots // self._num_examples

    def windows(self, slots: Int64s) -> Int64s:
        """The windows of slots, counted from the first one of the first epoch."""
        epochs = self.epochs(slots)
        places, windows = slots - epochs * self._num_examples, np.empty_like(slots)
        for epoch in _distinct(epochs):
            here = epochs == epoch
            inside = np.searchsorted(self._epoch(epoch).windows, places[here], side="right") - 1
            windows[here] = epoch * self.num_windows + inside
        return windows

    def shards(self, window: int) -> list[int]:
        """The shards that a window reads."""
        epoch, number = divmod(window, self.num_windows)
        shards: list[int] = self._epoch(epoch).shards[number * self._window : (number + 1) * self._window].tolist()
        return shards

    def _inside(self, window: int, slots: Int64s) -> Int64s:
        """The examples of slots of one window."""
        epoch, number = divmod(window, self.num_windows)
        layout = self._epoch(epoch)
        begin, end = layout.windows[number : number + 2]
        key = np.uint64(fold(address(self._seed, "window", epoch), number))
        places = begin + permuted(slots - epoch * self._num_examples - begin, int(end - begin), key)
        at = np.searchsorted(layout.begins, places, side="right") - 1
        examples: Int64s = self._starts[layout.shards[at]] + places - layout.begins[at]
        return examples

    def _epoch(self, epoch: int) -> _Epoch:
        """The layout of an epoch, kept for a while."""
        if epoch not in self._epochs:
            num = len(self._sizes)
            shards = self._shards.examples(np.arange(epoch * num, (epoch + 1) * num))
            begins = np.concatenate([[0], np.cumsum(self._sizes[shards])])
            self._epochs[epoch] = _Epoch(shards, begins, np.append(begins[: num : self._window], begins[-1]))
            while len(self._epochs) > KEPT_EPOCHS:
                self._epochs.popitem(last=False)
        return self._epochs[epoch]


def _distinct(numbers: Int64s) -> list[int]:
    """Different numbers, ascending; most often there is one."""
    if len(numbers) and numbers.min() == numbers.max():
        return [int(numbers[0])]
    distinct: list[int] = np.unique(numbers).tolist()
    return distinct


def windowed_plain(slot: int, sizes: Sequence[int], window: int, seed: int) -> int:
    """Return what `WindowedOrder.examples` gives for one slot, in plain Python."""
    epoch, place = divmod(slot, sum(sizes))
    shards = [example_plain(epoch * len(sizes) + n, len(sizes), seed, "shards") for n in range(len(sizes))]
    number = 0
    while place >= (inside := sum(sizes[shard] for shard in shards[number * window : (number + 1) * window])):
        place, number = place - inside, number + 1
    key = int(fold(address(seed, "window", epoch), number))
    place = permuted_plain(place, inside, int(fold(key, 0)))
    for shard in shards[number * window :]:
        if place < sizes[shard]:
            return sum(sizes[:shard]) + place
        place -= sizes[shard]
    raise AssertionError("a place is in a shard of its window")
