"""A sample of a source: records from all over its raw files, and how many there are of them.

The bytes of all slices, in their order, are one line, and of that a window at each of PLACES at equal distances is
read: of a large slice, records at equal distances, as many bytes as the windows in it have; of small slices those that
begin in a window, whole. So each record is as likely to be in the sample as any other.

Promises: the same files and settings give the same sample, unless SECONDS of processor time cut it short, which is
reported. If everything is read and kept, nothing is estimated.
Cost: about a hundredth of the raw files is parsed, at least LEAST_READ bytes of records and at most MOST_READ, and
about KEPT characters of them are kept in memory for judging. FOUND times as much is searched, at the speed at which
the format finds records. Only the beginning of a packed file larger than that is read.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpora.errors import FileFault
from corpora.generic_types import Item
from corpora.judging.documents import cut_files, naming_file
from corpora.schema import Locator
from corpora.sources.bytes.endings import is_packed
from corpora.sources.bytes.packed_stream import PIECE_BYTES
from corpora.sources.contract import Drop, RawFile, Record, Slice, Source, Tally
from corpora.sources.files.endings import PARQUET_ENDINGS
from corpora.sources.files.parquet import count_rows

SHARE = 0.01
LEAST_READ, MOST_READ = 8_000_000, 24_000_000  # bytes of records, unpacked, of a source
KEPT = 2_000_000  # characters
LEAST_RECORDS = 50  # kept, however long they are
LEAST_PACKED = 4 * PIECE_BYTES  # of a packed file, so that reading ahead distorts little
UNPACKED = 4  # times as many bytes as a packed file has, taken at first
FOUND = 16  # times as many bytes of a slice are looked through as are parsed
LOOKED_THROUGH = 8_000_000  # bytes of a packed file, at least
PLACES = 24
SECONDS = 8.0
SKIPPED = Drop("not in the sample")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSample:
    """Holds what was read of a source.

    records, characters: of all its raw files, before judging
    sampled:             the records that were kept; whole: whether these are all
    reading_seconds:     processor time that reading and parsing all of it takes, without what the first call loads
    """

    records: float
    characters: float
    sampled: tuple[Record, ...]
    whole: bool
    raw_bytes: int
    reading_seconds: float = 0.0
    cut_short: bool = False
    unreadable: int = 0

    @property
    def sampled_characters(self) -> int:
        """The number of characters in the texts that were kept."""
        return sum(len(record.text) for record in self.sampled)


class _SamplingTally(Tally):
    """Lets a source parse one record of every `stride`: it only locates the others."""

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
        """Add the time since the record was entered: it was parsed until now."""
        if self._entered is not None:
            self.parsing_seconds += time.process_time() - self._entered
            self._entered = None


@dataclass(slots=True, kw_only=True)
class _Read:
    """Holds what was read of one slice. parse: about how many bytes of its records; it represents that share of all

    records, found_bytes:       those that were located, parsed or not
    parsed_bytes, characters:   those that were parsed
    """

    piece: Slice
    parse: float
    records: int = 0
    found_bytes: int = 0
    parsed_bytes: int = 0
    characters: int = 0
    kept: list[Record] = field(default_factory=list)
    read_bytes: int = 0
    seconds: float = 0.0
    parsing_seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """True if every record is kept."""
        return len(self.kept) == self.records and self.read_bytes >= self.piece.stop - self.piece.start

    @property
    def all_characters(self) -> float:
        """The characters of all located records, estimated from those that were parsed."""
        located, parsed = (self.found_bytes, self.parsed_bytes) if self.parsed_bytes else (self.records, len(self.kept))
        return self.characters * located / max(1, parsed)

    def take(self, record: Record) -> None:
        """Count one more record: parsed, or passed over."""
        self.records += 1
        self.found_bytes += record.locator.length
        if record.drop is not SKIPPED:
            self.kept.append(record)
            self.parsed_bytes += record.locator.length
            self.characters += len(record.text)


def sample_source(
    source: Source, files: Sequence[RawFile], seconds: float = SECONDS, least: int = LEAST_READ
) -> SourceSample:
    """Return a sample of some raw files of a source.

    seconds: of processor time, from which on no other slice is read; least: bytes of records, where a hundredth is less
    """
    began = time.process_time()
    pieces = cut_files(source, files)
    raw_bytes = sum(map(_size, pieces))
    chosen = _in_windows(pieces, raw_bytes, min(max(SHARE * raw_bytes, least), MOST_READ))
    reads, unreadable = list[_Read](), list[_Read]()
    for read in spread(chosen):
        if reads and time.process_time() > began + seconds:
            break
        start = time.process_time()
        try:
            _read(source, read, began + seconds)
            read.seconds = time.process_time() - start
            reads.append(read)
        except FileFault:
            unreadable.append(read)
    spent = time.process_time() - began
    weights = [(read, raw_bytes * read.parse / max(1, read.read_bytes)) for read in reads]
    tried = max(1.0, sum(read.parse for read in (*reads, *unreadable)))
    sampled = [record for read in chosen for record in read.kept]
    whole = len(reads) == len(pieces) and all(read.whole for read in reads)
    while len(sampled) > 2 * LEAST_RECORDS and sum(len(record.text) for record in sampled) > 2 * KEPT:
        sampled, whole = sampled[::2], False
    return SourceSample(
        records=sum(read.records * weight for read, weight in weights) / tried,
        characters=sum(read.all_characters * weight for read, weight in weights) / tried,
        sampled=tuple(sampled),
        whole=whole,
        raw_bytes=raw_bytes,
        reading_seconds=_reading_seconds(reads[1:] or reads, raw_bytes),
        cut_short=spent > seconds,
        unreadable=len(unreadable),
    )


def _size(piece: Slice) -> int:
    return piece.stop - piece.start


def _in_windows(pieces: Sequence[Slice], raw_bytes: int, most: float) -> list[_Read]:
    """Return the slices to read, in order: all of them if they have at most `most` bytes."""
    if most >= raw_bytes:
        return [_Read(piece=piece, parse=max(1, _size(piece))) for piece in pieces]
    window, distance = most / PLACES, raw_bytes / PLACES
    chosen, start = [], distance / 2
    for piece in pieces:
        end = start + _size(piece)
        if _size(piece) >= window:
            parse = window * (end // distance - start // distance)
        else:
            parse = _size(piece) if start % distance < window else 0
        chosen += [_Read(piece=piece, parse=parse)] if parse else []
        start = end
    return chosen


def _read(source: Source, read: _Read, deadline: float) -> None:
    """Read a slice, and parse about as many bytes of its records as it says. Raises FileFault."""
    piece, whole = read.piece, _size(read.piece)
    packed = is_packed(piece.file.name)
    look_through = max(FOUND * read.parse, LOOKED_THROUGH)
    unpacked = min(look_through, whole * UNPACKED) if packed else whole
    tally = _SamplingTally(max(1, round(unpacked / read.parse)) if read.parse < whole else 1)
    read.read_bytes = whole
    with naming_file(source, piece.file):
        for record in source.records(piece, tally):
            tally.leave()
            read.parsing_seconds = tally.parsing_seconds
            read.take(record)
            late = read.records % 64 == 0 and time.process_time() > deadline
            if not late and read.found_bytes < look_through and read.characters < 2 * read.parse:
                continue
            position = min(_position(record, read), whole)
            if late or record.locator.stream < 0 or position >= LEAST_PACKED:
                read.read_bytes = position
                return


def _position(record: Record, read: _Read) -> int:
    """Return how many bytes of a slice are read once this record is; for a packed file, how far it is read there."""
    piece, locator = read.piece, record.locator
    if piece.file.name.lower().endswith(PARQUET_ENDINGS):
        rows = count_rows(Path(piece.file.path), piece.start, piece.stop)
        return max(1, round(_size(piece) * read.records / max(1, rows)))
    if locator.stream < 0 and locator.offset >= piece.start:
        return max(1, locator.offset + locator.length - piece.start)
    return max(1, (_opened_at(Path(piece.file.path)) or piece.stop) - piece.start)


def _opened_at(path: Path) -> int:
    """Return how far this process has read a file that it has open; 0 if it has none open."""
    real, furthest = str(path.resolve()), 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            if str(link.readlink()) == real:
                fields = (Path("/proc/self/fdinfo") / link.name).read_text(encoding="ascii").split()
                furthest = max(furthest, int(fields[1]))
        except FileNotFoundError:  # the folder's own descriptor is closed by now
            continue
    return furthest


def spread(items: Sequence[Item]) -> Iterator[Item]:
    """Yield items in an order of which every beginning is spread evenly: their numbers by reversed bits.

    >>> list(spread([0, 1, 2, 3, 4, 5]))
    [0, 4, 2, 1, 5, 3]
    """
    bits = max(1, (len(items) - 1).bit_length())
    order = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(1 << bits))
    return (items[number] for number in order if number < len(items))


def _reading_seconds(reads: Sequence[_Read], raw_bytes: int) -> float:
    """Return processor time for a whole source, by some reads of it; not all that they located was parsed."""
    spent, parsing = sum(read.seconds for read in reads), sum(read.parsing_seconds for read in reads)
    located, parsed = sum(read.found_bytes for read in reads), sum(read.parsed_bytes for read in reads)
    more = raw_bytes / max(1, sum(read.read_bytes for read in reads))
    return more * (spent - parsing + parsing * located / max(1, parsed))
