"""Formats that turn files into records, one for each ending: JSON lines, Parquet, a file as one record.

A format is a value: a frozen dataclass that cuts a file into slices and reads them, and knows nothing of the source
that the file belongs to. The kinds "files", "openwebtext" and "stories" share them.

Promises: every non-blank line, row or file is one record; what cannot be read is a damaged drop that says why. A line
belongs to the slice in which it begins. A file that cannot be read to its end raises InputError.
Costs: measured in `source.py`. Memory: one record, at most `max_record_bytes`; of Parquet 64 rows.
"""

import codecs
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BufferedIOBase
from itertools import repeat
from pathlib import Path
from typing import Any

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.schema import Locator
from corpora.sources.bytes.endings import is_packed
from corpora.sources.bytes.faults import BadRecord, explain_damage
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import AUTO, Line, Lines, decode, open_raw, read_again, read_blocks, read_lines
from corpora.sources.bytes.recoded import find_source_encoding, open_lines, read_lines_again
from corpora.sources.bytes.text_encodings import (
    HEAD_BYTES,
    HOW_TO_SAY,
    UNKNOWN,
    UTF_8,
    find_marked_encoding,
    guess_encoding,
    guess_wide_encoding,
)
from corpora.sources.bytes.zip_members import MemberPath
from corpora.sources.contract import (
    SLICE_BYTES,
    Drop,
    RawFile,
    Record,
    Slice,
    Tally,
    build_locator,
    cut_at,
    cut_every,
    drop_damaged,
    drop_too_large,
    slice_whole_file,
)
from corpora.sources.files import parquet
from corpora.sources.files.fields import Fields, choose_names, find_fields, parse_object, split_objects
from corpora.sources.files.json_lines import find_columns

