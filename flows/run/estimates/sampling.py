"""A sample of a source: records from all over its raw files, and how many there are of them.

The slices of a source are put into strata by the ending of their files and by size. Of small slices every so many is
read, in an order that is spread however early it ends; of large ones those at equal distances of bytes, so that a file
ten times as large is met ten times as often. Of a slice every so many records are parsed, and every so many of these
are kept. So a stratum says what it holds by ratios: records for each slice or byte, characters for each byte.

Promises: the same files and settings give the same sample, unless SECONDS of processor time cut it short, which is
said. Where all is read and kept, nothing is estimated.
Cost: about a hundredth of the raw files is parsed, at least LEAST_READ bytes of records and at most MOST_READ, and of
that about KEPT characters are kept in memory for judging. FOUND times as much is looked through, at the speed at which
the format finds records. Of a packed file that is larger still, the beginning is read.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from corpora.errors import UnreadableFile
from corpora.judging.documents import cut_files, naming_file
from corpora.schema import Locator
from corpora.sources.bytes.endings import PACKED_ENDINGS, is_packed
from corpora.sources.bytes.packed_stream import PIECE_BYTES
from corpora.sources.contract import SLICE_BYTES, Drop, RawFile, Record, Slice, Source, Tally
from corpora.sources.files.endings import PARQUET_ENDINGS
from corpora.sources.files.parquet import count_rows

SHARE = 0.01
LEAST_READ, MOST_READ = 8_000_000, 24_000_000  # bytes of records, unpacked, of a source
KEPT = 2_000_000  # characters
RECORD = 64  # characters that a record counts at least
LEAST_PACKED = 4 * PIECE_BYTES  # of a packed file, so that what is read ahead of it says little wrong
LEAST_RECORDS = 50  # kept of a stratum, however long they are
UNPACKED = 4  # times as many bytes as a packed file has, taken at first
FOUND = 16  # times as many bytes of a slice are looked through as are parsed
LARGE_BYTES = 1_000_000  # from here on a slice is large
LEAST_SMALL, MOST_SMALL, LARGE = 16, 2_000, 24  # slices of a stratum
SECONDS = 8.0

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """Slices that are alike, as far as they were read.

    records, characters: of all its slices, before judging
    sampled:             the records that were kept
    whole:               whether these are all
    """

    name: str
    raw_bytes: int
    records: float
    characters: float
    sampled: tuple[Record, ...]
    whole: bool

    @property
    def sampled_characters(self) -> int:
        """Of the texts that were kept."""
        return sum(len(record.text) for record in self.sampled)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSample:
    """What was read of a source. read_bytes: of raw files

    seconds:         processor time that it took
    reading_seconds: processor time that reading and parsing all of it takes
    """

    strata: tuple[Stratum, ...]
    raw_bytes: int
    read_bytes: int
    seconds: float
    reading_seconds: float = 0.0
    cut_short: bool = False
    unreadable: int = 0

    @property
    def whole(self) -> bool:
        """Whether every record was kept."""
        return all(stratum.whole for stratum in self.strata) and not self.cut_short


SKIPPED = Drop("not in the sample")


class _SamplingTally(Tally):
    """Lets a source parse one record of so many: the others it only finds."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self._stride, self._number = stride, -1
        self._entered: float | None = None
        self.parsing_seconds = 0.0

    def enter(self, locator: Locator) -> Drop | None:
        self._number += 1
        if self._number % self._stride:
            return SKIPPED
        self._entered = time.process_time()
        return None

    def leave(self) -> None:
        """A record came out: from its being entered until now it was parsed."""
        if self._entered is not None:
            self.parsing_seconds += time.process_time() - self._entered
            self._entered = None


