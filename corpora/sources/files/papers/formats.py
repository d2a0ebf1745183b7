"""Formats of texts that are more than one text, or not yet prose: which a file is, its ending or its beginning says.

Promises: a patent of 1976 to 2001, and a title and abstract of PubTator, are a record each; a file of LaTeX is one.
What cannot be read is a damaged drop that says why. Costs: one pass; memory: one record, at most `max_record_bytes`.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Any

from corpora.schema import Locator
from corpora.sources.bytes.faults import BadRecord, refusing_damage
from corpora.sources.bytes.objects import raw_path
from corpora.sources.bytes.raw_files import open_raw
from corpora.sources.contract import RawFile, Record, Slice, Tally, damaged, too_large, unpacked_place
from corpora.sources.files.formats import TextFile, record_of
from corpora.sources.files.papers.greenbook import read_patent
from corpora.sources.files.papers.latex import read_latex

HEAD_BYTES = 4096
PATENTS = re.compile(rb"(?:HHHHHT[^\n]*\n)?PATN[ \t]*\r?\n[A-Z][A-Z0-9]{2,3} [^\n]*\n")
PUBTATOR = re.compile(rb"\s*\d+\|t\|[^\n]*\n\d+\|a\|")
PATENT = re.compile(rb"PATN[ \t]*\r?\n?")
TITLE = re.compile(rb"(\d+)\|t\|")
PART = re.compile(r"(\d+)\|([ta])\|(.*)")
ANNOTATION = re.compile(r"\d+\t.*|\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatexFile(TextFile):
    """A file is a document of LaTeX, or a part of one."""

    def fields(self, text: str) -> dict[str, Any]:
        """The title and the text."""
        title, prose = read_latex(text)
        return {"text": prose, "title": title}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOrRecords(TextFile):
    """A file is a text, or records of patents or PubTator if it begins as they do."""

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """One record for the text, or for each patent or abstract. Raises InputError for a file that cannot be read."""
        path = raw_path(piece.file.path)
        with open_raw(path) as stream, refusing_damage(path):
            head = stream.read(HEAD_BYTES)
        if PATENTS.match(head):
            yield from self._parts(piece.file, tally, PATENT.fullmatch, read_patent)
        elif PUBTATOR.match(head):
            yield from self._parts(piece.file, tally, TITLE.match, read_abstract)
        else:
            tally.records += 1
            with open_raw(path) as stream, refusing_damage(path):
                yield self._of_stream(stream, piece.file, tally)

    def _parts(
        self, file: RawFile, tally: Tally, begins: Callable[[bytes], Any], read: Callable[[str], dict[str, Any]]
    ) -> Iterator[Record]:
        """The records of a file, each from a line that begins one to the next."""
        path = raw_path(file.path)
        with open_raw(path) as stream, refusing_damage(path):
            for offset, length, data in _stretches(stream, begins, self.max_record_bytes):
                tally.records += 1
                yield self._part(unpacked_place(file, offset, length), data, tally, read)

    def _part(
        self, locator: Locator, data: bytes | None, tally: Tally, read: Callable[[str], dict[str, Any]]
    ) -> Record:
        if data is None:
            return too_large(locator, self.max_record_bytes)
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=data, drop=drop)
        try:
            return record_of(locator, data, read(self.text_of(data)))
        except BadRecord as error:
            return damaged(locator, data, error)


def _stretches(
    stream: BufferedIOBase, begins: Callable[[bytes], Any], max_bytes: int
) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield offset, length and bytes of what each line that begins a record, and the lines after it, hold.

    The bytes are None where they are more than allowed; lines before the first record are passed over.
    """
    offset = size = 0
    held: list[bytes] = []
    while data := stream.readline(max_bytes + 1):
        if begins(data):
            if size:
                yield offset - size, size, b"".join(held) if size <= max_bytes else None
            size, held = 0, []
        elif not size:
            offset += len(data)
            continue
        offset, size = offset + len(data), size + len(data)
        held = [] if size > max_bytes else held
        held.append(data)
    if size:
        yield offset - size, size, b"".join(held) if size <= max_bytes else None


def read_abstract(text: str) -> dict[str, Any]:
    r"""Return the fields of a title and abstract as PubTator has them; annotations are left out. Raises BadRecord.

    >>> read_abstract("7|t|A title\n7|a|It rained.\n7\t0\t1\tA\tGene\n")
    {'text': 'A title\n\nIt rained.', 'key': '7', 'title': 'A title'}
    """
    parts: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        match = PART.fullmatch(line)
        if match is None and not ANNOTATION.fullmatch(line):
            raise BadRecord(f"a line that is no title, abstract or annotation: {line[:40]!r}")
        if match is not None:
            if (key and match[1] != key) or match[2] in parts:
                raise BadRecord(f"two records in one, or a part twice: {line[:40]!r}")
            key, parts[match[2]] = match[1], match[3].strip()
    title = parts.get("t") or None
    return {"text": "\n\n".join(filter(None, (title, parts.get("a")))), "key": key, "title": title}
