"""Records of Excel's `.xlsx` files: the rows of each sheet that has the columns, with the numbers that Excel shows.

Promise: those of `corpora.sources.files.office.sheets`, whose reader it is; a workbook that cannot be read to its end,
or has no sheet with the columns, is refused. Memory and cost: those of that reader.
"""

from collections.abc import Iterator
from pathlib import Path

from corpora.sources.files.office.sheet_rows import SheetRows
from trainer.tasks.formats.records import MOST_CHARACTERS, FileSettings, Found, Unusable, Wanted
from trainer.tasks.formats.tables import columns_by_role, no_column, picked


def sheet_records(settings: FileSettings, wanted: Wanted) -> Iterator[Found]:
    """Yield the rows of a workbook's sheets. Raises InputError."""
    columns, lacking, read = columns_by_role(settings, wanted), None, False
    with SheetRows(fields={}, max_record_bytes=MOST_CHARACTERS).opened(Path(settings.path)) as sheets:
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
