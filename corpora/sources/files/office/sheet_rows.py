"""Excel's `.xlsx` as a format: each row of each sheet is a record, after the row that names the columns.

A row is known as JSON, one field for each column: that is its raw record, and what its id is made of. Its place is the
number of the sheet in the workbook and of the row in the sheet, as Excel shows it.

Promises: a workbook that cannot be read to its end, or needs a password, raises InputError; a sheet without a column
for the text gives drops that are no damage, and so do hidden rows and sheets. Costs and memory: those of `xlsx.py`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.contract import Drop, RawFile, Record, Slice, Tally, drop_damaged, drop_too_large, slice_whole_file
from corpora.sources.files.fields import Fields, choose_names, find_fields, format_names
from corpora.sources.files.formats import build_record
from corpora.sources.files.office.package import LargeDocument, LockedDocument, open_package
from corpora.sources.files.office.xlsx import SheetRow, Worksheet, read_sheets, to_row_json

MAX_UNPACK_RATIO = 100  # times `max_record_bytes`: what all sheets of a workbook may unpack to


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetRows:
    """The Excel format, in which each row of each sheet becomes a record."""

    fields: Fields
    max_record_bytes: int

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A workbook is one slice.
        """
        return [slice_whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Each row of each sheet of a workbook is a record. Hidden rows are dropped.

        Args:
            piece: The slice, which is the whole file.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the workbook cannot be read to its end.
        """
        with self.open_sheets(parse_raw_path(piece.file.path)) as sheets:
            for sheet in sheets:
                fields = choose_names(self.fields, sheet.columns.__contains__)
                for row in sheet.rows:
                    tally.records += 1
                    yield self._build_record(row, piece.file, sheet, fields, tally)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The record is a row of a sheet, as JSON; b"" if there is no such row.

        Raises:
            InputError: If the workbook cannot be read.
        """
        with self.open_sheets(file) as sheets:
            rows = (row for sheet in sheets if sheet.number == locator.stream for row in sheet.rows)
            return next((to_row_json(row) for row in rows if row.number == locator.offset), b"")

    @contextmanager
    def open_sheets(self, path: Path) -> Iterator[Iterator[Worksheet]]:
        """Open a workbook and yield an iterator of its sheets (a context manager).

        Each sheet must be read before the next one is requested.

        Raises:
            InputError: If the workbook cannot be read to its end, needs a password, or is too large when uncompressed.
        """
        try:
            with path.open("rb") as stream, open_package(stream, MAX_UNPACK_RATIO * self.max_record_bytes) as package:
                yield read_sheets(package, self.max_record_bytes)
        except LockedDocument as error:
            remedy = "Remove its password, or save it as .xlsx or .csv."
            raise InputError(f"{path} cannot be read: {error}. {remedy}") from error
        except LargeDocument as error:
            remedy = "Raise the source's `max_record_bytes`, or save it as .csv."
            raise InputError(f"{path} cannot be read: {error}. {remedy}") from error
        except BadRecord as error:
            raise InputError(f"{path} cannot be read to its end: {error}. Get it again, or save it again.") from error
        except OSError as error:
            raise InputError(
                f"Cannot read {path}: {error.strerror or error}. Check the path and its permissions."
            ) from error

    def _build_record(
        self, row: SheetRow, file: RawFile, sheet: Worksheet, fields: dict[str, str], tally: Tally
    ) -> Record:
        """Build the record of a row of a sheet. A row that is too large, hidden or unusable yields a dropped record.

        Args:
            row: The row.
            file: The workbook.
            sheet: The sheet that contains the row.
            fields: Maps attributes of `Record` to column names.
            tally: Knows which records crashed earlier and must be skipped.
        """
        raw = to_row_json(row) if row.values is not None else b""
        place = Locator(file=file.name, sha256=file.sha256, stream=row.sheet, offset=row.number, length=len(raw))
        if row.values is None or len(raw) > self.max_record_bytes:
            return drop_too_large(place, self.max_record_bytes)
        if drop := tally.enter(place) or self._find_drop(row, sheet, fields):
            return Record(locator=place, text="", raw=raw, drop=drop)
        text = fields["text"]
        given = {**row.values, text: str(row.values.get(text, ""))}
        try:
            return build_record(place, raw, find_fields(given, fields))
        except BadRecord as error:
            return drop_damaged(place, raw, error)

    def _find_drop(self, row: SheetRow, sheet: Worksheet, fields: dict[str, str]) -> Drop | None:
        """Return a `Drop` if a row is hidden or its sheet has no text column; otherwise None."""
        if row.is_hidden:
            return Drop("hidden", f"row {row.number} of sheet {sheet.name!r}, or the sheet")
        if fields["text"] in sheet.columns:
            return None
        named = format_names(self.fields.get("text", "text"))
        return Drop("no column of text", f"sheet {sheet.name!r} has no column {named} that is shown")
