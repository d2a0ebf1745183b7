"""The kernels of `tokenizers_train.wordpiece`: words of UTF-8 bytes are spelt as numbers of letters.

Promise: what Python's `ord` of each character says. No byte outside the words is looked at.
Cost: see `tokenizers_train.wordpiece`; no allocation: the caller brings all arrays.
"""

import numpy as np
import numpy.typing as npt

from corpora.kernels import kernel
from corpora.text.codepoints import decode


@kernel
def count_letters(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    totals: npt.NDArray[np.int64],
    inside: npt.NDArray[np.bool_],
) -> int:
    """How often each code point occurs, words weighted by their counts, and whether behind a word's first letter.

    Returns how many letters the distinct words have.
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
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    first_ids: npt.NDArray[np.int32],
    inner_ids: npt.NDArray[np.int32],
    pieces: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
) -> int:
    """The ids of the letters by code point, of a word's first and of the others; those without one (-1) are skipped.

    starts: is filled with where each word's ids begin, and behind it the end, which is returned
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