NO_DAY = "9999-12-31"  # a page of a folder has no day of a crawl, after which no date could be its own


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLines:
    """The JSON Lines format, in which each line that is not blank is an object and becomes a record.

    If a newline is missing between objects, the line becomes several records.
    """

    fields: Fields = field(default_factory=lambda: {"text": "text"})
    encoding: str = "utf-8"
    max_record_bytes: int

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A file of JSON lines is cut every 1 MB, unless it is compressed, UTF-16 or UTF-32. Then it is one slice.

        Raises:
            InputError: If the file cannot be read, or its encoding contradicts the setting `encoding`.
        """
        return cut_lines(file, self.encoding)

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Each nonblank line that begins in the slice is a record.

        Args:
            piece: The slice.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file cannot be read to its end.
        """
        wide = "" if piece.start else find_line_encoding(parse_raw_path(piece.file.path), self.encoding)
        for lines in self.iter_blocks(piece, wide):
            tally.records += len(lines)
            for row, record in enumerate(self._read_plain_records(lines, piece.file, bool(wide), tally)):
                if record is not None:
                    yield record
                else:
                    yield from self._parse_records(lines.get_line(row), piece.file, bool(wide), tally)

    def iter_blocks(self, piece: Slice, wide: str) -> Iterator[Lines]:
        """Yield the nonblank lines that begin in a slice, in blocks.

        Args:
            piece: The slice.
            wide: Encoding of the file if it must be converted to UTF-8, otherwise "".

        Raises:
            InputError: During iteration, if the file cannot be read to its end.
        """
        path = parse_raw_path(piece.file.path)
        with open_lines(path, wide) as stream, explain_damage(path):
            for lines in read_blocks(stream, piece.start, None if wide else find_stop(piece), self.max_record_bytes):
                yield lines.without_blank()

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The record is a line, without its line ending. If the file is converted to UTF-8 for reading, the returned bytes
        are converted, too.

        Raises:
            InputError: If the file cannot be read.
        """
        return read_lines_again(file, locator.offset, locator.length, self.encoding)

    def read_head(self, path: Path, max_bytes: int) -> Iterator[Line]:
        """Yield the values or lines that begin in the first `max_bytes` bytes of a file.

        In this format, these are lines.

        Raises:
            InputError: During iteration, if the file cannot be read.
        """
        with open_lines(path, find_line_encoding(path, self.encoding)) as stream, explain_damage(path):
            yield from read_lines(stream, 0, max_bytes, self.max_record_bytes)

    def parse(self, data: bytes, offset: int) -> dict[str, Json]:
        """Parse a line or value into a dictionary of its fields.

        The line must be a JSON object.

        Args:
            data: The bytes of the line.
            offset: The line's position in the file.

        Raises:
            BadRecord: If the line cannot be decoded or is not a JSON object.
        """
        return parse_object(decode(data, self.encoding, offset))

    def _read_plain_records(self, lines: Lines, file: RawFile, recoded: bool, tally: Tally) -> list[Record | None]:
        """Build the records of the lines whose fields can be found without fully parsing the line.

        Args:
            lines: Nonblank lines of the file.
            file: The file.
            recoded: True if the lines were converted to UTF-8.
            tally: Knows which records crashed earlier and must be skipped. Records are not counted here.

        Returns:
            One entry per line: its record, or None if the line must be fully parsed.
        """
        if tally.has_quarantine or (self.encoding != AUTO and codecs.lookup(self.encoding).name != UTF_8):
            return [None] * len(lines)
        found, plain = find_columns(lines, self.fields)
        stream, offsets = build_locator(file, 0, 0, recoded).stream, (lines.offset + lines.starts).tolist()
        places = map(Locator, repeat(file.name), repeat(file.sha256), lines.lengths.tolist(), repeat(stream), offsets)
        found["raw"] = [line.strip() for line in lines]
        found["drop"] = [None if text and not text.isspace() else Drop("empty") for text in found["text"]]
        records = map(Record, places, *(found.get(name, repeat(None)) for name in Record._fields[1:]))
        return [record if is_plain else None for record, is_plain in zip(records, plain.tolist(), strict=True)]

    def _parse_records(self, line: Line, file: RawFile, recoded: bool, tally: Tally) -> Iterator[Record]:
        """Parse a line fully and yield its record, or several records if newlines are missing between objects.

        Only the records after the first one are counted in the tally. `recoded` is True if the file was converted to
        UTF-8, so that offsets are relative to the converted content.
        """
        record = self._build_record(line, file, tally, recoded)
        joined = split_objects(line) if record.drop is not None and record.drop.damaged else []
        tally.records += max(0, len(joined) - 1)
        yield from (self._build_record(each, file, tally, recoded) for each in joined) if joined else (record,)

    def _build_record(self, line: Line, file: RawFile, tally: Tally, recoded: bool) -> Record:
        """Parse a line fully and build its record. A line that is too long or damaged yields a dropped record.

        Args:
            line: The line.
            file: The file that contains it.
            tally: Knows which records crashed earlier and must be skipped.
            recoded: True if the file was converted to UTF-8, so that offsets are relative to the converted content.
        """
        locator = build_locator(file, line.offset, line.length, recoded)
        if line.data is None:
            return drop_too_large(locator, self.max_record_bytes)
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=line.data.strip(), drop=drop)
        try:
            values = find_fields(self.parse(line.data, line.offset), self.fields)
        except BadRecord as error:
            return drop_damaged(locator, line.data.strip(), error)
        return build_record(locator, line.data.strip(), values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetRows:
    """The Parquet format, in which each row becomes a record."""

    fields: Fields
    max_record_bytes: int

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A Parquet file is cut at its row groups.

        Raises:
            InputError: If the file cannot be read.
        """
        return cut_at(file, parquet.cut_groups(parse_raw_path(file.path), file.size_bytes))

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Each row of the Parquet row groups that begin in the slice is a record.

        Args:
            piece: The slice.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file or a row group cannot be read, or a column in `fields` is missing.
        """
        path, file = parse_raw_path(piece.file.path), piece.file
        fields = choose_names(self.fields, partial(parquet.has_column, parquet.read_columns(path)))
        tally.records += parquet.count_rows(path, piece.start, piece.stop)
        for row in parquet.read_rows(path, piece.start, piece.stop, fields):
            raw = parquet.to_row_json(row.values)
            locator = Locator(file=file.name, sha256=file.sha256, stream=row.group, offset=row.number, length=len(raw))
            if len(raw) > self.max_record_bytes:
                yield drop_too_large(locator, self.max_record_bytes)
                continue
            if drop := tally.enter(locator):
                yield Record(locator=locator, text="", raw=raw, drop=drop)
                continue
            try:
                if row.fault:
                    raise BadRecord(row.fault)
                yield build_record(locator, raw, find_fields(row.values, fields))
            except BadRecord as error:
                yield drop_damaged(locator, raw, error)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The record is a Parquet row, as JSON; b"" if there is no such row.

        Raises:
            InputError: If the file cannot be read.
        """
        return parquet.read_raw_row(file, locator.stream, locator.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeFile(ABC):
    """The base class of formats in which a file is one record. Subclasses implement `read`."""

    max_record_bytes: int

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        The file is one slice and a single record.
        """
        return [slice_whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        The file is a single record, which is dropped if it is too large or damaged.

        Args:
            piece: The slice, which is the whole file.
            tally: Counts the record, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file cannot be read to its end.
        """
        path = parse_raw_path(piece.file.path)
        with open_raw(path) as stream, explain_damage(path):
            tally.records += 1
            yield self._read_stream(stream, piece.file, tally)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The record is the decompressed file, up to the length in the locator.

        Raises:
            InputError: If the file cannot be read.
        """
        return read_again(file, locator.offset, locator.length)

    def _read_stream(self, stream: BufferedIOBase, file: RawFile, tally: Tally) -> Record:
        """Build the record of a file from its decompressed content. It is dropped if it is too large or damaged.

        Args:
            stream: The content, positioned at its beginning.
            file: The file.
            tally: Knows whether the record crashed earlier and must be skipped.
        """
        data = stream.read(self.max_record_bytes + 1)
        if len(data) > self.max_record_bytes:
            return drop_too_large(build_locator(file, 0, file.size_bytes), self.max_record_bytes)
        locator = build_locator(file, 0, len(data))
        try:
            return self.read(data, locator, tally)
        except BadRecord as error:
            return drop_damaged(locator, data, error)

    @abstractmethod
    def read(self, data: bytes, locator: Locator, tally: Tally) -> Record:
        """Build the record of a file from its decompressed bytes.

        Each format implements this.

        Args:
            data: All decompressed bytes of the file.
            locator: The position of the record: the whole file.
            tally: Knows whether the record crashed earlier and must be skipped.

        Raises:
            BadRecord: If the bytes do not conform to the format.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile(WholeFile):
    """The plain text format, in which a file becomes one record.

    If `books` is True, the header and license are removed from Project Gutenberg's books.
    """

    encoding: str = "utf-8"
    books: bool = False

    def read(self, data: bytes, locator: Locator, tally: Tally) -> Record:
        """Build the record of a file from its decompressed bytes.

        The record's text is the decoded file.

        Args:
            data: All bytes of the file.
            locator: The position of the record: the whole file.
            tally: Knows whether the record crashed earlier and must be skipped.

        Raises:
            BadRecord: If the bytes cannot be decoded.
        """
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=data, drop=drop)
        book = read_gutenberg_book(data, locator, self.max_record_bytes) if self.books else None
        return book or build_record(locator, data, {"text": self.decode_text(data)})

    def decode_text(self, data: bytes) -> str:
        """Decode the bytes of a text with this format's `encoding`. If it is "auto", the encoding is guessed.

        Raises:
            BadRecord: If the bytes are invalid in the encoding, or the encoding cannot be guessed.
        """
        encoding = self.encoding
        if encoding == AUTO and not guess_wide_encoding(data[:HEAD_BYTES]):
            encoding = guess_encoding(data)
            if encoding == UNKNOWN:
                raise BadRecord(HOW_TO_SAY)
        return decode(data, encoding)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownFile(TextFile):
    """The Markdown format, in which a file becomes one record."""

    def read(self, data: bytes, locator: Locator, tally: Tally) -> Record:
        """Build the record of a file from its decompressed bytes.

        The record's text is the text that a reader of the rendered Markdown sees.

        Args:
            data: All bytes of the file.
            locator: The position of the record: the whole file.
            tally: Knows whether the record crashed earlier and must be skipped.

        Raises:
            BadRecord: If the bytes cannot be decoded.
        """
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=data, drop=drop)
        from corpora.sources.files.markdown import read_markdown  # not above: as for pages

        shown = read_markdown(self.decode_text(data))
        return build_record(locator, data, {"text": shown.text, "meta": format_meta(hidden=shown.hidden)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile(WholeFile):
    """The HTML format, in which a file becomes one record. The encoding is declared in the page or detected."""

    def read(self, data: bytes, locator: Locator, tally: Tally) -> Record:
        """Build the record of a file from its decompressed bytes.

        The record's text is the main text of the HTML page. A page that is rejected yields a dropped record.

        Args:
            data: All bytes of the file.
            locator: The position of the record: the whole file.
            tally: Knows whether the record crashed earlier and must be skipped.
        """
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=data, drop=drop)
        if not data.strip():
            return Record(locator=locator, text="", raw=data, drop=Drop("empty"))
        from corpora.sources.web.charset import decode_html  # not above: most folders have no page
        from corpora.sources.web.page import extract_page
        from corpora.sources.web.tree import Refused

        html = decode_html(data)
        page = extract_page(html.text, "", NO_DAY)
        if isinstance(page, Refused):
            return Record(locator=locator, text="", raw=data, drop=Drop(page.reason, page.detail))
        noted = {"canonical": page.canonical, "lang": page.language, "replaced": html.num_replaced}
        noted["hidden"] = page.hidden
        meta = {key: value for key, value in noted.items() if value} | {"whole": page.whole}
        facts = {"title": page.title, "date": page.date, "license": page.license}
        facts["meta"] = json.dumps(meta, sort_keys=True)
        return build_record(locator, data, {"text": page.text, **facts})


@dataclass(frozen=True, slots=True, kw_only=True)
class BookFile(WholeFile):
    """The EPUB format, in which a file is a book and becomes one record.

    If `books` is True, header and license are removed from Project Gutenberg's books.
    """

    books: bool = False

    def read(self, data: bytes, locator: Locator, tally: Tally) -> Record:
        """Build the record of a file from its decompressed bytes.

        The record's text is that of the EPUB book. An encrypted or too large book yields a dropped record.

        Args:
            data: All bytes of the file.
            locator: The position of the record: the whole file.
            tally: Knows whether the record crashed earlier and must be skipped.

        Raises:
            BadRecord: If the file is damaged.
        """
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=data, drop=drop)
        from corpora.sources.books.epub import LargeBook, LockedBook, read_epub  # not above: as for pages

        try:
            book = read_epub(data, self.max_record_bytes)
        except (LockedBook, LargeBook) as error:
            refused = Drop("drm" if isinstance(error, LockedBook) else "too large", str(error))
            return Record(locator=locator, text="", raw=data, drop=refused)
        if self.books and (cut := read_gutenberg_book(data, locator, self.max_record_bytes, book.paragraphs)):
            return cut
        facts = {"title": book.title, "date": book.date, "license": book.rights, "group": book.creator}
        facts["meta"] = format_meta(hidden=book.hidden)
        return build_record(locator, data, {"text": "\n\n".join(book.paragraphs), **facts})


