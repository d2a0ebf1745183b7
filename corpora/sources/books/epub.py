"""EPUB: a zip of XHTML pages and a package file that gives their order, to a book's paragraphs.

Promises: the paragraphs of the pages in the spine's order; navigation, covers, title pages, imprints, copyright
pages and notes are skipped if the book names them as such (`epub:type`, ARIA role, `guide`, landmarks, the
names of files and classes), and so is what is not in the line of reading. Verse keeps its lines. No entity is
resolved, nothing outside the zip is read, and no more than `max_bytes` of it are unpacked. A page that is not
well-formed is read as a browser would. What cannot be read raises BadBook; encrypted text raises LockedBook;
what would take more than is allowed (bytes, times its packed size, members, tags of a page) raises LargeBook.
Costs: about 10 MB of XHTML a second. Memory: the zip and its largest page.

Source: EPUB 3.3 (W3C), sections 3 (OCF), 5 (package document); Open Packaging Format 2.0.1 for `guide`.
"""

import lzma
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html.entities import html5
from io import BytesIO
from urllib.parse import unquote

from lxml import etree

from corpora.sources.books.matter import count_prose_words
from corpora.sources.bytes.faults import BadRecord
from corpora.sources.formulas import show_mathml

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
EPUB_TYPE = "{http://www.idpf.org/2007/ops}type"
FONT_ALGORITHMS = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"})
TEXT_TYPES = frozenset({"application/xhtml+xml", "text/html", "text/x-oeb1-document", "application/x-dtbook+xml"})
TEXT_NAMES = (".xhtml", ".html", ".htm", ".xml")

# What a section or page is not read for, by its `epub:type` or ARIA role or by the OPF `guide`.
APPARATUS = frozenset(
    "toc landmarks page-list loi lot lov cover titlepage title-page halftitlepage halftitle copyright-page "
    "copyright imprint imprimatur colophon uncopyright index other-credits nav "
    "endnotes footnotes rearnotes endnote footnote rearnote backlinks".split()
)
APPARATUS_NAME = re.compile(
    r"(?:^|[\W_])(?:nav|toc|cover|copyright|imprint|colophon|uncopyright|title-?page|half-?title-?(?:page)?|contents"
    r"|loi|endnotes|footnotes|also-?by|newsletter)"
    r"(?:[\W_]|$)",
    re.I,
)
MAX_APPARATUS_WORDS = 1_000  # a page with more running text is read whatever the guide or its name says
REFERENCES = frozenset("noteref biblioref backlink pagebreak".split())
REFERENCE_CLASS = re.compile(r"(?:^|\s)(?:fnanchor|footnote-?ref|noteref|pagenum|page-?no|pagebreak)(?:\s|$)", re.I)
NOTE_CLASS = re.compile(r"(?:^|\s)(?:foot|end|rear)notes?(?:\s|$)", re.I)
NOTE_BLOCKS = frozenset("aside div section p li ol ul dl dd blockquote".split())
LINE_CLASS = re.compile(r"(?:^|\s)(?:(?P<sure>(?:verse-?|poem-?)?line)|l|i\d{1,2})(?:\s|$)", re.I)
LINES = frozenset("div p span".split())  # what a class can make a line of verse
VERSE = re.compile(r"(?:^|[\s:])(?:poem|poetry|verse|stanza|line-?group|lg|song|hymn|lyrics)(?:\s|$)", re.I)

# What zipfile raises for bytes that lie, in addition to its own error: its offsets and names are not checked.
ZIP_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    IndexError,
    RuntimeError,
)
ENCRYPTED_MEMBER = 1  # bit of a member's flags
PACKINGS = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))  # all that OCF allows; others take any memory
MEMBER_START = b"PK\1\2"  # of an entry of a zip's directory
MAX_MEMBERS = 50_000
MAX_RATIO = 200  # of what a member unpacks to and its packed bytes, beyond FREE_BYTES; XHTML has 3 to 20
FREE_BYTES = 1_000_000
MAX_TAGS = 1_000_000  # of one page, each of which takes some hundred bytes of memory

