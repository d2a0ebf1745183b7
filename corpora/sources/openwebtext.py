"""OpenWebText: tars of pages inside xz inside a tar inside xz, as it was published, and its later forms.

    openwebtext.tar.xz ─► openwebtext/urlsf_subset00-1_data.xz ─► 0000001-<32 hex digits>.txt, one page each

Promises: one page is one document, whatever blank lines it holds. Every member of an archive that is neither a folder
nor a subset (a tar of pages) is a record: a page, or a drop with its reason. An archive that is cut off or damaged
anywhere is refused. A plain `.tar` is cut into slices at its subsets, Parquet at its row groups, JSON lines every 1 MB.
An `.xz` is one slice, since no member of it can be found except from its beginning (`xz -d` makes it a plain tar).
Costs: `.tar.xz` and `.tar` are read at 37 MB of text a second (one core), four fifths of it xz's own time (45 MB/s for
only decompressing); Parquet 180 MB/s, JSON lines 120 MB/s. Memory: one page and the windows of two decompressors; for
Parquet 64 pages.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.schema import Locator
from corpora.sources.bytes.archives import (
    XZ_START,
    ByteReader,
    FileReader,
    MemberCount,
    TarMember,
    TarReader,
    read_file_pieces,
    read_xz_pieces,
)
from corpora.sources.bytes.faults import BadRecord, DamagedBytes
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.contract import (
    SLICE_BYTES,
    Drop,
    RawFile,
    Record,
    Slice,
    Tally,
    cut_at,
    drop_damaged,
    drop_too_large,
    find_by_ending,
    select_settings,
    slice_whole_file,
)
from corpora.sources.files.endings import LINE_ENDINGS
from corpora.sources.files.formats import JsonLines
from corpora.sources.files.parquet import (
    BATCH_ROWS,
    compute_group_starts,
    is_text_type,
    iter_group_batches,
    open_parquet,
)
from corpora.store.settings import check_range

ARCHIVE_ENDINGS = (".xz", ".tar")
PARQUET_ENDING = ".parquet"
ENDINGS = (*ARCHIVE_ENDINGS, PARQUET_ENDING, *LINE_ENDINGS)
PAGE_NAME = re.compile(r"\d+-(?P<md5>[0-9a-f]{32})\.txt")
TEXT_COLUMN = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWebTextSource:
    """The `[[source]]` table of kind "openwebtext".

    path:             a file, a folder or a glob: `.tar.xz`, `.xz` (contains a tar), `.tar`, `.parquet` with a
                      column `text`, `.jsonl` with a field `text`; other files in a folder are not read
    max_record_bytes: a longer page is dropped

    A page's key is the MD5 digest in its file's name. If there is no such name, as in Parquet and JSON lines, the
    page's id is derived from its bytes. A page that is not UTF-8 is decoded as windows-1252.
    """

    kind: ClassVar[str] = "openwebtext"
    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ()

    name: str = "openwebtext"
    path: str
    max_record_bytes: int = 10_000_000

    def __post_init__(self) -> None:
        check_range(f"source {self.name!r}: max_record_bytes", self.max_record_bytes, 1, 1 << 30)

    def settings(self) -> dict[str, Json]:
        """Return the settings that affect the documents, as JSON by field name.

        The only such setting is `max_record_bytes`.
        """
        return select_settings(self)

    def files(self) -> list[tuple[str, Path]]:
        """List the raw files as (name, path) pairs, sorted by name.

        These are the archives, Parquet files and files of JSON lines at `path`.

        Raises:
            InputError: If none is found, or `path` names a single file with another extension.
        """
        wanted = f"openwebtext.tar.xz, another file with one of the endings {', '.join(ENDINGS)}, a folder, or a glob"
        refused = f"is none of {', '.join(ENDINGS)}. Set `path` to {wanted}."
        return find_by_ending(self.name, self.path, ENDINGS, wanted, refused)

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A plain tar is cut at its subsets, Parquet at its row groups, and JSON lines every 1 MB. Others are one slice.

        A subset is a tar inside the tar. A tar is also cut at a member that begins 1 MB or more after the last cut.

        Raises:
            InputError: If the file cannot be read.
        """
        name = file.name.lower()
        if name.endswith(LINE_ENDINGS):
            return self._build_line_format().slices(file)
        if name.endswith(".tar"):
            return cut_at(file, _find_tar_starts(parse_raw_path(file.path)))
        if name.endswith(PARQUET_ENDING):
            with _open_parquet(parse_raw_path(file.path)) as table:
                return cut_at(file, [0, *compute_group_starts(table, file.size_bytes)[1:]])
        return [slice_whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Each member of a tar, Parquet row or JSON line is a record.

        Args:
            piece: The slice.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file is damaged or truncated.
        """
        name = piece.file.name.lower()
        if name.endswith(LINE_ENDINGS):
            yield from self._build_line_format().records(piece, tally)
        elif name.endswith(PARQUET_ENDING):
            yield from self._read_rows(piece, tally)
        else:
            try:
                yield from self._read_members(piece, tally)
            except (DamagedBytes, OSError) as fault:
                raise _to_input_error(fault, parse_raw_path(piece.file.path)) from fault

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The record is a page, row or line. An `.xz` file is decompressed from its beginning.

        For members of an archive, the locator's `stream` is -1 in a plain tar and 0 in a tar inside xz. For a page of a
        subset (an inner tar), it is the byte offset in the (decompressed) outer tar at which the subset begins. This
        offset is never 0, since a header comes first. `offset` is relative to the tar that contains the page. For
        Parquet, `stream` is the first byte of a row group, and `offset` is the total number of bytes of the preceding
        texts in the row group.

        Raises:
            InputError: If the file is damaged, or shorter than the locator requires.
        """
        name = file.name.lower()
        if name.endswith(LINE_ENDINGS):
            return self._build_line_format().raw_record(file, locator)
        try:
            data = _read_raw_row(file, locator) if name.endswith(PARQUET_ENDING) else _read_raw_member(file, locator)
        except (DamagedBytes, OSError) as fault:
            raise _to_input_error(fault, file) from fault
        if len(data) != locator.length:
            raise InputError(f"{file} ends before {locator}. Is it the file that was read? Get it again.")
        return data

    def parse_page(self, data: bytes, locator: Locator, tally: Tally, name: str | None = None) -> Record:
        """Build the record of a page from its bytes.

        Args:
            data: The bytes of the page.
            locator: The position of the bytes in the raw file.
            tally: Knows whether the page crashed earlier and must be skipped.
            name: Name of the page's file without folders; None in Parquet. The MD5 digest in the name becomes the key.
        """
        key = match["md5"] if name is not None and (match := PAGE_NAME.fullmatch(name)) else None
        if quarantined := tally.enter(locator):
            return Record(locator=locator, text="", key=key, raw=data, title=name, drop=quarantined)
        try:
            text = decode_page(data)
        except BadRecord as error:
            drop = Drop("damaged", str(error), damaged=True)
            return Record(locator=locator, text="", key=key, raw=data, title=name, drop=drop)
        drop_empty = None if text.strip() else Drop("empty")
        return Record(locator=locator, text=text, key=key, raw=data, title=name, drop=drop_empty)

    def _build_line_format(self) -> JsonLines:
        """Build the record format that reads JSON lines with this source's size limit."""
        return JsonLines(max_record_bytes=self.max_record_bytes)

    def _read_members(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a tar's members, and count them in the tally.

        A subset (an inner tar) yields its own members.

        Raises:
            DamagedBytes: During iteration, if the archive or a subset is damaged.
            OSError: During iteration, if the file cannot be read.
        """
        file, path = piece.file, parse_raw_path(piece.file.path)
        packed = _is_xz(path.name)
        pieces = read_file_pieces(path, piece.start, piece.stop)
        outer = TarReader(
            ByteReader(_count_members(read_xz_pieces(pieces, str(path)) if packed else pieces, tally), piece.start),
            str(path),
            closed=piece.stop == file.size_bytes,
        )
        for member in outer.iter_members():
            if not _is_subset(member):
                yield from self._read_member(outer, member, file, 0 if packed else -1, tally)
                continue
            tally.records -= 1  # it holds records, and is none
            name = f"{path}: {member.name}"
            member_pieces = outer.iter_pieces(member)
            inner_pieces = read_xz_pieces(member_pieces, name) if _is_xz(member.name) else member_pieces
            inner = TarReader(ByteReader(_count_members(inner_pieces, tally)), name)
            for page in inner.iter_members():
                yield from self._read_member(inner, page, file, member.start, tally)

    def _read_member(
        self, tar: TarReader, member: TarMember, file: RawFile, stream: int, tally: Tally
    ) -> Iterator[Record]:
        """Yield the record of a tar member, or nothing for a folder.

        No member is written to disk, so a malicious path in the archive is harmless.

        Args:
            tar: The tar that contains the member.
            member: The member.
            file: The raw file.
            stream: The `stream` of the member's locator, as described at `raw_record`.
            tally: Counts the records.
        """
        if member.kind == "folder":
            return
        locator = Locator(
            file=file.name, sha256=file.sha256, stream=stream, offset=member.start, length=member.size_bytes
        )
        name = member.name.rpartition("/")[2]
        if member.kind != "file" or not name.endswith(".txt") or name.startswith("."):
            drop = Drop("not a page", f"{member.kind} {member.name}")
        elif member.size_bytes > self.max_record_bytes:
            drop = Drop("too large", f"over {self.max_record_bytes} bytes")
        else:
            yield self.parse_page(tar.read(member), locator, tally, name)
            return
        yield Record(locator=locator, text="", raw=str(locator).encode(), title=name, drop=drop)

    def _read_rows(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield one record for each row of the Parquet row groups that begin in a slice, and count the rows in `tally`.

        Raises:
            InputError: During iteration, if the file is damaged or has no text column `text`.
        """
        path, file = parse_raw_path(piece.file.path), piece.file
        with _open_parquet(path) as table:
            for group, start in enumerate(compute_group_starts(table, file.size_bytes)):
                if not piece.start <= start < piece.stop:
                    continue
                tally.records += table.metadata.row_group(group).num_rows
                offset = 0
                for data in _iter_texts(table, group, path):
                    length = len(data or b"")
                    locator = Locator(file=file.name, sha256=file.sha256, stream=start, offset=offset, length=length)
                    yield self._parse_row(data, locator, tally)
                    offset += length

    def _parse_row(self, data: bytes | None, locator: Locator, tally: Tally) -> Record:
        """Build the record of a Parquet row from the bytes of its text. It is dropped if they are None or too long."""
        if data is not None and len(data) <= self.max_record_bytes:
            return self.parse_page(data, locator, tally)
        if data is None:
            return drop_damaged(locator, str(locator).encode(), f"no value in column {TEXT_COLUMN!r}")
        return drop_too_large(locator, self.max_record_bytes)


def decode_page(data: bytes) -> str:
    """Decode a page as UTF-8, or as windows-1252 if it is not UTF-8. A byte order mark is removed.

    Raises:
        BadRecord: If the page is neither UTF-8 nor windows-1252.

    >>> decode_page("café".encode()), decode_page("café".encode("cp1252"))
    ('café', 'café')
    """
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as first:
        try:
            return data.decode("cp1252")
        except UnicodeDecodeError as error:
            raise BadRecord(f"neither UTF-8 (byte {first.start}) nor windows-1252 (byte {error.start})") from error


def _count_members(pieces: Iterator[bytes], tally: Tally) -> Iterator[bytes]:
    """Yield the bytes of a tar archive unchanged, and count its members in the tally along the way."""
    count = MemberCount()
    for piece in pieces:
        tally.records += count.feed(piece)
        yield piece


def _is_subset(member: TarMember) -> bool:
    """Return True if a member of a tar is a subset, i.e. an archive (.xz or .tar) that contains pages."""
    return member.kind == "file" and member.name.lower().endswith(ARCHIVE_ENDINGS)


def _is_xz(name: str) -> bool:
    """Return True if a file name ends in .xz, in any case."""
    return name.lower().endswith(".xz")


def _to_input_error(fault: DamagedBytes | OSError, path: Path) -> InputError:
    """Build the InputError for a file that is damaged or cannot be read. Its message names the path."""
    if isinstance(fault, OSError):
        return InputError(f"Cannot read {path}: {fault.strerror or fault}. Check the path and its permissions.")
    return InputError(f"{fault}, so its pages cannot all be read. {fault.remedy}")


def _find_tar_starts(path: Path) -> list[int]:
    """Find the byte offsets at which a plain tar is cut: before each subset, or at a member at least 1 MB after a cut.

    Returns:
        The offsets in ascending order; the first is 0.

    Raises:
        InputError: If the tar is damaged or cannot be read.
    """
    starts = [0]
    try:
        with path.open("rb") as file:
            for member in TarReader(FileReader(file), str(path)).iter_members():
                is_due = _is_subset(member) or member.offset - starts[-1] >= SLICE_BYTES
                if is_due and member.offset > starts[-1]:
                    starts.append(member.offset)
    except (DamagedBytes, OSError) as fault:
        raise _to_input_error(fault, path) from fault
    return starts


def _read_raw_member(path: Path, locator: Locator) -> bytes:
    """Read the bytes of a member of a tar, or of a tar inside it, at a locator (see `OpenWebTextSource.raw_record`).

    Returns:
        The bytes. There are fewer than `locator.length` if the archive ends early.

    Raises:
        DamagedBytes: If the archive is damaged.
        OSError: If the archive cannot be read.
    """
    packed = _is_xz(path.name)
    is_nested = locator.stream > 0
    first = locator.stream if is_nested else locator.offset
    if packed:
        outer = ByteReader(read_xz_pieces(read_file_pieces(path), str(path)))
        outer.skip(first)
    else:
        outer = ByteReader(read_file_pieces(path, first), first)
    if not is_nested:
        return outer.read(locator.length)
    head = outer.read(len(XZ_START))
    pieces = chain([head], iter(lambda: outer.read(1 << 16), b""))
    inner = ByteReader(read_xz_pieces(pieces, str(locator)) if head == XZ_START else pieces)
    inner.skip(locator.offset)
    return inner.read(locator.length)


def _open_parquet(path: Path) -> pq.ParquetFile:
    """Open a Parquet file of pages and check that it has a text column `text`.

    Raises:
        InputError: If the file is damaged, or has no such column.
    """
    table = open_parquet(path)
    if TEXT_COLUMN not in table.schema_arrow.names:
        names = ", ".join(table.schema_arrow.names)
        raise InputError(f"{path} has no column {TEXT_COLUMN!r}, only {names}. Rename the column that holds the pages.")
    kind = table.schema_arrow.field(TEXT_COLUMN).type
    if not is_text_type(kind):
        raise InputError(f"{path}: the column {TEXT_COLUMN!r} is of type {kind}, not text. Rename the one that is.")
    return table


def _iter_texts(table: pq.ParquetFile, group: int, path: Path) -> Iterator[bytes | None]:
    """Yield the texts of a row group as bytes (not necessarily UTF-8), or None for a missing value.

    Raises:
        InputError: If the row group cannot be read.
    """
    for batch in iter_group_batches(table, group, path, BATCH_ROWS, [TEXT_COLUMN]):
        yield from batch.column(0).cast(pa.large_binary()).to_pylist()


def _read_raw_row(path: Path, locator: Locator) -> bytes:
    """Return the bytes of the text of the Parquet row at a locator; b"" if there is no row with its offset and length.

    Raises:
        InputError: If the file is damaged.
    """
    with _open_parquet(path) as table:
        for group, start in enumerate(compute_group_starts(table, path.stat().st_size)):
            offset = 0
            for data in _iter_texts(table, group, path) if start == locator.stream else ():
                if offset == locator.offset and len(data or b"") == locator.length:
                    return data or b""
                offset += len(data or b"")
    return b""
