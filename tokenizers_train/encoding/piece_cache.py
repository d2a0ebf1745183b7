"""A cache of the pieces of short words: a word of up to 16 bytes gives up to four ids in one lookup.

Promise: what is found is what was remembered for this very word: its bytes and its length are compared in full. A word
may be forgotten in favour of another, so a cache changes only how often pieces are computed again.

A word is two 64-bit words of its bytes, first byte lowest, zeros after its end, and its length; its ids are packed into
a third, four of 16 bits or two of 32, so that one store writes them all (`corpora.kernels.packed.store8`).

Two words share a bucket, which is one line of the processor's cache. The first that comes stays, the second is replaced
by the next: words that come early in a text are mostly the frequent ones.

Cost: 32 bytes a word, 4 MiB in all by default; one line of memory read for a word that is known. A cache belongs to one
thread.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import GOLDEN_RATIO

MAX_CACHED_BYTES = 16  # bytes of a word that can be remembered

_ENTRY = 4  # 64-bit words of an entry: two of the word's bytes, its ids, its length and number of ids
_BUCKET = 2 * _ENTRY
_SPREAD_HIGH = np.uint64(0xC2B2AE3D27D4EB4F)
_TOP_SHIFT = np.uint64(32)  # the topmost bits of the product choose a bucket
_COUNT_BITS = np.uint64(8)
_COUNT_MASK = np.uint64(0xFF)
_LINE_BYTES = 64


class PieceCache(NamedTuple):
    """A fixed-size cache that maps short words to their token ids.

    Attributes:
        entries: uint64, four values per entry: bytes 0-7 of the word, bytes 8-15, the packed ids, and length << 8 |
            number of ids. A length of 0 marks an unused entry.
    """

    entries: UInt64s


def build_piece_cache(num_words: int = 1 << 17) -> PieceCache:
    """Build an empty cache for `num_words` words. The number must be a power of two from 2 to 2^25."""
    assert 2 <= num_words <= 1 << 25 and num_words & (num_words - 1) == 0, "the room is a power of two"
    line = _LINE_BYTES // 8
    entries = np.zeros(num_words * _ENTRY + line, np.uint64)
    first = -entries.ctypes.data // 8 % line  # so that no bucket lies across two lines
    return PieceCache(entries[first : first + num_words * _ENTRY])


@kernel
def find_entry(cache: PieceCache, low: np.uint64, high: np.uint64, length: int) -> int:
    """Return the index of a word's entry, or -1 if the word is not cached.

    The index refers to `cache.entries` and is passed to `get_packed_ids` and `count_ids`.

    Args:
        cache: The cache.
        low: Bytes 0-7 of the word. The first byte is the lowest, and missing bytes are zero.
        high: Bytes 8-15 of the word, in the same format.
        length: Length of the word in bytes, from 1 to 16.
    """
    entries = cache.entries
    entry = _locate_bucket(entries, low, high)
    if _has_word(entries, entry, low, high, np.uint64(length)):
        return entry
    if _has_word(entries, entry + _ENTRY, low, high, np.uint64(length)):
        return entry + _ENTRY
    return -1


@kernel
def get_packed_ids(cache: PieceCache, entry: int) -> np.uint64:
    """Return the ids of a cache entry, packed into one integer. `entry` is an index returned by `find_entry`.

    The first id is in the lowest bits, and unused bits are zero.
    """
    ids: np.uint64 = cache.entries[entry + 2]
    return ids


@kernel
def count_ids(cache: PieceCache, entry: int) -> int:
    """Return the number of ids in a cache entry. `entry` is an index returned by `find_entry`."""
    return int(np.int64(cache.entries[entry + 3] & _COUNT_MASK))


@kernel
def remember(cache: PieceCache, low: np.uint64, high: np.uint64, length: int, ids: np.uint64, count: int) -> None:
    """Cache the ids of a word after a miss in `find_entry`. This may evict another word.

    Args:
        low: Bytes 0-7 of the word, as in `find_entry`.
        high: Bytes 8-15 of the word.
        length: Length of the word in bytes, from 1 to 16.
        ids: The ids, packed as `get_packed_ids` returns them.
        count: Number of ids.
    """
    entries = cache.entries
    entry = _locate_bucket(entries, low, high)
    if entries[entry + 3] != 0:
        entry += _ENTRY
    entries[entry] = low
    entries[entry + 1] = high
    entries[entry + 2] = ids
    entries[entry + 3] = np.uint64(length) << _COUNT_BITS | np.uint64(count)


@kernel
def _locate_bucket(entries: UInt64s, low: np.uint64, high: np.uint64) -> int:
    """Return the index in `entries` of the first of the two entries that may hold a word.

    `low` and `high` are the bytes of the word, as in `find_entry`.
    """
    mixed = (low ^ high * _SPREAD_HIGH) * GOLDEN_RATIO
    return int(np.int64((mixed >> _TOP_SHIFT) * np.uint64(len(entries) // _BUCKET) >> _TOP_SHIFT)) * _BUCKET


@kernel
def _has_word(entries: UInt64s, entry: int, low: np.uint64, high: np.uint64, length: np.uint64) -> bool:
    """Return whether the entry at index `entry` of `entries` holds a word.

    A single comparison is used, so that there is only one branch to predict.

    Args:
        entries: The field `PieceCache.entries`.
        entry: Index of the entry.
        low: Bytes 0-7 of the word. The first byte is the lowest, and missing bytes are zero.
        high: Bytes 8-15 of the word, in the same format.
        length: Length of the word in bytes.
    """
    other = (entries[entry] ^ low) | (entries[entry + 1] ^ high) | ((entries[entry + 3] >> _COUNT_BITS) ^ length)
    return bool(other == 0)
