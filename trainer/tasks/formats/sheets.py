"""Records of Excel's `.xlsx` files: the rows of each sheet that has the columns, with the numbers that Excel shows.

Promise: those of `corpora.sources.files.office.sheets`, whose reader it is; a workbook that cannot be read to its end,
or has no sheet with the columns, is refused. Memory and cost: those of that reader.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from corpora.errors import InputError
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.files.office.package import LargeDocument, LockedDocument, open_package
from corpora.sources.files.office.sheets import Worksheet, read_sheets
from trainer.tasks.formats.records import MOST_CHARACTERS, FileSettings, Found, Unusable, Wanted, place_of
from trainer.tasks.formats.tables import columns_by_role, no_column, picked

UNPACKED = 1 << 33  # bytes, of all sheets of a workbook


def sheet_records(settings: FileSettings, wanted: Wanted) -> Iterator[Found]:
    """Yield the rows of a workbook's sheets. Raises InputError."""
    columns, lacking, read = columns_by_role(settings, wanted), None, False
    with _sheets(settings.path) as sheets:
        for sheet in sheets:
            named = [role for role in settings.columns if role in (*wanted.needed, *wanted.optional)]
            missing = [role for role in (*wanted.needed, *named) if settings.column(role) not in sheet.columns]
            if missing:
                lacking = lacking or no_column(
                    settings.path, missing[0], settings.column(missing[0]), sheet.columns, "the head of its sheet"
                )
                continue
            read = True
            for row in sheet.rows:
                values = row.values
                yield row.number, Unusable("too long a row") if values is None else picked(values, columns)
    if lacking and not read:
        raise lacking


@contextmanager
def _sheets(path: str) -> Iterator[Iterator[Worksheet]]:
    """Open a workbook's sheets. Raises InputError."""
    try:
        with place_of(path).open("rb") as stream, open_package(stream, UNPACKED) as package:
            yield read_sheets(package, MOST_CHARACTERS)
    except (LockedDocument, LargeDocument, BadRecord) as error:
        raise InputError(f"{path} cannot be read: {error}. Save it again, without a password, or as .csv.") from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from error
