"""Slots: the places of a global order without an end, and the protocol of whatever is read by slot.

A loader reads one split of one shard set, a mixture several of them; a training uses only this.
"""

from typing import Protocol

from corpora.kernels.arrays import Int64s, UInt16s
from shards.reading.loader import GatheredExamples, Slots


class SlotReader(Protocol):
    """Examples by slot."""

    def __len__(self) -> int:
        """Slots in which no example comes twice, counted from the first one; 0 where there is no example."""
        ...

    def gather(self, slots: Slots) -> GatheredExamples:
        """Read the content of these slots, in their order."""
        ...

    def lengths(self, slots: Slots) -> Int64s:
        """Tokens of each slot's example; 0 where it is deleted: int64 [slots]."""
        ...

    def where(self, slots: Slots) -> tuple[UInt16s, Int64s]:
        """The component of each slot, of which there may be one alone, and the number of its example in that."""
        ...

    def token_counts(self, most: int) -> Int64s:
        """Count how often each ordinary token occurs in about `most` tokens: int64 [vocabulary]."""
        ...
