"""The kernels of `tokenizers_train.learning.wordpiece`: words of UTF-8 bytes are spelt as numbers of letters.

Promise: what Python's `ord` of each character says. No byte outside the words is looked at.
Cost: see `tokenizers_train.learning.wordpiece`; no allocation: the caller brings all arrays.
"""

from corpora.kernels.arrays import Bools, Bytes, Int32s, Int64s
from corpora.kernels.compiling import kernel
from corpora.kernels.utf8 import decode


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
def spell_letters(
    data: Bytes,
    offsets: Int64s,
    first_ids: Int32s,
    inner_ids: Int32s,
    pieces: Int32s,
    starts: Int64s,
) -> int:
    """The ids of the letters by code point, of a word's first and of the others; those without one (-1) are skipped.

    starts: is filled with where each word's ids begin, and after it the end, which is returned
    """
    total = 0
    for word in range(len(starts) - 1):
        starts[word] = total
        at = offsets[word]
        while at < offsets[word + 1]:
            code, width = decode(data, at)
            piece = first_ids[code] if at == offsets[word] else inner_ids[code]
            if piece >= 0:
                pieces[total] = piece
                total += 1
            at += width
    starts[-1] = total
    return total
