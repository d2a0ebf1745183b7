"""Books, one to a file: BookCorpus and BookCorpusOpen, Project Gutenberg, your own `.txt` and `.epub`.

    .txt   decode ─► Gutenberg's header and license cut ─► lines to paragraphs ─┐
    .epub  zip ─► pages in the spine's order ─► paragraphs ─► the same cut ─────┴─► volunteers' notes, catalogues,
                                              copyright pages, "about the author", contents, footnotes cut ─► a document

Promises: a book is one document, its paragraphs parted by a blank line; verse and titles keep their lines.
Every file, and every member of a tar but folders, is one record: a book, or a drop with its reason. A tar that
is cut off or damaged is refused; a damaged book costs only itself.
Measured on 91 texts and 5 EPUBs (`benchmarks.books` of commit 7508d9ac): no sentence of a license and no list of
contents is left, the beginning of each of 2,257 chapters is there, 99.6% of the words between Gutenberg's marks are
kept. Costs: 6 to 7 MB/s of text (91 novels, 41 MB), most of it in joining lines; an EPUB gives 5 MB/s of text. The
same novels in a `.tar.gz` come as fast, but it is one slice, read as a stream: unpacked, its books keep
every worker busy, and a record of it is found again without decompressing what is before it.
Memory: one book, at most `max_record_bytes`, and what it is made into.
"""

import gzip
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from corpora.errors import InputError
from corpora.generic_types import Json
from corpora.schema import MAX_EXCERPT_CHARACTERS, Locator
from corpora.sources.books.encoding import decode_text
from corpora.sources.books.epub import BadBook, LargeBook, LockedBook, read_epub
from corpora.sources.books.gutenberg import cut_gutenberg, cut_notes
from corpora.sources.books.lines import find_title_and_author, split_paragraphs
from corpora.sources.books.matter import count_prose_words, cut_catalogue, cut_footnotes, cut_matter
from corpora.sources.bytes.archives import (
    ByteReader,
    MemberCount,
    TarMember,
    TarReader,
    read_file_pieces,
    read_gzip_pieces,
)
from corpora.sources.bytes.faults import CUT_OFF_ERROR, DAMAGE_ERRORS, READ_FAULTS, DamagedBytes
from corpora.sources.bytes.objects import open_for_library, parse_raw_path
from corpora.sources.contract import (
    Defaults,
    Drop,
    RawFile,
    Record,
    Slice,
    Tally,
    find_by_ending,
    select_settings,
    slice_whole_file,
)
from corpora.store.settings import check_range

TEXT_ENDINGS = (".txt", ".txt.gz")
BOOK_ENDINGS = (*TEXT_ENDINGS, ".epub")
ARCHIVE_ENDINGS = (".tar", ".tar.gz", ".tgz")
ENDINGS = (*BOOK_ENDINGS, *ARCHIVE_ENDINGS)
STEM = re.compile(r"(?P<stem>.+?)(?:\.epub)?(?:\.txt(?:\.gz)?|\.epub)", re.I)
NUMBER = re.compile(r"gutenberg\.org/(?:ebooks|etext|files)/(\d{1,9})(?!\d)", re.I)
MIN_PROSE_RATIO = 0.06  # words of running text to a character: novels have 0.17 to 0.20, programs 0.01 to 0.06
MAX_LICENSE_CHARACTERS = 100  # longer statements of rights are essays, not names


