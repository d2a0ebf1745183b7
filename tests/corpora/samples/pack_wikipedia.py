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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).resolve().parents[3] / "corpora" / "samples" / "wikipedia"
PAGES = FOLDER / "pages"
DUMP_NAME = "samplewiki-20260101-pages-articles-multistream.xml.bz2"
INDEX_NAME = "samplewiki-20260101-pages-articles-multistream-index.txt.bz2"

# The real dumps put a hundred pages into a stream; with eight, a dump this small has several streams.
PAGES_PER_STREAM = 8

SCHEMA = "http://www.mediawiki.org/xml/export-0.11/"
# The article namespace has no name. Even numbers hold subjects, odd ones the talk about them.
NAMESPACES = dict(
    zip(
        (*range(-2, 16), 100, 101, 118, 119, 710, 711, 828, 829),
        "Media|Special||Talk|User|User talk|Project|Project talk|File|File talk|MediaWiki|MediaWiki talk|Template|"
        "Template talk|Help|Help talk|Category|Category talk|Portal|Portal talk|Draft|Draft talk|TimedText|"
        "TimedText talk|Module|Module talk".split("|"),
        strict=True,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of the sample: what its file says."""

    title: str
    ns: str
    id: str
    revision: str
    timestamp: str
    redirect: str = ""
    parent: str = ""
    text: str


def read_pages(folder: Path) -> list[Page]:
    """All pages of a folder in the order of their ids, which is the order of a dump.

    A page's file is a header of `key: value` lines, an empty line, the wikitext.
    """
    pages = []
    for path in folder.glob("*.wiki"):
        head, _, text = path.read_text(encoding="utf-8").partition("\n\n")
        header = dict(line.split(": ", 1) for line in head.splitlines())
        pages.append(Page(**header, text=text.removesuffix("\n")))
    return sorted(pages, key=lambda page: int(page.id))


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
    parent = f"      <parentid>{page.parent}</parentid>\n" if page.parent else ""
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


def pack(pages: Sequence[Page]) -> tuple[bytes, bytes]:
    """The dump and its index, both compressed, of pages in the order given."""
    streams = [bz2.compress(header_xml().encode("utf-8"))]
    index = []
    for start in range(0, len(pages), PAGES_PER_STREAM):
        group, offset = pages[start : start + PAGES_PER_STREAM], sum(map(len, streams))
        index += [f"{offset}:{page.id}:{_escaped(page.title)}\n" for page in group]
        streams.append(bz2.compress("".join(map(page_xml, group)).encode("utf-8")))
    streams.append(bz2.compress(b"</mediawiki>\n"))
    return b"".join(streams), bz2.compress("".join(index).encode("utf-8"))


if __name__ == "__main__":
    for packed_name, packed in zip((DUMP_NAME, INDEX_NAME), pack(read_pages(PAGES)), strict=True):
        (FOLDER / packed_name).write_bytes(packed)
