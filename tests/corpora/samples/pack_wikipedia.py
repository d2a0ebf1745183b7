"""Packs the pages of the sample into a multistream dump and its index.

Promises that the bytes are a function of the page files alone: no date, host or folder enters them. Costs a
tenth of a second. `python tests/corpora/samples/pack_wikipedia.py` rewrites both packed files.

The form is MediaWiki's export schema 0.11 (https://www.mediawiki.org/xml/export-0.11.xsd), split as the
published dumps are: one bzip2 stream for `<siteinfo>`, one for every few pages, one for the footer. The index
names the stream of each page by its byte offset. Its titles are escaped as in the XML, for the program that
writes the real index copies them from there.
"""

import bz2
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from xml.sax.saxutils import escape

from corpora.errors import InputError

FOLDER = Path(__file__).resolve().parents[3] / "corpora" / "samples" / "wikipedia"
PAGES = FOLDER / "pages"
DUMP_NAME = "samplewiki-20260101-pages-articles-multistream.xml.bz2"
INDEX_NAME = "samplewiki-20260101-pages-articles-multistream-index.txt.bz2"

# The real dumps put a hundred pages into a stream; with eight, a dump this small has several streams.
PAGES_PER_STREAM = 8

SCHEMA = "http://www.mediawiki.org/xml/export-0.11/"
# The article namespace has no name. Even numbers hold subjects, odd ones the talk about them.
NAMESPACES = {
    -2: "Media",
    -1: "Special",
    0: "",
    1: "Talk",
    2: "User",
    3: "User talk",
    4: "Project",
    5: "Project talk",
    6: "File",
    7: "File talk",
    8: "MediaWiki",
    9: "MediaWiki talk",
    10: "Template",
    11: "Template talk",
    12: "Help",
    13: "Help talk",
    14: "Category",
    15: "Category talk",
    100: "Portal",
    101: "Portal talk",
    118: "Draft",
    119: "Draft talk",
    710: "TimedText",
    711: "TimedText talk",
    828: "Module",
    829: "Module talk",
}

