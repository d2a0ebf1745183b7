"""The kernels of the examples that google-research/bert's script makes: planned in its order, with their masks.

Promise: the examples of `shards.builders.google_bert.plain`, which is their definition. A plan is a matrix of int64,
one row an example, its columns named here; the first four are those of `segment_kernels`, which writes the examples.
Every random number comes from one generator, in the script's order, so a plan cannot be made in pieces by several;
`cursor` says where the next call continues.
Cost: see `shards.builders.google_bert`.
"""

import numpy as np

from corpora.kernels.arrays import Bytes, Int64s, UInt16s
from corpora.kernels.compiling import kernel
from shards.builders.google_bert.python_random import below_of, random_one, shuffle

(
    A_START,
    A_LENGTH,
    B_START,
    B_LENGTH,
    A_WHOLE,  # tokens before truncation
    B_WHOLE,
    ANCHOR,
    OTHER,
    LABEL,
    ORDINAL,
    MASKED,
    PLAN_WIDTH,
) = range(12)
SPECIALS = 3
MASK, SAME, UNMASKED = -1, -2, -3  # what the model sees at a place, where it is no random token
TRIES = 10  # to find another document
_MASK_SHARE, _SAME_SHARE = 0.8, 0.5
_RANK, _SENTENCE, _TARGET, _ORDINAL = range(4)


@kernel
def plan_examples(
    word_starts: Bytes,
    sentences: Int64s,
    documents: Int64s,
    order: Int64s,
    limit: int,
    short: float,
    rate: float,
    cap: int,
    whole_words: bool,
    vocabulary_size: int,
    state: Int64s,
    cursor: Int64s,
    rows: Int64s,
    positions: UInt16s,
    seen: Int64s,
) -> tuple[int, int]:
    """Fill `rows` with the next examples of a copy, `positions` and `seen` with their masks; return how many of each.

    order:  of the documents. limit: tokens of the longest example without its specials. cap: of masks
    cursor: int64 [4], zeros where a copy begins; its first number is the length of `order` where it is done
    """
    num = total = 0
    most = _wanted(limit + SPECIALS, rate, cap)
    scratch = np.empty((4, limit + SPECIALS + 1), np.int64)
    while cursor[_RANK] < len(order) and num < len(rows) and total + most <= len(positions):
        row = rows[num]
        _plan_one(sentences, documents, order, limit, short, state, cursor, row)
        row[MASKED] = _mask_one(
            word_starts, row, rate, cap, whole_words, vocabulary_size, state, scratch, positions[total:], seen[total:]
        )
        total += row[MASKED]
        num += 1
    return num, total


@kernel
def _plan_one(
    sentences: Int64s,
    documents: Int64s,
    order: Int64s,
    limit: int,
    short: float,
    state: Int64s,
    cursor: Int64s,
    row: Int64s,
) -> None:
    """Plan the example at the cursor, and move it."""
    rank = cursor[_RANK]
    anchor = order[rank]
    if cursor[_ORDINAL] == 0:
        cursor[_TARGET] = 2 + below_of(state, limit - 1) if random_one(state) < short else limit
    target, first, last = cursor[_TARGET], documents[anchor] + cursor[_SENTENCE], documents[anchor + 1]
    end = _reach(sentences, first, last, target)
    middle = first + 1
    if end - first > 1:
        middle += below_of(state, end - first - 1)
    other, b_first, b_end, label, after = anchor, middle, end, 0, end
    if end - first == 1 or random_one(state) < 0.5:
        other, label, after = order[_other_rank(state, rank, len(order))], 1, middle
        b_first = documents[other] + below_of(state, documents[other + 1] - documents[other])
        b_end = _reach(sentences, b_first, documents[other + 1], target - (sentences[middle] - sentences[first]))
    row[A_START], row[A_WHOLE] = sentences[first], sentences[middle] - sentences[first]
    row[B_START], row[B_WHOLE] = sentences[b_first], sentences[b_end] - sentences[b_first]
    row[A_LENGTH], row[B_LENGTH] = row[A_WHOLE], row[B_WHOLE]
    _truncate(row, limit, state)
    row[ANCHOR], row[OTHER], row[LABEL], row[ORDINAL] = anchor, other, label, cursor[_ORDINAL]
    cursor[_SENTENCE] = after - documents[anchor]
    cursor[_ORDINAL] += 1
    if after == last:
        cursor[_RANK], cursor[_SENTENCE], cursor[_ORDINAL] = rank + 1, 0, 0


