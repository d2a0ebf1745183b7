"""Archives as streams: tar and xz, one inside the other to any depth, nothing unpacked to disk.

    file_pieces ─► xz_pieces ─► ByteReader ─► TarReader ─► member ─► xz_pieces ─► ...

Promises: an archive that is cut off or damaged raises DamagedBytes, wherever that happens, and never ends
early: an xz stream must reach its footer, a tar its two closing blocks of zeros. Every member is given out,
of whatever kind; what is read of it and what is passed over is the caller's choice.
Costs: the decompressor's own, about 60 MB/s of English text, and 9 us for each member with its count.
Memory: one piece, what the caller reads of a member, and the decompressor's window (64 MB at xz's highest
preset; an xz that would need over 200 MB is refused).
"""

import gzip
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from corpora.sources.bytes.faults import CUT_OFF_ERROR, DAMAGE_ERRORS, REPACK, DamagedBytes, needs_memory
from corpora.sources.bytes.packed_stream import PIECE_BYTES, PackedStream, format_max_memory, read_in_pieces

BLOCK_BYTES = 512  # of a tar: one header, and what sizes are rounded up to
ZEROS = bytes(BLOCK_BYTES)
XZ_START = b"\xfd7zXZ\0"
MAX_MEMBER_BYTES = 1 << 50  # of a member
MAX_EXTENSION_BYTES = 1_000_000  # of a member's long name or pax records
EXTENSIONS = b"xgLK"  # headers that say more of the member after them, or of all
OLD_MAP_FLAG, MAP_FLAG = 482, 504  # bytes of a sparse file's header and of the blocks after it
NO_DATA = b"123456"  # links, devices, folders: whatever their size says, no bytes follow


class TarMember(NamedTuple):
    """A member of a tar archive.

    name:       its path in the archive
    kind:       "file", "link", "folder", "sparse" (a file stored without its holes) or "other" (a device, a pipe)
    offset:     byte offset of its first header in the archive
    start:      byte offset of its content in the archive
    size_bytes: number of stored content bytes
    """

    name: str
    kind: str
    offset: int
    start: int
    size_bytes: int


class EarlierHeaders(NamedTuple):
    """Values that extension headers declare for the next member.

    Attributes:
        name: The member's path in the archive; None if not stated.
        size: The size of its stored content in bytes; None if not stated. It replaces the size in the member's header.
        sparse: True if the member is stored without its holes.
    """

    name: str | None = None
    size: int | None = None
    sparse: bool = False


class Reader(Protocol):
    """The interface for reading bytes in order. `position` is the number of bytes read or skipped so far."""

    position: int

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end, and advance `position` by the number of bytes returned."""

    def skip(self, size: int) -> None:
        """Skip the next `size` bytes, and advance `position`."""


def read_file_pieces(path: Path, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Yield bytes `start` to `stop` of a file in chunks of at most PIECE_BYTES. If `stop` is None, read it to its end.

    Raises:
        OSError: During iteration, if the file cannot be read.
    """
    with path.open("rb") as file:
        yield from read_in_pieces(file, start, (1 << 63) if stop is None else stop, PIECE_BYTES)


