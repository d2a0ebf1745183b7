"""The kernels of `tokenizers_train.learning.unigram`: suffixes are sorted, and the strings that they share become
pieces.

Promise: what `unigram_plainly.repeated_plainly` and `matches_plainly` say, in arrays.
Cost: see `tokenizers_train.learning.unigram`. A suffix is looked at up to its word's end or the longest piece and one
more.

The text is words as numbers of characters, in the order of their code points from 1, and a 0 after each word.
"""

from typing import NamedTuple

import numpy as np

from corpora.kernels.arrays import Bytes, Int32s, Int64s
from corpora.kernels.compiling import kernel

_MAX_INSERTED = 16  # as many suffixes are inserted one by one


class RepeatedStrings(NamedTuple):
    """Strings that the text repeats: order[lefts[i]:rights[i]] are the suffixes that begin with string i.

    order:   int32, the places of the text, sorted by what follows
    lefts:   int32
    rights:  int32
    lengths: uint8, characters of the string
    """

    order: Int32s
    lefts: Int32s
    rights: Int32s
    lengths: Bytes


@kernel
def _is_before(text: Int32s, one: int, other: int, limit: int) -> bool:
    """Return whether the suffix at `one` is before that at `other`, by their first `limit` characters."""
    for i in range(limit):
        if text[one + i] != text[other + i]:
            return bool(text[one + i] < text[other + i])
        if text[one + i] == 0:
            return False
    return False


@kernel
def _sort_by_insertion(text: Int32s, order: Int32s, depth: int, limit: int) -> None:
    """Sort a few suffixes that agree in `depth` characters."""
    for i in range(1, len(order)):
        place = order[i]
        j = i
        while j > 0 and _is_before(text, place + depth, order[j - 1] + depth, limit - depth):
            order[j] = order[j - 1]
            j -= 1
        order[j] = place


@kernel
def _find_median(a: int, b: int, c: int) -> int:
    """Return the median of three."""
    return max(min(a, b), min(max(a, b), c))


@kernel
def _partition_suffixes(text: Int32s, order: Int32s, depth: int) -> tuple[int, int, int]:
    """Order suffixes by one character: smaller than a pivot, equal, larger; return the ends of the first two, and the
    pivot.
    """
    last = len(order) - 1
    pivot = _find_median(text[order[0] + depth], text[order[last // 2] + depth], text[order[last] + depth])
    low, i, high = 0, 0, last
    while i <= high:
        character = text[order[i] + depth]
        if character < pivot:
            order[low], order[i] = order[i], order[low]
            low += 1
            i += 1
        elif character > pivot:
            order[high], order[i] = order[i], order[high]
            high -= 1
        else:
            i += 1
    return low, high + 1, pivot


@kernel
def sort_suffixes(text: Int32s, order: Int32s, limit: int) -> None:
    """Sort places of the text by the `limit` characters that follow, which a 0 ends (Bentley and Sedgewick 1997)."""
    waiting = [(0, len(order), 0)]
    while len(waiting) > 0:
        left, right, depth = waiting.pop()
        if right - left <= _MAX_INSERTED:
            _sort_by_insertion(text, order[left:right], depth, limit)
            continue
        low, high, pivot = _partition_suffixes(text, order[left:right], depth)
        waiting.append((left, left + low, depth))
        waiting.append((left + high, right, depth))
        if pivot != 0 and depth + 1 < limit:
            waiting.append((left + low, left + high, depth + 1))


@kernel
def _count_shared(text: Int32s, one: int, other: int, limit: int) -> int:
    """Count the characters that two suffixes share, at most `limit`, the 0 at an end being one."""
    for i in range(limit):
        if text[one + i] != text[other + i]:
            return i
        if text[one + i] == 0:
            return i + 1
    return limit


@kernel
def count_suffixes(text: Int32s, counts: Int64s) -> Int64s:
    """Add to `counts` how often each character is in the text, apart from the 0 after words, and return it."""
    for character in text:
        if character != 0:
            counts[character] += 1
    return counts


@kernel
def find_repeated_strings(
    text: Int32s,
    order: Int32s,
    max_length: int,
    min_score: int,
    by_score: Int64s,
    lefts: Int32s,
    rights: Int32s,
    lengths: Bytes,
) -> None:
    """Count, by score, the strings of 2 to `max_length` characters that occur twice and are followed by different ones.

    They are the inner nodes of the tree of suffixes, found with a stack of those that hold the current suffix. Those
    with a score of at least `min_score` are filled in, as far as there is room.

    by_score:               int64, added to; its last entry counts all higher scores
    lefts, rights, lengths: as in `RepeatedStrings`
    """
    number, last = 0, len(order)
    open_lefts = np.empty(max_length + 3, np.int64)
    open_depths = np.empty(max_length + 3, np.int64)
    open_lefts[0], open_depths[0], top = 0, 0, 0
    for i in range(1, last + 1):
        depth = _count_shared(text, order[i - 1], order[i], max_length + 1) if i < last else 0
        left = i - 1
        while open_depths[top] > depth:
            left, length = open_lefts[top], open_depths[top]
            top -= 1
            if 2 <= length <= max_length and text[order[left] + length - 1] != 0:
                score = min((i - left) * length, len(by_score) - 1)
                by_score[score] += 1
                if score >= min_score and number < len(lefts):
                    lefts[number], rights[number], lengths[number] = left, i, length
                    number += 1
        if open_depths[top] < depth:
            top += 1
            open_lefts[top], open_depths[top] = left, depth


@kernel
def match_pieces(strings: RepeatedStrings, by_left: Int32s, longest: Int32s, parents: Int32s) -> None:
    """Write, for each place of the text, the longest piece that begins there, and for each piece its parent (see
    `Lattice`).

    by_left: the numbers of the strings, which are the pieces, sorted by left, then by length
    """
    open_pieces = np.empty(256, np.int32)
    top, following = 0, 0
    for i in range(len(strings.order)):
        while top > 0 and strings.rights[open_pieces[top - 1]] <= i:
            top -= 1
        while following < len(by_left) and strings.lefts[by_left[following]] == i:
            open_pieces[top] = by_left[following]
            parents[open_pieces[top]] = open_pieces[top - 1] if top > 0 else -1
            top += 1
            following += 1
        if top > 0:
            longest[strings.order[i]] = open_pieces[top - 1]
