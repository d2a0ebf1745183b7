"""Packages of Office Open XML: a zip of parts in XML, which Word, PowerPoint and Excel write.

Promises: of a package no more than a bound is unpacked, whatever it says of itself; XML is streamed, without document
types, so nothing is fetched and no entity grows. Cost: about 8 MB of XML a second. Memory: a piece of a part.
"""

import errno
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO
from xml.parsers import expat

from corpora.sources.bytes.faults import BadRecord

COMPOUND = bytes.fromhex("d0cf11e0a1b11ae1")  # an OLE file: what is encrypted, and what Office wrote before 2007
PIECE_BYTES = 1 << 16
MAX_ENTRIES = 20_000
MAX_DEPTH = 2_000
DAY = re.compile(r"\d{4}-\d\d-\d\d")
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
STRICT_RELATIONS = "http://purl.oclc.org/ooxml/officeDocument/relationships"
MACHINE_FAULTS = (errno.EIO, errno.ENOMEM, errno.EACCES)
ZIP_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    KeyError,
)


class LockedDocument(ValueError):
    """Raised if a document is protected by a password, or has another format than its extension suggests."""


class LargeDocument(ValueError):
    """Raised if a document exceeds a size limit when uncompressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeDocument:
    """The content of an office document.

    paragraphs: the texts of its paragraphs in order, without leading and trailing line breaks
    title:      the title in its properties, or None if there is none
    date:       creation date as YYYY-MM-DD, or None if it is not stated
    hidden:     number of runs, rows, shapes and slides that are not displayed
    """

    paragraphs: tuple[str, ...]
    title: str | None = None
    date: str | None = None
    hidden: int = 0


class Handler:
    """Base class for processing the XML of a part, element by element.

    Subclasses override the methods that they need.
    """

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        """Process the start of an element. `tag` is "NAMESPACE NAME". By default, nothing happens."""

    def end(self, tag: str) -> None:
        """Process the end of an element. `tag` is "NAMESPACE NAME". By default, nothing happens."""

    def add_text(self, data: str) -> None:
        """Process characters between tags. By default, nothing happens."""


@contextmanager
def open_package(stream: IO[bytes], max_bytes: int) -> Iterator["Package"]:
    """Open an Office package, which is a zip archive of XML parts (a context manager that yields the package).

    Args:
        stream: The bytes of the zip archive.
        max_bytes: Maximum total size of the uncompressed parts, in bytes.

    Raises:
        BadRecord: If the bytes are not a zip archive, or damage is found in the block.
        LockedDocument: If the file is an OLE file: either encrypted, or from Office before 2007.
        LargeDocument: If the archive has too many members.
    """
    if stream.read(len(COMPOUND)) == COMPOUND:
        raise LockedDocument("an OLE file: encrypted, or of Office before 2007")
    with _explain_zip_faults("no zip, or a damaged one"), zipfile.ZipFile(stream) as archive:
        if len(archive.namelist()) > MAX_ENTRIES:
            raise LargeDocument(f"over {MAX_ENTRIES} files in one zip")
        yield Package(archive, max_bytes)


@contextmanager
def _explain_zip_faults(what: str) -> Iterator[None]:
    """Convert errors about a damaged zip archive in this block to BadRecord (a context manager).

    The message begins with `what`. Errors of the machine, such as a failing disk, are raised unchanged.
    """
    try:
        yield
    except (BadRecord, LockedDocument, LargeDocument):
        raise
    except ZIP_FAULTS as error:
        if isinstance(error, OSError) and error.errno in MACHINE_FAULTS:
            raise
        raise BadRecord(f"{what}: {error}") from error


@dataclass(slots=True)
class Package:
    """The parts of an open package. At most `bytes_left` more bytes may be decompressed."""

    archive: zipfile.ZipFile
    bytes_left: int

    def parse(self, name: str, handler: Handler, needed: bool = True) -> None:
        """Parse a part of the package with a handler.

        Args:
            name: Name of the part.
            handler: Handler that processes the part's elements.
            needed: If False, a missing part is ignored.

        Raises:
            BadRecord: If the part is missing or is not valid XML.
            LockedDocument: If the part is encrypted.
            LargeDocument: If more is decompressed than allowed.
        """
        for _ in self.iter_parse_steps(name, handler, needed):
            pass

    def iter_parse_steps(self, name: str, handler: Handler, needed: bool = True) -> Iterator[None]:
        """Parse a part of the package with a handler in steps, and yield None after each chunk of 64 kB.

        Args:
            name: Name of the part.
            handler: Handler that processes the part's elements.
            needed: If False, a missing part is ignored.

        Raises:
            BadRecord: During iteration, if the part is missing or is not valid XML.
            LockedDocument: During iteration, if the part is encrypted.
            LargeDocument: During iteration, if more is decompressed than allowed.
        """
        if name not in self.archive.namelist():
            if needed:
                raise BadRecord(f"it holds no {name}")
            return
        if self.archive.getinfo(name).flag_bits & 1:
            raise LockedDocument(f"{name} is encrypted")
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = handler.begin, handler.end
        parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = handler.add_text, _refuse_type
        try:
            for piece in self._iter_pieces(name):
                parser.Parse(piece, False)
                yield
            parser.Parse(b"", True)
        except (expat.ExpatError, LookupError) as error:
            raise BadRecord(f"{name} is no XML: {error}") from error
        yield

    def find_main_part(self, usual: str) -> str:
        """Return the name of the package's main part, or `usual` if the package does not state it.

        Raises:
            BadRecord: If the package is damaged.
            LockedDocument: If it is encrypted.
            LargeDocument: If more is decompressed than allowed.
        """
        targets = [
            target for kind, target in self._read_relations("", "_rels/.rels").values() if kind == "officeDocument"
        ]
        return targets[0] if targets else usual

    def list_related(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the parts that the part `name` refers to, by relationship id.

        Each value is (last word of the relationship type, part name), such as ("worksheet",
        "xl/worksheets/sheet1.xml").

        Raises:
            BadRecord: If the package is damaged.
            LockedDocument: If it is encrypted.
            LargeDocument: If more is decompressed than allowed.
        """
        folder, _, last = name.rpartition("/")
        return self._read_relations(folder, f"{folder}/_rels/{last}.rels")

    def _read_relations(self, folder: str, name: str) -> dict[str, tuple[str, str]]:
        """Return the references in the relationships part `name`, by relationship id; {} if there is no such part.

        Each value is (last word of the relationship type, part name). Targets are relative to `folder`.
        """
        relations = _Relations(folder)
        self.parse(name, relations, needed=False)
        return relations.targets

    def read_core(self) -> "CoreProperties":
        """Return the title and creation date in the package's properties. Each is None if it is not stated."""
        core = CoreProperties()
        self.parse("docProps/core.xml", core, needed=False)
        return core

    def _iter_pieces(self, name: str) -> Iterator[bytes]:
        """Yield the decompressed bytes of a part in chunks of at most 64 kB, and subtract their size from `bytes_left`.

        Raises:
            BadRecord: During iteration, if the part is damaged.
            LargeDocument: During iteration, if `bytes_left` is exceeded.
        """
        with _explain_zip_faults(f"a damaged zip: {name}"), self.archive.open(name) as stream:
            while piece := stream.read(PIECE_BYTES):
                self.bytes_left -= len(piece)
                if self.bytes_left < 0:
                    raise LargeDocument(f"{name} unpacks to more than max_record_bytes allows")
                yield piece


