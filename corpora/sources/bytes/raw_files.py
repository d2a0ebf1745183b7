"""The bytes of a raw file, unpacked by its ending, and their lines and their characters.

Promises: `.gz`, `.zst`, `.bz2` and `.xz` are streamed, and so is a line of any length. An encoding is strict: what
is not in it is a bad record that says at which byte, if the encoding's decoder says it, and a zero in a text is one
that says at which character.
Costs: the decompressor's own; a copy of each line. Memory: the decompressor's window, which is bounded: an `.xz` that
would need over 200 MB and a `.zst` with a window of over 128 MB are refused.
"""

import bz2
import codecs
import gzip
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.sources.bytes.archives import read_xz_pieces
from corpora.sources.bytes.faults import BadRecord, DamagedBytes, explain_damage, needs_memory
from corpora.sources.bytes.objects import open_for_library
from corpora.sources.bytes.packed_stream import PIECE_BYTES, read_in_pieces
from corpora.sources.bytes.text_encodings import HEAD_BYTES, guess_wide_encoding
from corpora.store.places.pipes import open_file

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

AUTO = "auto"
BLOCK_BYTES = 1 << 20  # of lines that are read at once: they and what is made of them fit a processor's cache


class Line(NamedTuple):
    """A line or row of a file, without its line ending.

    Attributes:
        offset: Position of its first byte in the (decompressed) file.
        length: Number of bytes. It includes the line ending only if the line is longer than allowed.
        data: Its bytes; None if the line is longer than allowed.
    """

    offset: int
    length: int
    data: bytes | None


def open_raw(path: Path) -> BufferedIOBase:
    """Open a raw file for reading, and decompress it according to its file extension (.gz, .bz2, .xz or .zst).

    The stream raises one of `READ_FAULTS`, which `explain_damage` converts, if the bytes are damaged.

    Raises:
        InputError: If the file cannot be opened.
    """
    name = path.name.lower()
    try:
        if name.endswith(".zst"):
            return BufferedReader(pa.input_stream(open_for_library(path), compression="zstd"))
        if name.endswith((".gz", ".bz2")):
            unpack = gzip.open if name.endswith(".gz") else bz2.open
            unpacked: BufferedIOBase = unpack(open_for_library(path), "rb")
            return unpacked
        return BufferedReader(_XzFile(path)) if name.endswith(".xz") else open_file(path)
    except OSError as error:
        raise InputError(
            f"Cannot read {path}: {error.strerror or error}. Check the path and its permissions."
        ) from error


