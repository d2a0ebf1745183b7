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
from corpora.text.buffers import to_text_buffers
from tokenizers_train.words.table import COUNTS_SCHEMA, WordCounts, merge_sorted


class WordRule(Protocol):
    """A rule that splits text into words."""

    @property
    def settings(self) -> dict[str, Json]:
        """Settings of the word rule that are part of the fingerprint of stored word counts.

        Each rule puts in what changes its words, by name, such as `lowercase`. Two rules with equal settings must split
        every text in the same way.
        """

    def split(self, text: str) -> list[str]:
        """Split a text into words with the Hugging Face tokenizers library, which defines the rule.

        The words are normalized, for example lower-cased, as the rule says.
        """

    def count(self, data: Bytes, starts: Int64s, ends: Int64s) -> pa.Table:
        """Count the words in the texts data[starts[r]:ends[r]].

        Args:
            data: uint8, the UTF-8 bytes of all texts.
            starts: int64 [texts], the first byte of each text.
            ends: int64 [texts], the end of each text.

        Returns:
            A table with the schema `table.COUNTS_SCHEMA`: the distinct words that `split` finds, and their counts.

        Raises:
            InputError: If a text is not inside the data, splits a UTF-8 character or is not valid UTF-8.
        """


Weight: TypeAlias = Fraction | int | float

MAX_TOTAL = 1 << 53  # so that sums over pairs of letters stay below 2^63 as well


def count_words_plain(rule: WordRule, texts: pa.Array) -> WordCounts:
    """Count the words that `rule.split` returns for each text of a column, as `count_words` does.

    This is its reference implementation, for tests.
    """
    counts: Counter[str] = Counter()
    for text in texts.to_pylist():
        counts.update(rule.split(text))
    return _build_table(counts)


def count_words(rule: WordRule, texts: pa.Array) -> WordCounts:
    """Count the words in a column of texts.

    Args:
        rule: The rule that splits text into words.
        texts: large_string column without nulls.

    Returns:
        A table with the schema `table.COUNTS_SCHEMA`.

    Raises:
        InputError: If the column is not large_string (or large_binary with valid UTF-8), or has nulls.
    """
    data, offsets = to_text_buffers(texts)
    return rule.count(data, offsets[:-1], offsets[1:])


def merge_counts(parts: Iterable[WordCounts], weights: Sequence[Weight] | None = None) -> WordCounts:
    """Add up several tables of word counts, optionally with weights.

    Counts stay integers, because weights are scaled to the smallest integers in the same ratio (see
    `to_whole_weights`). With the weights 1 and 1/2, the first part counts twice and the second once, so no count
    becomes lower than the true one. The `min_frequency` of a vocabulary is compared with these weighted counts.

    Parts are read one at a time. Two merged tables are combined once the earlier one is at most twice as long as the
    later one, so memory holds about two tables of all words, and one part.

    Args:
        parts: Tables of counts, each sorted by word.
        weights: One positive weight per part (default: all parts count once).

    Raises:
        InputError: If a weight is not positive, or if the weighted counts add up to more than 2^53.

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
    """Add up two tables of word counts (schema `table.COUNTS_SCHEMA`), and return a table sorted by word.

    Each table must be sorted by word and have a single chunk per column.
    """
    if not one.num_rows or not other.num_rows:
        return one if one.num_rows else other
    columns = [(*to_text_buffers(each["word"].chunk(0)), each["count"].to_numpy()) for each in (one, other)]
    max_words = one.num_rows + other.num_rows
    offsets, counts = np.zeros(max_words + 1, np.int64), np.empty(max_words, np.int64)
    data = np.empty(sum(int(starts[-1] - starts[0]) for _, starts, _ in columns), np.uint8)
    number = merge_sorted(*columns[0], *columns[1], data, offsets, counts)
    buffers = [None, pa.py_buffer(offsets[: number + 1]), pa.py_buffer(data[: offsets[number]])]
    return pa.table(
        [pa.LargeStringArray.from_buffers(number, *buffers[1:]), pa.array(counts[:number])], schema=COUNTS_SCHEMA
    )


def to_whole_weights(weights: Iterable[Weight]) -> list[int]:
    """Return the smallest integers that have the same ratio as the weights.

    A float is interpreted as the decimal that it is printed as, so 0.7 is exactly 7/10.

    Raises:
        InputError: If a weight is not positive.

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
    """Build a table of word counts with the schema `table.COUNTS_SCHEMA`, sorted by word."""
    words = sorted(counts)
    return pa.table([words, [counts[word] for word in words]], schema=COUNTS_SCHEMA)
