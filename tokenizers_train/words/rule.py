"""The protocol of the rules by which a text becomes words: what BERT's, GPT-2's and sentencepiece's share."""

from typing import Protocol

import pyarrow as pa

from corpora.generic_types import Json
from corpora.kernels.arrays import Bytes, Int64s


class WordRule(Protocol):
    """A rule by which a text becomes words."""

    @property
    def settings(self) -> dict[str, Json]:
        """Return what names the rule in a fingerprint."""

    def split(self, text: str) -> list[str]:
        """The words of a text by definition: those that the reference finds."""

    def count(self, data: Bytes, starts: Int64s, ends: Int64s) -> pa.Table:
        """Count each word in the ranges data[starts[r]:ends[r]]: the table `table.COUNTS`."""
