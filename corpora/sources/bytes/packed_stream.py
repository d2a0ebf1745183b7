"""One compressed stream, of gzip, bzip2 or xz: the loop of all readers that must know the end of a stream.

Promises: no more than `PIECE_BYTES` are given out at a time, whatever the bytes unpack to. The stream is read to its
end and its checksums are compared, or the fault is raised that the reader makes of it.
Costs: the decompressor's own. Memory: one piece, and the decompressor's window.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, Protocol

from corpora.sources.bytes.faults import DAMAGE_ERRORS, DamagedBytes

PIECE_BYTES = 1 << 18
MAX_DECODER_BYTES = 200_000_000  # of xz: its own presets need 67 MB at most

# A fault from the byte where it was seen, and what the library said; None: the bytes end too soon.
FaultMaker = Callable[[int, Exception | None], DamagedBytes]


class Decompressor(Protocol):
    """The interface that the standard library's bzip2 and xz decompressors have in common."""

    @property
    def eof(self) -> bool:
        """True if the end of the compressed stream was reached."""

    @property
    def needs_input(self) -> bool:
        """True if more compressed bytes are needed before more can be returned."""

    @property
    def unused_data(self) -> bytes:
        """The bytes found after the end of the compressed stream."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Give the decompressor further compressed bytes, and return at most `max_length` decompressed bytes.

        If `needs_input` is False, `data` may be b"".
        """


class GzipDecompressor:
    """A decompressor for a single gzip member, with the `Decompressor` interface."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        """True if the end of the compressed stream was reached."""
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        """True if more compressed bytes are needed before more can be returned."""
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """The bytes found after the end of the compressed stream."""
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Give the decompressor further compressed bytes, and return at most `max_length` decompressed bytes.

        Raises:
            zlib.error: If the bytes are damaged or not gzip.
        """
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


DECOMPRESSORS: Mapping[str, Callable[[], Decompressor]] = {
    "gz": GzipDecompressor,
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, MAX_DECODER_BYTES),
}


def format_max_memory() -> str:
    """Format the memory limit of the xz decompressor for a message, such as "200 MB"."""
    return f"{MAX_DECODER_BYTES // 1_000_000} MB"


class PackedStream:
    """A compressed stream that is being decompressed.

    `position` is the next byte of the file to read. At the end of the stream, `rest` contains the bytes after the
    stream that have already been read.

    Args:
        packing: "gz", "bz2" or "xz".
        packed: The bytes of the stream, in chunks.
        position: Byte in the file at which these chunks begin.
        fault: Builds the error to raise. It is called with a byte position and the library's error, which is None if
            the bytes end too early.
        first: Bytes of the stream that were already read from the file. They precede `packed`.
    """

    def __init__(self, packing: str, packed: Iterator[bytes], position: int, fault: FaultMaker, first: bytes = b""):
        self.packing, self.packed, self.position, self.fault = packing, packed, position, fault
        self.rest = first

    def iter_pieces(self) -> Iterator[bytes]:
        """Yield the decompressed bytes in chunks of at most PIECE_BYTES.

        Raises:
            DamagedBytes: If the stream is damaged or truncated.
        """
        decompressor, data = DECOMPRESSORS[self.packing](), self.rest
        while not decompressor.eof:  # which comes after the checksums were compared
            if decompressor.needs_input and not data:
                data = next(self.packed, b"")
                self.position += len(data)
                if not data:
                    raise self.fault(self.position, None)
            try:
                piece = decompressor.decompress(data, PIECE_BYTES)
            except DAMAGE_ERRORS[self.packing] as error:
                raise self.fault(self.position, error) from error
            data = b""
            if piece:
                yield piece
        self.rest = decompressor.unused_data


def read_in_pieces(file: BinaryIO, start: int, stop: int, size: int) -> Iterator[bytes]:
    """Yield bytes `start` up to, but not including, `stop` of an open file, in chunks of `size` bytes.

    The last chunk may be shorter. If the file ends before `stop`, the iterator ends there without an error.
    """
    file.seek(start)
    while start < stop and (data := file.read(min(size, stop - start))):
        yield data
        start += len(data)