@kernel
def _reach(sentences: Int64s, first: int, last: int, wanted: int) -> int:
    """Return the end of a run of sentences from `first` on: one at least, until there are `wanted` tokens."""
    end = first + 1
    while end < last and sentences[end] - sentences[first] < wanted:
        end += 1
    return end


@kernel
def _other_rank(state: Int64s, rank: int, number: int) -> int:
    """The place in the order of the document that B is of: after TRIES it may be the same one."""
    other = rank
    for _ in range(TRIES):
        other = below_of(state, number)
        if other != rank:
            break
    return other


@kernel
def _truncate(row: Int64s, limit: int, state: Int64s) -> None:
    """Shorten the longer segment (B on a tie) by its first or last token, until both fit."""
    while row[A_LENGTH] + row[B_LENGTH] > limit:
        start, length = (A_START, A_LENGTH) if row[A_LENGTH] > row[B_LENGTH] else (B_START, B_LENGTH)
        row[start] += random_one(state) < 0.5
        row[length] -= 1


@kernel
def _wanted(length: int, rate: float, cap: int) -> int:
    """Masks of an example of this length, specials included: a half is rounded to even."""
    return min(cap, max(1, int(np.rint(length * rate))))


@kernel
def _mask_one(
    word_starts: Bytes,
    row: Int64s,
    rate: float,
    cap: int,
    whole_words: bool,
    vocabulary_size: int,
    state: Int64s,
    scratch: Int64s,
    positions: UInt16s,
    seen: Int64s,
) -> int:
    """Draw the masks of one example; return their number. A word that no longer fits is skipped."""
    places, firsts, groups, replaced = scratch
    num_groups, num_places = _group(word_starts, row, whole_words, places, firsts)
    for group in range(num_groups):
        groups[group] = group
    shuffle(state, groups[:num_groups])
    length = num_places + SPECIALS
    wanted, num = _wanted(length, rate, cap), 0
    replaced[:length] = UNMASKED
    for group in groups[:num_groups]:
        if num >= wanted:
            break
        if num + firsts[group + 1] - firsts[group] <= wanted:
            num += firsts[group + 1] - firsts[group]
            for index in range(firsts[group], firsts[group + 1]):
                replaced[places[index]] = _seen(state, vocabulary_size)
    num = 0
    for place in range(length):
        if replaced[place] != UNMASKED:
            positions[num], seen[num] = place, replaced[place]
            num += 1
    return num


@kernel
def _group(word_starts: Bytes, row: Int64s, whole_words: bool, places: Int64s, firsts: Int64s) -> tuple[int, int]:
    """Write the places of all tokens but specials, and where each group of them begins; return both numbers.

    With whole words a token that continues one joins the group before it, across a [SEP] as well.
    """
    num_groups, num, place = 0, 0, 1
    for start, length in ((row[A_START], row[A_LENGTH]), (row[B_START], row[B_LENGTH])):
        for token in range(start, start + length):
            if num == 0 or not whole_words or word_starts[token]:
                firsts[num_groups] = num
                num_groups += 1
            places[num] = place
            num += 1
            place += 1
        place += 1
    firsts[num_groups] = num
    return num_groups, num


@kernel
def _seen(state: Int64s, vocabulary_size: int) -> int:
    """Return what the model sees: MASK, SAME, or a random token, each of the whole vocabulary as probable."""
    if random_one(state) < _MASK_SHARE:
        return MASK
    return SAME if random_one(state) < _SAME_SHARE else below_of(state, vocabulary_size)
