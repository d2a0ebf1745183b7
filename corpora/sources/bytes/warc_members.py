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
    """The decompressed bytes of a gzip member, or of a whole file that is uncompressed or zstd-compressed.

    stream:     byte in the file at which the member begins, or -1 if the file is not compressed
    end:        byte after the member, once it has been read to its end; for zstd only the byte after its first byte
    num_starts: number of lines read so far that look like the start of a record header
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
        """Return True. The stream is readable."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read decompressed bytes into a buffer, and return their number, which is 0 only at the end.

        The buffer may not be filled completely.

        Raises:
            DamagedBytes: If the compressed bytes are damaged or truncated.
        """
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
        """Yield the bytes of an uncompressed file in chunks, beginning at byte `start`."""
        for piece in read_in_pieces(file, start, FILE_END, PIECE_BYTES):
            self.end += len(piece)
            yield piece

    def _iter_zstd_pieces(self, file: BinaryIO, start: int) -> Iterator[bytes]:
        """Yield the decompressed bytes of a zstd file in chunks.

        Raises:
            DamagedBytes: During iteration, if the file is damaged or needs a dictionary.
        """
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
        """Yield the decompressed bytes of the gzip member that begins at byte `start` of a file, in chunks.

        Raises:
            DamagedBytes: During iteration, if the member is damaged or truncated.
        """

        def fault(position: int, error: Exception | None) -> DamagedBytes:
            if error is None:
                return DamagedBytes(f"the file is cut off in the gzip member at byte {start}", position, truncated=True)
            return DamagedBytes(f"the gzip member at byte {start} is damaged", position)

        stream = PackedStream("gz", read_in_pieces(file, start, FILE_END, READ_BYTES), start, fault)
        yield from stream.iter_pieces()
        self.end = stream.position - len(stream.rest)


def find_packing(path: Path) -> str:
    """Return the compression of an archive, judged by its name: "gz", "zst", or "" if it is not compressed."""
    ending = path.name.lower().rpartition(".")[2]
    return ending if ending in ("gz", "zst") else ""


def iter_members(path: Path, start: int, stop: int) -> Iterator[WarcMember]:
    """Yield the gzip members that begin in bytes `start` to `stop` of a file. Any other file is yielded as one member.

    Each member must be read to its end before the next one is requested.

    Args:
        path: Path of the file.
        start: Byte at which the first member begins.
        stop: Members that begin at or after this byte are not read.

    Raises:
        DamagedBytes: During iteration, if the bytes after a member are neither another member nor zero padding. Reading
            a damaged member raises it, too.
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
    """Return True if a gzip member begins at byte `at` of a file, and False for padding or the end of the file.

    Args:
        path: Path of the file.
        at: Byte at which the previous member ends.

    Raises:
        DamagedBytes: If anything else begins there.
    """
    with path.open("rb") as file:
        return _is_member_start(file, at)


def _is_member_start(file: BinaryIO, at: int) -> bool:
    """Return True if a gzip member begins at byte `at` of an open file, and False for padding or the end of the file.

    Raises:
        DamagedBytes: If anything else begins there.
    """
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
    """Find the next byte, at or after `at`, at which a gzip member with a record seems to begin.

    The result may be wrong, because a page that is itself an archive can contain such bytes. Before splitting a file
    there, the caller must check that the preceding members end at the same position.

    Args:
        path: Path of the file.
        at: First byte to search.
        stop: The member must begin before this byte.

    Returns:
        The position in the file; None if there is none.
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
    """Yield the positions of the byte string `mark` in bytes `start` to `stop` of an open file, in ascending order."""
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
