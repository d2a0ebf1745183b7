"""The interleave: the component of a mixture that each slot is of, in exact shares, for any slot and without a state.

    slot  ─►  period, place in it  ─►  block  ─►  component, and which of the component's slots it is

Promise: of every `sum(shares)` slots from a multiple of it on, each component has exactly its share. Where that period
is at most a block (2^20 slots; so with weights of up to five decimals), each component has, of the first n slots for
any n, its part of n to within one slot. A longer period is cut into blocks that begin within one slot of every
component's part, and within a block the same holds. Nothing is drawn: the same shares give the same order.

In a block each slot goes to the component whose next slot is due first (earliest deadline), once it may come: slot j
of a component with c of n slots may come from floor(j n / c) on and is due by ceil((j + 1) n / c). Such windows can
always be kept on one machine, and keep every component within one slot of its part (Baruah, Cohen, Plaxton, Varvel
1996).

Cost: a block is laid out once, in 13 ns a slot of two to five components (one x86-64 core, shared at the time), and
takes 6 bytes a slot; after that a slot is found in 45 ns.
"""

from collections import OrderedDict
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import gcd
from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Int32s, Int64s, UInt16s
from corpora.kernels.compiling import kernel

BLOCK = 1 << 20
LONGEST_PERIOD = 10**15
KEPT_BLOCKS = 2  # a step may begin in one and end in the next


class Layout(NamedTuple):
    """A block. components: of each slot; ranks: which of the component's slots in the block it is"""

    components: UInt16s
    ranks: Int32s


class Interleave:
    """The components of a mixture's slots.

    shares: slots of each component in a period
    block:  slots that are laid out at once; each component has one at least in each block
    """

    def __init__(self, shares: Sequence[int], block: int = BLOCK) -> None:
        self.period = sum(shares)
        assert 0 < min(shares) and len(shares) <= 1 << 16 and self.period <= LONGEST_PERIOD, shares
        assert self.period <= block or min(shares) * block >= self.period, "a component has a slot in each block"
        self.shares = tuple(shares)
        self._sums = [sum(shares[:number]) for number in range(len(shares) + 1)]
        self._block = block
        self._layouts = OrderedDict[int, Layout]()

    def at(self, slots: Int64s) -> tuple[UInt16s, Int64s]:
        """The component of each slot, and its slot in that component: [S] each."""
        periods, places = np.divmod(slots, self.period)
        blocks = places // self._block
        components, inner = np.empty(len(slots), np.uint16), np.empty(len(slots), np.int64)
        for block in np.unique(blocks).tolist():
            here = np.flatnonzero(blocks == block)
            layout, within = self._layout(block), places[here] - block * self._block
            components[here] = layout.components[within]
            begins = np.array(self._begins(block * self._block), np.int64)
            inner[here] = begins[components[here]] + layout.ranks[within]
        inner += periods * np.array(self.shares, np.int64)[components]
        return components, inner

    def before(self, slot: int) -> tuple[int, ...]:
        """Count the slots before a slot that are of each component."""
        period, place = divmod(slot, self.period)
        block, within = divmod(place, self._block)
        components = self._layout(block).components[:within] if within else np.zeros(0, np.uint16)
        inside = np.bincount(components, minlength=len(self.shares)).tolist()
        begins = self._begins(block * self._block)
        return tuple(
            period * share + begin + some for share, begin, some in zip(self.shares, begins, inside, strict=True)
        )

    def _begins(self, place: int) -> list[int]:
        """Count each component's slots before the block that begins at a place of a period: its part to within one."""
        sums = [place * total // self.period for total in self._sums]
        return [above - below for below, above in pairwise(sums)]

    def _layout(self, block: int) -> Layout:
        """A block of a period."""
        layout = self._layouts.get(block)
        if layout is None:
            first = block * self._block
            last = min(first + self._block, self.period)
            counts = np.subtract(self._begins(last), self._begins(first)).astype(np.int64)
            layout = self._layouts[block] = laid_out(counts)
            while len(self._layouts) > KEPT_BLOCKS:
                self._layouts.popitem(last=False)
        return layout


def laid_out(counts: Int64s) -> Layout:
    """So many slots of each component, evenly."""
    layout = Layout(np.empty(counts.sum(), np.uint16), np.empty(counts.sum(), np.int32))
    _lay_out(counts, *layout)
    return layout


@kernel
def _lay_out(counts: Int64s, components: UInt16s, ranks: Int32s) -> None:
    """Fill a layout; `released` and `due` are of each component's next slot."""
    num_slots, num = len(components), len(counts)
    given, released, due = np.zeros(num, np.int64), np.zeros(num, np.int64), np.zeros(num, np.int64)
    for component in range(num):
        due[component] = num_slots + 1
        if counts[component]:
            due[component] = -(-num_slots // counts[component])
    for slot in range(num_slots):
        chosen, first = -1, num_slots + 1
        for component in range(num):
            if released[component] <= slot and due[component] < first:
                chosen, first = component, due[component]
        components[slot], ranks[slot] = chosen, given[chosen]
        given[chosen] += 1
        if given[chosen] == counts[chosen]:
            due[chosen] = num_slots + 1
        else:
            released[chosen] = given[chosen] * num_slots // counts[chosen]
            due[chosen] = -(-(given[chosen] + 1) * num_slots // counts[chosen])


def laid_out_plain(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Return what `laid_out` gives, slot by slot: the component, and which of its slots it is."""
    total, slots = sum(counts), list[tuple[int, int]]()
    given = [0] * len(counts)
    for slot in range(total):
        open_ones = [n for n, count in enumerate(counts) if given[n] < count and given[n] * total // count <= slot]
        chosen = min(open_ones, key=lambda n: (Fraction((given[n] + 1) * total, counts[n]).__ceil__(), n))
        slots.append((chosen, given[chosen]))
        given[chosen] += 1
    return slots


def shares_of(weights: Sequence[Fraction]) -> tuple[int, ...]:
    """The smallest whole numbers in the proportions of weights.

    Where their sum would be above 10^15, the nearest ones with that sum (largest remainders).

    >>> shares_of([Fraction("0.7"), Fraction("0.3")]), shares_of([Fraction(1), Fraction(2)])
    ((7, 3), (1, 2))
    """
    total = sum(weights)
    parts = [weight / total for weight in weights]
    common = 1
    for part in parts:
        common = common * part.denominator // gcd(common, part.denominator)
        if common > LONGEST_PERIOD:
            return apportioned(LONGEST_PERIOD, parts)
    return tuple(int(part * common) for part in parts)


def apportioned(slots: int, parts: Sequence[Fraction]) -> tuple[int, ...]:
    """So many slots by parts of the whole, each to within one: the largest remainders get what is left.

    >>> apportioned(10, [Fraction(1, 3), Fraction(2, 3)])
    (3, 7)
    """
    exact = [part * slots for part in parts]
    shares = [int(each) for each in exact]
    order = sorted(range(len(parts)), key=lambda number: (shares[number] - exact[number], number))
    for number in order[: slots - sum(shares)]:
        shares[number] += 1
    return tuple(shares)
