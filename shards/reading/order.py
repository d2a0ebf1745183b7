"""The orders in which examples are read: pure functions of the seed and a slot number that has no end.

The global order mixes all examples:

    slot s  ─►  epoch s // n, place s % n  ─►  example permutation(seed, epoch)[place]

Every epoch goes through all n examples of a shard set once, in an order of its own; the examples of several generations
are one set. A step is a fixed range of slots and a rank reads a share of it, so neither the number of ranks nor a
restart changes what is read when. A deleted example keeps its slot: it is skipped and counted, and nothing else moves.

The permutation is a Feistel network over the next power of two (Luby, Rackoff 1988), walked again while it leads out of
the set (Black, Rogaway 2002): no index array, whatever n is. Cost: 10 nanoseconds a slot in steps of 256 (one x86-64
core), no memory.

The windowed order takes shards in a random order, and mixes the examples of a few neighbours of it:

    epoch ─► shards, permuted ─► windows of W shards each ─► the examples of one window, permuted ─► the next window

Promise: as the global order it is a pure function of the seed and the slot, and every epoch goes through all examples
once. At any slot the examples of W shards are read and of no other, so only they must be near: the last window of an
epoch may have fewer.

What it gives up: an example is mixed only with those of its window. A shard is a random sample of its generation's
documents, so the mean of a window is that of the whole but for the noise of its size, and but for the generation, which
is that of its shards. All copies of a document are in one shard: they come within one window, and not spread over the
epoch.

Cost: that of the global order, and once an epoch one permutation of the shards.

The interleave says which component of a mixture each slot is of, in exact shares, for any slot and without a state:

    slot  ─►  period, place in it  ─►  block  ─►  component, and which of the component's slots it is

Promise: of every `sum(shares)` slots from a multiple of it on, each component has exactly its share. If that period is
at most a block (2^20 slots; so with weights of up to five decimals), each component has, of the first n slots for any
n, its part of n to within one slot. A longer period is cut into blocks that begin within one slot of every component's
part, and within a block the same holds. Nothing is drawn: the same shares give the same order.

In a block each slot goes to the component with the earliest deadline for its next slot, once it may come: slot j of
a component with c of n slots may come from floor(j n / c) on and is due by ceil((j + 1) n / c). Such windows can always
be kept on one machine, and keep every component within one slot of its part (Baruah, Cohen, Plaxton, Varvel 1996).

Cost: a block is laid out once, in 13 ns a slot of two to five components (one x86-64 core, shared at the time), and
takes 6 bytes a slot; after that a slot is found in 45 ns.
"""

from collections import OrderedDict
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import gcd
from typing import NamedTuple, Protocol

import numpy as np

from corpora.kernels.arrays import Int32s, Int64s, UInt16s
from corpora.kernels.compiling import kernel
from corpora.store.randomness import compute_address, draw, draw_one, fold, fold_one

FEISTEL_ROUNDS = 8
MAX_EXAMPLES = 1 << 62
MAX_CACHED_EPOCHS = 2  # a step may begin in one and end in the next
BLOCK_SLOTS = 1 << 20
MAX_PERIOD_SLOTS = 10**15
MAX_CACHED_BLOCKS = 2  # a step may begin in one and end in the next


class Order(Protocol):
    """Maps slots (positions in the endless training order, zero-based) to examples and epochs."""

    def find_examples(self, slots: Int64s) -> Int64s:
        """Return the index of the example that is read at each slot: int64 [slots]."""

    def find_epochs(self, slots: Int64s) -> Int64s:
        """Return the zero-based epoch in which each slot is read: int64 [slots]."""


class GlobalOrder:
    """Shuffles all examples in each epoch, with a new random permutation per epoch.

    Args:
        num_examples: Number of examples in an epoch, at most `MAX_EXAMPLES`.
        seed: Seed of the permutations.
        purpose: Name that makes the permutations independent of others with the same seed.
    """

    def __init__(self, num_examples: int, seed: int, purpose: str = "order") -> None:
        assert num_examples <= MAX_EXAMPLES, num_examples
        self._num_examples = num_examples
        self._root = np.uint64(compute_address(seed, purpose))

    def find_examples(self, slots: Int64s) -> Int64s:
        """Return the index of the example at each slot, from the epoch's permutation of all examples: int64 [slots]."""
        return permute_slots(slots, self._num_examples, self._root)

    def find_epochs(self, slots: Int64s) -> Int64s:
        """Return the zero-based epoch of each slot of this global order: int64 [slots]."""
        return slots // self._num_examples


