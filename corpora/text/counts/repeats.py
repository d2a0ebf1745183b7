"""Counts what is repeated in a document: runs of two to ten words, and its lines and paragraphs.

Promise: exact, whatever the hashes. A word's number is the place of its first occurrence; the number of a run of n
words is that of the first run with the same numbers of its two overlapping runs of n - 1 words, and two numbers of
32 bits are compared whole. Words of more than eight bytes, lines and paragraphs are compared byte by byte.

Cost: 3.7 ns a byte of novels for all nine lengths: a run can only be repeated if both runs within it are,
so each length looks at fewer places than the one before. At worst, ten look-ups a word. A table is emptied by
counting its use: slots hold the use they were filled in, next to what they hold.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Int32s, Int64s, UInt64s
from corpora.kernels.compiling import kernel
from corpora.kernels.hashing import GOLDEN_RATIO, absorb
from corpora.text.counts.words import Scratch, compute_table_size

MAX_TOP_WORDS = 4  # Table A1: the most common one of runs of 2 to 4 words,
MAX_RUN_WORDS = 10  # all repeated ones of 5 to 10
NUM_SHARES = MAX_RUN_WORDS - 1
_1, _32 = np.uint64(1), np.uint64(32)
_EMPTY = np.uint64(0)


@kernel
def count_ngrams(words: int, scratch: Scratch, use: int, out: Int64s) -> int:
    """Write how many characters are in repeated runs of 2 to 10 words to `out`.

    Args:
        words: Number of words in the document.
        scratch: Scratch memory, filled by `scan` with the document's words. Its `keys` are overwritten.
        use: Running number of the last use of the hash table `scratch.slots`. Entries with an older number count as
            empty, so that the table need not be cleared.
        out: int64 [9], one entry for each run length, from 2 to 10. Up to 4 words, it is the number of characters in
            the most common run times its occurrences; from 5 words on, the number of characters covered by repetitions
            of earlier runs. It must contain zeros, because entries for runs longer than all repeated ones are left.

    Returns:
        The new value of `use`.
    """
    use += 1
    active = _number_words(words, scratch, use)
    for length in range(2, MAX_RUN_WORDS + 1):
        if active == 0:
            return use
        use += 1
        active, top, repeated = _number_runs(active, length, scratch, use)
        out[length - 2] = top if length <= MAX_TOP_WORDS else repeated
    return use


@kernel
def _number_words(words: int, scratch: Scratch, use: int) -> int:
    """Write the index of each word's first occurrence to `scratch.numbers`.

    The indices of words that occur more than once are written to the front of `scratch.active`. The function returns
    how many there are.

    Args:
        words: Number of words in the document.
        scratch: Scratch memory, filled by `scan` with the document's words.
        use: Number of this use of the hash table `scratch.slots`.
    """
    text, starts, lengths, places = scratch.text, scratch.starts, scratch.lengths, scratch.active
    keys, numbers, counts, slots = scratch.keys, scratch.numbers, scratch.counts, scratch.slots
    mask = np.uint64(compute_table_size(words) - 1)
    for word in range(words):
        key, length = keys[word], lengths[word]
        slot = key * GOLDEN_RATIO >> _32 & mask
        while True:
            held = slots[slot]
            if held >> 32 != use:
                slots[slot] = use << 32 | word
                numbers[word], counts[word] = word, 1
                break
            first = held & 0xFFFFFFFF
            same = keys[first] == key and lengths[first] == length
            if same and (length <= 8 or _has_same_bytes(text, starts[first], starts[word], length)):
                numbers[word] = first
                counts[first] += 1
                break
            slot = slot + _1 & mask
    active = 0
    for word in range(words):
        places[active] = word
        active += counts[numbers[word]] > 1
    return active


@kernel
def _number_runs(active: int, length: int, scratch: Scratch, use: int) -> tuple[int, int, int]:
    """Number the runs of `length` words, considering only runs whose two shorter sub-runs both repeat.

    Args:
        active: Number of entries in `scratch.active`: the first words of the repeated runs of `length - 1` words.
        length: Number of words in a run.
        scratch: Contains the numbers of the shorter runs, which are overwritten with the numbers of these runs.
        use: Number of this use of the hash table `scratch.slots`.

    Returns:
        The number of runs that occur more than once; the number of characters in the most common run, times its
        occurrences (0 if no run repeats); and the number of characters covered by repetitions of earlier runs.
    """
    keys, numbers, counts, places = scratch.keys, scratch.numbers, scratch.counts, scratch.active
    before, slots = scratch.before, scratch.slots
    mask, count = np.uint64(compute_table_size(active) - 1), 0
    most, widest, repeated, covered = 1, 0, 0, 0
    for index in range(active - 1):
        place = np.int64(places[index])
        places[count] = place
        count += places[index + 1] == place + 1
    for index in range(count):
        place = np.int64(places[index])
        key = np.uint64(numbers[place]) << _32 | np.uint64(numbers[place + 1])
        slot = key * GOLDEN_RATIO >> _32 & mask
        while True:
            held = slots[slot]
            if held >> 32 != use:
                slots[slot] = use << 32 | place
                keys[place], numbers[place], counts[place] = key, place, 1
                break
            first = held & 0xFFFFFFFF
            if keys[first] == key:
                numbers[place] = first
                counts[first] += 1
                width = before[place + length] - before[place]
                if counts[first] > most or (counts[first] == most and width > widest):
                    most, widest = counts[first], width
                repeated += before[place + length] - before[covered if covered > place else place]
                covered = int(place) + length
                break
            slot = slot + _1 & mask
    kept = 0
    for index in range(count):
        place = np.int64(places[index])
        places[kept] = place
        kept += counts[numbers[place]] > 1
    return kept, most * widest, repeated


@kernel
def count_repeats(spans: Int64s, count: int, scratch: Scratch, use: int) -> tuple[int, int]:
    """Count how many of the first `count` spans (lines or paragraphs) equal an earlier one.

    Args:
        spans: int64 [3, n]: the first byte of each span, the byte after it, and its number of characters.
        count: Number of spans to compare.
        scratch: Scratch memory with the document in `text` and the spans' hashes in `hashes`.
        use: Number of this use of the hash table `scratch.slots`.

    Returns:
        The number of repeated spans, and their total number of characters.
    """
    text, hashes, slots = scratch.text, scratch.hashes, scratch.slots
    mask, repeated, characters = np.uint64(compute_table_size(count) - 1), 0, 0
    for span in range(count):
        start, length = spans[0, span], spans[1, span] - spans[0, span]
        slot = hashes[span] >> _32 & mask
        while True:
            held = slots[slot]
            if held >> 32 != use:
                slots[slot] = use << 32 | span
                break
            first = held & 0xFFFFFFFF
            same = hashes[first] == hashes[span] and spans[1, first] - spans[0, first] == length
            if same and _has_same_bytes(text, spans[0, first], start, length):
                repeated += 1
                characters += spans[2, span]
                break
            slot = slot + _1 & mask
    return repeated, characters


@kernel
def _has_same_bytes(text: Bytes, one: int, other: int, length: int) -> bool:
    """Return True if the `length` bytes of `text` that start at index `one` equal those that start at `other`."""
    for place in range(length):
        if text[one + place] != text[other + place]:
            return False
    return True


@kernel
def hash_groups(groups: int, bounds: Int32s, hashes: UInt64s, out: UInt64s) -> None:
    """Hash each group of members (words of a line, or lines of a paragraph) from its members' hashes.

    Args:
        groups: Number of groups.
        bounds: n + 1 offsets: group i has the members bounds[i] to bounds[i + 1].
        hashes: Hashes of the members. For lines, these are the word keys before `count_ngrams` overwrites them.
        out: Filled with the hash of each group. May be `hashes` itself.
    """
    for group in range(groups):
        value = _EMPTY
        for member in range(bounds[group], bounds[group + 1]):
            value = absorb(value, hashes[member])
        out[group] = value
