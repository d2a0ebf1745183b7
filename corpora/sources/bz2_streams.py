"""Bytes of dumps in pieces: bzip2 streams one after another, or a plain file.

Memory is bounded by the piece, never by the file. bzip2 keeps a checksum per block and compares it when the
block has been given out, so bytes of a damaged block reach the reader before the damage is known: `verified`
holds back as much as one block can become. Cost: the decompressor's own (about 30 MB/s of text).
"""

import bz2
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

READ_BYTES = 1 << 16
PIECE_BYTES = 1 << 18
# A block holds 900,000 run-length encoded bytes; five of them stand for at most 259.
MOST_BLOCK_BYTES = 900_000 * 259 // 5
STREAM_START = b"BZh"
BLOCK_START = bytes.fromhex("314159265359")


class Piece(NamedTuple):
    """Decompressed bytes, `offset` bytes into the stream at byte `stream` of the file (-1: a plain file)."""

    stream: int
    offset: int
    data: bytes


class StreamFault(ValueError):
    """A stream that cannot be read to its end. `truncated`: the file ends before the stream does."""

    def __init__(self, stream: int, position: int, truncated: bool) -> None:
        super().__init__(f"the bzip2 stream at byte {stream} {'is cut off' if truncated else 'is damaged'}")
        self.stream = stream
        self.position = position
        self.truncated = truncated


def plain_pieces(path: Path, start: int, stop: int) -> Iterator[Piece]:
    """Bytes `start` to `stop` of a file that is not compressed."""
    with path.open("rb") as file:
        file.seek(start)
        while start < stop and (data := file.read(min(PIECE_BYTES, stop - start))):
            yield Piece(-1, start, data)
            start += len(data)


def stream_pieces(path: Path, start: int, stop: int) -> Iterator[Piece]:
    """The streams that begin in bytes `start` to `stop` of a file. Raises StreamFault.

    `start` must be the first byte of a stream. A stream is read no further than `stop`.
    """
    with path.open("rb") as file:
        while start < stop:
            reader = _StreamReader(file, start, stop)
            yield from reader.pieces()
            start = reader.end


class _StreamReader:
    """One stream. `end` is the byte after it, known once `pieces` is exhausted."""

    def __init__(self, file: BinaryIO, start: int, stop: int) -> None:
        self.file, self.start, self.stop = file, start, stop
        self.end = start

    def pieces(self) -> Iterator[Piece]:
        """The stream's bytes as they are decompressed. Raises StreamFault where it is damaged or cut off."""
        self.file.seek(self.start)
        decompressor, position, offset = bz2.BZ2Decompressor(), self.start, 0
        while not decompressor.eof:
            data = b""
            if decompressor.needs_input:
                data = self.file.read(min(READ_BYTES, self.stop - position))
                position += len(data)
                if not data:
                    raise StreamFault(self.start, position, truncated=True)
            try:
                out = decompressor.decompress(data, PIECE_BYTES)
            except OSError as error:
                raise StreamFault(self.start, position, truncated=False) from error
            if out:
                yield Piece(self.start, offset, out)
                offset += len(out)
        self.end = position - len(decompressor.unused_data)


def verified(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Pieces whose block's checksum has been compared; what a faulty stream gave unchecked stops here.

    Holds back a stream's last 47 MB, so an ordinary stream of a hundred pages passes whole or not at all.
    """
    held: deque[Piece] = deque()
    size = 0
    try:
        for piece in pieces:
            if held and held[-1].stream != piece.stream:
                yield from held
                held.clear()
                size = 0
            held.append(piece)
            size += len(piece.data)
            while size - len(held[0].data) >= MOST_BLOCK_BYTES:
                size -= len(held[0].data)
                yield held.popleft()
    except StreamFault as fault:
        if held and held[-1].stream != fault.stream:
            yield from held  # of the stream before, which ended well
        raise
    yield from held


def begins_stream(file: BinaryIO, offset: int) -> bool:
    """Whether a stream with at least one block begins at this byte."""
    file.seek(offset)
    head = file.read(len(STREAM_START) + 1 + len(BLOCK_START))
    return head.startswith(STREAM_START) and head[4:] == BLOCK_START


def read_at(path: Path, stream: int, offset: int, length: int) -> bytes:
    """`length` decompressed bytes from `offset` of the stream at byte `stream` (-1: the file itself) onwards.

    Reads on into the following streams where the bytes do. Raises StreamFault.
    """
    size = path.stat().st_size
    pieces = plain_pieces(path, offset, size) if stream < 0 else stream_pieces(path, stream, size)
    skip = 0 if stream < 0 else offset
    found = bytearray()
    for piece in pieces:
        found += piece.data[skip : skip + length - len(found)]
        skip = max(0, skip - len(piece.data))
        if len(found) >= length:
            break
    return bytes(found)
