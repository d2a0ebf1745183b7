"""Records of `.parquet` files: only the columns that are asked for are read.

Promise: a row whose texts are not UTF-8 is counted and costs no other; a file that is damaged or lacks a column is
refused. Memory: 1,024 rows, and the pages of a row group that hold them.
Cost: 370,000 rows of 100 characters a second with all checks of `reading.py` (one x86-64 core, 2026-11-23).
"""

from collections.abc import Iterator

from corpora.errors import InputError
from corpora.sources.bytes.endings import is_packed
from corpora.sources.files.parquet import all_batches, batch_rows, open_parquet
from trainer.tasks.formats.records import NOT_UTF_8, FileSettings, Found, Unusable, Wanted, place_of
from trainer.tasks.formats.tables import columns_by_role, no_column, picked

BATCH_ROWS = 1_024


def parquet_records(settings: FileSettings, wanted: Wanted) -> Iterator[Found]:
    """Yield the rows of a Parquet file; their lines are their numbers from 1."""
    if is_packed(settings.path):
        raise InputError(f"{settings.path} is packed around Parquet, which is packed inside: unpack it.")
    path = place_of(settings.path)
    with open_parquet(path) as table:
        columns = _columns(table.schema_arrow.names, settings, wanted)
        names = list(dict.fromkeys(_top(column, table.schema_arrow.names) for _, column in columns))
        batches = all_batches(table, path, BATCH_ROWS, names)
        for line, (row, fault) in enumerate((row for batch in batches for row in batch_rows(batch)), 1):
            reason = NOT_UTF_8 if "utf-8" in fault else "a value that cannot be read"
            yield line, Unusable(reason) if fault else picked(row, columns)


def _columns(names: list[str], settings: FileSettings, wanted: Wanted) -> list[tuple[str, str]]:
    """Return for each role its column or path, numbers as names. Raises InputError."""
    columns = list[tuple[str, str]]()
    for role, name in columns_by_role(settings, wanted):
        if _top(name, names) in names:
            columns.append((role, name))
        elif name.isdecimal() and 0 < int(name) <= len(names):
            columns.append((role, names[int(name) - 1]))
        elif role in wanted.needed or role in settings.columns:
            raise no_column(settings.path, role, name, names)
    return columns


def _top(column: str, names: list[str]) -> str:
    return column if column in names else column.partition(".")[0]
