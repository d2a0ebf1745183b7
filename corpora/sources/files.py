"""Your own files, by their endings: text, JSON lines, tables, Parquet, pages, books and crawl archives.

    .txt .md ............. a file is a document          .html .htm ..... a file is a document, its main text
    .jsonl .ndjson ....... a line is a document          .epub .......... a file is a document
    .csv .tsv ............ a row is a document           .warc .wet ..... a page is a document
    .parquet ............. a row is a document           all but Parquet and EPUB also .gz; see ENDINGS

Promises: a folder may mix them. Every file, non-blank line, row or record of an archive is one record; what cannot be
read is a damaged drop that says why. Plain files of lines are cut every 8 MB, and a line belongs to the slice in
which it begins; Parquet is cut at its row groups, archives where the kind "cc-news" cuts them; any other file is one
slice. A table is cut too where `quote` is "", for then no line end stands inside a field.
Costs, in MB/s of text of 1,600 bytes a record, on one core (AMD EPYC): JSON lines 155, tables 105, with
quotes in each row 88, Parquet 115; pages, books and archives what their own kinds cost. Memory: one record, at most
`max_record_bytes`; of Parquet 64 rows.
"""

import codecs
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any, ClassVar

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources import files_parquet
from corpora.sources.cc_news import CcNewsSource
from corpora.sources.epub import BadBook, LargeBook, LockedBook, read_epub
from corpora.sources.files_bytes import (
    AUTO,
    READ_FAULTS,
    Line,
    check_encoding,
    decode,
    is_packed,
    open_raw,
    packed,
    read_again,
    read_lines,
)
from corpora.sources.files_bytes import BadRecord as BadRecord
from corpora.sources.files_fields import check_fields, find_fields, parse_object, with_text
from corpora.sources.files_rows import OpenQuote, by_name, parse_row, read_rows
from corpora.sources.html import extract_page
from corpora.sources.html_charset import decode_html
from corpora.sources.html_tree import Refused
from corpora.sources.source import Drop, RawFile, Record, Slice, Tally, matching_files, whole_file
from corpora.store.manifest import Json
from corpora.store.settings import added, check_range, settings_json