REQUIRED = ("title", "ns", "id", "revision", "timestamp")
OPTIONAL = ("redirect", "parent")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of the sample: what its file says."""

    title: str
    ns: int
    id: int
    revision: int
    timestamp: str
    redirect: str | None
    parent: int | None
    text: str


def read_page(path: Path) -> Page:
    """Read one page file: a header of `key: value` lines, an empty line, the wikitext.

    Raises InputError when the header lacks a key, has an unknown one, or a value is not of its kind.
    """
    head, separator, text = path.read_text(encoding="utf-8").partition("\n\n")
    header = dict(_header_field(line, path) for line in head.splitlines())
    missing = [key for key in REQUIRED if key not in header]
    if missing or not separator:
        what = f"lacks {', '.join(missing)}" if missing else "is not followed by an empty line"
        raise InputError(f"{path}: the header of the page {what}. See any other page of the folder.")
    if not TIMESTAMP.fullmatch(header["timestamp"]):
        raise InputError(f"{path}: the timestamp {header['timestamp']!r} is not like 2025-03-01T09:30:00Z.")
    return Page(
        title=header["title"],
        ns=_number(header["ns"], "ns", path),
        id=_number(header["id"], "id", path),
        revision=_number(header["revision"], "revision", path),
        timestamp=header["timestamp"],
        redirect=header.get("redirect"),
        parent=_number(header["parent"], "parent", path) if "parent" in header else None,
        text=text.removesuffix("\n"),
    )


def _header_field(line: str, path: Path) -> tuple[str, str]:
    key, separator, value = line.partition(": ")
    if not separator or key not in REQUIRED + OPTIONAL:
        known = ", ".join(REQUIRED + OPTIONAL)
        raise InputError(f"{path}: the header line {line!r} is not `key: value` with a key out of {known}.")
    return key, value


def _number(value: str, key: str, path: Path) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise InputError(f"{path}: {key} is {value!r} and should be a whole number.") from error


def read_pages(folder: Path) -> list[Page]:
    """All pages of a folder in the order of their ids, which is the order of a dump.

    Raises InputError when the folder has no pages or two of them share an id or a title.
    """
    paths = sorted(folder.glob("*.wiki"))
    if not paths:
        raise InputError(f"{folder}: no file here ends in .wiki; give the folder that holds the pages.")
    owners: dict[int | str, Path] = {}
    pages = []
    for path in paths:
        page = read_page(path)
        for key in (page.id, page.title):
            owner = owners.setdefault(key, path)
            if owner != path:
                raise InputError(f"{path}: its id or title is that of {owner}. Each page needs its own.")
        pages.append(page)
    return sorted(pages, key=lambda page: page.id)


def header_xml() -> str:
    """The opening of the dump: root element and `<siteinfo>`."""
    namespaces = "".join(_namespace_xml(key, name) for key, name in NAMESPACES.items())
    return (
        f'<mediawiki xmlns="{SCHEMA}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        f'xsi:schemaLocation="{SCHEMA} http://www.mediawiki.org/xml/export-0.11.xsd" version="0.11" '
        'xml:lang="en">\n'
        "  <siteinfo>\n"
        "    <sitename>Sample encyclopaedia</sitename>\n"
        "    <dbname>samplewiki</dbname>\n"
        "    <base>https://sample.example.org/wiki/Main_Page</base>\n"
        # The generator's name is of the sample's first day, and part of its bytes.
        "    <generator>corpora.samples.wikipedia.pack</generator>\n"
        "    <case>first-letter</case>\n"
        f"    <namespaces>\n{namespaces}    </namespaces>\n"
        "  </siteinfo>\n"
    )


def _namespace_xml(key: int, name: str) -> str:
    opening = f'      <namespace key="{key}" case="first-letter"'
    return f"{opening}>{name}</namespace>\n" if name else f"{opening} />\n"


def page_xml(page: Page) -> str:
    """One `<page>` with its only revision, as the export writes it."""
    redirect = f'    <redirect title="{_escaped(page.redirect)}" />\n' if page.redirect else ""
    parent = f"      <parentid>{page.parent}</parentid>\n" if page.parent is not None else ""
    return (
        "  <page>\n"
        f"    <title>{_escaped(page.title)}</title>\n"
        f"    <ns>{page.ns}</ns>\n"
        f"    <id>{page.id}</id>\n"
        f"{redirect}"
        "    <revision>\n"
        f"      <id>{page.revision}</id>\n"
        f"{parent}"
        f"      <timestamp>{page.timestamp}</timestamp>\n"
        "      <contributor>\n        <username>Sample author</username>\n        <id>1</id>\n"
        "      </contributor>\n"
        f"      <origin>{page.revision}</origin>\n"
        "      <model>wikitext</model>\n"
        "      <format>text/x-wiki</format>\n"
        f"{_text_xml(page.text)}"
        "    </revision>\n"
        "  </page>\n"
    )


def _text_xml(text: str) -> str:
    data = text.encode("utf-8")
    digest = base36_sha1(data)
    opening = f'      <text bytes="{len(data)}" sha1="{digest}" xml:space="preserve"'
    body = f"{opening}>{_escaped(text)}</text>\n" if text else f"{opening} />\n"
    return f"{body}      <sha1>{digest}</sha1>\n"


def _escaped(text: str) -> str:
    """Escape as the export does: double quotes in running text as well."""
    return escape(text, {'"': "&quot;"})


def base36_sha1(data: bytes) -> str:
    """SHA-1 as MediaWiki writes it: 31 digits to the base 36.

    >>> base36_sha1(b"")
    'phoiac9h4m842xq45sp7s6u21eteeq1'
    """
    value = int.from_bytes(hashlib.sha1(data, usedforsecurity=False).digest())
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits.rjust(31, "0")


def pack(pages: Iterable[Page]) -> tuple[bytes, bytes]:
    """The dump and its index, both compressed, of pages in the order given."""
    streams = [bz2.compress(header_xml().encode("utf-8"))]
    index = []
    for group in _groups(pages, PAGES_PER_STREAM):
        offset = sum(map(len, streams))
        index += [f"{offset}:{page.id}:{_escaped(page.title)}\n" for page in group]
        streams.append(bz2.compress("".join(map(page_xml, group)).encode("utf-8")))
    streams.append(bz2.compress(b"</mediawiki>\n"))
    return b"".join(streams), bz2.compress("".join(index).encode("utf-8"))


def _groups(pages: Iterable[Page], size: int) -> Iterator[Sequence[Page]]:
    remaining = iter(pages)
    while group := list(islice(remaining, size)):
        yield group


def main() -> None:
    """Rewrite the dump and the index of the sample."""
    dump, index = pack(read_pages(PAGES))
    (FOLDER / DUMP_NAME).write_bytes(dump)
    (FOLDER / INDEX_NAME).write_bytes(index)
    print(f"{DUMP_NAME}: {len(dump):,} bytes\n{INDEX_NAME}: {len(index):,} bytes")


if __name__ == "__main__":
    main()
