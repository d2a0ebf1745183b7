"""Your own files, by their endings: text, JSON, tables, Parquet, pages, books, mail, office files, crawl archives.

    .txt .md ............. a file is a document          .html .htm ..... a file is a document, its main text
    .jsonl .ndjson ....... a line is a document          .epub .......... a file is a document
    .csv .tsv ............ a row is a document           .warc .wet ..... a page is a document
    .parquet ............. a row is a document           .docx .pptx ..... a file is a document
    .xlsx ................ a row is a document           .pdf ............ a file is a document
    .json ................ an object is a document       .mbox ........... a message is a document
    .eml ................. a file is a document          .zip ............ its members are read as files
    .greenbook ........... a patent is a document        .xml .nxml ...... PubMed, JATS, patents: a record each
                                                         texts, lines, tables and pages also .gz; see ENDINGS

Promises: a folder may mix them. Every file, non-blank line, row or record of an archive is one record; what cannot be
read is a damaged drop that says why. Plain files of lines are cut every 1 MB, and a line belongs to the slice in
which it begins; Parquet is cut at its row groups, archives as the kind "cc-news" cuts them; any other file is one
slice. A table is cut too if `quote` is "", for then no line end is inside a field.
Costs, in MB/s of text of 1,600 bytes a record, on one core (AMD EPYC): JSON lines 155, tables 105, with
quotes in each row 88, Parquet 115; pages, books and archives what their own kinds cost. Memory: one record, at most
`max_record_bytes`; of Parquet 64 rows.
"""

import codecs
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.schema import Locator
from corpora.sources.bytes.endings import OWNER_MARK, find_ending, with_packed_endings
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import AUTO, check_encoding
from corpora.sources.bytes.unchanged import format_change
from corpora.sources.bytes.zip_members import BadArchive, MemberPath, build_member_path, list_members
from corpora.sources.contract import (
    RawFile,
    Record,
    RecordFormat,
    Slice,
    Tally,
    check_fields,
    find_accepted,
    select_settings,
)
from corpora.sources.files.endings import (
    ARCHIVE_ENDINGS,
    BOOK_ENDINGS,
    ENDINGS,
    JSON_ENDINGS,
    KNOWN_ENDINGS,
    LINE_ENDINGS,
    MAIL_ENDINGS,
    MAILBOX_ENDINGS,
    MAILBOX_NAMES,
    MARKDOWN_ENDINGS,
    PAGE_ENDINGS,
    PARQUET_ENDINGS,
    PATENT_ENDINGS,
    PDF_ENDINGS,
    SHEET_ENDINGS,
    SLIDE_ENDINGS,
    TABLE_ENDINGS,
    TEXT_ENDINGS,
    WORD_ENDINGS,
    XML_ENDINGS,
    ZIP_ENDINGS,
)
from corpora.sources.files.formats import BookFile, JsonLines, MarkdownFile, ParquetRows
from corpora.sources.files.json_file import JsonFile
from corpora.sources.files.office.pdf import HOW_TO_INSTALL, LIBRARY, can_read_pdf
from corpora.sources.files.office.sheet_rows import SheetRows
from corpora.sources.files.patents import TextOrPatents
from corpora.sources.files.tables import TextTable
from corpora.sources.xml.presets import OTHER_ROOT, find_preset
from corpora.store.settings import check_range, later_field