def permute_slots(slots: Int64s, num_examples: int, root: np.uint64) -> Int64s:
    """Map each slot to an example by a random permutation per epoch: int64 [slots], in [0, num_examples).

    Each run of `num_examples` slots is an epoch and gets its own permutation.

    Args:
        slots: int64 [slots], not negative.
        num_examples: Number of examples in an epoch.
        root: Random key from which the key of each epoch's permutation is derived.
    """
    examples = np.empty_like(slots)
    if len(slots):
        _permute_slots(slots, num_examples, (num_examples - 1).bit_length(), root, examples)
    return examples


def find_global_examples(slots: Int64s, num_examples: int, seed: int) -> Int64s:
    """Return the index of the example at each slot of a `GlobalOrder` with this seed: int64 [slots].

    Args:
        slots: int64 [slots], positions in the training order, not negative.
        num_examples: Number of examples in an epoch.
        seed: Seed of the order.
    """
    return GlobalOrder(num_examples, seed).find_examples(slots)


def step_slots(step: int, batch: int, first_slot: int = 0) -> range:
    """Return the slots (positions in the training order) that a training step reads.

    Args:
        step: Zero-based step.
        batch: Number of slots in a step.
        first_slot: The slot at which step 0 begins.
    """
    return range(first_slot + step * batch, first_slot + (step + 1) * batch)