def read_gzip_pieces(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a gzip file in chunks of at most PIECE_BYTES.

    Raises:
        DamagedBytes: During iteration, if the file is damaged or truncated.
        OSError: During iteration, if the file cannot be opened.
    """
    with path.open("rb") as raw, gzip.GzipFile(fileobj=raw) as stream:
        while True:
            try:
                data = stream.read(PIECE_BYTES)
            except CUT_OFF_ERROR as error:
                raise _build_fault(str(path), "is cut off", raw.tell()) from error
            except DAMAGE_ERRORS["gz"] as error:
                raise _build_fault(str(path), f"is damaged or no gzip file ({error}),", raw.tell()) from error
            if not data:
                return
            yield data


def read_xz_pieces(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the decompressed bytes of consecutive xz streams, in chunks of at most PIECE_BYTES.

    Args:
        pieces: The compressed bytes, in chunks.
        name: Name of the file, for error messages.

    Raises:
        DamagedBytes: During iteration, if the streams are damaged or truncated, or need more memory than allowed.
    """
    position, data = 0, b""
    while True:
        stream = PackedStream("xz", pieces, position, partial(_build_xz_fault, name), data)
        yield from stream.iter_pieces()
        data, passed = _skip_padding(stream.rest, pieces, name, stream.position)
        position = stream.position + passed
        if not data:
            return


def _build_xz_fault(name: str, position: int, error: Exception | None) -> DamagedBytes:
    """Build the error for a damaged xz stream of the file `name`.

    Args:
        name: Name of the file.
        position: Byte in the file at which the damage was found.
        error: The library's error; None if the bytes end too early.
    """
    if needs_memory(error):
        return DamagedBytes(
            f"{name} needs over {format_max_memory()} of memory to be unpacked", position, remedy=REPACK
        )
    return _build_fault(name, "is cut off" if error is None else f"is damaged or no xz file ({error}),", position)


def _build_fault(name: str, what: str, position: int) -> DamagedBytes:
    """Build the error for damage in the file `name`. Its message is "`name` `what` at its byte `position`"."""
    return DamagedBytes(f"{name} {what} at its byte {position}", position)


def _skip_padding(data: bytes, pieces: Iterator[bytes], name: str, position: int) -> tuple[bytes, int]:
    """Skip the zero padding after a stream. Its length must be a multiple of four.

    Args:
        data: Bytes after the stream that were already read.
        pieces: The bytes after `data`, in chunks.
        name: Name of the file, for error messages.
        position: Byte in the file after `data`.

    Returns:
        The bytes after the padding that have been read (b"" at the end of the file), and the number of bytes taken
        from `pieces`.

    Raises:
        DamagedBytes: If the length of the padding is not a multiple of four.
    """
    zeros = taken = 0
    while True:
        rest = data.lstrip(b"\0")
        zeros += len(data) - len(rest)
        if rest or not (data := next(pieces, b"")):
            break
        taken += len(data)
    if zeros % 4:
        raise _build_fault(name, "is damaged (its padding is no multiple of 4 bytes)", position + taken)
    return rest, taken


class ByteReader:
    """A `Reader` of chunks of bytes. Only one chunk is held in memory.

    Args:
        pieces: The chunks.
        position: Initial value of `position`: the byte offset of the first chunk.
    """

    def __init__(self, pieces: Iterator[bytes], position: int = 0) -> None:
        self.pieces, self.position = pieces, position
        self._piece, self._at = b"", 0

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end, and advance `position` by the number of bytes returned."""
        data = self._take(size)
        if len(data) == size:
            return data
        parts = [data]
        while (size := size - len(data)) and self._read_next_piece():
            data = self._take(size)
            parts.append(data)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Skip the next `size` bytes, or fewer at the end of the last chunk, and advance `position`."""
        size -= len(self._take(size))
        while size and self._read_next_piece():
            size -= len(self._take(size))

    def _take(self, size: int) -> bytes:
        """Return up to `size` bytes of the current chunk, and advance the position."""
        data = self._piece[self._at : self._at + size]
        self._at += len(data)
        self.position += len(data)
        return data

    def _read_next_piece(self) -> bool:
        """Make the next chunk the current one. Return False if there is none."""
        self._piece, self._at = next(self.pieces, b""), 0
        return bool(self._piece)


class FileReader:
    """A `Reader` of an uncompressed seekable file. It skips bytes without reading them."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.position = file, 0

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end, and advance `position` by the number of bytes returned."""
        data = self.file.read(size)
        self.position += len(data)
        return data

    def skip(self, size: int) -> None:
        """Skip the next `size` bytes, and advance `position`.

        The new position may be past the end of the file.
        """
        self.position = self.file.seek(size, 1)


class TarReader:
    """Reads the members of a tar archive in order. A member's bytes can be read until the next member is requested.

    Old (v7), ustar, GNU and pax headers are supported. For a sparse file, only the stored bytes are returned, without
    the holes. Concatenated archives are read as one.

    Args:
        reader: Reader of the archive's bytes.
        name: Name of the archive, for error messages.
        closed: True if the bytes reach to the end of the archive. They must then end in zero blocks. False if they end
            after one of its members.
    """

    def __init__(self, reader: Reader, name: str, closed: bool = True) -> None:
        self.reader, self.name, self.closed = reader, name, closed

    def iter_members(self) -> Iterator[TarMember]:
        """Yield each member in the order of the archive. Unread bytes of a member are skipped.

        Raises:
            DamagedBytes: During iteration, if the archive is damaged or truncated.
        """
        num_zeros, earlier = 0, EarlierHeaders()
        offset: int | None = None
        while len(block := self.reader.read(BLOCK_BYTES)) == BLOCK_BYTES:
            if block == ZEROS:
                num_zeros += 1
                continue
            num_zeros, start = 0, self.reader.position
            offset = start - BLOCK_BYTES if offset is None else offset
            flag, size = self._read_header(block)
            if flag in EXTENSIONS:
                earlier = self._read_extension(flag, size, earlier)
            else:
                start = self._skip_map(block, flag)
                size = size if earlier.size is None or flag in NO_DATA else earlier.size
                kind = "sparse" if earlier.sparse else _find_kind(flag)
                yield TarMember(earlier.name or _read_name(block), kind, offset, start, size)
                earlier, offset = EarlierHeaders(), None
            self.reader.skip(start + -(-size // BLOCK_BYTES) * BLOCK_BYTES - self.reader.position)
        if block or (num_zeros < 2 and self.closed):
            raise _build_fault(self.name, "is cut off", self.reader.position)

    def read(self, member: TarMember) -> bytes:
        """Read all bytes of the most recently yielded member.

        Raises:
            DamagedBytes: If the archive ends before the member does.
        """
        data = self.reader.read(member.size_bytes)
        if len(data) < member.size_bytes:
            raise _build_fault(self.name, "is cut off", self.reader.position)
        return data

    def iter_pieces(self, member: TarMember) -> Iterator[bytes]:
        """Yield the bytes of the most recently yielded member in chunks of at most PIECE_BYTES.

        Raises:
            DamagedBytes: During iteration, if the archive ends before the member does.
        """
        left = member.size_bytes
        while left:
            data = self.reader.read(min(left, PIECE_BYTES))
            if not data:
                raise _build_fault(self.name, "is cut off", self.reader.position)
            left -= len(data)
            yield data

    def _read_header(self, block: bytes) -> tuple[bytes, int]:
        """Return the type flag of a header block (one byte), and the number of content bytes that follow the header.

        Raises:
            DamagedBytes: If the checksum is wrong or the size is impossible.
        """
        flag = block[156:157]
        try:
            checksum, size = _parse_number(block[148:156]), 0 if flag in NO_DATA else _parse_number(block[124:136])
        except ValueError:
            checksum, size = -1, 0
        if checksum != sum(block) - sum(block[148:156]) + 8 * ord(" ") or not 0 <= size <= MAX_MEMBER_BYTES:
            raise _build_fault(
                self.name, "is damaged or no tar (a header is wrong)", self.reader.position - BLOCK_BYTES
            )
        return flag, size

    def _skip_map(self, block: bytes, flag: bytes) -> int:
        """Skip the maps of holes after the header of an old GNU sparse file. Other members have none.

        Args:
            block: The member's header.
            flag: Its type flag.

        Returns:
            The byte offset of the member's content in the archive.
        """
        more = flag == b"S" and block[OLD_MAP_FLAG]
        while more:
            block = self.reader.read(BLOCK_BYTES)
            more = len(block) == BLOCK_BYTES and block[MAP_FLAG]
        return self.reader.position

    def _read_extension(self, flag: bytes, size: int, before: EarlierHeaders) -> EarlierHeaders:
        """Read an extension header, which describes the next member, and add its values to those of earlier headers.

        Args:
            flag: The header's type flag.
            size: Number of bytes of the header's content.
            before: The values of earlier extension headers.

        Returns:
            The values of all extension headers up to this one.

        Raises:
            DamagedBytes: If the content is longer than MAX_EXTENSION_BYTES.
        """
        if flag in b"gK":
            return before
        if size > MAX_EXTENSION_BYTES:
            raise _build_fault(self.name, f"holds a name of {size} bytes,", self.reader.position)
        data = self.reader.read(size)
        if flag == b"L":
            return before._replace(name=_decode_field(data))
        records = dict(_iter_pax_records(data))
        path = records.get(b"GNU.sparse.name", records.get(b"path"))
        stated_size = _find_stated_size(records)
        return EarlierHeaders(
            name=before.name if path is None else _decode_field(path),
            size=before.size if stated_size is None else stated_size,
            sparse=before.sparse or any(key.startswith(b"GNU.sparse") for key in records),
        )


def _parse_number(field: bytes) -> int:
    r"""Parse a number in a tar header, in octal or in GNU's base 256.

    Raises:
        ValueError: If the field is neither.

    >>> _parse_number(b"0000755\0"), _parse_number(b"\x80" + bytes(6) + b"\x01\x00")
    (493, 256)
    """
    if field[0] in (0x80, 0xFF):
        return int.from_bytes(field[1:], "big", signed=field[0] == 0xFF)
    return int(field.strip(b" \0") or b"0", 8)


def _find_kind(flag: bytes) -> str:
    """Return the `kind` of a `TarMember` for a header's type flag: "file", "link", "folder", "sparse" or "other"."""
    if flag in b"12":
        return "link"
    kinds = {b"5": "folder", b"S": "sparse"}
    return kinds.get(flag, "other" if flag in NO_DATA else "file")


def _read_name(block: bytes) -> str:
    """Return a member's path from its header block, including the prefix that ustar stores separately."""
    name = _decode_field(block[:100])
    prefix = _decode_field(block[345:500]) if block[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _decode_field(field: bytes) -> str:
    """Decode a header field up to its first zero byte as UTF-8; invalid bytes are replaced."""
    return field.partition(b"\0")[0].decode(errors="replace")


def _iter_pax_records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of each pax record in `data`. A record has the form `LENGTH KEY=VALUE`.

    Stop at the first malformed record.
    """
    at = 0
    while at < len(data):
        length = data[at : at + 10].partition(b" ")[0]
        if not length.isdigit() or len(length) > 9 or not len(length) < int(length) <= len(data) - at:
            return
        key, _, value = data[at + len(length) + 1 : at + int(length) - 1].partition(b"=")
        yield key, value
        at += int(length)


def _find_stated_size(records: dict[bytes, bytes]) -> int | None:
    """Return the size in bytes that pax records declare for the next member; None if they declare none."""
    size = records.get(b"size", b"")
    return int(size) if size.isdigit() and len(size) < 16 else None


class MemberCount:
    """Counts the members of a tar archive by stepping from header to header. Folders are not counted.

    Attributes:
        members: Number of members so far.
    """

    def __init__(self) -> None:
        self.members = 0
        self._skip = 0
        self._block = b""
        self._wanted = BLOCK_BYTES
        self._on_block = self._count_header  # what the gathered bytes are
        self._stored = 0  # bytes after a sparse file's map
        self._size: int | None = None  # said by pax records for the member after them

    def feed(self, piece: bytes) -> int:
        """Process the next chunk of the archive, of any length.

        Returns:
            The number of members whose header (with the records that precede it) ends in this chunk.
        """
        before, at = self.members, 0
        while at < len(piece):
            if self._skip >= len(piece) - at:
                self._skip -= len(piece) - at
                break
            at += self._skip
            self._skip = 0
            taken = piece[at : at + self._wanted - len(self._block)]
            at += len(taken)
            self._block += taken
            if len(self._block) == self._wanted:
                block, self._block = self._block, b""
                self._on_block(block)
        return self.members - before

    def _count_header(self, block: bytes) -> None:
        """Process a complete header block: count it if it begins a member, and determine what follows it."""
        if block == ZEROS:
            return
        flag = chr(block[156])
        padded = self._compute_padded_size(block[124:136], flag)
        self.members += flag not in "xgLK5"
        if flag == "x" and 0 < padded <= 2 * MAX_EXTENSION_BYTES:
            self._wanted, self._on_block = padded, self._take_records
        elif flag == "S" and block[OLD_MAP_FLAG]:
            self._stored, self._on_block = padded, self._take_map
        else:
            self._skip = padded
        if flag not in "xgLK":
            self._size = None

    def _take_records(self, block: bytes) -> None:
        """Process the complete pax records of an extension header, which may declare the next member's size."""
        size = _find_stated_size(dict(_iter_pax_records(block)))
        self._size = self._size if size is None else size
        self._wanted, self._on_block = BLOCK_BYTES, self._count_header

    def _take_map(self, block: bytes) -> None:
        """Process a map of an old GNU sparse file. After the last map, the member's content is skipped."""
        if not block[MAP_FLAG]:
            self._skip, self._on_block = self._stored, self._count_header

    def _compute_padded_size(self, field: bytes, flag: str) -> int:
        """Compute the number of bytes between a header and the next one, a multiple of 512.

        Args:
            field: The size in the header.
            flag: The header's type flag, as a character.

        Returns:
            The number. It is 0 for a member without content, and for an invalid size; `TarReader` will then reject the
            header.
        """
        if flag in "123456":
            return 0
        try:
            size = _parse_number(field)
        except ValueError:
            size = 0
        if self._size is not None and flag not in "xgLK":
            size = self._size
        return size + -size % BLOCK_BYTES if 0 <= size <= MAX_MEMBER_BYTES else 0
