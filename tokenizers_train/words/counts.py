"""Word counts: all that training a vocabulary needs of the texts.

Promise: counts are those of the reference (`count_by_plainly`), exact integers, sorted by word. They add
up: counting parts and merging equals counting the whole, however it was cut into parts.

Cost: of counting, each rule says itself.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain, islice
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from corpora.errors import InputError
from corpora.text.buffers import text_buffers
from tokenizers_train.words.rule import WordRule
from tokenizers_train.words.table import COUNTS, WordCounts, WordTable, add_words, grown, new_table, word_counts

Weight: TypeAlias = Fraction | int | float

LARGEST_TOTAL = 1 << 53  # so that sums over pairs of letters stay below 2^63 as well


def count_by_plainly(rule: WordRule, texts: pa.Array) -> WordCounts:
    """Count the words that the reference finds in each text: the definition of `count_by`."""
    counts: Counter[str] = Counter()
    for text in texts.to_pylist():
        counts.update(rule.split(text))
    return _table(counts)


def count_by(rule: WordRule, texts: pa.Array) -> WordCounts:
    """Count each word of a rule in a column of texts (large_string without nulls).

    Raises InputError for a column of another type.
    """
    data, offsets = text_buffers(texts)
    return rule.count(data, offsets[:-1], offsets[1:])


def merge_counts(parts: Iterable[WordCounts], weights: Sequence[Weight] | None = None) -> WordCounts:
    """The counts of all parts together, each part's taken `weights` times (once, unless given).

    Parts are taken one after another, so memory is that of the distinct words and of one part.

    Counts stay integers: the weights are put as the smallest whole numbers in their ratio (`whole_weights`), so
    that 1 and 1/2 count the first part twice and the second once, and no part counts below its true numbers.
    `min_frequency` sees the weighted counts.

    Raises InputError where a weight is not positive, or the counts add up to more than 2^53.

    >>> few, many = (_table(Counter(text.split())) for text in ("a b", "a a"))
    >>> merge_counts([few, many], [Fraction(1, 2), 1]).to_pylist()
    [{'word': 'a', 'count': 5}, {'word': 'b', 'count': 1}]
    """
    factors = whole_weights(weights) if weights is not None else None
    table, total, parts = new_table(), 0, iter(parts)
    first = [*islice(parts, 2)]
    if len(first) == 1:
        return first[0].combine_chunks()
    for number, part in enumerate(chain(first, parts)):
        factor = factors[number] if factors is not None else 1
        total += factor * (pc.sum(part["count"]).as_py() or 0)
        if total > LARGEST_TOTAL:
            raise InputError(
                f"Weighted word counts add up to {total} or more, above 2^53: the weights of the sources become the "
                f"whole numbers {sorted({*(factors or [1])})}. Give weights with small numerators and denominators."
            )
        for batch in part.to_batches():
            table = _with_counts(table, batch, factor)
    return word_counts(table)


def _with_counts(table: WordTable, counts: pa.RecordBatch, factor: int) -> WordTable:
    """The table with the words of a batch of counts, each `factor` times as often."""
    data, offsets = text_buffers(counts.column("word"))
    occurrences = counts.column("count").to_numpy()
    done = 0
    while (done := add_words(table, data, offsets[:-1], offsets[1:], occurrences, factor, done)) < len(occurrences):
        table = grown(table)
    return table


def whole_weights(weights: Iterable[Weight]) -> list[int]:
    """The smallest whole numbers in the ratio of the weights. A float is the decimal that it is written as.

    >>> whole_weights([1, Fraction(1, 2), 0.7])
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
    whole = [int(fraction * scale) for fraction in fractions]
    common = math.gcd(*whole)
    return [weight // common for weight in whole]


def _table(counts: Counter[str]) -> WordCounts:
    """A table of the counts, its words in ascending order of their bytes (which is that of code points)."""
    words = sorted(counts)
    return pa.table([words, [counts[word] for word in words]], schema=COUNTS)
