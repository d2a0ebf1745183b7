"""Word counts: all that training a vocabulary needs of the texts, and the protocol of the rules that find words.

Promise: counts are those of the reference (`count_words_plain`), exact integers, sorted by word. They add up: counting
parts and merging equals counting the whole, however it was cut into parts.

Cost: see the word rules `bert`, `gpt2` and `sentencepiece`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.kernels.arrays import Bytes, Int64s
from corpora.text.buffers import text_buffers
from tokenizers_train.words.table import COUNTS_SCHEMA, WordCounts, merge_sorted


class WordRule(Protocol):
    """A rule by which a text becomes words."""

    @property
    def settings(self) -> dict[str, Json]:
        """The settings that identify the rule in a fingerprint."""

    def split(self, text: str) -> list[str]:
        """Return the words of a text as the reference finds them: the definition of the rule."""

    def count(self, data: Bytes, starts: Int64s, ends: Int64s) -> pa.Table:
        """Count each word in the ranges data[starts[r]:ends[r]]: a table with the schema `table.COUNTS_SCHEMA`."""


Weight: TypeAlias = Fraction | int | float

MAX_TOTAL = 1 << 53  # so that sums over pairs of letters stay below 2^63 as well


def count_words_plain(rule: WordRule, texts: pa.Array) -> WordCounts:
    """Count the words that the reference finds in each text: the plain form of `count_words`, for tests."""
    counts: Counter[str] = Counter()
    for text in texts.to_pylist():
        counts.update(rule.split(text))
    return _build_table(counts)


def count_words(rule: WordRule, texts: pa.Array) -> WordCounts:
    """Count each word of a rule in a column of texts (large_string without nulls).

    Raises InputError for a column of another type, with nulls, or that is not valid UTF-8.
    """
    data, offsets = text_buffers(texts)
    return rule.count(data, offsets[:-1], offsets[1:])


def merge_counts(parts: Iterable[WordCounts], weights: Sequence[Weight] | None = None) -> WordCounts:
    """Add up the counts of all parts.

    Counts stay integers: weights become the smallest whole numbers in their ratio (`to_whole_weights`), so 1 and 1/2
    count the first part twice and the second once, and no part counts below its true numbers. `min_frequency` of a
    vocabulary is compared with the weighted counts.

    Parts are taken one after another, and two tables are merged as soon as the first is no longer than twice the
    second. So memory is that of the words of the whole in some two tables, and of one part.

    parts:   tables of counts, each sorted by word
    weights: one per part, greater than 0; default: each part counts once

    Raises InputError if a weight is not positive, or the weighted counts add up to more than 2^53.

    >>> few, many = (_build_table(Counter(text.split())) for text in ("a b", "a a"))
    >>> merge_counts([few, many], [Fraction(1, 2), 1]).to_pylist()
    [{'word': 'a', 'count': 5}, {'word': 'b', 'count': 1}]
    """
    factors = to_whole_weights(weights) if weights is not None else None
    waiting, total = list[WordCounts](), 0
    for number, part in enumerate(parts):
        factor = factors[number] if factors is not None else 1
        total += factor * (pc.sum(part["count"]).as_py() or 0)
        if total > MAX_TOTAL:
            raise InputError(
                f"Weighted word counts add up to {total} or more, above 2^53: the weights of the sources become the "
                f"whole numbers {sorted({*(factors or [1])})}. Give weights with small numerators and denominators."
            )
        counts = part["count"] if factor == 1 else pc.multiply(part["count"], factor)
        waiting.append(pa.table([part["word"], counts], schema=COUNTS_SCHEMA).combine_chunks())
        while len(waiting) > 1 and waiting[-2].num_rows <= 2 * waiting[-1].num_rows:
            waiting.append(merge_two_counts(waiting.pop(), waiting.pop()))
    while len(waiting) > 1:
        waiting.append(merge_two_counts(waiting.pop(), waiting.pop()))
    pa.default_memory_pool().release_unused()
    return waiting[0] if waiting else COUNTS_SCHEMA.empty_table()


def merge_two_counts(one: WordCounts, other: WordCounts) -> WordCounts:
    """Add up two tables of counts, each in one chunk."""
    if not one.num_rows or not other.num_rows:
        return one if one.num_rows else other
    columns = [(*text_buffers(each["word"].chunk(0)), each["count"].to_numpy()) for each in (one, other)]
    max_words = one.num_rows + other.num_rows
    offsets, counts = np.zeros(max_words + 1, np.int64), np.empty(max_words, np.int64)
    data = np.empty(sum(int(starts[-1] - starts[0]) for _, starts, _ in columns), np.uint8)
    number = merge_sorted(*columns[0], *columns[1], data, offsets, counts)
    buffers = [None, pa.py_buffer(offsets[: number + 1]), pa.py_buffer(data[: offsets[number]])]
    return pa.table(
        [pa.LargeStringArray.from_buffers(number, *buffers[1:]), pa.array(counts[:number])], schema=COUNTS_SCHEMA
    )


def to_whole_weights(weights: Iterable[Weight]) -> list[int]:
    """Return the smallest whole numbers in the ratio of the weights. A float is taken as the decimal that it is written
    as.

    Raises InputError if a weight is not positive.

    >>> to_whole_weights([1, Fraction(1, 2), 0.7])
    [10, 5, 7]
    """
    fractions = [Fraction(str(weight)) for weight in weights]
    for fraction in fractions:
        if fraction <= 0:
            raise InputError(
                f"A source's weight is {fraction}, and a weight must be above 0: leave the source out of the "
                "vocabulary, or give it a small positive weight."
            )
    scale = math.lcm(*(fraction.denominator for fraction in fractions))
    numbers = [int(fraction * scale) for fraction in fractions]
    divisor = math.gcd(*numbers)
    return [weight // divisor for weight in numbers]


def _build_table(counts: Counter[str]) -> WordCounts:
    """Build a table of counts, its words in ascending order of their bytes (which is that of code points)."""
    words = sorted(counts)
    return pa.table([words, [counts[word] for word in words]], schema=COUNTS_SCHEMA)