BLOCKS = frozenset(
    "address article aside blockquote body caption center dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 "
    "header hgroup hr legend li main ol p pre section table tbody tfoot thead tr ul stanza".split()
)
SKIPPED = frozenset(
    "head title script style nav svg audio video object iframe figcaption template rt rp rtc del noscript".split()
)
CELLS = frozenset(("td", "th"))
HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
CLOSED_BREAK = re.compile(r"</br\s*>", re.I)
SPACES = re.compile(r"[ \t\n\r\f]+")
BLANK_LINE = re.compile(r"\n\s*\n")
DOCTYPE = re.compile(r"<!DOCTYPE(?:[^>\[]|\[.*?\]\s*(?=>))*>", re.I | re.S)
DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>", re.I)
STATED = re.compile(rb"""(?:<\?xml[^>]*encoding|<meta[^>]*charset)\s*=\s*["']?([\w.:-]+)""", re.I)
ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]*);")
XML_ENTITIES = frozenset("amp lt gt quot apos".split())
HEAD_CHARACTERS = 10_000  # within which a page's declarations are
CLOSED_TAG = re.compile(r"<([A-Za-z][\w:]*)((?:\s[^<>]*)?)/>")
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
NOTE_SIGN = re.compile(r"[\[(]?(?:\d{1,4}|[*†‡]{1,3})[\])]?")
TITLE_AFTER_NAME = re.compile(r"(?:Jr|Sr|Esq|M\.?D|Ph\.?D|D\.?D|[IVX]+)\b.*|.*\band\b.*|et al.*", re.I)
DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d)?)?(?!\d)")


class BadBook(BadRecord):
    """Raised if a file does not contain what its extension promises. The message explains why."""


class LockedBook(ValueError):
    """Raised if the text of a book is encrypted. The message names the encrypted file."""


