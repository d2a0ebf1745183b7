"""Patents as their office wrote them from 1976 to 2001: fields of four letters, a line each, and lines that go on.

Promises: title, abstract, description and claims in their order, a paragraph for each that the file has; tables and
formulas, which are drawn with characters, are left out. Costs: one pass over the lines.
"""

import re
from typing import Any

from corpora.sources.bytes.faults import BadRecord

FIELD = re.compile(r"([A-Z][A-Z0-9]{2,3})(?: {1,2}(.*))?")
SECTIONS = frozenset("ABST PARN GOVT BSUM DRWD DETD CLMS DCLM".split())
OTHER_SECTIONS = frozenset("INVT ASSG RLAP PRIR REIS CLAS UREF FREF OREF LREP PCTA".split())
PARAGRAPHS = re.compile(r"PAL|PAR|PA[0-9C]|STM")


def read_patent(text: str) -> dict[str, Any]:
    """Return the fields of a patent, from its line PATN on. Raises BadRecord where it has no number."""
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
    number, day = _joined(facts.get("WKU", [])), _joined(facts.get("ISD", []))
    if not number:
        raise BadRecord("no line WKU, which numbers a patent")
    date = "-".join((day[:4], day[4:6], day[6:])) if re.fullmatch(r"\d{8}", day, re.ASCII) else None
    title = _joined(facts.get("TTL", [])) or None
    body = "\n\n".join(part for part in (title, *map(_joined, paragraphs)) if part)
    return {"text": body, "key": number[:8], "title": title, "date": date}


def _joined(lines: list[str]) -> str:
    return " ".join(filter(None, lines))
