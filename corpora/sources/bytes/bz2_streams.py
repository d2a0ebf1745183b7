"""Bytes of dumps in pieces: bzip2 streams one after another, a zstd file, or a plain one.

Memory is bounded by the piece and the decompressor's window, never by the file. bzip2 keeps a checksum per block and
compares it when the block has been given out, so bytes of a damaged block reach the reader before the damage is known:
`verify_pieces` holds back as much as one block can become. Cost: the decompressor's own (about 30 MB/s of text).
"""

import codecs
import mmap
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from corpora.sources.bytes.faults import DAMAGE_ERRORS, DamagedBytes
from corpora.sources.bytes.objects import ObjectPath, open_for_library
from corpora.sources.bytes.packed_stream import PIECE_BYTES, PackedStream, read_in_pieces

READ_BYTES = 1 << 16
# A block holds 900,000 run-length encoded bytes; five of them encode at most 259.
MAX_BLOCK_BYTES = 900_000 * 259 // 5
STREAM_START = b"BZh"
BLOCK_START = bytes.fromhex("314159265359")
OPENING_BYTES = len(STREAM_START) + 1 + len(BLOCK_START)
WINDOW_BYTES = 1 << 24  # of an object, which cannot be mapped into memory


class StreamPiece(NamedTuple):
    """A chunk of decompressed bytes of a compressed stream.

    Attributes:
        stream: Byte in the file at which the compressed stream begins, or -1 for an uncompressed file.
        offset: Position of the chunk in the decompressed stream, in bytes. If UTF-16 is converted, in UTF-8 bytes.
        data: The bytes.
    """

    stream: int
    offset: int
    data: bytes


def build_stream_fault(stream: int, position: int, truncated: bool) -> DamagedBytes:
    """Build the error for a damaged stream or uncompressed text.

    Args:
        stream: Byte in the file at which the stream begins, or -1 for an uncompressed file.
        position: Byte in the file at which the damage was found.
        truncated: True if the file ends before the stream does.
    """
    what = f"the compressed stream at byte {stream}" if stream >= 0 else "the text"
    message = f"{what} {'is cut off' if truncated else 'is damaged'}"
    return DamagedBytes(message, position, stream=stream, truncated=truncated)


def read_plain_pieces(path: Path, start: int, stop: int) -> Iterator[StreamPiece]:
    """Yield bytes `start` to `stop` of an uncompressed file in chunks of at most PIECE_BYTES.

    If the file ends before `stop`, the iterator ends there without an error.

    Raises:
        OSError: During iteration, if the file cannot be read.
    """
    with path.open("rb") as file:
        if start:  # a pipe can be read, but not sought in
            file.seek(start)
        while start < stop and (data := file.read(min(PIECE_BYTES, stop - start))):
            yield StreamPiece(-1, start, data)
            start += len(data)


def read_bz2_pieces(path: Path, start: int, stop: int) -> Iterator[StreamPiece]:
    """Yield the decompressed bytes of the bzip2 streams that begin in bytes `start` to `stop` of a file, in chunks.

    Args:
        path: Path of the file.
        start: Byte at which the first stream begins.
        stop: Byte after the last stream. No stream is read past it.

    Raises:
        DamagedBytes: During iteration, if a stream is damaged or truncated.
    """
    with path.open("rb") as file:
        while start < stop:
            stream, offset = _open_bz2_stream(file, start, stop), 0
            for data in stream.iter_pieces():
                yield StreamPiece(start, offset, data)
                offset += len(data)
            start = stream.position - len(stream.rest)


def _open_bz2_stream(file: BinaryIO, start: int, stop: int) -> PackedStream:
    """Return the bzip2 stream that begins at byte `start` of an open file. It is not read past byte `stop`."""

    def fault(position: int, error: Exception | None) -> DamagedBytes:
        return build_stream_fault(start, position, truncated=error is None)

    return PackedStream("bz2", read_in_pieces(file, start, stop, READ_BYTES), start, fault)


def read_zstd_pieces(path: Path, start: int, stop: int) -> Iterator[StreamPiece]:
    """Yield the decompressed bytes of a zstd file in chunks of at most PIECE_BYTES.

    Zstd files are never split, so `start` must be 0 and `stop` the size of the file.

    Raises:
        DamagedBytes: During iteration, if the file is damaged or truncated.
    """
    offset = 0
    try:
        with pa.input_stream(open_for_library(path), compression="zstd") as stream:
            while data := stream.read(PIECE_BYTES):
                yield StreamPiece(0, offset, data)
                offset += len(data)
    except DAMAGE_ERRORS["zst"] as error:
        raise build_stream_fault(0, stop, truncated="truncated" in str(error).lower()) from error