class LargeBook(ValueError):
    """Raised if reading a book would take more bytes than allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epub:
    """The paragraphs of a book in order, and the metadata in its package file. Metadata that is not stated is None.

    paragraphs:  the paragraphs
    title:       the first title
    creator:     the first author, as "First Last"
    language:    code of the language, such as "en"
    date:        date of publication, as YYYY, YYYY-MM or YYYY-MM-DD
    rights:      statement of the license
    identifiers: all stated identifiers, such as an ISBN or a URL
    hidden:      number of elements with text that the book does not display
    """

    paragraphs: list[str]
    title: str | None = None
    creator: str | None = None
    language: str | None = None
    date: str | None = None
    rights: str | None = None
    identifiers: tuple[str, ...] = ()
    hidden: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpinePage:
    """An item of the book's spine, which lists its pages in reading order.

    path:      path of the page in the archive
    nav:       True if it is the navigation page
    apparatus: True if the package file or the file name marks the page as not part of the book's text
    """

    path: str
    nav: bool
    apparatus: bool


def read_epub(data: bytes, max_bytes: int) -> Epub:
    """Read the paragraphs and metadata of a book from the bytes of an EPUB file.

    Args:
        data: The bytes of the file.
        max_bytes: Maximum total size of the uncompressed members, in bytes.

    Raises:
        BadBook: If the file is damaged, or not a valid EPUB.
        LockedBook: If the text is encrypted.
        LargeBook: If the book exceeds a limit (uncompressed bytes, members, tags of a page).
    """
    if data.count(MEMBER_START) > MAX_MEMBERS:
        raise LargeBook(f"over {MAX_MEMBERS} files in one zip")
    try:
        archive = zipfile.ZipFile(BytesIO(data))
    except ZIP_FAULTS as error:
        raise BadBook(f"no zip, or a damaged one: {error}") from error
    with archive:
        try:
            return _read_book(_Unpacker(archive, max_bytes))
        except UnicodeError as error:  # libxml2 turns a reference to half a character into invalid UTF-8
            raise BadBook(f"half a character where text should be: {error}") from error


class _Unpacker:
    """Reads the members of a zip archive, up to `max_bytes` uncompressed bytes in total.

    Attributes:
        left: Number of bytes that may still be decompressed.
        names: The archive's members (except folders), by name.
    """

    def __init__(self, archive: zipfile.ZipFile, max_bytes: int) -> None:
        self.archive, self.left, self.max_bytes = archive, max_bytes, max_bytes
        self.names = {info.filename: info for info in archive.infolist() if info.filename[-1:] not in ("", "/")}

    def read(self, name: str) -> bytes:
        """Return the decompressed bytes of a member.

        Raises:
            BadBook: If the member is missing or damaged.
            LockedBook: If the member is encrypted.
            LargeBook: If the allowed number of decompressed bytes is exceeded.
        """
        info = self.names.get(name)
        if info is None:
            raise BadBook(f"it names {name}, which it does not hold")
        if info.flag_bits & ENCRYPTED_MEMBER:
            raise LockedBook(f"{name} is encrypted")
        if info.compress_type not in PACKINGS:
            raise BadBook(f"{name} is packed in a way that no EPUB may have (method {info.compress_type})")
        allowed = max(FREE_BYTES, MAX_RATIO * info.compress_size)
        try:
            with self.archive.open(info) as stream:
                data = stream.read(min(self.left, allowed) + 1)
        except ZIP_FAULTS as error:
            raise BadBook(f"a damaged zip: {name}: {error}") from error
        self.left -= len(data)
        if self.left < 0:
            raise LargeBook(f"over {self.max_bytes} bytes unpacked")
        if len(data) > allowed:
            raise LargeBook(f"{name} unpacks to over {MAX_RATIO} times its size")
        return data


def _read_book(unpacker: _Unpacker) -> Epub:
    """Read the paragraphs and metadata of the book in an open archive.

    Raises:
        BadBook: If the archive is not a valid EPUB.
        LockedBook: If the text is encrypted.
        LargeBook: If the book exceeds a limit.
    """
    _check_not_encrypted(unpacker)
    package_path = _find_package_path(unpacker)
    package = _parse_xml(unpacker.read(package_path))
    if package is None or _get_local_name(package) != "package":
        raise BadBook(f"{package_path} is no package file")
    pages = list(_iter_spine(package, posixpath.dirname(package_path), unpacker))
    if not pages:
        raise BadBook(f"{package_path} names no page of text")
    paragraphs: list[str] = []
    walk = _PageWalker()
    for page in pages:
        paragraphs.extend(_read_page(page, unpacker, walk))
    return replace(_describe_book(package, paragraphs), hidden=walk.hidden)


def _read_page(page: SpinePage, unpacker: _Unpacker, walk: "_PageWalker") -> list[str]:
    """Return the paragraphs of a page of the book.

    Return [] for the navigation page, and for a page that is marked as not part of the text and has little running
    text.

    Args:
        page: The page.
        unpacker: Reads the members of the book's archive.
        walk: Collects the paragraphs of all pages, and counts hidden elements.

    Raises:
        BadBook: If the page is missing or damaged.
        LockedBook: If it is encrypted.
        LargeBook: If it has too many tags or bytes.
    """
    if page.nav or (page.apparatus and page.path not in unpacker.names):
        return []
    data = unpacker.read(page.path)
    if data.count(b"<") > MAX_TAGS:
        raise LargeBook(f"{page.path} has over {MAX_TAGS} tags")
    root = _parse_page(_decode(data))
    paragraphs = [] if root is None else list(walk.iter_paragraphs(root))
    if page.apparatus and count_prose_words(paragraphs, MAX_APPARATUS_WORDS) < MAX_APPARATUS_WORDS:
        return []
    return paragraphs


def _check_not_encrypted(unpacker: _Unpacker) -> None:
    """Check that `encryption.xml`, if it exists, lists only obfuscated fonts.

    Raises:
        LockedBook: If it lists anything else.
    """
    if ENCRYPTION not in unpacker.names:
        return
    root = _parse_xml(unpacker.read(ENCRYPTION))
    for entry in root.iter("{*}EncryptedData") if root is not None else ():
        methods = {method.get("Algorithm") for method in entry.iterchildren("{*}EncryptionMethod")}
        for reference in entry.iter("{*}CipherReference"):
            if not methods or not methods <= FONT_ALGORITHMS:
                raise LockedBook(f"{reference.get('URI')} is encrypted")


def _find_package_path(unpacker: _Unpacker) -> str:
    """Return the path of the package file: the one named in the container file, or else the only `.opf` file.

    Raises:
        BadBook: If there is none.
    """
    if CONTAINER in unpacker.names:
        root = _parse_xml(unpacker.read(CONTAINER))
        for rootfile in root.iter("{*}rootfile") if root is not None else ():
            path = posixpath.normpath(unquote(rootfile.get("full-path") or "").lstrip("/"))
            if path in unpacker.names:
                return path
    candidates = [name for name in unpacker.names if name.lower().endswith(".opf")]
    if len(candidates) != 1:
        raise BadBook("no package file: neither its container names one, nor is there a single .opf")
    return candidates[0]


def _iter_spine(package: etree._Element, folder: str, unpacker: _Unpacker) -> Iterator[SpinePage]:
    """Yield the text pages of a book in reading order, each only once. Without a spine, the manifest's order is used.

    Args:
        package: The root element of the package file.
        folder: The folder of the package file, which its links are relative to.
        unpacker: Reads the members of the book's archive.
    """
    items = {item.get("id"): item for item in package.iter("{*}item")}
    order = {reference.get("idref"): reference for reference in package.iter("{*}itemref")} or items
    named = _find_guide_pages(package, folder) | _find_landmark_pages(items.values(), folder, unpacker)
    seen = set()
    for idref, reference in order.items():
        item = items.get(idref)
        if item is None or not item.get("href"):
            continue
        path = _resolve(folder, item.get("href"))
        if path in seen or not (item.get("media-type") in TEXT_TYPES or path.lower().endswith(TEXT_NAMES)):
            continue
        seen.add(path)
        aside = (reference.get("linear") or "").lower() == "no"
        by_name = APPARATUS_NAME.search(posixpath.basename(path).rpartition(".")[0])
        yield SpinePage(path=path, nav=_is_nav(item), apparatus=aside or bool(by_name) or path in named)


def _is_nav(item: etree._Element) -> bool:
    """Return True if an item of the package file's manifest is the navigation page."""
    return "nav" in (item.get("properties") or "").split()