def _refuse_type(name: str, system: str | None, public: str | None, internal: bool) -> None:
    """Refuse a document type declaration that the XML parser has found.

    Raises:
        BadRecord: Always.
    """
    raise BadRecord("it declares a document type, which no part of an office document may")


class _Relations(Handler):
    """Collects the parts that a part of the package refers to.

    Attributes:
        targets: Maps relationship ids to (last word of the relationship type, part name). Links to targets outside the
            package are omitted.
    """

    def __init__(self, folder: str) -> None:
        self.targets: dict[str, tuple[str, str]] = {}
        self._folder = folder

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        if "Target" in attributes and attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", self._folder, attributes["Target"])).lstrip("/")
            self.targets[attributes.get("Id", "")] = attributes.get("Type", "").rpartition("/")[2], target


class CoreProperties(Handler):
    """The title and creation date stated in a package's properties."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._now = ""

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._now = tag.rpartition(" ")[2]

    def end(self, tag: str) -> None:
        self._now = ""

    def add_text(self, data: str) -> None:
        if self._now:
            self._texts[self._now] = self._texts.get(self._now, "") + data

    @property
    def title(self) -> str | None:
        """The document's title on one line, or None."""
        return " ".join(self._texts.get("title", "").split()) or None

    @property
    def date(self) -> str | None:
        """The day on which the document was created, as YYYY-MM-DD, or None."""
        match = DAY.match(self._texts.get("created", "").strip())
        return match[0] if match else None


def find_relation_id(attributes: dict[str, str]) -> str:
    """Return the relationship id of the part that an element refers to, or "" if there is none."""
    return attributes.get(f"{RELATIONS} id") or attributes.get(f"{STRICT_RELATIONS} id", "")