def take_rank_share(slots: range, rank: int, num_ranks: int) -> range:
    """Return the part of a step's slots that one process reads.

    The shares of all ranks are contiguous, follow one another in rank order, and together cover the step.

    Args:
        slots: The slots of the step.
        rank: Rank of the process, from 0 to `num_ranks` - 1.
        num_ranks: Number of processes.

    >>> [take_rank_share(range(10, 15), rank, 2) for rank in range(2)]
    [range(10, 12), range(12, 15)]
    """
    return slots[len(slots) * rank // num_ranks : len(slots) * (rank + 1) // num_ranks]


def split_slots(slots: range, size: int, num_pieces: int) -> list[range]:
    """Split slots into `num_pieces` consecutive ranges of `size` slots. The last ranges may be shorter or empty.

    Raises:
        AssertionError: There are more than `size * num_pieces` slots.

    >>> split_slots(range(5), 2, 4)
    [range(0, 2), range(2, 4), range(4, 5), range(5, 5)]
    """
    assert len(slots) <= size * num_pieces, (slots, size, num_pieces)
    return [slots[size * piece : size * (piece + 1)] for piece in range(num_pieces)]


@kernel
def _permute_slots(slots: Int64s, num_examples: int, bits: int, root: np.uint64, examples: Int64s) -> None:
    """Fill `examples` with the index of the example at each slot, one epoch's run of slots at a time.

    Args:
        slots: int64 [slots], not negative.
        num_examples: Number of examples in an epoch.
        bits: Number of bits of the block that the Feistel network permutes. All positions of an epoch must be below
            2^bits.
        root: Random key from which the key of each epoch's permutation is derived.
        examples: int64 [slots], the output array.
    """
    first = 0
    while first < len(slots):
        epoch = slots[first] // num_examples
        epoch_start = epoch * num_examples
        last = first + 1
        while last < len(slots) and epoch_start <= slots[last] < epoch_start + num_examples:
            last += 1
        _permute_epoch(
            slots[first:last] - epoch_start, num_examples, bits, fold_one(root, np.uint64(epoch)), examples[first:last]
        )
        first = last


@kernel
def _permute_epoch(positions: Int64s, num_examples: int, bits: int, key: np.uint64, examples: Int64s) -> None:
    """Fill `examples` with the permuted positions of one epoch.

    Each Feistel round is applied to all positions before the next, which keeps the processor busy. A result of at least
    `num_examples` is permuted again.

    Args:
        positions: int64 [n], positions in the epoch, in [0, num_examples). They are overwritten.
        num_examples: Number of examples in an epoch.
        bits: Number of bits of the block that the Feistel network permutes. `num_examples` must be at most 2^bits.
        key: Random key of this epoch's permutation.
        examples: int64 [n], the output array.
    """
    right_bits = np.uint64(bits - bits // 2)
    one = np.uint64(1)
    left_mask, right_mask = (one << np.uint64(bits // 2)) - one, (one << right_bits) - one
    lefts, rights = np.empty(len(positions), np.uint64), np.empty(len(positions), np.uint64)
    targets, num_left = np.arange(len(positions)), len(positions)  # of those that are still on their way
    while num_left:
        for n in range(num_left):
            lefts[n], rights[n] = np.uint64(positions[n]) >> right_bits, np.uint64(positions[n]) & right_mask
        for turn in range(0, FEISTEL_ROUNDS, 2):
            even, odd = draw_one(key, turn), draw_one(key, turn + 1)
            for n in range(num_left):
                left = lefts[n] ^ fold_one(even, rights[n]) & left_mask
                rights[n] ^= fold_one(odd, left) & right_mask
                lefts[n] = left
        num_outside = 0
        for n in range(num_left):
            position, target = np.int64((lefts[n] << right_bits) | rights[n]), targets[n]
            examples[target] = position
            positions[num_outside], targets[num_outside] = position, target
            num_outside += int(position >= num_examples)
        num_left = num_outside


def find_example_plain(slot: int, num_examples: int, seed: int, purpose: str = "order") -> int:
    """Reference implementation of `GlobalOrder.find_examples` for one slot, for tests: the index of the example.

    Args:
        slot: Position in the training order.
        num_examples: Number of examples in an epoch.
        seed, purpose: The seed and name of the permutations, as for `GlobalOrder`.
    """
    epoch, position = divmod(slot, num_examples)
    return permute_plain(position, num_examples, int(fold(compute_address(seed, purpose), epoch)))


def permute_plain(position: int, num_examples: int, key: int) -> int:
    """Reference implementation of the permutation of [0, num_examples) for one position, for tests.

    Args:
        position: Position in [0, num_examples), like the result.
        num_examples: Number of examples in an epoch.
        key: Random key of the permutation.
    """
    bits = (num_examples - 1).bit_length()
    right_bits = bits - bits // 2
    left_mask, right_mask = (1 << bits // 2) - 1, (1 << right_bits) - 1
    while True:
        left, right = position >> right_bits, position & right_mask
        for turn in range(0, FEISTEL_ROUNDS, 2):
            left ^= int(fold(draw(key, turn), right)) & left_mask
            right ^= int(fold(draw(key, turn + 1), left)) & right_mask
        position = left << right_bits | right
        if position < num_examples:
            return position


class _EpochLayout(NamedTuple):
    """The order of the shards in one epoch of a `WindowedOrder`.

    Attributes:
        shards: Indices of the shards, in reading order.
        starts: [shards + 1], the number of examples before each shard. The last entry is the number of all examples.
        window_starts: [windows + 1], the number of examples before each window (a group of shards shuffled together).
    """

    shards: Int64s
    starts: Int64s
    window_starts: Int64s


class WindowedOrder:
    """Reads the shards in a random order and shuffles the examples of a few shards at a time.

    Args:
        sizes: Number of examples in each shard, all positive. Examples are numbered consecutively through all shards.
        window: Number of shards whose examples are shuffled together, at least 1.
        seed: Seed of the order.
    """

    def __init__(self, sizes: Sequence[int], window: int, seed: int) -> None:
        assert window > 0 and (not sizes or min(sizes) > 0), (sizes, window)
        self._sizes = np.array(sizes, np.int64)
        self._shard_starts = np.cumsum([0, *sizes])
        self._num_examples = int(self._shard_starts[-1])
        self._window, self._seed = window, seed
        self._shard_order = GlobalOrder(len(sizes), seed, "shards")
        self._layouts = OrderedDict[int, _EpochLayout]()

    @property
    def num_windows(self) -> int:
        """Number of windows (groups of shards shuffled together) in an epoch."""
        return -(-len(self._sizes) // self._window)

    def find_examples(self, slots: Int64s) -> Int64s:
        """Return the index of the example at each slot, shuffled within its window (group of shards): int64 [slots]."""
        examples = np.empty_like(slots)
        windows = self.find_windows(slots)
        for window in _list_distinct(windows):
            in_window = windows == window
            examples[in_window] = self._find_in_window(window, slots[in_window])
        return examples

    def find_epochs(self, slots: Int64s) -> Int64s:
        """Return the zero-based epoch of each slot of this windowed order: int64 [slots]."""
        return slots // self._num_examples

    def find_windows(self, slots: Int64s) -> Int64s:
        """Find the window (group of shards that are shuffled together) that contains each slot: int64 [slots].

        Windows are numbered consecutively across epochs.
        """
        epochs = self.find_epochs(slots)
        positions, windows = slots - epochs * self._num_examples, np.empty_like(slots)
        for epoch in _list_distinct(epochs):
            in_epoch = epochs == epoch
            numbers = np.searchsorted(self._get_layout(epoch).window_starts, positions[in_epoch], side="right") - 1
            windows[in_epoch] = epoch * self.num_windows + numbers
        return windows

    def list_shards(self, window: int) -> list[int]:
        """Return the indices of the shards in a window (group of shards that are shuffled together).

        `window` is the index of the window, numbered consecutively across epochs.
        """
        epoch, number = divmod(window, self.num_windows)
        shards: list[int] = self._get_layout(epoch).shards[number * self._window : (number + 1) * self._window].tolist()
        return shards

    def _find_in_window(self, window: int, slots: Int64s) -> Int64s:
        """Return the index of the example at each slot of one window (group of shards): int64 [slots].

        Args:
            window: Index of the window, numbered consecutively across epochs.
            slots: int64 [slots], all of them in this window.
        """
        epoch, number = divmod(window, self.num_windows)
        layout = self._get_layout(epoch)
        start, end = layout.window_starts[number : number + 2]
        key = np.uint64(fold(compute_address(self._seed, "window", epoch), number))
        positions = start + permute_slots(slots - epoch * self._num_examples - start, int(end - start), key)
        shard_numbers = np.searchsorted(layout.starts, positions, side="right") - 1
        examples: Int64s = self._shard_starts[layout.shards[shard_numbers]] + positions - layout.starts[shard_numbers]
        return examples

    def _get_layout(self, epoch: int) -> _EpochLayout:
        """Return the random order of the shards in an epoch. The last `MAX_CACHED_EPOCHS` results are cached."""
        if epoch not in self._layouts:
            num = len(self._sizes)
            shards = self._shard_order.find_examples(np.arange(epoch * num, (epoch + 1) * num))
            starts = np.concatenate([[0], np.cumsum(self._sizes[shards])])
            self._layouts[epoch] = _EpochLayout(shards, starts, np.append(starts[: num : self._window], starts[-1]))
            while len(self._layouts) > MAX_CACHED_EPOCHS:
                self._layouts.popitem(last=False)
        return self._layouts[epoch]


def _list_distinct(numbers: Int64s) -> list[int]:
    """Return the distinct values of an array, ascending. This is fast in the common case that all values are equal."""
    if len(numbers) and numbers.min() == numbers.max():
        return [int(numbers[0])]
    distinct: list[int] = np.unique(numbers).tolist()
    return distinct


def find_windowed_example_plain(slot: int, sizes: Sequence[int], window: int, seed: int) -> int:
    """Reference implementation of `WindowedOrder.find_examples` for one slot, for tests: the index of the example.

    Args:
        slot: Position in the training order.
        sizes: Number of examples in each shard.
        window: Number of shards whose examples are shuffled together.
        seed: Seed of the order.
    """
    epoch, position = divmod(slot, sum(sizes))
    shards = [find_example_plain(epoch * len(sizes) + n, len(sizes), seed, "shards") for n in range(len(sizes))]
    number = 0
    while position >= (window_size := sum(sizes[shard] for shard in shards[number * window : (number + 1) * window])):
        position, number = position - window_size, number + 1
    key = int(fold(compute_address(seed, "window", epoch), number))
    position = permute_plain(position, window_size, int(fold(key, 0)))
    for shard in shards[number * window :]:
        if position < sizes[shard]:
            return sum(sizes[:shard]) + position
        position -= sizes[shard]
    raise AssertionError("a place is in a shard of its window")


class BlockLayout(NamedTuple):
    """The assignment of a block of slots to the shard sets of a mixture.

    Attributes:
        components: uint16 [slots], the index of the shard set that each slot belongs to.
        slot_numbers: int32 [slots], the number of earlier slots of the block that belong to the same shard set.
    """

    components: UInt16s
    slot_numbers: Int32s


class Interleave:
    """Assigns each slot of a mixture to one of its shard sets, periodically and as evenly as possible.

    Args:
        shares: Number of slots of each shard set in a period. All must be positive.
        block: Number of slots that are assigned at a time. Each shard set must get at least one slot in each block.

    Raises:
        AssertionError: The shares do not fit these limits, or add up to more than `MAX_PERIOD_SLOTS`.
    """

    def __init__(self, shares: Sequence[int], block: int = BLOCK_SLOTS) -> None:
        self.period = sum(shares)
        assert 0 < min(shares) and len(shares) <= 1 << 16 and self.period <= MAX_PERIOD_SLOTS, shares
        assert self.period <= block or min(shares) * block >= self.period, "a component has a slot in each block"
        self.shares = tuple(shares)
        self._cumulative_shares = [sum(shares[:number]) for number in range(len(shares) + 1)]
        self._block = block
        self._layouts = OrderedDict[int, BlockLayout]()

    def locate_slots(self, slots: Int64s) -> tuple[UInt16s, Int64s]:
        """Assign each slot of a mixture (a position in its training order) to one of its shard sets.

        Returns:
            The index of the shard set (uint16 [slots]), and the number of earlier slots that belong to the same shard
            set (int64 [slots]).
        """
        periods, positions = np.divmod(slots, self.period)
        blocks = positions // self._block
        components, component_slots = np.empty(len(slots), np.uint16), np.empty(len(slots), np.int64)
        for block in np.unique(blocks).tolist():
            in_block = np.flatnonzero(blocks == block)
            layout, offsets = self._get_layout(block), positions[in_block] - block * self._block
            components[in_block] = layout.components[offsets]
            starts = np.array(self._count_before_block(block * self._block), np.int64)
            component_slots[in_block] = starts[components[in_block]] + layout.slot_numbers[offsets]
        component_slots += periods * np.array(self.shares, np.int64)[components]
        return components, component_slots

    def count_before(self, slot: int) -> tuple[int, ...]:
        """Count the slots of the mixture before `slot` that belong to each shard set, in the order of `shares`."""
        period, position = divmod(slot, self.period)
        block, offset = divmod(position, self._block)
        components = self._get_layout(block).components[:offset] if offset else np.zeros(0, np.uint16)
        counts = np.bincount(components, minlength=len(self.shares)).tolist()
        starts = self._count_before_block(block * self._block)
        return tuple(
            period * share + begin + count for share, begin, count in zip(self.shares, starts, counts, strict=True)
        )

    def _count_before_block(self, position: int) -> list[int]:
        """Count the slots of each shard set among the first `position` slots of a period.

        `position` must be the start or end of a block. Each count differs from the exact share of `position` by less
        than one.
        """
        sums = [position * total // self.period for total in self._cumulative_shares]
        return [above - below for below, above in pairwise(sums)]

    def _get_layout(self, block: int) -> BlockLayout:
        """Return the assignment of a block of slots to the shard sets. The last `MAX_CACHED_BLOCKS` results are cached.

        `block` is the zero-based index of the block in its period.
        """
        layout = self._layouts.get(block)
        if layout is None:
            first = block * self._block
            last = min(first + self._block, self.period)
            counts = np.subtract(self._count_before_block(last), self._count_before_block(first)).astype(np.int64)
            layout = self._layouts[block] = lay_out_block(counts)
            while len(self._layouts) > MAX_CACHED_BLOCKS:
                self._layouts.popitem(last=False)
        return layout


def lay_out_block(counts: Int64s) -> BlockLayout:
    """Distribute the slots of a block among the shard sets, so that the slots of each set are spread evenly over it.

    Args:
        counts: int64 [shard sets], the number of slots of the block that each shard set gets. They must not be
            negative. Their sum is the size of the block.
    """
    layout = BlockLayout(np.empty(counts.sum(), np.uint16), np.empty(counts.sum(), np.int32))
    _fill_layout(counts, *layout)
    return layout


@kernel
def _fill_layout(counts: Int64s, components: UInt16s, slot_numbers: Int32s) -> None:
    """Fill the two arrays of a `BlockLayout`, slot by slot.

    The slots of a shard set are spread evenly: each of them has an earliest and a latest position (its deadline). A
    slot of the block goes to the shard set with the earliest deadline among those whose next slot may be here.

    Args:
        counts: int64 [shard sets], the number of slots that each shard set gets.
        components: uint16 [slots], filled with the index of the shard set of each slot. Its length is the sum of
            `counts`.
        slot_numbers: int32 [slots], filled with the number of earlier slots of the block that belong to the same shard
            set.
    """
    num_slots, num = len(components), len(counts)
    num_given, earliest, due = np.zeros(num, np.int64), np.zeros(num, np.int64), np.zeros(num, np.int64)
    for component in range(num):
        due[component] = num_slots + 1
        if counts[component]:
            due[component] = -(-num_slots // counts[component])
    for slot in range(num_slots):
        chosen, first = -1, num_slots + 1
        for component in range(num):
            if earliest[component] <= slot and due[component] < first:
                chosen, first = component, due[component]
        components[slot], slot_numbers[slot] = chosen, num_given[chosen]
        num_given[chosen] += 1
        if num_given[chosen] == counts[chosen]:
            due[chosen] = num_slots + 1
        else:
            earliest[chosen] = num_given[chosen] * num_slots // counts[chosen]
            due[chosen] = -(-(num_given[chosen] + 1) * num_slots // counts[chosen])


def lay_out_block_plain(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Reference implementation of `lay_out_block`, for tests.

    Args:
        counts: Number of slots of the block that each shard set gets.

    Returns:
        For each slot of the block, the index of its shard set, and the number of earlier slots of the block that belong
        to the same shard set.
    """
    total, slots = sum(counts), list[tuple[int, int]]()
    given = [0] * len(counts)
    for slot in range(total):
        candidates = [n for n, count in enumerate(counts) if given[n] < count and given[n] * total // count <= slot]
        chosen = min(candidates, key=lambda n: (Fraction((given[n] + 1) * total, counts[n]).__ceil__(), n))
        slots.append((chosen, given[chosen]))
        given[chosen] += 1
    return slots


def to_whole_shares(weights: Sequence[Fraction]) -> tuple[int, ...]:
    """Convert weights to the smallest integers in the same proportions.

    If these would add up to more than `MAX_PERIOD_SLOTS`, the result is rounded to integers with that sum, some of
    which may be 0. The weights must be positive.

    >>> to_whole_shares([Fraction("0.7"), Fraction("0.3")]), to_whole_shares([Fraction(1), Fraction(2)])
    ((7, 3), (1, 2))
    """
    total = sum(weights)
    parts = [weight / total for weight in weights]
    common = 1
    for part in parts:
        common = common * part.denominator // gcd(common, part.denominator)
        if common > MAX_PERIOD_SLOTS:
            return apportion(MAX_PERIOD_SLOTS, parts)
    return tuple(int(part * common) for part in parts)


def apportion(total: int, fractions: Sequence[Fraction]) -> tuple[int, ...]:
    """Split `total` into integers in the given proportions by the largest remainder method.

    Args:
        total: The sum of the result.
        fractions: The proportions, which must add up to 1.

    >>> apportion(10, [Fraction(1, 3), Fraction(2, 3)])
    (3, 7)
    """
    exact = [part * total for part in fractions]
    shares = [int(each) for each in exact]
    order = sorted(range(len(fractions)), key=lambda number: (shares[number] - exact[number], number))
    for number in order[: total - sum(shares)]:
        shares[number] += 1
    return tuple(shares)
