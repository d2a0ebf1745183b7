"""How the tests of sources read them: raw files, all records with the tally checked, and why some are dropped."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from corpora.sources.contract import RawFile, Record, Slice, Source, StatCache, Tally, hash_files


def raw_files(source: Source) -> list[RawFile]:
    return hash_files(source.files(), StatCache())


def raw_file(source: Source) -> RawFile:
    """The only raw file of a source."""
    (file,) = raw_files(source)
    return file


def read(source: Source, pieces: Iterable[Slice] | None = None) -> list[Record]:
    """All records of a source, or of some slices, the tally checked."""
    tally = Tally()
    slices = [piece for file in raw_files(source) for piece in source.slices(file)] if pieces is None else pieces
    records = [record for piece in slices for record in source.records(piece, tally)]
    assert tally.records == len(records)
    return records


def read_and_find(source: Source) -> list[Record]:
    """All records, each found again in its file, but for those that are too large."""
    records, paths = read(source), {file.name: Path(file.path) for file in raw_files(source)}
    for record in records:
        if record.drop is None or record.drop.reason != "too large":
            assert source.raw_record(paths[record.locator.file], record.locator).strip() == record.raw.strip()
    return records


def reasons(records: Sequence[Record]) -> list[str | None]:
    """Why each is dropped."""
    return [record.drop.reason if record.drop else None for record in records]
