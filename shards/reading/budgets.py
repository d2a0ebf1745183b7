"""Token budgets: a step is divided into micro-batches by the lengths of all its examples, and their shapes are rounded.

    lengths of all slots of a step ─► for every process and micro-batch: its slots, and the tokens to which it is padded

Promise: the division follows from the lengths, the number of processes and the budget. So processes that know these
agree without a word between them: all have as many micro-batches, and those of one number hold as many tokens. A slot
is in one micro-batch; none holds more tokens than the budget, padding included. Which examples a step reads is not
decided here.

All micro-batches of a process but the last hold the budget, the last some eighths of it: as few as will do. The longest
example goes to the one with most room (worst fit; Johnson 1974), so that what is left is small, and alike everywhere:
micro-batches of one step have about as many sequences of about the same lengths. Best fit leaves no less and makes up
to seven times as many shapes, because one micro-batch gets all the long examples.

Cost: 256 slots in 19 microseconds, 8,192 in 0.6 milliseconds (one x86-64 core); of books, 2 to 7 % of the tokens are
padding (docs/performance.md).
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Int64s
from corpora.kernels.compiling import kernel

NUM_SHAPES = 8  # shapes of a budget's tokens
MIN_LONGEST_TOKENS, MIN_SEQUENCES, MIN_MASKED_TOKENS = 64, 8, 8  # smaller ones are filled up: they cost next to nothing


class MicroBatchPlan(NamedTuple):
    """Assignment of the examples of one training step to N micro-batches on each process.

    Attributes:
        capacities: int64 [N], the number of tokens to which each micro-batch is padded, the same on every process.
        longest_first: int64 [examples], the indices of the step's examples, zero-based, longest first.
        bins: int64 [examples], for each example the index of its micro-batch times `ranks`, plus the rank of its
            process.
        ranks: Number of processes.
    """

    capacities: Int64s
    longest_first: Int64s
    bins: Int64s
    ranks: int

    def list_micro_batches(self, rank: int) -> list[Int64s]:
        """List the examples of each micro-batch of one process, longest example first.

        Args:
            rank: Rank of the process, from 0 to `ranks` - 1.

        Returns:
            One int64 array per micro-batch, with zero-based indices into the step.
        """
        own_slots = self.longest_first[self.bins[self.longest_first] % self.ranks == rank]
        numbers = self.bins[own_slots] // self.ranks
        by_number = np.argsort(numbers, kind="stable")
        return np.split(own_slots[by_number], np.searchsorted(numbers[by_number], np.arange(1, len(self.capacities))))


class BatchShape(NamedTuple):
    """Size of a micro-batch: number of tokens, sequences and masked tokens, and length of the longest sequence in
    tokens.
    """

    num_tokens: int
    num_sequences: int
    num_masked: int
    max_length: int


def plan_micro_batches(lengths: Int64s, ranks: int, budget: int) -> MicroBatchPlan:
    """Split the examples of a step into micro-batches of at most `budget` tokens, the same number on every process.

    Args:
        lengths: int64 [examples], the number of tokens of each example of the step, or 0 for a deleted example.
        ranks: Number of processes.
        budget: Maximum number of tokens in a micro-batch, including padding.

    Raises:
        AssertionError: A length exceeds `budget`.
    """
    assert lengths.max(initial=0) <= budget, "an example over the budget is refused before training"
    longest_first = np.argsort(-lengths, kind="stable")
    parts = max(1, _count_eighths(int(lengths.sum()), ranks, budget))
    while True:
        capacities = _list_capacities(parts, budget)
        bins = np.empty(len(lengths), np.int64)
        left = _assign_bins(longest_first, lengths, np.repeat(capacities, ranks), bins)
        if not left:
            return MicroBatchPlan(capacities, longest_first, bins, ranks)
        parts += _count_eighths(left, ranks, budget)


def compute_max_share_tokens(batch: int, ranks: int, max_length: int) -> int:
    """Return the maximum number of tokens that one process can get in a step. A larger budget would only add padding.

    Args:
        batch: Number of examples in a step.
        ranks: Number of processes.
        max_length: Maximum length of an example in tokens.
    """
    return -(-batch // ranks) * max_length


def round_shape_up(shape: BatchShape, capacity: int, max_positions: int) -> BatchShape:
    """Return the padded shape of a micro-batch. Shapes are rounded up so that only a few different ones occur.

    Args:
        shape: The unpadded shape, or all zeros if the micro-batch is empty.
        capacity: Total number of tokens after padding. Padding is added as dummy sequences, none longer than the
            `max_length` of the result.
        max_positions: Maximum sequence length of the model.
    """
    max_length = min(round_up(shape.max_length, MIN_LONGEST_TOKENS), max_positions)
    num_dummies = -(-(capacity - shape.num_tokens) // max_length)
    num_sequences = round_up(shape.num_sequences + num_dummies, MIN_SEQUENCES)
    return BatchShape(capacity, num_sequences, round_up(shape.num_masked, MIN_MASKED_TOKENS), max_length)


def round_up(number: int, minimum: int) -> int:
    """Round up to the next integer with at most three significant bits, to keep the number of distinct values small.

    A number below `minimum` is treated as `minimum`.

    >>> [round_up(number, 4) for number in (0, 5, 8, 9, 11, 13, 15, 16, 17)]
    [4, 5, 8, 10, 12, 14, 16, 16, 20]
    """
    number = max(number, minimum)
    bits = max(number.bit_length() - 3, 0)
    return -(-number >> bits << bits)


def _count_eighths(tokens: int, ranks: int, budget: int) -> int:
    """Count the eighths of a micro-batch that each process needs for its share of `tokens`, rounded up.

    Args:
        tokens: Number of tokens of a step.
        ranks: Number of processes that share them.
        budget: Number of tokens in a whole micro-batch.
    """
    return -(-NUM_SHAPES * tokens // (ranks * budget))


def _list_capacities(parts: int, budget: int) -> Int64s:
    """List the capacities of micro-batches that together have `parts` eighths of the budget: int64, in tokens.

    Every micro-batch has the whole budget, except that the last may have less. It is rounded up.

    Args:
        parts: Number of eighths, at least 1.
        budget: Maximum number of tokens in a micro-batch.
    """
    whole, rest = divmod(parts - 1, NUM_SHAPES)
    return np.array([budget] * whole + [-(-(rest + 1) * budget // NUM_SHAPES)], np.int64)


@kernel
def _assign_bins(longest_first: Int64s, lengths: Int64s, room: Int64s, bins: Int64s) -> int:
    """Put each example into the bin with the most free tokens, and return the number of tokens that did not fit.

    Args:
        longest_first: int64 [examples], indices of the examples, longest first.
        lengths: int64 [examples], tokens of each example.
        room: int64 [bins], free tokens of each bin, descending. They are reduced in place.
        bins: int64 [examples], the output. An example that does not fit leaves its entry unchanged.
    """
    heap, left = np.arange(len(room)), 0
    for slot in longest_first:
        roomiest = heap[0]
        if room[roomiest] < lengths[slot]:
            left += lengths[slot]
            continue
        bins[slot] = roomiest
        room[roomiest] -= lengths[slot]
        node = 0
        while 2 * node + 1 < len(heap):
            child = 2 * node + 1
            if child + 1 < len(heap) and _is_roomier(room, heap[child + 1], heap[child]):
                child += 1
            if _is_roomier(room, roomiest, heap[child]):
                break
            heap[node] = heap[child]
            node = child
        heap[node] = roomiest
    return left


@kernel
def _is_roomier(room: Int64s, one: int, other: int) -> bool:
    """Return whether bin `one` has more free tokens than bin `other`, or equally many and a lower index.

    `room` has the number of free tokens of each bin.
    """
    return room[one] > room[other] or (room[one] == room[other] and one < other)


def plan_micro_batches_plain(lengths: list[int], ranks: int, budget: int) -> tuple[list[int], list[int]]:
    """Reference implementation of `plan_micro_batches`, for tests.

    Args:
        lengths: Number of tokens of each example of the step.
        ranks: Number of processes.
        budget: Maximum number of tokens in a micro-batch, including padding.

    Returns:
        The fields `capacities` and `bins` of the plan, as lists.
    """
    parts, left = 0, sum(lengths)
    while True:
        parts += -(-NUM_SHAPES * left // (ranks * budget)) if parts or left else 1
        capacities = [budget] * ((parts - 1) // NUM_SHAPES) + [
            -(-((parts - 1) % NUM_SHAPES + 1) * budget // NUM_SHAPES)
        ]
        room = [capacity for capacity in capacities for _ in range(ranks)]
        bins, left = [0] * len(lengths), 0
        for slot in sorted(range(len(lengths)), key=lambda slot: -lengths[slot]):
            bins[slot] = max(range(len(room)), key=lambda number: (room[number], -number))
            if room[bins[slot]] < lengths[slot]:
                left += lengths[slot]
            else:
                room[bins[slot]] -= lengths[slot]
        if not left:
            return capacities, bins
