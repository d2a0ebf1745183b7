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
    facts: dict[str, str] = {}
    paragraphs: list[str] = []
    section, goes_on = "", False
    for line in text.splitlines():
        match = None if line[:1] == " " else FIELD.fullmatch(line.rstrip())
        if match is None:
            if goes_on:
                paragraphs[-1] += " " + line.strip()
            elif section == "TTL" and line.strip():
                facts["TTL"] += " " + line.strip()
            continue
        name, value = match[1], (match[2] or "").strip()
        goes_on = section in SECTIONS and PARAGRAPHS.fullmatch(name) is not None
        if name in SECTIONS or name in OTHER_SECTIONS:
            section = name
        elif goes_on:
            paragraphs.append(value)
        elif section in ("", "PATN", "TTL"):
            facts.setdefault(name, value)
            section = "TTL" if name == "TTL" else ""
    number = facts.get("WKU", "")
    if not number:
        raise BadRecord("no line WKU, which numbers a patent")
    day = facts.get("ISD", "")
    date = "-".join((day[:4], day[4:6], day[6:])) if re.fullmatch(r"\d{8}", day, re.ASCII) else None
    title = facts.get("TTL") or None
    text = "\n\n".join(part for part in (title, *paragraphs) if part)
    return {"text": text, "key": number[:8], "title": title, "date": date}
