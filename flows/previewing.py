"""`cloze preview`: some documents of a source before and after every step, and why each dropped one goes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from corpora.clean import clean
from corpora.documents import judge_records
from corpora.schema import dropped_rows
from corpora.sources.source import RawFile, Record, Tally
from flows.recipe import SourceEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """One record on its way: as its source gives it, cleaned, and where it ends."""

    title: str
    where: str
    parsed: str
    cleaned: str
    verdict: str


def preview_source(entry: SourceEntry, number: int = 10) -> Iterator[Preview]:
    """The first records of a source through all steps, with the recipe's settings. Writes nothing."""
    for record in islice(_records(entry), number):
        judged = judge_records([record], entry.source.name, entry.documents)
        drops = list(dropped_rows(iter([judged.dropped])))
        verdict = f"dropped: {drops[0].step}: {drops[0].reason} {drops[0].detail or ''}" if drops else "kept"
        cleaned = clean(pa.array([record.text], pa.large_string()), entry.documents.clean)[0].as_py()
        yield Preview(
            title=record.title or record.key or "",
            where=str(record.locator),
            parsed=record.text,
            cleaned=cleaned,
            verdict=verdict.strip(),
        )


def _records(entry: SourceEntry) -> Iterator[Record]:
    """Records from the front; the files are not hashed for it, a dump may have many gigabytes."""
    for name, path in entry.source.files():
        file = RawFile(name=name, sha256="", size_bytes=path.stat().st_size, path=str(path))
        for piece in entry.source.slices(file):
            yield from entry.source.records(piece, Tally())
