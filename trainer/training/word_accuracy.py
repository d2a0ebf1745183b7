"""How many words a model guesses, apart from the few pieces that any text is full of.

An accuracy over all masked tokens is for the most part that of commas, `the` and the ends of words: a model reaches
0.15 of it, and a loss well below the unigram entropy, without having learnt a word. So evaluations count alone those
masked tokens that begin a word and are none of the `COMMONEST` pieces of the training split.

Counts add up over batches and processes.
"""

import numpy as np
import numpy.typing as npt

from corpora.kernels.arrays import Bools, Int64s
from shards.reading.loader import GatheredExamples

COMMONEST = 100


def commonest(token_counts: Int64s, number: int = COMMONEST) -> Bools:
    """Which tokens are the commonest ones, of equal ones those of lower ids: bool [vocabulary].

    token_counts: how often each occurs in the training split

    >>> commonest(np.array([0, 7, 5, 9, 5]), 3).tolist()
    [False, True, True, True, False]
    """
    found = np.zeros(len(token_counts), bool)
    found[np.argsort(-token_counts, kind="stable")[:number]] = True
    return found


def rarer_words(gathered: GatheredExamples, common: Bools) -> Bools:
    """Which masked tokens count: bool [M]. gathered: with its word starts; common: of each token"""
    assert gathered.word_starts is not None, "word starts were not asked for"
    return gathered.word_starts & ~common[gathered.targets]


def count_right(counted: Bools, targets: npt.NDArray[np.integer], guesses: Int64s) -> Int64s:
    """Of those that count, how many are guessed, and how many there are: int64 [2]. guesses: token ids [M]"""
    return np.array([np.count_nonzero(counted & (targets == guesses)), np.count_nonzero(counted)], np.int64)