def _find_guide_pages(package: etree._Element, folder: str) -> set[str]:
    """Return the paths of the pages that an EPUB 2 guide marks as not part of the text.

    `folder` is the folder of the package file, which its links are relative to.
    """
    return {
        _resolve(folder, reference.get("href") or "")
        for reference in package.iter("{*}reference")
        if (reference.get("type") or "").lower() in APPARATUS and "#" not in (reference.get("href") or "")
    }


def _find_landmark_pages(items: Iterable[etree._Element], folder: str, unpacker: _Unpacker) -> set[str]:
    """Return the paths of the pages that EPUB 3 landmarks mark as not part of the text.

    Args:
        items: The items of the package file's manifest.
        folder: The folder of the package file, which its links are relative to.
        unpacker: Reads the navigation pages.
    """
    landmarks = set()
    for path in (_resolve(folder, item.get("href") or "") for item in items if _is_nav(item)):
        root = _parse_page(_decode(unpacker.read(path))) if path in unpacker.names else None
        for link in root.iter("{*}a") if root is not None else ():
            href = link.get("href") or ""
            if href and "#" not in href and _read_kinds(link) & APPARATUS:
                landmarks.add(_resolve(posixpath.dirname(path), href))
    return landmarks


def _resolve(folder: str, href: str) -> str:
    """Return the path in the archive that a link from a file in `folder` refers to, without its fragment."""
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))


def _describe_book(package: etree._Element, paragraphs: list[str]) -> Epub:
    """Build an `Epub` from a book's paragraphs and the metadata in its package file.

    Each field gets its first value that is meaningful.
    """
    titles, rights = _iter_dublin_core(package, "title"), _iter_dublin_core(package, "rights")
    authors = (text for role, text in _iter_dublin_core(package, "creator") if role in ("", "aut"))
    languages = (text for _, text in _iter_dublin_core(package, "language") if text.lower() != "und")
    dates = (
        match[0]
        for event, text in _iter_dublin_core(package, "date")
        if event in ("", "publication", "original-publication") and (match := DATE.match(text))
    )
    return Epub(
        paragraphs=paragraphs,
        title=next((text for _, text in titles), None),
        creator=next(map(to_spoken_name, authors), None),
        language=next(languages, None),
        date=next(dates, None),
        rights=next((text for _, text in rights), None),
        identifiers=tuple(text for _, text in _iter_dublin_core(package, "identifier")),
    )


def to_spoken_name(text: str) -> str:
    """Convert a name from "Last, First" to "First Last". Other names are returned unchanged.

    >>> to_spoken_name("Verne, Jules"), to_spoken_name("Martin Luther King, Jr.")
    ('Jules Verne', 'Martin Luther King, Jr.')
    >>> to_spoken_name("Grimm, J., and Grimm, W.")
    'Grimm, J., and Grimm, W.'
    """
    last, comma, first = text.partition(", ")
    title = TITLE_AFTER_NAME.fullmatch(first)
    return text if not comma or "," in first or title or not first else f"{first} {last}"