@dataclass(slots=True, kw_only=True)
class _Read:
    """What was read of one slice, `times` as important as others of its stratum.

    records, found_bytes:                      that were found, parsed or not
    parsed, parsed_bytes, parsed_characters:   of those that were parsed
    kept:                                      every so many of these
    """

    piece: Slice
    times: int = 1
    records: int = 0
    found_bytes: int = 0
    parsed: int = 0
    parsed_bytes: int = 0
    parsed_characters: int = 0
    kept: list[Record] = field(default_factory=list)
    stride: int = 1
    read_bytes: int = 0
    parsing_seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether every record is kept."""
        return len(self.kept) == self.records and self.read_bytes >= self.piece.stop - self.piece.start

    @property
    def characters(self) -> float:
        """Of all records that were found, by those that were parsed."""
        if self.parsed == self.records or not self.parsed:
            return self.parsed_characters
        found, parsed = (self.found_bytes, self.parsed_bytes) if self.parsed_bytes else (self.records, self.parsed)
        return self.parsed_characters * found / parsed

    def take(self, record: Record, most: int) -> None:
        """One more record: kept, or passed over; where too much is kept, every second is let go."""
        self.records += 1
        self.found_bytes += record.locator.length
        if record.drop is SKIPPED:
            return
        if self.parsed % self.stride == 0:
            self.kept.append(record)
            if len(self.kept) > 1 and sum(map(_size, self.kept)) > most:
                self.kept, self.stride = self.kept[::2], 2 * self.stride
        self.parsed += 1
        self.parsed_bytes += record.locator.length
        self.parsed_characters += len(record.text)


def _size(record: Record) -> int:
    return max(RECORD, len(record.text))


def sample_source(
    source: Source, files: Sequence[RawFile], seconds: float = SECONDS, least: int = LEAST_READ
) -> SourceSample:
    """A sample of some raw files of a source.

    seconds: of processor time, from which on no other slice is read; least: bytes of records, where a hundredth is less
    """
    began = time.process_time()
    pieces = cut_files(source, files)
    raw_bytes = sum(piece.stop - piece.start for piece in pieces)
    most = int(min(max(SHARE * raw_bytes, least), MOST_READ))
    strata, unreadable, read_bytes, all_reads = [], 0, 0, list[_Read]()
    for name, group in _grouped(pieces).items():
        share = max(0.02, sum(piece.stop - piece.start for piece in group) / max(1, raw_bytes))
        reads, faults = _read_stratum(source, group, share, most, began + seconds)
        unreadable += faults
        all_reads += reads
        read_bytes += sum(read.read_bytes for read in reads)
        if reads:
            strata.append(_stratum(name, group, reads, faults, KEPT * share))
    spent = time.process_time() - began
    return SourceSample(
        strata=tuple(strata),
        raw_bytes=raw_bytes,
        read_bytes=read_bytes,
        seconds=spent,
        reading_seconds=_reading_seconds(spent, all_reads, raw_bytes / max(1, read_bytes)),
        cut_short=spent > seconds,
        unreadable=unreadable,
    )


def _reading_seconds(spent: float, reads: Sequence[_Read], more: float) -> float:
    """Processor time for all of a source, which has `more` times as many bytes; of those read, not all were parsed."""
    parsing = sum(read.parsing_seconds for read in reads)
    found, parsed = sum(read.found_bytes for read in reads), sum(read.parsed_bytes for read in reads)
    return more * (spent - parsing + parsing * found / max(1, parsed))


def _grouped(pieces: Sequence[Slice]) -> dict[str, list[Slice]]:
    """Slices by their stratum."""
    ordered = sorted(pieces, key=_stratum_of)
    return {name: list(group) for name, group in groupby(ordered, key=_stratum_of)}


def _stratum_of(piece: Slice) -> str:
    name = piece.file.name.lower()
    for ending in PACKED_ENDINGS:
        name = name.removesuffix(ending)
    size = "large" if piece.stop - piece.start >= LARGE_BYTES else "small"
    return f"{Path(name).suffix[:20] or '.'} {size}"


def _read_stratum(
    source: Source, pieces: Sequence[Slice], share: float, most: int, deadline: float
) -> tuple[list[_Read], int]:
    """What was read of the slices of a stratum, and how many could not be read. share: of the source, in bytes"""
    large = pieces[0].stop - pieces[0].start >= LARGE_BYTES
    chosen = _at_equal_bytes(pieces, LARGE) if large else dict.fromkeys(spread(pieces), 1)
    budget, reads, faults = most * share, list[_Read](), 0
    each = budget / sum(chosen.values()) if large else budget / LEAST_SMALL
    kept = KEPT * share / (sum(chosen.values()) if large else min(len(pieces), max(LEAST_SMALL, len(pieces) * SHARE)))
    for piece, times in chosen.items():
        enough = (
            len(reads) >= LEAST_SMALL
            and sum(max(read.parsed_bytes, read.parsed_characters) for read in reads) >= budget
        )
        if (enough and not large) or len(reads) >= MOST_SMALL or (reads and time.process_time() > deadline):
            break
        try:
            reads.append(_read(source, _Read(piece=piece, times=times), int(each * times), int(kept * times), deadline))
        except UnreadableFile:
            faults += 1
    return reads, faults


def _read(source: Source, read: _Read, most: int, kept: int, deadline: float) -> _Read:
    """Read a slice, and parse about `most` bytes of its records. Raises UnreadableFile."""
    piece, whole = read.piece, read.piece.stop - read.piece.start
    unpacked = whole * (UNPACKED if is_packed(piece.file.name) else 1)
    tally = _SamplingTally(max(1, -(-unpacked // max(1, most))))
    with naming_file(source, piece.file):
        for record in source.records(piece, tally):
            tally.leave()
            read.parsing_seconds = tally.parsing_seconds
            read.take(record, max(kept, RECORD))
            late = read.records % 64 == 0 and time.process_time() > deadline
            if read.found_bytes < max(FOUND * most, SLICE_BYTES) and read.parsed_characters < 2 * most and not late:
                continue
            read.read_bytes = min(_position(record, read), whole)
            if late or record.locator.stream < 0 or read.read_bytes >= LEAST_PACKED:
                return read
    read.read_bytes = whole
    return read


def _position(record: Record, read: _Read) -> int:
    """How many bytes of a slice are read once this record is: of a packed file, how far it is open there."""
    piece, locator = read.piece, record.locator
    if piece.file.name.lower().endswith(PARQUET_ENDINGS):
        rows = count_rows(Path(piece.file.path), piece.start, piece.stop)
        return max(1, round((piece.stop - piece.start) * read.records / max(1, rows)))
    if locator.stream < 0 and locator.offset >= piece.start:
        return max(1, locator.offset + locator.length - piece.start)
    return max(1, (_opened_at(Path(piece.file.path)) or piece.stop) - piece.start)


def _opened_at(path: Path) -> int:
    """How far this process has read a file that it has open; 0 where it has none."""
    real, furthest = str(path.resolve()), 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            if str(link.readlink()) == real:
                fields = (Path("/proc/self/fdinfo") / link.name).read_text(encoding="ascii").split()
                furthest = max(furthest, int(fields[1]))
        except FileNotFoundError:  # the one of the folder itself is closed by now
            continue
    return furthest


def _at_equal_bytes(pieces: Sequence[Slice], number: int) -> dict[Slice, int]:
    """The slices at `number` places at equal distances, and how many of the places are in each."""
    whole = sum(piece.stop - piece.start for piece in pieces)
    places = iter([(place + 0.5) * whole / number for place in range(number)])
    place, end, chosen = next(places), 0, dict[Slice, int]()
    for piece in pieces:
        end += piece.stop - piece.start
        while place < end:
            chosen[piece] = chosen.get(piece, 0) + 1
            place = next(places, float("inf"))
    return chosen


def spread(items: Sequence[Item]) -> Iterator[Item]:
    """Items in an order of which every beginning is spread evenly: their numbers by reversed bits.

    >>> list(spread([0, 1, 2, 3, 4, 5]))
    [0, 4, 2, 1, 5, 3]
    """
    bits = max(1, (len(items) - 1).bit_length())
    order = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(1 << bits))
    return (items[number] for number in order if number < len(items))


def _stratum(name: str, pieces: Sequence[Slice], reads: Sequence[_Read], faults: int, kept: float) -> Stratum:
    """What a stratum holds by what was read of it: slices that cannot be read nothing. kept: characters to judge"""
    readable = 1 - faults / (len(reads) + faults)
    raw_bytes = sum(piece.stop - piece.start for piece in pieces)
    records, characters = _totals(pieces, reads)
    sampled = [record for read in sorted(reads, key=_place) for record in read.kept]
    whole = len(reads) == len(pieces) and all(read.whole for read in reads)
    while len(sampled) > 2 * LEAST_RECORDS and sum(map(_size, sampled)) > 2 * kept:
        sampled, whole = sampled[::2], False
    return Stratum(
        name=name,
        raw_bytes=raw_bytes,
        records=records * readable,
        characters=characters * readable,
        sampled=tuple(sampled),
        whole=whole,
    )


def _place(read: _Read) -> tuple[str, int]:
    return read.piece.file.name, read.piece.start


def _totals(pieces: Sequence[Slice], reads: Sequence[_Read]) -> tuple[float, float]:
    """The records and characters of all slices."""
    sizes = {id(read): max(1, read.piece.stop - read.piece.start) for read in reads}
    filled = [
        (read, sizes[id(read)] / max(1, read.read_bytes)) for read in reads
    ]  # what a slice holds, were it read on
    if len(reads) == len(pieces):
        return (
            sum(read.records * more for read, more in filled),
            sum(read.characters * more for read, more in filled),
        )
    raw_bytes, times = sum(piece.stop - piece.start for piece in pieces), sum(read.times for read in reads)
    if max(sizes.values()) >= LARGE_BYTES:
        return (
            raw_bytes * sum(read.times * read.records / max(1, read.read_bytes) for read in reads) / times,
            raw_bytes * sum(read.times * read.characters / max(1, read.read_bytes) for read in reads) / times,
        )
    read_bytes = sum(sizes.values())
    return (
        len(pieces) * sum(read.records * more for read, more in filled) / len(reads),
        raw_bytes * sum(read.characters * more for read, more in filled) / read_bytes,
    )