class _XzFile(RawIOBase):
    """A readable stream of the decompressed content of an xz file. Unlike `lzma.LZMAFile`, it has a memory limit.

    Reading raises InputError if the limit is exceeded, and lzma.LZMAError if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._file = open_file(path)
        self._pieces = read_xz_pieces(read_in_pieces(self._file, 0, 1 << 63, PIECE_BYTES), str(path))
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Return True. The stream is readable."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read decompressed bytes into a buffer, and return their number, which is 0 only at the end.

        The buffer may not be filled completely.

        Raises:
            InputError: If a stream needs more memory than allowed.
            lzma.LZMAError: If a stream is damaged or truncated.
        """
        view = memoryview(buffer).cast("B")
        if not self._left:
            try:
                self._left = memoryview(next(self._pieces, b""))
            except DamagedBytes as error:
                if needs_memory(error.__cause__):
                    raise InputError(f"{error}. {error.remedy}") from error
                raise lzma.LZMAError(str(error)) from error
        size = min(len(view), len(self._left))
        view[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        """Close the stream and the compressed file."""
        self._file.close()
        super().close()


def read_again(path: Path, offset: int, length: int) -> bytes:
    """Read `length` bytes of a file's decompressed content from byte `offset` on; fewer if the content ends early.

    A compressed file is read from its beginning.

    Raises:
        InputError: If the file cannot be read.
    """
    with open_raw(path) as stream, explain_damage(path):
        pass_bytes(stream, offset)
        return stream.read(length)


def pass_bytes(stream: BufferedIOBase, size: int) -> None:
    """Skip the first `size` bytes of a stream that is at its beginning, by reading if the stream cannot seek."""
    if stream.seekable():
        stream.seek(size)
        return
    while size and (data := stream.read(min(size, 1 << 16))):
        size -= len(data)


@dataclass(frozen=True, slots=True)
class Lines:
    """Several lines without line endings.

    Line i is data[starts[i]:ends[i]]. This is empty if the line is longer than allowed.

    data:    bytes of the file that contain the lines
    starts:  int64 [N], index in `data` of each line's first byte
    ends:    int64 [N], index in `data` of the byte after each line
    lengths: int64 [N], length of each line in bytes; the line ending is included only if the line is longer than
             allowed
    offset:  position of `data` in the file
    """

    data: bytes
    starts: Int64s
    ends: Int64s
    lengths: Int64s
    offset: int = 0

    @classmethod
    def from_lines(cls, lines: Sequence[bytes]) -> "Lines":
        """Create a Lines object from separate lines, as if they were the lines of a file separated by newlines."""
        lengths = np.array([*map(len, lines)], np.int64)
        ends = np.cumsum(lengths + 1) - 1
        return cls(b"\n".join(lines), ends - lengths, ends, lengths)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.ends[row]]

    def __iter__(self) -> Iterator[bytes]:
        return (self.data[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def get_line(self, row: int) -> Line:
        """Return line number `row` (from 0) with its position in the file.

        The data is None if the line is longer than allowed.
        """
        data, length = self[row], int(self.lengths[row])
        return Line(self.offset + int(self.starts[row]), length, data if len(data) == length else None)

    def select(self, rows: Int64s) -> "Lines":
        """Return the lines with the given indices (int64), in that order, without copying their bytes."""
        return Lines(self.data, self.starts[rows], self.ends[rows], self.lengths[rows], self.offset)

    def join(self) -> bytes:
        """Return the bytes of all lines, each followed by a newline. There must be at least one line."""
        view = memoryview(self.data)
        breaks = np.flatnonzero(self.starts[1:] != self.ends[:-1] + 1) + 1  # what is adjacent is one piece
        firsts, lasts = self.starts[np.r_[0, breaks]].tolist(), self.ends[np.r_[breaks, len(self)] - 1].tolist()
        return b"\n".join([*(view[first:last] for first, last in zip(firsts, lasts, strict=True)), b""])

    def without_blank(self) -> "Lines":
        """Return the lines that contain anything but white space. Lines that are longer than allowed are kept."""
        if not len(self):
            return self
        firsts = np.frombuffer(self.data, np.uint8)[np.minimum(self.starts, len(self.data) - 1)]
        full = self.lengths > 0
        for row in np.flatnonzero(full & (firsts <= ord(" "))).tolist():
            full[row] = not self[row].isspace()
        return self if full.all() else self.select(np.flatnonzero(full))


def read_lines(stream: BufferedIOBase, start: int, stop: int | None, max_bytes: int) -> Iterator[Line]:
    """Yield the lines that begin in bytes `start` to `stop` one at a time, each with its position.

    Args:
        stream: The file's content, positioned at its beginning. It must be seekable if `start` is not 0.
        start: Byte offset in the content. A line that begins before it is skipped.
        stop: Byte offset in the content at which to stop; None for the end of the content.
        max_bytes: Maximum length of a line. A longer line is yielded with None as data.
    """
    for lines in read_blocks(stream, start, stop, max_bytes):
        places = zip((lines.offset + lines.starts).tolist(), lines.lengths.tolist(), lines, strict=True)
        yield from (Line(at, length, data if len(data) == length else None) for at, length, data in places)


def read_blocks(stream: BufferedIOBase, start: int, stop: int | None, max_bytes: int) -> Iterator[Lines]:
    """Yield the lines that begin in bytes `start` to `stop`, in blocks of about 1 MB. The last line is read to its end.

    Args:
        stream: The file's content, positioned at its beginning. It must be seekable if `start` is not 0.
        start: Byte offset in the content. A line that begins before it is skipped.
        stop: Byte offset in the content at which to stop. If None, the content is read to its end.
        max_bytes: Maximum length of a line. Besides a block, at most this many bytes of a line are held in memory.
    """
    offset = seek_line(stream, start, stop) if start else 0
    while stop is None or offset < stop:
        data = stream.read(BLOCK_BYTES if stop is None else min(BLOCK_BYTES, stop - offset))
        if not data:
            return
        passed = 0
        if not data.endswith(b"\n"):
            begun = len(data) - 1 - data.rfind(b"\n")
            data += stream.readline(max(0, max_bytes + 2 - begun))  # of an allowed line all, its end included
            passed = 0 if data.endswith(b"\n") else skip_line(stream)
        yield _cut_block(data, offset, passed, max_bytes)
        offset += len(data) + passed


def _cut_block(data: bytes, offset: int, passed: int, max_bytes: int) -> Lines:
    r"""Split a block of bytes into lines at "\n" or "\r\n". The block must begin at the start of a line.

    Args:
        data: The block.
        offset: Position of the block in the file.
        passed: Number of bytes that were skipped after the block, because its last line is too long.
        max_bytes: Maximum length of a line.
    """
    view = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(view == ord("\n"))
    ends = breaks if data.endswith(b"\n") else np.r_[breaks, len(data)]
    nexts = np.r_[ends[:-1] + 1, len(data) + passed]
    starts = np.r_[0, nexts[:-1]]
    ends = ends - ((ends > starts) & (view[ends - 1] == ord("\r")))
    is_long = ends - starts > max_bytes
    lengths = np.where(is_long, nexts - starts, ends - starts)
    return Lines(data, starts, np.where(is_long, starts, ends), lengths, offset)


def seek_line(stream: BufferedIOBase, start: int, stop: int | None) -> int:
    """Seek to the first line that begins at or after byte `start`, which must not be 0.

    This way, a line that spans several slices is read only once.

    Args:
        stream: A seekable stream.
        start: Byte offset in the stream.
        stop: Byte offset at which the search for the line may end; None for no limit.

    Returns:
        The position of the line, which is at least `stop` if no line begins before `stop`.
    """
    stream.seek(start - 1)
    return start - 1 + skip_line(stream, None if stop is None else stop - start + 1)


def skip_line(stream: BufferedIOBase, max_bytes: int | None = None) -> int:
    """Skip the rest of the current line with its line ending, or stop once at least `max_bytes` bytes were read.

    At most 64 kB are held in memory. If `max_bytes` is None, there is no limit.

    Returns:
        The number of bytes read, which is 0 only at the end of the stream.
    """
    passed = 0
    while (max_bytes is None or passed < max_bytes) and (data := stream.readline(1 << 16)):
        passed += len(data)
        if data.endswith(b"\n"):
            break
    return passed


def decode(data: bytes, encoding: str, offset: int = 0) -> str:
    r"""Decode bytes. A byte order mark at the beginning of the file is removed.

    Args:
        data: The bytes to decode.
        encoding: Python's name of an encoding, or "auto": the encoding that the byte order mark indicates; without one,
            UTF-8 if the bytes are valid UTF-8, else windows-1252.
        offset: Position of the bytes in their file.

    Raises:
        BadRecord: If the bytes are not valid in the encoding, or contain a NUL character.

    >>> decode(b"caf\xe9", "auto"), decode(b"\xff\xfea\0", "auto"), decode(b"caf\xc3\xa9", "utf-8")
    ('café', 'a', 'café')
    """
    if not offset:
        data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = _decode_detected(data, offset) if encoding == AUTO else data.decode(encoding)
    except UnicodeDecodeError as error:
        raise BadRecord(f"not {error.encoding} at byte {offset + error.start}: {error.reason}") from error
    except UnicodeError as error:  # some encodings, as Python's "idna", do not say at which byte
        raise BadRecord(f"not {encoding}: {error}") from error
    if "\0" in text:
        raise BadRecord(f"no text: a zero as character {text.index(chr(0))}")
    return text


def _decode_detected(data: bytes, offset: int) -> str:
    """Decode bytes according to their byte order mark, as UTF-8 if they are valid UTF-8, or else as windows-1252.

    `offset` is the position of the bytes in the file. Only bytes at position 0 can have a byte order mark.

    Raises:
        UnicodeDecodeError: If the bytes are not even windows-1252.
    """
    if not offset and (wide := guess_wide_encoding(data[:HEAD_BYTES])):
        return data.decode(wide).removeprefix("\ufeff")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252")


def check_encoding(name: str, encoding: str) -> None:
    """Check that an encoding exists, and that it represents line breaks and the signs of JSON as ASCII does.

    Args:
        name: Name of the source, for error messages.
        encoding: Python's name of an encoding, or "auto", which is always accepted.

    Raises:
        InputError: If the encoding is unknown, or is not compatible with ASCII.
    """
    if encoding == AUTO:
        return
    line = "\n{" + 100 * "a"  # longer than the names of hosts, for which the encoding idna is
    try:
        ascii_compatible = line.encode(encoding) == line.encode() and rb"\ud800".decode(encoding) == r"\ud800"
    except (LookupError, UnicodeError) as error:
        raise InputError(
            f"Source {name!r}: there is no encoding {encoding!r} of texts. Try 'utf-8', 'cp1252' or 'auto'."
        ) from error
    if not ascii_compatible:
        raise InputError(
            f"Source {name!r}: in the encoding {encoding!r} lines cannot be found by their bytes. Convert "
            "the files to UTF-8, for instance with `iconv`; files of UTF-16 are read with 'auto'."
        )
