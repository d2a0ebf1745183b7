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
    """Strings that occur several times. The suffixes order[lefts[i]:rights[i]] begin with string i.

    Attributes:
        order: int32, the suffix array: positions in the text, sorted by the text that follows.
        lefts: int32, the first index in `order` for each string.
        rights: int32, the end index in `order` for each string.
        lengths: uint8, the number of characters in each string.
    """

    order: Int32s
    lefts: Int32s
    rights: Int32s
    lengths: Bytes


@kernel
def _is_before(text: Int32s, one: int, other: int, limit: int) -> bool:
    """Return whether the suffix at position `one` of the text sorts before the suffix at position `other`.

    At most `limit` characters are compared, and none after the 0 at the end of a word. Equal suffixes give False.
    """
    for i in range(limit):
        if text[one + i] != text[other + i]:
            return bool(text[one + i] < text[other + i])
        if text[one + i] == 0:
            return False
    return False


@kernel
def _sort_by_insertion(text: Int32s, order: Int32s, depth: int, limit: int) -> None:
    """Sort a few suffixes that share their first `depth` characters by their first `limit` characters.

    `order` has the positions of the suffixes in `text`, and is sorted in place.
    """
    for i in range(1, len(order)):
        place = order[i]
        j = i
        while j > 0 and _is_before(text, place + depth, order[j - 1] + depth, limit - depth):
            order[j] = order[j - 1]
            j -= 1
        order[j] = place


@kernel
def _find_median(a: int, b: int, c: int) -> int:
    """Return the median of three integers."""
    return max(min(a, b), min(max(a, b), c))


@kernel
def _partition_suffixes(text: Int32s, order: Int32s, depth: int) -> tuple[int, int, int]:
    """Partition suffixes by their character at `depth`: less than a pivot, equal to it, or greater.

    `order` has the positions of the suffixes in `text`, and is reordered in place.

    Returns:
        The end of the first group and the end of the second group as indices into `order`, and the pivot.
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
    """Sort suffixes by their first `limit` characters, up to the end of the word.

    Uses multikey quicksort (Bentley and Sedgewick 1997).

    Args:
        text: int32, the words as character ids, with a 0 after each word.
        order: int32, the positions of the suffixes in `text`, which are sorted in place.
        limit: Maximum number of characters to compare.
    """
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
    """Return the length of the common prefix of the suffixes at positions `one` and `other` of the text.

    It is at most `limit`. The 0 at the end of a word counts as a character.
    """
    for i in range(limit):
        if text[one + i] != text[other + i]:
            return i
        if text[one + i] == 0:
            return i + 1
    return limit


@kernel
def count_suffixes(text: Int32s, counts: Int64s) -> Int64s:
    """Increment `counts` by how often each character occurs in the text, in place, and return `counts`.

    The zeros after words are not counted. `counts` is int64, indexed by character id.
    """
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
    """Find strings of 2 to `max_length` characters that occur at least twice with different next characters.

    These are the inner nodes of the suffix tree. They are found by scanning the suffix array with a stack. A string's
    score is its number of occurrences times its length.

    Args:
        text: int32, the words as character ids, with a 0 after each word.
        order: int32, the suffix array of the text without the zeros, sorted by at least `max_length` + 1 characters.
        max_length: Maximum length of a string in characters.
        min_score: Minimum score of strings to store.
        by_score: int64, the number of strings with each score, incremented in place. The last entry is for all higher
            scores.
        lefts: Filled with the first index in `order` for each stored string. Strings that do not fit are not stored.
        rights: Filled with the end index in `order` for each stored string.
        lengths: Filled with the number of characters in each stored string.
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
    """Find the longest piece that starts at each position of the text, and the parent of each piece.

    The parent of a piece is the longest other piece that it begins with.

    Args:
        strings: The pieces.
        by_left: The indices of the pieces, sorted by `lefts`, then by length.
        longest: int32 [text], must be initialized to -1. Filled with the index of the longest piece at each position.
        parents: int32 [pieces], filled with the index of the parent of each piece, or -1 if there is none.
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
