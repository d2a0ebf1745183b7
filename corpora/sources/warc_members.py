"""Bytes of WARC archives: gzip members one after another, a zstd stream or a plain file, as buffered readers.

Promises: a member is decompressed to its end and its checksum compared, or an `ArchiveFault` says where the
file is damaged or cut off; a line that begins like a record's head is counted as it is decompressed, before
anybody looks for records. What no reader can see is a file cut off exactly between two members.
A zstd stream is one member, whatever frames it has; one that needs a dictionary is refused.
Costs: zlib's own; with the cutting of records 200 MB of pages a second. Memory: a piece of 256 kB.
"""

import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

READ_BYTES = 1 << 14
PIECE_BYTES = 1 << 18
GZIP_START = b"\x1f\x8b\x08"
RECORD_START = b"WARC/"
START_LINE = b"\n" + RECORD_START


class ArchiveFault(ValueError):
    """An archive that cannot be read on: what is wrong, the byte where that was seen, and what mends it."""

    def __init__(self, message: str, position: int, remedy: str = "Get the file again.") -> None:
        super().__init__(message)
        self.position = position
        self.remedy = remedy


class Member(io.RawIOBase):
    """A gzip member, or a whole file, plain or of zstd: decompressed bytes by `readinto`.

    stream:     where the member begins in the file; -1: the file is not compressed
    end:        the byte after it, known once it is read to its end
    num_starts: lines read so far that begin like a record's head
    """

    def __init__(self, file: BinaryIO, start: int, packing: str) -> None:
        self.stream = start if packing else -1
        self.end = start
        self.num_starts = 0
        self._tail = b"\n"  # so that a head at the very start is one after a line's end
        reads = {"gz": self._gzip_pieces, "zst": self._zstd_pieces, "": self._plain_pieces}
        self._pieces = reads[packing](file, start)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill some of a buffer; 0 at the end. Raises ArchiveFault."""
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

    def _plain_pieces(self, file: BinaryIO, start: int) -> Iterator[bytes]:
        file.seek(start)
        while piece := file.read(PIECE_BYTES):
            self.end += len(piece)
            yield piece

    def _zstd_pieces(self, file: BinaryIO, start: int) -> Iterator[bytes]:
        file.seek(start)
        try:
            with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as stream:
                while piece := stream.read(PIECE_BYTES):
                    yield piece
                self.end = start + 1
        except OSError as error:
            remedy = "Get the file again; if it was made with a dictionary, decompress it with `zstd -d`."
            raise ArchiveFault(f"its zstd stream cannot be read: {error}", start, remedy) from error

    def _gzip_pieces(self, file: BinaryIO, start: int) -> Iterator[bytes]:
        file.seek(start)
        decompressor, position, data = zlib.decompressobj(wbits=31), start, b""
        while not decompressor.eof:
            if not data:
                data = file.read(READ_BYTES)
                position += len(data)
                if not data:
                    raise ArchiveFault(f"the file is cut off in the gzip member at byte {start}", position)
            try:
                piece = decompressor.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise ArchiveFault(f"the gzip member at byte {start} is damaged", position) from error
            data = decompressor.unconsumed_tail
            if piece:
                yield piece
        self.end = position - len(decompressor.unused_data)


def packing_of(path: Path) -> str:
    """How an archive is compressed, by its name: "gz", "zst" or not at all, ""."""
    ending = path.name.lower().rpartition(".")[2]
    return ending if ending in ("gz", "zst") else ""


def members(path: Path, start: int, stop: int) -> Iterator[Member]:
    """The members that begin in bytes `start` to `stop` of a file, which is one if not of gzip. Raises ArchiveFault.

    `start` must be the first byte of a member. Each must be read to its end before the next is asked for.
    """
    with path.open("rb") as file:
        if (packing := packing_of(path)) != "gz":
            yield Member(file, start, packing)
            return
        while start < stop and _begins_member(file, start):
            member = Member(file, start, packing)
            yield member
            start = member.end


def begins_member(path: Path, at: int) -> bool:
    """Whether a gzip member begins at a byte that ends another, and not the padding or the file's end.

    Raises ArchiveFault for anything else.
    """
    with path.open("rb") as file:
        return _begins_member(file, at)


def _begins_member(file: BinaryIO, at: int) -> bool:
    file.seek(at)
    head = file.read(len(GZIP_START))
    if GZIP_START.startswith(head):
        return bool(head)
    while head:
        if head.strip(b"\0"):
            raise ArchiveFault(f"no gzip member begins at byte {at}, where the one before ends", at)
        head = file.read(PIECE_BYTES)
    return False


def next_member(path: Path, at: int) -> int | None:
    """The first byte from `at` on where a member with a record seems to begin; None where none does.

    Seems, for a page that is itself an archive may hold such bytes: who cuts a file here must see that the
    members before it end here too.
    """
    with path.open("rb") as file:
        for position in _find_all(file, GZIP_START, at):
            file.seek(position)
            try:
                head = zlib.decompressobj(wbits=31).decompress(file.read(READ_BYTES), len(RECORD_START))
            except zlib.error:
                continue  # bytes that look like a member and are none
            if head == RECORD_START:
                return position
    return None


def _find_all(file: BinaryIO, mark: bytes, start: int) -> Iterator[int]:
    file.seek(start)
    buffer, base = b"", start
    while piece := file.read(PIECE_BYTES):
        buffer += piece
        after, found = base + len(buffer), buffer.find(mark)
        while found >= 0:
            yield base + found
            found = buffer.find(mark, found + 1)
        buffer = buffer[len(buffer) - len(mark) + 1 :]
        base = after - len(buffer)
        file.seek(after)