def has_gutenberg_name(data: bytes) -> bool:
    """Return True if the bytes of a text mention Project Gutenberg."""
    return b"utenberg" in data or b"GUTENBERG" in data


def read_gutenberg_book(data: bytes, locator: Locator, max_bytes: int, paragraphs: Sequence[str] = ()) -> Record | None:
    """Build the record of a Project Gutenberg book in the same way as the source kind "bookcorpus".

    Args:
        data: The bytes of the file.
        locator: Location of the file in the raw files.
        max_bytes: Maximum size of a book in bytes.
        paragraphs: The paragraphs of the book if the file is an EPUB; empty if it is a text.

    Returns:
        The record, which is dropped if the book is unusable; None if the text is not a Project Gutenberg book.
    """
    if not paragraphs and not has_gutenberg_name(data):
        return None
    from corpora.sources.books.encoding import decode_text  # not above: as for pages
    from corpora.sources.books.epub import BadBook
    from corpora.sources.books.gutenberg import cut_whole_book
    from corpora.sources.books.source import BookCorpusSource

    try:
        body = cut_whole_book("\n\n".join(paragraphs) if paragraphs else decode_text(data))
    except BadBook:
        return None  # no text of one encoding: read like any other file
    if body is None:
        return None
    name = locator.file.rpartition("/")[2].removesuffix(".gz")
    record = BookCorpusSource(path=name, min_prose_words=0, max_record_bytes=max_bytes).build_record(
        data, locator, name
    )
    if record.drop is not None and not record.drop.damaged and body.strip():  # a table or a play: all of it is kept
        return record._replace(text=body.strip(), drop=None)
    return record


