"""The current work of this process: what a worker reports about itself while it works.

A worker that hangs, explodes or crashes cannot report the cause. So it writes beforehand, on a page of memory shared
with the process that watches: which part it builds, and of it which record it reads, which batch of records it judges
together, or which rows it works on. In a process that nobody watches, nothing is shared.

A batch that ended its worker is judged again one record after the other, each named (`run_batch`), so that the next
death names a record. The watching process names these batches with each call (`begin_call`).

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
    """The shared memory: short texts in UTF-8, "" for none, and counts. `Activity` says what they mean."""

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
    """What a worker process works on. At most one of record, batch and rows is set.

    part:      the part that is built
    record:    the record that is read, by its place in the raw input
    batch:     the records that are judged together; the same name whenever the same batch is formed again
    rows:      the rows of a table that are worked on together
    step:      the step of judging
    changes:   how often anything but the step was reported
    compiling: the number of kernels that are being compiled, each for the one before
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
        """True if texts are worked on, so that the limits for a record apply."""
        return bool(self.record or self.batch or self.rows)

    def __str__(self) -> str:
        """Describe the activity in words.

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
    """Report on this `ActivitySheet`, in shared memory, from now on."""
    global _sheet
    _sheet = sheet


def read_activity(sheet: Any) -> Activity:
    """Read from a sheet what the other process works on."""
    part, record, batch, rows, step = (getattr(sheet, name).decode(errors="replace") for name in TEXT_FIELDS)
    return Activity(
        part=part, record=record, batch=batch, rows=rows, step=step, changes=sheet.changes, compiling=sheet.compiling
    )


def begin_call(suspect_batches: Collection[str]) -> None:
    """Report that another call begins and nothing is worked on yet.

    suspect_batches: names of batches that ended a worker; `run_batch` takes their items one by one
    """
    global _suspect_batches
    _suspect_batches = suspect_batches
    if _sheet is not None:
        for name in TEXT_FIELDS:
            _write_field(name, "")
        _sheet.compiling = 0


def report_part(part: str) -> None:
    """Report which part is built from now on."""
    begin_call(_suspect_batches)
    _write_field("part", part)


def report_record(record: str) -> None:
    """Report which record is read from now on; "" for none."""
    _write_field("record", record)


def report_step(step: str) -> None:
    """Report the step that the record or batch has reached."""
    if _sheet is not None:
        _sheet.step = step.encode(errors="replace")[: ActivitySheet.step.size - 1]


def report_compiling(change: int) -> None:
    """Report that one kernel more (1) or less (-1) is being compiled; the watching process does not count that time."""
    if _sheet is not None:
        _sheet.compiling += change
        _sheet.changes += 1


def run_batch(
    items: Sequence[Item], get_name: Callable[[Item], str], work: Callable[[Sequence[Item]], Result]
) -> list[Result]:
    """Call `work` with a batch and report it meanwhile; if this batch has ended a worker, call it with one item at a
    time.

    items:    at least one
    get_name: returns the name of an item's record
    work:     gives the same result for an item, whatever its batch
    Returns one result for the whole batch, or one for each item.
    """
    batch = f"of {len(items)} records, {get_name(items[0])} to {get_name(items[-1])}"
    if len(items) > 1 and batch not in _suspect_batches:
        with _hold_report("batch", batch):
            return [work(items)]
    results = []
    for item in items:
        with _hold_report("record", get_name(item)):
            results.append(work([item]))
    return results


def iter_reported(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Yield record batches, and report the rows of each while the caller works on it."""
    first = 0
    for batch in batches:
        with _hold_report("rows", f"{first} to {first + batch.num_rows - 1}"):
            yield batch
        first += batch.num_rows


@contextmanager
def _hold_report(field: str, value: str) -> Iterator[None]:
    """Report what is worked on for the time of the block."""
    _write_field(field, value)
    try:
        yield
    finally:
        _write_field(field, "")
        report_step("")


def _write_field(field: str, text: str) -> None:
    if _sheet is None:
        return
    value = text.encode(errors="replace")[: getattr(ActivitySheet, field).size - 1]
    if value != getattr(_sheet, field):
        setattr(_sheet, field, value)
        _sheet.changes += 1
