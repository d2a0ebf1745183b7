"""A sample of a source: records from all over its raw files, and how many records there are in all.

The bytes of all slices (ranges of raw files that are parsed at once), in their order, are divided into NUM_WINDOWS
windows at equal distances. Of a large slice the beginning is read, as many bytes as the windows in it have. Small
slices that begin in a window are read whole. So each record is about as likely to be in the sample as any other.

Promises: the same files and settings give the same sample, unless MAX_SAMPLE_SECONDS of processor time cut it short,
which is reported. Sources that are no larger than the sample are read whole, packed ones at least at the beginning.
Cost: READ_BYTES of records, and the rest of the last record in each window. Of large packed files the beginning is
read.
"""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import FileFault
from corpora.judging.documents import cut_files, name_file_in_errors
from corpora.sources.bytes.endings import is_packed
from corpora.sources.contract import RawFile, Record, Slice, Source, Tally
from corpora.sources.files.endings import PARQUET_ENDINGS
from corpora.sources.files.parquet import count_rows

READ_BYTES = 8_000_000  # of records, unpacked, of a source
MIN_PACKED_BYTES = 2_000_000  # bytes of records of a packed file, so that reading ahead distorts little
NUM_WINDOWS = 24
MAX_SAMPLE_SECONDS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSample:
    """A sample of a source's records.

    Attributes:
        records, characters: Estimated totals for all raw files, before records are filtered.
        sampled: The records that were read.
        raw_bytes: Total size of the raw files.
        reading_seconds: Estimated CPU time, in seconds, for reading and parsing all raw files, without one-time
            initialization.
        cut_short: True if the time limit was reached before the sample was complete.
    """

    records: float
    characters: float
    sampled: tuple[Record, ...]
    raw_bytes: int
    reading_seconds: float = 0.0
    cut_short: bool = False


def sample_source(
    source: Source,
    files: Sequence[RawFile],
    seconds: float = MAX_SAMPLE_SECONDS,
    read_bytes: int = READ_BYTES,
    num_windows: int = NUM_WINDOWS,
) -> SourceSample:
    """Read a sample of records, spread evenly over a source's raw files. Unreadable slices are skipped.

    Args:
        source: The source, which reads records from files.
        files: The raw files.
        seconds: CPU time, in seconds, after which reading stops.
        read_bytes: Approximate number of bytes of records to read.
        num_windows: Number of positions to read from.

    Raises:
        FileFault: If a file cannot be divided into slices (byte ranges that are parsed separately).
    """
    deadline = time.process_time() + seconds
    pieces = cut_files(source, files)
    raw_bytes = sum(map(_count_bytes, pieces))
    chosen = _choose_slices(pieces, raw_bytes, read_bytes, num_windows)
    sampled = dict[int, list[Record]]()
    tried = num_records = characters = spent = 0.0
    for number in random.Random(0).sample(range(len(chosen)), len(chosen)):  # so that a part of it is from all over
        if sampled and time.process_time() > deadline:
            break
        piece, most = chosen[number]
        tried += most
        try:
            if not sampled:
                _read_records(source, piece, 0, deadline)  # what the first call loads is not timed
            start = time.process_time()
            records, length = _read_records(source, piece, most if most < _count_bytes(piece) else read_bytes, deadline)
        except FileFault:
            continue  # it holds nothing
        times = most / length  # how many such reads the windows of the slice stand for
        spent += times * (time.process_time() - start)
        num_records += times * len(records)
        characters += times * sum(len(record.text) for record in records)
        sampled[number] = records
    times = raw_bytes / max(1.0, tried)
    return SourceSample(
        records=times * num_records,
        characters=times * characters,
        sampled=tuple(record for number in sorted(sampled) for record in sampled[number]),
        raw_bytes=raw_bytes,
        reading_seconds=times * spent,
        cut_short=time.process_time() > deadline,
    )


def _count_bytes(piece: Slice) -> int:
    return max(1, piece.stop - piece.start)


def _choose_slices(pieces: Sequence[Slice], raw_bytes: int, most: float, num_windows: int) -> list[tuple[Slice, float]]:
    """Choose the slices to read, and return (slice, number of bytes to read) pairs.

    If all slices together have at most `most` bytes, each is read entirely.

    Args:
        pieces: All slices of the source's raw files.
        raw_bytes: Total size of the slices.
        most: Approximate number of bytes to read.
        num_windows: Number of positions to read from.
    """
    if most >= raw_bytes:
        return [(piece, _count_bytes(piece)) for piece in pieces]
    window, distance = most / num_windows, raw_bytes / num_windows
    chosen, start = [], distance / 2
    for piece in pieces:
        end = start + _count_bytes(piece)
        wanted = window * (end // distance - start // distance)
        if _count_bytes(piece) < window:
            wanted = _count_bytes(piece) if start % distance < window else 0
        chosen += [(piece, wanted)] if wanted else []
        start = end
    return chosen


def _read_records(source: Source, piece: Slice, most: float, deadline: float) -> tuple[list[Record], int]:
    """Read about `most` bytes of records from the beginning of a slice. At least one record is read if there is any.

    Args:
        source: The source, which reads records from files.
        piece: The slice (a byte range of a file that is parsed separately).
        most: Number of bytes after which reading stops.
        deadline: Value of `time.process_time()` at which reading stops.

    Returns:
        The records, and the number of bytes that they occupy in the slice.

    Raises:
        FileFault: If the slice is unreadable.
    """
    records, found = list[Record](), 0
    most = max(most, MIN_PACKED_BYTES) if is_packed(piece.file.name) else most
    with name_file_in_errors(source, piece.file):
        for record in source.records(piece, Tally()):
            records.append(record)
            found += record.locator.length
            if found >= most or time.process_time() > deadline:
                return records, min(_find_position(piece, record, len(records)), _count_bytes(piece))
    return records, _count_bytes(piece)


def _find_position(piece: Slice, record: Record, records: int) -> int:
    """Return the number of bytes of a slice that have been read. If the file is compressed, this is an estimate.

    Args:
        piece: The slice (a byte range of a file).
        record: The last record that was read.
        records: Number of records that were read.
    """
    path, locator = Path(piece.file.path), record.locator
    if piece.file.name.lower().endswith(PARQUET_ENDINGS):
        return max(1, round(_count_bytes(piece) * records / max(1, count_rows(path, piece.start, piece.stop))))
    if locator.stream < 0 and locator.offset >= piece.start:
        return max(1, locator.offset + locator.length - piece.start)
    return max(1, (_find_read_position(path) or piece.stop) - piece.start)


def _find_read_position(path: Path) -> int:
    """Return the highest read position, in bytes, of a file that this process has open, or 0 if it is not open."""
    furthest = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder's own descriptor is closed by now
            if link.readlink() == path.resolve():
                fields = (Path("/proc/self/fdinfo") / link.name).read_text(encoding="ascii").split()
                furthest = max(furthest, int(fields[1]))
    return furthest
