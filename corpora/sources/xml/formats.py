"""XML by its root element: which preset reads a file, and its records as those of a file among others.

Promises: only the beginning of a file is looked at, without a parser. Costs: one read of 64 kB a file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import InputError
from corpora.schema import Locator
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import read_again
from corpora.sources.contract import RawFile, Record, Slice, Tally, slice_whole_file
from corpora.sources.xml.presets import PRESETS, find_preset
from corpora.sources.xml.source import XmlSource


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlFile:
    """Reads an XML file with the preset that matches its root element, for sources of other kinds."""

    max_record_bytes: int

    def slices(self, file: RawFile) -> list[Slice]:
        """Cut a file into slices, byte ranges that are read independently.

        An XML file is one slice.
        """
        return [slice_whole_file(file)]

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        Which elements are records depends on the preset that matches the file's root element.

        Args:
            piece: The slice, which is the whole file.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file is damaged or truncated, or no preset matches its root element.
        """
        preset = find_preset(parse_raw_path(piece.file.path))
        if not preset:
            raise InputError(f"{piece.file.path} {HOW_TO_READ}")
        source = XmlSource(name="xml", path=piece.file.path, preset=preset, max_record_bytes=self.max_record_bytes)
        yield from source.records(piece, tally)

    def raw_record(self, file: Path, locator: Locator) -> bytes:
        """Return the bytes of the record at a locator that `records` yielded.

        The record is an XML element.

        Raises:
            InputError: If the file cannot be read.
        """
        return read_again(file, locator.offset, locator.length)


HOW_TO_READ = (
    f'has a root element of no preset ({", ".join(PRESETS)}). It is read with kind = "xml", `record` = the name of '
    'the element that is a record, and `fields` = { text = "a path below it" }.'
)