TEXT_ENDINGS = packed(".txt", ".md")
LINE_ENDINGS = packed(".jsonl", ".ndjson")
TABLE_ENDINGS = packed(".csv", ".tsv")
PAGE_ENDINGS = packed(".html", ".htm")
PARQUET_ENDINGS = (".parquet",)
BOOK_ENDINGS = (".epub",)
ARCHIVE_ENDINGS = (".warc", ".warc.gz", ".warc.zst", ".wet", ".wet.gz", ".wet.zst")
ENDINGS = (
    *(*TEXT_ENDINGS, *LINE_ENDINGS, *TABLE_ENDINGS, *PAGE_ENDINGS),
    *(*PARQUET_ENDINGS, *BOOK_ENDINGS, *ARCHIVE_ENDINGS),
)
PLAIN_ENDINGS = ".txt, .md, .jsonl, .ndjson, .csv, .tsv, .html, .htm (each also .gz, .zst, .bz2, .xz), .parquet, .epub"
KNOWN = f"{PLAIN_ENDINGS}, .warc, .warc.gz, .wet, .wet.gz"
SLICE_BYTES = 8_000_000
NO_DAY = "9999-12-31"  # a page of a folder has no day of a crawl, after which no date could be its own
ASCII_CHARACTERS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSource:
    """The `[[source]]` table of kind "files".

    path:             a file, a folder or a glob; other endings in a folder are passed over
    fields:           what is found under which name in a JSON object (`meta.url`: in the object `meta`) or in which
                      column of a table; a named `key` must always be there
    encoding:         of texts, lines and tables (a byte order mark of UTF-8 is allowed for); "auto": UTF-8 where it
                      is valid, else windows-1252, and UTF-16 where a text or page has its mark
    max_record_bytes: a longer line, row or file is dropped
    delimiter:        between the fields of a table; "": a tab in `.tsv`, a comma in `.csv`
    quote:            around a field that holds delimiters, line ends or, doubled, itself; "": there is none
    """

    kind: ClassVar[str] = "files"
    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("fastwarc",)

    name: str
    path: str
    fields: Mapping[str, str] = field(default_factory=lambda: {"text": "text"})
    encoding: str = "utf-8"
    max_record_bytes: int = 20_000_000
    delimiter: str = added(neutral="")
    quote: str = added(neutral='"')

    def __post_init__(self) -> None:
        check_range(f"source {self.name!r}: max_record_bytes", self.max_record_bytes, 1, 1 << 30)
        check_fields(self.name, self.fields)
        check_encoding(self.name, self.encoding)
        for key, sign in (("delimiter", self.delimiter), ("quote", self.quote)):
            if len(sign) > 1 or sign in ("\n", "\r", "\0") or (sign and ord(sign) >= ASCII_CHARACTERS):
                raise InputError(
                    f"Source {self.name!r}: `{key}` = {sign!r} is not one ASCII character that is no line end."
                )
        if self.delimiter and self.delimiter == self.quote:
            raise InputError(f"Source {self.name!r}: `delimiter` and `quote` are both {self.quote!r}. Set one of them.")

    def settings(self) -> dict[str, Json]:
        """What determines the bytes of its documents."""
        plain = {key: value for key, value in settings_json(self).items() if key not in ("name", "path")}
        encoding = self.encoding if self.encoding == AUTO else codecs.lookup(self.encoding).name
        return {**plain, "fields": dict(self.fields), "encoding": encoding}

    def files(self) -> list[tuple[str, Path]]:
        """The files of known endings, sorted by name. Raises InputError where there are none."""
        wanted = f"a file with one of the endings {KNOWN}, a folder of them, or a glob"
        found = matching_files(self.name, self.path, lambda name: name.lower().endswith(ENDINGS), wanted)
        for _, path in found:
            if not path.name.lower().endswith(ENDINGS):
                raise InputError(f"Source {self.name!r}: {path} is none of {KNOWN}. Rename or convert it.")
        return found

    def slices(self, file: RawFile) -> list[Slice]:
        """Plain lines every 8 MB, Parquet at its row groups, archives at records; any other file whole."""
        name = file.name.lower()
        if name.endswith(PARQUET_ENDINGS):
            cuts = files_parquet.cut_groups(Path(file.path), file.size_bytes)
            return [Slice(file=file, start=start, stop=stop) for start, stop in cuts]
        if name.endswith(ARCHIVE_ENDINGS):
            return self._archives().slices(file)
        in_lines = name.endswith(LINE_ENDINGS) or (name.endswith(TABLE_ENDINGS) and not self.quote)
        if not in_lines or is_packed(name):
            return [whole_file(file)]
        starts = range(0, file.size_bytes, SLICE_BYTES)
        return [Slice(file=file, start=start, stop=min(start + SLICE_BYTES, file.size_bytes)) for start in starts]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """One record for each file, line, row or record of an archive. Raises InputError for a broken file."""
        name = piece.file.name.lower()
        if name.endswith(PARQUET_ENDINGS):
            yield from self._parquet(piece, tally)
        elif name.endswith(ARCHIVE_ENDINGS):
            yield from self._archives().records(piece, tally)
        else:
            with open_raw(Path(piece.file.path)) as stream:
                try:
                    yield from self._streamed(stream, piece, tally)
                except OpenQuote as error:
                    raise InputError(
                        f'{piece.file.path}: {error}. Close it, or set the source\'s `quote` to "" where quotes mean '
                        "nothing, or get the file again."
                    ) from error
                except READ_FAULTS as error:
                    raise InputError(f"{piece.file.path} cannot be read to its end: {error}. Get it again.") from error

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """The bytes of a file, line or row, without its end; of Parquet the row as JSON. Raises InputError."""
        name = file.name.lower()
        if name.endswith(ARCHIVE_ENDINGS):
            return self._archives().raw_record(file, locator)
        if name.endswith(PARQUET_ENDINGS):
            return files_parquet.raw_row(file, locator.stream, locator.offset)
        return read_again(file, locator.offset, locator.length)

    def _archives(self) -> CcNewsSource:
        return CcNewsSource(name=self.name, path=self.path, max_record_bytes=self.max_record_bytes)

    def _streamed(self, stream: BufferedIOBase, piece: Slice, tally: Tally) -> Iterator[Record]:
        name = piece.file.name.lower()
        if name.endswith((*LINE_ENDINGS, *TABLE_ENDINGS)) and not piece.start:
            _check_lines(Path(piece.file.path))
        if name.endswith(LINE_ENDINGS):
            yield from self._lines(stream, piece, tally)
        elif name.endswith(TABLE_ENDINGS):
            yield from self._table(stream, piece, tally)
        else:
            tally.records += 1
            yield self._file(stream, piece.file, tally)

    # Lines and rows

    def _lines(self, stream: BufferedIOBase, piece: Slice, tally: Tally) -> Iterator[Record]:
        for line in self._counted(read_lines(stream, piece.start, _stop(piece), self.max_record_bytes), tally):
            yield self._line_record(line, piece.file)

    def _counted(self, lines: Iterator[Line], tally: Tally) -> Iterator[Line]:
        """The lines that are not blank, counted."""
        for line in lines:
            if line.data is None or line.data.strip():
                tally.records += 1
                yield line

    def _line_record(self, line: Line, file: RawFile) -> Record:
        locator = _locator(file, line.offset, line.length)
        if line.data is None:
            return self._too_large(locator)
        try:
            found = find_fields(parse_object(decode(line.data, self.encoding, line.offset)), self.fields)
        except BadRecord as error:
            return _damaged(locator, line.data.strip(), error)
        return _record(locator, line.data.strip(), found)

    def _table(self, stream: BufferedIOBase, piece: Slice, tally: Tally) -> Iterator[Record]:
        """The rows of a table; the first that is not blank names its columns."""
        rows = self._rows(stream, piece)
        with open_raw(Path(piece.file.path)) as head:
            columns = self._columns(self._rows(head, whole_file(piece.file)), piece.file)
        if piece.start == 0:
            skipped = (row for row in rows if row.data is None or row.data.strip())
            rows = (row for number, row in enumerate(skipped) if number)
        for row in self._counted(rows, tally):
            yield self._row_record(row, columns, piece.file)

    def _rows(self, stream: BufferedIOBase, piece: Slice) -> Iterator[Line]:
        if not self.quote:
            return read_lines(stream, piece.start, _stop(piece), self.max_record_bytes)
        return read_rows(stream, self.max_record_bytes, self._delimiter(piece.file), self.quote)

    def _columns(self, rows: Iterator[Line], file: RawFile) -> list[str]:
        """The names of a table's columns. Raises InputError where one that `fields` names is not there once."""
        first = next((row for row in rows if row.data is None or row.data.strip()), None)
        if first is None:
            return []
        try:
            columns = self._fields_of(first, file) if first.data is not None else []
        except BadRecord as error:
            raise InputError(f"{file.path}: its header cannot be read: {error}. Mend it, or set `encoding`.") from error
        for path in with_text(self.fields).values():
            if columns.count(path) != 1:
                problem = "twice" if path in columns else "not"
                raise InputError(
                    f"{file.path} names the column {path!r} {problem}, but {', '.join(columns)[:500]}. Set the "
                    "source's `fields`, `delimiter` or `quote` to what the file has, or give it a first row of names."
                )
        return columns

    def _fields_of(self, row: Line, file: RawFile) -> list[str]:
        """The fields of a row. Raises BadRecord."""
        text = decode(row.data or b"", self.encoding, row.offset)
        return parse_row(text, self._delimiter(file), self.quote)

    def _row_record(self, row: Line, columns: list[str], file: RawFile) -> Record:
        locator = _locator(file, row.offset, row.length)
        if row.data is None:
            return self._too_large(locator)
        try:
            values = by_name(columns, self._fields_of(row, file))
            given = {key: value or None for key, value in values.items()}
            given[with_text(self.fields)["text"]] = values[with_text(self.fields)["text"]]
            found = find_fields(given, self.fields)
        except BadRecord as error:
            return _damaged(locator, row.data.strip(), error)
        return _record(locator, row.data.strip(), found)

    def _delimiter(self, file: RawFile) -> str:
        return self.delimiter or ("\t" if file.name.lower().endswith(packed(".tsv")) else ",")

    def _parquet(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        path, file = Path(piece.file.path), piece.file
        needed = tuple(with_text(self.fields).values())
        tally.records += files_parquet.count_rows(path, piece.start, piece.stop)
        for row in files_parquet.read_rows(path, piece.start, piece.stop, needed):
            raw = files_parquet.row_json(row.values)
            locator = Locator(file=file.name, sha256=file.sha256, stream=row.group, offset=row.number, length=len(raw))
            if len(raw) > self.max_record_bytes:
                yield self._too_large(locator)
                continue
            try:
                if row.fault:
                    raise BadRecord(row.fault)
                yield _record(locator, raw, find_fields(row.values, self.fields))
            except BadRecord as error:
                yield _damaged(locator, raw, error)

    # Whole files

    def _file(self, stream: BufferedIOBase, file: RawFile, tally: Tally) -> Record:
        data = stream.read(self.max_record_bytes + 1)
        if len(data) > self.max_record_bytes:
            return self._too_large(_locator(file, 0, file.size_bytes))
        locator = _locator(file, 0, len(data))
        name = file.name.lower()
        try:
            if name.endswith(TEXT_ENDINGS):
                return _record(locator, data, {"text": decode(data, self.encoding)})
            if drop := tally.enter(locator):
                return Record(locator=locator, text="", raw=data, drop=drop)
            return self._book(data, locator) if name.endswith(BOOK_ENDINGS) else _page(data, locator)
        except (BadRecord, BadBook) as error:
            return _damaged(locator, data, error)

    def _book(self, data: bytes, locator: Locator) -> Record:
        """Raises BadBook."""
        try:
            book = read_epub(data, self.max_record_bytes)
        except (LockedBook, LargeBook) as error:
            drop = Drop("drm" if isinstance(error, LockedBook) else "too large", str(error))
            return Record(locator=locator, text="", raw=data, drop=drop)
        found = {"title": book.title, "date": book.date, "license": book.rights, "group": book.creator}
        return _record(locator, data, {"text": "\n\n".join(book.paragraphs), **found})

    def _too_large(self, locator: Locator) -> Record:
        drop = Drop("too large", f"over {self.max_record_bytes} bytes")
        return Record(locator=locator, text="", raw=str(locator).encode(), drop=drop)


def _check_lines(path: Path) -> None:
    """Raise InputError for a file of lines whose mark says that they cannot be found by their bytes."""
    with open_raw(path) as stream:
        if stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise InputError(f"{path} is UTF-16. Convert it to UTF-8, for instance with `iconv`.")


def _page(data: bytes, locator: Locator) -> Record:
    """The main text of a page; the encoding is what the page says or looks like."""
    if not data.strip():
        return Record(locator=locator, text="", raw=data, drop=Drop("empty"))
    html = decode_html(data)
    page = extract_page(html.text, "", NO_DAY)
    if isinstance(page, Refused):
        return Record(locator=locator, text="", raw=data, drop=Drop(page.reason, page.detail))
    said = {"canonical": page.canonical, "lang": page.language, "replaced": html.num_replaced}
    meta = json.dumps({key: value for key, value in said.items() if value}, sort_keys=True)
    found = {"title": page.title, "date": page.date, "license": page.license, "meta": None if meta == "{}" else meta}
    return _record(locator, data, {"text": page.text, **found})


def _record(locator: Locator, raw: bytes, found: dict[str, Any]) -> Record:
    return Record(locator=locator, raw=raw, drop=None if found["text"].strip() else Drop("empty"), **found)


def _damaged(locator: Locator, raw: bytes, error: ValueError) -> Record:
    return Record(locator=locator, text="", raw=raw, drop=Drop("damaged", str(error), damaged=True))


def _locator(file: RawFile, offset: int, length: int) -> Locator:
    stream = 0 if is_packed(file.name) else -1
    return Locator(file=file.name, sha256=file.sha256, stream=stream, offset=offset, length=length)


def _stop(piece: Slice) -> int | None:
    """Where the lines of a slice end; a packed file is read to its end."""
    return None if is_packed(piece.file.name) else piece.stop
