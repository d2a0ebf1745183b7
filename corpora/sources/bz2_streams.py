"""Bytes of dumps in pieces: bzip2 streams one after another, a zstd file, or a plain one.

Memory is bounded by the piece, never by the file. bzip2 keeps a checksum per block and compares it when the
block has been given out, so bytes of a damaged block reach the reader before the damage is known: `verified`
holds back as much as one block can become. Cost: the decompressor's own (about 30 MB/s of text).
"""

import bz2
import codecs
import mmap
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

READ_BYTES = 1 << 16
PIECE_BYTES = 1 << 18
# A block holds 900,000 run-length encoded bytes; five of them stand for at most 259.
MOST_BLOCK_BYTES = 900_000 * 259 // 5
STREAM_START = b"BZh"
BLOCK_START = bytes.fromhex("314159265359")


class Piece(NamedTuple):
    """Decompressed bytes, `offset` bytes into the stream at byte `stream` of the file (-1: a plain file).

    Of a text in UTF-16 they are UTF-8, and the offsets are those of the UTF-8.
    """

    stream: int
    offset: int
    data: bytes


class StreamFault(ValueError):
    """A stream that cannot be read to its end. `truncated`: the file ends before the stream does."""

    def __init__(self, stream: int, position: int, truncated: bool) -> None:
        what = f"the compressed stream at byte {stream}" if stream >= 0 else "the text"
        super().__init__(f"{what} {'is cut off' if truncated else 'is damaged'}")
        self.stream = stream
        self.position = position
        self.truncated = truncated


def plain_pieces(path: Path, start: int, stop: int) -> Iterator[Piece]:
    """Bytes `start` to `stop` of a file that is not compressed."""
    with path.open("rb") as file:
        if start:  # a pipe can be read, but not sought in
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


def zstd_pieces(path: Path, start: int, stop: int) -> Iterator[Piece]:
    """A zstd file from its first byte; it is never cut, so `start` is 0 and `stop` its size. Raises StreamFault."""
    offset = 0
    try:
        with pa.input_stream(str(path), compression="zstd") as stream:
            while data := stream.read(PIECE_BYTES):
                yield Piece(0, offset, data)
                offset += len(data)
    except OSError as error:
        raise StreamFault(0, stop, truncated="truncated" in str(error).lower()) from error


def pieces_of(path: Path) -> Callable[[Path, int, int], Iterator[Piece]]:
    """What reads a file, by the ending of its name."""
    if path.name.endswith(".bz2"):
        return stream_pieces
    return zstd_pieces if path.name.endswith(".zst") else plain_pieces


def is_utf16(data: bytes) -> bool:
    """Whether a text that begins so is in UTF-16: by its byte order mark."""
    return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def as_utf8(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """A text of UTF-16, with its byte order mark, as UTF-8; any other text as it is.

    Half a character stays half a character, so that the page that holds it is no XML. Raises StreamFault where
    the text ends within a character.
    """
    first = next(pieces, None)
    if first is None:
        return
    if not is_utf16(first.data):
        yield first
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
    data, offset = first.data, 0
    while data:
        text = decoder.decode(data).encode("utf-8", "surrogatepass")
        if text:
            yield Piece(first.stream, offset, text)
            offset += len(text)
        following = next(pieces, None)
        data = following.data if following else b""
    if decoder.getstate()[0]:
        raise StreamFault(first.stream, offset, truncated=True)


def find_streams(path: Path) -> list[int]:
    """Where the bzip2 streams of a file begin, by the ten bytes that open a stream with a block.

    A pass over the compressed file, about 1.2 GB/s. The ten bytes occur by chance within a stream once in 2^77 bytes.
    """
    with path.open("rb") as file:
        if not path.stat().st_size:
            return []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return list(_starts(data))


def _starts(data: mmap.mmap) -> Iterator[int]:
    lead = len(STREAM_START) + 1
    at = data.find(BLOCK_START)
    while at >= 0:
        level = data[at - 1 : at] if at else b""
        if at >= lead and data[at - lead : at - 1] == STREAM_START and b"1" <= level <= b"9":
            yield at - lead
        at = data.find(BLOCK_START, at + 1)


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


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(2)


def read_at(path: Path, stream: int, offset: int, length: int) -> bytes:
    """`length` decompressed bytes from `offset` of the stream at byte `stream` (-1: the file itself) onwards.

    Reads on into the following streams where the bytes do. Raises StreamFault.
    """
    size = path.stat().st_size
    pieces, skip = as_utf8(pieces_of(path)(path, max(0, stream), size)), offset
    if stream < 0 and not is_utf16(_first_bytes(path)):
        pieces, skip = plain_pieces(path, offset, size), 0
    found = bytearray()
    for piece in pieces:
        found += piece.data[skip : skip + length - len(found)]
        skip = max(0, skip - len(piece.data))
        if len(found) >= length:
            break
    return bytes(found)
