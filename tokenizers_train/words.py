"""The words of texts, numbered as they appear: what counting and encoding share.

Promise: `number_words` cuts ranges of a UTF-8 buffer into the words of a rule and gives each distinct word one
number, kept in a `Lexicon`. Words come in the order of the text, and no byte outside a range is looked at.

What a word is, a `WordRule` says: BERT's (`bert_words`) or GPT-2's (`gpt2_words`). Its `split` is the
definition, by the reference library; its `cut` is a kernel that finds the same words, or strings of the text
that `words_of` makes those words of, once for each distinct string.

Cost: see the two rules; some 40 bytes for a distinct word.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from corpora.store.manifest import Json
from tokenizers_train.words_kernels import Lexicon, enter_words, index_strings

BLOCK_BYTES = 1 << 20


class CutWords(NamedTuple):
    """Where the strings of ranges stand: string w is data[starts[w]:ends[w]].

    data:       uint8, the bytes that make strings equal or not
    starts:     int64
    ends:       int64
    range_ends: int64, for each range how many strings there are up to its end
    """

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    range_ends: npt.NDArray[np.int64]


class WordRule(Protocol):
    """How a text becomes words."""

    @property
    def settings(self) -> dict[str, Json]:
        """What names the rule in a fingerprint."""
        ...

    def split(self, text: str) -> list[str]:
        """The words of a text by definition."""
        ...

    def cut(self, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> CutWords:
        """The strings of the ranges data[starts[r]:ends[r]], each of whole UTF-8 characters."""
        ...

    def words_of(self, string: str) -> list[str]:
        """The words of a string that `cut` has found."""
        ...


class NumberedWords(NamedTuple):
    """The words of ranges of text: those of range r are numbers[offsets[r]:offsets[r + 1]].

    numbers: int32, numbers of strings of `lexicon`, of which `WordRule.words_of` makes words
    offsets: int64, one more than ranges
    """

    numbers: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    lexicon: Lexicon


def new_lexicon(slots: int = 1 << 12, pool: int = 1 << 15) -> Lexicon:
    """An empty lexicon with a number of slots (a power of two) and bytes of pool; both grow when needed."""
    assert slots >= 2 and slots & (slots - 1) == 0, "the number of slots is a power of two"
    half = slots // 2
    return Lexicon(
        slots=np.full(slots, -1, np.int32),
        hashes=np.zeros(half, np.uint64),
        starts=np.zeros(half + 1, np.int64),
        pool=np.zeros(pool, np.uint8),
        used=np.zeros(1, np.int64),
    )


def strings(lexicon: Lexicon, first: int = 0) -> list[str]:
    """The strings with the numbers from `first` on."""
    bounds = lexicon.starts[first : int(lexicon.used[0]) + 1]
    pool = lexicon.pool[bounds[0] : bounds[-1]].tobytes()
    places = (bounds - bounds[0]).tolist()
    return [pool[start:end].decode() for start, end in pairwise(places)]


def number_words(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    *,
    rule: WordRule,
    lexicon: Lexicon,
) -> NumberedWords:
    """Number the words of the ranges data[starts[r]:ends[r]], each of whole UTF-8 characters.

    New words are entered into `lexicon`, which is used up: go on with the one returned.
    """
    parts, totals = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
    for block in _blocks(ends - starts):
        base, top = starts[block].min(), ends[block].max()
        found = rule.cut(data[base:top], starts[block] - base, ends[block] - base)
        part, lexicon = _number_strings(found, lexicon)
        parts.append(part)
        totals.append(totals[-1][-1] + found.range_ends)
    return NumberedWords(np.concatenate(parts), np.concatenate(totals), lexicon)


def _blocks(lengths: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Cut ranges into runs of about BLOCK_BYTES, so that what is between two kernels stays in the cache."""
    blocks = np.cumsum(lengths) // BLOCK_BYTES
    cuts = np.flatnonzero(np.diff(blocks)) + 1
    for first, last in pairwise([0, *cuts.tolist(), len(lengths)]):
        if first < last:
            yield slice(first, last)


def _number_strings(found: CutWords, lexicon: Lexicon) -> tuple[npt.NDArray[np.int32], Lexicon]:
    """The numbers of the strings, and the lexicon that has them all."""
    numbers = np.empty(len(found.starts), np.int32)
    done = 0
    while (done := enter_words(found.data, found.starts, found.ends, lexicon, numbers, done)) < len(numbers):
        lexicon = _grown(lexicon, int(found.ends[done] - found.starts[done]))
    return numbers, lexicon


def _grown(lexicon: Lexicon, length: int) -> Lexicon:
    """The same lexicon with twice the slots, and twice the pool or room for one more string of `length`."""
    num_strings = int(lexicon.used[0])
    num_bytes = int(lexicon.starts[num_strings])
    grown = new_lexicon(2 * len(lexicon.slots), max(2 * len(lexicon.pool), num_bytes + length))
    grown.hashes[:num_strings] = lexicon.hashes[:num_strings]
    grown.starts[: num_strings + 1] = lexicon.starts[: num_strings + 1]
    grown.pool[:num_bytes] = lexicon.pool[:num_bytes]
    grown.used[0] = num_strings
    index_strings(grown)
    return grown
