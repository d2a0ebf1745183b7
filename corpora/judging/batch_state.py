"""A batch of records on its way through the steps: which are left, their texts as they are now, and every drop.

A step reads `texts`, a large_string column without nulls, and answers with one of three: other texts
(`replace_texts`), drops (`apply_drops`), or values for a column of the documents (`set_column`).
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
        self, records: Sequence[Record], max_document_bytes: int, on_step: "Callable[[str, BatchState], None]"
    ) -> None:
        self.records = records
        self._on_step = on_step
        self.drops = [_find_parse_drop(record, max_document_bytes) for record in records]
        self.left_indices = [index for index, drop in enumerate(self.drops) if drop is None]
        self.texts = pa.array([records[index].text for index in self.left_indices], pa.large_string())
        self.figures = Counter[str]()
        self._columns: dict[str, dict[int, object]] = {}

    @property
    def records_left(self) -> list[Record]:
        """The records that are left."""
        return [self.records[index] for index in self.left_indices]

    @property
    def columns(self) -> dict[str, list[object]]:
        """Return what steps noted of the records that are left, by the document's column."""
        return {name: [values[index] for index in self.left_indices] for name, values in self._columns.items()}

    def set_column(self, column: str, values: Sequence[object]) -> None:
        """Note a step's value for a column of the documents, one for each record that is left."""
        self._columns[column] = dict(zip(self.left_indices, values, strict=True))

    def replace_texts(self, step: str, texts: pa.Array) -> None:
        """Take a step's texts."""
        self.texts = texts
        self.apply_drops(step, [None] * len(texts))

    def apply_drops(self, step: str, new_drops: Sequence[StepDrop | None]) -> None:
        """Note what a step found in each row, and keep those in which it found nothing and left something."""
        lengths = pc.binary_length(self.texts).to_pylist()
        drops = [drop or (None if n else StepDrop(step, "empty")) for drop, n in zip(new_drops, lengths, strict=True)]
        for index, drop in zip(self.left_indices, drops, strict=True):
            self.drops[index] = drop
        is_kept = [drop is None for drop in drops]
        if not all(is_kept):
            self.left_indices = [index for index, keep in zip(self.left_indices, is_kept, strict=True) if keep]
            self.texts = self.texts.filter(pa.array(is_kept, pa.bool_()))
        self._on_step(step, self)


def _find_parse_drop(record: Record, max_document_bytes: int) -> StepDrop | None:
    if record.drop is not None:
        return StepDrop("parse", record.drop.reason, record.drop.detail)
    if 4 * len(record.text) > max_document_bytes and len(record.text.encode()) > max_document_bytes:
        return StepDrop("parse", "too large", f"over {max_document_bytes} bytes")
    return None