def choose_reader(path: Path) -> Callable[[Path, int, int], Iterator[StreamPiece]]:
    """Choose the function that reads a file by the file's extension: bzip2 (.bz2), zstd (.zst) or uncompressed.

    The function is called with the path, the first byte of a range, and the first byte after it. It yields chunks.
    """
    if path.name.endswith(".bz2"):
        return read_bz2_pieces
    return read_zstd_pieces if path.name.endswith(".zst") else read_plain_pieces


def is_utf16(data: bytes) -> bool:
    """Return True if data begins with a UTF-16 byte order mark."""
    return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def as_utf8(pieces: Iterator[StreamPiece]) -> Iterator[StreamPiece]:
    """Convert chunks of UTF-16 text with a byte order mark to UTF-8. Chunks of any other text are yielded unchanged.

    Unpaired surrogates are preserved, so a page that contains one is not valid XML.

    Raises:
        DamagedBytes: During iteration, if the text ends within a character.
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
            yield StreamPiece(first.stream, offset, text)
            offset += len(text)
        following = next(pieces, None)
        data = following.data if following else b""
    if decoder.getstate()[0]:
        raise build_stream_fault(first.stream, offset, truncated=True)


def find_streams(path: Path) -> list[int]:
    """Find the positions at which nonempty bzip2 streams begin in a file, in ascending order.

    Streams are recognized by their first ten bytes, which occur by chance once in 2^77 bytes. The compressed file is
    read once, at about 1.2 GB/s.
    """
    with path.open("rb") as file:
        if not path.stat().st_size:
            return []
        if isinstance(path, ObjectPath):
            return [base + start for base, data in _iter_windows(file) for start in _find_starts(data)]
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return list(_find_starts(data))


def _iter_windows(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield (byte offset, bytes) for overlapping windows of a file, each of about 16 MB.

    Because of the overlap, the ten bytes that start a bzip2 stream are always complete in one of the windows.
    """
    kept, base = b"", 0
    while data := file.read(WINDOW_BYTES):
        window = kept + data
        yield base, window
        kept = window[max(0, len(window) - OPENING_BYTES + 1) :]
        base += len(window) - len(kept)


def _find_starts(data: mmap.mmap | bytes) -> Iterator[int]:
    """Yield the positions in `data` at which a nonempty bzip2 stream begins, in ascending order."""
    lead = len(STREAM_START) + 1
    at = data.find(BLOCK_START)
    while at >= 0:
        level = data[at - 1 : at] if at else b""
        if at >= lead and data[at - lead : at - 1] == STREAM_START and b"1" <= level <= b"9":
            yield at - lead
        at = data.find(BLOCK_START, at + 1)


def verify_pieces(pieces: Iterator[StreamPiece]) -> Iterator[StreamPiece]:
    """Yield chunks unchanged, but only after the checksum of their bzip2 block has been verified.

    Chunks of a damaged block are never yielded. The last 47 MB of a stream are held back, so a typical stream of a
    hundred pages is yielded completely or not at all.

    Raises:
        DamagedBytes: During iteration, when `pieces` raises it, after the chunks of earlier streams.
    """
    held: deque[StreamPiece] = deque()
    size = 0
    try:
        for piece in pieces:
            if held and held[-1].stream != piece.stream:
                yield from held
                held.clear()
                size = 0
            held.append(piece)
            size += len(piece.data)
            while size - len(held[0].data) >= MAX_BLOCK_BYTES:
                size -= len(held[0].data)
                yield held.popleft()
    except DamagedBytes as fault:
        if held and held[-1].stream != fault.stream:
            yield from held  # of the stream before, which ended well
        raise
    yield from held


def is_stream_start(file: BinaryIO, offset: int) -> bool:
    """Return True if a bzip2 stream with at least one block begins at byte `offset` of an open file."""
    file.seek(offset)
    head = file.read(len(STREAM_START) + 1 + len(BLOCK_START))
    return head.startswith(STREAM_START) and head[4:] == BLOCK_START


def _read_first_bytes(path: Path) -> bytes:
    """Return the first two bytes of a file, which may be a byte order mark."""
    with path.open("rb") as file:
        return file.read(2)


def read_at(path: Path, stream: int, offset: int, length: int) -> bytes:
    """Read `length` decompressed bytes from byte `offset` of the stream that begins at byte `stream` of a file.

    If `stream` is -1, the file is not compressed. Reading continues into the following streams if necessary. UTF-16 is
    converted to UTF-8, and `offset` and `length` then count UTF-8 bytes.

    Returns:
        The bytes. There are fewer than `length` if the file ends early.

    Raises:
        DamagedBytes: If the stream is damaged or truncated.
    """
    size = path.stat().st_size
    pieces, skip = as_utf8(choose_reader(path)(path, max(0, stream), size)), offset
    if stream < 0 and not is_utf16(_read_first_bytes(path)):
        pieces, skip = read_plain_pieces(path, offset, size), 0
    content = bytearray()
    for piece in pieces:
        content += piece.data[skip : skip + length - len(content)]
        skip = max(0, skip - len(piece.data))
        if len(content) >= length:
            break
    return bytes(content)