def _iter_dublin_core(package: etree._Element, name: str) -> Iterator[tuple[str, str]]:
    """Yield (event or role, text) for each nonempty Dublin Core element with this name, such as "creator".

    The first item is "" if the element has neither an event nor a role.
    """
    for element in package.iter(f"{{*}}{name}"):
        text = " ".join("".join(element.itertext()).split())
        if text:
            kinds = [value for key, value in element.attrib.items() if key.rpartition("}")[2] in ("event", "role")]
            yield (kinds[0].lower() if kinds else ""), text


def read_page_paragraphs(data: bytes) -> list[str]:
    r"""Extract the paragraphs of an XHTML or HTML page of a book.

    >>> read_page_paragraphs(b"<html><body><h2>I</h2><p>A <i>fine</i>\n day.<br/>Rain &mdash; later.</p></body></html>")
    ['I', 'A fine day.\nRain — later.']
    """
    root = _parse_page(_decode(data))
    return [] if root is None else list(_PageWalker().iter_paragraphs(root))


def _decode(data: bytes) -> str:
    """Decode a page as UTF-8, UTF-16, the encoding that it declares, or windows-1252. This never fails."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    stated = STATED.search(data[:1_024])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    try:
        return data.decode(stated[1].decode() if stated else "cp1252")
    except (LookupError, UnicodeError):
        return data.decode("latin-1")


def _parse_page(text: str) -> etree._Element | None:
    """Parse a page as XHTML, or as HTML if it is not well-formed. Return None if nothing would be displayed."""
    text = text.replace("\0", "")
    head = DECLARATION.sub("", DOCTYPE.sub("", text[:HEAD_CHARACTERS], count=1))
    text = ENTITY.sub(_replace_entity, head + text[HEAD_CHARACTERS:])
    if "<!ENTITY" in text:
        return _parse_html(text)  # which knows of none that a page declares
    try:
        return etree.fromstring(text.encode(), _build_xml_parser(encoding="utf-8"))
    except etree.XMLSyntaxError:
        return _parse_html(text)


def _parse_html(text: str) -> etree._Element | None:
    """Parse a page as HTML, as a browser would. Return None if nothing would be displayed."""
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=False)
    try:
        return etree.fromstring(CLOSED_TAG.sub(_with_end_tag, CLOSED_BREAK.sub("<br>", text)).encode(), parser)
    except etree.XMLSyntaxError:
        return None  # nothing in it that a browser would show


def _parse_xml(data: bytes) -> etree._Element | None:
    """Parse one of the EPUB's own XML files, and repair it if it is not well-formed. Return None if it is not XML."""
    try:
        return etree.fromstring(data, _build_xml_parser(recover=True))
    except etree.XMLSyntaxError:
        return None


def _build_xml_parser(recover: bool = False, encoding: str | None = None) -> etree.XMLParser:
    """Build a parser that loads no external files. `encoding` overrides the encoding declared in the document."""
    return etree.XMLParser(
        encoding=encoding,
        recover=recover,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )


def _replace_entity(match: re.Match[str]) -> str:
    """Return the character of a matched HTML entity. Entities that XML or nobody defines are returned unchanged."""
    return match[0] if match[1] in XML_ENTITIES else html5.get(f"{match[1]};", match[0])


def _with_end_tag(match: re.Match[str]) -> str:
    """Expand a matched self-closing tag such as `<a/>` to `<a></a>`, so that an HTML parser understands it."""
    return match[0] if match[1].lower() in VOID else f"<{match[1]}{match[2]}></{match[1]}>"


