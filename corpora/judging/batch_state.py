"""A batch of records on its way through the steps: which are left, their texts as they are now, and every drop.

A step reads `texts`, a large_string column without nulls, and answers with one of three: other texts (`edit`), drops
(`sift`), or values for a column of the documents (`note`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from corpora.sources.contract import Record


@dataclass(frozen=True, slots=True)
class StepDrop:
    """The step that dropped a record, and its reason."""

    step: str
    reason: str
    detail: str = ""


class BatchState:
    """The records of a batch, and how far the steps are with them.

    watch: called after each step that was applied
    """

    def __init__(
        self, records: Sequence[Record], max_document_bytes: int, watch: "Callable[[str, BatchState], None]"
    ) -> None:
        self.records = records
        self._watch = watch
        self.drops = [_parse_drop(record, max_document_bytes) for record in records]
        self.left = [index for index, drop in enumerate(self.drops) if drop is None]
        self.texts = pa.array([records[index].text for index in self.left], pa.large_string())
        self.figures = Counter[str]()
        self._columns: dict[str, dict[int, object]] = {}

    @property
    def rows(self) -> list[Record]:
        """The records that are left."""
        return [self.records[index] for index in self.left]

    @property
    def columns(self) -> dict[str, list[object]]:
        """Return what steps noted of the records that are left, by the document's column."""
        return {name: [values[index] for index in self.left] for name, values in self._columns.items()}

    def note(self, column: str, values: Sequence[object]) -> None:
        """Note a step's value for a column of the documents, one for each record that is left."""
        self._columns[column] = dict(zip(self.left, values, strict=True))

    def edit(self, step: str, texts: pa.Array) -> None:
        """Take a step's texts."""
        self.texts = texts
        self.sift(step, [None] * len(texts))

    def sift(self, step: str, new_drops: Sequence[StepDrop | None]) -> None:
        """Note what a step found in each row, and keep those in which it found nothing and left something."""
        lengths = pc.binary_length(self.texts).to_pylist()
        drops = [drop or (None if n else StepDrop(step, "empty")) for drop, n in zip(new_drops, lengths, strict=True)]
        for index, drop in zip(self.left, drops, strict=True):
            self.drops[index] = drop
        stays = [drop is None for drop in drops]
        if not all(stays):
            self.left = [index for index, kept in zip(self.left, stays, strict=True) if kept]
            self.texts = self.texts.filter(pa.array(stays, pa.bool_()))
        self._watch(step, self)


def _parse_drop(record: Record, max_document_bytes: int) -> StepDrop | None:
    if record.drop is not None:
        return StepDrop("parse", record.drop.reason, record.drop.detail)
    if 4 * len(record.text) > max_document_bytes and len(record.text.encode()) > max_document_bytes:
        return StepDrop("parse", "too large", f"over {max_document_bytes} bytes")
    return None
