"""Patents as their office wrote them from 1976 to 2001: fields of four letters, a line each, and lines that go on.

A `.greenbook`, or a `.txt` that begins as those do, holds many of them; any other text is one document.

Promises: each patent is a record, with title, abstract, description and claims in their order and a paragraph for each
that the file has; tables, which are drawn with characters, are left out, and for a formula there is a sign. What cannot
be read is a damaged drop that says why. Costs: one pass over the lines; memory: one record, at most `max_record_bytes`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Any

from corpora.schema import Locator
from corpora.sources.bytes.faults import BadRecord, explain_damage
from corpora.sources.bytes.objects import parse_raw_path
from corpora.sources.bytes.raw_files import open_raw
from corpora.sources.contract import Record, Slice, Tally, build_locator, drop_damaged, drop_too_large
from corpora.sources.files.formats import TextFile, build_record
from corpora.sources.formulas import FORMULA

HEAD_BYTES = 4096
BEGINNING = re.compile(rb"(?:HHHHHT[^\n]*\n)?PATN[ \t]*\r?\n[A-Z][A-Z0-9]{2,3} [^\n]*\n")
FIRST_LINE = re.compile(rb"PATN[ \t]*\r?\n?")
FIELD = re.compile(r"([A-Z][A-Z0-9]{2,3})(?: {1,2}(.*))?")
SECTIONS = frozenset("ABST PARN GOVT BSUM DRWD DETD CLMS DCLM".split())
OTHER_SECTIONS = frozenset("INVT ASSG RLAP PRIR REIS CLAS UREF FREF OREF LREP PCTA".split())
DRAWN = re.compile(r"##(?:EQU|STR)\d+(?:\.\d+)?##")  # a formula, of numbers or of chemistry, which is a picture
PARAGRAPHS = re.compile(r"PAL|PAR|PA[0-9C]|STM|EQU")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOrPatents(TextFile):
    """The format of a file that is a single text or, if it begins like a patent file, many patents."""

    def records(self, piece: Slice, tally: Tally) -> Iterator[Record]:
        """Yield the records of a slice in file order, and count them in `tally`.

        A text is one record, and so is each patent in a patent file.

        Args:
            piece: The slice, which is the whole file.
            tally: Counts the records, and knows which ones crashed earlier and must be skipped.

        Raises:
            InputError: During iteration, if the file cannot be read to its end.
        """
        path = parse_raw_path(piece.file.path)
        with open_raw(path) as stream, explain_damage(path):
            holds_patents = BEGINNING.match(stream.read(HEAD_BYTES))
        with open_raw(path) as stream, explain_damage(path):
            if not holds_patents:
                tally.records += 1
                yield self._read_stream(stream, piece.file, tally)
                return
            for offset, length, data in _iter_patents(stream, self.max_record_bytes):
                tally.records += 1
                yield self._build_record(build_locator(piece.file, offset, length), data, tally)

    def _build_record(self, locator: Locator, data: bytes | None, tally: Tally) -> Record:
        """Build the record of a patent. A patent that is too large or cannot be read yields a dropped record.

        `data` contains the bytes of the patent; None if it is too large.
        """
        if data is None:
            return drop_too_large(locator, self.max_record_bytes)
        if drop := tally.enter(locator):
            return Record(locator=locator, text="", raw=data, drop=drop)
        try:
            return build_record(locator, data, read_patent(self.decode_text(data)))
        except BadRecord as error:
            return drop_damaged(locator, data, error)


def _iter_patents(stream: BufferedIOBase, max_bytes: int) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield (byte offset, length in bytes, content) of each patent in a patent file.

    The content is None if the patent has more than `max_bytes` bytes. Lines before the first patent are skipped.
    """
    offset = size = 0
    held: list[bytes] = []
    while data := stream.readline(max_bytes + 1):
        if FIRST_LINE.fullmatch(data):
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


def read_patent(text: str) -> dict[str, Any]:
    """Parse a patent into the fields of its record.

    Args:
        text: The patent, starting with its line PATN.

    Returns:
        A dictionary with the keys "text", "key" (the patent number), "title" (or None) and "date" (YYYY-MM-DD or None).

    Raises:
        BadRecord: If the patent has no number.
    """
    facts: dict[str, list[str]] = {}
    paragraphs: list[list[str]] = []
    section, lines = "", None  # the lines of the field that the next line may go on with
    for line in text.splitlines():
        match = None if line[:1] == " " else FIELD.fullmatch(line.rstrip())
        if match is None:
            if lines is not None:
                lines.append(line.strip())
            continue
        name, lines = match[1], None
        if name in SECTIONS or name in OTHER_SECTIONS:
            section = name
        elif section in SECTIONS and PARAGRAPHS.fullmatch(name):
            lines = [(match[2] or "").strip()]
            paragraphs.append(lines)
        elif not section and name not in facts:
            facts[name] = lines = [(match[2] or "").strip()]
    number, day = _join_lines(facts.get("WKU", [])), _join_lines(facts.get("ISD", []))
    if not number:
        raise BadRecord("no line WKU, which numbers a patent")
    date = "-".join((day[:4], day[4:6], day[6:])) if re.fullmatch(r"\d{8}", day, re.ASCII) else None
    title = _join_lines(facts.get("TTL", [])) or None
    body = DRAWN.sub(FORMULA, "\n\n".join(part for part in (title, *map(_join_lines, paragraphs)) if part))
    return {"text": body, "key": number[:8], "title": title, "date": date}


def _join_lines(lines: list[str]) -> str:
    """Join the lines of a patent's field with spaces. Empty lines are left out."""
    return " ".join(filter(None, lines))
