"""The kernels of the masks: positions are chosen, then what the model sees in their place.

Promise: the masks of `shards.masks.masking.masks_plain`, which is their definition; what an example gets depends on
its key and its tokens alone. Cost: see `shards.masks.masking`; room for one example is set aside once a call.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Ids, Int64s, UInt16s, UInt32s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.store.randomness import below_one, draw_one

REPLACEMENTS = 1 << 16  # draws below this counter choose positions; this one + a position, its replacement
_LOW_32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@kernel
def draw_all(
    ids: Ids,
    offsets: Int64s,
    word_starts: Bytes,
    keys: UInt64s,
    whole_words: bool,
    rate: float,
    cap: int,
    mask_bound: int,
    random_bound: int,
    is_special: Bytes,
    ordinary: UInt32s,
    mask_id: int,
    longest: int,
    positions: UInt16s,
    mask_offsets: Int64s,
    replacements: Ids,
) -> None:
    """Fill the last three. `positions` has a slot to spare: skipped places are written there too."""
    places, words = np.empty(longest, np.int64), np.empty((longest + 1, 2), np.int64)
    chosen = np.zeros(longest, np.uint8)
    total = 0
    for example in range(len(keys)):
        key, row = keys[example], ids[offsets[example] : offsets[example + 1]]
        num = _ordinary_places(row, is_special, places)
        wanted = min(max(1, int(np.rint(num * rate))), cap)
        if whole_words and num:
            starts = word_starts[offsets[example] : offsets[example + 1]]
            _choose_words(starts, places[:num], wanted, key, words, chosen)
        elif num:
            _choose_tokens(num, wanted, key, chosen)
        first = total
        for index in range(num):
            positions[total] = places[index]
            total += chosen[index]
            chosen[index] = 0
        for index in range(first, total):  # without branches: which kind comes next cannot be guessed
            place = np.int64(positions[index])
            word = draw_one(key, REPLACEMENTS + place)
            upper, lower = np.int64(word >> _32), word & _LOW_32
            drawn = ordinary[np.int64((lower * np.uint64(len(ordinary))) >> _32)]
            seen = np.uint32(drawn) if upper < random_bound else np.uint32(row[place])
            replacements[index] = np.uint32(mask_id) if upper < mask_bound else seen
        mask_offsets[example + 1] = total


@kernel
def _ordinary_places(row: Ids, is_special: Bytes, places: Int64s) -> int:
    """Write the places of a row's ordinary tokens; how many there are."""
    num = 0
    for place in range(len(row)):
        places[num] = place
        num += 1 - is_special[row[place]]
    return num


@kernel
def _choose_tokens(num: int, wanted: int, key: np.uint64, chosen: Bytes) -> None:
    """Set `wanted` of the first `num` flags."""
    for counter in range(wanted):
        last = num - wanted + counter
        drawn = below_one(key, counter, last + 1)
        chosen[last if chosen[drawn] else drawn] = 1


@kernel
def _choose_words(
    word_starts: Bytes,
    places: Int64s,
    wanted: int,
    key: np.uint64,
    words: Int64s,
    chosen: Bytes,
) -> None:
    """Set the flags of whole words, at most `wanted`; `words` is room for (first, end) of every word."""
    num_words = 0
    for index in range(len(places)):
        if word_starts[places[index]] or index == 0 or places[index] != places[index - 1] + 1:
            words[num_words, 0] = index
            num_words += 1
        words[num_words - 1, 1] = index + 1
    left = wanted
    for index in range(num_words):
        if left == 0:
            break
        other = index + below_one(key, index, num_words - index)
        first, end = words[other]
        words[other] = words[index]
        if end - first <= left:
            chosen[first:end] = 1
            left -= end - first
