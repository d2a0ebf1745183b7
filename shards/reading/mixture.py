"""Mixtures: several shard sets read as one, each with its share of the slots.

    slot  ─►  component, slot in it (`Interleave`)  ─►  example (the component's own order)

Promise: what a slot holds is a pure function of the components, their shares and the slot. Each component is read as it
is by itself, in its own order from its own first slot on: so every live example of it is read once in each of its
epochs, whatever the mixture, and a run resumes at any slot.

Cost: that of the components' loaders, and two more copies of what they gathered, the second at 2 ns a token.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from corpora.kernels.arrays import Int32s, Int64s, UInt16s
from corpora.kernels.compiling import kernel
from shards.reading.loader import TALLY_NAMES, GatheredExamples, SlotReader, Slots, to_slot_array
from shards.reading.order import Interleave


class Mixture:
    """Reads several shard sets as one, with a fixed share of the slots (positions in the training order) for each.

    Args:
        readers: One reader per shard set. Either all of them have pair labels or none has.
        interleave: Assigns each slot to a shard set.
        first_slots: The slot of each shard set at which the mixture starts reading it, if earlier training phases have
            read some. Default: 0 for all.
    """

    def __init__(self, readers: Sequence[SlotReader], interleave: Interleave, first_slots: Sequence[int] = ()) -> None:
        assert len(readers) == len(interleave.shares)
        self._readers = tuple(readers)
        self._interleave = interleave
        self._first_slots = np.array(first_slots or [0] * len(readers), np.int64)

    def __len__(self) -> int:
        """Return the number of slots, counted from slot 0, until some shard set has been read once completely.

        The result assumes that every shard set starts at its slot 0: `first_slots` is ignored.
        """
        lengths = [len(reader) for reader in self._readers]
        low, high = 0, min(lengths) * self._interleave.period + 1  # of so many slots some component has too many
        while high - low > 1:
            middle = (low + high) // 2
            fits = all(n <= most for n, most in zip(self._interleave.count_before(middle), lengths, strict=True))
            low, high = (middle, high) if fits else (low, middle)
        return low

    def locate_slots(self, slots: Slots) -> tuple[UInt16s, Int64s]:
        """Map each slot of the mixture (a position in its training order) to a shard set and a slot of that set.

        A slot of a shard set is counted from the start of its training order, including slots that earlier phases have
        read.

        Returns:
            The index of the shard set (uint16 [slots]), and the slot of that shard set (int64 [slots]).
        """
        components, inner = self._interleave.locate_slots(to_slot_array(slots))
        return components, inner + self._first_slots[components]

    def gather(self, slots: Slots) -> GatheredExamples:
        """Read and mask the examples at some slots of the mixture, in the given order.

        Deleted examples are left out and counted. `by_component` of the result has the counts for each shard set.

        Args:
            slots: A range, or int64 [slots], of positions in the training order of the mixture.

        Raises:
            Damaged: A shard is damaged or was changed. It may also be raised by a later call (see `check_read`).
        """
        components, inner = self.locate_slots(slots)
        positions = [np.flatnonzero(components == number) for number in range(len(self._readers))]
        parts = [reader.gather(inner[own]) for reader, own in zip(self._readers, positions, strict=True)]
        live = [own[reader.find_lengths(inner[own]) > 0] for reader, own in zip(self._readers, positions, strict=True)]
        return reorder_examples(parts, np.argsort(np.concatenate(live)))

    def find_lengths(self, slots: Slots) -> Int64s:
        """Return the length in tokens of the example at each slot of the mixture: int64 [slots], 0 if it is deleted."""
        components, inner = self.locate_slots(slots)
        lengths = np.zeros(len(inner), np.int64)
        for number, reader in enumerate(self._readers):
            own = components == number
            lengths[own] = reader.find_lengths(inner[own])
        return lengths

    def check_read(self) -> None:
        """Wait until all data read so far from all shard sets has been verified.

        Raises:
            Damaged: A shard is damaged or was changed.
        """
        for reader in self._readers:
            reader.check_read()

    def locate_examples(self, slots: Slots) -> tuple[UInt16s, Int64s]:
        """Look up the shard set and the example at each slot of the mixture (a position in its training order).

        Returns:
            The index of the shard set (uint16 [slots]), and the index of the example in that shard set (int64 [slots]).
        """
        components, inner = self.locate_slots(slots)
        examples = np.zeros(len(inner), np.int64)
        for number, reader in enumerate(self._readers):
            own = components == number
            examples[own] = reader.locate_examples(inner[own])[1]
        return components, examples

    def sample_token_counts(self, num_tokens: int) -> Int64s:
        """Estimate how often each non-special token occurs in `num_tokens` tokens of the mixture: int64 [vocabulary].

        Tokens are counted in a sample of each shard set. The counts are weighted by the fraction of the mixture that is
        drawn from that shard set.
        """
        shares = np.array(self._interleave.shares) / self._interleave.period
        totals = np.zeros(0, np.float64)
        for reader, share in zip(self._readers, shares, strict=True):
            counts = reader.sample_token_counts(num_tokens)
            scale = share * num_tokens / max(1, counts.sum())
            totals = (totals if len(totals) else np.zeros(len(counts))) + counts * scale
        return np.rint(totals).astype(np.int64)


def reorder_examples(parts: Sequence[GatheredExamples], order: Int64s) -> GatheredExamples:
    """Concatenate the batches of all shard sets and reorder their examples.

    Args:
        parts: One batch per shard set. At least one is required.
        order: int64 [B], for each output position the index of an example in the concatenated batches.
    """
    whole = _join(parts)
    offsets = np.concatenate([[0], np.cumsum(np.diff(whole.offsets)[order])]).astype(np.int32)
    firsts = np.searchsorted(whole.masked, whole.offsets)  # masked tokens before each example
    ids, masked, targets = np.empty_like(whole.ids), np.empty_like(whole.masked), np.empty_like(whole.targets)
    _copy_in_order(order, whole.offsets, firsts, whole.ids, whole.masked, whole.targets, offsets, ids, masked, targets)
    return replace(
        whole,
        ids=ids,
        offsets=offsets,
        boundary=whole.boundary[order],
        labels=None if whole.labels is None else whole.labels[order],
        masked=masked,
        targets=targets,
        example_ids=whole.example_ids[order],
        epochs=whole.epochs[order],
    )


def _join(parts: Sequence[GatheredExamples]) -> GatheredExamples:
    """Concatenate the batches of all shard sets, without changing the order of their examples.

    Raises:
        AssertionError: Only some of the batches have labels.
    """
    token_starts = np.cumsum([0, *(len(part.ids) for part in parts)])
    offsets = [part.offsets[1:] + begin for part, begin in zip(parts, token_starts[:-1], strict=True)]
    labels = [part.labels for part in parts if part.labels is not None]
    assert len(labels) in (0, len(parts)), "a mixture has pair labels, or none"
    return GatheredExamples(
        ids=np.concatenate([part.ids for part in parts]),
        offsets=np.concatenate([[0], *offsets]).astype(np.int32),
        boundary=np.concatenate([part.boundary for part in parts]),
        labels=np.concatenate(labels) if labels else None,
        masked=np.concatenate([part.masked + begin for part, begin in zip(parts, token_starts[:-1], strict=True)]),
        targets=np.concatenate([part.targets for part in parts]),
        example_ids=np.concatenate([part.example_ids for part in parts]),
        epochs=np.concatenate([part.epochs for part in parts]),
        deleted=sum(part.deleted for part in parts),
        by_component=np.concatenate([part.tallies for part in parts]),
    )


@kernel
def _copy_in_order(
    order: Int64s,
    starts: Int32s,
    firsts: Int64s,
    ids: Any,
    masked: Int64s,
    targets: Any,
    offsets: Int32s,
    new_ids: Any,
    new_masked: Int64s,
    new_targets: Any,
) -> None:
    """Copy the tokens and masks of each example, in the new order, into `new_ids`, `new_masked` and `new_targets`.

    Args:
        order: int64 [B], the index of the example to copy to each position.
        starts: int32 [B + 1], the start of each example in `ids`.
        firsts: int64 [B + 1], the start of each example's masks in `masked` and `targets`.
        ids: [T], the token ids.
        masked: int64 [M], the positions of the masked tokens in `ids`.
        targets: [M], the original tokens at these positions.
        offsets: int32 [B + 1], the start of each output example in `new_ids`.
        new_ids: [T], the output array.
        new_masked: int64 [M], filled with the positions of the masked tokens in `new_ids`.
        new_targets: [M], the output array.
    """
    written = 0
    for row in range(len(order)):
        source, target = starts[order[row]], np.int64(offsets[row])
        for token in range(offsets[row + 1] - target):
            new_ids[target + token] = ids[source + token]
        for mask in range(firsts[order[row]], firsts[order[row] + 1]):
            new_masked[written] = masked[mask] - source + target
            new_targets[written] = targets[mask]
            written += 1


def gather_mixture_plain(
    readers: Sequence[SlotReader], components: Sequence[int], inner: Sequence[int]
) -> GatheredExamples:
    """Reference implementation of `Mixture.gather`, for tests. It reads one slot at a time.

    Args:
        readers: One reader per shard set.
        components: Int [slots], the index of the shard set of each slot.
        inner: int64 [slots], the slot within that shard set.
    """
    gathered = [readers[n].gather(range(slot, slot + 1)) for n, slot in zip(components, inner, strict=True)]
    tallies = [[0] * len(TALLY_NAMES) for _ in readers]
    for number, example in zip(components, gathered, strict=True):
        for column, count in enumerate(example.tallies[0].tolist()):
            tallies[number][column] += count
    return replace(_join(gathered), by_component=np.array(tallies, np.int64))
