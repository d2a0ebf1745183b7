"""The kernels that spell words of UTF-8 bytes as numbers of letters, or of bytes.

Promise: what Python's `ord` of each character says. No byte outside the words is looked at.
Cost: see `tokenizers_train.learning.wordpiece`; no allocation: the caller brings all arrays.
"""

from corpora.kernels.arrays import Bools, Bytes, Int32s, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.utf8 import decode

EDGE = -1  # between two words
NUM_CODES = 0x110000  # code points that Unicode has
_NUM_BYTES = 256


@kernel
def count_letters(
    data: Bytes,
    offsets: Int64s,
    counts: Int64s,
    totals: Int64s,
    inside: Bools,
) -> int:
    """Count each code point, words weighted by their counts, and mark those after a word's first letter.

    Returns the number of letters of the distinct words.
    """
    num_letters = 0
    for word in range(len(counts)):
        at = offsets[word]
        while at < offsets[word + 1]:
            code, width = decode(data, at)
            totals[code] += counts[word]
            if at > offsets[word]:
                inside[code] = True
            at += width
            num_letters += 1
    return num_letters


@kernel
def spell_words(
    data: Bytes,
    offsets: Int64s,
    order: Int64s,
    firsts: Int64s,
    first_ids: Int32s,
    inner_ids: Int32s,
    pieces: Int32s,
    runs: Int64s,
    whole: Int64s,
) -> int:
    """Fill `pieces` with an edge, and the ids of each word's letters and an edge; return how many they are.

    order:     of the words
    firsts:    in the order, the first word of each run and its end; `runs` are the same in `pieces`
    first_ids: of a word's first letter, by code point (by byte, if there are no more); -1 for one that is skipped
    inner_ids: of the others
    whole:     words of two letters or more, none of them skipped, are added to it, run by run
    """
    pieces[0], total = EDGE, 1
    for run in range(len(firsts) - 1):
        runs[run] = total
        for i in range(firsts[run], firsts[run + 1]):
            at, end = offsets[order[i]], offsets[order[i] + 1]
            ids, begin, num_letters = first_ids, total, 0
            while at < end:
                code, width = decode(data, at) if len(ids) > _NUM_BYTES else (int(data[at]), 1)
                if ids[code] >= 0:
                    pieces[total] = ids[code]
                    total += 1
                at += width
                ids = inner_ids
                num_letters += 1
            if total - begin == num_letters > 1:
                whole[run] += 1
            pieces[total] = EDGE
            total += 1
    runs[-1] = total
    return total
