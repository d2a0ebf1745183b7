"""A step that drops texts mostly in capitals and takes signature blocks off.

Promise: each row's outcome depends on its text alone. Cost: one pass over each text in Python.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from corpora.judging.steps.added import Applied
from corpora.sources.contract import Drop, Record
from corpora.store.settings import check_range

MOST_SIGNATURE_LINES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ShoutingStep:
    """The `[[step]]` table of kind "shouting".

    most_capitals: share of a text's letters; a text with more capitals is dropped
    min_letters:   a text with fewer letters is never dropped
    """

    kind: ClassVar[str] = "shouting"
    version: ClassVar[int] = 1

    most_capitals: float = 0.6
    min_letters: int = 20

    def __post_init__(self) -> None:
        check_range("step shouting: most_capitals", self.most_capitals, 0.0, 1.0)
        check_range("step shouting: min_letters", self.min_letters, 1, 1 << 30)

    def apply(self, texts: pa.Array, records: Sequence[Record]) -> Applied:
        """A batch through the step."""
        bare = [without_signature(text) for text in texts.to_pylist()]
        return Applied(pa.array(bare, pa.large_string()), [self.judged(text) for text in bare])

    def judged(self, text: str) -> Drop | None:
        """Why a text is dropped; None where it stays.

        >>> ShoutingStep().judged("WHO TOOK THE KEY OF THE HOUSE")
        Drop(reason='capitals', detail='1.00', damaged=False)
        """
        letters = [letter for letter in text if letter.isalpha()]
        share = sum(map(str.isupper, letters)) / max(len(letters), 1)
        if len(letters) < self.min_letters or share <= self.most_capitals:
            return None
        return Drop("capitals", f"{share:.2f}")


def without_signature(text: str) -> str:
    """A text without the block after a line `--` near its end.

    >>> without_signature("See you there.\\n\\n--\\nBen\\nCarpenter")
    'See you there.'
    """
    lines = text.split("\n")
    for at in range(len(lines) - 1, max(len(lines) - 2 - MOST_SIGNATURE_LINES, 0), -1):
        if lines[at].rstrip() == "--":
            return "\n".join(lines[:at]).rstrip()
    return text
