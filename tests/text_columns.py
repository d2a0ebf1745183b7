"""Columns of texts, and tables of words with their counts, as stages hand them on."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tokenizers_train.words.table import COUNTS, WordCounts


def column(texts: Sequence[str | None]) -> pa.Array:
    """A column of texts."""
    return pa.array(texts, pa.large_string())


def table(counts: Mapping[str, int]) -> WordCounts:
    """Words with their counts, in order."""
    words = sorted(counts)
    return pa.table([words, [counts[word] for word in words]], schema=COUNTS)