class Book(NamedTuple):
    """The paragraphs of a book's text, and its metadata. Metadata that is not known is None.

    paragraphs: the paragraphs in order, without everything around the text
    language:   language as the book states it, such as "English" or "en"
    date:       release date, as YYYY, YYYY-MM or YYYY-MM-DD
    rights:     statement of the book's license
    number:     number of the e-book at Project Gutenberg
    revision:   latest date in Gutenberg's header as a number, such as 20180114
    hidden:     number of elements with text that the book does not display
    """

    paragraphs: list[str]
    title: str | None
    author: str | None
    language: str | None
    date: str | None
    rights: str | None
    number: int | None
    revision: int | None
    hidden: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BookCorpusSource:
    """The `[[source]]` table of kind "bookcorpus".

    path:             a file, a folder or a glob: `.txt`, `.epub.txt`, `.txt.gz`, `.epub`, and `.tar` or `.tar.gz`
                      of these; other files in a folder are not read, other members of a tar are dropped
    min_prose_words:  a book with less running text (a table, an index, a cover) is dropped
    max_record_bytes: a larger book, or an EPUB that unpacks to more, is dropped

    A book with only a small share of running text (`MIN_PROSE_RATIO`), such as a commented program or a dictionary,
    is dropped, too. A book with a Gutenberg number has the key `gutenberg:<number>` in any file, and its revision is
    the last date in its header, so that the newest edition supersedes the others. The id of any other book is
    derived from its bytes.
    """

    kind: ClassVar[str] = "bookcorpus"
    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("lxml",)
    defaults: ClassVar[Defaults] = {"rules": {"gopher": {"max_words": 10_000_000}}}  # a book is one document, and long

    name: str = "bookcorpus"
    path: str
    min_prose_words: int = 500
    max_record_bytes: int = 50_000_000

    def __post_init__(self) -> None:
        check_range(f"source {self.name!r}: min_prose_words", self.min_prose_words, 0, 1 << 30)
        check_range(f"source {self.name!r}: max_record_bytes", self.max_record_bytes, 1, 1 << 30)

    def settings(self) -> dict[str, Json]:
        """Return the settings that affect the documents, as JSON by field name.

        These are `min_prose_words` and `max_record_bytes`.
        """
        return select_settings(self)

    def files(self) -> list[tuple[str, Path]]:
        """List the raw files as (name, path) pairs, sorted by name.

        These are the books and archives of books at `path`.

        Raises:
            InputError: If there are none, or `path` names a single file with another extension.
        """
        wanted = f"a file with one of the endings {', '.join(ENDINGS)}, a folder of them, or a glob"
        refused = f"is none of {', '.join(ENDINGS)}. Set `path` to {wanted}."
        return find_by_ending(self.name, self.path, ENDINGS, wanted, refused)

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        A book or archive of books is one slice.
        """
        return [slice_whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        A book is one record, and so is each member of a tar archive.

        Args:
            piece: The slice, which is the whole file.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if an archive is damaged or the file cannot be read.
        """
        if piece.file.name.lower().endswith(ARCHIVE_ENDINGS):
            try:
                yield from self._read_members(piece.file, tally)
            except (DamagedBytes, OSError) as fault:
                raise InputError(f"{fault}, so its books cannot all be read. Get the file again.") from fault
        else:
            tally.records += 1
            yield self._read_file(piece.file, tally)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The record is a book: a file, or a member of an archive. A `.tar.gz` or `.txt.gz` is decompressed from its
        beginning.

        Raises:
            InputError: If the file cannot be read, or ends before the record.
        """
        try:
            with gzip.open(open_for_library(file), "rb") if locator.stream >= 0 else file.open("rb") as stream:
                stream.seek(locator.offset)
                data = stream.read(locator.length)
        except READ_FAULTS as error:
            raise InputError(f"Cannot read {locator} again in {file}: {error}. Get the file again.") from error
        if len(data) != locator.length:
            raise InputError(f"{file} ends before {locator}. Is it the file that was read? Get it again.")
        return data

    def build_record(self, data: bytes, locator: Locator, name: str) -> Record:
        """Build the record of a book.

        A book that is damaged, encrypted, too large or almost without prose yields a dropped record.

        Args:
            data: The bytes of the book.
            locator: Location of these bytes in the raw files.
            name: The file name. Its extension decides how the book is read.
        """
        try:
            book = self._read(data, name)
        except (BadBook, LockedBook, LargeBook) as error:
            return Record(locator=locator, text="", raw=data, title=strip_endings(name), drop=_to_drop(error))
        text = "\n\n".join(book.paragraphs)
        min_words = max(self.min_prose_words, int(MIN_PROSE_RATIO * len(text)))
        num_words = count_prose_words(book.paragraphs, min_words)
        drop = None if text else Drop("empty")
        if drop is None and num_words < min_words:
            drop = Drop("no prose", f"{num_words} words of running text")
        marked = book.number is not None
        noted = {key: value for key, value in (("language", book.language), ("hidden", book.hidden)) if value}
        return Record(
            locator=locator,
            text=text[: 2 * MAX_EXCERPT_CHARACTERS] if drop else text,
            key=f"gutenberg:{book.number}" if marked else None,
            raw=data,
            revision=book.revision if marked else None,
            title=book.title or strip_endings(name),
            url=f"https://www.gutenberg.org/ebooks/{book.number}" if marked else None,
            date=book.date,
            license=book.rights if book.rights and len(book.rights) <= MAX_LICENSE_CHARACTERS else None,
            group=book.author,
            meta=json.dumps(noted, ensure_ascii=False) if noted else None,
            drop=drop,
        )

    def _read(self, data: bytes, name: str) -> Book:
        """Parse the bytes of a book, according to the extension of its file name.

        Raises:
            BadBook: If they are damaged.
            LockedBook: If they are encrypted.
            LargeBook: If they decompress to more than allowed.
        """
        if name.lower().endswith(".epub"):
            return read_epub_book(data, self.max_record_bytes)
        if name.lower().endswith(".txt.gz"):
            data = _unpack_gzip(data, self.max_record_bytes)
        return read_text_book(decode_text(data))

    def _read_file(self, file: RawFile, tally: Tally) -> Record:
        """Build the record of a file with one book.

        The content of a `.txt.gz` is decompressed; if that fails, the record is dropped.

        Raises:
            InputError: If the file cannot be read.
        """
        locator = Locator(file=file.name, sha256=file.sha256, length=file.size_bytes)
        if drop := tally.enter(locator):
            return self._build_dropped(locator, file.name.rpartition("/")[2], drop)
        path, name = parse_raw_path(file.path), file.name.rpartition("/")[2]
        try:
            with path.open("rb") as stream:
                data = stream.read(self.max_record_bytes + 1)
        except OSError as error:
            raise InputError(
                f"Cannot read {path}: {error.strerror or error}. Check the path and its permissions."
            ) from error
        if len(data) > self.max_record_bytes:
            return self._build_dropped(locator, name, Drop("too large", f"over {self.max_record_bytes} bytes"))
        if not name.lower().endswith(".gz"):
            return self.build_record(data, locator, name)
        try:
            data = _unpack_gzip(data, self.max_record_bytes)
        except (BadBook, LargeBook) as error:
            return self._build_dropped(locator, name, _to_drop(error))
        inner = Locator(file=file.name, sha256=file.sha256, stream=0, length=len(data))
        if drop := tally.enter(inner):
            return self._build_dropped(inner, name, drop)
        return self.build_record(data, inner, name[: -len(".gz")])

    def _read_members(self, file: RawFile, tally: Tally) -> Iterator[Record]:
        """Yield one record for each member of a tar archive except folders, and count them in the tally.

        Raises:
            DamagedBytes: During iteration, if the archive is damaged or truncated.
            OSError: During iteration, if it cannot be read.
        """
        path = parse_raw_path(file.path)
        zipped = not path.name.lower().endswith(".tar")
        pieces = read_gzip_pieces(path) if zipped else read_file_pieces(path)
        tar = TarReader(ByteReader(_count_members(pieces, tally)), str(path))
        for member in tar.iter_members():
            if member.kind != "folder":
                locator = Locator(
                    file=file.name,
                    sha256=file.sha256,
                    stream=0 if zipped else -1,
                    offset=member.start,
                    length=member.size_bytes,
                )
                yield self._read_member(tar, member, locator, tally)

    def _read_member(self, tar: TarReader, member: TarMember, locator: Locator, tally: Tally) -> Record:
        """Build the record of a member of a tar archive. A member that is not a book or too large is dropped.

        Args:
            tar: Reads the archive.
            member: The member that `tar` found last.
            locator: Location of its bytes.
            tally: Knows which records crashed earlier and must be skipped.

        Raises:
            DamagedBytes: If the archive ends before the member does.
        """
        name = member.name.rpartition("/")[2]
        if member.kind != "file" or not name.lower().endswith(BOOK_ENDINGS) or name.startswith("."):
            return self._build_dropped(locator, name, Drop("not a book", f"{member.kind} {member.name}"))
        if member.size_bytes > self.max_record_bytes:
            return self._build_dropped(locator, name, Drop("too large", f"over {self.max_record_bytes} bytes"))
        if drop := tally.enter(locator):
            return self._build_dropped(locator, name, drop)
        return self.build_record(tar.read(member), locator, name)

    def _build_dropped(self, locator: Locator, name: str, drop: Drop) -> Record:
        """Build a dropped record for data that was not read. It is identified by its location."""
        return Record(locator=locator, text="", raw=str(locator).encode(), title=strip_endings(name), drop=drop)


def _to_drop(error: BadBook | LockedBook | LargeBook) -> Drop:
    """Return the `Drop` for a book that cannot be read: "damaged", "drm" (encrypted) or "too large"."""
    if isinstance(error, BadBook):
        return Drop("damaged", str(error), damaged=True)
    return Drop("drm" if isinstance(error, LockedBook) else "too large", str(error))


def read_text_book(text: str) -> Book:
    """Read a book from plain text with `\\n` line endings."""
    source = cut_gutenberg(text)
    blocks = split_paragraphs(source.body)
    title, author = find_title_and_author(blocks)
    return Book(
        paragraphs=cut_around(blocks),
        title=source.title or title,
        author=source.author or author,
        language=source.language,
        date=source.released,
        rights=None,
        number=source.number,
        revision=source.revision,
    )


def cut_around(blocks: list[str]) -> list[str]:
    """Remove everything that is not the text itself from a book's paragraphs.

    This includes volunteers' notes, advertisements, the publisher's pages, the table of contents and footnotes.
    """
    return cut_footnotes(cut_matter(cut_catalogue(cut_notes(blocks))))


def read_epub_book(data: bytes, max_bytes: int) -> Book:
    """Read a book from the bytes of an EPUB file.

    In Gutenberg's books, the header and license are removed from the text.

    Raises:
        BadBook: If the file is damaged.
        LockedBook: If the text is encrypted.
        LargeBook: If its uncompressed size exceeds `max_bytes`, or it exceeds another limit of `read_epub`.
    """
    epub = read_epub(data, max_bytes)
    source = cut_gutenberg("\n\n".join(epub.paragraphs))
    blocks = [block for block in source.body.strip("\n").split("\n\n") if block]
    numbers = (match[1] for identifier in epub.identifiers if (match := NUMBER.search(identifier)))
    number = source.number if source.number is not None else next(map(int, numbers), None)
    return Book(
        paragraphs=cut_around(blocks),
        title=epub.title or source.title,
        author=epub.creator or source.author,
        language=epub.language or source.language,
        date=epub.date or source.released,
        rights=epub.rights,
        number=number,
        revision=source.revision,
        hidden=epub.hidden,
    )


def strip_endings(name: str) -> str:
    """Return a file name without its extensions.

    >>> strip_endings("the-star.epub.txt"), strip_endings("emma_158.txt.gz"), strip_endings("README")
    ('the-star', 'emma_158', 'README')
    """
    match = STEM.fullmatch(name)
    return match["stem"] if match else name


def _unpack_gzip(data: bytes, max_bytes: int) -> bytes:
    """Decompress gzip data with one or more members.

    Raises:
        BadBook: If the data is damaged or truncated.
        LargeBook: If the result has more than `max_bytes` bytes.
    """
    if not data:
        raise BadBook("a gzip file that is cut off")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            unpacked = stream.read(max_bytes + 1)
    except CUT_OFF_ERROR as error:
        raise BadBook("a gzip file that is cut off") from error
    except DAMAGE_ERRORS["gz"] as error:
        raise BadBook(f"a damaged gzip file: {error}") from error
    if len(unpacked) > max_bytes:
        raise LargeBook(f"over {max_bytes} bytes unpacked")
    return unpacked


def _count_members(pieces: Iterator[bytes], tally: Tally) -> Iterator[bytes]:
    """Yield the bytes of a tar archive unchanged, and count its members in the tally along the way."""
    count = MemberCount()
    for piece in pieces:
        tally.records += count.feed(piece)
        yield piece
