"""Token budgets: a step cut into micro-batches by the lengths of all its examples, and the shapes they are filled to.

    lengths of all slots of a step ─► for every process and micro-batch: its slots, and the tokens it is filled to

Promise: the cut follows from the lengths, the number of processes and the budget. So processes that know these agree
without a word between them: all have as many micro-batches, and those of one number hold as many tokens. A slot is in
one micro-batch; none holds more tokens than the budget, what fills it included. Which examples a step reads is not
decided here.

All micro-batches of a process but the last hold the budget, the last some eighths of it: as few as will do. The longest
example goes to where most room is left (worst fit; Johnson 1974), so that what is left is small, and alike everywhere:
micro-batches of one step have about as many sequences of about the same lengths. Best fit leaves no less and makes
up to seven times as many shapes, because one micro-batch gets all the long examples.

Cost: 256 slots in 19 microseconds, 8,192 in 0.6 milliseconds (one x86-64 core); of books, 2 to 7 % of the tokens are
padding (docs/performance.md).
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Int64s
from corpora.kernels.compiling import kernel

PARTS = 8  # shapes of a budget's tokens
LEAST_LONGEST, LEAST_SEQUENCES, LEAST_MASKED = 64, 8, 8  # smaller ones are filled up: they cost next to nothing


class StepCut(NamedTuple):
    """The cut of a step's slots into micro-batches.

    tokens: int64 [N], what each micro-batch is filled to, for every process
    order:  int64 [slots], the places of the slots in the step, longest example first
    bins:   int64 [slots], for each place in the step the number of its micro-batch times `ranks`, plus its process
    ranks:  processes
    """

    tokens: Int64s
    order: Int64s
    bins: Int64s
    ranks: int

    def of(self, rank: int) -> list[Int64s]:
        """Return for each micro-batch of a process the places of its slots in the step, longest example first."""
        mine = self.order[self.bins[self.order] % self.ranks == rank]
        numbers = self.bins[mine] // self.ranks
        by_number = np.argsort(numbers, kind="stable")
        return np.split(mine[by_number], np.searchsorted(numbers[by_number], np.arange(1, len(self.tokens))))


class BatchShape(NamedTuple):
    """The size of a micro-batch: its tokens, sequences and masked tokens, and the tokens of its longest sequence."""

    tokens: int
    sequences: int
    masked: int
    longest: int


def cut_step(lengths: Int64s, ranks: int, budget: int) -> StepCut:
    """Cut a step into micro-batches of at most `budget` tokens, as many for each process.

    lengths: of the example in each of the step's slots, 0 where none is to be read
    """
    assert lengths.max(initial=0) <= budget, "an example over the budget is refused before training"
    order = np.argsort(-lengths, kind="stable")
    parts = max(1, _parts(int(lengths.sum()), ranks, budget))
    while True:
        tokens = _tokens(parts, budget)
        bins = np.empty(len(lengths), np.int64)
        left = _place(order, lengths, np.repeat(tokens, ranks), bins)
        if not left:
            return StepCut(tokens, order, bins, ranks)
        parts += _parts(left, ranks, budget)


def whole_share(batch: int, ranks: int, length: int) -> int:
    """Tokens that a process's share of a step can have at most: a greater budget would be filled with nothing."""
    return -(-batch // ranks) * length


def fitting_shape(held: BatchShape, capacity: int, positions: int) -> BatchShape:
    """The shape from a short list into which a micro-batch goes, with what fills it.

    held:      its own shape; zeros where it has no example
    capacity:  what its tokens are filled to, by dummy sequences that are no longer than the longest one may be
    positions: bound of the longest
    """
    longest = min(round_up(held.longest, LEAST_LONGEST), positions)
    dummies = -(-(capacity - held.tokens) // longest)
    sequences = round_up(held.sequences + dummies, LEAST_SEQUENCES)
    return BatchShape(capacity, sequences, round_up(held.masked, LEAST_MASKED), longest)


def round_up(number: int, least: int) -> int:
    """The next number with three significant bits: four of them from one power of two to the next.

    >>> [round_up(number, 4) for number in (0, 5, 8, 9, 11, 13, 15, 16, 17)]
    [4, 5, 8, 10, 12, 14, 16, 16, 20]
    """
    number = max(number, least)
    bits = max(number.bit_length() - 3, 0)
    return -(-number >> bits << bits)


def _parts(tokens: int, ranks: int, budget: int) -> int:
    """Return how many eighths of the budgets of all processes hold so many tokens."""
    return -(-PARTS * tokens // (ranks * budget))


def _tokens(parts: int, budget: int) -> Int64s:
    """Micro-batches of so many eighths of the budget together."""
    whole, rest = divmod(parts - 1, PARTS)
    return np.array([budget] * whole + [-(-(rest + 1) * budget // PARTS)], np.int64)


@kernel
def _place(order: Int64s, lengths: Int64s, room: Int64s, bins: Int64s) -> int:
    """Fill `bins`, each place in `order` into the one with the most room, first of several; return the tokens left.

    `heap` holds the bins so that none has more room than the one at half its place. It begins with `room` falling.
    """
    heap, left = np.arange(len(room)), 0
    for place in order:
        first = heap[0]
        if room[first] < lengths[place]:
            left += lengths[place]
            continue
        bins[place] = first
        room[first] -= lengths[place]
        node = 0
        while 2 * node + 1 < len(heap):
            child = 2 * node + 1
            if child + 1 < len(heap) and _before(room, heap[child + 1], heap[child]):
                child += 1
            if _before(room, first, heap[child]):
                break
            heap[node] = heap[child]
            node = child
        heap[node] = first
    return left


@kernel
def _before(room: Int64s, one: int, other: int) -> bool:
    return room[one] > room[other] or (room[one] == room[other] and one < other)


def cut_plain(lengths: list[int], ranks: int, budget: int) -> tuple[list[int], list[int]]:
    """The tokens and bins of `cut_step`, in plain Python."""
    parts, left = 0, sum(lengths)
    while True:
        parts += -(-PARTS * left // (ranks * budget)) if parts or left else 1
        tokens = [budget] * ((parts - 1) // PARTS) + [-(-((parts - 1) % PARTS + 1) * budget // PARTS)]
        room = [capacity for capacity in tokens for _ in range(ranks)]
        bins, left = [0] * len(lengths), 0
        for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
            bins[place] = max(range(len(room)), key=lambda number: (room[number], -number))
            if room[bins[place]] < lengths[place]:
                left += lengths[place]
            else:
                room[bins[place]] -= lengths[place]
        if not left:
            return tokens, bins