ASCII_CHARACTERS = 128
DELIMITERS = ",;\t|"  # one of which parts the first row of a table
MAX_KINDS_SHOWN = 5  # named, of what a zip holds instead
PAGE_FOLDERS = ("_files", "-dateien", "_fichiers", "_archivos", "_file", "_bestanden", "_ficheiros", "_arquivos")
SAVED_PAGE_FILE, ZIP_IN_ZIP = "file of a saved page", ".zip in a .zip"
UNPACK = "Unpack it, with its password where it has one, or set `path` to something else."


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSource:
    """The `[[source]]` table of kind "files".

    path:             a file, a folder or a glob; files in a folder with an unsupported extension are not read
    fields:           the name in a JSON object (`meta.url` is `url` in the object `meta`), or the table column, that
                      contains each field of a record; if several names are given, the first that exists is used; if
                      `key` is given, every record must have it. If `text` is not given, the column with the text is
                      guessed, and the lock records the guess
    encoding:         encoding of texts, lines, JSON and tables (a UTF-8 byte order mark is allowed); "auto" detects
                      UTF-8, UTF-16, UTF-32, windows-1252, and older Japanese, Chinese, Korean and Cyrillic encodings
    max_record_bytes: a longer line, row or file is dropped
    delimiter:        character between the fields of a table; "" means a tab in `.tsv` and a comma in `.csv`, or
                      whichever of comma, semicolon, tab and bar splits the first rows uniformly
    quote:            character around a field that contains delimiters, line breaks or doubled quotes; "" if there is
                      none
    books:            read a text or EPUB with Project Gutenberg's marks as the kind "bookcorpus" does: without header,
                      license and notes, and with its lines joined into paragraphs
    """

    kind: ClassVar[str] = "files"
    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("fastwarc",)

    name: str
    path: str
    fields: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    encoding: str = "utf-8"
    max_record_bytes: int = 20_000_000
    delimiter: str = later_field(neutral="")
    quote: str = later_field(neutral='"')
    books: bool = later_field(neutral=False)

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
        """Return the settings that affect the documents, as JSON by field name.

        `fields` is {"text": "text"} if it is empty, and `encoding` is the codec's normalized name.
        """
        encoding = self.encoding if self.encoding == AUTO else codecs.lookup(self.encoding).name
        settings = select_settings(self)
        return {**settings, "fields": settings["fields"] or {"text": "text"}, "encoding": encoding}

    def files(self) -> list[tuple[str, Path]]:
        """List the raw files as (name, path) pairs, sorted by name.

        These are the readable files at `path`, including the members of zip archives. The name of a member is the
        archive's name, a slash, and the member's name in the archive.

        Raises:
            InputError: If there are none. The message lists the files that were found instead.
        """
        wanted = f"a file with one of the endings {KNOWN_ENDINGS}, a folder of them, or a glob"
        refused = f"is none of {KNOWN_ENDINGS}. Rename or convert it."
        if not can_read_pdf():
            wanted, refused = f"{wanted}; {HOW_TO_INSTALL}", f"{refused} {HOW_TO_INSTALL}"
        named = find_accepted(self.name, self.path, can_read, wanted, refused)
        files = [
            (inner, place)
            for name, path in named
            for inner, place, kind in self.iter_inside(name, path)
            if not kind and can_read(inner)
        ]
        if not files:
            kinds = Counter(
                kind or find_ending(name) for name, path in named for name, _, kind in self.iter_inside(name, path)
            )
            listed = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common(MAX_KINDS_SHOWN)) or "nothing"
            raise InputError(f"Source {self.name!r}: nothing in {self.path} can be read: it holds {listed}. {UNPACK}")
        return sorted(files)

    def iter_inside(self, name: str, path: Path) -> Iterator[tuple[str, Path, str]]:
        """Yield (name, path, reason) for a file, or for each file inside an archive.

        An archive is a `.zip` file. The reason tells why the file is not read, such as "encrypted member of a .zip". It
        is "" if this depends only on the file extension.
        """
        if is_of_saved_page(path):
            yield name, path, SAVED_PAGE_FILE
            return
        if not name.lower().endswith(ZIP_ENDINGS) or isinstance(path, MemberPath):
            yield name, path, explain_unread(name, path)
            return
        try:
            members = list_members(path)
        except (BadArchive, OSError):
            yield name, path, ""  # reading it says why
            return
        for member in members:
            nested = ZIP_IN_ZIP if member.name.lower().endswith(ZIP_ENDINGS) else ""
            place = build_member_path(path, member.name)
            yield f"{name}/{member.name}", place, member.kind or nested or explain_unread(member.name, place)

    def libraries_of(self, files: Sequence[RawFile]) -> tuple[str, ...]:
        """Return the names of the libraries, besides those in `libraries`, that affect the documents of these files.

        PDF files and Markdown files each need one.
        """
        needed = {LIBRARY: PDF_ENDINGS, "markdown-it-py": MARKDOWN_ENDINGS}
        names = [file.name.lower() for file in files]
        return tuple(library for library, endings in needed.items() if any(name.endswith(endings) for name in names))

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        Uncompressed files of lines are cut every 1 MB, Parquet files at row groups, and web archives at records. Any
        other file is one slice.

        Raises:
            InputError: If a Parquet, JSON or zip file cannot be read.
        """
        return self.choose_format(file.name).slices(file)

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Depending on the format, each file, line, row or member of an archive becomes a record.

        Args:
            piece: The slice.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file cannot be read to its end.
        """
        return self.choose_format(piece.file.name).records(piece, tally)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        These are the bytes of a file, of a line or row without its line ending, or of a Parquet or Excel row as JSON.

        Raises:
            InputError: If the file cannot be read.
        """
        return self.choose_format(file.name).raw_record(file, locator)

    def choose_format(self, name: str) -> RecordFormat:
        """Return the format for reading a file, according to its extension (case-insensitive).

        The extension must be one of `ENDINGS`, or the file must be called "mbox".
        """
        name, max_bytes = name.lower(), self.max_record_bytes
        if name.endswith(JSON_ENDINGS):
            return JsonFile(fields=self.fields, encoding=self.encoding, max_record_bytes=max_bytes)
        if name.endswith(LINE_ENDINGS):
            return JsonLines(fields=self.fields, encoding=self.encoding, max_record_bytes=max_bytes)
        if name.endswith(TABLE_ENDINGS):
            usual = "\t" if name.endswith(with_packed_endings(".tsv")) else ","
            return TextTable(
                fields=self.fields,
                encoding=self.encoding,
                max_record_bytes=max_bytes,
                delimiter=self.delimiter or usual,
                quote=self.quote,
                other_delimiters=""
                if self.delimiter
                else "".join(sign for sign in DELIMITERS if sign not in (usual, self.quote)),
            )
        if name.endswith(PARQUET_ENDINGS):
            return ParquetRows(fields=self.fields, max_record_bytes=max_bytes)
        if name.endswith(SHEET_ENDINGS):
            return SheetRows(fields=self.fields, max_record_bytes=max_bytes)
        if name.endswith(ZIP_ENDINGS):
            return BadZip()
        if name.endswith(XML_ENDINGS):
            from corpora.sources.xml.formats import XmlFile  # not above: as `PLAIN_FORMATS`

            return XmlFile(max_record_bytes=max_bytes)
        if name.endswith(MARKDOWN_ENDINGS):
            return MarkdownFile(encoding=self.encoding, max_record_bytes=max_bytes)
        if name.endswith((*TEXT_ENDINGS, *PATENT_ENDINGS)):
            return TextOrPatents(encoding=self.encoding, max_record_bytes=max_bytes, books=self.books)
        if name.endswith(BOOK_ENDINGS):
            return BookFile(max_record_bytes=max_bytes, books=self.books)
        module, form = next(each for endings, each in PLAIN_FORMATS.items() if name.endswith(endings))
        plain: RecordFormat = getattr(import_module(module), form)(max_record_bytes=max_bytes)
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class BadZip:
    """The format used for a zip archive if its members cannot be listed.

    Reading the file raises an error that explains why.
    """

    def slices(self, file: RawFile) -> list[Slice]:
        """Raise an InputError, because the members of the zip archive cannot be listed.

        Raises:
            InputError: Always. The message explains why, or says that the file changed if it can now be listed.
        """
        path = parse_raw_path(file.path)
        try:
            list_members(path)
        except BadArchive as error:
            raise InputError(f"{path} cannot be read: {error}. Get it again, or unpack it.") from error
        except OSError as error:
            raise InputError(
                f"Cannot read {path}: {error.strerror or error}. Check the path and its permissions."
            ) from error
        raise InputError(format_change(path))

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        There are none, since the zip archive cannot be read.

        Raises:
            InputError: At the first step, always. The message is the same as for `slices`.
        """
        self.slices(piece.file)
        yield from ()

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The result is b"", since an unreadable zip archive has no records.
        """
        return b""


def can_read(name: str) -> bool:
    """Return True if files with this name are read.

    >>> can_read("a.TXT"), can_read("raw/mbox"), can_read("a.png"), can_read("raw/~$a.docx")
    (True, True, False, False)
    """
    last = name.lower().rpartition("/")[2]
    if last in MAILBOX_NAMES:
        return True
    if last.startswith(OWNER_MARK):
        return False
    return last.endswith(ENDINGS) and (not last.endswith(PDF_ENDINGS) or can_read_pdf())


def explain_unread(name: str, path: Path) -> str:
    """Return the reason why a file with a supported extension is not read: XML with an unknown root element.

    The root element is unknown if no preset describes it.

    Args:
        name: Name of the file. Its extension is checked.
        path: Path of the file.

    Returns:
        The reason; "" if the file is read, or cannot be opened (reading it then raises the error).
    """
    try:
        return OTHER_ROOT if name.lower().endswith(XML_ENDINGS) and not find_preset(path) else ""
    except InputError:
        return ""  # reading it says why


def is_of_saved_page(path: Path) -> bool:
    """Return True if a browser saved the file along with a web page, as a picture, script or frame of it."""
    return _is_folder_of_page(path.parent)


@lru_cache(maxsize=4096)
def _is_folder_of_page(path: Path) -> bool:
    """Return True if a folder, or one of its parents, contains the files of a saved web page."""
    return any(_is_of_page(folder) for folder in (path, *path.parents) if folder.name.lower().endswith(PAGE_FOLDERS))


def _is_of_page(folder: Path) -> bool:
    """Return True if a folder seems to contain the files of a saved web page that is next to the folder.

    An example is "Ferries_files" next to "Ferries.html". The folder's name must end like one of `PAGE_FOLDERS`.
    """
    page = next(folder.name[: -len(ending)] for ending in PAGE_FOLDERS if folder.name.lower().endswith(ending))
    return any(folder.with_name(page + ending).is_file() for ending in (".html", ".htm", ".xhtml", ".HTML", ".HTM"))


# The module and the class of each, which are imported for a file of that kind: few folders have many kinds.
PLAIN_FORMATS: Mapping[tuple[str, ...], tuple[str, str]] = {
    ARCHIVE_ENDINGS: ("corpora.sources.web.archived_pages", "ArchivedPages"),
    WORD_ENDINGS: ("corpora.sources.files.office.docx_pptx", "DocxFile"),
    SLIDE_ENDINGS: ("corpora.sources.files.office.docx_pptx", "PptxFile"),
    PDF_ENDINGS: ("corpora.sources.files.office.docx_pptx", "PdfFile"),
    PAGE_ENDINGS: ("corpora.sources.files.formats", "PageFile"),
    MAIL_ENDINGS: ("corpora.sources.files.mail", "MailFile"),
    (*MAILBOX_ENDINGS, *MAILBOX_NAMES): ("corpora.sources.files.mail", "MailboxFile"),
}
