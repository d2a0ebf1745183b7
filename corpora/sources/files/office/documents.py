"""Files of an office as records: Word's `.docx`, PowerPoint's `.pptx`, and PDF.

A file is one record, with blank lines between paragraphs.
"""

from abc import abstractmethod
from dataclasses import dataclass

from corpora.schema import Locator
from corpora.sources.contract import Drop, Record, Tally
from corpora.sources.files.formats import WholeFile, meta_of, record_of
from corpora.sources.files.office.package import LargeDocument, LockedDocument, OfficeDocument
from corpora.sources.files.office.pdf import read_pdf
from corpora.sources.files.office.slides import read_pptx
from corpora.sources.files.office.word import read_docx


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeFile(WholeFile):
    """A file is a document of an office."""

    def read(self, data: bytes, locator: Locator, tally: Tally) -> Record:
        """The record of a document. Raises BadRecord."""
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=data, drop=drop)
        try:
            document = self.parse(data)
        except (LockedDocument, LargeDocument) as error:
            reason = "encrypted" if isinstance(error, LockedDocument) else "too large"
            return Record(locator=locator, text="", raw=data, drop=Drop(reason, str(error)))
        facts = {"title": document.title, "date": document.date, "meta": meta_of(hidden=document.hidden)}
        return record_of(locator, data, {"text": "\n\n".join(document.paragraphs), **facts})

    @abstractmethod
    def parse(self, data: bytes) -> OfficeDocument:
        """Parse the bytes of a document. Raises BadRecord, LockedDocument, LargeDocument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocxFile(OfficeFile):
    """A file is a document of Word."""

    def parse(self, data: bytes) -> OfficeDocument:
        """Parse the bytes of a document. Raises BadRecord, LockedDocument, LargeDocument."""
        return read_docx(data, UNPACKED * self.max_record_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PptxFile(OfficeFile):
    """A file is a presentation of PowerPoint."""

    def parse(self, data: bytes) -> OfficeDocument:
        """Parse the bytes of a document. Raises BadRecord, LockedDocument, LargeDocument."""
        return read_pptx(data, UNPACKED * self.max_record_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfFile(OfficeFile):
    """A file is a PDF."""

    def parse(self, data: bytes) -> OfficeDocument:
        """Parse the bytes of a document. Raises BadRecord, LockedDocument, LargeDocument."""
        return read_pdf(data, self.max_record_bytes)


UNPACKED = 5  # times `max_record_bytes`: XML of an office is many times its text
