"""Bytes of WARC archives: gzip members one after another, a zstd stream or a plain file, as buffered readers.

Promises: a member is decompressed to its end and its checksum compared, or a `DamagedBytes` says at which byte the
file is damaged or cut off; a line that begins like a record's head is counted as it is decompressed, before
anybody looks for records. What no reader can see is a file cut off exactly between two members.
A zstd stream is one member, whatever frames it has; one that needs a dictionary is refused.
Costs: zlib's own; with the cutting of records 200 MB of pages a second. Memory: a piece of 256 kB, and the
decompressor's window (zstd's: 128 MB at most).
"""

import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from corpora.sources.bytes.faults import DAMAGE_ERRORS, DamagedBytes
from corpora.sources.bytes.packed_stream import PIECE_BYTES, PackedStream, read_in_pieces

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

READ_BYTES = 1 << 14
FILE_END = 1 << 63  # a place that no file reaches
GZIP_START = b"\x1f\x8b\x08"
RECORD_START = b"WARC/"
START_LINE = b"\n" + RECORD_START


class WarcMember(io.RawIOBase):
    """The decompressed bytes of a gzip member, or of a whole file that is plain or of zstd.

    stream:     position of the member in the file; -1: the file is not compressed
    end:        the byte after it, known once it is read to its end
    num_starts: number of lines read so far that begin like a record's head
    """

    def __init__(self, file: BinaryIO, start: int, packing: str) -> None:
        self.stream = start if packing else -1
        self.end = start
        self.num_starts = 0
        self._tail = b"\n"  # so that a head at the very start is one after a line's end
        reads = {"gz": self._iter_gzip_pieces, "zst": self._iter_zstd_pieces, "": self._iter_plain_pieces}
        self._pieces = reads[packing](file, start)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill some of a buffer; return the number of bytes, 0 at the end. Raises DamagedBytes."""
        view = memoryview(buffer).cast("B")
        if not self._left:
            piece = next(self._pieces, b"")
            self.num_starts += (self._tail + piece).count(START_LINE)
            self._tail = (self._tail + piece)[-len(RECORD_START) :]
            self._left = memoryview(piece)
        size = min(len(view), len(self._left))
        view[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def _iter_plain_pieces(self, file: BinaryIO, start: int) -> Iterator[bytes]:
        for piece in read_in_pieces(file, start, FILE_END, PIECE_BYTES):
            self.end += len(piece)
            yield piece

    def _iter_zstd_pieces(self, file: BinaryIO, start: int) -> Iterator[bytes]:
        file.seek(start)
        try:
            with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as stream:
                while piece := stream.read(PIECE_BYTES):
                    yield piece
                self.end = start + 1
        except DAMAGE_ERRORS["zst"] as error:
            remedy = "Get the file again; if it was made with a dictionary, decompress it with `zstd -d`."
            raise DamagedBytes(f"its zstd stream cannot be read: {error}", start, remedy=remedy) from error

    def _iter_gzip_pieces(self, file: BinaryIO, start: int) -> Iterator[bytes]:
        def fault(position: int, error: Exception | None) -> DamagedBytes:
            if error is None:
                return DamagedBytes(f"the file is cut off in the gzip member at byte {start}", position, truncated=True)
            return DamagedBytes(f"the gzip member at byte {start} is damaged", position)

        stream = PackedStream("gz", read_in_pieces(file, start, FILE_END, READ_BYTES), start, fault)
        yield from stream.iter_pieces()
        self.end = stream.position - len(stream.rest)


def find_packing(path: Path) -> str:
    """Return how an archive is compressed, by its name: "gz", "zst", or "" for not at all."""
    ending = path.name.lower().rpartition(".")[2]
    return ending if ending in ("gz", "zst") else ""


def iter_members(path: Path, start: int, stop: int) -> Iterator[WarcMember]:
    """Yield the members that begin in bytes `start` to `stop` of a file; a file that is not of gzip is one.

    Each must be read to its end before the next is asked for.

    Args:
        path: The file.
        start: The first byte of a member.
        stop: No member that begins here or later is read.

    Raises:
        DamagedBytes: If no member begins at the end of another, or one is damaged.
    """
    with path.open("rb") as file:
        if (packing := find_packing(path)) != "gz":
            yield WarcMember(file, start, packing)
            return
        while start < stop and _is_member_start(file, start):
            member = WarcMember(file, start, packing)
            yield member
            start = member.end


def is_member_start(path: Path, at: int) -> bool:
    """Return True if a gzip member begins at a byte at which another ends, and not the padding or the file's end.

    Raises:
        DamagedBytes: If anything else is there.
    """
    with path.open("rb") as file:
        return _is_member_start(file, at)


def _is_member_start(file: BinaryIO, at: int) -> bool:
    file.seek(at)
    head = file.read(len(GZIP_START))
    if GZIP_START.startswith(head):
        return bool(head)
    while head:
        if head.strip(b"\0"):
            raise DamagedBytes(f"no gzip member begins at byte {at}, where the one before ends", at)
        head = file.read(PIECE_BYTES)
    return False


def find_next_member(path: Path, at: int, stop: int = FILE_END) -> int | None:
    """Find the first byte from `at` on at which a gzip member with a record seems to begin; None if there is none.

    It only seems to, for a page that is itself an archive may hold such bytes: who cuts a file here must check that the
    members before it end here too.
    """
    with path.open("rb") as file:
        for position in _find_all(file, GZIP_START, at, stop):
            file.seek(position)
            try:
                head = zlib.decompressobj(wbits=31).decompress(file.read(READ_BYTES), len(RECORD_START))
            except DAMAGE_ERRORS["gz"]:
                continue  # bytes that look like a member and are none
            if head == RECORD_START:
                return position
    return None


def _find_all(file: BinaryIO, mark: bytes, start: int, stop: int) -> Iterator[int]:
    """Yield the positions of `mark` from `start` on and before `stop`."""
    file.seek(start)
    buffer, base = b"", start
    while base < stop and (piece := file.read(PIECE_BYTES)):
        buffer += piece
        after, place = base + len(buffer), buffer.find(mark)
        while place >= 0 and base + place < stop:
            yield base + place
            place = buffer.find(mark, place + 1)
        buffer = buffer[len(buffer) - len(mark) + 1 :]
        base = after - len(buffer)
        file.seek(after)
