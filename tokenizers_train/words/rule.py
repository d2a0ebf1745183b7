"""How a text becomes words: what BERT's, GPT-2's and sentencepiece's rules have in common."""

from typing import Protocol

import pyarrow as pa

from corpora.kernels.arrays import Bytes, Int64s
from corpora.store.manifest import Json


class WordRule(Protocol):
    """How a text becomes words."""

    @property
    def settings(self) -> dict[str, Json]:
        """What names the rule in a fingerprint."""
        ...

    def split(self, text: str) -> list[str]:
        """The words of a text by definition: those that the reference finds."""
        ...

    def count(self, data: Bytes, starts: Int64s, ends: Int64s) -> pa.Table:
        """How often each word occurs in the ranges data[starts[r]:ends[r]]: the table `table.COUNTS`."""
        ...
