"""A sample of a source: records from all over its raw files, and how many there are of them.

The bytes of all slices, in their order, are one line, and of that a window at each of PLACES at equal distances is
read: of a large slice the beginning, as many bytes as the windows in it have; of small slices those that begin in a
window, whole. So each record is about as likely to be in the sample as any other.

Promises: the same files and settings give the same sample, unless SECONDS of processor time cut it short, which is
reported. If everything is read and kept, nothing is estimated.
Cost: a hundredth of the raw files is parsed, at least LEAST_READ bytes of records and at most MOST_READ, and about KEPT
characters of them are kept for judging. Only the beginning of a large packed file is read.
"""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import FileFault
from corpora.judging.documents import cut_files, naming_file
from corpora.sources.bytes.packed_stream import PIECE_BYTES
from corpora.sources.contract import RawFile, Record, Slice, Source, Tally
from corpora.sources.files.endings import PARQUET_ENDINGS
from corpora.sources.files.parquet import count_rows

SHARE = 0.01
LEAST_READ, MOST_READ = 8_000_000, 24_000_000  # bytes of records, unpacked, of a source
KEPT = 2_000_000  # characters
LEAST_RECORDS = 50  # kept, however long they are
LEAST_PACKED = 4 * PIECE_BYTES  # of a packed file, so that reading ahead distorts little
PLACES = 24
SECONDS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSample:
    """Holds what was read of a source.

    records, characters: of all its raw files, before judging
    sampled:             the records that were kept
    reading_seconds:     processor time that reading and parsing all of it takes, without what the first call loads
    """

    records: float
    characters: float
    sampled: tuple[Record, ...]
    raw_bytes: int
    reading_seconds: float = 0.0
    cut_short: bool = False
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Holds the records from the beginning of a slice, or all. times: how many such reads its windows stand for"""

    number: int
    records: Sequence[Record]
    times: float
    seconds: float


def sample_source(
    source: Source, files: Sequence[RawFile], seconds: float = SECONDS, least: int = LEAST_READ
) -> SourceSample:
    """Return a sample of some raw files of a source.

    seconds: of processor time, from which on nothing more is read; least: bytes of records, if a hundredth is less
    """
    deadline = time.process_time() + seconds
    pieces = cut_files(source, files)
    raw_bytes = sum(map(_size, pieces))
    chosen = _in_windows(pieces, raw_bytes, min(max(SHARE * raw_bytes, least), MOST_READ))
    reads, unreadable, tried = list[_Read](), 0, 0.0
    for number, most in random.Random(0).sample(chosen, len(chosen)):  # so that what is cut short is from all over, too
        if reads and time.process_time() > deadline:
            break
        tried += most
        try:
            if not reads:
                _read(source, pieces[number], 0, deadline)  # what the first call loads is not timed
            start = time.process_time()
            records, read_bytes = _read(source, pieces[number], most, deadline)
        except FileFault:
            unreadable += 1
            continue
        spent = time.process_time() - start
        reads.append(_Read(number=number, records=records, times=most / read_bytes, seconds=spent))
    cut_short = time.process_time() > deadline
    sampled = [record for read in sorted(reads, key=lambda read: read.number) for record in read.records]
    while len(sampled) > 2 * LEAST_RECORDS and sum(len(record.text) for record in sampled) > 2 * KEPT:
        sampled = sampled[::2]
    times = raw_bytes / max(1.0, tried)
    return SourceSample(
        records=times * sum(read.times * len(read.records) for read in reads),
        characters=times * sum(read.times * len(record.text) for read in reads for record in read.records),
        sampled=tuple(sampled),
        raw_bytes=raw_bytes,
        reading_seconds=times * sum(read.times * read.seconds for read in reads),
        cut_short=cut_short,
        unreadable=unreadable,
    )


def _size(piece: Slice) -> int:
    return piece.stop - piece.start


def _in_windows(pieces: Sequence[Slice], raw_bytes: int, most: float) -> list[tuple[int, float]]:
    """Return the numbers of the slices to read, and how many bytes of each: all if they have at most `most`."""
    if most >= raw_bytes:
        return [(number, max(1, _size(piece))) for number, piece in enumerate(pieces)]
    window, distance = most / PLACES, raw_bytes / PLACES
    chosen, start = [], distance / 2
    for number, piece in enumerate(pieces):
        end = start + _size(piece)
        wanted = window * (end // distance - start // distance)
        if _size(piece) < window:
            wanted = _size(piece) if start % distance < window else 0
        chosen += [(number, wanted)] if wanted else []
        start = end
    return chosen


def _read(source: Source, piece: Slice, most: float, deadline: float) -> tuple[list[Record], int]:
    """Read about so many bytes of records from the beginning of a slice; return how much of it they take, too.

    Raises FileFault.
    """
    records, found, size = list[Record](), 0, max(1, _size(piece))
    most = most if most < size else MOST_READ
    with naming_file(source, piece.file):
        for record in source.records(piece, Tally()):
            records.append(record)
            found += record.locator.length
            late = time.process_time() > deadline
            if late or found >= most:
                position = _position(piece, record, len(records))
                if late or record.locator.stream < 0 or position >= LEAST_PACKED:
                    return records, min(position, size)
    return records, size


def _position(piece: Slice, record: Record, records: int) -> int:
    """Return how many bytes of a slice are read once so many records are; of a packed file, how far it is read."""
    path, locator = Path(piece.file.path), record.locator
    if piece.file.name.lower().endswith(PARQUET_ENDINGS):
        return max(1, round(_size(piece) * records / max(1, count_rows(path, piece.start, piece.stop))))
    if locator.stream < 0 and locator.offset >= piece.start:
        return max(1, locator.offset + locator.length - piece.start)
    return max(1, (_opened_at(path) or piece.stop) - piece.start)


def _opened_at(path: Path) -> int:
    """Return how far this process has read a file that it has open; 0 if it has none open."""
    furthest = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder's own descriptor is closed by now
            if link.readlink() == path.resolve():
                fields = (Path("/proc/self/fdinfo") / link.name).read_text(encoding="ascii").split()
                furthest = max(furthest, int(fields[1]))
    return furthest
