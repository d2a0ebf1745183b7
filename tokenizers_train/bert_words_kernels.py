"""The kernel of `tokenizers_train.bert_words`: ASCII words and raw chunks are cut out of bytes.

Promise: no byte outside the ranges is looked at. What it means is `BertWords.split`.
Cost: see `tokenizers_train.bert_words`; no allocation: the caller brings all arrays.
"""

import numpy as np
import numpy.typing as npt

from corpora.kernels import kernel

WORD, SPACE, PUNCTUATION, RAW = 0, 1, 2, 3


@kernel
def cut_bert_words(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    classes: npt.NDArray[np.uint8],
    word_starts: npt.NDArray[np.int64],
    word_ends: npt.NDArray[np.int64],
    range_ends: npt.NDArray[np.int64],
) -> int:
    """Where the words of the ranges begin and end; range r has those from range_ends[r - 1] to range_ends[r].

    Returns how many there are. A chunk that turns out to be raw takes back the words it has given.
    """
    total = 0
    for r in range(len(starts)):
        end = ends[r]
        i = starts[r]
        while i < end:
            chunk, before, word, raw = i, total, np.int64(-1), False
            while i < end:
                kind = classes[data[i]]
                if kind == SPACE:
                    break
                if kind == WORD:
                    if word < 0:
                        word = i
                elif kind == RAW:
                    raw = True
                else:
                    if word >= 0:
                        word_starts[total], word_ends[total] = word, i
                        total += 1
                        word = np.int64(-1)
                    word_starts[total], word_ends[total] = i, i + 1
                    total += 1
                i += 1
            if raw:
                word, total = chunk, before
            if word >= 0:
                word_starts[total], word_ends[total] = word, i
                total += 1
            i += 1
        range_ends[r] = total
    return total
