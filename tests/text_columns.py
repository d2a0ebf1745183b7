"""Columns of texts, and tables of words with their counts, as stages hand them on; whether columns are equal."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tokenizers_train.words.table import COUNTS_SCHEMA, WordCounts


def column(texts: Sequence[str | None]) -> pa.Array:
    """A column of texts."""
    return pa.array(texts, pa.large_string())


def table(counts: Mapping[str, int]) -> WordCounts:
    """Words with their counts, in order."""
    words = sorted(counts)
    return pa.table([words, [counts[word] for word in words]], schema=COUNTS_SCHEMA)


def assert_equal(found: Any, expected: Any) -> None:
    """Fails if a column of two named tuples differs, in its type too."""
    for name, one, other in zip(found._fields, found, expected, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)
