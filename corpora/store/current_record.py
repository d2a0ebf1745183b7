"""The current work of this process: what a worker reports about itself while it works.

A worker that hangs, crashes or uses too much memory cannot report the cause. So it reports beforehand, in memory that
it shares with the watching process, which part it builds, and which record, batch of records or rows it works on. In a
process that is not watched, nothing is shared.

A batch during which a worker died is processed again one record at a time (`run_batch`), so that the next failure
identifies the record. The watching process names these batches in each call (`begin_call`).

Cost: half a microsecond for each record that is read, five for each batch and step.
"""

import ctypes
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from corpora.generic_types import Item, Result

if TYPE_CHECKING:
    import pyarrow as pa


class ActivitySheet(ctypes.Structure):
    """The shared memory in which a worker reports its activity. Strings are UTF-8, truncated to their field's length.

    For the meaning of the fields, see `Activity`.
    """

    _fields_ = (
        ("part", ctypes.c_char * 256),
        ("record", ctypes.c_char * 256),
        ("batch", ctypes.c_char * 512),
        ("rows", ctypes.c_char * 64),
        ("step", ctypes.c_char * 128),
        ("changes", ctypes.c_uint64),
        ("compiling", ctypes.c_int32),
    )


class Activity(NamedTuple):
    """The current activity of a worker process. At most one of `record`, `batch` and `rows` is set.

    Attributes:
        part: The part (set of files) that is being built.
        record: The record that is being read or processed, identified by its position in the raw input.
        batch: Name of the batch of records that is being processed. The same records always have the same name.
        rows: The rows of a table that are processed together.
        step: The current processing step of the record or batch.
        changes: Number of reports so far, not counting reports of steps.
        compiling: Number of kernels that are being compiled at this moment. It exceeds 1 if compiling one requires
            another.
    """

    part: str = ""
    record: str = ""
    batch: str = ""
    rows: str = ""
    step: str = ""
    changes: int = 0
    compiling: int = 0

    @property
    def is_limited(self) -> bool:
        """True if documents are being processed, so that the limits on time and memory per record apply."""
        return bool(self.record or self.batch or self.rows)

    def __str__(self) -> str:
        """Return a readable description for messages.

        >>> str(Activity(part="documents/books: part 00003", record="ab12 -1 300", step="clean"))
        'documents/books: part 00003, record ab12 -1 300, step clean'
        """
        named = {"": self.part, "record": self.record, "batch": self.batch, "rows": self.rows, "step": self.step}
        return ", ".join(f"{what} {name}".strip() for what, name in named.items() if name)


NO_ACTIVITY = Activity()
TEXT_FIELDS = ("part", "record", "batch", "rows", "step")

_sheet: Any = None
_suspect_batches: Collection[str] = ()


def set_sheet(sheet: Any) -> None:
    """Set the shared memory (an `ActivitySheet`) in which this process reports its activity. None ends reporting."""
    global _sheet
    _sheet = sheet


def read_activity(sheet: Any) -> Activity:
    """Read the activity that another process has reported in shared memory."""
    part, record, batch, rows, step = (getattr(sheet, name).decode(errors="replace") for name in TEXT_FIELDS)
    return Activity(
        part=part, record=record, batch=batch, rows=rows, step=step, changes=sheet.changes, compiling=sheet.compiling
    )


def begin_call(suspect_batches: Collection[str]) -> None:
    """Reset the reported activity at the beginning of a call.

    Args:
        suspect_batches: Names of batches during which a worker died. `run_batch` processes them one item at a time.
    """
    global _suspect_batches
    _suspect_batches = suspect_batches
    if _sheet is not None:
        for name in TEXT_FIELDS:
            _write_field(name, "")
        _sheet.compiling = 0


def report_part(part: str) -> None:
    """Report that this process begins building a part (a set of files of an artifact)."""
    begin_call(_suspect_batches)
    _write_field("part", part)


def report_record(record: str) -> None:
    """Report the name of the record that this process begins to read; "" when no record is being read."""
    _write_field("record", record)


def report_step(step: str) -> None:
    """Report the name of the current processing step of the record or batch; "" when no step is running."""
    if _sheet is not None:
        _sheet.step = step.encode(errors="replace")[: ActivitySheet.step.size - 1]


def report_compiling(change: int) -> None:
    """Report that the compilation of a kernel begins (`change` is 1) or ends (-1).

    Time spent compiling does not count against the time limit for a record.
    """
    if _sheet is not None:
        _sheet.compiling += change
        _sheet.changes += 1


def run_batch(
    items: Sequence[Item], get_name: Callable[[Item], str], work: Callable[[Sequence[Item]], Result]
) -> list[Result]:
    """Process a batch of records, and report the batch as the current activity meanwhile.

    If a worker died during this batch before, the items are processed one at a time, so that the cause can be
    identified.

    Args:
        items: The records. Must not be empty.
        get_name: Returns the name of an item's record.
        work: Processes a list of items. The result for an item must not depend on the other items.

    Returns:
        The results of all calls to `work`: one for the whole batch, or one per item.
    """
    batch = _cut(f"of {len(items)} records, {get_name(items[0])} to {get_name(items[-1])}", "batch").decode()
    if len(items) > 1 and batch not in _suspect_batches:
        with _hold_report("batch", batch):
            return [work(items)]
    results = []
    for item in items:
        with _hold_report("record", get_name(item)):
            results.append(work([item]))
    return results


def iter_reported(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Yield record batches unchanged. While the caller processes a batch, its rows are the reported activity."""
    first = 0
    for batch in batches:
        with _hold_report("rows", f"{first} to {first + batch.num_rows - 1}"):
            yield batch
        first += batch.num_rows


@contextmanager
def _hold_report(field: str, value: str) -> Iterator[None]:
    """Set a field of the reported activity, such as "record", to a value inside the block, and clear it afterwards."""
    _write_field(field, value)
    try:
        yield
    finally:
        _write_field(field, "")
        report_step("")


def _cut(text: str, field: str) -> bytes:
    """Encode a string as UTF-8, truncated at a character boundary so that it fits in the named field of
    `ActivitySheet`.
    """
    value = text.encode(errors="replace")[: getattr(ActivitySheet, field).size - 1]
    return value.decode(errors="ignore").encode()


def _write_field(field: str, text: str) -> None:
    if _sheet is None:
        return
    value = _cut(text, field)
    if value != getattr(_sheet, field):
        setattr(_sheet, field, value)
        _sheet.changes += 1
