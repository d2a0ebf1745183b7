"""Your own files, by their endings: text, JSON lines, tables, Parquet, pages, books and crawl archives.

    .txt .md ............. a file is a document          .html .htm ..... a file is a document, its main text
    .jsonl .ndjson ....... a line is a document          .epub .......... a file is a document
    .csv .tsv ............ a row is a document           .warc .wet ..... a page is a document
    .parquet ............. a row is a document           .docx .pdf ...... a file is a document
                                                         texts, lines, tables and pages also .gz; see ENDINGS

Promises: a folder may mix them. Every file, non-blank line, row or record of an archive is one record; what cannot be
read is a damaged drop that says why. Plain files of lines are cut every 8 MB, and a line belongs to the slice in
which it begins; Parquet is cut at its row groups, archives where the kind "cc-news" cuts them; any other file is one
slice. A table is cut too where `quote` is "", for then no line end is inside a field.
Costs, in MB/s of text of 1,600 bytes a record, on one core (AMD EPYC): JSON lines 155, tables 105, with
quotes in each row 88, Parquet 115; pages, books and archives what their own kinds cost. Memory: one record, at most
`max_record_bytes`; of Parquet 64 rows.
"""

import codecs
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.bytes.endings import packed
from corpora.sources.bytes.raw_files import AUTO, check_encoding
from corpora.sources.contract import RawFile, Record, RecordFormat, Slice, Tally, files_ending, plain_settings
from corpora.sources.files.endings import (
    ARCHIVE_ENDINGS,
    BOOK_ENDINGS,
    ENDINGS,
    KNOWN,
    LINE_ENDINGS,
    PAGE_ENDINGS,
    PARQUET_ENDINGS,
    PDF_ENDINGS,
    TABLE_ENDINGS,
    WORD_ENDINGS,
)
from corpora.sources.files.formats import BookFile, JsonLines, PageFile, ParquetRows, TextFile, TextTable
from corpora.sources.files.office import DocxFile, PdfFile
from corpora.sources.files.pdf import HOW_TO_INSTALL, LIBRARY, can_read_pdf
from corpora.sources.record_fields import check_fields
from corpora.sources.web.archived_pages import ArchivedPages
from corpora.store.manifest import Json
from corpora.store.settings import added, check_range

ASCII_CHARACTERS = 128
DELIMITERS = ",;\t|"  # one of which parts the first row of a table


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSource:
    """The `[[source]]` table of kind "files".

    path:             a file, a folder or a glob; other endings in a folder are passed over
    fields:           what is found under which name in a JSON object (`meta.url`: in the object `meta`) or in which
                      column of a table; of several names the first that is there; a named `key` must always be
                      there. Where `text` is not named, it is looked for, and the lock keeps what was found
    encoding:         of texts, lines and tables (a byte order mark of UTF-8 is allowed for); "auto": UTF-8 where it
                      is valid, else windows-1252, and UTF-16 and UTF-32 by their mark or their zeros
    max_record_bytes: a longer line, row or file is dropped
    delimiter:        between the fields of a table; "": a tab in `.tsv`, a comma in `.csv`, or what else parts its
                      first row: comma, semicolon, tab or bar
    quote:            around a field that holds delimiters, line ends or, doubled, itself; "": there is none
    """

    kind: ClassVar[str] = "files"
    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("fastwarc",)

    name: str
    path: str
    fields: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
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
        """Return what determines the bytes of its documents."""
        encoding = self.encoding if self.encoding == AUTO else codecs.lookup(self.encoding).name
        settings = plain_settings(self)
        return {**settings, "fields": settings["fields"] or {"text": "text"}, "encoding": encoding}

    def files(self) -> list[tuple[str, Path]]:
        """The files of known endings, sorted by name; PDF where it can be read. Raises InputError for none."""
        wanted = f"a file with one of the endings {KNOWN}, a folder of them, or a glob"
        endings, refused = ENDINGS, f"is none of {KNOWN}. Rename or convert it."
        if not can_read_pdf():
            endings = tuple(ending for ending in ENDINGS if ending not in PDF_ENDINGS)
            wanted, refused = f"{wanted}; {HOW_TO_INSTALL}", f"{refused} {HOW_TO_INSTALL}"
        return files_ending(self.name, self.path, endings, wanted, refused)

    def libraries_of(self, files: Sequence[RawFile]) -> tuple[str, ...]:
        """The libraries that decide what comes of these files, besides those of the kind."""
        return (LIBRARY,) if any(file.name.lower().endswith(PDF_ENDINGS) for file in files) else ()

    def slices(self, file: RawFile) -> list[Slice]:
        """Plain lines every 8 MB, Parquet at its row groups, archives at records; any other file whole."""
        return self.format_of(file.name).slices(file)

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """One record for each file, line, row or record of an archive. Raises InputError for a broken file."""
        return self.format_of(piece.file.name).records(piece, tally)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """The bytes of a file, line or row, without its end; of Parquet the row as JSON. Raises InputError."""
        return self.format_of(file.name).raw_record(file, locator)

    def format_of(self, name: str) -> RecordFormat:
        """Return the format by which a file is read, by the ending of its name."""
        name, most = name.lower(), self.max_record_bytes
        if name.endswith(LINE_ENDINGS):
            return JsonLines(fields=self.fields, encoding=self.encoding, max_record_bytes=most)
        if name.endswith(TABLE_ENDINGS):
            usual = "\t" if name.endswith(packed(".tsv")) else ","
            return TextTable(
                fields=self.fields,
                encoding=self.encoding,
                max_record_bytes=most,
                delimiter=self.delimiter or usual,
                quote=self.quote,
                others=""
                if self.delimiter
                else "".join(sign for sign in DELIMITERS if sign not in (usual, self.quote)),
            )
        if name.endswith(PARQUET_ENDINGS):
            return ParquetRows(fields=self.fields, max_record_bytes=most)
        if name.endswith(ARCHIVE_ENDINGS):
            return ArchivedPages(max_record_bytes=most)
        if name.endswith(WORD_ENDINGS):
            return DocxFile(max_record_bytes=most)
        if name.endswith(PDF_ENDINGS):
            return PdfFile(max_record_bytes=most)
        if name.endswith(BOOK_ENDINGS):
            return BookFile(max_record_bytes=most)
        if name.endswith(PAGE_ENDINGS):
            return PageFile(max_record_bytes=most)
        return TextFile(encoding=self.encoding, max_record_bytes=most)
