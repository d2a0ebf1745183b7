"""The shipped dump: its pages are the files next to it, and as varied as it claims to be."""

import bz2
import html
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from shipped import SAMPLES

FOLDER = SAMPLES / "wikipedia"
DUMP = FOLDER / "samplewiki-20260101-pages-articles-multistream.xml.bz2"
INDEX = FOLDER / "samplewiki-20260101-pages-articles-multistream-index.txt.bz2"
TAG = "{http://www.mediawiki.org/xml/export-0.11/}"

# What a cleaner of wikitext meets: each has to occur somewhere in the sample.
CONSTRUCTS = (
    "{{Infobox", "{{convert|", "{{cvt|", "{{formatnum:", "{{val|", "{{lang|fr|", "{{nihongo|", "{{circa|",
    "{{birth date|", "{{death date and age|", "{{coord|", "{{cite book", "{{quote|", "{{efn|", "{{Reflist}}",
    "{{Use dmy dates", "{{About|", "{{DEFAULTSORT:", "__NOTOC__", "<ref>", "<ref name=", "<references />",
    "<math>", "<gallery", "<nowiki>", "<syntaxhighlight", "<sub>", "<!--", "&nbsp;", "&mdash;", "{| class=",
    "\n|-", "\n* ", "\n** ", "\n# ", "\n; ", "\n:", "\n== ", "\n===", "'''", "[[File:", "|thumb",
    "[[Category:", "[https://", "#REDIRECT", "\n#redirect", "{{{name|", "~~~~", "\u00e9", "\u03ba", "\u6f09",
)  # fmt: skip


def page_files() -> list[Path]:
    return sorted((FOLDER / "pages").glob("*.wiki"))


def wikitext(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n\n", 1)[1]


def test_the_dump_is_well_formed_and_gives_the_texts_back() -> None:
    pages = ElementTree.fromstring(bz2.decompress(DUMP.read_bytes())).findall(f"{TAG}page")
    bodies = sorted(wikitext(path).removesuffix("\n") for path in page_files())
    assert sorted(page.findtext(f"{TAG}revision/{TAG}text", "") for page in pages) == bodies
    for page in pages:
        text = page.find(f"{TAG}revision/{TAG}text")
        assert text is not None
        assert int(text.attrib["bytes"]) == len((text.text or "").encode())
    ids = [int(page.findtext(f"{TAG}id", "")) for page in pages]
    assert ids == sorted(set(ids))
    index = [line.split(":", 2) for line in bz2.decompress(INDEX.read_bytes()).decode().splitlines()]
    assert [int(id) for _, id, _ in index] == ids
    for offset in {int(offset) for offset, *_ in index}:
        first = bz2.BZ2Decompressor().decompress(DUMP.read_bytes()[offset:])
        titles = [html.unescape(title) for at, _, title in index if int(at) == offset]
        assert [element.text for element in ElementTree.fromstring(b"<x>%b</x>" % first).iter("title")] == titles


def test_every_construct_of_wikitext_occurs() -> None:
    text = "\n".join(wikitext(path) for path in page_files())
    assert [construct for construct in CONSTRUCTS if construct not in text] == []
