"""A batch of records while it passes through the steps: the records left, their current texts, and every drop.

A step reads `texts`, a large_string column without nulls, and calls one of three methods: `replace_texts` to change
texts, `apply_drops` to drop records, or `set_column` to set a column of the documents.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from corpora.sources.contract import Record


@dataclass(frozen=True, slots=True)
class StepDrop:
    """Why a record was dropped: the step's name, the reason counted in reports, and a detail on this record or ""."""

    step: str
    reason: str
    detail: str = ""


class BatchState:
    """The state of a batch while the judging steps run: the remaining records, their current texts, and drops.

    `texts` is a large_string column without nulls, with one row for each remaining record. `left_indices` are the
    indices of these records in `records`. `drops` has a StepDrop for each dropped record of the batch and None for the
    others. `figures` are counts for reports.

    Args:
        records: The records of the batch.
        max_document_bytes: Longer texts (in UTF-8 bytes) are dropped at once with the reason "too large".
        on_step: Called after each step with the step's name and this object.
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
        """The records that no step has dropped, in their original order."""
        return [self.records[index] for index in self.left_indices]

    @property
    def columns(self) -> dict[str, list[object]]:
        """The document columns set by steps, by name. Each has one value for each remaining record."""
        return {name: [values[index] for index in self.left_indices] for name, values in self._columns.items()}

    def set_column(self, column: str, values: Sequence[object]) -> None:
        """Set the values of a document column, one for each remaining record.

        Raises:
            ValueError: If `values` does not have one entry for each remaining record.
        """
        self._columns[column] = dict(zip(self.left_indices, values, strict=True))

    def replace_texts(self, step: str, texts: pa.Array) -> None:
        """Replace the texts of the remaining records.

        Records with an empty new text are dropped with the reason "empty".

        Args:
            step: Name of the step, for dropped records and the callback.
            texts: A large_string column without nulls, with one row for each remaining record.

        Raises:
            ValueError: If `texts` does not have one row for each remaining record.
        """
        self.texts = texts
        self.apply_drops(step, [None] * len(texts))

    def apply_drops(self, step: str, new_drops: Sequence[StepDrop | None]) -> None:
        """Drop the records that a step rejected, and those with an empty text (reason "empty").

        Args:
            step: Name of the step, for dropped records and the callback.
            new_drops: A StepDrop or None for each remaining record.

        Raises:
            ValueError: If `new_drops` does not have one entry for each remaining record.
        """
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
    """Return the reason to drop a record that its parser dropped or that is too large; None to keep the record.

    `max_document_bytes` is the maximum size of its text in UTF-8.
    """
    if record.drop is not None:
        return StepDrop("parse", record.drop.reason, record.drop.detail)
    if 4 * len(record.text) > max_document_bytes and len(record.text.encode()) > max_document_bytes:
        return StepDrop("parse", "too large", f"over {max_document_bytes} bytes")
    return None