class _PageWalker:
    """Walks through the elements of a page, collecting inline text until a block starts or ends."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.verbatim = 0  # `pre` elements around
        self.hidden = 0  # elements that were passed over because they are not shown
        self.in_line = False  # whether there is text after the last end of a line

    def iter_paragraphs(self, root: etree._Element) -> Iterator[str]:
        """Yield the text of each block of a page in order, without skipped elements and empty blocks.

        `root` is the page's root element.
        """
        walker = etree.iterwalk(root, events=("start", "end"))
        skipped = None
        for event, element in walker:
            name = _get_local_name(element)
            if name == "line" or (name in LINES and _is_line(element)):
                self._end_verse_line()
            elif name in BLOCKS:
                yield from self._flush()
            if event == "start" and (_is_passed_over(element, name) or self._is_hidden(element) or name == "math"):
                skipped = element
                if name == "math":
                    self._add(show_mathml(etree.tostring(element, encoding="unicode", with_tail=False)))
                walker.skip_subtree()
            elif event == "start":
                self._enter(element, name)
            else:
                self.verbatim -= name == "pre" and element is not skipped
                if element is not root:
                    self._add(element.tail)
        yield from self._flush()

    def _is_hidden(self, element: etree._Element) -> bool:
        """Return True if an element is marked as hidden. It is counted if it contains text."""
        is_hidden = "hidden" in element.attrib or HIDDEN_STYLE.search(element.get("style") or "") is not None
        self.hidden += is_hidden and bool("".join(element.itertext()).strip())
        return is_hidden

    def _enter(self, element: etree._Element, name: str) -> None:
        """Process the start of an element: the line break or cell separator that it causes, and its first text.

        `name` is the element's name in lower case.
        """
        self.verbatim += name == "pre"
        if name == "br":
            self.parts.append("\n")
            self.in_line = False
        elif name in CELLS:
            self.parts.append(" ")
        self._add(element.text)

    def _end_verse_line(self) -> None:
        """End a line of verse, unless one has just ended."""
        if self.in_line:
            self.parts.append("\n")
            self.in_line = False

    def _add(self, text: str | None) -> None:
        """Add a piece of text to the current block. White space is collapsed, except in `pre`."""
        if text:
            self.parts.append(text if self.verbatim else SPACES.sub(" ", text))
            self.in_line = self.in_line or not text.isspace()

    def _flush(self) -> Iterator[str]:
        """Yield the paragraphs of the collected text, which blank lines separate, and begin the next block."""
        text = "".join(self.parts)
        self.parts.clear()
        self.in_line = False
        for block in BLANK_LINE.split(text) if text and not text.isspace() else ():
            lines = (" ".join(line.split()) for line in block.split("\n"))
            paragraph = "\n".join(line for line in lines if line)
            if any(letter.isalnum() for letter in paragraph):
                yield paragraph


def _is_passed_over(element: etree._Element, name: str) -> bool:
    """Return True if an element contains no text of the book, such as a copyright note or a reference to a page.

    `name` is the element's name in lower case.
    """
    if name in SKIPPED:
        return True
    if not element.attrib and name != "sup":
        return False
    types = _read_kinds(element)
    note = name in NOTE_BLOCKS and NOTE_CLASS.search(element.get("class") or "")
    return bool(types & APPARATUS or types & REFERENCES or note or _is_reference(element, name))


def _read_kinds(element: etree._Element) -> set[str]:
    """Return the semantic types of an element, such as "footnote", from `epub:type` or its ARIA role."""
    kinds = f"{element.get(EPUB_TYPE) or element.get('epub:type') or ''} {element.get('role') or ''}".lower()
    return {kind.removeprefix("doc-") for kind in kinds.split()}


def _is_line(element: etree._Element) -> bool:
    """Return True if an element's class marks it as a line of verse, either by itself or within a poem."""
    match = LINE_CLASS.search(element.get("class") or "")
    if match is None or match["sure"]:
        return match is not None
    around = (f"{parent.get('class') or ''} {' '.join(_read_kinds(parent))}" for parent in element.iterancestors())
    return any(VERSE.search(text) for text in around)


def _is_reference(element: etree._Element, name: str) -> bool:
    """Return True if an element refers to a note or page: it has such a class, or is a linked number or star."""
    if REFERENCE_CLASS.search(element.get("class") or ""):
        return name in ("a", "sup", "span", "div")
    linked = (
        "#" in (element.get("href") or "") if name == "a" else name == "sup" and element.find(".//{*}a") is not None
    )
    return linked and bool(NOTE_SIGN.fullmatch("".join(element.itertext()).strip()))


def _get_local_name(element: etree._Element) -> str:
    """Return the name of an element in lower case, without its namespace."""
    return str(element.tag).rpartition("}")[2].lower()