def iter_nonblank_lines(lines: Iterator[Line], tally: Tally) -> Iterator[Line]:
    """Yield the lines that are not blank, and count each of them in the tally."""
    for line in lines:
        if line.data is None or line.data.strip():
            tally.records += 1
            yield line


def find_stop(piece: Slice) -> int | None:
    """Return the byte at which to stop reading the lines of a slice; None if the file is compressed and read whole."""
    return None if is_packed(piece.file.name) else piece.stop


def cut_lines(file: RawFile, encoding: str) -> list[Slice]:
    """Split a file of lines into slices of 1 MB. A compressed, UTF-16 or UTF-32 file is one slice.

    Args:
        file: The file.
        encoding: The source's setting `encoding`.

    Raises:
        InputError: If the file cannot be read, or its encoding does not fit the setting.
    """
    path = parse_raw_path(file.path)
    if is_packed(file.name) or (isinstance(path, MemberPath) and path.is_packed):
        return [slice_whole_file(file)]
    wide = file.size_bytes > SLICE_BYTES and find_line_encoding(path, encoding)
    return [slice_whole_file(file)] if wide else cut_every(file, SLICE_BYTES)


def find_line_encoding(path: Path, encoding: str) -> str:
    """Return the encoding of a file of lines if it must be converted to UTF-8 while reading, such as "utf-16-le".

    Args:
        path: Path of the file.
        encoding: The source's setting `encoding`. Only "auto" allows a conversion.

    Returns:
        The encoding; "" if the bytes are read without conversion.

    Raises:
        InputError: If the file cannot be read, its encoding cannot be determined, or it has a UTF-16 or UTF-32 byte
            order mark and `encoding` is not "auto".
    """
    if encoding == AUTO:
        return find_source_encoding(path)
    with open_raw(path) as stream, explain_damage(path):
        if mark := find_marked_encoding(stream.read(HEAD_BYTES)):
            raise InputError(
                f'{path} is {mark[:6].upper()}. Set the source\'s `encoding` to "auto", or convert the file to UTF-8, '
                "for instance with `iconv`."
            )
    return ""


def format_meta(**facts: Json) -> str | None:
    """Format metadata about a record as a JSON object with sorted keys, for the record's `meta` field.

    Empty values are omitted. Return None if all values are empty.
    """
    kept = {key: value for key, value in facts.items() if value}
    return json.dumps(kept, sort_keys=True) if kept else None


def build_record(locator: Locator, raw: bytes, fields: dict[str, Any]) -> Record:
    """Build a record from the fields found in the data. A record with a blank text is dropped as "empty".

    Args:
        locator: The position of the record.
        raw: Bytes that identify the record.
        fields: Values by attribute of `Record`, with at least "text".
    """
    return Record(locator=locator, raw=raw, drop=None if fields["text"].strip() else Drop("empty"), **fields)
